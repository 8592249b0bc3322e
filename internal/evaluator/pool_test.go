package evaluator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// uses books a reading of the SIM's usage and judges nobody.
func (w *world) uses(id simwarden.SIMID, counter int64) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := usage.Book(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: tx.At,
			Usage: &simwarden.UsageReading{CounterBytes: counter, TrueAt: tx.At}}}})
		return err
	})
}

func (w *world) poolProgress(id simwarden.PoolID) store.AccountEvaluation {
	w.t.Helper()
	list, err := w.store.PoolEvaluations(w.t.Context(), id, 10)
	if err != nil || len(list) == 0 {
		w.t.Fatalf("the pool has %d evaluations (%v)", len(list), err)
	}
	return list[0]
}

func TestL6ThePoolsMembersAreJudgedInPagesAndAnotherNodeGoesOn(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	const n = 230 // more than a batch
	p := w.plan("nothing", simwarden.PlanMain, 0, 30)
	var pool store.Pool
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if err := tx.SetBrake(ctx, w.account.ID, 100, n, time.Minute); err != nil {
			return err
		}
		pool, err = plans.AddPool(ctx, tx, store.Pool{Name: "meters", Policy: simwarden.PoolAll, AllowanceBytes: 1000,
			Reset: simwarden.ResetCycle, ResetDays: 1, Zone: "UTC"}, "cli:anna")
		return err
	})
	ids := make([]simwarden.SIMID, n)
	assets := make([]store.Asset, n)
	for i := range ids {
		ids[i] = w.sim(simwarden.StateActive)
		assets[i] = store.Asset{SIMID: ids[i]}
		w.uses(ids[i], 0)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		in, err := plans.JoinPool(ctx, tx, pool, assets, nil, "cli:anna")
		if err == nil && len(in) != n {
			t.Errorf("%d of %d joined", len(in), n)
		}
		return err
	})
	for _, id := range ids {
		w.subscribe(id, p)
	}
	w.settle()
	for _, id := range ids {
		if list := w.commands(id); len(list) != 0 {
			t.Fatalf("a plan without data of its own has led to %+v, although the pool has data", list)
		}
	}

	w.clock.Advance(time.Minute)
	w.uses(ids[0], 1000)
	if v := w.poolProgress(pool.ID); v.Total != n || v.Scene != simwarden.SceneUsageCheck || v.PoolID != pool.ID || v.AccountID != 0 {
		t.Fatalf("what was asked for is %+v", v)
	}
	if done := w.stepAccount(); done != 200 {
		t.Fatalf("the first batch has judged %d SIMs, want 200", done)
	}
	if v := w.poolProgress(pool.ID); v.Done != 200 || v.Ordered != 200 || !v.FinishedAt.IsZero() {
		t.Errorf("after a batch the progress is %+v", v)
	}
	// The node that was at it is gone; another goes on where it had come to.
	next := *w.eval
	next.Holder = "another"
	w.eval = &next
	for w.stepAccount() > 0 {
	}
	if v := w.poolProgress(pool.ID); v.Done != n || v.Ordered != n || v.Outcome != "all judged" {
		t.Errorf("in the end the progress is %+v", v)
	}
	for _, id := range ids {
		one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.ReasonDataExhausted)
	}

	// At the reset nobody has to use anything: the sweep begins the next period.
	w.clock.Advance(24 * time.Hour)
	if _, err := w.sweeper.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if v := w.poolProgress(pool.ID); v.Scene != simwarden.ScenePlanReset || v.Total != n {
		t.Errorf("after the reset what was asked for is %+v", v)
	}
	for w.stepAccount() > 0 {
	}
	for _, id := range ids {
		if list := w.commands(id); list[0].State.Open() {
			t.Fatalf("the suspend of SIM %d is still wanted, with the pool full again: %+v", id, list)
		}
	}
}

func TestL6ASIMInAPoolIsNotBoundToADeviceUntilItIsTakenOut(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id, d := w.sim(simwarden.StateActive), w.device("490154203237518")
	a := []store.Asset{{SIMID: id}}
	var pool store.Pool
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if pool, err = plans.AddPool(ctx, tx, store.Pool{Name: "meters", Policy: simwarden.PoolAll, AllowanceBytes: 1000, Reset: simwarden.ResetNone, Zone: "UTC"}, "cli:anna"); err != nil {
			return err
		}
		_, err = plans.JoinPool(ctx, tx, pool, a, nil, "cli:anna")
		return err
	})
	if err := w.bind(d, id, false); !errors.Is(err, reconcile.ErrOwnPool) {
		t.Errorf("bound: %v, want ErrOwnPool", err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := plans.LeavePool(ctx, tx, pool, a, "cli:anna")
		return err
	})
	if err := w.bind(d, id, false); err != nil {
		t.Error(err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		in, err := plans.JoinPool(ctx, tx, pool, a, nil, "cli:anna")
		if len(in) != 0 {
			t.Error("a SIM of a device is in a pool of its own")
		}
		return err
	})
}
