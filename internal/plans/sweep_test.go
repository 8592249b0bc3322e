package plans_test

import (
	"context"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// What alone is due is found, with nothing else to wake the sweep.
func TestAResetAndAHoldThatExpiresAreEachSweptAlone(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(500)
	w.must(func(ctx context.Context, tx *store.Tx) error {
		_, err := ledger.PlaceHold(ctx, tx, wallet, simwarden.Money{AmountMinor: 200, Currency: "EUR"}, tx.At.Add(day), ledger.By{Actor: "test"})
		return err
	})
	daily := simwarden.Plan{Code: "daily", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30,
		Reset: simwarden.ResetCycle, ResetDays: 2, Zone: "UTC"}
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		daily, err = tx.AddPlan(ctx, daily)
		return err
	})
	if _, err := w.subscribe(plans.Order{Asset: w.sim(wallet), Plan: daily, By: "test"}); err != nil {
		t.Fatal(err)
	}
	sweep := func(want int) {
		t.Helper()
		if n, err := w.sweeper.Sweep(t.Context()); err != nil || n != want {
			t.Errorf("the sweep handled %d, %v; want %d", n, err, want)
		}
	}
	sweep(0)
	w.clock.Advance(day)
	sweep(1)
	if n := w.count(`SELECT count(*) FROM ledger_hold WHERE state = 'open'`); n != 0 {
		t.Errorf("%d holds are open after their time", n)
	}
	w.clock.Advance(day)
	sweep(1)
	if n := w.count(`SELECT count(*) FROM event WHERE kind = $1`, store.EventPlanReset); n != 1 {
		t.Errorf("%d resets, want one", n)
	}
	sweep(0)
}
