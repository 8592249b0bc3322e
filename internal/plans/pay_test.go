package plans_test

import (
	"context"
	"errors"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

func TestPaidPlanIsSoldOnlyWithItsMoney(t *testing.T) {
	w := newMoneyWorld(t)
	plan := w.plan(1000)
	sim := w.sim(w.wallet(1500))
	order := plans.Order{Asset: sim, Plan: plan, By: "cli:anna", Pay: true, IdempotencyKey: "order-1"}
	first, err := w.subscribe(order)
	if err != nil {
		t.Fatal(err)
	}
	// The repeated order is answered with the first one's, though the wallet could not pay again.
	again, err := w.subscribe(order)
	if err != nil || again.ID != first.ID {
		t.Errorf("the repeated order gives subscription %d (%v), want %d (F51)", again.ID, err, first.ID)
	}
	other := order
	other.Plan = w.plan(1)
	if _, err := w.subscribe(other); !errors.Is(err, ledger.ErrKeyReused) {
		t.Errorf("the key with another plan gives %v, want ErrKeyReused (F51)", err)
	}
	order.IdempotencyKey = "order-2"
	if _, err := w.subscribe(order); !errors.Is(err, ledger.ErrInsufficientFunds) {
		t.Errorf("an order above the balance gives %v, want ErrInsufficientFunds", err)
	}
	order.Asset = w.sim(0)
	if _, err := w.subscribe(order); !errors.Is(err, ledger.ErrNoWallet) {
		t.Errorf("an order without a wallet gives %v, want ErrNoWallet", err)
	}
	order.Plan, order.IdempotencyKey = w.plan(0), "order-3"
	free, err := w.subscribe(order)
	if err != nil {
		t.Fatalf("a plan without a price needs no wallet: %v", err)
	}
	if again, err := w.subscribe(order); err != nil || again.ID != free.ID {
		t.Errorf("the repeated free order gives subscription %d (%v), want %d (F51)", again.ID, err, free.ID)
	}
	if n := w.count(`SELECT count(*) FROM subscription`); n != 2 {
		t.Errorf("%d subscriptions stand, want 2: one per paid order", n)
	}
	if n := w.count(`SELECT balance_minor FROM ledger_account WHERE kind = 'wallet' AND wallet_id = 1`); n != 500 {
		t.Errorf("the wallet has %d left, want 500: one order of 1000 out of 1500", n)
	}
}

func TestL3RefundBooksWithTheEndAndOnce(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(2000)
	sim := w.sim(wallet)
	take := func(r plans.Takeback) (tr ledger.Transaction, err error) {
		r.Actor, r.Reason = "cli:anna", "wrong plan"
		err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			tr, err = plans.TakeBack(ctx, tx, r)
			return err
		})
		return tr, err
	}
	b, err := w.subscribe(plans.Order{Asset: sim, Plan: w.plan(1000), By: "test", Pay: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := take(plans.Takeback{SubscriptionID: b.ID, AmountMinor: 1001}); !errors.Is(err, ledger.ErrAbovePurchase) {
		t.Fatalf("a refund above the purchase gives %v", err)
	}
	if state := w.state(b.ID); state != simwarden.SubscriptionActive {
		t.Fatalf("after a refused refund the subscription is %s, want active", state)
	}
	tr, err := take(plans.Takeback{SubscriptionID: b.ID, AmountMinor: 400, IdempotencyKey: "r"})
	if err != nil || tr.AmountMinor != 400 {
		t.Fatalf("a refund in part books %d (%v), want 400", tr.AmountMinor, err)
	}
	if again, err := take(plans.Takeback{SubscriptionID: b.ID, AmountMinor: 400, IdempotencyKey: "r"}); err != nil || again.ID != tr.ID {
		t.Errorf("the repeated refund gives transaction %d (%v), want %d (F51)", again.ID, err, tr.ID)
	}
	if _, err := take(plans.Takeback{SubscriptionID: b.ID}); !errors.Is(err, plans.ErrEndedAlready) {
		t.Errorf("a second refund gives %v, want ErrEndedAlready", err)
	}
	if got := w.balance(wallet); got != 1400 {
		t.Errorf("the balance is %d, want 1400", got)
	}
	whole, err := w.subscribe(plans.Order{Asset: sim, Plan: w.plan(900), By: "test", Pay: true})
	if err != nil {
		t.Fatal(err)
	}
	if tr, err := take(plans.Takeback{SubscriptionID: whole.ID}); err != nil || tr.AmountMinor != 900 {
		t.Errorf("a whole refund books %d (%v), want 900", tr.AmountMinor, err)
	}
	unpaid, err := w.subscribe(plans.Order{Asset: sim, Plan: w.plan(900), By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	if tr, err := take(plans.Takeback{SubscriptionID: unpaid.ID}); err != nil || tr.ID != 0 {
		t.Errorf("the refund of what nobody paid books transaction %d (%v), want none", tr.ID, err)
	}
	if got := w.balance(wallet); got != 1400 {
		t.Errorf("the balance is %d, want 1400 again", got)
	}
	if n := w.count(`SELECT count(*) FROM evaluation_request WHERE scene = 'refunded'`); n != 3 {
		t.Errorf("%d evaluations with scene refunded stand, want one for each of 3 refunds (L3)", n)
	}
}

func TestPriceThatCannotBeSold(t *testing.T) {
	good := simwarden.Plan{Code: "month", Kind: simwarden.PlanMain, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"}
	for _, row := range []struct {
		name     string
		price    int64
		currency string
		ok       bool
	}{
		{"free", 0, "", true}, {"a price", 990, "CNY", true}, {"nothing in a currency", 0, "EUR", true},
		{"no currency", 1, "", false}, {"less than nothing", -1, "EUR", false}, {"no such currency", 1, "ABC", false},
		{"lower case", 1, "eur", false}, {"above what JSON keeps exactly", simwarden.MaxMinor + 1, "EUR", false},
	} {
		p := good
		p.PriceMinor, p.Currency = row.price, row.currency
		if err := plans.Check(p); (err == nil) != row.ok || err != nil && !errors.Is(err, plans.ErrPlanInvalid) {
			t.Errorf("a plan with %s gives %v", row.name, err)
		}
	}
}
