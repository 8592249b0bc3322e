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

// oddSIMs are SIMs that read odd, by account.
type oddSIMs map[simwarden.AccountID][]simwarden.SIMID

// isOdd says that what was read is what a carrier gives of a whole fleet when its figures are wrong: a
// counter that cannot be believed, or a line that has stopped or ended without us (F29, F30).
func isOdd(sim store.SIMFacts, o store.Observed, stoppedOutside bool) bool {
	r := o.Reading.State
	ended := r != nil && !sim.Facts.Closed && r.Extended.ClosesPolling() && sim.Facts.Extended != r.Extended
	return o.Odd || stoppedOutside || ended
}

// hold puts the brake on where so many SIMs of an account read odd within its window that the carrier
// rather than the fleet has changed: before the suspends that would follow are ordered, and not after as
// many as the brake allows (V13). The SIMs are locked.
func (odd oddSIMs) hold(ctx context.Context, tx *store.Tx) error {
	for _, id := range slices.Sorted(maps.Keys(odd)) {
		a, active, err := tx.LockAccount(ctx, id, activeCountFor)
		if err != nil {
			return err
		}
		if !a.BrakedAt.IsZero() {
			continue
		}
		n, err := tx.NoteOdd(ctx, id, odd[id], brakeSince(a, tx.At))
		if err != nil {
			return err
		}
		if n < rules.OddLimit(active) {
			continue
		}
		if err := putOn(ctx, tx, id, a.Name, fmt.Sprintf("%d SIMs read odd within %s, of %d active ones: counters that cannot be right, or lines that stopped or ended without an order; "+
			"look whether the carrier reports nonsense", n, a.BrakeWindow, active)); err != nil {
			return err
		}
	}
	return nil
}
