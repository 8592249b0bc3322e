package plans_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// Ends of main plans and of add-ons on three nodes, refunds, purchases, top-ups, readings and evaluations of
// the same SIMs at once: whoever waits for another, none waits in a ring (F14, F52).
func TestF14NobodyWaitsInARing(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(1_000_000)
	main, addon := w.plan(1000), w.addon(300)
	var sims []store.Asset
	for range 24 {
		s := w.sim(wallet)
		sims = append(sims, s)
		w.renewing(s, main)
		if _, err := w.subscribe(plans.Order{Asset: s, Plan: addon, By: "test", Pay: true}); err != nil {
			t.Fatal(err)
		}
	}
	ids := make([]simwarden.SIMID, len(sims))
	for i, s := range sims {
		ids[i] = s.SIMID
	}
	w.clock.Advance(30 * day)
	check := func(err error) {
		if err != nil && !isAllowed(err) {
			t.Error(err)
		}
	}
	worker := func(i int) {
		random := rand.New(rand.NewPCG(14, uint64(i)))
		sweeper := &plans.Sweeper{Store: w.store, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
		for range 12 {
			sim := sims[random.IntN(len(sims))]
			switch i {
			case 0, 1, 2:
				_, err := sweeper.Sweep(t.Context())
				check(err)
				if i == 0 {
					w.clock.Advance(15 * day) // all of them end again and again
				}
			case 3, 4:
				check(w.tx(func(ctx context.Context, tx *store.Tx) error {
					live, err := tx.LiveSubscriptions(ctx, sim)
					if err != nil || len(live) == 0 {
						return err
					}
					return plans.Refund(ctx, tx, live[random.IntN(len(live))].ID, "test", "")
				}))
			case 5, 6:
				_, err := w.subscribe(plans.Order{Asset: sim, Plan: []simwarden.Plan{main, addon}[random.IntN(2)], By: "test", Pay: true})
				check(err)
			case 7:
				check(w.tx(func(ctx context.Context, tx *store.Tx) error {
					_, err := ledger.TopUp(ctx, tx, wallet, simwarden.Money{AmountMinor: 700, Currency: "EUR"}, ledger.By{Actor: "test"})
					return err
				}))
			case 8:
				check(w.tx(func(ctx context.Context, tx *store.Tx) error {
					obs := make([]store.Observed, len(ids))
					for i, id := range ids {
						obs[i] = store.Observed{SIMID: id, Reading: simwarden.Reading{ReadAt: tx.At, Usage: &simwarden.UsageReading{CounterBytes: tx.At.Unix(), TrueAt: tx.At}}}
					}
					if _, err := usage.Book(ctx, tx, obs); err != nil {
						return err
					}
					_, err := reconcile.Observe(ctx, tx, obs)
					return err
				}))
			default:
				check(w.tx(func(ctx context.Context, tx *store.Tx) error {
					items := make([]reconcile.Item, len(ids))
					for i, id := range ids {
						items[i] = reconcile.Item{SIMID: id, Scene: simwarden.ScenePeriodic, Cause: store.Cause{Kind: store.CausePeriodic, ID: int64(id)}, AskedBy: reconcile.System}
					}
					_, err := reconcile.SIMs(ctx, tx, items)
					return err
				}))
			}
		}
	}
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() { worker(i) })
	}
	all.Wait()
	if w.count(`SELECT count(*) FROM subscription WHERE state = 'expired'`) == 0 || w.count(`SELECT count(*) FROM subscription WHERE state = 'refunded'`) == 0 {
		t.Error("nothing ended, or nothing was refunded: the test shows nothing")
	}
	w.store.Close() // sessions that end have told what they counted
	if n := w.count(`SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()`); n != 0 {
		t.Errorf("%d times transactions waited for each other in a ring", n)
	}
}
