package reconcile

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// Observe takes in what carriers said of SIMs: keeps states and real names that are not older
// than what is known (F31), closes polling where the extended state says so (P5), notes drift
// (E13), holds an account's suspends where much of it reads odd (F29, F30), and judges each SIM. Usage must have been booked before, in the same transaction.
// One SIM may appear once.
func Observe(ctx context.Context, tx *store.Tx, obs []store.Observed) ([]Outcome, error) {
	ids := make([]simwarden.SIMID, 0, len(obs))
	byID := make(map[simwarden.SIMID]store.Observed, len(obs))
	for _, o := range obs {
		ids = append(ids, o.SIMID)
		byID[o.SIMID] = o
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	before, err := tx.Facts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	var (
		rows    []store.StateRow
		items   []Item
		events  []store.NewEvent
		drifted = map[simwarden.SIMID]bool{}
		unclear = map[simwarden.AccountID]store.Alert{}
		oddOnes = oddSIMs{}
		limits  []simwarden.SIMID
		closing = closings{tx: tx, of: map[simwarden.AccountID]*brake{}}
	)
	for _, sim := range before {
		r := byID[sim.ID].Reading
		row := store.StateRow{SIMID: sim.ID, RealName: r.RealName, ReadAt: r.ReadAt}
		if r.State != nil && !r.ReadAt.Before(sim.Facts.StateReadAt) {
			row.State = r.State
			row.Changed = changed(sim, r.State)
			if row.Changed && sim.Facts.State != r.State.State || sim.Facts.Extended != r.State.Extended {
				events = append(events, store.NewEvent{Kind: store.EventState, SIMID: sim.ID, AccountID: sim.AccountID, Actor: "carrier",
					Data: map[string]any{"state": r.State.State, "was": sim.Facts.State, "extended_state": r.State.Extended, "raw_state": r.State.Raw, "pending": r.State.Pending}})
			}
			if r.State.Extended.ClosesPolling() && !sim.Facts.Closed {
				may, err := closing.allow(ctx, sim.AccountID)
				if err == nil && may {
					err = ClosePolling(ctx, tx, sim.ID, r.State.Extended, "a state check says "+string(r.State.Extended))
				}
				if err != nil {
					return nil, fmt.Errorf("observe sim %d: %w", sim.ID, err)
				}
			}
			drifted[sim.ID] = changedOutside(sim, r.State)
			if row.Changed && sim.LimitKnown {
				limits = append(limits, sim.ID) // some carriers drop a limit with a change of state
			}
		}
		if r.RealName != nil {
			if odd := store.OddRealName(*r.RealName); odd != "" && odd != sim.Facts.RealNameOdd && !r.ReadAt.Before(sim.Facts.RealNameAt) {
				events = append(events, store.NewEvent{Kind: store.EventRealNameOdd, SIMID: sim.ID, AccountID: sim.AccountID, Actor: "carrier",
					Data: map[string]any{"said": odd, "realname": sim.Facts.RealName}})
				unclear[sim.AccountID] = store.Alert{Kind: store.AlertRealName, Key: fmt.Sprintf("realname:%d", sim.AccountID), AccountID: sim.AccountID,
					Message: fmt.Sprintf("the carrier says %q of the real name of SIM %s, which is not understood; "+
						"it keeps the status %s until a person sets another: simwarden sim realname %s verified --reason …", odd, sim.ICCID, sim.Facts.RealName, sim.ICCID)}
			}
		}
		if isOdd(sim, byID[sim.ID], drifted[sim.ID] && r.State.State == simwarden.StateSuspended) {
			oddOnes[sim.AccountID] = append(oddOnes[sim.AccountID], sim.ID)
		}
		rows = append(rows, row)
		items = append(items, Item{SIMID: sim.ID, Scene: sceneOf(r), Cause: store.Cause{Kind: store.CauseReading, ID: int64(sim.ID)}, AskedBy: System})
	}
	if err := tx.WriteStates(ctx, rows); err != nil {
		return nil, err
	}
	if err := tx.AddEvents(ctx, events); err != nil {
		return nil, err
	}
	for _, id := range slices.Sorted(maps.Keys(unclear)) { // one an account: all its SIMs may be told so
		if err := tx.Raise(ctx, unclear[id]); err != nil {
			return nil, err
		}
	}
	if err := oddOnes.hold(ctx, tx); err != nil {
		return nil, err
	}
	if err := tx.CheckCarrierLimits(ctx, limits); err != nil {
		return nil, err
	}
	return run(ctx, tx, items, drifted)
}

func changed(sim store.SIMFacts, r *simwarden.StateReading) bool {
	return sim.Facts.State != r.State || sim.Facts.Pending != r.Pending
}

// changedOutside says that a SIM which was as we wanted it, or as a person holds it, is no longer so,
// and that no command of ours is open that could have done it.
func changedOutside(sim store.SIMFacts, r *simwarden.StateReading) bool {
	if sim.Open != nil || !sim.Settled || r.Pending || sim.Facts.State == r.State {
		return false
	}
	switch {
	case sim.Desired == simwarden.DesiredRunning:
		return sim.Facts.State == simwarden.StateActive && r.State == simwarden.StateSuspended
	case sim.Desired == simwarden.DesiredSuspended, sim.Because == rules.BecauseManualHold:
		return sim.Facts.State == simwarden.StateSuspended && r.State == simwarden.StateActive
	}
	return false
}

func sceneOf(r simwarden.Reading) simwarden.Scene {
	switch {
	case r.Usage != nil:
		return simwarden.SceneUsageCheck
	case r.State != nil:
		return simwarden.SceneStateCheck
	}
	return simwarden.SceneRealNameCheck
}

// ClosePolling closes the polling of this SIM alone and writes the extended state back (P5).
func ClosePolling(ctx context.Context, tx *store.Tx, id simwarden.SIMID, extended simwarden.ExtendedState, because string) error {
	closed, err := tx.ClosePolling(ctx, id, extended, because)
	if err != nil || !closed {
		return err
	}
	if err := plantedClosings(ctx, tx, id, extended, because); err != nil {
		return err
	}
	return tx.AddEvents(ctx, []store.NewEvent{closing(id, extended, because)})
}

// closing is the event of a closed polling.
func closing(id simwarden.SIMID, extended simwarden.ExtendedState, because string) store.NewEvent {
	return store.NewEvent{Kind: store.EventClosed, SIMID: id, Actor: System, Data: map[string]any{"extended_state": extended, "because": because}}
}
