package poller

import (
	"context"
	"encoding/json"
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// pagesBeyond is how many pages a pass may have over four for each SIM that is known: a page may
	// be empty, and a carrier may have more SIMs than the fleet.
	pagesBeyond = 2000
	// pageTries is how often a page that fails is asked for within a pass.
	pageTries = 3
	// pageRetry is the pause before a page that failed is asked for again, four times as long at each
	// further failure: a whole fleet waits for it, so it comes sooner than a single SIM's (P2).
	pageRetry = 3 * time.Second
	// linger is how long a batch of pages waits to be filled: a statement costs the database nearly
	// the same for a hundred rows as for a thousand.
	linger = 200 * time.Millisecond
	// zeroBatch is how many SIMs without usage are handed in at a time.
	zeroBatch = 500
)

var listOperationAt = [kinds]simwarden.Operation{simwarden.OpListSIMs, simwarden.OpListUsage, ""}

// Why a pass over a list ended early. Nothing is concluded from it (F32).
var (
	errCursorTwice = errors.New("the list gave a page's key twice")
	errTooLong     = errors.New("the list does not end")
	errLeaseLost   = errors.New("the list is swept by another node by now")
)

// sweep is the progress of one pass, kept with the lease so that another node goes on where this
// one stopped.
type sweep struct {
	Cursor    string    `json:"cursor,omitempty"`
	BegunAt   time.Time `json:"begun_at,omitzero"`   // zero: no pass is under way
	NextAt    time.Time `json:"next_at,omitzero"`    // of the next pass
	Passes    uint64    `json:"passes,omitempty"`    // complete ones
	FailedAt  string    `json:"failed_at,omitempty"` // the cursor at which the pass broke off
	resumed   bool      // begun by another, or before a restart
	period    time.Time // of the usage that was read
	periodEnd time.Time
	odd       map[simwarden.SIMID]bool // usage that is not believed
}

// sweeps is what is known of the passes over a list of this account.
type sweeps struct {
	last, before time.Time // when the latest two complete passes began
	pageAt       time.Time // when this node last had a page; zero: it does not sweep
	broken       int       // passes in a row that broke off
}

// sweepSilence is how long after its last page a pass is trusted to go on.
const sweepSilence = time.Minute

// mayName says that a SIM that was last read at the instant may still be named by the pass under
// way: it was not left out by two complete ones, and passes do not keep breaking off.
func (s sweeps) mayName(read, now time.Time) bool {
	return now.Sub(s.pageAt) < sweepSilence && s.broken < 2 && (s.before.IsZero() || !read.Before(s.before))
}

// sweeper makes passes over one list of an account. One node does so at a time.
type sweeper struct {
	*account
	kind  int
	lease store.Lease
	sweep sweep
	// absent are SIMs of unknown usage that one complete pass did not name.
	absent map[simwarden.SIMID]bool
	seen   map[uint64]struct{} // cursors of this pass
	seed   maphash.Seed
	taken  time.Time // when the lease was last renewed
	since  time.Time // when this node took the list over
	stored time.Time // when the cursor was last kept
}

// sweepForever makes passes while the lease can be had, until the context ends.
func (a *account) sweepForever(ctx context.Context, kind int) {
	s := &sweeper{account: a, kind: kind, seed: maphash.MakeSeed()}
	name := map[int]string{0: "list:", 1: "list_usage:"}[kind] + a.name
	for ctx.Err() == nil {
		lease, ok, err := a.p.o.Store.TakeLease(ctx, name, a.p.o.Holder, a.p.o.LeaseFor)
		if err != nil || !ok {
			pause := a.p.o.LeaseFor / 2
			if err != nil { // a database that was away is soon back, and so is the list (F9)
				pause = min(pause, a.p.pace.LimitedRetry)
			}
			if err != nil && ctx.Err() == nil {
				a.p.o.Log.Error("poller: lease of a list", "account", a.name, "list", kindAt[kind], "error", err)
			}
			_ = a.p.o.Clock.Sleep(ctx, pause)
			continue
		}
		if lease.Epoch != s.lease.Epoch {
			s.resume(lease)
		}
		s.lease, s.taken = lease, a.p.o.Clock.Now()
		if s.wait(ctx) {
			s.pass(ctx)
		}
	}
	if s.lease.Name != "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingBack)
		defer cancel()
		if err := a.p.o.Store.GiveLease(ctx, s.lease); err != nil {
			a.p.o.Log.Error("poller: lease of a list was not given back", "account", a.name, "error", err)
		}
	}
}

// resume takes up what the holder before left. A word that is not understood begins anew.
func (s *sweeper) resume(lease store.Lease) {
	s.sweep, s.absent = sweep{}, nil
	if lease.Cursor == "" || json.Unmarshal([]byte(lease.Cursor), &s.sweep) != nil {
		s.sweep = sweep{}
	}
	s.sweep.resumed = !s.sweep.BegunAt.IsZero()
	s.since = s.p.o.Clock.Now()
}

// wait waits until the next pass is due, or for as long as the lease needs no renewal; it says
// whether a pass is due.
func (s *sweeper) wait(ctx context.Context) bool {
	now := s.p.o.Clock.Now()
	due := s.sweep.NextAt
	s.mu.Lock()
	if rest := s.restUntil; rest.After(due) {
		due = rest
	}
	// The interval may have become shorter since the next pass was set. One that broke off waits for
	// its own pause.
	if latest := s.begunAt().Add(s.passEvery()); due.After(latest) && !due.Equal(s.restUntil) && s.swept[s.kind].broken == 0 {
		due = latest
	}
	s.mu.Unlock()
	if !s.sweep.BegunAt.IsZero() && !s.sweep.NextAt.After(now) || !due.After(now) {
		return true
	}
	timer := s.p.o.Clock.NewTimer(min(due.Sub(now), s.p.o.LeaseFor/3))
	defer timer.Stop()
	select {
	case <-timer.C():
		return !due.After(s.p.o.Clock.Now())
	case <-s.asked():
		return true
	case <-ctx.Done():
		return false
	}
}

// begunAt is when the latest complete pass began, as far as this node knows: else when it took the
// list over. The account is locked.
func (s *sweeper) begunAt() time.Time {
	if last := s.swept[s.kind].last; last.After(s.since) {
		return last
	}
	return s.since
}

// passEvery is the interval between passes, without what a single check of a listed SIM is given on
// top. The account is locked.
func (s *sweeper) passEvery() time.Duration {
	every := s.every(s.kind)
	if s.account.list[s.kind] {
		every = time.Duration(float64(every) / listedFactor)
	}
	return every
}

// asked tells of many new SIMs, where this is the list of states.
func (s *sweeper) asked() <-chan struct{} {
	if s.kind == 0 {
		return s.account.sweep
	}
	return nil
}

// page is one page with the cursor that follows it.
type page struct {
	readings []simwarden.Reading
	next     string
	last     bool
}

// pass reads the list from the cursor to its end, writing while it reads on.
func (s *sweeper) pass(ctx context.Context) {
	begun := s.p.o.Clock.Now()
	if s.sweep.BegunAt.IsZero() {
		s.sweep = sweep{BegunAt: begun, Passes: s.sweep.Passes}
	}
	if s.sweep.odd == nil {
		s.sweep.odd = map[simwarden.SIMID]bool{}
	}
	s.seen = map[uint64]struct{}{}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	pages := make(chan page, pageAhead)
	var failed error
	var under sync.WaitGroup
	under.Go(func() {
		defer close(pages)
		failed = s.readPages(reading, s.sweep.Cursor, pages)
	})
	unknown, kept := 0, error(nil)
	for p := range pages {
		batch := s.fill(p, pages)
		if kept == nil {
			var n int
			if n, kept = s.takeIn(ctx, batch); kept != nil {
				stop() // and the pages that are still coming are dropped
			}
			unknown += n
		}
	}
	under.Wait()
	if kept != nil {
		failed = kept
	}
	s.end(ctx, failed, unknown)
}

// fill adds the pages that follow within a moment to the first, up to what is written at a time.
func (s *sweeper) fill(first page, pages <-chan page) []page {
	batch, n := []page{first}, len(first.readings)
	timer := s.p.o.Clock.NewTimer(linger)
	defer timer.Stop()
	for !batch[len(batch)-1].last && n < most {
		select {
		case more, ok := <-pages:
			if !ok {
				return batch
			}
			batch, n = append(batch, more), n+len(more.readings)
		case <-timer.C():
			return batch
		}
	}
	return batch
}

// readPages asks for page after page and hands them on.
func (s *sweeper) readPages(ctx context.Context, cursor string, to chan<- page) error {
	s.mu.Lock()
	limit := pagesBeyond + 4*s.sched.size()
	s.mu.Unlock()
	for n := 0; ; n++ {
		hash := maphash.String(s.seed, cursor)
		if _, twice := s.seen[hash]; twice {
			return errCursorTwice
		}
		if n == limit {
			return errTooLong
		}
		s.seen[hash] = struct{}{}
		got, err := s.ask(ctx, cursor)
		if err != nil {
			return err
		}
		s.p.counters.pages.Add(1)
		s.mu.Lock()
		s.swept[s.kind].pageAt = s.p.o.Clock.Now()
		s.mu.Unlock()
		p := page{readings: got.Readings, next: got.Next, last: got.Next == ""}
		select {
		case to <- p:
		case <-ctx.Done():
			return ctx.Err()
		}
		if p.last {
			return nil
		}
		cursor = got.Next
	}
}

// ask asks for one page, again after a limit as long as it takes, and a few times after an error.
func (s *sweeper) ask(ctx context.Context, cursor string) (carrier.Page, error) {
	for tries := 1; ; {
		begun := s.p.o.Clock.Now()
		got, err := s.list(ctx, cursor)
		s.p.counters.http.Add(int64(s.p.o.Clock.Now().Sub(begun)))
		out, retry := outcomeOf(kindAt[s.kind], err, ctx.Err() != nil)
		if out == outRead {
			return got, nil
		}
		s.p.count(kindAt[s.kind], out, 1)
		s.mu.Lock()
		now := s.p.o.Clock.Now()
		in := rules.PaceInput{Now: now, Seed: uint64(s.id), RetryAfter: retry, Outcome: rules.PaceTransientError}
		switch out {
		case outEnded:
			s.mu.Unlock()
			return carrier.Page{}, err
		case outLimited:
			in.Outcome = rules.PaceLimited
		case outStopped:
			in.Outcome = rules.PaceLimited
			s.rest(now.Add(retry))
		default:
			if tries++; tries > pageTries {
				s.mu.Unlock()
				return carrier.Page{}, err
			}
		}
		pause := s.nextDue(s.kind, in).Sub(now)
		s.mu.Unlock()
		if in.Outcome == rules.PaceTransientError {
			pause = min(pause, max(pageRetry<<(2*(tries-2)), retry))
		}
		if err := s.p.o.Clock.Sleep(ctx, pause); err != nil {
			return carrier.Page{}, err
		}
	}
}

func (s *sweeper) list(ctx context.Context, cursor string) (got carrier.Page, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked{r}
		}
	}()
	call := gateway.Call{Operation: listOperationAt[s.kind], Purpose: simwarden.PurposePoll, Wait: s.p.o.Wait}
	err = s.p.o.Gateway.Do(ctx, s.id, call, func(ctx context.Context, conn carrier.Conn) (err error) {
		if lister, ok := conn.(carrier.Lister); ok && s.kind == 0 {
			got, err = lister.List(ctx, cursor)
			return err
		}
		if lister, ok := conn.(carrier.UsageLister); ok && s.kind == 1 {
			got, err = lister.ListUsage(ctx, cursor)
			return err
		}
		return errNoPart
	})
	return got, err
}

func (s *sweeper) listFence() store.PollFence {
	lease := s.lease
	return store.PollFence{AccountID: s.id, Holder: s.p.o.Holder, Lease: &lease}
}

// hold renews the lease in time.
func (s *sweeper) hold(ctx context.Context) error {
	now := s.p.o.Clock.Now()
	if now.Sub(s.taken) < s.p.o.LeaseFor/3 {
		return nil
	}
	lease, ok, err := s.p.o.Store.TakeLease(ctx, s.lease.Name, s.p.o.Holder, s.p.o.LeaseFor)
	switch {
	case err != nil:
		return err
	case !ok, lease.Epoch != s.lease.Epoch:
		return errLeaseLost
	}
	s.taken = now
	return nil
}

// store keeps how far the pass has come, at most once a second unless it must.
func (s *sweeper) store(ctx context.Context, must bool) error {
	now := s.p.o.Clock.Now()
	if !must && now.Sub(s.stored) < time.Second {
		return nil
	}
	word, err := json.Marshal(s.sweep)
	if err != nil {
		return err
	}
	s.stored = now
	return s.p.o.Store.SetCursor(ctx, s.lease, string(word))
}

// end closes a pass: a complete one concludes, a broken one is taken up again in a while.
func (s *sweeper) end(ctx context.Context, failed error, unknown int) {
	s.mu.Lock()
	now := s.p.o.Clock.Now()
	every := s.passEvery()
	s.mu.Unlock()
	if failed != nil {
		s.mu.Lock()
		s.swept[s.kind].broken++
		s.mu.Unlock()
		if ctx.Err() == nil && !errors.Is(failed, errLeaseLost) {
			s.p.o.Log.Warn("poller: a pass over a list broke off; nothing is concluded from it", "account", s.name, "list", kindAt[s.kind], "error", failed)
			s.sweep.NextAt = now.Add(min(s.p.pace.RetryAfterError, every))
			if store.IsUnavailable(failed) { // no fault of the carrier
				s.sweep.NextAt = now.Add(min(s.p.pace.LimitedRetry, every))
			}
			if again := s.sweep.Cursor; again == "" || again == s.sweep.FailedAt || errors.Is(failed, errCursorTwice) || errors.Is(failed, errTooLong) {
				// Or the cursor has died meanwhile: begin anew.
				s.sweep = sweep{Passes: s.sweep.Passes, NextAt: s.sweep.NextAt}
			}
			s.sweep.FailedAt = s.sweep.Cursor
			if err := s.store(ctx, true); err != nil {
				s.p.o.Log.Error("poller: a list's progress", "account", s.name, "error", err)
			}
		}
		return
	}
	if s.kind == 1 {
		if err := s.unnamed(ctx); err != nil && ctx.Err() == nil {
			s.p.o.Log.Error("poller: SIMs without usage", "account", s.name, "error", err)
		}
	}
	s.p.counters.passes.Add(1)
	s.mu.Lock()
	s.swept[s.kind].before, s.swept[s.kind].last, s.swept[s.kind].broken = s.swept[s.kind].last, s.sweep.BegunAt, 0
	s.mu.Unlock()
	if unknown > 0 {
		s.p.o.Log.Info("poller: the carrier lists SIMs that are not in the fleet", "account", s.name, "list", kindAt[s.kind], "sims", unknown)
	}
	next := s.sweep.BegunAt.Add(rules.Jitter(every, uint64(s.id)^uint64(s.sweep.BegunAt.Unix())))
	s.sweep = sweep{Passes: s.sweep.Passes + 1, NextAt: next}
	if err := s.store(ctx, true); err != nil && ctx.Err() == nil {
		s.p.o.Log.Error("poller: a list's progress", "account", s.name, "error", err)
	}
}
