package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
	"github.com/simwarden/simwarden/lab/onelink"
)

// rule adds an operator's error rule before all others.
func (w *world) rule(r carrier.Rule) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.PutErrorRule(ctx, store.ErrorRule{Driver: w.account.Driver, Position: 1, Rule: r})
		return err
	})
}

// closedBy checks that the SIM's one command failed at its one attempt, by a rule that closed its
// polling.
func (w *world) closedBy(c card, class carrier.Class, extended simwarden.ExtendedState) {
	w.t.Helper()
	cmd := w.ends(c, simwarden.CommandFailed)
	attempts := w.attempts(cmd.ID)
	if len(attempts) != 1 || attempts[0].Class != string(class) || len(w.changes(c)) != 1 {
		w.t.Errorf("%d requests in the attempts %+v, want one of class %s: it is not tried again (C5)", len(w.changes(c)), attempts, class)
	}
	if got := w.text(`SELECT extended FROM poll_state WHERE sim_id = $1`, c.id); !w.closed(c) || got != string(extended) {
		w.t.Errorf("polling closed: %v, extended state %q, want it closed and %s (P5)", w.closed(c), got, extended)
	}
	if n := w.count(`SELECT count(*) FROM alert WHERE kind = 'polling_closed' AND account_id = $1 AND message LIKE '%' || $2 || '%'`, w.account.ID, c.iccid); n != 1 {
		w.t.Errorf("%d alerts tell of it, want one of the account", n)
	}
	w.evaluated(c, simwarden.SceneStateCheck, 0)
	w.periodic(c)
	if list := w.commands(c); len(list) != 1 || len(w.changes(c)) != 1 {
		w.t.Errorf("it was ordered again: %s", describe(list))
	}
}

func TestS8AResumeMeetsARiskStopAndIsNotTriedAgain(t *testing.T) {
	t.Parallel()
	t.Run("onelink", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "onelink", seldom)
		w.run()
		c := w.sim(simwarden.StateSuspended)
		w.reads(c, simwarden.StateSuspended)
		w.must(w.carrier.SetState(c.iccid, onelink.StoppedByRisk)) // and nobody has read that
		w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
		w.closedBy(c, carrier.ClassRiskSuspended, simwarden.ExtendedRiskSuspended)
		if l := w.changes(c)[0]; l.Direction != simwarden.DirectionResume || l.Executed {
			t.Errorf("the request was a %s, executed: %v", l.Direction, l.Executed)
		}
	})
	t.Run("an operator's rule", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, "soracom", seldom)
		w.rule(carrier.Rule{Name: "the carrier's words for a risk stop", ChangesOnly: true, Contains: "cannot change to this status",
			Class: carrier.ClassRiskSuspended, Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true})
		w.run()
		c := w.sim(simwarden.StateSuspended)
		w.reads(c, simwarden.StateSuspended)
		w.must(w.carrier.SetState(c.iccid, simwarden.StateTerminated)) // from which this carrier lets nothing change
		w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
		w.closedBy(c, carrier.ClassRiskSuspended, simwarden.ExtendedRiskSuspended)
	})
}

func TestS22ARiskSuspendedSIMIsReopenedByAPersonAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "onelink")
	w.run()
	c := w.sim(simwarden.StateActive)
	w.reads(c, simwarden.StateActive)
	w.must(w.carrier.SetState(c.iccid, onelink.StoppedByRisk))
	eventually(t, "its polling is closed", func() bool { return w.closed(c) })
	kept := func() string {
		return w.text(`SELECT extended || ' ' || raw_state FROM poll_state WHERE sim_id = $1`, c.id)
	}
	risk := kept()
	if got := w.text(`SELECT extended FROM poll_state WHERE sim_id = $1`, c.id); got != string(simwarden.ExtendedRiskSuspended) {
		t.Errorf("its extended state is %q", got)
	}
	w.told(c)
	reads := len(w.lines(c, lab.KindRead))
	w.must(w.carrier.SetState(c.iccid, simwarden.StateActive))
	for _, scene := range simwarden.Scenes() {
		if scene != simwarden.SceneManual {
			w.evaluated(c, scene, 0)
		}
	}
	b := w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
	w.judged(simwarden.ScenePlanActivated, b.ID)
	w.periodic(c)
	if !w.closed(c) {
		t.Error("its polling was reopened by nobody (P5)")
	}
	// A read may have been under way, and another about to begin; what they say is kept.
	switch n := len(w.lines(c, lab.KindRead)) - reads; {
	case n > 2:
		t.Errorf("it was read %d times although its polling is closed", n)
	case n == 0 && kept() != risk:
		t.Errorf("what the carrier said is gone: %q, want %q (P5)", kept(), risk)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.ResumePolling(ctx, tx, c.id, anna, "the carrier has lifted it")
		return err
	})
	eventually(t, "it is read again", func() bool {
		return w.text(`SELECT extended FROM poll_state WHERE sim_id = $1`, c.id) == string(simwarden.ExtendedNone)
	})
	if w.closed(c) {
		t.Error("a person has reopened its polling, and it is closed")
	}
}

func TestS23ASuspendMeetsATerminatedSIMAndIsNotTriedAgain(t *testing.T) {
	for driver, r := range map[string]carrier.Rule{
		"onelink": {Code: "12089"}, "soracom": {Code: "SEM0003"},
	} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, driver, seldom)
			r.Name, r.ChangesOnly, r.Class, r.Extended, r.ClosePolling = "the SIM is no more", true, carrier.ClassTerminated, simwarden.ExtendedTerminated, true
			w.rule(r)
			w.run()
			c, _ := w.running(4*time.Second, simwarden.UnlimitedBytes)
			w.must(w.carrier.SetState(c.iccid, simwarden.StateTerminated)) // and nobody has read that
			w.closedBy(c, carrier.ClassTerminated, simwarden.ExtendedTerminated)
			if cmd := w.commands(c)[0]; cmd.Scene != simwarden.ScenePlanLapsed || cmd.Direction != simwarden.DirectionSuspend {
				t.Errorf("%s", describe([]store.Command{cmd}))
			}
		})
	}
}
