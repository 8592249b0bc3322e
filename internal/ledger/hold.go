package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// maxHold bounds how long money may be set aside.
const maxHold = 366 * 24 * time.Hour

// PlaceHold sets money of a wallet aside until it is captured or released, or expires at expiresAt
// (UTC, at most 366 days ahead): the balance is less by it at once, within the credit limit.
func PlaceHold(ctx context.Context, tx *store.Tx, id simwarden.WalletID, m simwarden.Money, expiresAt time.Time, by By) (store.Hold, error) {
	if !expiresAt.After(tx.At) || expiresAt.After(tx.At.Add(maxHold)) {
		return store.Hold{}, fmt.Errorf("%w: a hold ends after now, and within 366 days", ErrBadRequest)
	}
	expiresAt = expiresAt.UTC().Truncate(time.Microsecond)
	request, err := FingerprintOf("hold", id, m, expiresAt)
	if err != nil {
		return store.Hold{}, err
	}
	w, err := lock(ctx, tx, id)
	if err != nil {
		return store.Hold{}, err
	}
	b := booking{by: by, request: request, wallet: w, row: store.LedgerTransaction{Kind: simwarden.TransactionHold, Money: m},
		entries: []store.LedgerEntry{{Account: store.LedgerWallet, AmountMinor: -m.AmountMinor}, {Account: store.LedgerHeld, AmountMinor: m.AmountMinor}}}
	var h store.Hold
	if _, _, refused := b.moves(); refused == nil {
		if h, err = tx.AddHold(ctx, store.Hold{WalletID: id, Money: m, ExpiresAt: expiresAt}); err != nil {
			return h, err
		}
		b.row.HoldID = h.ID
	}
	t, err := book(ctx, tx, b)
	if (err != nil || t.Replayed) && h.ID != 0 {
		if dropped := tx.DropHold(ctx, h.ID); dropped != nil && err == nil {
			err = dropped
		}
	}
	switch {
	case err != nil:
		return h, err
	case t.Replayed:
		return tx.HoldByID(ctx, t.HoldID)
	}
	return h, audit(ctx, tx, by, t, -m.AmountMinor)
}

// Capture pays a subscription with held money: amountMinor minor units, or with 0 all of it; what is
// left goes back to the wallet. ErrHoldEnded where it was captured, released or has expired,
// ErrAboveHold where it is less than the amount.
func Capture(ctx context.Context, tx *store.Tx, id simwarden.HoldID, amountMinor int64, sub simwarden.SubscriptionID, by By) (Transaction, error) {
	request, err := FingerprintOf("capture", id, amountMinor, sub)
	if err != nil {
		return Transaction{}, err
	}
	h, w, err := lockHold(ctx, tx, id)
	if err != nil {
		return Transaction{}, err
	}
	amount := amountMinor
	if amount == 0 {
		amount = h.AmountMinor
	}
	b := booking{by: by, request: request, wallet: w,
		row: store.LedgerTransaction{Kind: simwarden.TransactionCapture, Money: simwarden.Money{AmountMinor: amount, Currency: h.Currency},
			SubscriptionID: sub, HoldID: id},
		entries: []store.LedgerEntry{{Account: store.LedgerHeld, AmountMinor: -amount}, {Account: store.LedgerRevenue, AmountMinor: amount}}}
	switch {
	case h.State != simwarden.HoldOpen || !tx.At.Before(h.ExpiresAt):
		b.refused = fmt.Errorf("hold %d: %w", id, ErrHoldEnded)
	case amount > h.AmountMinor:
		b.refused = fmt.Errorf("hold %d: %w: %s is held", id, ErrAboveHold, Format(h.Money))
	}
	t, err := book(ctx, tx, b)
	if err != nil || t.Replayed {
		return t, err
	}
	if rest := h.AmountMinor - amount; rest > 0 {
		if _, err := book(ctx, tx, release(h, w, rest, By{Actor: by.Actor, Note: "what was not captured"}, request)); err != nil {
			return t, err
		}
	}
	if err := end(ctx, tx, h, simwarden.HoldCaptured, amount); err != nil {
		return t, err
	}
	return t, audit(ctx, tx, by, t, h.AmountMinor-amount)
}

// Release gives held money back to its wallet. ErrHoldEnded where it was captured or released.
func Release(ctx context.Context, tx *store.Tx, id simwarden.HoldID, by By) (Transaction, error) {
	request, err := FingerprintOf("release", id)
	if err != nil {
		return Transaction{}, err
	}
	h, w, err := lockHold(ctx, tx, id)
	if err != nil {
		return Transaction{}, err
	}
	b := release(h, w, h.AmountMinor, by, request)
	if h.State != simwarden.HoldOpen {
		b.refused = fmt.Errorf("hold %d: %w", id, ErrHoldEnded)
	}
	t, err := book(ctx, tx, b)
	if err != nil || t.Replayed {
		return t, err
	}
	if err := end(ctx, tx, h, simwarden.HoldReleased, 0); err != nil {
		return t, err
	}
	return t, audit(ctx, tx, by, t, h.AmountMinor)
}

// ReleaseExpired gives back up to limit holds whose time has come, and says how many.
func ReleaseExpired(ctx context.Context, tx *store.Tx, limit int) (int, error) {
	list, err := tx.ExpiredHolds(ctx, limit)
	if err != nil {
		return 0, err
	}
	// All wallets at once and in one order, so that no two of us wait for each other.
	ids := make([]simwarden.WalletID, 0, len(list))
	for _, h := range list {
		ids = append(ids, h.WalletID)
	}
	if len(ids) > 0 {
		if _, err := tx.LockWallets(ctx, ids); err != nil {
			return 0, err
		}
	}
	n := 0
	for _, h := range list {
		switch _, err := Release(ctx, tx, h.ID, By{Actor: "system", Note: "the hold has expired"}); {
		case errors.Is(err, ErrHoldEnded): // by somebody else meanwhile
		case err != nil:
			return n, err
		default:
			n++
		}
	}
	return n, nil
}

func lockHold(ctx context.Context, tx *store.Tx, id simwarden.HoldID) (store.Hold, *store.Wallet, error) {
	h, err := tx.HoldByID(ctx, id)
	if err != nil {
		return h, nil, err
	}
	w, err := lock(ctx, tx, h.WalletID)
	if err != nil {
		return h, nil, err
	}
	h, err = tx.HoldByID(ctx, id) // again under the lock
	return h, w, err
}

func release(h store.Hold, w *store.Wallet, amount int64, by By, request Fingerprint) booking {
	return booking{by: by, request: request, wallet: w,
		row:     store.LedgerTransaction{Kind: simwarden.TransactionRelease, Money: simwarden.Money{AmountMinor: amount, Currency: h.Currency}, HoldID: h.ID},
		entries: []store.LedgerEntry{{Account: store.LedgerWallet, AmountMinor: amount}, {Account: store.LedgerHeld, AmountMinor: -amount}}}
}

func end(ctx context.Context, tx *store.Tx, h store.Hold, state simwarden.HoldState, captured int64) error {
	ended, err := tx.EndHold(ctx, h.ID, state, captured)
	if err == nil && !ended {
		err = fmt.Errorf("hold %d: %w", h.ID, ErrHoldEnded)
	}
	return err
}
