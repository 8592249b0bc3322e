package commander_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/commander"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestC8AfterTheLastFailureTheSIMDriftsAndTheSameOrderPauses(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpSuspend}})
	c := r.ends(r.open(id).ID, simwarden.CommandFailed)
	if n := len(r.changes(iccid)); n != 6 || c.Attempt != 6 {
		t.Errorf("%d requests in %d attempts, want 6 in 6", n, c.Attempt)
	}
	s := r.simRow(id)
	if s.DriftingAt.IsZero() || s.FailedInRow != 1 || s.FailedDir != simwarden.DirectionSuspend {
		t.Errorf("drifting at %s, %d failures in a row to %q (C8)", s.DriftingAt, s.FailedInRow, s.FailedDir)
	}
	if got := s.ReopenAt.Sub(c.EndedAt); got != 15*time.Minute {
		t.Errorf("the same order may be opened again after %s, want 15 min", got)
	}
	if len(r.alerts(store.AlertCommandFailed)) != 1 {
		t.Error("no alert went out (C8)")
	}
	r.record(c.ID)
	r.eachAttemptOnce()

	// At the next evaluation after the pause it is ordered again; this time it works, and all is
	// forgotten.
	r.world.ClearFaults()
	r.observe(id, simwarden.StateActive)
	if list := r.commands(id); len(list) != 1 {
		t.Fatalf("%d commands within the pause, want 1", len(list))
	}
	r.clock.Set(s.ReopenAt)
	r.observe(id, simwarden.StateActive)
	r.ends(r.open(id).ID, simwarden.CommandDone)
	if s = r.simRow(id); !s.DriftingAt.IsZero() || s.FailedInRow != 0 || len(r.alerts(store.AlertCommandFailed)) != 0 {
		t.Errorf("after success: drifting at %s, %d failures, alerts %v", s.DriftingAt, s.FailedInRow, r.alerts(store.AlertCommandFailed))
	}
}

func TestC8ThePauseGrowsWithFailuresInARow(t *testing.T) {
	r := newRig(t)
	id, _ := r.lapsing()
	r.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpSuspend}})
	r.ends(r.open(id).ID, simwarden.CommandFailed)
	r.clock.Set(r.simRow(id).ReopenAt)
	r.observe(id, simwarden.StateActive)
	c := r.ends(r.open(id).ID, simwarden.CommandFailed)
	if s := r.simRow(id); s.FailedInRow != 2 || s.ReopenAt.Sub(c.EndedAt) != 30*time.Minute {
		t.Errorf("after %d failures in a row the pause is %s, want 30 min after 2", s.FailedInRow, s.ReopenAt.Sub(c.EndedAt))
	}
}

func TestATerminalAnswerFailsAtOnceAndClosesPollingWhereItsRuleSaysSo(t *testing.T) {
	for _, tc := range []struct {
		says      string
		direction simwarden.Direction
		class     string
	}{
		{"S23: a suspend answered by terminated", simwarden.DirectionSuspend, "terminated"},
		{"S8: a resume answered by risk-suspended", simwarden.DirectionResume, "risk_suspended"},
	} {
		t.Run(tc.says, func(t *testing.T) {
			r := newRig(t)
			r.exec(`INSERT INTO error_rule (driver, position, name, origin, applies_to, http_status, class, extended, close_polling, not_executed)
				VALUES ('soracom', -1, 'gone', 'operator', 'changes', 4, $1, $1, true, true)`, tc.class)
			r.must(r.gateway.Reload(t.Context()))
			id, iccid := r.lapsing()
			if tc.direction == simwarden.DirectionResume {
				r.ends(r.open(id).ID, simwarden.CommandDone)
				r.subscribe(id)
			} else {
				r.observe(id, simwarden.StateActive)
			}
			before := len(r.changes(iccid))
			r.must(r.lab.SetState(iccid, simwarden.StateTerminated)) // the carrier refuses all changes; nobody has read it yet
			c := r.open(id)
			r.run()
			c = r.ends(c.ID, simwarden.CommandFailed)
			if n := len(r.changes(iccid)) - before; n != 1 || c.Attempt != 1 {
				t.Errorf("%d requests in %d attempts: a terminal answer is not retried (C5)", n, c.Attempt)
			}
			s := r.simRow(id)
			if s.ClosedAt.IsZero() || string(s.Extended) != tc.class {
				t.Errorf("polling closed at %s, extended state %s, want closed and %s (P5)", s.ClosedAt, s.Extended, tc.class)
			}
			if rec := r.record(c.ID); rec.Class != tc.class {
				t.Errorf("the record says class %q", rec.Class)
			}
		})
	}
}

func TestASIMThatTheCarrierDoesNotKnowFailsWithoutASend(t *testing.T) {
	r := newRig(t)
	var id simwarden.SIMID
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		iccid := simwarden.MustParseICCID("898600000000000001")
		ids, err := tx.AddSIMs(ctx, r.account, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		id = ids[0]
		return err
	})
	r.observe(id, simwarden.StateActive)
	r.manual(id, simwarden.DirectionSuspend)
	c := r.ends(r.open(id).ID, simwarden.CommandFailed)
	if !strings.Contains(c.EndBecause, "not_found") || c.Attempt != 0 || len(r.lines("", lab.KindChange)) != 0 {
		t.Errorf("%q after %d attempts", c.EndBecause, c.Attempt)
	}
}

func TestC6WhatCannotBeReadIsNeverSentAgainAndGivenUpInTheEnd(t *testing.T) {
	r := newRig(t, func(s *rigSpec) { s.options.GiveUpAfter = 2 * time.Hour })
	id, iccid := r.lapsing()
	r.observe(id, simwarden.StateActive)
	c := r.open(id)
	r.fault(lab.Fault{Name: lab.ActThenReset, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
	r.until(c.ID, "verifying", func(c store.Command) bool { return c.State == simwarden.CommandVerifying })
	r.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpQueryState}})
	r.until(c.ID, "overdue", func(c store.Command) bool { return r.clock.Now().Sub(c.MayActUntil) > 30*time.Minute })
	if r.simRow(id).DriftingAt.IsZero() || len(r.alerts(store.AlertDrift)) != 1 {
		t.Error("half an hour without knowing what became of it, and nobody was told")
	}
	c = r.ends(c.ID, simwarden.CommandFailed)
	if n := len(r.changes(iccid)); n != 1 {
		t.Errorf("%d requests, want 1: what is unknown is not sent again (C6)", n)
	}
	if took := c.EndedAt.Sub(c.MayActUntil); took < 2*time.Hour || took > 3*time.Hour {
		t.Errorf("given up after %s, want two hours", took)
	}
	if len(r.alerts(store.AlertDrift)) != 0 || len(r.alerts(store.AlertCommandFailed)) != 1 {
		t.Errorf("alerts after the end: %v, %v", r.alerts(store.AlertDrift), r.alerts(store.AlertCommandFailed))
	}
}

func TestC7AChangeThatHangsAtTheCarrierIsShownAndFollowed(t *testing.T) {
	r := newRig(t, superSIM(2*time.Hour))
	id, iccid := r.lapsing()
	c := r.open(id)
	r.until(c.ID, "overdue", func(c store.Command) bool {
		return c.State == simwarden.CommandConfirming && r.clock.Now().After(c.ConfirmUntil.Add(5*time.Minute))
	})
	if r.simRow(id).DriftingAt.IsZero() || len(r.alerts(store.AlertDrift)) != 1 {
		t.Error("it does not show for longer than it may take, and nobody was told")
	}
	c = r.ends(c.ID, simwarden.CommandDone)
	if n := len(r.changes(iccid)); n != 1 || c.Failures != 0 {
		t.Errorf("%d requests, %d failures: the carrier is still changing it", n, c.Failures)
	}
	if !r.simRow(id).DriftingAt.IsZero() || len(r.alerts(store.AlertDrift)) != 0 {
		t.Error("still shown as drifting after success")
	}
}

// gate stands before the gateway, and answers the first changes itself.
type gate struct {
	commander.Gateway
	answer func(call gateway.Call) error // nil: pass
}

func (g *gate) Do(ctx context.Context, id simwarden.AccountID, call gateway.Call, fn func(context.Context, carrier.Conn) error) error {
	if call.Operation.ChangesState() {
		if err := g.answer(call); err != nil {
			return err
		}
	}
	return g.Gateway.Do(ctx, id, call, fn)
}

func TestC5ALocalLimitIsNoAttempt(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	held := 0
	r.options.Gateway = &gate{r.gateway, func(call gateway.Call) error {
		if held++; held > 9 {
			return nil
		}
		return &carrier.Error{Operation: call.Operation, Class: carrier.ClassLimited, NotSent: true, RetryAfter: 700 * time.Millisecond}
	}}
	var err error
	r.m, err = commander.New(r.options)
	r.must(err)
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if c.Failures != 0 || len(r.changes(iccid)) != 1 {
		t.Errorf("%d failures, %d requests: our own limit is no attempt of the carrier's", c.Failures, len(r.changes(iccid)))
	}
	if rec := r.record(c.ID); len(rec.Attempts) != 2 || rec.Attempts[0].Outcome != store.AttemptNotSent {
		t.Errorf("the record shows %+v, want one row for all that was held back and the one that was sent", rec.Attempts)
	}
}

func TestALoginThatIsRefusedSaysNothingOfTheSIM(t *testing.T) {
	for _, tc := range []struct {
		says string
		err  carrier.Error
		held string
	}{
		{"invalid, said of the login, waits as auth", carrier.Error{Operation: simwarden.OpToken, Class: carrier.ClassInvalid, HTTPStatus: 422}, "auth"},
		{"unknown, said of the login, is temporary", carrier.Error{Operation: simwarden.OpToken, Class: carrier.ClassUnknown, HTTPStatus: 418}, ""},
		{"a token that ran out is no wrong credential", carrier.Error{Operation: simwarden.OpSuspend, Class: carrier.ClassAuth, HTTPStatus: 401, TokenExpired: true}, ""},
	} {
		t.Run(tc.says, func(t *testing.T) {
			r := newRig(t)
			id, iccid := r.lapsing()
			told := false
			r.options.Gateway = &gate{r.gateway, func(gateway.Call) error {
				if told {
					return nil
				}
				told = true
				e := tc.err
				return &e
			}}
			var err error
			r.m, err = commander.New(r.options)
			r.must(err)
			c := r.open(id)
			c = r.until(c.ID, "told", func(store.Command) bool { return told })
			if c.State != simwarden.CommandQueued || c.HeldBy != tc.held {
				t.Errorf("%s, held by %q, want queued and held by %q: the suspend was not sent", c.State, c.HeldBy, tc.held)
			}
			r.ends(c.ID, simwarden.CommandDone)
			if n := len(r.changes(iccid)); n != 1 {
				t.Errorf("%d requests", n)
			}
		})
	}
}

func TestC5ThrottledWaitsAsAskedAndCountsAsNoFailure(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.Throttle, Variant: "seconds", Seconds: 400, Operations: []simwarden.Operation{simwarden.OpSuspend}})
	c := r.open(id)
	c = r.until(c.ID, "throttled for more than an hour", func(c store.Command) bool {
		return !c.ThrottledSinceAt.IsZero() && r.clock.Now().Sub(c.ThrottledSinceAt) > 70*time.Minute
	})
	if c.Failures != 0 || c.HeldBy != "throttled" {
		t.Errorf("%d failures, held by %q (C5)", c.Failures, c.HeldBy)
	}
	changes := r.changes(iccid)
	for i := range changes[1:] {
		if gap := changes[i+1].ArrivedAt.Sub(changes[i].ArrivedAt); gap < 400*time.Second {
			t.Errorf("asked again after %s, the carrier said 400 s (V6)", gap)
		}
	}
	if r.simRow(id).DriftingAt.IsZero() || len(r.alerts(store.AlertThrottled)) != 1 {
		t.Error("throttled for an hour, and nobody was told (C5)")
	}
	r.world.ClearFaults()
	r.ends(c.ID, simwarden.CommandDone)
	if !r.simRow(id).DriftingAt.IsZero() || len(r.alerts(store.AlertThrottled)) != 0 {
		t.Error("still shown as drifting after success")
	}
}

func TestF35WrongCredentialsStopTheAccountAndTheCommandWaits(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.AuthFail})
	c := r.open(id)
	r.run()
	for range 5 {
		r.clock.Advance(10 * time.Minute)
		r.run()
	}
	c = r.command(c.ID)
	if c.State != simwarden.CommandQueued || c.HeldBy != store.HeldByStop || c.Failures != 0 {
		t.Errorf("%s, held by %q, %d failures", c.State, c.HeldBy, c.Failures)
	}
	if n := r.world.Requests(); n > 2 {
		t.Errorf("%d requests with wrong credentials: carriers lock accounts (G8)", n)
	}
	r.world.ClearFaults()
	r.tx(func(ctx context.Context, tx *store.Tx) error { return tx.StartAccount(ctx, r.account.ID) })
	r.must(r.gateway.Reload(t.Context()))
	r.ends(c.ID, simwarden.CommandDone)
	if got := r.atCarrier(iccid).State; got != simwarden.StateSuspended {
		t.Errorf("the SIM is %s", got)
	}
}

func TestC9AnObservingAccountGetsNoRequestAndKeepsItsTrigger(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	c := r.open(id)
	if r.count(`SELECT count(*) FROM lapse_trigger WHERE command_id = $1`, c.ID) != 1 {
		t.Fatal("the lapse has no trigger")
	}
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.SetAccountMode(ctx, r.account.ID, simwarden.ModeObserve)
	})
	r.ends(c.ID, simwarden.CommandObserved)
	if n := r.world.Requests(); n != 0 {
		t.Errorf("%d requests, carrier %s", n, r.atCarrier(iccid).State)
	}
	if n := r.count(`SELECT count(*) FROM lapse_trigger WHERE command_id = $1`, c.ID); n != 0 {
		t.Error("observing has used up E6's one trigger")
	}
	r.record(c.ID)
}

func TestC10TheBrakeHoldsAutomaticSuspendsAndNoOthers(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	lapsed, lapsedICCID := r.lapsing()
	c := r.open(id)
	r.exec(`UPDATE command SET scene = 'periodic' WHERE id = $1`, c.ID)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.BrakeAccount(ctx, r.account.ID, "test")
		return err
	})
	r.ends(r.open(lapsed).ID, simwarden.CommandDone)
	r.clock.Advance(time.Hour)
	r.run()
	if c = r.command(c.ID); c.State != simwarden.CommandQueued || c.HeldBy != store.HeldByBrake || len(r.changes(iccid)) != 0 {
		t.Errorf("%s, held by %q, %d requests (C10)", c.State, c.HeldBy, len(r.changes(iccid)))
	}
	if got := r.atCarrier(lapsedICCID).State; got != simwarden.StateSuspended {
		t.Errorf("the suspend of a plan's end was held as well: %s", got)
	}
	r.tx(func(ctx context.Context, tx *store.Tx) error { return tx.ReleaseBrake(ctx, r.account.ID) })
	r.ends(c.ID, simwarden.CommandDone)
}

func TestAReadThatFailsPutsTheCommandOffAndSendsNothing(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.fault(lab.Fault{Name: lab.Fail5xx, Operations: []simwarden.Operation{simwarden.OpQueryState}, Count: 4})
	c := r.open(id)
	var waits []time.Duration
	for len(waits) < 4 {
		r.run()
		if c = r.command(c.ID); c.State != simwarden.CommandQueued || len(r.changes(iccid)) != 0 {
			t.Fatalf("%s with %d requests, and the state could not be read (C3)", c.State, len(r.changes(iccid)))
		}
		waits = append(waits, c.RunAt.Sub(r.clock.Now()))
		r.clock.Set(c.RunAt)
	}
	if waits[3] <= waits[0] {
		t.Errorf("pauses %v do not grow", waits)
	}
	c = r.ends(c.ID, simwarden.CommandDone)
	if c.Failures != 0 || strings.Contains(c.EndBecause, "already") {
		t.Errorf("%d failures, %q: a read that fails is no failed attempt", c.Failures, c.EndBecause)
	}
}
