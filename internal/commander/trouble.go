package commander

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// troubleLimit is how many times in a row a command may break its step before it is set aside.
	troubleLimit = 3
	// setAsideFor is how long, and troublePause how long it rests before that.
	setAsideFor  = time.Hour
	troublePause = 5 * time.Second
	// maxTroubles bounds the memory: beyond it the counting starts anew.
	maxTroubles = 10_000
)

// panicError is a panic that a step recovered from.
type panicError struct{ value any }

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// rowTrouble counts, for each command, steps that broke in a row: panics, and statements that the
// database refused because of the very row (F5, F16). What concerns the database as a whole does
// not count.
type rowTrouble struct {
	mu     sync.Mutex
	broken map[simwarden.CommandID]int
	reads  map[simwarden.CommandID]int
}

// note counts what became of a step, and puts a command off that breaks it, so that others go on.
func (r *rowTrouble) note(ctx context.Context, m *Commander, id simwarden.CommandID, err error) {
	_, panicked := err.(*panicError) //nolint:errorlint // ours, and never wrapped
	if err == nil || !panicked && !store.IsOneRows(err) {
		if err == nil {
			r.forget(&r.broken, id)
		}
		return
	}
	n := r.count(&r.broken, id)
	pause, heldBy := troublePause, "an error in its last step"
	if n >= troubleLimit {
		pause, heldBy = setAsideFor, "set aside after errors"
		m.metrics.steps.WithLabelValues("set_aside").Inc()
		if err := m.Store.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: fmt.Sprintf("command_set_aside:%d", id),
			Message: fmt.Sprintf("command %d broke its step %d times in a row and is set aside for %s: %v", id, n, setAsideFor, err)}); err != nil {
			m.Log.ErrorContext(ctx, "raise alert of set-aside command", "command", id, "error", err)
		}
	}
	if err := m.Store.PutOffCommand(ctx, id, m.Store.Now().Add(pause), heldBy); err != nil {
		m.Log.ErrorContext(ctx, "put off command", "command", id, "error", err)
	}
}

// readFailed counts a read that failed, and gives how many have in a row.
func (r *rowTrouble) readFailed(id simwarden.CommandID) int { return r.count(&r.reads, id) }

// readWorked forgets them.
func (r *rowTrouble) readWorked(id simwarden.CommandID) { r.forget(&r.reads, id) }

func (r *rowTrouble) count(in *map[simwarden.CommandID]int, id simwarden.CommandID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if *in == nil || len(*in) >= maxTroubles {
		*in = map[simwarden.CommandID]int{}
	}
	(*in)[id]++
	return (*in)[id]
}

func (r *rowTrouble) forget(in *map[simwarden.CommandID]int, id simwarden.CommandID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(*in, id)
}
