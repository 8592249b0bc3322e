package evaluator_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// closed counts the SIMs whose polling is closed.
func (w *world) closed(ids []simwarden.SIMID) (n int) {
	w.t.Helper()
	for _, id := range ids {
		sim, err := w.store.SIM(w.t.Context(), id)
		if err != nil {
			w.t.Fatal(err)
		}
		if !sim.ClosedAt.IsZero() {
			n++
		}
	}
	return n
}

// ended takes in that the carrier says of all of them, in one list page, that they have ended.
func (w *world) ended(ids []simwarden.SIMID) {
	w.t.Helper()
	var obs []store.Observed
	for _, id := range ids {
		obs = append(obs, store.Observed{SIMID: id, Reading: simwarden.Reading{ReadAt: w.clock.Now(),
			State: &simwarden.StateReading{State: simwarden.StateTerminated, Extended: simwarden.ExtendedTerminated, Raw: "terminated"}}})
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Observe(ctx, tx, obs)
		return err
	})
}

func TestF30ACarrierThatSaysAFleetHasEndedDoesNotCloseIt(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	var ids []simwarden.SIMID
	for range 25 { // a fleet under 100 SIMs: the brake's limit is 10
		ids = append(ids, w.sim(simwarden.StateActive))
	}
	w.ended(ids[:9])
	if n := w.closed(ids); n != 9 || w.alerts()[store.AlertBrake] != 0 {
		t.Fatalf("%d SIMs are closed with alerts %v, want the nine that have ended and no alert (P5)", n, w.alerts())
	}
	w.clock.Advance(time.Second)
	w.ended(ids)
	w.ended(ids)
	if n := w.closed(ids); n != 10 || w.alerts()[store.AlertBrake] != 2 {
		t.Errorf("%d SIMs are closed with alerts %v, want ten, an alert of that and one that suspends are held (F30)", n, w.alerts())
	}
	alerts, err := w.store.OpenAlerts(t.Context(), 10)
	want := "simwarden account release " + w.account.Name + " --reason …"
	if err != nil || !slices.ContainsFunc(alerts, func(a store.Alert) bool {
		return strings.HasPrefix(a.Key, "closing:") && strings.Contains(a.Message, want)
	}) {
		t.Errorf("the alerts are %+v (error %v), want the whole command to enter: %s", alerts, err, want)
	}
	w.observe(ids[24], simwarden.StateActive)
	if sim, err := w.store.SIM(t.Context(), ids[24]); err != nil || sim.State != simwarden.StateActive || !sim.ClosedAt.IsZero() {
		t.Errorf("the SIM that was never ended is %s, closed at %s (error %v), want active and read on", sim.State, sim.ClosedAt, err)
	}
	w.clock.Advance(11 * time.Minute)
	w.ended(ids[:20])
	if n := w.closed(ids); n != 20 {
		t.Errorf("%d SIMs are closed after the window, want the next ten as well: those that have ended are closed in the end (P5)", n)
	}
}
