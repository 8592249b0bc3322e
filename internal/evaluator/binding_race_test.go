package evaluator_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// TestE8BindingsPausesPurchasesAndEndsAtTheSameTime: whatever comes first, a SIM is in one device, its
// history says so, no plan is left with a SIM that is in a device, and nothing is locked for good.
func TestE8BindingsPausesPurchasesAndEndsAtTheSameTime(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("day", simwarden.PlanMain, simwarden.UnlimitedBytes, 1)
	var sims []simwarden.SIMID
	for range 6 {
		sims = append(sims, w.sim(simwarden.StateActive))
	}
	devices := []simwarden.DeviceID{w.device(imei), w.device(otherIMEI)}
	w.subscribeDevice(devices[0], p)
	expected := func(err error) bool {
		for _, known := range []error{store.ErrBound, store.ErrNotBound, reconcile.ErrOwnPlans, reconcile.ErrPlansCollide} {
			if errors.Is(err, known) {
				return true
			}
		}
		return err == nil
	}
	var all sync.WaitGroup
	do := func(what string, fn func(round int) error) {
		all.Go(func() {
			for round := range 25 {
				if err := fn(round); !expected(err) {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
	for i, d := range devices {
		do("bind", func(n int) error { return w.bind(d, sims[(n+i)%len(sims)], n%3 == 0) })
		do("unbind", func(n int) error { return w.unbind(d, sims[(n*5+i)%len(sims)]) })
		do("pause", func(n int) error {
			return w.store.InTx(t.Context(), func(tx *store.Tx) error {
				change := reconcile.PauseDevice
				if n%2 == 1 {
					change = reconcile.ResumeDevice
				}
				_, err := change(t.Context(), tx, d, "cli:anna", "")
				return err
			})
		})
	}
	do("buy", func(n int) error {
		return w.store.InTx(t.Context(), func(tx *store.Tx) error {
			asset, err := tx.AssetOfSIM(t.Context(), sims[n%len(sims)])
			if err != nil {
				return err
			}
			_, err = plans.Subscribe(t.Context(), tx, plans.Order{Asset: asset, Plan: p, By: "test"})
			return err
		})
	})
	do("evaluate", func(int) error { _, err := w.eval.Step(t.Context()); return err })
	do("sweep", func(int) error { w.clock.Advance(2 * time.Hour); _, err := w.sweeper.Sweep(t.Context()); return err })
	// Where two of them meet in a deadlock the one that is undone waits on the clock before it comes again;
	// that may be the sweep, which moves it.
	ctx, stop := context.WithCancel(t.Context())
	var moves sync.WaitGroup
	moves.Go(func() {
		for w.clock.BlockUntil(ctx, 1) == nil {
			w.clock.Advance(time.Second)
		}
	})
	all.Wait()
	stop()
	moves.Wait()

	for what, sql := range map[string]string{
		"SIMs whose history does not say what is": `SELECT count(*) FROM sim s LEFT JOIN device_sim_history h ON h.sim_id = s.id AND h.unbound_at IS NULL
			WHERE s.device_id IS DISTINCT FROM h.device_id`,
		"live plans of a SIM that is in a device": `SELECT count(*) FROM subscription b JOIN sim s ON s.id = b.sim_id
			WHERE s.device_id IS NOT NULL AND b.state IN ('active', 'exhausted', 'queued')`,
	} {
		var n int
		w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.QueryRow(ctx, sql).Scan(&n) })
		if n != 0 {
			t.Errorf("%s: %d", what, n)
		}
	}
}
