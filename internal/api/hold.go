package api

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// Adjust corrects a wallet by a person's word, once for a key: a positive amount adds, a negative one takes,
// within the credit limit. The note says why, for the audit log (R2).
func (s *Service) Adjust(ctx context.Context, name string, m simwarden.Money, note, key, actor string) (t ledger.Transaction, err error) {
	if note == "" {
		return t, badInput("an adjustment needs a note that says why")
	}
	err = s.withWallet(ctx, name, note, key, func(tx *store.Tx, w store.Wallet) error {
		t, err = ledger.Adjust(ctx, tx, w.ID, m, ledger.By{Actor: actor, Key: key, Note: note})
		return err
	})
	return t, err
}

// PlaceHold sets money of a wallet aside until expiresAt, at most 366 days ahead, once for a key: it cannot be
// spent until it is captured for a subscription or released, by a person or by its time.
func (s *Service) PlaceHold(ctx context.Context, name string, m simwarden.Money, expiresAt time.Time, note, key, actor string) (h store.Hold, err error) {
	err = s.withWallet(ctx, name, note, key, func(tx *store.Tx, w store.Wallet) error {
		h, err = ledger.PlaceHold(ctx, tx, w.ID, m, expiresAt, ledger.By{Actor: actor, Key: key, Note: note})
		return err
	})
	return h, err
}

// Holds lists the holds of a wallet, the latest first.
func (s *Service) Holds(ctx context.Context, name, cursor string, limit int) (Page[store.Hold], error) {
	none := Page[store.Hold]{}
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	before, err := cursorID("hold", cursor)
	if err != nil {
		return none, err
	}
	w, err := s.Wallet(ctx, name)
	if err != nil {
		return none, err
	}
	rows, err := s.Store.HoldsOfWallet(ctx, w.ID, simwarden.HoldID(before), limit+1)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "hold", func(h store.Hold) int64 { return int64(h.ID) }), nil
}

// CaptureHold pays a subscription that is not paid yet with held money, once for a key: the amount, or with
// nil all of it; what is left goes back to the wallet.
func (s *Service) CaptureHold(ctx context.Context, id simwarden.HoldID, sub simwarden.SubscriptionID, m *simwarden.Money, note, key, actor string) (t ledger.Transaction, err error) {
	err = s.withMoney(ctx, note, key, func(tx *store.Tx) error {
		if _, err := tx.SubscriptionByID(ctx, sub); err != nil {
			return err
		}
		minor := int64(0)
		if m != nil {
			h, err := tx.HoldByID(ctx, id)
			if err != nil {
				return err
			}
			if m.Currency != h.Currency {
				return fmt.Errorf("%w: hold %d is in %s, not in %s", ledger.ErrCurrency, id, h.Currency, m.Currency)
			}
			if minor = m.AmountMinor; minor < 1 {
				return badInput("an amount to capture is 1 minor unit or more; leave it out for all that is held")
			}
		}
		t, err = ledger.Capture(ctx, tx, id, minor, sub, ledger.By{Actor: actor, Key: key, Note: note})
		return err
	})
	return t, err
}

// ReleaseHold gives held money back to its wallet, once for a key.
func (s *Service) ReleaseHold(ctx context.Context, id simwarden.HoldID, note, key, actor string) (t ledger.Transaction, err error) {
	err = s.withMoney(ctx, note, key, func(tx *store.Tx) error {
		t, err = ledger.Release(ctx, tx, id, ledger.By{Actor: actor, Key: key, Note: note})
		return err
	})
	return t, err
}

// withMoney checks what a person typed beside an amount and books in one transaction.
func (s *Service) withMoney(ctx context.Context, note, key string, do func(*store.Tx) error) error {
	if err := checkReason(note); err != nil {
		return err
	}
	if err := checkKey(key); err != nil {
		return err
	}
	return s.Store.InTx(ctx, do)
}

func (s *Service) withWallet(ctx context.Context, name, note, key string, do func(*store.Tx, store.Wallet) error) error {
	return s.withMoney(ctx, note, key, func(tx *store.Tx) error {
		w, err := tx.WalletByName(ctx, name)
		if err != nil {
			return err
		}
		return do(tx, w)
	})
}
