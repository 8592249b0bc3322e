package reconcile

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// The bugs that builds with the tag planted have where they are told to (fault.Planted). In every other
// build these functions do nothing.

// plantedFacts breaks V9 (a SIM whose polling is stopped is judged like any other) and V14 (a manual hold
// is forgotten).
func plantedFacts(f *rules.Facts) {
	if fault.Planted("V9") {
		f.SIMPaused, f.DevicePaused, f.Closed = false, false, false
	}
	if fault.Planted("V14") && f.Scene != simwarden.SceneManual {
		f.ManualHold = false
	}
}

// plantedClosings breaks V10: with one SIM the polling of all that are in its device is closed.
func plantedClosings(ctx context.Context, tx *store.Tx, id simwarden.SIMID, extended simwarden.ExtendedState, because string) error {
	if !fault.Planted("V10") {
		return nil
	}
	sim, err := tx.LockSIM(ctx, id)
	if err != nil || sim.DeviceID == 0 {
		return err
	}
	others, err := tx.SIMsOfDevice(ctx, sim.DeviceID)
	if err != nil {
		return err
	}
	for _, other := range others {
		if closed, err := tx.ClosePolling(ctx, other, extended, because); err != nil {
			return err
		} else if closed {
			if err := tx.AddEvents(ctx, []store.NewEvent{closing(other, extended, because)}); err != nil {
				return err
			}
		}
	}
	return nil
}
