package plans

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// maxFailures is how many times in a row a subscription may fail before it is set aside with an
	// alert (F5), failPause how long it rests before that, and asideFor afterwards.
	maxFailures = 3
	failPause   = 10 * time.Second
	asideFor    = time.Hour
	// maxAside bounds the memory: beyond it the counting starts anew.
	maxAside = 10_000
)

// aside remembers the subscriptions whose end or reset could not be handled, so that others go on. It
// is used from several goroutines.
type aside struct {
	mu sync.Mutex
	of map[simwarden.SubscriptionID]*failure
}

type failure struct {
	times int
	until time.Time
}

// until gives those that rest at the instant.
func (a *aside) until(now time.Time) []simwarden.SubscriptionID {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []simwarden.SubscriptionID
	for id, f := range a.of {
		if now.Before(f.until) {
			out = append(out, id)
		}
	}
	return out
}

// add counts a failure and gives how many there were in a row.
func (a *aside) add(id simwarden.SubscriptionID, now time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.of == nil || len(a.of) >= maxAside {
		a.of = map[simwarden.SubscriptionID]*failure{}
	}
	f := a.of[id]
	if f == nil {
		f = &failure{}
		a.of[id] = f
	}
	f.times++
	f.until = now.Add(failPause)
	if f.times >= maxFailures {
		f.until = now.Add(asideFor)
	}
	return f.times
}

// forget forgets those that were handled.
func (a *aside) forget(list []simwarden.Subscription) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range list {
		delete(a.of, b.ID)
	}
}

// batch is one kind of work on subscriptions that are due.
type batch struct {
	aside *aside
	name  string
	take  take
	do    func(context.Context, *store.Tx, []simwarden.Subscription) error
}

// work takes one batch of what is due and handles it in one transaction; it gives how many. Where
// that fails, and not for want of a database, each is tried alone, so that one bad row holds up no
// other (F5, F16).
func (s *Sweeper) work(ctx context.Context, b batch) (int, error) {
	due, err := s.try(ctx, b, sweepBatch)
	if err == nil {
		return len(due), nil
	}
	if ctx.Err() != nil || store.IsUnavailable(err) {
		return 0, err
	}
	s.Log.Warn("a batch of plans failed, trying them one by one", "what", b.name, "error", err)
	n := 0
	for range sweepBatch {
		due, err := s.try(ctx, b, 1)
		switch {
		case err == nil && len(due) == 0:
			return n, nil
		case err == nil:
			n++
		case ctx.Err() != nil, store.IsUnavailable(err), len(due) == 0:
			return n, err
		default:
			s.setAside(ctx, b, due[0], err)
		}
	}
	return n, nil
}

// try handles up to limit of what is due in one transaction, and gives what it took, also where
// that failed. A panic is an error like another.
func (s *Sweeper) try(ctx context.Context, b batch, limit int) (due []simwarden.Subscription, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	err = s.Store.InWorkTx(ctx, func(tx *store.Tx) (err error) {
		if due, err = b.take(tx, ctx, limit, b.aside.until(tx.At)...); err != nil || len(due) == 0 {
			return err
		}
		if due, err = tx.OwnAssets(ctx, due); err != nil || len(due) == 0 {
			return err
		}
		return b.do(ctx, tx, due)
	})
	if err == nil {
		b.aside.forget(due)
	}
	return due, err
}

func (s *Sweeper) setAside(ctx context.Context, b batch, sub simwarden.Subscription, cause error) {
	times := b.aside.add(sub.ID, s.Store.Now())
	s.Log.Error("a subscription could not be handled", "what", b.name, "subscription", sub.ID, "times", times, "error", cause)
	if times != maxFailures {
		return
	}
	if err := s.Store.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: fmt.Sprintf("subscription:%d", sub.ID), SIMID: sub.SIMID,
		Message: fmt.Sprintf("the %s of subscription %d (plan %s) failed %d times in a row and is tried once an hour: %v", b.name, sub.ID, sub.PlanCode, times, cause)}); err != nil {
		s.Log.Error("raise the alert of a subscription set aside", "subscription", sub.ID, "error", err)
	}
}
