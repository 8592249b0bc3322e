package api

import (
	"context"
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// Purchase is a plan to buy.
type Purchase struct {
	Plan  string // its code
	Pay   bool   // from the asset's wallet; without it nothing is paid
	Renew bool   // a main plan is bought again at its end (M2)
	// Key is the idempotency key, at most 255 bytes, empty for none: the same order of the same actor
	// with the same key gives the subscription of the first, and nothing is done again (F51).
	Key string
}

const maxKey = 255

func checkKey(key string) error {
	if len(key) > maxKey || !cleanText(key) {
		return badInput("an idempotency key is text of at most %d bytes without control characters", maxKey)
	}
	return nil
}

// Subscribe buys a plan for the SIM's asset: the device where it is in one. A main plan begins now,
// or is queued behind the one that runs; an add-on begins at once. ledger.ErrNoWallet,
// ErrInsufficientFunds and ErrCurrency say why it cannot be paid, ErrKeyReused that the key came
// with another request.
func (s *Service) Subscribe(ctx context.Context, iccid string, p Purchase, actor string) (simwarden.Subscription, error) {
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return simwarden.Subscription{}, err
	}
	return s.buy(ctx, p, sim.ID, sim.AccountID, actor, nil, func(ctx context.Context, tx *store.Tx) (store.Asset, error) {
		return tx.AssetOfSIM(ctx, sim.ID)
	})
}

// SubscribeDevice is Subscribe for a device: the plan counts for all its SIMs (E8).
func (s *Service) SubscribeDevice(ctx context.Context, imei string, p Purchase, actor string) (simwarden.Subscription, error) {
	d, err := s.FindDevice(ctx, imei)
	if err != nil {
		return simwarden.Subscription{}, err
	}
	return s.buy(ctx, p, 0, 0, actor, map[string]any{"imei": d.IMEI}, func(context.Context, *store.Tx) (store.Asset, error) {
		return store.Asset{DeviceID: d.ID}, nil
	})
}

// buy buys for an asset and writes one audit row, none for a repeated order.
func (s *Service) buy(ctx context.Context, p Purchase, sim simwarden.SIMID, account simwarden.AccountID, actor string, more map[string]any,
	assetOf func(context.Context, *store.Tx) (store.Asset, error)) (b simwarden.Subscription, err error) {
	if err := checkKey(p.Key); err != nil {
		return b, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		plan, err := tx.PlanByCode(ctx, p.Plan)
		if err != nil {
			return err
		}
		if p.Renew && plan.Kind != simwarden.PlanMain {
			return badInput("plan %s is an add-on; only a main plan is bought again at its end", plan.Code)
		}
		asset, err := assetOf(ctx, tx)
		if err != nil {
			return err
		}
		var replayed bool
		b, replayed, err = plans.SubscribeOnce(ctx, tx, plans.Order{Asset: asset, Plan: plan, By: actor, Pay: p.Pay, Renew: p.Renew, IdempotencyKey: p.Key})
		if err != nil || replayed {
			return err
		}
		facts := map[string]any{"subscription_id": b.ID, "plan": plan.Code, "state": b.State, "device_id": asset.DeviceID, "paid": p.Pay, "renew": b.Renew}
		for name, v := range more {
			facts[name] = v
		}
		return tx.Audit(ctx, actor, "subscribe", sim, account, facts)
	})
	return b, err
}

// SubscriptionQuery narrows a list of subscriptions; zero fields do not.
type SubscriptionQuery struct {
	Account string // by name; of a device: where one of its SIMs is of it
	State   simwarden.SubscriptionState
	Plan    string // its code
	Live    bool   // queued, active or exhausted
	Cursor  string
	Limit   int // 0: DefaultPage; at most MaxPage
}

// SoldSubscriptions lists subscriptions in the order in which they were bought.
func (s *Service) SoldSubscriptions(ctx context.Context, q SubscriptionQuery) (Page[store.SoldSubscription], error) {
	none := Page[store.SoldSubscription]{}
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return none, err
	}
	after, err := cursorID("subscription", q.Cursor)
	if err != nil {
		return none, err
	}
	if q.State != "" && !isOneOf(q.State, simwarden.SubscriptionStates()) {
		return none, notOneOf("state", q.State, simwarden.SubscriptionStates())
	}
	f := store.SubscriptionFilter{State: q.State, Plan: q.Plan, LiveOnly: q.Live, After: simwarden.SubscriptionID(after), Limit: limit + 1}
	if f.AccountID, err = s.accountID(ctx, q.Account); err != nil {
		return none, err
	}
	rows, err := s.Store.SoldSubscriptions(ctx, f)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "subscription", func(b store.SoldSubscription) int64 { return int64(b.ID) }), nil
}

// SoldSubscription gives one subscription with what it was bought for.
func (s *Service) SoldSubscription(ctx context.Context, id simwarden.SubscriptionID) (store.SoldSubscription, error) {
	rows, err := s.Store.SoldSubscriptions(ctx, store.SubscriptionFilter{ID: id, Limit: 1})
	if err != nil {
		return store.SoldSubscription{}, err
	}
	if len(rows) == 0 {
		return store.SoldSubscription{}, fmt.Errorf("subscription %d: %w", id, store.ErrNotFound)
	}
	return rows[0], nil
}

// Takeback is a subscription to take back.
type Takeback struct {
	SubscriptionID simwarden.SubscriptionID
	// Amount is what the buyer gets back; nil for all that is left of what was paid.
	Amount    *simwarden.Money
	KeepMoney bool // nothing is given back
	Cancel    bool // only where it has not begun; plans.ErrBegun
	Reason    string
	Key       string // the idempotency key; see Purchase
}

// TakenBack is a subscription as it is after a refund, and what was booked: nothing for one that was
// not paid.
type TakenBack struct {
	simwarden.Subscription
	Refund *ledger.Transaction `json:"refund,omitempty"`
}

// Refund takes a subscription back and gives back what was paid (L3); plans.ErrEndedAlready where it
// has ended, ledger.ErrNotPaid, ErrAbovePurchase or ErrCurrency where that amount was not paid. A
// repeated request gives what the first has booked.
func (s *Service) Refund(ctx context.Context, r Takeback, actor string) (out TakenBack, err error) {
	if err := checkReason(r.Reason); err != nil {
		return out, err
	}
	if err := checkKey(r.Key); err != nil {
		return out, err
	}
	order := plans.Takeback{SubscriptionID: r.SubscriptionID, KeepMoney: r.KeepMoney, Cancel: r.Cancel, Actor: actor, Reason: r.Reason, IdempotencyKey: r.Key}
	if r.Amount != nil {
		if order.AmountMinor = r.Amount.AmountMinor; order.AmountMinor <= 0 || r.KeepMoney {
			return out, badInput("an amount to give back is 1 minor unit or more, and does not go with keep_money; leave it out for all that was paid")
		}
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		out = TakenBack{}
		if r.Amount != nil {
			if err := sameCurrency(ctx, tx, r.SubscriptionID, r.Amount.Currency); err != nil {
				return err
			}
		}
		t, err := plans.TakeBack(ctx, tx, order)
		if err != nil {
			return err
		}
		if t.AmountMinor > 0 {
			out.Refund = &t
		}
		out.Subscription, err = tx.SubscriptionByID(ctx, r.SubscriptionID)
		return err
	})
	return out, err
}

// sameCurrency says whether a subscription was paid in a currency; what was not paid has none.
func sameCurrency(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, currency string) error {
	if err := ledger.CheckCurrency(currency); err != nil {
		return err
	}
	bought, _, err := tx.PurchaseOf(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err != nil:
		return err
	case bought.Currency != currency:
		return fmt.Errorf("refund subscription %d: %w: it was paid in %s, not in %s", id, ledger.ErrCurrency, bought.Currency, currency)
	}
	return nil
}

// SetRenewal says whether a main subscription is bought again at its end, and as which plan: as
// itself where the code is empty (M2). It gives the subscription as it is afterwards.
func (s *Service) SetRenewal(ctx context.Context, id simwarden.SubscriptionID, renew bool, plan, actor string) (b simwarden.Subscription, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		var as simwarden.Plan
		if plan != "" {
			if as, err = tx.PlanByCode(ctx, plan); err != nil {
				return err
			}
		}
		if err := plans.SetRenewal(ctx, tx, id, renew, as, actor); err != nil {
			return err
		}
		b, err = tx.SubscriptionByID(ctx, id)
		return err
	})
	return b, err
}
