package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
)

// LedgerAccount names an account of the book: two of a wallet, the others of the house.
type LedgerAccount string

// The accounts. An amount is positive where the account gets it, so that a wallet's money is
// positive and the cash that came for it negative; all of them together are zero (M1).
const (
	LedgerWallet      LedgerAccount = "wallet"
	LedgerHeld        LedgerAccount = "held"
	LedgerCash        LedgerAccount = "cash"
	LedgerRevenue     LedgerAccount = "revenue"
	LedgerRefunds     LedgerAccount = "refunds"
	LedgerAdjustments LedgerAccount = "adjustments"
)

// LedgerTransaction is one booked transaction.
type LedgerTransaction struct {
	ID   simwarden.LedgerTransactionID `json:"id"`
	At   time.Time                     `json:"at"` // UTC
	Kind simwarden.TransactionKind     `json:"kind"`
	// Money is the sum of the positive entries; zero, without a currency, for a plan without a price.
	simwarden.Money
	WalletID       simwarden.WalletID            `json:"wallet_id,omitempty"`
	Actor          string                        `json:"actor"`
	SubscriptionID simwarden.SubscriptionID      `json:"subscription_id,omitempty"`
	PurchaseID     simwarden.LedgerTransactionID `json:"purchase_id,omitempty"`
	HoldID         simwarden.HoldID              `json:"hold_id,omitempty"`
	Note           string                        `json:"note,omitempty"`
}

// LedgerEntry is one side of a transaction to book.
type LedgerEntry struct {
	Account     LedgerAccount
	AmountMinor int64
}

// NewTransaction is a transaction to book, with the key that makes it happen once.
type NewTransaction struct {
	LedgerTransaction
	Principal   string
	Key         string // empty for none
	Fingerprint []byte
	Entries     []LedgerEntry
}

const transactionColumns = `t.id, t.at, t.kind, t.amount_minor, coalesce(t.currency, ''), coalesce(t.wallet_id, 0), t.actor,
	coalesce(t.subscription_id, 0), coalesce(t.purchase_id, 0), coalesce(t.hold_id, 0), t.note`

func (t *LedgerTransaction) fields() []any {
	return []any{&t.ID, &t.At, &t.Kind, &t.AmountMinor, &t.Currency, &t.WalletID, &t.Actor, &t.SubscriptionID, &t.PurchaseID, &t.HoldID, &t.Note}
}

// PostTransaction books a transaction and its entries in one statement; the caller holds the wallet's
// lock and has compared amounts with its balance. False where the principal's key has been used, also
// by a transaction that committed while this one waited for it.
func (tx *Tx) PostTransaction(ctx context.Context, n NewTransaction) (LedgerTransaction, bool, error) {
	if fault.Planted("V15") && len(n.Entries) > 1 { // one-sided, with the database's own guards out of the way
		n.Entries = n.Entries[:1]
		if _, err := tx.Exec(ctx, `SET LOCAL session_replication_role = replica`); err != nil {
			return LedgerTransaction{}, false, err
		}
	}
	kinds, amounts := make([]string, len(n.Entries)), make([]int64, len(n.Entries))
	for i, e := range n.Entries {
		kinds[i], amounts[i] = string(e.Account), e.AmountMinor
	}
	var booked int
	n.At = tx.At
	err := tx.QueryRow(ctx, `
		WITH t AS (
			INSERT INTO ledger_transaction (at, kind, amount_minor, currency, wallet_id, actor, principal, idempotency_key,
				fingerprint, subscription_id, purchase_id, hold_id, note)
			VALUES ($1, $2, $3, nullif($4::text, ''), $5::bigint, $6, $7, nullif($8, ''), $9, $10, $11, $12, $13)
			ON CONFLICT (principal, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING id
		), e AS (
			INSERT INTO ledger_entry (transaction_id, ledger_account_id, amount_minor, currency)
			SELECT t.id, CASE WHEN v.kind IN ('wallet', 'held')
				THEN (SELECT a.id FROM ledger_account a WHERE a.wallet_id = $5 AND a.kind = v.kind)
				ELSE (SELECT a.id FROM ledger_account a WHERE a.wallet_id IS NULL AND a.currency = $4 AND a.kind = v.kind) END,
				v.amount, $4
			FROM t CROSS JOIN unnest($14::text[], $15::bigint[]) WITH ORDINALITY AS v (kind, amount, n) ORDER BY v.n
			RETURNING 1
		)
		SELECT t.id, (SELECT count(*) FROM e) FROM t`,
		n.At, string(n.Kind), n.AmountMinor, n.Currency, nullID(int64(n.WalletID)), n.Actor, n.Principal, n.Key,
		n.Fingerprint, nullID(int64(n.SubscriptionID)), nullID(int64(n.PurchaseID)), nullID(int64(n.HoldID)), n.Note, kinds, amounts).Scan(&n.ID, &booked)
	if errors.Is(err, pgx.ErrNoRows) {
		return LedgerTransaction{}, false, nil
	}
	if err != nil {
		return LedgerTransaction{}, false, fmt.Errorf("book %s on wallet %d: %w", n.Kind, n.WalletID, err)
	}
	if booked != len(n.Entries) {
		return LedgerTransaction{}, false, fmt.Errorf("book %s on wallet %d: %d of %d entries written", n.Kind, n.WalletID, booked, len(n.Entries))
	}
	return n.LedgerTransaction, true, nil
}

// TransactionByKey finds what a principal's key has led to, with the fingerprint of its request.
// ErrNotFound where the key has not been used.
func (tx *Tx) TransactionByKey(ctx context.Context, principal, key string) (LedgerTransaction, []byte, error) {
	var t LedgerTransaction
	var fingerprint []byte
	err := one(tx.QueryRow(ctx, `
		SELECT `+transactionColumns+`, t.fingerprint FROM ledger_transaction t WHERE t.principal = $1 AND t.idempotency_key = $2`,
		principal, key), append(t.fields(), &fingerprint)...)
	if err != nil {
		return t, nil, fmt.Errorf("look for the idempotency key: %w", err)
	}
	t.At = t.At.UTC()
	return t, fingerprint, nil
}

// PurchaseOf gives the transaction that paid for a subscription, and what of it has been refunded,
// in minor units of its currency. ErrNotFound where nothing was paid.
func (tx *Tx) PurchaseOf(ctx context.Context, id simwarden.SubscriptionID) (LedgerTransaction, int64, error) {
	var t LedgerTransaction
	var refunded int64
	err := one(tx.QueryRow(ctx, `
		SELECT `+transactionColumns+`, (SELECT coalesce(sum(r.amount_minor), 0)::bigint FROM ledger_transaction r WHERE r.purchase_id = t.id)
		FROM ledger_transaction t
		WHERE t.subscription_id = $1 AND t.kind IN ('purchase', 'capture') AND t.amount_minor > 0`, id), append(t.fields(), &refunded)...)
	if err != nil {
		return t, 0, fmt.Errorf("purchase of subscription %d: %w", id, err)
	}
	t.At = t.At.UTC()
	return t, refunded, nil
}

// StatementLine is one move of a wallet's balance, in minor units of its currency.
type StatementLine struct {
	EntryID int64 `json:"entry_id"`
	LedgerTransaction
	ChangeMinor       int64 `json:"change_minor"`
	BalanceAfterMinor int64 `json:"balance_after_minor"`
}

// WalletStatement gives up to limit moves of a wallet's balance, the latest first, below the entry
// id before (0: from the latest). Entries are in the order in which the balance moved; their
// transactions' instants may be out of it by the length of a transaction.
func (tx *Tx) WalletStatement(ctx context.Context, id simwarden.WalletID, before int64, limit int) ([]StatementLine, error) {
	rows, err := tx.Query(ctx, `
		SELECT e.id, e.amount_minor, e.balance_after_minor, `+transactionColumns+`
		FROM ledger_entry e JOIN ledger_transaction t ON t.id = e.transaction_id
		WHERE e.ledger_account_id = (SELECT id FROM ledger_account WHERE wallet_id = $1 AND kind = 'wallet')
		  AND ($2 = 0 OR e.id < $2) ORDER BY e.id DESC LIMIT $3`, id, before, limit)
	if err != nil {
		return nil, fmt.Errorf("statement of wallet %d: %w", id, err)
	}
	defer rows.Close()
	out := []StatementLine{}
	for rows.Next() {
		var l StatementLine
		if err := rows.Scan(append([]any{&l.EntryID, &l.ChangeMinor, &l.BalanceAfterMinor}, l.fields()...)...); err != nil {
			return nil, fmt.Errorf("statement of wallet %d: %w", id, err)
		}
		l.At = l.At.UTC()
		out = append(out, l)
	}
	return out, rows.Err()
}
