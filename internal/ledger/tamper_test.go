package ledger_test

import (
	"strings"
	"testing"
)

func TestV15TheDatabaseRefusesTampering(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 100)
	other := w.wallet("JPY", 0)
	sub, _, err := w.buy(w.sim(wallet), w.plan(100, "EUR"), anna)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.topUp(wallet, 40, "EUR", anna); err != nil {
		t.Fatal(err)
	}
	if _, err := w.refund(sub, 30, anna); err != nil {
		t.Fatal(err)
	}
	const (
		insert = `INSERT INTO ledger_transaction (at, kind, amount_minor, currency, wallet_id, actor, principal, fingerprint, subscription_id, purchase_id) VALUES `
		entry  = `INSERT INTO ledger_entry (transaction_id, ledger_account_id, amount_minor, currency) `
		newest = `(SELECT max(id) FROM ledger_transaction)`
		mine   = `(SELECT id FROM ledger_account WHERE wallet_id = 1 AND kind = 'wallet')`
		cash   = `(SELECT id FROM ledger_account WHERE kind = 'cash' AND currency = 'EUR')`
	)
	for _, row := range []struct {
		name, why string
		sql       []string
	}{
		{"an entry is changed", "append-only", []string{`UPDATE ledger_entry SET amount_minor = amount_minor + 1`}},
		{"an entry is deleted", "append-only", []string{`DELETE FROM ledger_entry`}},
		{"the entries are emptied", "append-only", []string{`TRUNCATE ledger_entry`}},
		{"a transaction is changed", "append-only", []string{`UPDATE ledger_transaction SET note = 'another'`}},
		{"a transaction is deleted", "append-only", []string{`DELETE FROM ledger_transaction WHERE id = 1`}},
		{"everything is emptied by cascade", "append-only", []string{`TRUNCATE wallet CASCADE`}},
		{"a balance is written", "ledger entries alone", []string{`UPDATE ledger_account SET balance_minor = 1000000 WHERE wallet_id = 1`}},
		{"an account begins with a balance", "ledger entries alone", []string{`INSERT INTO ledger_account (wallet_id, kind, currency, balance_minor) VALUES (1, 'wallet', 'EUR', 5)`}},
		{"an account is deleted", "append-only", []string{`DELETE FROM ledger_account`}},
		{"a wallet is deleted", "foreign key", []string{`DELETE FROM wallet`}},
		{"a wallet changes its currency", "keeps its currency", []string{`UPDATE wallet SET currency = 'USD' WHERE id = 1`}},
		{"a limit is set below the debt", "below what the wallet owes", []string{`UPDATE wallet SET credit_limit_minor = 29 WHERE id = 1`}},
		{"a transaction has one side", "do not balance", []string{insert + `(now(), 'top_up', 5, 'EUR', 1, 'x', 'x', '', NULL, NULL)`, entry + `SELECT ` + newest + `, ` + mine + `, 5, 'EUR'`}},
		{"a transaction has no side", "do not balance", []string{insert + `(now(), 'top_up', 5, 'EUR', 1, 'x', 'x', '', NULL, NULL)`}},
		{"the sides differ from what it says", "do not balance", []string{insert + `(now(), 'top_up', 6, 'EUR', 1, 'x', 'x', '', NULL, NULL)`, entry + `SELECT ` + newest + `, ` + mine + `, 5, 'EUR'`, entry + `SELECT ` + newest + `, ` + cash + `, -5, 'EUR'`}},
		{"two sides are added to an older one", "do not balance", []string{entry + `SELECT 1, ` + mine + `, 5, 'EUR'`, entry + `SELECT 1, ` + cash + `, -5, 'EUR'`}},
		{"a side is in another currency", "an entry in JPY", []string{entry + `SELECT 1, ` + mine + `, 5, 'JPY'`}},
		{"a balance goes below its limit", "ledger_entry_floor", []string{insert + `(now(), 'adjustment', 71, 'EUR', 1, 'x', 'x', '', NULL, NULL)`, entry + `SELECT ` + newest + `, ` + mine + `, -71, 'EUR'`, entry + `SELECT ` + newest + `, ` + cash + `, 71, 'EUR'`}},
		{"a refund goes above the purchase", "is no refund of", []string{insert + `(now(), 'refund', 71, 'EUR', 1, 'x', 'x', '', 1, 1)`}},
		{"a refund goes to another wallet", "is no refund of", []string{insert + `(now(), 'refund', 5, 'JPY', 2, 'x', 'x', '', 1, 1)`}},
		{"a refund is of a top-up", "is no refund of", []string{insert + `(now(), 'refund', 5, 'EUR', 1, 'x', 'x', '', NULL, 2)`}},
		{"a key is used twice", "ledger_transaction_key", []string{`INSERT INTO ledger_transaction (at, kind, amount_minor, actor, principal, idempotency_key, fingerprint) VALUES (now(), 'purchase', 0, 'x', 'x', 'k', ''), (now(), 'purchase', 0, 'x', 'x', 'k', '')`}},
		{"a subscription is paid twice", "ledger_transaction_paid", []string{insert + `(now(), 'purchase', 5, 'EUR', 1, 'x', 'x', '', 1, NULL)`}},
	} {
		t.Run(row.name, func(t *testing.T) {
			tx, err := w.pool.Begin(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(t.Context()) }()
			for _, sql := range row.sql {
				if _, err = tx.Exec(t.Context(), sql); err != nil {
					break
				}
			}
			if err == nil {
				err = tx.Commit(t.Context())
			}
			if err == nil || !strings.Contains(err.Error(), row.why) {
				t.Errorf("%s, and the database says %v, want %q", row.name, err, row.why)
			}
		})
	}
	if a, b := w.balance(wallet).BalanceMinor, w.balance(other).BalanceMinor; a != -30 || b != 0 {
		t.Errorf("the balances are %d and %d, want -30 and 0 as before", a, b)
	}
	w.checkV15()
}

// What the database lets through in good form must pass, or the rows above would show nothing.
func TestTheDatabaseTakesWhatIsInForm(t *testing.T) {
	w := newWorld(t)
	w.wallet("EUR", 100)
	tx, err := w.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`INSERT INTO ledger_transaction (at, kind, amount_minor, currency, wallet_id, actor, principal, fingerprint) VALUES (now(), 'adjustment', 100, 'EUR', 1, 'x', 'x', '')`,
		`INSERT INTO ledger_entry (transaction_id, ledger_account_id, amount_minor, currency) SELECT 1, id, -100, 'EUR' FROM ledger_account WHERE wallet_id = 1 AND kind = 'wallet'`,
		`INSERT INTO ledger_entry (transaction_id, ledger_account_id, amount_minor, currency) SELECT 1, id, 100, 'EUR' FROM ledger_account WHERE kind = 'adjustments'`,
	} {
		if _, err := tx.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.checkV15()
}
