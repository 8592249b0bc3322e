package plans

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// payment is what an order costs, on its way into the book.
type payment struct {
	by     ledger.By
	order  ledger.PurchaseOrder
	purse  *ledger.Purse // nil where there is nothing to pay
	before simwarden.SubscriptionID
}

// newPayment looks whether the order has had its effect before, and whether its asset, locked
// before, can pay it: nothing is written until that is sure.
func newPayment(ctx context.Context, tx *store.Tx, o Order) (payment, error) {
	plan := o.Plan
	if !o.Pay {
		plan.PriceMinor, plan.Currency = 0, ""
	}
	request, err := ledger.FingerprintOf("subscribe", o.Asset, plan.ID, o.Pay, o.Renew, o.StartAt, o.UsedBytes)
	if err != nil {
		return payment{}, err
	}
	p := payment{by: ledger.By{Actor: o.By, Principal: o.Principal, Key: o.IdempotencyKey},
		order: ledger.PurchaseOrder{Asset: o.Asset, Plan: plan, Request: request}}
	t, found, err := ledger.Find(ctx, tx, p.by, request)
	if err != nil || found {
		p.before = t.SubscriptionID
		return p, err
	}
	if plan.PriceMinor == 0 {
		return p, nil
	}
	if p.purse, err = ledger.OpenPurse(ctx, tx, []store.Asset{o.Asset}); err != nil {
		return p, err
	}
	return p, p.purse.CanPay(o.Asset, plan)
}

// subscription gives what the order bought before, or the error.
func (p payment) subscription(ctx context.Context, tx *store.Tx, err error) (simwarden.Subscription, error) {
	if err != nil {
		return simwarden.Subscription{}, err
	}
	return tx.SubscriptionByID(ctx, p.before)
}

// book pays the subscription that was written.
func (p payment) book(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID) error {
	p.order.SubscriptionID = id
	var err error
	if p.purse != nil {
		_, err = p.purse.Purchase(ctx, p.order, p.by)
	} else {
		_, err = ledger.Purchase(ctx, tx, p.order, p.by)
	}
	return err
}
