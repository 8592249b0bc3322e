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
