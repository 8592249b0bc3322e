package evaluator_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

const day = 24 * time.Hour

// one checks that the SIM has exactly one command, and which.
func one(t *testing.T, list []store.Command, direction simwarden.Direction, scene simwarden.Scene, reason simwarden.Reason) store.Command {
	t.Helper()
	if len(list) != 1 {
		t.Fatalf("the SIM has %d commands, want one: %+v", len(list), list)
	}
	c := list[0]
	if c.Direction != direction || c.Scene != scene || c.Reason != reason {
		t.Fatalf("the command is %s, scene %s, reason %q; want %s, %s, %q", c.Direction, c.Scene, c.Reason, direction, scene, reason)
	}
	return c
}

func none(t *testing.T, list []store.Command, why string) {
	t.Helper()
	if len(list) != 0 {
		t.Fatalf("%s: %s, scene %s, reason %s", why, list[0].Direction, list[0].Scene, list[0].Reason)
	}
}

func TestS9LapseOrdersASuspendAtItsInstant(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.clock.Advance(30*day - time.Microsecond)
	w.settle()
	none(t, w.commands(id), "before the plan's end there must be no command (V11)")
	w.clock.Advance(time.Microsecond)
	w.settle()
	c := one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	if !c.CreatedAt.Equal(w.clock.Now().Truncate(time.Microsecond)) {
		t.Errorf("the command was written at %s, want the instant of the sweep %s", c.CreatedAt, w.clock.Now())
	}
}

func TestS10QueuedPlanFollowsWithoutGapOrCommand(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	p := w.plan("month", simwarden.PlanMain, 1<<30, 30)
	first := w.subscribe(id, p)
	if second := w.subscribe(id, p); second.State != simwarden.SubscriptionQueued {
		t.Fatalf("the second plan is %s, want queued", second.State)
	}
	w.settle()
	w.clock.Advance(31 * day) // the process was away over the end
	w.settle()
	none(t, w.commands(id), "S10: no suspend where the next plan follows")
	subs, err := w.store.SubscriptionsOf(t.Context(), id, 10)
	if err != nil {
		t.Fatal(err)
	}
	if subs[0].State != simwarden.SubscriptionActive || !subs[0].StartAt.Equal(first.EndAt) {
		t.Errorf("the queued plan is %s from %s, want active from %s (L4: no gap)", subs[0].State, subs[0].StartAt, first.EndAt)
	}
	if subs[1].State != simwarden.SubscriptionExpired {
		t.Errorf("the first plan is %s, want expired", subs[1].State)
	}
}

func TestE6PausedLapseTriggersOnceForEver(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", "field test")
		return err
	})
	w.clock.Advance(30 * day)
	w.settle()
	c := one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.EndCommand(ctx, c.ID, simwarden.CommandQueued, simwarden.CommandFailed, "as a test")
		return err
	})
	for range 3 { // asked for again, whoever asks: with the same scene, and periodically
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.ScenePlanLapsed, SubscriptionID: c.SubscriptionID, AskedBy: "test"})
			if err != nil {
				return err
			}
			_, err = reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.ScenePeriodic, AskedBy: "test"})
			return err
		})
		w.clock.Advance(day)
	}
	if n := len(w.commands(id)); n != 1 {
		t.Errorf("a paused SIM's lapse has led to %d commands, want one for ever (E6, V9)", n)
	}
}

func TestS5ResumedPollingIsJudgedAtOnce(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	b := w.subscribe(id, w.plan("small", simwarden.PlanMain, 1000, 30))
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", ""); err != nil {
			return err
		}
		return tx.Spend(ctx, []store.SpentRow{{ID: b.ID, UsedBytes: 1000, Exhausted: true}})
	})
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.SceneUsageCheck, AskedBy: "test"})
		return err
	})
	none(t, w.commands(id), "S4: a paused SIM that is exhausted gets no command")
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.ResumePolling(ctx, tx, id, "cli:anna", "")
		return err
	})
	w.settle()
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePollingResumed, simwarden.ReasonDataExhausted)
}

func TestL3RefundSuspendsAndTheQueuedPlanGoesFirst(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, 1<<30, 30)
	refund := func(id simwarden.SubscriptionID) {
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			return plans.Refund(ctx, tx, id, "cli:anna", "wrong plan")
		})
		w.settle()
	}
	id := w.sim(simwarden.StateActive)
	first, second := w.subscribe(id, p), w.subscribe(id, p)
	w.settle()
	refund(first.ID)
	none(t, w.commands(id), "the queued plan begins where the refunded one stood")
	refund(second.ID)
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.SceneRefunded, simwarden.ReasonNoPlan)
}

func TestC9ObservedAccountsOrderNothing(t *testing.T) {
	w := newWorld(t, simwarden.ModeObserve)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.clock.Advance(30 * day)
	w.settle()
	c := one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	if c.State != simwarden.CommandObserved {
		t.Errorf("the command is %s, want observed", c.State)
	}
}

func TestC10BrakeHoldsWhatPassesItsShare(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	small := w.plan("small", simwarden.PlanMain, 1000, 30)
	var ids []simwarden.SIMID
	for range 15 { // a fleet under 100 SIMs: the brake's limit is 10
		id := w.sim(simwarden.StateActive)
		b := w.subscribe(id, small)
		w.settle()
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			return tx.Spend(ctx, []store.SpentRow{{ID: b.ID, UsedBytes: 1000, Exhausted: true}})
		})
		ids = append(ids, id)
	}
	judge := func() {
		for _, id := range ids {
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				_, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.ScenePeriodic, AskedBy: "test"})
				return err
			})
		}
	}
	count := func() (n int) {
		for _, id := range ids {
			n += len(w.commands(id))
		}
		return n
	}
	judge()
	if n := count(); n != 10 {
		t.Fatalf("%d suspends were ordered, want 10 and the others held (C10)", n)
	}
	alerts, err := w.store.OpenAlerts(t.Context(), 10)
	if err != nil || len(alerts) != 1 || alerts[0].Kind != store.AlertBrake {
		t.Fatalf("alerts %+v (error %v), want one about the brake", alerts, err)
	}
	if want := "simwarden account release " + w.account.Name + " --reason …"; !strings.Contains(alerts[0].Message, want) {
		t.Errorf("the alert says %q, want the whole command to enter: %s", alerts[0].Message, want)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.ReleaseBrake(ctx, w.account.ID) })
	w.clock.Advance(time.Second)
	judge()
	if n := count(); n != 15 {
		t.Errorf("after the release %d suspends are ordered, want all 15", n)
	}
}
