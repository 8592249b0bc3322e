package faults_test

import (
	"fmt"
	"runtime"
	"sync"
	"time"
)

// stuckAfter is how long a schedule may take of the world's time before it is called stuck: whatever
// asks the database again and again, or waits for a lock whose holder sleeps, stops the bubble's time.
const stuckAfter = 90 * time.Second

// watch is outside the bubble, where time goes on.
type watch struct {
	timer  *time.Timer
	mu     sync.Mutex
	stacks string
}

// watchOver makes a schedule that is stuck fail: first it loses its database, for good, which ends all
// waiting for it. Where that does not help the process ends, and says of which schedule.
func watchOver(p plan, b *database) *watch {
	w := &watch{}
	w.timer = time.AfterFunc(stuckAfter, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.stacks = stacks()
		b.warm.breakAll()
		w.timer = time.AfterFunc(stuckAfter, func() { panic(fmt.Sprintf("schedule %s is stuck:\n%s", describe(p), stacks())) })
	})
	return w
}

// end ends the watch and says where everything stood when the schedule was stuck, nothing if it was not.
func (w *watch) end() string {
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
	return w.stacks
}

func stacks() string {
	text := make([]byte, 4<<20)
	return string(text[:runtime.Stack(text, true)])
}
