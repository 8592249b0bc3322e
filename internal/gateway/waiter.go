package gateway

import (
	"cmp"
	"context"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
)

// verdict is what a waiter is told.
type verdict struct {
	grant      *grant
	retryAfter time.Duration
	err        error  // the limit could not be asked
	because    string // why there is no grant; empty: no slot in time
}

// waiter waits for a slot or a place. Its index is in the heap, -1 outside.
type waiter struct {
	rank, priority int
	order          uint64
	end            time.Time
	answer         chan verdict
	index          int
}

func newWaiter(call Call, end time.Time) *waiter {
	return &waiter{rank: call.rank(), priority: call.Priority, end: end, answer: make(chan verdict, 1)}
}

// queue is what a waiter waits in.
type queue interface {
	// join queues a waiter; it gets one answer, unless it leaves before.
	join(*waiter)
	// leave takes a waiter out and says what it is told: no, or the yes that crossed its going.
	leave(*waiter) verdict
}

// await waits for the answer, until the waiter's end or the context's. An error comes without a grant.
func await(ctx context.Context, c clock.Clock, q queue, w *waiter) (v verdict, err error) {
	q.join(w)
	timer := c.NewTimer(w.end.Sub(c.Now()))
	defer timer.Stop()
	select {
	case v = <-w.answer:
	case <-timer.C():
		v = q.leave(w)
	case <-ctx.Done():
		if v = q.leave(w); v.grant == nil {
			return v, ctx.Err()
		}
	}
	return v, nil
}

// poll says that the waiter may use the polls' share alone.
func (w *waiter) poll() bool { return w.rank == rankPoll }

// waiterHeap orders waiters: higher rank, then higher priority, then who came first (G5).
type waiterHeap []*waiter

func (h waiterHeap) Len() int { return len(h) }

func (h waiterHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(b.rank, a.rank), cmp.Compare(b.priority, a.priority), cmp.Compare(a.order, b.order)) < 0
}

func (h waiterHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *waiterHeap) Push(x any) {
	w := x.(*waiter)
	w.index = len(*h)
	*h = append(*h, w)
}

func (h *waiterHeap) Pop() any {
	old := *h
	w := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	w.index = -1
	return w
}
