package reconcile_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// What stops the polling of a row's SIM.
const (
	polled       = "not paused"
	simPaused    = "its polling paused"
	devicePaused = "its device's polling paused"
	closed       = "its polling closed"
)

// What is so of a row's SIM, and what E2 and E3 make of it where nothing stops its polling.
const (
	planFine     = "a plan in force"
	noPlan       = "a plan that has ended"
	exhausted    = "its allowance used up"
	unverified   = "its real name required and not verified"
	neverPlanned = "never a plan"
	heldByPerson = "a plan in force and a person's hold"
	heldNoPlan   = "never a plan and a person's hold"
)

var wanted = map[string]simwarden.Desired{
	planFine: simwarden.DesiredRunning, noPlan: simwarden.DesiredSuspended, exhausted: simwarden.DesiredSuspended,
	unverified: simwarden.DesiredSuspended, neverPlanned: simwarden.DesiredLeave, heldByPerson: simwarden.DesiredLeave,
	heldNoPlan: simwarden.DesiredLeave,
}

var reasons = map[string]simwarden.Reason{
	noPlan: simwarden.ReasonNoPlan, exhausted: simwarden.ReasonDataExhausted, unverified: simwarden.ReasonRealNameUnmet,
}

// cell is one cell of the matrix with its SIM.
type cell struct {
	scene     simwarden.Scene
	manual    simwarden.Direction // in scene manual alone
	stop      string
	state     simwarden.State
	situation string

	id  simwarden.SIMID
	sub simwarden.SubscriptionID
}

func (c cell) String() string {
	return fmt.Sprintf("%s%s of a SIM that is %s, with %s and %s", c.scene, c.manual, c.state, c.situation, c.stop)
}

// ordered says what has to follow, by the specification and not by the rules under test.
func (c cell) ordered() (simwarden.Direction, simwarden.Reason) {
	running := c.state == simwarden.StateActive
	switch {
	case c.scene == simwarden.SceneManual: // E3: what the person asked
		switch {
		case c.manual == simwarden.DirectionSuspend && running:
			return simwarden.DirectionSuspend, simwarden.ReasonManualHold
		case c.manual == simwarden.DirectionResume && !running:
			return simwarden.DirectionResume, simwarden.ReasonManualResume
		}
		return "", ""
	case c.stop == polled && (c.situation == heldByPerson || c.situation == heldNoPlan) && running && c.scene != simwarden.ScenePlanLapsed && c.scene != simwarden.SceneRefunded: // E10, E13
		return simwarden.DirectionSuspend, simwarden.ReasonManualHold
	case c.stop != polled: // E5, and E6 alone passes it
		ends := c.scene == simwarden.ScenePlanLapsed || c.scene == simwarden.SceneRefunded
		if ends && c.situation == noPlan && running {
			return simwarden.DirectionSuspend, simwarden.ReasonNoPlan
		}
		return "", ""
	case wanted[c.situation] == simwarden.DesiredSuspended && running: // E2
		return simwarden.DirectionSuspend, reasons[c.situation]
	case wanted[c.situation] == simwarden.DesiredRunning && !running:
		return simwarden.DirectionResume, ""
	}
	return "", "" // E3: it is so already, or left alone
}

// matrix is every scene with every stop, state and situation.
func matrix() []*cell {
	var out []*cell
	for _, scene := range simwarden.Scenes() {
		directions := []simwarden.Direction{""}
		if scene == simwarden.SceneManual {
			directions = []simwarden.Direction{simwarden.DirectionSuspend, simwarden.DirectionResume}
		}
		for _, direction := range directions {
			for _, stop := range []string{polled, simPaused, devicePaused, closed} {
				for _, state := range []simwarden.State{simwarden.StateActive, simwarden.StateSuspended} {
					for _, situation := range []string{planFine, noPlan, exhausted, unverified, neverPlanned, heldByPerson, heldNoPlan} {
						out = append(out, &cell{scene: scene, manual: direction, stop: stop, state: state, situation: situation})
					}
				}
			}
		}
	}
	return out
}

func TestE3E5E6EverySceneUnderEveryPauseInEveryState(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, store.Migrate), Clock: clock.NewManual(noon)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	cells := matrix()
	tx := func(fn func(context.Context, *store.Tx) error) {
		t.Helper()
		if err := s.InTx(t.Context(), func(tx *store.Tx) error { return fn(t.Context(), tx) }); err != nil {
			t.Fatal(err)
		}
	}
	tx(func(ctx context.Context, tx *store.Tx) error { return setUp(ctx, tx, cells) })
	for range 2 { // asked for again, nothing more follows (C2, E6)
		tx(func(ctx context.Context, tx *store.Tx) error { return evaluate(ctx, tx, cells) })
		got := map[simwarden.SIMID][]store.Command{}
		list, err := s.Commands(t.Context(), store.CommandFilter{Limit: 10 * len(cells)})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			got[c.SIMID] = append(got[c.SIMID], c)
		}
		for _, c := range cells {
			c.compare(t, got[c.id])
		}
	}
}

func (c cell) compare(t *testing.T, got []store.Command) {
	t.Helper()
	direction, reason := c.ordered()
	switch {
	case direction == "" && len(got) > 0:
		t.Errorf("%s: a %s for %q was ordered, want nothing", c, got[0].Direction, got[0].Reason)
	case direction != "" && len(got) != 1:
		t.Errorf("%s: %d commands, want one %s", c, len(got), direction)
	case direction != "" && (got[0].Direction != direction || got[0].Reason != reason || got[0].Scene != c.scene):
		t.Errorf("%s: a %s for %q in scene %s was ordered, want a %s for %q", c, got[0].Direction, got[0].Reason, got[0].Scene, direction, reason)
	}
}

// evaluate judges each cell's SIM with its scene.
func evaluate(ctx context.Context, tx *store.Tx, cells []*cell) error {
	var items []reconcile.Item
	for _, c := range cells {
		if c.scene != simwarden.SceneManual {
			items = append(items, reconcile.Item{SIMID: c.id, Scene: c.scene, SubscriptionID: c.sub, AskedBy: reconcile.System})
			continue
		}
		if _, err := reconcile.Manual(ctx, tx, c.id, c.manual, "cli:anna", "as a test"); err != nil {
			return err
		}
	}
	_, err := reconcile.SIMs(ctx, tx, items)
	return err
}

// setUp writes an account where real names are required and one where not, and each cell's SIM.
func setUp(ctx context.Context, tx *store.Tx, cells []*cell) error {
	var plan simwarden.PlanID
	p, err := tx.AddPlan(ctx, simwarden.Plan{Code: "month", Name: "month", Kind: simwarden.PlanMain, AllowanceBytes: 1000,
		ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"})
	if err != nil {
		return err
	}
	plan = p.ID
	for _, required := range []bool{false, true} {
		a, err := tx.AddAccount(ctx, store.Account{Name: fmt.Sprintf("acme-%v", required), Driver: "soracom", RealNameRequired: required})
		if err != nil {
			return err
		}
		if err := tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct); err != nil {
			return err
		}
		if err := tx.SetBrake(ctx, a.ID, 100, 1_000_000, time.Minute); err != nil { // no row is about the brake
			return err
		}
		var mine []*cell
		for _, c := range cells {
			if (c.situation == unverified) == required {
				mine = append(mine, c)
			}
		}
		if err := addSIMs(ctx, tx, a, mine); err != nil {
			return err
		}
	}
	for _, c := range cells {
		if err := c.setUp(ctx, tx, plan); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	_, err = tx.Exec(ctx, `UPDATE poll_state SET usage_read_at = $1, usage_true_at = $1, realname_read_at = $1`, tx.At)
	return err
}

func addSIMs(ctx context.Context, tx *store.Tx, a store.Account, cells []*cell) error {
	list := make([]store.NewSIM, len(cells))
	for i := range cells {
		iccid, err := simwarden.ParseICCID(fmt.Sprintf("89860000%04d%07d", a.ID, i))
		if err != nil {
			return err
		}
		list[i] = store.NewSIM{ICCID: iccid, Raw: iccid.String()}
	}
	ids, err := tx.AddSIMs(ctx, a, list, 0)
	if err != nil {
		return err
	}
	obs := make([]store.Observed, len(cells))
	for i, c := range cells {
		c.id = ids[i]
		obs[i] = store.Observed{SIMID: c.id, Reading: simwarden.Reading{ReadAt: tx.At,
			State: &simwarden.StateReading{State: c.state, Extended: simwarden.ExtendedNone, Raw: string(c.state)}}}
	}
	_, err = reconcile.Observe(ctx, tx, obs)
	return err
}

// setUp makes the cell's SIM what the cell says.
func (c *cell) setUp(ctx context.Context, tx *store.Tx, plan simwarden.PlanID) error {
	asset := store.Asset{SIMID: c.id}
	if c.stop == devicePaused {
		imei, err := simwarden.ParseIMEI(fmt.Sprintf("49%012d", c.id))
		if err != nil {
			return err
		}
		device, err := tx.AddDevice(ctx, imei, "")
		if err != nil {
			return err
		}
		asset = store.Asset{DeviceID: device.ID}
		if _, err := reconcile.BindSIM(ctx, tx, reconcile.Binding{SIMID: c.id, DeviceID: device.ID, Actor: "cli:anna"}); err != nil {
			return err
		}
	}
	if c.situation != neverPlanned && c.situation != heldNoPlan {
		b := simwarden.Subscription{SIMID: asset.SIMID, DeviceID: asset.DeviceID, PlanID: plan, Kind: simwarden.PlanMain, State: simwarden.SubscriptionActive,
			StartAt: tx.At.Add(-24 * time.Hour), EndAt: tx.At.Add(24 * time.Hour), AllowanceBytes: 1000}
		switch c.situation {
		case noPlan:
			b.EndAt, b.State = tx.At.Add(-time.Hour), simwarden.SubscriptionExpired
		case exhausted:
			b.UsedBytes, b.State = 1000, simwarden.SubscriptionExhausted
		}
		var err error
		if c.sub, err = tx.AddSubscription(ctx, b, "test", ""); err != nil {
			return err
		}
		if c.situation == noPlan {
			if _, err := tx.Exec(ctx, `UPDATE subscription SET ended_at = end_at WHERE id = $1`, c.sub); err != nil {
				return err
			}
		}
	}
	if c.situation == heldByPerson || c.situation == heldNoPlan {
		if err := tx.SetHold(ctx, c.id, true, "cli:anna", "held"); err != nil {
			return err
		}
	}
	var err error
	switch c.stop {
	case simPaused:
		_, err = reconcile.PausePolling(ctx, tx, c.id, "cli:anna", "a pause")
	case devicePaused:
		_, err = reconcile.PauseDevice(ctx, tx, asset.DeviceID, "cli:anna", "a pause")
	case closed:
		err = reconcile.ClosePolling(ctx, tx, c.id, simwarden.ExtendedRiskSuspended, "a state check says risk_suspended")
	}
	return err
}
