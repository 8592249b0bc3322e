package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// drift does what the account's policy says of a state that was changed outside (E13).
func (w *writer) drift(ctx context.Context, sim *store.SIMFacts, account store.Account) error {
	w.events = append(w.events, store.NewEvent{Kind: store.EventDrift, SIMID: sim.ID, AccountID: sim.AccountID, Actor: CarrierSide,
		Data: map[string]any{"state": sim.Facts.State, "desired": sim.Desired, "policy": account.DriftPolicy}})
	switch account.DriftPolicy {
	case simwarden.DriftAlert:
		because := fmt.Sprintf("changed outside to %s", sim.Facts.State)
		if err := w.tx.SetDrifting(ctx, sim.ID, because); err != nil {
			return err
		}
		sim.DriftingAt = w.tx.At
		return w.tx.Raise(ctx, store.Alert{Kind: store.AlertDrift, Key: driftKey(sim.ID), SIMID: sim.ID, AccountID: sim.AccountID,
			Message: "SIM " + sim.ICCID + " was " + because + "; its account's policy leaves it to a person"})
	case simwarden.DriftAdopt:
		return w.adopt(ctx, sim)
	}
	return nil
}

// CarrierSide is who did what was done outside, at the carrier or in its portal.
const CarrierSide = "carrier"

// adopted is the item by which a SIM is judged whose account adopts what was changed outside: as a person's
// order is that asked for the state it was found in (E3).
func adopted(item Item, found simwarden.State) Item {
	item.Scene, item.AskedBy, item.Manual = simwarden.SceneManual, CarrierSide, simwarden.DirectionResume
	if found == simwarden.StateSuspended {
		item.Manual = simwarden.DirectionSuspend
	}
	return item
}

// adopt takes a state that was changed outside for a manual action: a suspend is a hold that no automatic
// resume lifts, a resume lifts one (E3); either is audited (R2).
func (w *writer) adopt(ctx context.Context, sim *store.SIMFacts) error {
	hold := sim.Facts.State == simwarden.StateSuspended
	if hold != sim.Facts.ManualHold {
		if err := w.tx.SetHold(ctx, sim.ID, hold, CarrierSide, becauseAdopted); err != nil {
			return err
		}
		kind := store.EventHold
		if !hold {
			kind = store.EventHoldLifted
		}
		w.events = append(w.events, store.NewEvent{Kind: kind, SIMID: sim.ID, AccountID: sim.AccountID, Actor: CarrierSide,
			Data: map[string]any{"reason": becauseAdopted}})
	}
	sim.Facts.ManualHold, sim.Facts.ManualHoldBy, sim.Facts.ManualHoldAt = hold, "", time.Time{}
	if hold {
		sim.Facts.ManualHoldBy, sim.Facts.ManualHoldAt = CarrierSide, w.tx.At
	}
	return w.tx.Audit(ctx, CarrierSide, "drift_adopt", sim.ID, sim.AccountID, map[string]any{
		"reason": becauseAdopted, "state": sim.Facts.State, "wanted": sim.Desired})
}

const becauseAdopted = "changed outside; the account's drift policy is adopt"

// driftHold says that the account's policy leaves the SIM's state, changed outside, to a person. A
// SIM that drifts because this very order failed is not meant: it is tried again (C8).
func driftHold(a store.Account, sim store.SIMFacts, d simwarden.Decision) bool {
	wanted, _ := d.Direction()
	return a.DriftPolicy == simwarden.DriftAlert && !sim.DriftingAt.IsZero() && sim.FailedDir != wanted
}

// asWanted says that the SIM was found in the state that is wanted, with no command open: who
// changed it, and whether what is wanted has changed instead, does not matter.
func asWanted(sim store.SIMFacts, o rules.Ordered) bool {
	return sim.Open == nil && o.Action == rules.OrderNone &&
		(o.Because == rules.BecauseAlreadySuspended || o.Because == rules.BecauseAlreadyRunning || o.Because == rules.BecauseManualHold)
}

// InLine takes back what said that a SIM is not as wanted: its mark, and the alerts of drift (E13)
// and of a failed command (C8). A mark that stayed would hold its next commands back.
func InLine(ctx context.Context, tx *store.Tx, id simwarden.SIMID) error {
	if err := tx.SetDrifting(ctx, id, ""); err != nil {
		return err
	}
	if err := tx.ClearAlert(ctx, driftKey(id), System); err != nil {
		return err
	}
	return tx.ClearAlert(ctx, FailedKey(id), System)
}

func driftKey(id simwarden.SIMID) string { return fmt.Sprintf("drift:%d", id) }

// FailedKey is the key of the alert that a command of the SIM has failed for good.
func FailedKey(id simwarden.SIMID) string { return fmt.Sprintf("command_failed:%d", id) }
