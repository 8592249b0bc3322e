package ledger

import (
	"context"
	"errors"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// PurchaseOrder is a subscription to pay.
type PurchaseOrder struct {
	SubscriptionID simwarden.SubscriptionID // written before, in the same transaction
	Asset          store.Asset
	Plan           simwarden.Plan
	// Request tells the request from others under the same key; see FingerprintOf.
	Request Fingerprint
}

// Purse holds the wallets of some assets locked, to pay many purchases of one transaction.
type Purse struct {
	tx      *store.Tx
	of      map[store.Asset]simwarden.WalletID
	wallets map[simwarden.WalletID]*store.Wallet
}

// OpenPurse locks the wallets that pay for the assets, which are locked before.
func OpenPurse(ctx context.Context, tx *store.Tx, assets []store.Asset) (*Purse, error) {
	p := &Purse{tx: tx}
	var err error
	if p.of, err = tx.WalletsOfAssets(ctx, assets); err != nil {
		return nil, err
	}
	ids := make([]simwarden.WalletID, 0, len(p.of))
	for _, id := range p.of {
		ids = append(ids, id)
	}
	if p.wallets, err = tx.LockWallets(ctx, ids); err != nil {
		return nil, err
	}
	return p, nil
}

// WalletOf says which wallet pays for an asset: 0 for none.
func (p *Purse) WalletOf(a store.Asset) simwarden.WalletID { return p.of[a] }

// CanPay says why the asset's wallet cannot pay the plan, without booking anything: ErrNoWallet,
// ErrCurrency or ErrInsufficientFunds. A plan without a price needs no wallet.
func (p *Purse) CanPay(a store.Asset, plan simwarden.Plan) error {
	if plan.PriceMinor == 0 {
		return nil
	}
	b := p.booking(PurchaseOrder{Asset: a, Plan: plan}, By{})
	_, _, refused := b.moves()
	return refused
}

// Purchase pays a subscription from the wallet of its asset: ErrNoWallet, ErrCurrency,
// ErrInsufficientFunds (which says balance, price and limit), or ErrPaidAlready; nothing is written
// then. A plan without a price books nothing, and keeps the key alone where there is one.
func (p *Purse) Purchase(ctx context.Context, o PurchaseOrder, by By) (Transaction, error) {
	if o.Plan.PriceMinor == 0 && by.Key == "" {
		return Transaction{}, nil
	}
	t, err := book(ctx, p.tx, p.booking(o, by))
	if err != nil {
		return t, fmt.Errorf("pay plan %s: %w", o.Plan.Code, err)
	}
	return t, nil
}

func (p *Purse) booking(o PurchaseOrder, by By) booking {
	b := booking{by: by, request: o.Request, row: store.LedgerTransaction{Kind: simwarden.TransactionPurchase, SubscriptionID: o.SubscriptionID}}
	if o.Plan.PriceMinor == 0 {
		return b
	}
	price := o.Plan.Price()
	b.row.Money = price
	if b.wallet = p.wallets[p.of[o.Asset]]; b.wallet == nil {
		b.refused = ErrNoWallet
	}
	b.entries = []store.LedgerEntry{{Account: store.LedgerWallet, AmountMinor: -price.AmountMinor}, {Account: store.LedgerRevenue, AmountMinor: price.AmountMinor}}
	return b
}

// Purchase is Purse.Purchase for one asset.
func Purchase(ctx context.Context, tx *store.Tx, o PurchaseOrder, by By) (Transaction, error) {
	p := &Purse{tx: tx}
	if o.Plan.PriceMinor != 0 {
		var err error
		if p, err = OpenPurse(ctx, tx, []store.Asset{o.Asset}); err != nil {
			return Transaction{}, err
		}
	}
	return p.Purchase(ctx, o, by)
}

// Refund gives money of a subscription's purchase back to the wallet that paid: amountMinor minor
// units of its currency, or with 0 all that is left of it. ErrNotPaid where nothing was paid,
// ErrAbovePurchase where less than that is left (V15).
func Refund(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, amountMinor int64, by By) (Transaction, error) {
	request, err := FingerprintOf("refund", id, amountMinor)
	if err != nil {
		return Transaction{}, err
	}
	t, err := RefundRequest(ctx, tx, id, amountMinor, request, by)
	if err != nil || t.Replayed {
		return t, err
	}
	return t, tx.Audit(ctx, by.Actor, "refund_money", 0, 0, map[string]any{
		"subscription_id": id, "wallet_id": t.WalletID, "transaction_id": t.ID, "amount_minor": t.AmountMinor, "currency": t.Currency, "note": t.Note})
}

// RefundRequest is Refund within a larger request, which has a fingerprint and an audit row of its own.
func RefundRequest(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, amountMinor int64, request Fingerprint, by By) (Transaction, error) {
	b := booking{by: by, request: request, row: store.LedgerTransaction{Kind: simwarden.TransactionRefund, SubscriptionID: id}}
	bought, _, err := tx.PurchaseOf(ctx, id)
	if errors.Is(err, store.ErrNotFound) {
		b.refused = ErrNotPaid
		t, err := book(ctx, tx, b)
		if err != nil {
			return t, fmt.Errorf("refund subscription %d: %w", id, err)
		}
		return t, nil
	}
	if err != nil {
		return Transaction{}, err
	}
	if b.wallet, err = lock(ctx, tx, bought.WalletID); err != nil {
		return Transaction{}, err
	}
	// Again under the lock: somebody else may have refunded meanwhile.
	bought, refunded, err := tx.PurchaseOf(ctx, id)
	if err != nil {
		return Transaction{}, err
	}
	left := bought.AmountMinor - refunded
	amount := amountMinor
	if amount == 0 {
		amount = left
	}
	switch {
	case amount < 0:
		b.refused = fmt.Errorf("%w: a refund of %d minor units; give 1 or more, or 0 for all that is left", ErrAmount, amount)
	case amount > left || left == 0:
		b.refused = fmt.Errorf("%w: %s is left of %s", ErrAbovePurchase,
			Format(simwarden.Money{AmountMinor: left, Currency: bought.Currency}), Format(bought.Money))
	}
	b.row.Money, b.row.PurchaseID = simwarden.Money{AmountMinor: amount, Currency: bought.Currency}, bought.ID
	b.entries = []store.LedgerEntry{{Account: store.LedgerWallet, AmountMinor: amount}, {Account: store.LedgerRefunds, AmountMinor: -amount}}
	t, err := book(ctx, tx, b)
	if err != nil {
		return t, fmt.Errorf("refund subscription %d: %w", id, err)
	}
	return t, nil
}

// KeepKey books nothing and keeps the idempotency key of a refund that gives no money back.
func KeepKey(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, request Fingerprint, by By) (Transaction, error) {
	if by.Key == "" {
		return Transaction{}, nil
	}
	return book(ctx, tx, booking{by: by, request: request, row: store.LedgerTransaction{Kind: simwarden.TransactionRefund, SubscriptionID: id}})
}
