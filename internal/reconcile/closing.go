package reconcile

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// closings bounds how many SIMs of an account what is read may close within the brake's window. A
// carrier that says of a whole fleet that it has ended must not take it out of everybody's care
// (F30); where it is true, the rest is closed as the window moves on, or when a person releases the
// brake.
type closings struct {
	tx *store.Tx
	of map[simwarden.AccountID]*brake
}

// CloseRead closes the polling of a SIM that a state check says has ended or is blocked (P5), unless
// the carrier has said so of more of the account's SIMs than its brake lets through (F30): then the
// SIM stays open, and its next check will say it again. The SIM is locked and not closed yet.
func CloseRead(ctx context.Context, tx *store.Tx, sim store.SIM, extended simwarden.ExtendedState, because string) error {
	c := closings{tx: tx, of: map[simwarden.AccountID]*brake{}}
	if may, err := c.allow(ctx, sim.AccountID); err != nil || !may {
		return err
	}
	return ClosePolling(ctx, tx, sim.ID, extended, because)
}

// allow says whether one more SIM of the account may be closed, and counts it.
func (c *closings) allow(ctx context.Context, id simwarden.AccountID) (bool, error) {
	b := c.of[id]
	if b == nil {
		a, active, err := c.tx.LockAccount(ctx, id, activeCountFor)
		if err != nil {
			return false, err
		}
		used, err := c.tx.ClosedSince(ctx, id, brakeSince(a, c.tx.At))
		if err != nil {
			return false, err
		}
		b = &brake{used: used, active: active, policy: BrakePolicy(a), account: a.Name}
		c.of[id] = b
	}
	if !rules.Brake(b.policy, b.used, b.active) {
		b.used++
		return true, nil
	}
	if b.on { // told already
		return false, nil
	}
	b.on = true
	return false, c.tx.Raise(ctx, store.Alert{
		Kind: store.AlertBrake, Key: fmt.Sprintf("closing:%d", id), AccountID: id,
		Message: fmt.Sprintf("safety brake: the carrier says of %d SIMs within %s that they have ended or are blocked, the limit for %d active SIMs; "+
			"more are not taken out of polling before a while, or %s", b.used, b.policy.Window, b.active, release(b.account)),
	})
}
