package ledger

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// AddWallet adds an empty wallet. Its currency is for good; the credit limit, in minor units, says
// how far below zero it may go. store.ErrWalletExists where the name is taken.
func AddWallet(ctx context.Context, tx *store.Tx, name string, creditLimit simwarden.Money) (store.Wallet, error) {
	switch err := CheckCurrency(creditLimit.Currency); {
	case err != nil:
		return store.Wallet{}, err
	case name == "" || len(name) > 128:
		return store.Wallet{}, fmt.Errorf("%w: a wallet's name has 1 to 128 characters", ErrBadRequest)
	case creditLimit.AmountMinor < 0 || creditLimit.AmountMinor > simwarden.MaxMinor:
		return store.Wallet{}, fmt.Errorf("%w: a credit limit of %d minor units; give 0 to %d", ErrAmount, creditLimit.AmountMinor, simwarden.MaxMinor)
	}
	return tx.AddWallet(ctx, store.Wallet{Name: name, Currency: creditLimit.Currency, CreditLimitMinor: creditLimit.AmountMinor})
}

// SetCreditLimit changes how far below zero a wallet may go, in minor units. ErrLimitInUse where it
// owes more now: it has to be topped up first (M1).
func SetCreditLimit(ctx context.Context, tx *store.Tx, id simwarden.WalletID, limitMinor int64, actor string) error {
	if limitMinor < 0 || limitMinor > simwarden.MaxMinor {
		return fmt.Errorf("%w: a credit limit of %d minor units; give 0 to %d", ErrAmount, limitMinor, simwarden.MaxMinor)
	}
	w, err := lock(ctx, tx, id)
	if err != nil {
		return err
	}
	if w.BalanceMinor < -limitMinor {
		return fmt.Errorf("%w: the balance of wallet %q is %s", ErrLimitInUse, w.Name, Format(simwarden.Money{AmountMinor: w.BalanceMinor, Currency: w.Currency}))
	}
	if err := tx.SetCreditLimit(ctx, id, limitMinor); err != nil {
		return err
	}
	if err := tx.Audit(ctx, actor, "credit_limit", 0, 0, map[string]any{
		"wallet_id": id, "before_minor": w.CreditLimitMinor, "credit_limit_minor": limitMinor, "currency": w.Currency}); err != nil {
		return err
	}
	if limitMinor > w.CreditLimitMinor {
		return gained(ctx, tx, id)
	}
	return nil
}

// Assign lets a wallet pay for an asset from now on, in the place of another; 0 takes its wallet
// away. What it has paid before stays where it is, and is refunded to the wallet that paid.
func Assign(ctx context.Context, tx *store.Tx, a store.Asset, id simwarden.WalletID, actor string) error {
	if err := tx.LockAsset(ctx, a); err != nil {
		return err
	}
	if id != 0 {
		if _, err := lock(ctx, tx, id); err != nil {
			return err
		}
	}
	if err := tx.AssignWallet(ctx, a, id, actor); err != nil {
		return err
	}
	if id != 0 {
		if err := tx.ClearAlert(ctx, RenewalAlertKey(0, a), actor); err != nil {
			return err
		}
	}
	return tx.Audit(ctx, actor, "assign_wallet", a.SIMID, 0, map[string]any{"wallet_id": id, "device_id": a.DeviceID})
}

// TopUp adds money that has come from outside. ErrCurrency where it is not the wallet's.
func TopUp(ctx context.Context, tx *store.Tx, id simwarden.WalletID, m simwarden.Money, by By) (Transaction, error) {
	request, err := FingerprintOf("top_up", id, m)
	if err != nil {
		return Transaction{}, err
	}
	w, err := lock(ctx, tx, id)
	if err != nil {
		return Transaction{}, err
	}
	return audited(ctx, tx, by, booking{by: by, request: request, wallet: w,
		row:     store.LedgerTransaction{Kind: simwarden.TransactionTopUp, Money: m},
		entries: []store.LedgerEntry{{Account: store.LedgerWallet, AmountMinor: m.AmountMinor}, {Account: store.LedgerCash, AmountMinor: -m.AmountMinor}},
	})
}

// Adjust corrects a wallet by a person's word: a positive amount adds, a negative one takes, within
// the credit limit. The note says why and must not be empty.
func Adjust(ctx context.Context, tx *store.Tx, id simwarden.WalletID, m simwarden.Money, by By) (Transaction, error) {
	if by.Note == "" {
		return Transaction{}, fmt.Errorf("%w: an adjustment needs a note that says why", ErrBadRequest)
	}
	request, err := FingerprintOf("adjustment", id, m, by.Note)
	if err != nil {
		return Transaction{}, err
	}
	w, err := lock(ctx, tx, id)
	if err != nil {
		return Transaction{}, err
	}
	change := m.AmountMinor
	if m.AmountMinor < 0 && m.AmountMinor >= -simwarden.MaxMinor {
		m.AmountMinor = -m.AmountMinor
	}
	return audited(ctx, tx, by, booking{by: by, request: request, wallet: w,
		row:     store.LedgerTransaction{Kind: simwarden.TransactionAdjustment, Money: m},
		entries: []store.LedgerEntry{{Account: store.LedgerWallet, AmountMinor: change}, {Account: store.LedgerAdjustments, AmountMinor: -change}},
	})
}

// audited books a person's own move of money, and writes it in the audit log (R2).
func audited(ctx context.Context, tx *store.Tx, by By, b booking) (Transaction, error) {
	t, err := book(ctx, tx, b)
	if err != nil {
		return t, err
	}
	return t, audit(ctx, tx, by, t, b.entries[0].AmountMinor)
}

// audit writes a person's own move of money in the audit log, once; changeMinor is what it does to the balance.
func audit(ctx context.Context, tx *store.Tx, by By, t Transaction, changeMinor int64) error {
	if t.Replayed {
		return nil
	}
	facts := map[string]any{"transaction_id": t.ID, "wallet_id": t.WalletID, "change_minor": changeMinor, "currency": t.Currency, "note": t.Note}
	if t.HoldID != 0 {
		facts["hold_id"] = t.HoldID
	}
	if t.SubscriptionID != 0 {
		facts["subscription_id"], facts["paid_minor"] = t.SubscriptionID, t.AmountMinor
	}
	return tx.Audit(ctx, by.Actor, string(t.Kind), 0, 0, facts)
}

// Balance is what a wallet has, as it stands for this transaction. Amounts are in minor units.
type Balance struct {
	WalletID         simwarden.WalletID `json:"wallet_id"`
	Currency         string             `json:"currency"`
	BalanceMinor     int64              `json:"balance_minor"`
	HeldMinor        int64              `json:"held_minor"` // not in BalanceMinor
	CreditLimitMinor int64              `json:"credit_limit_minor"`
	AvailableMinor   int64              `json:"available_minor"` // balance and credit
}

// BalanceOf gives a wallet's balance; store.ErrNotFound where there is no such wallet.
func BalanceOf(ctx context.Context, tx *store.Tx, id simwarden.WalletID) (Balance, error) {
	w, err := tx.WalletByID(ctx, id)
	if err != nil {
		return Balance{}, err
	}
	return Balance{WalletID: id, Currency: w.Currency, BalanceMinor: w.BalanceMinor, HeldMinor: w.HeldMinor,
		CreditLimitMinor: w.CreditLimitMinor, AvailableMinor: w.AvailableMinor()}, nil
}

// maxLines bounds one page of a statement or report.
const maxLines = 1000

// Statement gives up to limit (1 to 1000) moves of a wallet's balance, the latest first, below the
// entry id before; 0 begins at the latest.
func Statement(ctx context.Context, tx *store.Tx, id simwarden.WalletID, before int64, limit int) ([]store.StatementLine, error) {
	return tx.WalletStatement(ctx, id, before, min(max(limit, 1), maxLines))
}
