package reconcile

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// brake is one account's safety brake within a transaction (C10).
type brake struct {
	on     bool
	used   int
	active int
	policy rules.BrakePolicy
	// account is its name, for what a person is told to do.
	account string
}

// release is what a person enters to let go what a brake holds, for the end of an alert's sentence.
func release(account string) string {
	return fmt.Sprintf("until a person releases it: simwarden account release %s --reason …", account)
}

// activeCountFor is how old the count of an account's active SIMs may be for the brake.
const activeCountFor = time.Minute

// braked says whether the brake has a say in what was ordered: automatic suspends, those of plan
// ends aside.
func braked(o rules.Ordered, s simwarden.Scene) bool {
	opens := o.Action == rules.OrderOpen || o.Action == rules.OrderReplace
	return opens && o.Direction == simwarden.DirectionSuspend && s != simwarden.SceneManual && !s.EndsPlan()
}

// brake says whether the account's brake holds one more suspend, putting it on where the limit is
// reached.
func (w *writer) brake(ctx context.Context, id simwarden.AccountID) (bool, error) {
	b := w.brakes[id]
	if b == nil {
		var err error
		if b, err = w.loadBrake(ctx, id); err != nil {
			return false, err
		}
		w.brakes[id] = b
	}
	if b.on || !rules.Brake(b.policy, b.used, b.active) {
		return b.on, nil
	}
	b.on = true
	because := fmt.Sprintf("%d automatic suspends within %s, the limit for %d active SIMs", b.used, b.policy.Window, b.active)
	return true, putOn(ctx, w.tx, id, b.account, because)
}

// putOn puts the account's brake on, with its alert.
func putOn(ctx context.Context, tx *store.Tx, id simwarden.AccountID, name, because string) error {
	if _, err := tx.BrakeAccount(ctx, id, because); err != nil {
		return err
	}
	return tx.Raise(ctx, store.Alert{
		Kind: store.AlertBrake, Key: fmt.Sprintf("brake:%d", id), AccountID: id,
		Message: "safety brake: " + because + "; automatic suspends wait " + release(name),
	})
}

// brakeSince is from when on the brake counts: a window back, or since a person released it.
func brakeSince(a store.Account, at time.Time) time.Time {
	since := at.Add(-a.BrakeWindow)
	if a.BrakeReleasedAt.After(since) {
		return a.BrakeReleasedAt
	}
	return since
}

// clockHolds says whether the time is not to be trusted, so that no automatic suspend is ordered (C10).
// It is looked up once in a transaction that would order one.
func (w *writer) clockHolds(ctx context.Context) (bool, error) {
	if !w.clockLooked {
		because, err := w.tx.ClockHolds(ctx)
		if err != nil {
			return false, err
		}
		w.clockLooked, w.clockHeld = true, because != ""
	}
	return w.clockHeld, nil
}

func (w *writer) loadBrake(ctx context.Context, id simwarden.AccountID) (*brake, error) {
	a, active, err := w.tx.LockAccount(ctx, id, activeCountFor)
	if err != nil {
		return nil, err
	}
	used, err := w.tx.AutomaticSuspends(ctx, id, brakeSince(a, w.tx.At))
	if err != nil {
		return nil, err
	}
	return &brake{on: !a.BrakedAt.IsZero(), used: used, active: active, policy: BrakePolicy(a), account: a.Name}, nil
}

// BrakePolicy is the account's brake as rules take it. An operator who set another count than the
// default means it for small fleets too.
func BrakePolicy(a store.Account) rules.BrakePolicy {
	p := rules.DefaultBrake()
	if a.BrakeCount != p.AtLeast {
		p.SmallFleet = 0
	}
	p.Window, p.SharePercent, p.AtLeast = a.BrakeWindow, float64(a.BrakePercent), a.BrakeCount
	return p
}
