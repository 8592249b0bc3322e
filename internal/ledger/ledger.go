// Package ledger keeps the money: wallets, top-ups, purchases, refunds and holds as double entries,
// each inside the caller's transaction, so that what is sold and what is paid commit together (M1);
// and it sets what carriers charge against what was earned (M3).
//
// Every function that books locks its wallet first, after the locks of assets. All amounts are
// int64 in minor units, within simwarden.MaxMinor.
package ledger

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/text/currency"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// What a request is refused for; test with errors.Is.
var (
	ErrInsufficientFunds = errors.New("the wallet cannot pay this")
	ErrCurrency          = errors.New("the currency does not fit")
	ErrAmount            = errors.New("this amount cannot be booked")
	ErrNoWallet          = errors.New("no wallet pays for this SIM or device")
	ErrNotPaid           = errors.New("nothing was paid for this subscription")
	ErrPaidAlready       = errors.New("this subscription is paid already")
	ErrAbovePurchase     = errors.New("the refund is above what is left of the purchase")
	ErrHoldEnded         = errors.New("this hold has ended")
	ErrAboveHold         = errors.New("this is above what is held")
	ErrLimitInUse        = errors.New("the wallet owes more than this credit limit")
	ErrKeyReused         = errors.New("this idempotency key was used for another request")
	ErrBadRequest        = errors.New("this cannot be booked")
)

// InsufficientFunds is ErrInsufficientFunds with what was found.
type InsufficientFunds struct {
	Wallet                      string
	Balance, Price, CreditLimit simwarden.Money
}

// Error says all three amounts.
func (e *InsufficientFunds) Error() string {
	return fmt.Sprintf("%v: wallet %q has %s with a credit limit of %s, and needs %s",
		ErrInsufficientFunds, e.Wallet, Format(e.Balance), Format(e.CreditLimit), Format(e.Price))
}

// Is makes it an ErrInsufficientFunds.
func (e *InsufficientFunds) Is(target error) bool { return target == ErrInsufficientFunds }

// By says who asks for a booking, and makes it happen once.
type By struct {
	Actor string // as in the audit log: "system", "cli:anna", "token:…"
	// Principal is whose Key it is; empty for Actor. Two principals' keys have nothing to do with
	// each other (F51).
	Principal string
	// Key is the idempotency key, at most 255 bytes; empty for none. The same key with the same
	// request gives what came of it the first time, and changes nothing; with another request it is
	// ErrKeyReused.
	Key  string
	Note string // at most 1000 bytes
}

func (b By) principal() string {
	if b.Principal != "" {
		return b.Principal
	}
	return b.Actor
}

func (b By) check() error {
	switch {
	case b.Actor == "":
		return fmt.Errorf("%w: nobody asks for it", ErrBadRequest)
	case len(b.Key) > 255:
		return fmt.Errorf("%w: an idempotency key has at most 255 bytes", ErrBadRequest)
	case len(b.Note) > 1000:
		return fmt.Errorf("%w: a note has at most 1000 bytes", ErrBadRequest)
	}
	return nil
}

// Transaction is what was booked. Replayed says that it was booked before, under the same key.
type Transaction struct {
	store.LedgerTransaction
	Replayed bool `json:"replayed,omitempty"`
}

// Fingerprint tells one request from another under the same idempotency key.
type Fingerprint [sha256.Size]byte

// FingerprintOf makes the fingerprint of a request: its kind and what it asks for, values that JSON
// writes in one way only.
func FingerprintOf(kind string, parts ...any) (Fingerprint, error) {
	text, err := json.Marshal(append([]any{kind}, parts...))
	if err != nil {
		return Fingerprint{}, fmt.Errorf("fingerprint of a %s: %w", kind, err)
	}
	return sha256.Sum256(text), nil
}

// Find gives what a request has led to before under its key; false where that is nothing yet or it
// has no key. ErrKeyReused where the key came with another request.
func Find(ctx context.Context, tx *store.Tx, by By, request Fingerprint) (Transaction, bool, error) {
	if by.Key == "" {
		return Transaction{}, false, nil
	}
	t, fingerprint, err := tx.TransactionByKey(ctx, by.principal(), by.Key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Transaction{}, false, nil
	case err != nil:
		return Transaction{}, false, err
	case !slices.Equal(fingerprint, request[:]):
		return Transaction{}, false, ErrKeyReused
	}
	return Transaction{LedgerTransaction: t, Replayed: true}, true, nil
}

// booking is one transaction on its way into the book.
type booking struct {
	by      By
	request Fingerprint
	wallet  *store.Wallet // locked; nil for what costs nothing
	row     store.LedgerTransaction
	entries []store.LedgerEntry
	refused error // why it cannot be booked, unless it has been before
}

// book writes a booking once: where its key has had its effect it gives that, and where it cannot be
// booked it gives the reason and has written nothing. The wallet in memory moves with the book.
func book(ctx context.Context, tx *store.Tx, b booking) (Transaction, error) {
	if err := b.by.check(); err != nil {
		return Transaction{}, err
	}
	change, held, refused := b.moves()
	if refused != nil {
		t, found, err := Find(ctx, tx, b.by, b.request)
		if err != nil || found {
			return t, err
		}
		return Transaction{}, refused
	}
	b.row.Actor, b.row.Note = b.by.Actor, b.by.Note
	row, booked, err := tx.PostTransaction(ctx, store.NewTransaction{LedgerTransaction: b.row,
		Principal: b.by.principal(), Key: b.by.Key, Fingerprint: b.request[:], Entries: b.entries})
	if store.IsUnique(err, "ledger_transaction_paid") {
		return Transaction{}, ErrPaidAlready
	}
	if err != nil {
		return Transaction{}, err
	}
	if !booked {
		t, found, err := Find(ctx, tx, b.by, b.request)
		if err == nil && !found {
			err = errors.New("the idempotency key is taken by a transaction that cannot be seen")
		}
		return t, err
	}
	if b.wallet != nil {
		b.wallet.BalanceMinor += change
		b.wallet.HeldMinor += held
	}
	if change > 0 {
		err = gained(ctx, tx, b.wallet.ID)
	}
	return Transaction{LedgerTransaction: row}, err
}

// moves gives what the booking does to the wallet, and why it must not.
func (b *booking) moves() (change, held int64, refused error) {
	if b.refused != nil || b.wallet == nil {
		return 0, 0, b.refused
	}
	if err := checkAmount(b.row.Money); err != nil {
		return 0, 0, err
	}
	if b.row.Currency != b.wallet.Currency {
		return 0, 0, fmt.Errorf("%w: wallet %q is in %s, not in %s", ErrCurrency, b.wallet.Name, b.wallet.Currency, b.row.Currency)
	}
	b.row.WalletID = b.wallet.ID
	for _, e := range b.entries {
		switch e.Account {
		case store.LedgerWallet:
			change += e.AmountMinor
		case store.LedgerHeld:
			held += e.AmountMinor
		}
	}
	w := b.wallet
	if change < 0 && w.AvailableMinor() < -change {
		return 0, 0, &InsufficientFunds{Wallet: w.Name, Balance: simwarden.Money{AmountMinor: w.BalanceMinor, Currency: w.Currency},
			Price: b.row.Money, CreditLimit: simwarden.Money{AmountMinor: w.CreditLimitMinor, Currency: w.Currency}}
	}
	// What moves between balance and held changes nothing here: a release must always pass.
	if change+held > 0 && w.BalanceMinor+w.HeldMinor+change+held > simwarden.MaxMinor {
		return 0, 0, fmt.Errorf("%w: wallet %q would have more than %d minor units", ErrAmount, w.Name, simwarden.MaxMinor)
	}
	return change, held, nil
}

// gained lets renewals try again that the wallet could not pay: there is more in it (M2).
func gained(ctx context.Context, tx *store.Tx, id simwarden.WalletID) error {
	if err := tx.WakeRenewals(ctx, id); err != nil {
		return err
	}
	return tx.ClearAlert(ctx, RenewalAlertKey(id, store.Asset{}), "system")
}

// RenewalAlertKey is the key of the alert that a wallet cannot pay renewals: one for all that it pays
// for. Without a wallet it is the asset's own.
func RenewalAlertKey(id simwarden.WalletID, a store.Asset) string {
	switch {
	case id != 0:
		return fmt.Sprintf("renewal:wallet:%d", id)
	case a.DeviceID != 0:
		return fmt.Sprintf("renewal:device:%d", a.DeviceID)
	}
	return fmt.Sprintf("renewal:sim:%d", a.SIMID)
}

func lock(ctx context.Context, tx *store.Tx, id simwarden.WalletID) (*store.Wallet, error) {
	locked, err := tx.LockWallets(ctx, []simwarden.WalletID{id})
	if err != nil {
		return nil, err
	}
	w, ok := locked[id]
	if !ok {
		return nil, fmt.Errorf("wallet %d: %w", id, store.ErrNotFound)
	}
	return w, nil
}

// checkAmount wants a positive amount in a currency of ISO 4217.
func checkAmount(m simwarden.Money) error {
	if err := CheckCurrency(m.Currency); err != nil {
		return err
	}
	if m.AmountMinor < 1 || m.AmountMinor > simwarden.MaxMinor {
		return fmt.Errorf("%w: %d minor units; give 1 to %d", ErrAmount, m.AmountMinor, simwarden.MaxMinor)
	}
	return nil
}

// CheckCurrency says whether a code is a currency's (ISO 4217, upper case); XXX (none) and XTS
// (tests) are not. The error wraps ErrCurrency.
func CheckCurrency(code string) error {
	if _, err := currency.ParseISO(code); err != nil || code != strings.ToUpper(code) || code == "XXX" || code == "XTS" {
		return fmt.Errorf("%w: %.8q is no currency; give a code of ISO 4217 such as CNY or EUR", ErrCurrency, code)
	}
	return nil
}

// Format writes an amount for people: 12.50 EUR, 300 JPY. The digits are the currency's own (ISO
// 4217).
func Format(m simwarden.Money) string {
	unit, err := currency.ParseISO(m.Currency)
	if err != nil {
		return fmt.Sprintf("%d %s", m.AmountMinor, m.Currency)
	}
	digits, _ := currency.Standard.Rounding(unit)
	sign, text := "", fmt.Sprintf("%0*d", digits+1, m.AmountMinor)
	if m.AmountMinor < 0 {
		sign, text = "-", fmt.Sprintf("%0*d", digits+1, -m.AmountMinor)
	}
	if digits > 0 {
		text = text[:len(text)-digits] + "." + text[len(text)-digits:]
	}
	return sign + text + " " + m.Currency
}
