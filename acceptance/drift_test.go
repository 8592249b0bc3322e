package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// drifts gives the account a drift policy.
func drifts(policy simwarden.DriftPolicy) setting {
	return func(a *store.Account) { a.DriftPolicy = policy }
}

// outside changes the SIM's state at the carrier, as in its portal, and waits until that is known.
func (w *world) outside(c card, state simwarden.State) {
	w.t.Helper()
	w.must(w.carrier.SetState(c.iccid, state))
	eventually(w.t, "the change outside is noticed", func() bool {
		return w.count(`SELECT count(*) FROM event WHERE sim_id = $1 AND kind = 'drift' AND data->>'state' = $2`, c.id, string(state)) == 1
	})
}

// endedUp waits until a command of the scene has put the SIM right.
func (w *world) endedUp(c card, d simwarden.Direction, scene simwarden.Scene) {
	w.t.Helper()
	eventually(w.t, "it is put right by a "+string(d), func() bool {
		list := w.commands(c)
		return len(list) > 0 && list[len(list)-1].State == simwarden.CommandDone && list[len(list)-1].Direction == d && list[len(list)-1].Scene == scene
	})
}

func (w *world) adoptions(c card) int {
	w.t.Helper()
	return w.count(`SELECT count(*) FROM audit WHERE sim_id = $1 AND actor = 'carrier' AND action = 'drift_adopt'`, c.id)
}

func TestE13EnforceTakesBackWhatWasChangedOutside(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", drifts(simwarden.DriftEnforce))
	w.run()
	c, _ := w.running(time.Hour, simwarden.UnlimitedBytes)
	w.outside(c, simwarden.StateSuspended)
	w.endedUp(c, simwarden.DirectionResume, simwarden.SceneStateCheck)
	w.orders(c, simwarden.DirectionSuspend)
	w.reads(c, simwarden.StateSuspended)
	w.periodic(c) // judged with the reading: settled
	w.outside(c, simwarden.StateActive)
	w.endedUp(c, simwarden.DirectionSuspend, simwarden.SceneStateCheck)
	if w.adoptions(c) != 0 || w.held(c) != anna {
		t.Errorf("%d adoptions, held by %q: want the person's hold alone", w.adoptions(c), w.held(c))
	}
}

// held is who holds the SIM suspended; empty: nobody.
func (w *world) held(c card) string {
	w.t.Helper()
	return w.text(`SELECT hold_by FROM sim WHERE id = $1`, c.id)
}

func TestE13AlertLeavesWhatWasChangedOutsideToAPerson(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", drifts(simwarden.DriftAlert))
	w.run()
	c, _ := w.running(time.Hour, simwarden.UnlimitedBytes)
	w.outside(c, simwarden.StateSuspended)
	w.periodic(c)
	if list := w.commands(c); len(list) != 0 || w.held(c) != "" || w.adoptions(c) != 0 {
		t.Fatalf("commands %s, held by %q: want an alert alone", describe(list), w.held(c))
	}
	if n := w.count(`SELECT count(*) FROM alert WHERE sim_id = $1 AND kind = 'drift' AND cleared_at IS NULL`, c.id); n != 1 {
		t.Errorf("%d alerts are open, want one", n)
	}
	x, err := w.person().Explain(w.ctx, c.iccid)
	w.must(err)
	if x.SIM.DriftingAt.IsZero() || !strings.Contains(x.SIM.DriftBecause, "changed outside to suspended") {
		t.Errorf("explain says drifting since %v because %q", x.SIM.DriftingAt, x.SIM.DriftBecause)
	}
	w.must(w.carrier.SetState(c.iccid, simwarden.StateActive))
	noAlert := func() bool {
		return w.count(`SELECT count(*) FROM alert WHERE sim_id = $1 AND kind = 'drift' AND cleared_at IS NULL`, c.id) == 0
	}
	eventually(t, "what was changed back is no drift", noAlert)

	w.orders(c, simwarden.DirectionSuspend)
	w.reads(c, simwarden.StateSuspended)
	w.periodic(c) // judged with the reading: settled
	w.outside(c, simwarden.StateActive)
	w.periodic(c)
	if list := w.commands(c); len(list) != 1 || noAlert() || w.held(c) != anna {
		t.Errorf("a SIM that a person holds was resumed outside: commands %s, held by %q: want an alert alone", describe(list), w.held(c))
	}
	w.must(w.carrier.SetState(c.iccid, simwarden.StateSuspended))
	eventually(t, "what was changed back is no drift", noAlert)
}

func TestE13AdoptTakesWhatWasChangedOutsideForAManualAction(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", drifts(simwarden.DriftAdopt))
	w.run()
	c, _ := w.running(time.Hour, simwarden.UnlimitedBytes)
	w.outside(c, simwarden.StateSuspended)
	w.evaluated(c, simwarden.SceneStateCheck, 0)
	w.periodic(c)
	if list := w.commands(c); len(list) != 0 || w.held(c) != "carrier" || w.adoptions(c) != 1 {
		t.Fatalf("commands %s, held by %q, %d audit rows: want a hold by the carrier's side, audited once", describe(list), w.held(c), w.adoptions(c))
	}
	x, err := w.person().Explain(w.ctx, c.iccid)
	w.must(err)
	if x.Decision.Because != rules.BecauseManualHold || !x.Decision.Holds(simwarden.ReasonManualHold) || x.SIM.HoldBy != "carrier" || !strings.Contains(x.SIM.HoldReason, "adopt") {
		t.Errorf("explain says %s because %s, held by %q because %q", x.Decision.Desired, x.Decision.Because, x.SIM.HoldBy, x.SIM.HoldReason)
	}

	w.outside(c, simwarden.StateActive)
	w.evaluated(c, simwarden.SceneStateCheck, 0)
	w.periodic(c)
	if list := w.commands(c); len(list) != 0 || w.held(c) != "" || w.adoptions(c) != 2 {
		t.Errorf("changed back outside: commands %s, held by %q, %d audit rows: want the hold lifted", describe(list), w.held(c), w.adoptions(c))
	}
	for kind, want := range map[string]int{"manual_hold": 1, "manual_hold_lifted": 1} {
		if n := w.count(`SELECT count(*) FROM event WHERE sim_id = $1 AND kind = $2 AND actor = 'carrier'`, c.id, kind); n != want {
			t.Errorf("%d events %s by the carrier's side, want %d", n, kind, want)
		}
	}
}

func TestE13WhatIsAdoptedLastsUntilTheNextEvaluation(t *testing.T) {
	// A resume outside of a SIM without data is a manual resume: E2 holds again at the next automatic
	// evaluation (E3).
	t.Parallel()
	w := newWorld(t, "soracom", drifts(simwarden.DriftAdopt))
	w.run()
	c, _ := w.running(time.Hour, allowance)
	w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
	w.endedUp(c, simwarden.DirectionSuspend, simwarden.SceneUsageCheck)
	w.reads(c, simwarden.StateSuspended)
	w.periodic(c)
	w.outside(c, simwarden.StateActive)
	eventually(t, "the next evaluation suspends it again", func() bool {
		list := w.commands(c)
		return len(list) == 2 && list[1].State == simwarden.CommandDone
	})
	if cmd := w.commands(c)[1]; cmd.Scene == simwarden.SceneManual || cmd.Reason != simwarden.ReasonDataExhausted || w.adoptions(c) != 1 {
		t.Errorf("%s, after %d adoptions: want an automatic suspend for the data after one", describe([]store.Command{cmd}), w.adoptions(c))
	}
}
