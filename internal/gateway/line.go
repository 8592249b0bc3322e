package gateway

import (
	"container/heap"
	"sync"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

// useShare is the part of δ within which a slot may be used after its time. The rest is for what
// happens between the last look at the clock and the carrier's: the scheduler's and the network's
// unevenness.
const useShare = 0.6

// slot is a time at which one request may be sent, by our clock: from start, before until. Only a
// slot with polls may be used by a poll; any command may use it as well.
type slot struct {
	start, until time.Time
	polls        bool
	leaseAt      time.Time // of its lease, by the database's clock
}

// line is one limit: the slots in hand and those who wait for one, best first.
type line struct {
	limiter *limiter
	key     lineKey

	mu        sync.Mutex
	limits    lineLimits
	waiting   waiterHeap
	order     uint64
	slots     []slot
	used      int       // slots used since usedSince, to know how many to ask for
	usedSince time.Time //
	debt      int       // exempt calls made without a slot that no lease has counted yet
	full      shut      // for all
	pollsFull shut      // for polls
	failed    verdict   // how the last lease failed
	failUntil time.Time
	noneUntil time.Time     // the last lease found nothing: none is asked for before, save for who comes anew
	leasing   chan struct{} // closed when the lease under way has ended; nil: none
	serving   bool          // serve runs
	wake      chan struct{}
	gone      bool // the limit was taken away, or its calls fall under another
	moved     bool // the latter
	unused    map[time.Time]store.SlotsBack
}

// shut says that a lease would find nothing: before until by what is known, which is looked at anew
// then; quotaUntil is when a longer window has room again, zero where none is used up.
type shut struct{ until, quotaUntil time.Time }

// opens is the time before which nothing is expected: nobody waits for a quota that frees later than
// the call gives up, though somebody may look again before.
func (s shut) opens(now time.Time) time.Time {
	if s.quotaUntil.After(s.until) && now.Before(s.until) {
		return s.quotaUntil
	}
	return s.until
}

// lineLimits are a line's settings.
type lineLimits struct {
	perSecond int
	windows   string // in words, to see that they changed; empty: none
}

func newLine(l *limiter, key lineKey, limits lineLimits) *line {
	return &line{limiter: l, key: key, limits: limits, wake: make(chan struct{}, 1), unused: map[time.Time]store.SlotsBack{}}
}

func (ln *line) changed(limits lineLimits) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.limits != limits {
		ln.limits, ln.full, ln.pollsFull = limits, shut{}, shut{}
	}
}

// free lets all go: the limit is no more. Where another holds now, they are told to come again at once.
func (ln *line) free(moved bool) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.gone, ln.moved = true, moved
	for ln.waiting.Len() > 0 {
		heap.Pop(&ln.waiting).(*waiter).answer <- ln.goneVerdict()
	}
}

// goneVerdict is what those are told who come to a line that is no more; mu is held.
func (ln *line) goneVerdict() verdict {
	if ln.moved {
		return verdict{retryAfter: minRetryAfter}
	}
	return verdict{grant: &grant{}}
}

// join queues a waiter; it gets one answer, unless it leaves before.
func (ln *line) join(w *waiter) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	now := ln.limiter.clock.Now()
	switch {
	case ln.gone:
		w.index = -1
		w.answer <- ln.goneVerdict()
		return
	case w.end.Before(ln.earliest(w.poll())):
		w.index = -1
		w.answer <- ln.refusal(w)
		return
	case now.Before(ln.failUntil):
		w.index = -1
		w.answer <- ln.failed
		return
	}
	ln.noneUntil = time.Time{} // it may wait longer than those for whom there was none, or be no poll
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
	v := ln.refusal(w)
	v.retryAfter = max(v.retryAfter, time.Duration(ln.waiting.Len())*time.Second/time.Duration(max(ln.limits.perSecond, 1)))
	return v
}

// earliest is the time before which no slot can be had, as far as is known; mu is held. Whoever
// gives up sooner waits in vain, and may come again so much later that the slot is within reach.
func (ln *line) earliest(poll bool) time.Time {
	if i := ln.next(poll); i >= 0 {
		return ln.slots[i].start
	}
	now := ln.limiter.clock.Now()
	at := ln.full.opens(now)
	if polls := ln.pollsFull.opens(now); poll && polls.After(at) {
		return polls
	}
	return at
}

// refusal tells a waiter when to come again; mu is held. Where a longer window is used up, that is
// when it has room.
func (ln *line) refusal(w *waiter) verdict {
	v := verdict{retryAfter: ln.earliest(w.poll()).Sub(w.end)}
	quota := ln.full.quotaUntil
	if w.poll() && ln.pollsFull.quotaUntil.After(quota) {
		quota = ln.pollsFull.quotaUntil
	}
	if now := ln.limiter.clock.Now(); quota.After(now) && ln.next(w.poll()) < 0 {
		v.retryAfter, v.because = max(v.retryAfter, quota.Sub(now)), "the limit group's quota is used up"
	}
	return v
}

// next is the index of the first slot that a poll, or any other call, may use; -1 for none. mu is held.
func (ln *line) next(poll bool) int {
	for i, s := range ln.slots {
		if s.polls || !poll {
			return i
		}
	}
	return -1
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
	next = leasePause
	for ln.waiting.Len() > 0 {
		i := ln.next(ln.waiting[0].poll())
		if i < 0 {
			break
		}
		if ahead := ln.slots[i].start.Sub(now); ahead > 0 {
			next = ahead
			break
		}
		w := heap.Pop(&ln.waiting).(*waiter)
		s := ln.pop(i, now)
		w.answer <- verdict{grant: &grant{until: s.until, line: ln, slot: s}}
	}
	if ln.waiting.Len() == 0 {
		ln.serving = false
		return 0, nil, false
	}
	if ln.leasing == nil {
		again := ln.failUntil
		if ln.noneUntil.After(again) {
			again = ln.noneUntil
		}
		if low := ln.low(now); low && !now.Before(again) {
			commands, polls := ln.wanted(now)
			ln.lease(now, ln.within(now), commands, polls)
		} else if low {
			next = min(next, again.Sub(now))
		}
	}
	return next, ln.leasing, true
}

// low says that more slots should be asked for; mu is held.
func (ln *line) low(now time.Time) bool {
	usable, last := 0, time.Time{}
	poll := ln.waiting[0].poll()
	for _, s := range ln.slots {
		if s.polls || !poll {
			usable, last = usable+1, s.start
		}
	}
	return usable < ln.waiting.Len() && (usable == 0 || last.Sub(now) < leaseAhead)
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

// refuse answers those who would wait in vain; mu is held.
func (ln *line) refuse() {
	kept := ln.waiting[:0:0]
	for _, w := range ln.waiting {
		if !w.end.Before(ln.earliest(w.poll())) {
			kept = append(kept, w)
			continue
		}
		w.index = -1
		w.answer <- ln.refusal(w)
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
		ln.back(ln.slots[n])
		n++
	}
	ln.slots = ln.slots[n:]
}

// pop takes a slot; mu is held.
func (ln *line) pop(i int, now time.Time) slot {
	s := ln.slots[i]
	if i == 0 {
		ln.slots = ln.slots[1:]
	} else {
		ln.slots = append(ln.slots[:i:i], ln.slots[i+1:]...)
	}
	if ln.used == 0 || now.Sub(ln.usedSince) > 10*leaseSpan {
		ln.used, ln.usedSince = 0, now
	}
	ln.used++
	return s
}
