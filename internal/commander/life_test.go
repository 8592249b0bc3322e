package commander_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestSuspendIsReadSentOnceAndConfirmed(t *testing.T) {
	for _, driver := range []string{"soracom", "supersim"} {
		t.Run(driver, func(t *testing.T) {
			r := newRig(t, func(s *rigSpec) { s.driver = driver })
			id, iccid := r.lapsing()
			c := r.ends(r.open(id).ID, simwarden.CommandDone)
			if got := r.atCarrier(iccid).State; got != simwarden.StateSuspended {
				t.Errorf("the SIM is %s at the carrier", got)
			}
			if n := len(r.changes(iccid)); n != 1 {
				t.Errorf("the carrier saw %d changes, want 1 (C4)", n)
			}
			if got := r.simRow(id); got.State != simwarden.StateSuspended || got.Key == "" {
				t.Errorf("we know the SIM as %s with key %q: the command's reads are kept", got.State, got.Key)
			}
			rec := r.record(c.ID)
			if rec.Status != "done" || rec.Scene != "plan_lapsed" || len(rec.Attempts) != 1 {
				t.Errorf("record %+v: want one attempt, done, scene plan_lapsed (R1)", rec)
			}
			if n := r.count(`SELECT count(*) FROM event WHERE kind = 'command_ended' AND sim_id = $1`, id); n != 1 {
				t.Errorf("%d events tell of the end, want 1 (R4)", n)
			}
			r.eachAttemptOnce()
		})
	}
}

func TestResumeAfterANewPlan(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.ends(r.open(id).ID, simwarden.CommandDone)
	r.subscribe(id)
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if c.Direction != simwarden.DirectionResume || r.atCarrier(iccid).State != simwarden.StateActive {
		t.Errorf("%s ended, the SIM is %s", c.Direction, r.atCarrier(iccid).State)
	}
	if n := len(r.changes(iccid)); n != 2 {
		t.Errorf("the carrier saw %d changes, want one suspend and one resume", n)
	}
}

func TestS12TemporaryFailuresKeepTheSceneAndEndInOneRecord(t *testing.T) {
	r := newRig(t)
	id, iccid := r.sim(simwarden.StateActive)
	r.subscribe(id)
	r.pause(id) // S2's SIM
	r.lapse()
	r.fault(lab.Fault{Name: lab.ResetBefore, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 2})
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	rec := r.record(c.ID)
	if len(rec.Attempts) != 3 || c.Scene != simwarden.ScenePlanLapsed {
		t.Errorf("%d attempts with scene %s, want 3 with plan_lapsed", len(rec.Attempts), c.Scene)
	}
	var scenes int
	r.must(r.pool.QueryRow(t.Context(), `SELECT count(DISTINCT scene || (facts->>'scene')) FROM attempt WHERE command_id = $1`, c.ID).Scan(&scenes))
	if scenes != 1 {
		t.Errorf("the attempts were judged with %d different scenes (E4)", scenes)
	}
	if got := r.atCarrier(iccid); got.State != simwarden.StateSuspended || got.Executions != 1 {
		t.Errorf("the SIM is %s after %d executions", got.State, got.Executions)
	}
	r.eachAttemptOnce()
}

func TestS13ANewPlanBeforeSendingMakesTheCommandObsolete(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	c := r.open(id)
	// The plan is bought in a transaction that tells nobody: what is tested is the judgement just
	// before sending (C3).
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddSubscription(ctx, simwarden.Subscription{SIMID: id, PlanID: r.plan.ID, Kind: simwarden.PlanMain,
			State: simwarden.SubscriptionActive, StartAt: tx.At, EndAt: tx.At.Add(24 * time.Hour), AllowanceBytes: simwarden.UnlimitedBytes}, "test", "")
		return err
	})
	c = r.ends(c.ID, simwarden.CommandObsolete)
	if !strings.Contains(c.EndBecause, "plan in force") {
		t.Errorf("ended because %q: want the check that changed named", c.EndBecause)
	}
	if n := len(r.changes(iccid)); n != 0 || r.atCarrier(iccid).State != simwarden.StateActive {
		t.Errorf("the carrier saw %d changes, the SIM is %s", n, r.atCarrier(iccid).State)
	}
}

func TestS16A500IsOneRequestAndTheRetryFollowsAReadAndANewJudgement(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
	c := r.open(id)
	c = r.until(c.ID, "verifying", func(c store.Command) bool { return c.State == simwarden.CommandVerifying })
	if n := len(r.changes(iccid)); n != 1 {
		t.Fatalf("the attempt made %d requests, want 1 (C4)", n)
	}
	c = r.ends(c.ID, simwarden.CommandDone)
	changes := r.changes(iccid)
	if len(changes) != 2 || c.Attempt != 2 {
		t.Fatalf("%d requests in %d attempts, want 2 in 2", len(changes), c.Attempt)
	}
	between := 0
	for _, l := range r.lines(iccid, lab.KindRead) {
		if l.Seq > changes[0].Seq && l.Seq < changes[1].Seq {
			between++
		}
	}
	if between == 0 {
		t.Error("the second request was sent without asking the state first (C6)")
	}
	var decided int
	r.must(r.pool.QueryRow(t.Context(), `SELECT count(DISTINCT decision->>'decided_at') FROM attempt WHERE command_id = $1`, c.ID).Scan(&decided))
	if decided != 2 {
		t.Errorf("%d judgements for two attempts (V5)", decided)
	}
}

func TestS17WhatTheCarrierDidBeforeTheConnectionDiedIsNotSentAgain(t *testing.T) {
	for _, name := range []string{lab.ActThenReset, lab.ActThen5xx, lab.ActThenHang} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, impatient)
			id, iccid := r.lapsing()
			r.fault(lab.Fault{Name: name, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
			c := r.ends(r.open(id).ID, simwarden.CommandDone)
			if n := len(r.changes(iccid)); n != 1 {
				t.Errorf("the carrier saw %d changes, want 1: the state is asked first", n)
			}
			if !strings.Contains(c.EndBecause, "had acted") {
				t.Errorf("ended because %q", c.EndBecause)
			}
			if rec := r.record(c.ID); len(rec.Attempts) != 1 || rec.Attempts[0].Class != "unknown_outcome" {
				t.Errorf("attempts %+v, want one of unknown outcome", rec.Attempts)
			}
		})
	}
}

func TestF24AnAnswerNotUnderstoodIsNoState(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.Garbage, Variant: "html", Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
	c := r.open(id)
	r.until(c.ID, "verifying", func(c store.Command) bool { return c.State == simwarden.CommandVerifying })
	r.ends(c.ID, simwarden.CommandDone)
	if got := r.atCarrier(iccid); got.Executions != 1 || len(r.changes(iccid)) != 1 {
		t.Errorf("%d requests, %d executions, want one of each", len(r.changes(iccid)), got.Executions)
	}
}

func TestV4NotChangedIsBelievedOnlyAfterTheTimeToSettle(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	// The connection breaks, nobody knows why; the deadline was 30 s after the claim.
	r.fault(lab.Fault{Name: lab.ResetBefore, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	changes := r.changes(iccid)
	if len(changes) != 2 {
		t.Fatalf("%d requests, want 2", len(changes))
	}
	var deadline time.Time
	r.must(r.pool.QueryRow(t.Context(), `SELECT deadline_at FROM attempt WHERE command_id = $1 AND number = 1`, c.ID).Scan(&deadline))
	settle := 5 * time.Second
	var last time.Time
	for _, l := range r.lines(iccid, lab.KindRead) {
		if l.ArrivedAt.Before(changes[1].ArrivedAt) && l.ArrivedAt.After(last) {
			last = l.ArrivedAt
		}
	}
	if last.Before(deadline.Add(settle)) {
		t.Errorf("sent again after a read at %s; the request could have been executed until %s and takes %s to show", last, deadline, settle)
	}
}

func TestF22ALieIsFoundOutByReadingAndCountsAsAFailure(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.LieOK, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
	sent := r.clock.Now()
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if n := len(r.changes(iccid)); n != 2 || c.Failures != 1 {
		t.Errorf("%d requests with %d failures, want 2 with 1", n, c.Failures)
	}
	if took := r.clock.Now().Sub(sent); took < 10*time.Minute {
		t.Errorf("sent again after %s: what the carrier took is followed for 10 minutes (C7)", took)
	}
	if got := r.atCarrier(iccid); got.Executions != 1 || got.State != simwarden.StateSuspended {
		t.Errorf("%d executions, %s", got.Executions, got.State)
	}
}

func TestC7AnAcceptedChangeIsFollowedUntilItShows(t *testing.T) {
	r := newRig(t, superSIM(40*time.Second))
	id, iccid := r.lapsing()
	c := r.open(id)
	c = r.until(c.ID, "confirming", func(c store.Command) bool { return c.State == simwarden.CommandConfirming })
	if got := r.atCarrier(iccid).State; got != simwarden.StateActive {
		t.Fatalf("the carrier has done it at once, the test needs one that takes time: %s", got)
	}
	c = r.ends(c.ID, simwarden.CommandDone)
	if took := c.EndedAt.Sub(c.CreatedAt); took < 40*time.Second || took > 2*time.Minute {
		t.Errorf("confirmed after %s, the carrier took 40 s", took)
	}
	if n := len(r.changes(iccid)); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

func TestC7AlreadyInThatStateIsSuccessWithoutARequest(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.must(r.lab.SetState(iccid, simwarden.StateSuspended)) // in the carrier's portal
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if n := len(r.changes(iccid)); n != 0 || !strings.Contains(c.EndBecause, "already so") {
		t.Errorf("%d requests, ended because %q", n, c.EndBecause)
	}
}

func TestC2TheOppositeWaitsForTheCommandUnderWay(t *testing.T) {
	r := newRig(t, superSIM(time.Minute))
	id, iccid := r.lapsing()
	first := r.open(id)
	r.until(first.ID, "confirming", func(c store.Command) bool { return c.State == simwarden.CommandConfirming })
	r.subscribe(id)
	if c := r.open(id); c.ID != first.ID {
		t.Fatalf("command %d was opened while %d is under way (C2)", c.ID, first.ID)
	}
	r.ends(first.ID, simwarden.CommandDone)
	r.work()
	c := r.open(id)
	if c.Direction != simwarden.DirectionResume {
		t.Fatalf("after the suspend had shown: %s", c.Direction)
	}
	r.ends(c.ID, simwarden.CommandDone)
	if got := r.atCarrier(iccid).State; got != simwarden.StateActive {
		t.Errorf("the SIM is %s at the carrier, with a plan in force", got)
	}
}

func TestS21ManualOrdersGoOutAsManual(t *testing.T) {
	r := newRig(t)
	id, iccid := r.sim(simwarden.StateActive)
	r.pause(id)
	r.manual(id, simwarden.DirectionSuspend)
	r.ends(r.open(id).ID, simwarden.CommandDone)
	if got := r.atCarrier(iccid).State; got != simwarden.StateSuspended {
		t.Errorf("the SIM is %s", got)
	}
	r.manual(id, simwarden.DirectionResume)
	r.ends(r.open(id).ID, simwarden.CommandDone)
	if got := r.atCarrier(iccid).State; got != simwarden.StateActive {
		t.Errorf("the SIM is %s", got)
	}
	r.must(r.gateway.Flush(t.Context()))
	var purposes []string
	r.must(r.pool.QueryRow(t.Context(), `SELECT array_agg(DISTINCT purpose) FROM call_stat WHERE operation IN ('suspend', 'resume')`).Scan(&purposes))
	if len(purposes) != 1 || purposes[0] != "manual" {
		t.Errorf("counted as %v, want manual alone: one person's click on one SIM passes limits (G2)", purposes)
	}
}
