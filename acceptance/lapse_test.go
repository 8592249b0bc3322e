package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// running gives an active SIM that the node has read, with a plan that it has judged.
func (w *world) running(lasts time.Duration, allowanceBytes int64) (card, simwarden.Subscription) {
	w.t.Helper()
	c := w.sim(simwarden.StateActive)
	w.reads(c, simwarden.StateActive)
	eventually(w.t, "its usage is read", func() bool {
		return w.count(`SELECT count(*) FROM poll_state WHERE sim_id = $1 AND usage_read_at IS NOT NULL`, c.id) == 1
	})
	b := w.buy(c, w.plan(lasts, allowanceBytes))
	eventually(w.t, "the plan's activation is judged", func() bool {
		return w.count(`SELECT count(*) FROM evaluation_request WHERE subscription_id = $1 AND scene = 'plan_activated' AND done_at IS NOT NULL`, b.ID) == 1
	})
	return c, b
}

func (w *world) pause(c card) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, c.id, "cli:anna", "acceptance")
		return err
	})
}

func (w *world) resumePolling(c card) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.ResumePolling(ctx, tx, c.id, "cli:anna", "acceptance")
		return err
	})
}

// suspended checks that the SIM is suspended at the carrier, by one request.
func (w *world) suspended(c card) {
	w.t.Helper()
	if truth := w.truth(c); truth.State != simwarden.StateSuspended {
		w.t.Errorf("SIM %s is %s at the carrier, want suspended", c.iccid, truth.State)
	}
	if n := len(w.changes(c)); n != 1 {
		w.t.Errorf("the carrier saw %d state-changing requests for SIM %s, want one", n, c.iccid)
	}
}

func TestS2PausedSIMsPlanEndsAndItIsSuspendedOnceOnly(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, b := w.running(4*time.Second, simwarden.UnlimitedBytes)
		w.pause(c)
		cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		w.suspended(c)
		if cmd.SubscriptionID != b.ID {
			t.Errorf("the command speaks of subscription %d, want %d (V1)", cmd.SubscriptionID, b.ID)
		}

		// A person puts it back at the carrier, and that becomes known: the lapse has had its turn (E6).
		w.must(w.carrier.SetState(c.iccid, simwarden.StateActive))
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := reconcile.Observe(ctx, tx, []store.Observed{{SIMID: c.id, Reading: simwarden.Reading{ReadAt: tx.At,
				State: &simwarden.StateReading{State: simwarden.StateActive, Extended: simwarden.ExtendedNone, Raw: "active"}}}})
			return err
		})
		w.evaluated(c, simwarden.ScenePlanLapsed, b.ID)
		w.evaluated(c, simwarden.SceneStateCheck, 0)
		w.periodic(c)
		if list := w.commands(c); len(list) != 1 {
			t.Errorf("the lapse has triggered again: %s", describe(list))
		}
		if truth := w.truth(c); truth.State != simwarden.StateActive {
			t.Errorf("SIM %s is %s at the carrier: somebody sent something", c.iccid, truth.State)
		}
	})
}

func TestS9PlanEndsAndTheSuspendIsOrderedAtOnceWithoutAnyCheck(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run(rarely)
		c, b := w.running(3*time.Second, simwarden.UnlimitedBytes)
		cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		w.suspended(c)
		if late := cmd.CreatedAt.Sub(b.EndAt); late < 0 || late > 2*time.Second {
			t.Errorf("the suspend was ordered %s after the plan's end, want at once", late)
		}
		ended := w.instant(`SELECT ended_at FROM subscription WHERE id = $1 AND state = 'expired'`, b.ID)
		if !ended.Equal(cmd.CreatedAt) {
			t.Errorf("the plan was ended at %s, the suspend ordered at %s: not in one transaction (L1)", ended, cmd.CreatedAt)
		}
		if n := w.count(`SELECT count(*) FROM evaluation_request WHERE sim_id = $1 AND scene NOT IN ('plan_activated', 'plan_lapsed')`, c.id); n != 0 {
			t.Errorf("%d other evaluations were asked for", n)
		}
	})
}

func TestS10TheQueuedPlanFollowsAndNothingIsSuspended(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, first := w.running(4*time.Second, simwarden.UnlimitedBytes)
		next := w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
		if next.State != simwarden.SubscriptionQueued {
			t.Fatalf("the second plan is %s, want queued", next.State)
		}
		eventually(t, "the queued plan's start is judged", func() bool {
			return w.count(`SELECT count(*) FROM evaluation_request WHERE subscription_id = $1 AND scene = 'queued_activated' AND done_at IS NOT NULL`, next.ID) == 1
		})
		if got := w.text(`SELECT state FROM subscription WHERE id = $1`, first.ID); got != string(simwarden.SubscriptionExpired) {
			t.Errorf("the first plan is %s, want expired", got)
		}
		if got := w.text(`SELECT state FROM subscription WHERE id = $1`, next.ID); got != string(simwarden.SubscriptionActive) {
			t.Errorf("the second plan is %s, want active", got)
		}
		if start := w.instant(`SELECT start_at FROM subscription WHERE id = $1`, next.ID); !start.Equal(first.EndAt) {
			t.Errorf("the second plan began at %s, the first ended at %s (L4)", start, first.EndAt)
		}
		w.evaluated(c, simwarden.ScenePlanCheck, 0)
		w.periodic(c)
		if list := w.commands(c); len(list) != 0 {
			t.Errorf("there are commands: %s", describe(list))
		}
		if n := len(w.changes(c)); n != 0 || w.truth(c).State != simwarden.StateActive {
			t.Errorf("SIM %s is %s after %d requests", c.iccid, w.truth(c).State, n)
		}
	})
}

func TestS12TemporaryFailuresKeepSceneAndJudgementAndLeaveOneRecord(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, _ := w.running(3*time.Second, simwarden.UnlimitedBytes)
		suspends := []simwarden.Operation{simwarden.OpSuspend}
		w.fault(lab.Fault{Name: lab.Throttle, Operations: suspends, Count: 1, Variant: "seconds", Seconds: 1})
		w.fault(lab.Fault{Name: lab.Fail5xx, Operations: suspends, Count: 2})
		w.pause(c)
		cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		if truth := w.truth(c); truth.State != simwarden.StateSuspended || truth.Executions != 1 {
			t.Errorf("SIM %s is %s after %d changes, want suspended after one", c.iccid, truth.State, truth.Executions)
		}
		attempts := w.attempts(cmd.ID)
		if len(attempts) != 4 {
			t.Fatalf("%d attempts, want one throttled, two failed and one that succeeded: %+v", len(attempts), attempts)
		}
		for i, a := range attempts {
			if a.Scene != simwarden.ScenePlanLapsed || a.Desired != simwarden.DesiredSuspended || a.Reason != simwarden.ReasonNoPlan {
				t.Errorf("attempt %d was judged %s (%s) in scene %s", a.Number, a.Desired, a.Reason, a.Scene)
			}
			if i > 0 && !a.JudgedAt.After(attempts[i-1].JudgedAt) {
				t.Errorf("attempt %d was not judged afresh (C3)", a.Number)
			}
		}
		if failed := attempts[0].Class; failed != "throttled" {
			t.Errorf("the first attempt ended as %s, want throttled", failed)
		}
	})
}

func TestS13APlanBoughtBeforeTheSuspendIsSentMakesItObsolete(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, _ := w.running(3*time.Second, simwarden.UnlimitedBytes)
		w.pause(c)
		w.tx(func(ctx context.Context, tx *store.Tx) error { // what holds the suspend back until the plan is bought
			_, err := tx.StopAccount(ctx, w.account.ID, "acceptance")
			return err
		})
		eventually(t, "the suspend waits for its account", func() bool {
			list := w.commands(c)
			return len(list) == 1 && list[0].State == simwarden.CommandQueued && list[0].HeldBy == store.HeldByStop
		})
		w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
		w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.StartAccount(ctx, w.account.ID) })
		cmd := w.ends(c, simwarden.CommandObsolete)
		if cmd.Scene != simwarden.ScenePlanLapsed || cmd.Attempt != 0 || cmd.EndBecause == "" {
			t.Errorf("the obsolete command: %s", describe([]store.Command{cmd}))
		}
		w.evaluated(c, simwarden.ScenePlanCheck, 0)
		w.periodic(c)
		if n := len(w.changes(c)); n != 0 || w.truth(c).State != simwarden.StateActive {
			t.Errorf("SIM %s is %s after %d requests, want active after none", c.iccid, w.truth(c).State, n)
		}
		if n := w.count(`SELECT count(*) FROM command_record WHERE command_id = $1 AND status = 'obsolete'`, cmd.ID); n != 1 {
			t.Errorf("%d records of the obsolete command, want one", n)
		}
	})
}

// TestS3 is S2 with a refund in place of the end.
func TestS3RefundOfAPausedSIMSuspendsOnceOnly(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, b := w.running(time.Hour, simwarden.UnlimitedBytes)
		w.pause(c)
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			return plans.Refund(ctx, tx, b.ID, "cli:anna", "acceptance")
		})
		w.only(c, simwarden.DirectionSuspend, simwarden.SceneRefunded, simwarden.ReasonNoPlan)
		w.suspended(c)
		w.evaluated(c, simwarden.SceneRefunded, b.ID)
		w.periodic(c)
		if list := w.commands(c); len(list) != 1 {
			t.Errorf("the refund has triggered again: %s", describe(list))
		}
	})
}

// mode switches the account as a person does, and waits until what that asks for is done.
func (w *world) mode(m simwarden.AccountMode) {
	w.t.Helper()
	_, err := w.person().ChangeAccount(w.ctx, w.account.Name, api.AccountChange{Mode: &m}, anna)
	w.must(err)
	eventually(w.t, "the account's SIMs are judged", func() bool {
		return w.count(`SELECT count(*) FROM account_evaluation WHERE account_id = $1 AND finished_at IS NULL`, w.account.ID) == 0
	})
}

func TestE6WhatLapsedUnderPauseWhileTheAccountObservedIsSuspendedWhenItActs(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run()
		paused, open, paid := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
		for _, c := range []card{paused, open, paid} {
			w.reads(c, simwarden.StateActive)
		}
		w.mode(simwarden.ModeObserve)
		w.pause(paused)
		w.pause(paid)
		short := w.plan(2*time.Second, simwarden.UnlimitedBytes)
		b := w.buy(paused, short)
		w.buy(open, short)
		w.buy(paid, short)
		for _, c := range []card{paused, open, paid} {
			if cmd := w.ends(c, simwarden.CommandObserved); cmd.Scene != simwarden.ScenePlanLapsed {
				t.Errorf("SIM %s: observed is a %s with scene %s", c.iccid, cmd.Direction, cmd.Scene)
			}
		}
		later := w.buy(paid, w.plan(time.Hour, simwarden.UnlimitedBytes))
		w.judged(simwarden.ScenePlanActivated, later.ID)
		differences := map[string]api.SIMDifference{}
		w.must(w.person().Diff(w.ctx, w.account.ID, func(d api.SIMDifference) error {
			differences[d.ICCID] = d
			return nil
		}))
		if d := differences[paused.iccid]; len(differences) != 2 || d.Direction != simwarden.DirectionSuspend || d.Because != "lapsed_while_observing" {
			t.Errorf("diff shows %+v, want the two SIMs without a plan, the paused one too", differences)
		}

		w.mode(simwarden.ModeAct)
		for c, scene := range map[card]simwarden.Scene{paused: simwarden.ScenePlanLapsed, open: simwarden.ScenePeriodic} {
			var list []store.Command
			eventually(t, "the SIM without a plan is suspended", func() bool {
				list = w.commands(c)
				return len(list) == 2 && list[1].State == simwarden.CommandDone
			})
			if list[1].Direction != simwarden.DirectionSuspend || list[1].Scene != scene || list[1].Reason != simwarden.ReasonNoPlan || w.truth(c).State != simwarden.StateSuspended {
				t.Errorf("SIM %s is %s at the carrier: %s", c.iccid, w.truth(c).State, describe(list))
			}
		}
		if list := w.commands(paused); list[1].SubscriptionID != b.ID {
			t.Errorf("the command speaks of subscription %d, want %d", list[1].SubscriptionID, b.ID)
		}

		// It has had its turn: a person puts the SIM back, and the account observes and acts once more.
		w.orders(paused, simwarden.DirectionResume)
		w.mode(simwarden.ModeObserve)
		w.evaluated(paused, simwarden.ScenePlanLapsed, b.ID)
		w.mode(simwarden.ModeAct)
		if list := w.commands(paused); list[len(list)-1].Direction == simwarden.DirectionSuspend && list[len(list)-1].State != simwarden.CommandObserved {
			t.Errorf("the lapse has triggered again: %s", describe(list))
		}
		if list := w.commands(paid); len(list) != 1 || w.truth(paid).State != simwarden.StateActive {
			t.Errorf("it has a plan again, and is %s: %s", w.truth(paid).State, describe(list))
		}
	})
}
