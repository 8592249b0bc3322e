package evaluator_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// setRealName is what a change of an account's policy writes.
func (w *world) setRealName(required bool) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.RequestAccountEvaluation(ctx, w.account.ID, simwarden.SceneRealNamePolicyChanged, "cli:anna"); err != nil {
			return err
		}
		return tx.SetRealNameRequired(ctx, w.account.ID, required)
	})
}

// progress is the account's latest evaluation.
func (w *world) progress() store.AccountEvaluation {
	w.t.Helper()
	list, err := w.store.AccountEvaluations(w.t.Context(), w.account.ID, 10)
	if err != nil || len(list) == 0 {
		w.t.Fatalf("the account has %d evaluations (%v)", len(list), err)
	}
	return list[0]
}

func (w *world) stepAccount() int {
	w.t.Helper()
	n, err := w.eval.StepAccount(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestS19APolicyChangeJudgesAllSIMsOfTheAccount(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	var running, paused []simwarden.SIMID
	const n = 230 // more than a batch
	for i := range n {
		id := w.sim(simwarden.StateActive)
		w.subscribe(id, p)
		if i%10 == 0 {
			paused = append(paused, id)
		} else {
			running = append(running, id)
		}
	}
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, id := range paused {
			if _, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", ""); err != nil {
				return err
			}
		}
		return tx.SetBrake(ctx, w.account.ID, 100, n, time.Minute)
	})
	w.setRealName(true)
	if done := w.stepAccount(); done != 200 {
		t.Fatalf("the first batch has judged %d SIMs, want 200", done)
	}
	if v := w.progress(); v.Done != 200 || v.Total != n || v.Ordered != 180 || !v.FinishedAt.IsZero() {
		t.Errorf("the progress is %+v, want 200 of %d with 180 commands", v, n)
	}
	for w.stepAccount() > 0 {
	}
	if v := w.progress(); v.Done != n || v.FinishedAt.IsZero() || v.AskedBy != "cli:anna" {
		t.Errorf("in the end the progress is %+v", v)
	}
	for _, id := range running {
		one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.SceneRealNamePolicyChanged, simwarden.ReasonRealNameUnmet)
	}
	for _, id := range paused {
		none(t, w.commands(id), "E5: polling is paused")
	}
}

func TestS19AChangeBackOvertakesTheOneUnderWay(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, p)
	w.settle()
	w.setRealName(true)
	w.setRealName(false)
	for w.stepAccount() > 0 {
	}
	none(t, w.commands(id), "what counts is the policy as it is, not as it was for a moment")
	list, err := w.store.AccountEvaluations(t.Context(), w.account.ID, 10)
	if err != nil || len(list) != 2 || list[1].Done != 0 || list[1].FinishedAt.IsZero() || list[0].Done != 1 {
		t.Errorf("the evaluations are %+v (%v), want the first overtaken and the second done", list, err)
	}
}

func TestS19ARowThatCannotBeJudgedIsPassedOver(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	first, bad, last := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	for _, id := range []simwarden.SIMID{first, bad, last} {
		w.subscribe(id, p)
	}
	w.settle()
	w.refuse(bad)
	w.setRealName(true)
	for w.stepAccount() > 0 {
	}
	if v := w.progress(); v.Done != 3 || v.Ordered != 2 || v.FinishedAt.IsZero() {
		t.Errorf("the progress is %+v, want 3 done and 2 ordered", v)
	}
	for _, id := range []simwarden.SIMID{first, last} {
		one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.SceneRealNamePolicyChanged, simwarden.ReasonRealNameUnmet)
	}
}

func TestE2ARealNameSetByHandIsJudgedAtOnce(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	id := w.sim(simwarden.StateSuspended)
	w.setRealName(true)
	for w.stepAccount() > 0 {
	}
	w.subscribe(id, p)
	w.settle()
	none(t, w.commands(id), "it is suspended and not verified")
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		changed, err := reconcile.SetRealName(ctx, tx, id, simwarden.RealNameVerified, "cli:anna", "passport seen")
		if err == nil && !changed {
			t.Error("nothing has changed")
		}
		return err
	})
	w.settle()
	one(t, w.commands(id), simwarden.DirectionResume, simwarden.SceneRealNameActivated, simwarden.ReasonNone)
}
