package ledger_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// The model is a few sums; it says of every request what comes of it.
type modelWallet struct {
	id                   simwarden.WalletID
	currency             string
	limit, balance, held int64
	sim                  store.Asset
}

type modelPurchase struct {
	sub            simwarden.SubscriptionID
	wallet         *modelWallet
	paid, refunded int64
}

type modelHold struct {
	id        simwarden.HoldID
	wallet    *modelWallet
	amount    int64
	expiresAt time.Time
	open      bool
}

// modelRequest is one that was carried out under a key, to be sent again.
type modelRequest struct {
	again func() (simwarden.LedgerTransactionID, error)
	id    simwarden.LedgerTransactionID
}

type model struct {
	w         *world
	wallets   []*modelWallet
	purchases []*modelPurchase
	holds     []*modelHold
	requests  []modelRequest
	plans     map[int64]map[string]simwarden.Plan
}

func (m *model) pick(t *rapid.T) *modelWallet { return rapid.SampledFrom(m.wallets).Draw(t, "wallet") }

// pay says what taking the amount from a wallet must give.
func (w *modelWallet) pay(amount int64) error {
	if w.balance+w.limit < amount {
		return ledger.ErrInsufficientFunds
	}
	return nil
}

func (w *modelWallet) add(amount int64) error {
	if w.balance+w.held+amount > simwarden.MaxMinor {
		return ledger.ErrAmount
	}
	return nil
}

// came checks the outcome against the model's and says whether the request had an effect.
func came(t *rapid.T, what string, got, want error) bool {
	t.Helper()
	if !errors.Is(got, want) || want == nil && got != nil {
		t.Fatalf("%s gives %v, the model says %v", what, got, want)
	}
	return got == nil
}

// once makes a key of its own, and remembers the request where it had an effect.
func (m *model) once(do func(ledger.By) (ledger.Transaction, error)) (ledger.Transaction, error) {
	m.w.n++
	by := ledger.By{Actor: "cli:anna", Key: "key " + time.Duration(m.w.n).String(), Note: "model"}
	tr, err := do(by)
	if err == nil {
		m.requests = append(m.requests, modelRequest{id: tr.ID, again: func() (simwarden.LedgerTransactionID, error) {
			tr, err := do(by)
			return tr.ID, err
		}})
	}
	return tr, err
}

func amounts() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, 1000), rapid.Int64Range(simwarden.MaxMinor-1000, simwarden.MaxMinor))
}

func (m *model) topUp(t *rapid.T) {
	w, amount := m.pick(t), amounts().Draw(t, "amount")
	currency := rapid.SampledFrom([]string{w.currency, w.currency, w.currency, "USD"}).Draw(t, "currency")
	want := w.add(amount)
	if currency != w.currency {
		want = ledger.ErrCurrency
	}
	_, err := m.once(func(by ledger.By) (ledger.Transaction, error) { return m.w.topUp(w.id, amount, currency, by) })
	if came(t, "a top-up", err, want) {
		w.balance += amount
	}
}

func (m *model) adjust(t *rapid.T) {
	w, amount := m.pick(t), rapid.Int64Range(-500, 500).Filter(func(n int64) bool { return n != 0 }).Draw(t, "amount")
	want := w.add(max(amount, 0))
	if amount < 0 {
		want = w.pay(-amount)
	}
	_, err := m.once(func(by ledger.By) (tr ledger.Transaction, err error) {
		err = m.w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			tr, err = ledger.Adjust(ctx, tx, w.id, simwarden.Money{AmountMinor: amount, Currency: w.currency}, by)
			return err
		})
		return tr, err
	})
	if came(t, "an adjustment", err, want) {
		w.balance += amount
	}
}

func (m *model) plan(price int64, currency string) simwarden.Plan {
	if m.plans[price] == nil {
		m.plans[price] = map[string]simwarden.Plan{}
	}
	p, ok := m.plans[price][currency]
	if !ok {
		p = m.w.plan(price, currency)
		m.plans[price][currency] = p
	}
	return p
}

func (m *model) purchase(t *rapid.T) {
	w, price := m.pick(t), rapid.SampledFrom([]int64{1, 250, 700}).Draw(t, "price")
	plan := m.plan(price, w.currency)
	var sub simwarden.SubscriptionID
	_, err := m.once(func(by ledger.By) (ledger.Transaction, error) {
		_, tr, err := m.w.buy(w.sim, plan, by)
		sub = tr.SubscriptionID
		return tr, err
	})
	if came(t, "a purchase", err, w.pay(price)) {
		w.balance -= price
		m.purchases = append(m.purchases, &modelPurchase{sub: sub, wallet: w, paid: price})
	}
}

func (m *model) refund(t *rapid.T) {
	if len(m.purchases) == 0 {
		t.Skip("nothing bought")
	}
	p, amount := rapid.SampledFrom(m.purchases).Draw(t, "purchase"), rapid.Int64Range(0, 800).Draw(t, "amount")
	left := p.paid - p.refunded
	back, want := amount, error(nil)
	if amount == 0 {
		back = left
	}
	if back > left || left == 0 {
		want = ledger.ErrAbovePurchase
	} else {
		want = p.wallet.add(back)
	}
	_, err := m.once(func(by ledger.By) (ledger.Transaction, error) { return m.w.refund(p.sub, amount, by) })
	if came(t, "a refund", err, want) {
		p.refunded += back
		p.wallet.balance += back
	}
}

func (m *model) hold(t *rapid.T) {
	w, amount := m.pick(t), amounts().Draw(t, "amount")
	until := m.w.clock.Now().Add(time.Duration(rapid.IntRange(1, 3).Draw(t, "hours")) * time.Hour)
	var h store.Hold
	err := m.w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		h, err = ledger.PlaceHold(ctx, tx, w.id, simwarden.Money{AmountMinor: amount, Currency: w.currency}, until, anna)
		return err
	})
	if came(t, "a hold", err, w.pay(amount)) {
		w.balance, w.held = w.balance-amount, w.held+amount
		m.holds = append(m.holds, &modelHold{id: h.ID, wallet: w, amount: amount, expiresAt: until, open: true})
	}
}

func (m *model) capture(t *rapid.T) {
	if len(m.holds) == 0 {
		t.Skip("nothing held")
	}
	h, part := rapid.SampledFrom(m.holds).Draw(t, "hold"), rapid.Int64Range(0, 500).Draw(t, "amount")
	amount, want := part, error(nil)
	if part == 0 {
		amount = h.amount
	}
	switch {
	case !h.open || !m.w.clock.Now().Before(h.expiresAt):
		want = ledger.ErrHoldEnded
	case amount > h.amount:
		want = ledger.ErrAboveHold
	}
	_, err := m.once(func(by ledger.By) (tr ledger.Transaction, err error) {
		err = m.w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			tr, err = ledger.Capture(ctx, tx, h.id, part, 0, by)
			return err
		})
		return tr, err
	})
	if came(t, "a capture", err, want) {
		h.open = false
		h.wallet.held -= h.amount
		h.wallet.balance += h.amount - amount
	}
}

func (m *model) release(t *rapid.T) {
	if len(m.holds) == 0 {
		t.Skip("nothing held")
	}
	h := rapid.SampledFrom(m.holds).Draw(t, "hold")
	want := error(nil)
	if !h.open {
		want = ledger.ErrHoldEnded
	}
	_, err := m.once(func(by ledger.By) (tr ledger.Transaction, err error) {
		err = m.w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			tr, err = ledger.Release(ctx, tx, h.id, by)
			return err
		})
		return tr, err
	})
	if came(t, "a release", err, want) {
		m.released(h)
	}
}

func (m *model) released(h *modelHold) {
	h.open = false
	h.wallet.held, h.wallet.balance = h.wallet.held-h.amount, h.wallet.balance+h.amount
}

func (m *model) expire(t *rapid.T) {
	m.w.clock.Advance(time.Duration(rapid.IntRange(10, 90).Draw(t, "minutes")) * time.Minute)
	if err := m.w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := ledger.ReleaseExpired(ctx, tx, 1000)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	for _, h := range m.holds {
		if h.open && !m.w.clock.Now().Before(h.expiresAt) {
			m.released(h)
		}
	}
}

func (m *model) limit(t *rapid.T) {
	w, limit := m.pick(t), rapid.Int64Range(0, 1000).Draw(t, "limit")
	want := error(nil)
	if w.balance < -limit {
		want = ledger.ErrLimitInUse
	}
	err := m.w.tx(func(ctx context.Context, tx *store.Tx) error {
		return ledger.SetCreditLimit(ctx, tx, w.id, limit, "cli:anna")
	})
	if came(t, "a credit limit", err, want) {
		w.limit = limit
	}
}

// again sends a request once more that had its effect: whatever has happened since, it gets the same
// answer and changes nothing.
func (m *model) again(t *rapid.T) {
	if len(m.requests) == 0 {
		t.Skip("nothing to repeat")
	}
	r := rapid.SampledFrom(m.requests).Draw(t, "request")
	if id, err := r.again(); err != nil || id != r.id {
		t.Fatalf("a repeated request gives transaction %d and %v, the first gave %d (F51)", id, err, r.id)
	}
}

// check compares every wallet with the model, after every step.
func (m *model) check(t *rapid.T) {
	for _, w := range m.wallets {
		got := m.w.balance(w.id)
		if got.BalanceMinor != w.balance || got.HeldMinor != w.held || got.BalanceMinor < -w.limit {
			t.Fatalf("wallet %d has %d, %d held, limit %d; the model says %d and %d (V15)", w.id, got.BalanceMinor, got.HeldMinor, w.limit, w.balance, w.held)
		}
	}
}

func TestV15ModelOfTheBook(t *testing.T) {
	w := newWorld(t)
	plans := map[int64]map[string]simwarden.Plan{}
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{w: w, plans: plans}
		for _, currency := range []string{"EUR", "EUR", "JPY"} {
			limit := rapid.SampledFrom([]int64{0, 0, 300}).Draw(rt, "limit")
			id := w.wallet(currency, limit)
			m.wallets = append(m.wallets, &modelWallet{id: id, currency: currency, limit: limit, sim: w.sim(id)})
		}
		rt.Repeat(map[string]func(*rapid.T){
			"top up": m.topUp, "adjust": m.adjust, "purchase": m.purchase, "purchase more": m.purchase, "refund": m.refund,
			"hold": m.hold, "capture": m.capture, "release": m.release, "expire": m.expire, "limit": m.limit, "again": m.again, "": m.check,
		})
		// The book keeps the balance after each entry, so this looks at every prefix.
		for _, b := range w.v15() {
			rt.Errorf("V15: %s", b)
		}
	})
}
