package gateway

import (
	"container/heap"
	"context"
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
	// leasePause keeps a database that fails, or has nothing to give, from being asked in a tight loop.
	leasePause = 250 * time.Millisecond
	// exemptAhead bounds how far exempt calls push the slots of the others ahead.
	exemptAhead = 5 * time.Second
	// maxDebt bounds the exempt calls that have yet to be counted in the longer windows.
	maxDebt = 1_000_000
	// quotaLook is how often a window that is used up is looked at again: another node may bring back
	// what it did not use.
	quotaLook = 2 * time.Second
	// maxUnused bounds the leases of which slots have yet to be brought back; what is beyond stays
	// counted.
	maxUnused = 256
	// reserveBound is how long a call in monitor waits for the database's answer.
	reserveBound = 100 * time.Millisecond
)

// wanted is how many slots to ask for: those who wait, and as many as were used lately in the time
// that a lease covers. mu is held.
func (ln *line) wanted(now time.Time) (commands, polls int) {
	for _, w := range ln.waiting {
		if w.poll() {
			polls++
		} else {
			commands++
		}
	}
	switch more := ln.demand(now); {
	case polls > 0:
		polls += more
	case commands > 0:
		commands += more
	}
	return commands, polls
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

// lease begins to ask for slots; mu is held. One query is under way at a time.
func (ln *line) lease(now time.Time, within time.Duration, commands, polls int) {
	ask := store.SlotAsk{Group: ln.key.group, Line: ln.key.operation, Commands: commands, Polls: polls, Spent: ln.debt, ExemptAhead: exemptAhead,
		Span: leaseSpan, Within: within, Slack: ln.limiter.slack}
	for _, b := range ln.unused {
		ask.Back = append(ask.Back, b)
	}
	clear(ln.unused) // where the lease fails it may have been done all the same: they stay counted
	done := make(chan struct{})
	ln.leasing = done
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), leaseBound)
		defer cancel()
		before := ln.limiter.clock.Now()
		got, err := ln.limiter.store.TakeSlots(ctx, ask)
		ln.leased(ask, before, ln.limiter.clock.Now(), got, err)
	}()
}

// leased takes what came of a lease.
//
// The statement's clock showed NowAt at some moment between before and after, on ours. A slot is
// therefore used from the latest to the earliest moment at which it may be, and dropped where
// that leaves nothing: however slow the query, a slot is never used outside its time.
func (ln *line) leased(ask store.SlotAsk, before, after time.Time, got store.SlotLease, err error) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.leasing = nil
	switch {
	case err != nil:
		ln.failed, ln.failUntil = verdict{retryAfter: time.Second, err: err}, after.Add(leasePause)
		ln.limiter.log.Error("gateway: a limit could not be asked", "group", int64(ln.key.group), "operation", string(ln.key.operation), "error", err)
		for ln.waiting.Len() > 0 {
			heap.Pop(&ln.waiting).(*waiter).answer <- ln.failed
		}
		return
	case !got.Limited:
		ln.debt = 0
		for ln.waiting.Len() > 0 { // taken away a moment ago
			heap.Pop(&ln.waiting).(*waiter).answer <- verdict{grant: &grant{}}
		}
		return
	}
	ln.debt = max(0, ln.debt-ask.Spent)
	got = plantedLease(got)
	ln.keep(before, after, got)
	ln.shut(ask, after, got)
	if ln.debt > 0 {
		ln.lease(after, 0, 0, 0)
	}
	ln.refuse()
}

// keep takes the slots of a lease in hand; mu is held. The last of them are the polls'.
func (ln *line) keep(before, after time.Time, got store.SlotLease) {
	use := time.Duration(float64(ln.limiter.slack) * useShare)
	for i := range got.Slots {
		ahead := got.FirstAt.Add(time.Duration(i) * got.Step).Sub(got.NowAt)
		s := slot{start: after.Add(ahead), until: before.Add(ahead + use), leaseAt: got.FirstAt,
			polls: i >= got.Slots-got.Polls || ln.limits.windows == ""}
		if s.start.Before(s.until) {
			ln.slots = append(ln.slots, s)
		} else {
			ln.back(s)
		}
	}
}

// shut notes that a lease found nothing, for all or for polls; mu is held.
func (ln *line) shut(ask store.SlotAsk, after time.Time, got store.SlotLease) {
	if ask.Commands+ask.Polls == 0 {
		return
	}
	until := func(at time.Time) shut {
		at = after.Add(at.Sub(got.NowAt))
		look := after.Add(quotaLook)
		if look.After(at) {
			look = at
		}
		return shut{until: look, quotaUntil: at}
	}
	ln.full, ln.pollsFull, ln.noneUntil = shut{}, shut{}, time.Time{}
	if got.Slots == 0 {
		ln.full.until = after.Add(got.FirstAt.Sub(got.NowAt))
		ln.noneUntil = after.Add(leasePause)
	}
	if !got.FullUntil.IsZero() {
		ln.full = until(got.FullUntil)
	}
	if !got.PollsUntil.IsZero() {
		ln.pollsFull = until(got.PollsUntil)
	}
}

// back notes a slot that was not used, so that the longer windows have it again; mu is held.
func (ln *line) back(s slot) {
	if ln.limits.windows == "" || s.leaseAt.IsZero() {
		return
	}
	b, ok := ln.unused[s.leaseAt]
	if !ok && len(ln.unused) >= maxUnused {
		return
	}
	b.LeaseAt = s.leaseAt
	b.Slots++
	if s.polls {
		b.Polls++
	}
	ln.unused[s.leaseAt] = b
}

// bringBack gives slots back that nobody has used, where no lease does so soon.
func (ln *line) bringBack() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	now := ln.limiter.clock.Now()
	ln.dropOld(now)
	if ln.leasing == nil && !now.Before(ln.failUntil) && !ln.gone && (len(ln.unused) > 0 || ln.debt > 0) {
		ln.lease(now, 0, 0, 0)
	}
}

// spend takes the next slot for an exempt call, which does not wait for it: others have one fewer.
func (ln *line) spend() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	now := ln.limiter.clock.Now()
	ln.dropOld(now)
	if len(ln.slots) > 0 {
		ln.pop(0, now)
		return
	}
	ln.debt = min(ln.debt+1, maxDebt)
	if ln.leasing == nil && !now.Before(ln.failUntil) && !ln.gone {
		ln.lease(now, 0, 0, 0)
	}
}

// reserve takes a slot that falls due before end, as a call would that waits, without waiting for
// it: false says that the call would have been blocked (G3). A database that does not answer
// blocks nothing here.
func (ln *line) reserve(ctx context.Context, poll bool, end time.Time) bool {
	for try := 0; ; try++ {
		ln.mu.Lock()
		now := ln.limiter.clock.Now()
		ln.dropOld(now)
		i := ln.next(poll)
		switch {
		case ln.gone, now.Before(ln.failUntil):
			ln.mu.Unlock()
			return true
		case i >= 0 && !ln.slots[i].start.After(end):
			ln.pop(i, now)
			ln.mu.Unlock()
			return true
		case end.Before(ln.earliest(poll)), try == 2:
			ln.mu.Unlock()
			return false
		}
		if ln.leasing == nil {
			commands, polls := ln.wanted(now)
			if poll {
				polls += 1 + ln.demand(now)
			} else {
				commands++
			}
			ln.lease(now, max(end.Sub(now), 0), commands, polls)
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
