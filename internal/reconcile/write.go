package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// soon is how near a reading must be for a decision that waits for it not to ask for another: a
// read that fails comes again after about this long (P2), and must not be asked for in a circle.
const soon = 2 * time.Minute

// writer collects what the items of one transaction lead to and writes it in a few statements.
type writer struct {
	tx        *store.Tx
	decisions []store.DecisionRow
	events    []store.NewEvent
	reads     map[string]*read // SIMs to read again, by kinds and urgency
	brakes    map[simwarden.AccountID]*brake
	triggered map[store.Lapse]bool // what has triggered before, and whether polling was stopped then (E6)
	opens     []store.NewCommand
	asks      []store.Evaluation // of devices that a guard band begins to stop
	limits    []store.LimitWanted
	// Whether the time is trusted, once it has been looked up.
	clockLooked, clockHeld bool
}

type read struct {
	kinds        []simwarden.CheckKind
	unlessWithin time.Duration
	ids          []simwarden.SIMID
}

func (w *writer) judge(ctx context.Context, sim store.SIMFacts, item Item, account store.Account, drifted bool) (Outcome, error) {
	if drifted && account.DriftPolicy == simwarden.DriftAdopt {
		item = adopted(item, sim.Facts.State)
	}
	complete(&sim.Facts, account, item, w.tx.At)
	if drifted {
		if err := w.drift(ctx, &sim, account); err != nil {
			return Outcome{}, err
		}
	}
	d := rules.Decide(sim.Facts)
	in := rules.OrderInput{
		Decision: d, Facts: sim.Facts, Open: sim.Open, Mode: account.Mode,
		LastFailedDirection: sim.FailedDir, ReopenAt: sim.ReopenAt,
		DriftHold: driftHold(account, sim, d),
	}
	if l, ok := lapseOf(item); ok {
		in.TriggeredHeld, in.LapseTriggered = w.triggered[l]
	}
	ordered := rules.Order(in)
	if braked(ordered, item.Scene) && !fault.Planted("V13") { // V13: nobody asks the brake
		held, err := w.clockHolds(ctx)
		if err == nil && !held {
			held, err = w.brake(ctx, account.ID)
		}
		if err != nil {
			return Outcome{}, err
		}
		if held {
			in.Braked = true
			ordered = rules.Order(in)
		}
	}
	out := Outcome{SIMID: sim.ID, AccountID: sim.AccountID, ICCID: sim.ICCID, Facts: sim.Facts, Decision: d, Ordered: ordered}
	if err := w.order(ctx, sim, item, d, ordered); err != nil {
		return Outcome{}, err
	}
	if !sim.DriftingAt.IsZero() && asWanted(sim, ordered) {
		if err := InLine(ctx, w.tx, sim.ID); err != nil {
			return Outcome{}, err
		}
		if wanted, _ := d.Direction(); wanted == sim.FailedDir {
			if err := w.tx.ClearFailed(ctx, sim.ID); err != nil {
				return Outcome{}, err
			}
		}
	}
	w.note(sim, item, d, settled(sim, d, ordered))
	w.wantReads(sim, item, d)
	w.limit(sim, account)
	return out, nil
}

// settled says that the SIM is as decided, with nothing under way and nothing awaited, so that the
// same reading again needs no new decision.
func settled(sim store.SIMFacts, d simwarden.Decision, o rules.Ordered) bool {
	if o.Action != rules.OrderNone || sim.Open != nil || len(d.ReadFirst) > 0 || sim.Facts.Pending {
		return false
	}
	if sim.Facts.Extended.ClosesPolling() && !sim.Facts.Closed {
		return false // its closing is held back
	}
	return d.Because != rules.BecausePlanChangeDue
}

// lapseOf is the lapse or refund that an item tells of.
func lapseOf(item Item) (store.Lapse, bool) {
	return store.Lapse{SIMID: item.SIMID, SubscriptionID: item.SubscriptionID, Scene: item.Scene},
		item.Scene.EndsPlan() && item.SubscriptionID != 0
}

// order carries out what rules.Order said; commands to open are collected.
func (w *writer) order(ctx context.Context, sim store.SIMFacts, item Item, d simwarden.Decision, o rules.Ordered) error {
	switch o.Action {
	case rules.OrderReplace:
		ended, err := w.tx.EndCommand(ctx, sim.Open.ID, simwarden.CommandQueued, simwarden.CommandReplaced, "replaced by a newer order: "+string(d.Scene))
		if err != nil || !ended {
			return err
		}
		w.ended(sim, simwarden.CommandReplaced)
		w.open(sim, item, d, o)
	case rules.OrderOpen:
		w.open(sim, item, d, o)
	case rules.OrderWithdraw:
		ended, err := w.tx.EndCommand(ctx, sim.Open.ID, simwarden.CommandQueued, simwarden.CommandObsolete, "no longer wanted: "+o.Because)
		if ended {
			w.ended(sim, simwarden.CommandObsolete)
		}
		return err
	case rules.OrderWait:
		if item.Requested {
			return nil
		}
		_, err := w.tx.RequestEvaluation(ctx, store.Evaluation{
			SIMID: sim.ID, Scene: item.Scene, Cause: item.Cause, SubscriptionID: item.SubscriptionID,
			Manual: item.Manual, AskedBy: item.AskedBy, RunAt: w.tx.At.Add(WaitForCommand),
		})
		return err
	case rules.OrderObserve:
		written, err := w.tx.ObserveCommand(ctx, newCommand(sim, item, d, o))
		if written {
			w.events = append(w.events, store.NewEvent{Kind: store.EventCommandEnded, SIMID: sim.ID, AccountID: sim.AccountID, Actor: item.AskedBy,
				Data: map[string]any{"state": simwarden.CommandObserved, "direction": o.Direction, "reason": d.Reason, "scene": d.Scene}})
		}
		if l, ok := lapseOf(item); ok && err == nil {
			err = w.tx.KeepObservedLapse(ctx, l)
		}
		return err
	}
	return nil
}

// WaitForCommand is how long a request waits for the command under way at most before it is looked
// at again; the command's end wakes it earlier.
const WaitForCommand = 30 * time.Second

func newCommand(sim store.SIMFacts, item Item, d simwarden.Decision, o rules.Ordered) store.NewCommand {
	return store.NewCommand{
		SIMID: sim.ID, AccountID: sim.AccountID, Direction: o.Direction, Scene: item.Scene, Reason: d.Reason,
		SubscriptionID: item.SubscriptionID, Cause: item.Cause, AskedBy: item.AskedBy, Decision: d,
		Priority: priorityOf(o.Direction, item), NotBefore: o.NotBefore,
	}
}

func (w *writer) open(sim store.SIMFacts, item Item, d simwarden.Decision, o rules.Ordered) {
	w.opens = append(w.opens, newCommand(sim, item, d, o))
	if b := w.brakes[sim.AccountID]; b != nil && braked(o, item.Scene) {
		b.used++
	}
}

// openAll writes the collected commands, what triggered them and their events, and tells the
// outcomes their ids.
func (w *writer) openAll(ctx context.Context, outcomes []Outcome) error {
	ids, err := w.tx.OpenCommands(ctx, w.opens)
	if err != nil {
		return err
	}
	opened := make(map[simwarden.SIMID]simwarden.CommandID, len(ids))
	stopped := make(map[simwarden.SIMID]bool, len(outcomes))
	facts := make(map[simwarden.SIMID]*rules.Facts, len(outcomes))
	for i, o := range outcomes {
		stopped[o.SIMID] = o.Facts.PollingStopped()
		facts[o.SIMID] = &outcomes[i].Facts
	}
	var stops []store.GuardBandStop
	var lapses []store.Lapse
	var triggers []simwarden.CommandID
	var held []bool
	for i, c := range w.opens {
		opened[c.SIMID] = ids[i]
		if l, ok := lapseOf(Item{SIMID: c.SIMID, SubscriptionID: c.SubscriptionID, Scene: c.Scene}); ok {
			lapses, triggers, held = append(lapses, l), append(triggers, ids[i]), append(held, stopped[c.SIMID])
		}
		if p, ok := facts[c.SIMID].Project(); ok && c.Direction == simwarden.DirectionSuspend && c.Reason == simwarden.ReasonDataExhausted {
			stops = append(stops, store.GuardBandStop{CommandID: ids[i], SIMID: c.SIMID, Promise: *facts[c.SIMID].GuardBand, Projection: p})
		}
		w.events = append(w.events, store.NewEvent{Kind: store.EventCommandOpened, SIMID: c.SIMID, AccountID: c.AccountID, Actor: c.AskedBy,
			Data: map[string]any{"command_id": ids[i], "direction": c.Direction, "reason": c.Reason, "scene": c.Scene}})
	}
	for i, o := range outcomes {
		outcomes[i].CommandID = opened[o.SIMID]
	}
	if err := w.tx.OrderGuardBandStops(ctx, stops); err != nil {
		return err
	}
	return w.tx.TriggerLapses(ctx, lapses, triggers, held)
}

func (w *writer) ended(sim store.SIMFacts, state simwarden.CommandState) {
	w.events = append(w.events, store.NewEvent{Kind: store.EventCommandEnded, SIMID: sim.ID, AccountID: sim.AccountID, Actor: System,
		Data: map[string]any{"command_id": sim.Open.ID, "state": state, "direction": sim.Open.Direction}})
}

// note keeps the decision where it differs from the one before.
func (w *writer) note(sim store.SIMFacts, item Item, d simwarden.Decision, settled bool) {
	changed := sim.Desired != d.Desired || sim.Reason != d.Reason
	if changed {
		w.events = append(w.events, store.NewEvent{Kind: store.EventDecision, SIMID: sim.ID, AccountID: sim.AccountID, Actor: item.AskedBy,
			Data: map[string]any{"desired": d.Desired, "reason": d.Reason, "because": d.Because, "scene": d.Scene, "was": sim.Desired}})
	}
	if changed && item.Cause.Kind == store.CauseReading {
		w.askDevice(sim, d)
	}
	if changed || sim.Settled != settled || sim.Because != d.Because || !sameReasons(sim.Facts.Held, d.Reasons) {
		w.decisions = append(w.decisions, store.DecisionRow{SIMID: sim.ID, Decision: d, Settled: settled})
	}
}

// askDevice has the other SIMs of a device judged that a guard band begins to stop by the reading of this one:
// they use the same data (E8, E12). Where it is used up the booking has asked.
func (w *writer) askDevice(sim store.SIMFacts, d simwarden.Decision) {
	p, promised := sim.Facts.Project()
	if sim.DeviceID == 0 || d.Reason != simwarden.ReasonDataExhausted || !promised || p.UsedBytes >= p.AllowanceBytes ||
		slices.ContainsFunc(w.asks, func(e store.Evaluation) bool { return e.DeviceID == sim.DeviceID }) {
		return
	}
	w.asks = append(w.asks, store.Evaluation{DeviceID: sim.DeviceID, Scene: simwarden.SceneUsageCheck,
		Cause: store.Cause{Kind: store.CauseDevice, ID: int64(sim.DeviceID)}, AskedBy: System})
}

func sameReasons(a, b []simwarden.ReasonHeld) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Reason != b[i].Reason || !a[i].SinceAt.Equal(b[i].SinceAt) || a[i].Evidence != b[i].Evidence {
			return false
		}
	}
	return true
}

// wantReads asks for the readings that the decision lacks (E11).
func (w *writer) wantReads(sim store.SIMFacts, item Item, d simwarden.Decision) {
	if len(d.ReadFirst) == 0 || sim.Open != nil {
		return
	}
	within := time.Duration(0)
	switch item.Scene {
	case simwarden.SceneStateCheck, simwarden.SceneUsageCheck, simwarden.SceneRealNameCheck, simwarden.ScenePeriodic:
		within = soon
	}
	key := fmt.Sprint(d.ReadFirst, within)
	if w.reads == nil {
		w.reads = map[string]*read{}
	}
	if w.reads[key] == nil {
		w.reads[key] = &read{kinds: d.ReadFirst, unlessWithin: within}
	}
	w.reads[key].ids = append(w.reads[key].ids, sim.ID)
}

func (w *writer) flush(ctx context.Context, outcomes []Outcome) error {
	if err := w.openAll(ctx, outcomes); err != nil {
		return err
	}
	if err := w.tx.WriteDecisions(ctx, w.decisions); err != nil {
		return err
	}
	if err := w.tx.RequestEvaluations(ctx, w.asks, nil); err != nil {
		return err
	}
	if err := w.tx.WantCarrierLimits(ctx, w.limits); err != nil {
		return err
	}
	for _, r := range w.reads {
		if err := w.tx.NudgeRead(ctx, r.ids, r.kinds, r.unlessWithin); err != nil {
			return err
		}
	}
	return w.tx.AddEvents(ctx, w.events)
}
