package acceptance

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

// requireRealName changes the account's policy as a person does (S19).
func (w *world) requireRealName(yes bool) {
	w.t.Helper()
	_, err := w.person().ChangeAccount(w.ctx, w.account.Name, api.AccountChange{RealNameRequired: &yes}, anna)
	w.must(err)
}

// policyJudged waits until the account's latest evaluation has gone over all its SIMs.
func (w *world) policyJudged(sims int64) store.AccountEvaluation {
	w.t.Helper()
	var v store.AccountEvaluation
	eventually(w.t, "the account's SIMs are judged", func() bool {
		list, err := w.person().AccountEvaluations(w.ctx, w.account.Name)
		w.must(err)
		if len(list) > 0 {
			v = list[0]
		}
		return !v.FinishedAt.IsZero()
	})
	if v.Done != sims || v.Total != sims || v.Scene != simwarden.SceneRealNamePolicyChanged {
		w.t.Errorf("the progress is %+v, want all %d SIMs", v, sims)
	}
	return v
}

func TestS19ARealNamePolicyIsLiftedAndSIMsResumeButPausedOnes(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom, func(a *store.Account) { a.RealNameRequired = true })
		w.run()
		unverified := func() card {
			c := w.sim(simwarden.StateActive)
			w.reads(c, simwarden.StateActive)
			w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
			// The purchase and the first reading both lead here; whichever is judged first.
			if cmd := w.ends(c, simwarden.CommandDone); cmd.Direction != simwarden.DirectionSuspend || cmd.Reason != simwarden.ReasonRealNameUnmet {
				t.Fatalf("the command is %s for %s, want a suspend for the real name", cmd.Direction, cmd.Reason)
			}
			return c
		}
		free, paused, exhausted := unverified(), unverified(), w.sim(simwarden.StateSuspended)
		w.pause(paused)
		w.reads(exhausted, simwarden.StateSuspended)
		w.buy(exhausted, w.plan(time.Hour, 0)) // of which nothing is left, whatever the policy

		w.requireRealName(false)
		w.policyJudged(3)
		var list []store.Command
		eventually(t, "the SIM is resumed", func() bool {
			list = w.commands(free)
			return len(list) == 2 && list[1].State == simwarden.CommandDone
		})
		if list[1].Direction != simwarden.DirectionResume || list[1].Scene != simwarden.SceneRealNamePolicyChanged || w.truth(free).State != simwarden.StateActive {
			t.Errorf("the SIM is %s at the carrier: %s", w.truth(free).State, describe(list))
		}
		for _, c := range []card{paused, exhausted} {
			for _, cmd := range w.commands(c) {
				if cmd.Direction == simwarden.DirectionResume {
					t.Errorf("SIM %s has a resume: %s", c.iccid, describe([]store.Command{cmd}))
				}
			}
			if got := w.truth(c).State; got != simwarden.StateSuspended {
				t.Errorf("SIM %s is %s at the carrier, want suspended as before", c.iccid, got)
			}
		}
	})
}

func TestE2ASIMIsVerifiedByHandAndResumes(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom, func(a *store.Account) { a.RealNameRequired = true })
		w.run()
		c := w.sim(simwarden.StateSuspended)
		w.reads(c, simwarden.StateSuspended)
		b := w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
		w.judged(simwarden.ScenePlanActivated, b.ID)
		if list := w.commands(c); len(list) != 0 {
			t.Fatalf("it is not verified, and there are commands: %s", describe(list))
		}
		_, changed, err := w.person().SetRealName(w.ctx, c.iccid, simwarden.RealNameVerified, anna, "passport seen")
		w.must(err)
		if !changed {
			t.Fatal("it was verified already")
		}
		w.only(c, simwarden.DirectionResume, simwarden.SceneRealNameActivated, simwarden.ReasonNone)
		if got := w.truth(c).State; got != simwarden.StateActive {
			t.Errorf("SIM %s is %s at the carrier", c.iccid, got)
		}
	})
}

func TestS19AnAccountsPolicyBitesAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	w.run()
	c, _ := w.running(time.Hour, simwarden.UnlimitedBytes)
	w.requireRealName(true)
	w.policyJudged(1)
	w.only(c, simwarden.DirectionSuspend, simwarden.SceneRealNamePolicyChanged, simwarden.ReasonRealNameUnmet)
	w.suspended(c)
}

// registration waits until the SIM has been read with a real-name status, and gives the SIM then.
func (w *world) registration(c card, want simwarden.RealName, odd string) store.SIM {
	w.t.Helper()
	var sim store.SIM
	eventually(w.t, "the real name of "+c.iccid+" is read as "+string(want)+" "+odd, func() bool {
		var err error
		sim, err = w.store.SIM(w.ctx, c.id)
		w.must(err)
		return !sim.RealNameReadAt.IsZero() && sim.RealName == want && sim.RealNameOdd == odd
	})
	return sim
}

// resumedFor waits until the SIM is resumed, in this scene or in that of a check: real names are read each
// second, and the reading that comes first after a change is judged by it.
func (w *world) resumedFor(c card, scene simwarden.Scene) {
	w.t.Helper()
	cmd := w.ends(c, simwarden.CommandDone)
	if cmd.Direction != simwarden.DirectionResume || cmd.Scene != scene && cmd.Scene != simwarden.SceneRealNameCheck {
		w.t.Errorf("the command is %s in scene %s, want a resume in scene %s", cmd.Direction, cmd.Scene, scene)
	}
}

func TestS19OneLinkSuspendsWhoIsNotRegisteredAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "onelink", seldom, func(a *store.Account) { a.RealNameRequired, a.RealNameEvery = true, time.Second })
	free := w.plan(time.Hour, simwarden.UnlimitedBytes)
	add := func(state simwarden.State, word string) card {
		c := w.sim(state)
		w.must(w.carrier.SetRealName(c.iccid, word))
		w.buy(c, free)
		return c
	}
	// As the carrier writes them: registered to a unit, not registered, a word nobody knows, registered.
	unit, stopped := add(simwarden.StateActive, "0 01"), add(simwarden.StateSuspended, "0 01")
	waiting := add(simwarden.StateSuspended, "0")
	missing, odd, verified := add(simwarden.StateActive, "0"), add(simwarden.StateSuspended, "7"), add(simwarden.StateActive, "1")
	w.run()

	if cmd := w.ends(missing, simwarden.CommandDone); cmd.Direction != simwarden.DirectionSuspend || cmd.Reason != simwarden.ReasonRealNameUnmet {
		t.Errorf("the command is %s for %s, want a suspend for the real name", cmd.Direction, cmd.Reason)
	}
	if cmd := w.ends(stopped, simwarden.CommandDone); cmd.Direction != simwarden.DirectionResume {
		t.Errorf("the SIM of a unit that is paid for got a %s", cmd.Direction)
	}
	w.registration(unit, simwarden.RealNameExempt, "")
	w.registration(odd, simwarden.RealNameUnknown, "7")
	w.registration(verified, simwarden.RealNameVerified, "")
	w.must(w.carrier.SetRealName(verified.iccid, "8"))
	w.registration(verified, simwarden.RealNameVerified, "8")
	for _, c := range []card{unit, odd, verified} {
		w.evaluated(c, simwarden.ScenePlanReset, 0)
		if list := w.commands(c); len(list) != 0 {
			t.Errorf("SIM %s: what the carrier says proves nothing against it, and there are commands: %s", c.iccid, describe(list))
		}
	}
	if n := w.count(`SELECT count(*) FROM alert WHERE kind = $1 AND account_id = $2 AND cleared_at IS NULL`, store.AlertRealName, w.account.ID); n != 1 {
		t.Errorf("%d alerts of the two words, want one", n)
	}

	// A person may say what the carrier does not tell, and that lasts while it does not.
	if _, _, err := w.person().SetRealName(w.ctx, unit.iccid, simwarden.RealNameUnverified, anna, "as asked"); err == nil {
		t.Error("a person overrode what the carrier tells")
	}
	_, _, err := w.person().SetRealName(w.ctx, odd.iccid, simwarden.RealNameVerified, anna, "passport seen")
	w.must(err)
	w.resumedFor(odd, simwarden.SceneRealNameActivated)
	w.registration(odd, simwarden.RealNameVerified, "7")

	// S19: nobody need be registered any more. (The carrier takes no second change of a SIM for minutes.)
	w.registration(waiting, simwarden.RealNameUnverified, "")
	w.pause(missing)
	w.requireRealName(false)
	w.resumedFor(waiting, simwarden.SceneRealNamePolicyChanged)
	if list := w.commands(missing); len(list) != 1 || w.truth(missing).State != simwarden.StateSuspended {
		t.Errorf("polling is paused, and the SIM is %s at the carrier: %s", w.truth(missing).State, describe(list))
	}
}
