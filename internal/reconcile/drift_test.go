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

func TestC8E13AManualSuspendThatFailedIsOrderedAgainAfterItsPause(t *testing.T) {
	r := newRig(t)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "data", Name: "data", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		_, err = tx.AddSubscription(ctx, simwarden.Subscription{SIMID: r.sim, PlanID: plan.ID, Kind: simwarden.PlanMain,
			State: simwarden.SubscriptionActive, StartAt: tx.At, EndAt: tx.At.AddDate(0, 0, 30), AllowanceBytes: simwarden.UnlimitedBytes}, "test", "")
		return err
	})
	r.reads(simwarden.StateActive)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		out, err := reconcile.Manual(ctx, tx, r.sim, simwarden.DirectionSuspend, "cli:anna", "stolen")
		if err != nil {
			return err
		}
		if _, err := tx.EndCommand(ctx, out.CommandID, simwarden.CommandQueued, simwarden.CommandFailed, "refused"); err != nil {
			return err
		}
		if err := tx.SetFailed(ctx, r.sim, simwarden.DirectionSuspend, 1, tx.At.Add(10*time.Minute)); err != nil {
			return err
		}
		return tx.SetDrifting(ctx, r.sim, "suspend failed: refused")
	})
	if o := r.reads(simwarden.StateActive); o.Ordered.Action != rules.OrderHold || o.Ordered.Direction != simwarden.DirectionSuspend {
		t.Errorf("a minute after the failure it got %+v, want a suspend that waits for its pause", o.Ordered)
	}
	r.clock.Advance(10 * time.Minute)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		list, err := reconcile.Preview(ctx, tx, []simwarden.SIMID{r.sim})
		if err == nil && (len(list) != 1 || list[0].Ordered.Action != rules.OrderOpen || list[0].Decision.Reason != simwarden.ReasonManualHold) {
			t.Errorf("diff shows %+v, want the suspend that the hold asks for (C9)", list)
		}
		return err
	})
	o := r.reads(simwarden.StateActive)
	if o.Ordered.Action != rules.OrderOpen || o.Ordered.Direction != simwarden.DirectionSuspend || o.Decision.Reason != simwarden.ReasonManualHold {
		t.Errorf("after the pause it got %+v for %s, want a suspend for the person's hold", o.Ordered, o.Decision.Reason)
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
