package gateway

import (
	"cmp"
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

const (
	// leaseSpan is K: how much time the slots of one lease cover at most. A larger one costs fewer
	// queries, a smaller one wastes less where nodes' demand changes.
	leaseSpan = 300 * time.Millisecond
	// leaseAhead is how long before the last slot in hand the next are asked for.
	leaseAhead = 100 * time.Millisecond
	// leaseBound is how long one lease may take. What comes back later than a slot's use is
	// of no value anyway.
	leaseBound = 2 * time.Second
	// leasePause keeps a database that fails from being asked in a tight loop.
	leasePause = 250 * time.Millisecond
	// exemptAhead bounds how far exempt calls push the slots of the others ahead, debtSpan how much
	// of it one lease takes.
	exemptAhead = 5 * time.Second
	debtSpan    = 3 * time.Second
	// maxDebt bounds the exempt calls that have yet to take their slot.
	maxDebt = 1000
	// reserveBound is how long a call in monitor waits for the database's answer.
	reserveBound = 100 * time.Millisecond
)

// useShare is the part of δ within which a slot may be used after its time. The rest is for what
// happens between the last look at the clock and the carrier's: the scheduler's and the network's
// unevenness.
const useShare = 0.6

// slot is a time at which one request may be sent, by our clock: from start, before until.
type slot struct{ start, until time.Time }

// verdict is what a waiter is told.
type verdict struct {
	grant      *grant
	retryAfter time.Duration
	err        error // the limit could not be asked
}

// waiter waits for a slot. Its index is in the line's heap, -1 outside.
type waiter struct {
	rank, priority int
	order          uint64
	end            time.Time
	answer         chan verdict
	index          int
}

// line is one limit: the slots in hand and those who wait for one, best first.
type line struct {
	limiter *limiter
	key     lineKey

	mu        sync.Mutex
	perSecond int
	waiting   waiterHeap
	order     uint64
	slots     []slot
	used      int       // slots used since usedSince, to know how many to ask for
	usedSince time.Time //
	debt      int       // slots that exempt calls took before there were any
	fullUntil time.Time // before it, a lease would find nothing within reach
	failed    verdict   // how the last lease failed
	failUntil time.Time
	leasing   chan struct{} // closed when the lease under way has ended; nil: none
	serving   bool          // serve runs
	wake      chan struct{}
	gone      bool // the limit was taken away
}

func newLine(l *limiter, key lineKey, perSecond int) *line {
	return &line{limiter: l, key: key, perSecond: perSecond, wake: make(chan struct{}, 1)}
}

func (ln *line) changed(perSecond int) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.perSecond != perSecond {
		ln.perSecond, ln.fullUntil = perSecond, time.Time{}
	}
}

// free lets all go: the limit is no more.
func (ln *line) free() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.gone = true
	for ln.waiting.Len() > 0 {
		heap.Pop(&ln.waiting).(*waiter).answer <- verdict{grant: &grant{}}
	}
}

// join queues a waiter; it gets one answer, unless it leaves before.
func (ln *line) join(w *waiter) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	now := ln.limiter.clock.Now()
	switch {
	case ln.gone:
		w.index = -1
		w.answer <- verdict{grant: &grant{}}
		return
	case w.end.Before(ln.earliest()):
		w.index = -1
		w.answer <- verdict{retryAfter: ln.earliest().Sub(w.end)}
		return
	case now.Before(ln.failUntil):
		w.index = -1
		w.answer <- ln.failed
		return
	}
	ln.order++
	w.order = ln.order
	heap.Push(&ln.waiting, w)
	if !ln.serving {
		ln.serving = true
		go ln.serve()
		return
	}
	select {
	case ln.wake <- struct{}{}:
	default:
	}
}

// leave takes a waiter out and says what it is told: to come again, or, where a grant crossed its
// going, that grant.
func (ln *line) leave(w *waiter) verdict {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if w.index < 0 {
		return <-w.answer
	}
	heap.Remove(&ln.waiting, w.index)
	ahead := time.Duration(ln.waiting.Len()) * time.Second / time.Duration(max(ln.perSecond, 1))
	return verdict{retryAfter: max(ahead, ln.earliest().Sub(w.end))}
}

// earliest is the time before which no slot can be had, as far as is known; mu is held. Whoever
// gives up sooner waits in vain, and may come again so much later that the slot is within reach.
func (ln *line) earliest() time.Time {
	if len(ln.slots) > 0 {
		return ln.slots[0].start
	}
	return ln.fullUntil
}

// serve hands slots to waiters as they come due, for as long as somebody waits.
func (ln *line) serve() {
	timer := ln.limiter.clock.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		next, leasing, ok := ln.step()
		if !ok {
			return
		}
		timer.Reset(next)
		select {
		case <-timer.C():
		case <-ln.wake:
		case <-leasing:
		}
	}
}

// step grants what is due, asks for more where needed, and says when to look again at the latest;
// leasing is closed when the lease under way has ended. ok is false when nobody waits.
func (ln *line) step() (next time.Duration, leasing <-chan struct{}, ok bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	now := ln.limiter.clock.Now()
	ln.dropOld(now)
	for ln.waiting.Len() > 0 && len(ln.slots) > 0 && !ln.slots[0].start.After(now) {
		w := heap.Pop(&ln.waiting).(*waiter)
		w.answer <- verdict{grant: &grant{until: ln.pop(now).until}}
	}
	if ln.waiting.Len() == 0 {
		ln.serving = false
		return 0, nil, false
	}
	next = leasePause
	if len(ln.slots) > 0 {
		next = ln.slots[0].start.Sub(now)
	}
	if ln.leasing == nil {
		low := len(ln.slots) < ln.waiting.Len() && (len(ln.slots) == 0 || ln.slots[len(ln.slots)-1].start.Sub(now) < leaseAhead)
		if low && !now.Before(ln.failUntil) {
			ln.lease(now, ln.within(now))
		} else if low {
			next = min(next, ln.failUntil.Sub(now))
		}
	}
	return next, ln.leasing, true
}

// within is how far ahead a slot is of use: until the last of the waiting gives up.
func (ln *line) within(now time.Time) time.Duration {
	last := now
	for _, w := range ln.waiting {
		if w.end.After(last) {
			last = w.end
		}
	}
	return last.Sub(now)
}

// lease begins to ask for slots; mu is held. One query is under way at a time.
func (ln *line) lease(now time.Time, within time.Duration) {
	ask := store.SlotAsk{Group: ln.key.group, Operation: ln.key.operation, Want: ln.waiting.Len() + ln.demand(now), Span: leaseSpan,
		Within: within, Slack: ln.limiter.slack}
	if ln.debt > 0 {
		ask.Want += ln.debt
		ask.Within = max(within, exemptAhead)
		ask.Span += min(time.Duration(ln.debt)*time.Second/time.Duration(max(ln.perSecond, 1)), debtSpan)
	}
	done := make(chan struct{})
	ln.leasing = done
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), leaseBound)
		defer cancel()
		before := ln.limiter.clock.Now()
		got, err := ln.limiter.store.TakeSlots(ctx, ask)
		ln.leased(before, ln.limiter.clock.Now(), got, err)
	}()
}

// demand is how many slots were used lately in the time that a lease covers.
func (ln *line) demand(now time.Time) int {
	passed := now.Sub(ln.usedSince)
	if passed <= 0 || ln.used == 0 {
		return 0
	}
	n := int(float64(ln.used) * float64(leaseSpan) / float64(max(passed, leaseSpan)))
	if passed > 4*leaseSpan {
		ln.used, ln.usedSince = n, now.Add(-leaseSpan)
	}
	return n + 1
}

// leased takes what came of a lease.
//
// The statement's clock showed NowAt at some moment between before and after, on ours. A slot is
// therefore used from the latest to the earliest moment at which it may be, and dropped where
// that leaves nothing: however slow the query, a slot is never used outside its time.
func (ln *line) leased(before, after time.Time, got store.SlotLease, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.leasing = nil
	use := time.Duration(float64(ln.limiter.slack) * useShare)
	switch {
	case err != nil:
		ln.failed, ln.failUntil = verdict{retryAfter: time.Second, err: err}, after.Add(leasePause)
		ln.limiter.log.Error("gateway: a limit could not be asked", "group", int64(ln.key.group), "operation", string(ln.key.operation), "error", err)
		for ln.waiting.Len() > 0 {
			heap.Pop(&ln.waiting).(*waiter).answer <- ln.failed
		}
		return
	case !got.Limited:
		for ln.waiting.Len() > 0 { // taken away a moment ago
			heap.Pop(&ln.waiting).(*waiter).answer <- verdict{grant: &grant{}}
		}
		return
	case got.Slots == 0:
		ln.fullUntil = after.Add(got.FirstAt.Sub(got.NowAt))
		ln.debt = 0 // pushed as far ahead as exempt calls may
		ln.refuse()
		return
	}
	for i := range got.Slots {
		ahead := got.FirstAt.Add(time.Duration(i) * got.Step).Sub(got.NowAt)
		s := slot{start: after.Add(ahead), until: before.Add(ahead + use)}
		switch {
		case ln.debt > 0:
			ln.debt-- // an exempt call went before and takes this one
		case s.start.Before(s.until):
			ln.slots = append(ln.slots, s)
		}
	}
	if ln.debt > 0 {
		ln.lease(after, exemptAhead)
	}
	ln.refuse()
}

// refuse answers those who would wait in vain; mu is held.
func (ln *line) refuse() {
	earliest := ln.earliest()
	kept := ln.waiting[:0:0]
	for _, w := range ln.waiting {
		if !w.end.Before(earliest) {
			kept = append(kept, w)
			continue
		}
		w.index = -1
		w.answer <- verdict{retryAfter: earliest.Sub(w.end)}
	}
	ln.waiting = kept
	for i, w := range ln.waiting {
		w.index = i
	}
	heap.Init(&ln.waiting)
}

// dropOld drops the slots that can no longer be used; mu is held.
func (ln *line) dropOld(now time.Time) {
	n := 0
	for n < len(ln.slots) && !now.Before(ln.slots[n].until) {
		n++
	}
	ln.slots = ln.slots[n:]
}

// pop takes the first slot; mu is held.
func (ln *line) pop(now time.Time) slot {
	s := ln.slots[0]
	ln.slots = ln.slots[1:]
	if ln.used == 0 || now.Sub(ln.usedSince) > 10*leaseSpan {
		ln.used, ln.usedSince = 0, now
	}
	ln.used++
	return s
}

// spend takes the next slot for an exempt call, which does not wait for it: others have one fewer.
func (ln *line) spend() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	now := ln.limiter.clock.Now()
	ln.dropOld(now)
	if len(ln.slots) > 0 {
		ln.pop(now)
		return
	}
	ln.debt = min(ln.debt+1, maxDebt)
	if ln.leasing == nil && !now.Before(ln.failUntil) && !ln.gone {
		ln.lease(now, exemptAhead)
	}
}

// reserve takes a slot that falls due before end, as a call would that waits, without waiting for
// it: false says that the call would have been blocked (G3). A database that does not answer
// blocks nothing here.
func (ln *line) reserve(ctx context.Context, end time.Time) bool {
	for try := 0; ; try++ {
		ln.mu.Lock()
		now := ln.limiter.clock.Now()
		ln.dropOld(now)
		switch {
		case ln.gone, now.Before(ln.failUntil):
			ln.mu.Unlock()
			return true
		case len(ln.slots) > 0 && !ln.slots[0].start.After(end):
			ln.pop(now)
			ln.mu.Unlock()
			return true
		case end.Before(ln.earliest()), try == 2:
			ln.mu.Unlock()
			return false
		}
		if ln.leasing == nil {
			ln.lease(now, max(end.Sub(now), 0))
		}
		leasing := ln.leasing
		ln.mu.Unlock()
		timer := ln.limiter.clock.NewTimer(reserveBound)
		select {
		case <-leasing:
			timer.Stop()
		case <-timer.C():
			return true
		case <-ctx.Done():
			timer.Stop()
			return true
		}
	}
}

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
