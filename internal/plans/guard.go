package plans

import (
	"context"
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// take locks some of what is due, those in except left out.
type take func(tx *store.Tx, ctx context.Context, limit int, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error)

// trusted takes nothing while the time is not to be trusted (C10, V13). It looks in the transaction
// that would act on the time.
func (s *Sweeper) trusted(next take) take {
	return func(tx *store.Tx, ctx context.Context, limit int, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
		because, err := tx.ClockHolds(ctx)
		if err != nil {
			return nil, err
		}
		s.held.Store(because != "")
		if because != "" {
			return nil, nil
		}
		return next(tx, ctx, limit, except...)
	}
}

// takeLapsed takes what has come to its end, but for what a person must let go first: ends that one
// import or edit wrote, where more of an account's SIMs would lose their plan by them at once than its
// brake allows (C10).
func takeLapsed(ctx context.Context, tx *store.Tx, limit int, share store.Share, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
	due, err := tx.TakeLapsed(ctx, limit, share, except...)
	if err != nil || len(due) == 0 {
		return due, err
	}
	ids := make([]simwarden.SubscriptionID, len(due))
	for i, b := range due {
		ids[i] = b.ID
	}
	hasty, guarded, err := tx.LapsesInQuestion(ctx, ids)
	if err != nil || !hasty && !guarded {
		return due, err
	}
	if hasty {
		if err := guard(ctx, tx, ids); err != nil {
			return nil, err
		}
	}
	if err := tx.HoldBeside(ctx, ids); err != nil {
		return nil, err
	}
	held, err := tx.Held(ctx, ids)
	return slices.DeleteFunc(due, func(b simwarden.Subscription) bool { return held[b.ID] }), err
}

// guard holds the hasty ends of accounts that have too many of them, or have had.
func guard(ctx context.Context, tx *store.Tx, due []simwarden.SubscriptionID) error {
	list, err := tx.HastyLapses(ctx, due)
	if err != nil {
		return err
	}
	ids := make([]simwarden.AccountID, len(list))
	for i, h := range list {
		ids[i] = h.AccountID
	}
	accounts, err := tx.AccountsByID(ctx, ids)
	if err != nil {
		return err
	}
	for _, h := range list {
		policy := reconcile.BrakePolicy(accounts[h.AccountID])
		limit := policy.Limit(h.Active)
		if h.GuardID == 0 && h.SIMs <= limit {
			continue
		}
		because := fmt.Sprintf("an import or edit ends the main plans of %d SIMs of account %s at once, more than the %d that its safety brake allows",
			h.SIMs, accounts[h.AccountID].Name, limit)
		if _, _, err := tx.HoldLapses(ctx, h.AccountID, because); err != nil {
			return err
		}
	}
	return nil
}

// MassEnd is a number of main plans of an account that end at once, more than its brake allows.
type MassEnd struct {
	store.MassEnd
	Account string
	Limit   int
}

// MassEnds tells which ends that the transaction has written a guard will hold when they come, unless they
// are confirmed.
func MassEnds(ctx context.Context, tx *store.Tx) ([]MassEnd, error) {
	list, err := tx.MassEnds(ctx)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ids := make([]simwarden.AccountID, len(list))
	for i, m := range list {
		ids[i] = m.AccountID
	}
	accounts, err := tx.AccountsByID(ctx, ids)
	if err != nil {
		return nil, err
	}
	var out []MassEnd
	for _, m := range list {
		a := accounts[m.AccountID]
		if limit := reconcile.BrakePolicy(a).Limit(m.Active); m.SIMs > limit {
			out = append(out, MassEnd{MassEnd: m, Account: a.Name, Limit: limit})
		}
	}
	return out, nil
}
