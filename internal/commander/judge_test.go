package commander_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/commander"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
	"github.com/simwarden/simwarden/lab"
)

// paid gives a suspended SIM with data left, for which a resume is queued.
func (r *rig) paid() (simwarden.SIMID, string) {
	r.t.Helper()
	id, iccid := r.sim(simwarden.StateSuspended)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		p, err := tx.AddPlan(ctx, simwarden.Plan{Code: "gb", Name: "gb", Kind: simwarden.PlanMain, AllowanceBytes: 1e9,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		_, err = tx.AddSubscription(ctx, simwarden.Subscription{SIMID: id, PlanID: p.ID, Kind: simwarden.PlanMain,
			State: simwarden.SubscriptionActive, StartAt: tx.At, EndAt: tx.At.Add(720 * time.Hour), AllowanceBytes: 1e9}, "test", "")
		if err != nil {
			return err
		}
		_, err = tx.OpenCommands(ctx, []store.NewCommand{{SIMID: id, AccountID: r.account.ID, Direction: simwarden.DirectionResume,
			Scene: simwarden.ScenePlanActivated, Cause: store.Cause{Kind: store.CauseSubscription, ID: 1}, AskedBy: reconcile.System,
			Decision: simwarden.Decision{Desired: simwarden.DesiredRunning}, Priority: 80}})
		return err
	})
	return id, iccid
}

func TestE11AResumeReadsAllThatItRestsOnFirst(t *testing.T) {
	r := newRig(t)
	id, iccid := r.paid()
	r.clock.Advance(time.Hour) // state and usage are too old by now
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if n := r.count(`SELECT count(*) FROM attempt WHERE command_id = $1 AND facts->>'usage_read_at' IS NOT NULL
		AND (facts->>'now_at')::timestamptz - (facts->>'state_read_at')::timestamptz < '15 min'`, c.ID); n != 1 {
		t.Error("resumed without having read state and usage (E11)")
	}
	if r.simRow(id).UsageReadAt.IsZero() || r.atCarrier(iccid).State != simwarden.StateActive {
		t.Error("the usage that was read was not kept, or the SIM does not run")
	}
}

func TestC3DataUsedUpBeforeSendingMakesAResumeObsolete(t *testing.T) {
	r := newRig(t)
	id, iccid := r.paid()
	r.observeUsage(id, 0)
	r.must(r.lab.SetUsage(iccid, 2e9)) // the read before sending finds it
	r.clock.Advance(time.Hour)
	c := r.ends(r.open(id).ID, simwarden.CommandObsolete)
	if n := len(r.changes(iccid)); n != 0 {
		t.Errorf("%d requests for a SIM without data left (%s)", n, c.EndBecause)
	}
}

func (r *rig) observeUsage(id simwarden.SIMID, bytes int64) {
	r.t.Helper()
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		month := time.Date(tx.At.Year(), tx.At.Month(), 1, 0, 0, 0, 0, time.UTC)
		obs := []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: tx.At,
			State: &simwarden.StateReading{State: simwarden.StateSuspended, Extended: simwarden.ExtendedNone},
			Usage: &simwarden.UsageReading{CounterBytes: bytes, PeriodStartAt: month, PeriodEndAt: month.AddDate(0, 1, 0)}}}}
		if _, err := usage.Book(ctx, tx, obs); err != nil {
			return err
		}
		_, err := reconcile.Observe(ctx, tx, obs)
		return err
	})
}

func TestUsageThatOnlyListsTellIsWaitedFor(t *testing.T) {
	r := newRig(t, onDriver("test-listed"))
	id, iccid := r.paid()
	c := r.open(id)
	r.run()
	if c = r.command(c.ID); c.HeldBy != "a reading of usage" || len(r.changes(iccid)) != 0 {
		t.Errorf("held by %q after %d requests (E11)", c.HeldBy, len(r.changes(iccid)))
	}
	if n := r.count(`SELECT count(*) FROM poll_nudge WHERE sim_id = $1`, id); n != 1 {
		t.Error("the poller was not asked to read it")
	}
	r.observeUsage(id, 5)
	r.ends(c.ID, simwarden.CommandDone)
}

func TestC3WhatAPersonDidMeanwhileCountsBeforeSending(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	c := r.open(id)
	r.observe(id, simwarden.StateActive)
	r.exec(`UPDATE command SET scene = 'periodic' WHERE id = $1`, c.ID)
	r.pause(id)
	c = r.ends(c.ID, simwarden.CommandObsolete)
	if !strings.Contains(c.EndBecause, "polling_paused") || len(r.changes(iccid)) != 0 {
		t.Errorf("%q after %d requests: under pause only a plan's end acts (E5)", c.EndBecause, len(r.changes(iccid)))
	}
}

func TestE3AStateThatTheCarrierDoesNotTellIsReadAgainAfterAWhile(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	c := r.open(id)
	r.exec(`UPDATE command SET scene = 'periodic' WHERE id = $1`, c.ID)
	r.observe(id, simwarden.StateUnknown)
	r.run()
	if c = r.command(c.ID); c.HeldBy != "the carrier does not tell: state" || r.world.Requests() != 0 {
		t.Errorf("held by %q after %d requests: it was read just now", c.HeldBy, r.world.Requests())
	}
	r.ends(c.ID, simwarden.CommandDone)
	if n := len(r.changes(iccid)); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestACommandWhoseFactsCannotBeReadEndsAsFailedInTheEnd(t *testing.T) {
	impatient := func(s *rigSpec) { s.options.GiveUpAfter = time.Hour }
	t.Run("reads fail", func(t *testing.T) {
		r := newRig(t, impatient)
		id, iccid := r.lapsing()
		r.fault(lab.Fault{Name: lab.Fail5xx})
		c := r.ends(r.open(id).ID, simwarden.CommandFailed)
		if n := len(r.changes(iccid)); n != 0 || c.EndedAt.Sub(c.CreatedAt) < time.Hour {
			t.Errorf("%d requests, ended after %s", n, c.EndedAt.Sub(c.CreatedAt))
		}
	})
	t.Run("the state stays unknown", func(t *testing.T) {
		r := newRig(t, impatient)
		id, iccid := r.lapsing()
		c := r.open(id)
		r.exec(`UPDATE command SET scene = 'periodic' WHERE id = $1`, c.ID)
		r.clock.Advance(2 * time.Hour)
		r.observe(id, simwarden.StateUnknown)
		c = r.ends(c.ID, simwarden.CommandFailed)
		if n := len(r.changes(iccid)); n != 0 || r.simRow(id).DriftingAt.IsZero() {
			t.Errorf("%d requests, drifting at %s: %s", n, r.simRow(id).DriftingAt, c.EndBecause)
		}
	})
}

func TestAChangeThatTheCarrierIsMakingIsWaitedFor(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	c := r.open(id)
	r.exec(`UPDATE command SET scene = 'periodic' WHERE id = $1`, c.ID)
	r.observe(id, simwarden.StateActive)
	r.exec(`UPDATE poll_state SET pending = true WHERE sim_id = $1`, id)
	r.run()
	if c = r.command(c.ID); c.HeldBy != "the carrier is changing it" || len(r.changes(iccid)) != 0 {
		t.Errorf("held by %q after %d requests", c.HeldBy, len(r.changes(iccid)))
	}
	r.ends(c.ID, simwarden.CommandDone)
}

func TestMetricsTellHowCommandsEnd(t *testing.T) {
	r := newRig(t)
	registry := prometheus.NewRegistry()
	r.options.Registerer = registry
	var err error
	r.m, err = commander.New(r.options)
	r.must(err)
	id, _ := r.lapsing()
	r.ends(r.open(id).ID, simwarden.CommandDone)
	families, err := registry.Gather()
	r.must(err)
	ended := 0.0
	for _, f := range families {
		if f.GetName() == "simwarden_commands_ended_total" {
			for _, m := range f.GetMetric() {
				ended += m.GetCounter().GetValue()
			}
		}
	}
	if ended != 1 {
		t.Errorf("%v commands counted, want 1", ended)
	}
	if _, err := commander.New(r.options); err == nil {
		t.Error("metrics registered twice were not refused")
	}
	if _, err := commander.New(commander.Options{}); err == nil {
		t.Error("a commander without store and gateway was made")
	}
}
