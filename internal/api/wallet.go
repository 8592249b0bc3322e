package api

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// WalletView is a wallet with what it can spend, in minor units of its currency.
type WalletView struct {
	store.Wallet
	AvailableMinor int64 `json:"available_minor"` // balance and credit
}

func viewWallet(w store.Wallet) WalletView {
	return WalletView{Wallet: w, AvailableMinor: w.AvailableMinor()}
}

// Wallets lists the wallets by name.
func (s *Service) Wallets(ctx context.Context, cursor string, limit int) (Page[WalletView], error) {
	limit, err := pageLimit(limit)
	if err != nil {
		return Page[WalletView]{}, err
	}
	after, err := walletAfter(cursor)
	if err != nil {
		return Page[WalletView]{}, err
	}
	rows, err := s.Store.Wallets(ctx, after, limit+1)
	if err != nil {
		return Page[WalletView]{}, err
	}
	page := Page[WalletView]{Items: make([]WalletView, 0, len(rows))}
	for i, w := range rows {
		if i == limit {
			page.Next = base64.RawURLEncoding.EncodeToString([]byte(rows[i-1].Name))
			break
		}
		page.Items = append(page.Items, viewWallet(w))
	}
	return page, nil
}

// walletAfter is the name in a cursor of the list of wallets, which is ordered by it.
func walletAfter(cursor string) (string, error) {
	name, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(name) > 128 || !cleanText(string(name)) {
		return "", badInput("this cursor is not one that this list gave out; begin without one")
	}
	return string(name), nil
}

// Wallet gives a wallet with its balance as it stands.
func (s *Service) Wallet(ctx context.Context, name string) (WalletView, error) {
	var w store.Wallet
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		w, err = tx.WalletByName(ctx, name)
		return err
	})
	return viewWallet(w), err
}

// AddWallet adds an empty wallet, whose currency is for good; store.ErrWalletExists where the name is
// taken. The credit limit says how far below zero it may go (M1).
func (s *Service) AddWallet(ctx context.Context, name string, creditLimit simwarden.Money, actor string) (WalletView, error) {
	if !nameShape.MatchString(name) {
		return WalletView{}, badInput("a wallet is named with up to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit")
	}
	var w store.Wallet
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if w, err = ledger.AddWallet(ctx, tx, name, creditLimit); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "wallet_add", 0, 0, map[string]any{
			"wallet_id": w.ID, "wallet": w.Name, "currency": w.Currency, "credit_limit_minor": w.CreditLimitMinor})
	})
	return viewWallet(w), err
}

// SetCreditLimit changes how far below zero a wallet may go; ledger.ErrLimitInUse where it owes more
// now, ErrCurrency where the limit is not in its currency.
func (s *Service) SetCreditLimit(ctx context.Context, name string, limit simwarden.Money, actor string) (WalletView, error) {
	return s.changeWallet(ctx, name, func(tx *store.Tx, w store.Wallet) error {
		if err := inCurrency(w, limit.Currency); err != nil {
			return err
		}
		return ledger.SetCreditLimit(ctx, tx, w.ID, limit.AmountMinor, actor)
	})
}

// changeWallet finds a wallet, changes it and gives it as it is then.
func (s *Service) changeWallet(ctx context.Context, name string, change func(*store.Tx, store.Wallet) error) (WalletView, error) {
	var w store.Wallet
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if w, err = tx.WalletByName(ctx, name); err != nil {
			return err
		}
		if err := change(tx, w); err != nil {
			return err
		}
		w, err = tx.WalletByID(ctx, w.ID)
		return err
	})
	return viewWallet(w), err
}

// TopUp adds money that has come from outside to a wallet, once for a key; ledger.ErrCurrency where
// it is not the wallet's. The transaction says whether it was booked before.
func (s *Service) TopUp(ctx context.Context, name string, m simwarden.Money, note, key, actor string) (t ledger.Transaction, err error) {
	err = s.withWallet(ctx, name, note, key, func(tx *store.Tx, w store.Wallet) error {
		t, err = ledger.TopUp(ctx, tx, w.ID, m, ledger.By{Actor: actor, Key: key, Note: note})
		return err
	})
	return t, err
}

// WalletEntries lists what has moved a wallet's balance, the latest first.
func (s *Service) WalletEntries(ctx context.Context, name, cursor string, limit int) (Page[store.StatementLine], error) {
	none := Page[store.StatementLine]{}
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	before, err := cursorID("wallet_entry", cursor)
	if err != nil {
		return none, err
	}
	var rows []store.StatementLine
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		w, err := tx.WalletByName(ctx, name)
		if err != nil {
			return err
		}
		rows, err = ledger.Statement(ctx, tx, w.ID, before, limit+1)
		return err
	})
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "wallet_entry", func(l store.StatementLine) int64 { return l.EntryID }), nil
}

// Assignment says which wallet pays for an asset; empty for none.
type Assignment struct {
	Wallet   string             `json:"wallet"`
	SIMID    simwarden.SIMID    `json:"sim_id,omitempty"`
	DeviceID simwarden.DeviceID `json:"device_id,omitempty"`
}

// AssignWallet lets a wallet pay for the SIM's asset from now on: for the device where it is in one.
// An empty name takes its wallet away.
func (s *Service) AssignWallet(ctx context.Context, iccid, wallet, actor string) (Assignment, error) {
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return Assignment{}, err
	}
	return s.assign(ctx, wallet, actor, func(tx *store.Tx) (store.Asset, error) { return tx.AssetOfSIM(ctx, sim.ID) })
}

// AssignDeviceWallet is AssignWallet for a device.
func (s *Service) AssignDeviceWallet(ctx context.Context, imei, wallet, actor string) (Assignment, error) {
	d, err := s.FindDevice(ctx, imei)
	if err != nil {
		return Assignment{}, err
	}
	return s.assign(ctx, wallet, actor, func(*store.Tx) (store.Asset, error) { return store.Asset{DeviceID: d.ID}, nil })
}

// assign assigns to the asset that assetOf gives.
func (s *Service) assign(ctx context.Context, wallet, actor string, assetOf func(*store.Tx) (store.Asset, error)) (out Assignment, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		var w store.Wallet
		if wallet != "" {
			if w, err = tx.WalletByName(ctx, wallet); err != nil {
				return err
			}
		}
		asset, err := assetOf(tx)
		if err != nil {
			return err
		}
		out = Assignment{Wallet: w.Name, SIMID: asset.SIMID, DeviceID: asset.DeviceID}
		return ledger.Assign(ctx, tx, asset, w.ID, actor)
	})
	return out, err
}

// inCurrency says whether a currency is a wallet's.
func inCurrency(w store.Wallet, currency string) error {
	if err := ledger.CheckCurrency(currency); err != nil {
		return err
	}
	if w.Currency != currency {
		return fmt.Errorf("%w: wallet %q is in %s, not in %s", ledger.ErrCurrency, w.Name, w.Currency, currency)
	}
	return nil
}
