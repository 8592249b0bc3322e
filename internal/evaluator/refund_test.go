package evaluator_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

func TestE6RefundOfAPausedSIMWhoseAddOnHasJustEndedSuspends(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	main := w.subscribe(id, w.plan("month", simwarden.PlanMain, 1000, 30))
	w.subscribe(id, w.plan("extra", simwarden.PlanAddon, 1000, 1))
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", "test")
		return err
	})
	w.clock.Advance(24*time.Hour + time.Millisecond) // the add-on has ended, and no sweep has seen it yet
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return plans.Refund(ctx, tx, main.ID, "cli:anna", "test")
	})
	w.settle()
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.SceneRefunded, simwarden.ReasonNoPlan)
}
