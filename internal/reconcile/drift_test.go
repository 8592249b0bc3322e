package reconcile_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// rig is a database whose time stands still, with one SIM of an account that leaves drift to a person.
type rig struct {
	t     *testing.T
	store *store.Store
	clock *clock.Manual
	sim   simwarden.SIMID
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))}
	s, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, store.Migrate), Clock: r.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r.store = s
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "soracom",
			Unplanned: simwarden.UnplannedSuspend, DriftPolicy: simwarden.DriftAlert})
		if err != nil {
			return err
		}
		if err := tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct); err != nil {
			return err
		}
		iccid := simwarden.MustParseICCID("898600000000000001")
		ids, err := tx.AddSIMs(ctx, a, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		if err != nil {
			return err
		}
		r.sim = ids[0]
		return nil
	})
	return r
}

func (r *rig) tx(fn func(context.Context, *store.Tx) error) {
	r.t.Helper()
	if err := r.store.InTx(r.t.Context(), func(tx *store.Tx) error { return fn(r.t.Context(), tx) }); err != nil {
		r.t.Fatal(err)
	}
}

// reads takes in, a minute later, that the carrier shows a state.
func (r *rig) reads(state simwarden.State) (out reconcile.Outcome) {
	r.t.Helper()
	r.clock.Advance(time.Minute)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		list, err := reconcile.Observe(ctx, tx, []store.Observed{{SIMID: r.sim, Reading: simwarden.Reading{
			ReadAt: tx.At, State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone}}}})
		if err == nil {
			out = list[0]
		}
		return err
	})
	return out
}

// drifting says whether the SIM is shown as drifting, and how many alerts are open.
func (r *rig) drifting() (marked bool, alerts int) {
	r.t.Helper()
	sim, err := r.store.SIM(r.t.Context(), r.sim)
	if err != nil {
		r.t.Fatal(err)
	}
	open, err := r.store.OpenAlerts(r.t.Context(), 10)
	if err != nil {
		r.t.Fatal(err)
	}
	return !sim.DriftingAt.IsZero(), len(open)
}

func TestE13DriftThatHasGoneHoldsNothingBack(t *testing.T) {
	r := newRig(t)
	r.reads(simwarden.StateSuspended)
	if o := r.reads(simwarden.StateActive); o.Ordered.Action != rules.OrderHold || o.Ordered.Because != "drift_policy" {
		t.Fatalf("a state changed outside led to %+v, though the policy leaves it to a person", o.Ordered)
	}
	if marked, alerts := r.drifting(); !marked || alerts != 1 {
		t.Fatalf("drifting: %v, with %d alerts; nobody is told", marked, alerts)
	}
	r.reads(simwarden.StateSuspended)
	if marked, alerts := r.drifting(); marked || alerts != 0 {
		t.Errorf("the SIM is as wanted again; drifting: %v, with %d alerts", marked, alerts)
	}
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "data", Name: "data", Kind: simwarden.PlanMain, AllowanceBytes: 1 << 30,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		_, err = tx.AddSubscription(ctx, simwarden.Subscription{SIMID: r.sim, PlanID: plan.ID, Kind: simwarden.PlanMain,
			State: simwarden.SubscriptionActive, StartAt: tx.At, EndAt: tx.At.Add(time.Hour), AllowanceBytes: 1 << 30}, "test", "")
		if err != nil {
			return err
		}
		return tx.WriteUsage(ctx, []store.UsageRow{{SIMID: r.sim, ReadAt: tx.At, TrueAt: tx.At}})
	})
	if o := r.reads(simwarden.StateSuspended); o.Ordered.Action != rules.OrderOpen || o.Ordered.Direction != simwarden.DirectionResume {
		t.Errorf("a paid SIM that drifted once and came back got %+v, want a resume", o.Ordered)
	}
}

func TestC8AFailureIsOverWhenTheStateShows(t *testing.T) {
	r := newRig(t)
	id := r.reads(simwarden.StateActive).CommandID
	if id == 0 {
		t.Fatal("no suspend was ordered")
	}
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.EndCommand(ctx, id, simwarden.CommandQueued, simwarden.CommandFailed, "refused"); err != nil {
			return err
		}
		if err := tx.SetFailed(ctx, r.sim, simwarden.DirectionSuspend, 3, tx.At.Add(24*time.Hour)); err != nil {
			return err
		}
		if err := tx.SetDrifting(ctx, r.sim, "suspend failed: refused"); err != nil {
			return err
		}
		return tx.Raise(ctx, store.Alert{Kind: store.AlertCommandFailed, Key: reconcile.FailedKey(r.sim), SIMID: r.sim, Message: "failed"})
	})
	r.reads(simwarden.StateSuspended)
	if marked, alerts := r.drifting(); marked || alerts != 0 {
		t.Errorf("somebody suspended it by hand; drifting: %v, with %d alerts", marked, alerts)
	}
	sim, err := r.store.SIM(t.Context(), r.sim)
	if err != nil {
		t.Fatal(err)
	}
	if sim.FailedDir != "" || sim.FailedInRow != 0 || !sim.ReopenAt.IsZero() {
		t.Errorf("the failed suspend has been fulfilled, and still counts: %q, %d in a row", sim.FailedDir, sim.FailedInRow)
	}
}
