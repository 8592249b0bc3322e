package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// topUp buys data on top for a SIM (scene topped_up), and waits until it has been judged.
func (w *world) topUp(c card, bytes int64) {
	w.t.Helper()
	p, err := w.person().AddPlan(w.ctx, simwarden.Plan{Code: "extra", Kind: simwarden.PlanAddon, AllowanceBytes: bytes,
		ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"}, anna)
	w.must(err)
	var b simwarden.Subscription
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: p, By: "test"})
		return err
	})
	w.judged(simwarden.SceneToppedUp, b.ID)
}

// judged waits until what a purchase asked for has been worked off.
func (w *world) judged(scene simwarden.Scene, sub simwarden.SubscriptionID) {
	w.t.Helper()
	eventually(w.t, "the purchase is judged", func() bool {
		return w.count(`SELECT count(*) FROM evaluation_request WHERE subscription_id = $1 AND scene = $2 AND done_at IS NOT NULL`, sub, string(scene)) == 1
	})
}

// orders has a person suspend or resume the SIM, and waits until that is done.
func (w *world) orders(c card, d simwarden.Direction) store.Command {
	w.t.Helper()
	before := len(w.commands(c))
	o, err := w.person().Manual(w.ctx, c.iccid, d, anna, "as asked on the phone")
	w.must(err)
	if o.CommandID == 0 {
		w.t.Fatalf("the %s was not ordered: %s %s", d, o.Action, o.Because)
	}
	var list []store.Command
	eventually(w.t, "the order is done", func() bool {
		list = w.commands(c)
		return len(list) > before && !list[before].State.Open()
	})
	if cmd := list[before]; cmd.State != simwarden.CommandDone || cmd.Scene != simwarden.SceneManual || cmd.Direction != d {
		w.t.Fatalf("a person's %s came to this: %s", d, describe(list[before:]))
	}
	return list[before]
}

func TestS1APausedSIMIsToppedUpAndOnlyAPersonResumesIt(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c := w.sim(simwarden.StateSuspended)
		w.reads(c, simwarden.StateSuspended)
		w.pause(c)
		b := w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
		w.judged(simwarden.ScenePlanActivated, b.ID)
		w.topUp(c, allowance)
		for _, scene := range []simwarden.Scene{simwarden.SceneQueuedActivated, simwarden.ScenePlanReset, simwarden.SceneRealNameActivated, simwarden.SceneRealNamePolicyChanged} {
			w.evaluated(c, scene, b.ID)
		}
		w.periodic(c)
		if list := w.commands(c); len(list) != 0 || len(w.changes(c)) != 0 {
			t.Fatalf("polling is paused, and there are commands: %s", describe(list))
		}
		cmd := w.orders(c, simwarden.DirectionResume)
		if truth := w.truth(c); truth.State != simwarden.StateActive || len(w.changes(c)) != 1 {
			t.Errorf("after a person's resume SIM %s is %s, after %d requests", c.iccid, truth.State, len(w.changes(c)))
		}
		if n := w.count(`SELECT count(*) FROM command_record WHERE command_id = $1 AND status = 'done' AND scene = 'manual'`, cmd.ID); n != 1 {
			t.Errorf("%d records of the resume, want one", n)
		}
	})
}

func TestS21APersonSuspendsAndResumesAPausedSIM(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, _ := w.running(time.Hour, simwarden.UnlimitedBytes)
		w.pause(c)
		suspend := w.orders(c, simwarden.DirectionSuspend)
		w.suspended(c)
		w.evaluated(c, simwarden.ScenePlanActivated, 0)
		w.periodic(c)
		if list := w.commands(c); len(list) != 1 {
			t.Fatalf("there is an automatic command in between: %s", describe(list))
		}
		resume := w.orders(c, simwarden.DirectionResume)
		w.periodic(c)
		if truth := w.truth(c); truth.State != simwarden.StateActive || len(w.changes(c)) != 2 {
			t.Errorf("SIM %s is %s after %d requests, want active after two", c.iccid, truth.State, len(w.changes(c)))
		}
		for _, cmd := range []store.Command{suspend, resume} {
			if n := w.count(`SELECT count(*) FROM command_record WHERE command_id = $1 AND asked_by = $2 AND status = 'done'`, cmd.ID, anna); n != 1 {
				t.Errorf("the %s has %d records, want one", cmd.Direction, n)
			}
			if n := w.count(`SELECT count(*) FROM audit WHERE sim_id = $1 AND action = $2 AND actor = $3 AND (data->>'command_id')::bigint = $4`,
				c.id, "sim_"+string(cmd.Direction), anna, cmd.ID); n != 1 {
				t.Errorf("the %s has %d rows of audit, want one (R2)", cmd.Direction, n)
			}
		}
	})
}
