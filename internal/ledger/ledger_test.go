package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

func TestM1PurchaseSpendsDownToTheCreditLimit(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 500)
	sim, plan := w.sim(wallet), w.plan(1000, "EUR")
	if _, err := w.topUp(wallet, 1500, "EUR", anna); err != nil {
		t.Fatal(err)
	}
	for range 2 { // 1500 and a credit of 500 pay two
		if _, _, err := w.buy(sim, plan, anna); err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := w.buy(sim, plan, anna)
	var funds *ledger.InsufficientFunds
	if !errors.Is(err, ledger.ErrInsufficientFunds) || !errors.As(err, &funds) {
		t.Fatalf("the third purchase gives %v, want ErrInsufficientFunds", err)
	}
	want := ledger.InsufficientFunds{Wallet: funds.Wallet, Balance: simwarden.Money{AmountMinor: -500, Currency: "EUR"},
		Price: simwarden.Money{AmountMinor: 1000, Currency: "EUR"}, CreditLimit: simwarden.Money{AmountMinor: 500, Currency: "EUR"}}
	if *funds != want {
		t.Errorf("the error says %+v, want %+v", *funds, want)
	}
	if b := w.balance(wallet); b.BalanceMinor != -500 || b.AvailableMinor != 0 {
		t.Errorf("the balance is %+v, want -500 and nothing available", b)
	}
	var subs int
	if err := w.pool.QueryRow(t.Context(), `SELECT count(*) FROM subscription`).Scan(&subs); err != nil || subs != 2 {
		t.Errorf("%d subscriptions (%v) stand, want 2: what is not paid is not sold", subs, err)
	}
	w.checkV15()
}

func TestWhatCannotBeBookedSaysWhy(t *testing.T) {
	w := newWorld(t)
	wallet, other := w.wallet("EUR", 0), w.wallet("JPY", 0)
	sim, poor, plan := w.sim(wallet), w.sim(0), w.plan(1000, "EUR")
	if _, err := w.topUp(wallet, 5000, "EUR", anna); err != nil {
		t.Fatal(err)
	}
	bought, _, err := w.buy(sim, plan, anna)
	if err != nil {
		t.Fatal(err)
	}
	unpaid, _, err := w.buy(sim, w.plan(0, ""), anna)
	if err != nil {
		t.Fatal(err)
	}
	adjust := func(amount int64, note string) error {
		return w.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := ledger.Adjust(ctx, tx, wallet, simwarden.Money{AmountMinor: amount, Currency: "EUR"}, ledger.By{Actor: "cli:anna", Note: note})
			return err
		})
	}
	for _, row := range []struct {
		name string
		do   func() error
		want error
	}{
		{"a top-up in another currency", func() error { _, err := w.topUp(wallet, 100, "USD", anna); return err }, ledger.ErrCurrency},
		{"a top-up in no currency", func() error { _, err := w.topUp(wallet, 100, "ABC", anna); return err }, ledger.ErrCurrency},
		{"a top-up in a currency of lower case", func() error { _, err := w.topUp(wallet, 100, "eur", anna); return err }, ledger.ErrCurrency},
		{"a top-up of nothing", func() error { _, err := w.topUp(wallet, 0, "EUR", anna); return err }, ledger.ErrAmount},
		{"a top-up of less than nothing", func() error { _, err := w.topUp(wallet, -1, "EUR", anna); return err }, ledger.ErrAmount},
		{"a top-up above what JSON keeps exactly", func() error { _, err := w.topUp(wallet, simwarden.MaxMinor+1, "EUR", anna); return err }, ledger.ErrAmount},
		{"a top-up that takes the balance above it", func() error { _, err := w.topUp(wallet, simwarden.MaxMinor, "EUR", anna); return err }, ledger.ErrAmount},
		{"a top-up by nobody", func() error { _, err := w.topUp(wallet, 1, "EUR", ledger.By{}); return err }, ledger.ErrBadRequest},
		{"a top-up of no wallet", func() error { _, err := w.topUp(999, 1, "EUR", anna); return err }, store.ErrNotFound},
		{"a purchase for a SIM without a wallet", func() error { _, _, err := w.buy(poor, plan, anna); return err }, ledger.ErrNoWallet},
		{"a purchase in another currency", func() error { _, _, err := w.buy(sim, w.plan(1, "JPY"), anna); return err }, ledger.ErrCurrency},
		{"a purchase above the balance", func() error { _, _, err := w.buy(sim, w.plan(4001, "EUR"), anna); return err }, ledger.ErrInsufficientFunds},
		{"a second payment of one subscription", func() error {
			return w.tx(func(ctx context.Context, tx *store.Tx) error {
				_, err := ledger.Purchase(ctx, tx, ledger.PurchaseOrder{SubscriptionID: bought, Asset: sim, Plan: plan}, anna)
				return err
			})
		}, ledger.ErrPaidAlready},
		{"a refund above the purchase", func() error { _, err := w.refund(bought, 1001, anna); return err }, ledger.ErrAbovePurchase},
		{"a refund of less than nothing", func() error { _, err := w.refund(bought, -5, anna); return err }, ledger.ErrAmount},
		{"a refund of what cost nothing", func() error { _, err := w.refund(unpaid, 0, anna); return err }, ledger.ErrNotPaid},
		{"an adjustment without a reason", func() error { return adjust(1, "") }, ledger.ErrBadRequest},
		{"an adjustment below the limit", func() error { return adjust(-4001, "typing error") }, ledger.ErrInsufficientFunds},
		{"a second wallet of one name", func() error {
			return w.tx(func(ctx context.Context, tx *store.Tx) error {
				_, err := ledger.AddWallet(ctx, tx, "wallet 1", simwarden.Money{Currency: "EUR"})
				return err
			})
		}, store.ErrWalletExists},
		{"a negative credit limit", func() error {
			return w.tx(func(ctx context.Context, tx *store.Tx) error {
				return ledger.SetCreditLimit(ctx, tx, other, -1, "cli:anna")
			})
		}, ledger.ErrAmount},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := row.do(); !errors.Is(err, row.want) {
				t.Errorf("%s gives %v, want %v", row.name, err, row.want)
			}
		})
	}
	if b := w.balance(wallet); b.BalanceMinor != 4000 {
		t.Errorf("after refusals alone the balance is %d, want 4000", b.BalanceMinor)
	}
	w.checkV15()
}

func TestV15RefundInPartsNeverAbovePurchase(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("CNY", 0)
	sim, plan := w.sim(wallet), w.plan(1000, "CNY")
	if _, err := w.topUp(wallet, 1000, "CNY", anna); err != nil {
		t.Fatal(err)
	}
	bought, _, err := w.buy(sim, plan, anna)
	if err != nil {
		t.Fatal(err)
	}
	// The refund goes to the wallet that paid, also when another pays for the SIM since.
	w.must(func(ctx context.Context, tx *store.Tx) error {
		return ledger.Assign(ctx, tx, sim, w.wallet("USD", 0), "cli:anna")
	})
	for _, step := range []struct {
		amount, back, balance int64
		want                  error
	}{
		{300, 300, 300, nil},
		{701, 0, 300, ledger.ErrAbovePurchase},
		{0, 700, 1000, nil}, // the rest
		{0, 0, 1000, ledger.ErrAbovePurchase},
		{1, 0, 1000, ledger.ErrAbovePurchase},
	} {
		tr, err := w.refund(bought, step.amount, anna)
		if !errors.Is(err, step.want) || tr.AmountMinor != step.back {
			t.Fatalf("a refund of %d gives %d and %v, want %d and %v", step.amount, tr.AmountMinor, err, step.back, step.want)
		}
		if b := w.balance(wallet); b.BalanceMinor != step.balance {
			t.Fatalf("after a refund of %d the balance is %d, want %d", step.amount, b.BalanceMinor, step.balance)
		}
	}
	w.checkV15()
}

func TestF51OneEffectPerIdempotencyKey(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 0)
	sim, plan := w.sim(wallet), w.plan(1000, "EUR")
	first, err := w.topUp(wallet, 1000, "EUR", key("a"))
	if err != nil {
		t.Fatal(err)
	}
	again, err := w.topUp(wallet, 1000, "EUR", key("a"))
	if err != nil || again.ID != first.ID || !again.Replayed || again.AmountMinor != 1000 {
		t.Errorf("the same request again gives %+v and %v, want transaction %d replayed", again, err, first.ID)
	}
	if _, err := w.topUp(wallet, 1001, "EUR", key("a")); !errors.Is(err, ledger.ErrKeyReused) {
		t.Errorf("the key with another amount gives %v, want ErrKeyReused", err)
	}
	if _, err := w.topUp(w.wallet("EUR", 0), 1000, "EUR", key("a")); !errors.Is(err, ledger.ErrKeyReused) {
		t.Errorf("the key with another wallet gives %v, want ErrKeyReused", err)
	}
	if _, err := w.refund(1, 0, key("a")); !errors.Is(err, ledger.ErrKeyReused) {
		t.Errorf("the key with another operation gives %v, want ErrKeyReused", err)
	}
	if tr, err := w.topUp(wallet, 1, "EUR", ledger.By{Actor: "cli:ben", Key: "a"}); err != nil || tr.Replayed {
		t.Errorf("another principal's key gives %+v and %v, want a booking of its own", tr, err)
	}
	bought, paid, err := w.buy(sim, plan, key("b"))
	if err != nil {
		t.Fatal(err)
	}
	// The wallet has 1 left: the repeated request is answered, not refused.
	if _, tr, err := w.buy(sim, plan, key("b")); err != nil || tr.ID != paid.ID || tr.SubscriptionID != bought {
		t.Errorf("the same purchase again gives %+v and %v, want transaction %d", tr, err, paid.ID)
	}
	back, err := w.refund(bought, 0, key("c"))
	if err != nil {
		t.Fatal(err)
	}
	if tr, err := w.refund(bought, 0, key("c")); err != nil || tr.ID != back.ID {
		t.Errorf("the same refund again gives %+v and %v, want transaction %d", tr, err, back.ID)
	}
	if b := w.balance(wallet); b.BalanceMinor != 1001 {
		t.Errorf("the balance is %d, want 1001: each key once", b.BalanceMinor)
	}
	w.checkV15()
}

func TestHoldsSetMoneyAside(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 0)
	sim, plan := w.sim(wallet), w.plan(600, "EUR")
	if _, err := w.topUp(wallet, 1000, "EUR", anna); err != nil {
		t.Fatal(err)
	}
	hold := func(amount int64, by ledger.By) (h store.Hold, err error) {
		err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			h, err = ledger.PlaceHold(ctx, tx, wallet, simwarden.Money{AmountMinor: amount, Currency: "EUR"}, noon.Add(time.Hour), by)
			return err
		})
		return h, err
	}
	capture := func(id simwarden.HoldID, amount int64, sub simwarden.SubscriptionID) error {
		return w.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := ledger.Capture(ctx, tx, id, amount, sub, anna)
			return err
		})
	}
	check := func(when string, balance, held int64) {
		t.Helper()
		if b := w.balance(wallet); b.BalanceMinor != balance || b.HeldMinor != held {
			t.Fatalf("%s the wallet has %d and %d held, want %d and %d", when, b.BalanceMinor, b.HeldMinor, balance, held)
		}
	}
	first, err := hold(700, key("h"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := hold(700, key("h")); err != nil || again.ID != first.ID {
		t.Errorf("the same hold again is %d (%v), want %d", again.ID, err, first.ID)
	}
	check("with a hold", 300, 700)
	if _, err := hold(301, anna); !errors.Is(err, ledger.ErrInsufficientFunds) {
		t.Errorf("a hold above the rest gives %v", err)
	}
	if _, _, err := w.buy(sim, plan, anna); !errors.Is(err, ledger.ErrInsufficientFunds) {
		t.Errorf("a purchase with held money gives %v", err)
	}
	var sub simwarden.SubscriptionID
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		sub, err = w.subscription(ctx, tx, sim, plan)
		return err
	})
	if err := capture(first.ID, 701, sub); !errors.Is(err, ledger.ErrAboveHold) {
		t.Errorf("a capture above the hold gives %v", err)
	}
	if err := capture(first.ID, 600, sub); err != nil {
		t.Fatal(err)
	}
	check("after a capture in part", 400, 0)
	if err := capture(first.ID, 1, 0); !errors.Is(err, ledger.ErrHoldEnded) {
		t.Errorf("a second capture gives %v", err)
	}
	if tr, err := w.refund(sub, 0, anna); err != nil || tr.AmountMinor != 600 {
		t.Errorf("what a hold paid is refunded with %d (%v), want 600", tr.AmountMinor, err)
	}
	check("after the refund", 1000, 0)
	second, err := hold(1000, anna)
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(time.Hour)
	if err := capture(second.ID, 0, 0); !errors.Is(err, ledger.ErrHoldEnded) {
		t.Errorf("a capture at the instant of expiry gives %v", err)
	}
	w.must(func(ctx context.Context, tx *store.Tx) error {
		if n, err := ledger.ReleaseExpired(ctx, tx, 10); err != nil || n != 1 {
			t.Errorf("%d holds were released (%v), want 1", n, err)
		}
		return nil
	})
	check("after the expiry", 1000, 0)
	w.checkV15()
}

func TestCreditLimitStaysAboveTheDebt(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 1000)
	if _, _, err := w.buy(w.sim(wallet), w.plan(800, "EUR"), anna); err != nil {
		t.Fatal(err)
	}
	set := func(limit int64) error {
		return w.tx(func(ctx context.Context, tx *store.Tx) error {
			return ledger.SetCreditLimit(ctx, tx, wallet, limit, "cli:anna")
		})
	}
	if err := set(799); !errors.Is(err, ledger.ErrLimitInUse) {
		t.Errorf("a limit below the debt gives %v, want ErrLimitInUse", err)
	}
	if err := set(800); err != nil {
		t.Error(err)
	}
	w.checkV15()
}

func TestStatementShowsTheBalanceAtEachMove(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 0)
	sim := w.sim(wallet)
	if _, err := w.topUp(wallet, 1000, "EUR", ledger.By{Actor: "cli:anna", Note: "bank transfer"}); err != nil {
		t.Fatal(err)
	}
	sub, _, err := w.buy(sim, w.plan(400, "EUR"), anna)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.refund(sub, 150, anna); err != nil {
		t.Fatal(err)
	}
	var got []store.StatementLine
	for before := int64(0); ; {
		var page []store.StatementLine
		w.must(func(ctx context.Context, tx *store.Tx) (err error) {
			page, err = ledger.Statement(ctx, tx, wallet, before, 2)
			return err
		})
		if len(page) == 0 {
			break
		}
		got, before = append(got, page...), page[len(page)-1].EntryID
	}
	want := []struct {
		kind           simwarden.TransactionKind
		change, after  int64
		subscriptionID simwarden.SubscriptionID
	}{{simwarden.TransactionRefund, 150, 750, sub}, {simwarden.TransactionPurchase, -400, 600, sub}, {simwarden.TransactionTopUp, 1000, 1000, 0}}
	if len(got) != len(want) {
		t.Fatalf("the statement has %d lines, want %d", len(got), len(want))
	}
	for i, l := range got {
		if l.Kind != want[i].kind || l.ChangeMinor != want[i].change || l.BalanceAfterMinor != want[i].after || l.SubscriptionID != want[i].subscriptionID {
			t.Errorf("line %d is %+v, want %+v", i, l, want[i])
		}
	}
}

func TestFormatUsesTheCurrencysDigits(t *testing.T) {
	for want, m := range map[string]simwarden.Money{
		"12.50 EUR": {AmountMinor: 1250, Currency: "EUR"}, "-0.05 CNY": {AmountMinor: -5, Currency: "CNY"},
		"300 JPY": {AmountMinor: 300, Currency: "JPY"}, "1.234 KWD": {AmountMinor: 1234, Currency: "KWD"}, "0.00 USD": {Currency: "USD"},
	} {
		if got := ledger.Format(m); got != want {
			t.Errorf("%+v is written %q, want %q", m, got, want)
		}
	}
}
