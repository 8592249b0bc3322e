package check_test

import (
	"testing"

	"github.com/simwarden/simwarden/internal/check"
)

// money writes a book in which all is well: 500 come in, 300 pay a plan, 100 of them go back, 50 are
// set aside. Each of its transactions has its number as id; entries are numbered in their order.
func (b *books) money() {
	b.t.Helper()
	b.exec(`INSERT INTO subscription (id, sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by)
		VALUES (1, 1, 1, 'main', 'active', $1, $2, -1, $1, 'test')`, noon, at(86400))
	b.exec(`INSERT INTO wallet (id, name, currency, credit_limit_minor, created_at) VALUES (1, 'anna', 'EUR', 100, $1), (2, 'ben', 'EUR', 0, $1)`, noon)
	b.exec(`INSERT INTO ledger_account (id, wallet_id, kind, currency) VALUES (1, 1, 'wallet', 'EUR'), (2, 1, 'held', 'EUR'),
		(3, NULL, 'cash', 'EUR'), (4, NULL, 'revenue', 'EUR'), (5, NULL, 'refunds', 'EUR'), (6, 2, 'wallet', 'EUR'), (7, 2, 'held', 'EUR')`)
	b.exec(`INSERT INTO ledger_hold (id, wallet_id, amount_minor, currency, placed_at, expires_at) VALUES (1, 1, 50, 'EUR', $1, $1::timestamptz + interval '1 day')`, noon)
	b.exec(`INSERT INTO ledger_transaction (id, at, kind, amount_minor, currency, wallet_id, actor, principal, idempotency_key, fingerprint, subscription_id, purchase_id, hold_id) VALUES
		(1, $1, 'top_up', 500, 'EUR', 1, 'anna', 'anna', 'k', '', NULL, NULL, NULL), (2, $1, 'purchase', 300, 'EUR', 1, 'anna', 'anna', NULL, '', 1, NULL, NULL),
		(3, $1, 'refund', 100, 'EUR', 1, 'anna', 'anna', NULL, '', 1, 2, NULL), (4, $1, 'hold', 50, 'EUR', 1, 'anna', 'anna', NULL, '', NULL, NULL, 1)`, noon)
	b.exec(`INSERT INTO ledger_entry (id, transaction_id, ledger_account_id, amount_minor, currency) VALUES (1, 1, 1, 500, 'EUR'), (2, 1, 3, -500, 'EUR'),
		(3, 2, 1, -300, 'EUR'), (4, 2, 4, 300, 'EUR'), (5, 3, 1, 100, 'EUR'), (6, 3, 5, -100, 'EUR'), (7, 4, 1, -50, 'EUR'), (8, 4, 2, 50, 'EUR')`)
}

func TestV15TheBookAddsUp(t *testing.T) {
	// after does behind the back of the database's own guards what a mistake in them would let through.
	after := func(sql ...string) func(*books) []check.Line {
		return func(b *books) []check.Line {
			b.money()
			b.exec(`SET CONSTRAINTS ALL IMMEDIATE`) // what was written so far is in form
			b.exec(`SET LOCAL session_replication_role = replica`)
			for _, s := range sql {
				b.exec(s)
			}
			return nil
		}
	}
	const transaction = `INSERT INTO ledger_transaction (id, at, kind, amount_minor, currency, wallet_id, actor, principal, idempotency_key, fingerprint, subscription_id, purchase_id) VALUES `
	const entry = `INSERT INTO ledger_entry (id, transaction_id, ledger_account_id, amount_minor, currency, balance_after_minor, floor_minor) VALUES `
	judge(t, []row{
		{says: "a top-up, a purchase, a refund of a part and a hold are a book in form", write: after()},
		{says: "a book without an entry is in form", write: func(*books) []check.Line { return nil }},
		{says: "an entry was made larger", want: "V15", write: after(`UPDATE ledger_entry SET amount_minor = 301 WHERE id = 4`)},
		{says: "an entry of the house is gone", want: "V15", write: after(`DELETE FROM ledger_entry WHERE id = 2`)},
		{says: "both entries of a top-up are gone, and the balance says so", want: "V15", write: after(`DELETE FROM ledger_entry WHERE id IN (1, 2)`)},
		{says: "a transaction says another amount than its entries", want: "V15", write: after(`UPDATE ledger_transaction SET amount_minor = 400 WHERE id = 1`)},
		{says: "both entries of the house are in another currency than its account", want: "V15", write: after(
			transaction+`(9, now(), 'adjustment', 5, 'JPY', 1, 'x', 'x', NULL, '', NULL, NULL)`,
			entry+`(9, 9, 3, -5, 'JPY', NULL, NULL), (10, 9, 4, 5, 'JPY', NULL, NULL)`)},
		{says: "a transaction of one wallet moves another's money", want: "V15", write: after(`UPDATE ledger_transaction SET wallet_id = 2 WHERE id = 1`)},
		{says: "money was put in without an entry", want: "V15", write: after(`UPDATE ledger_account SET balance_minor = 1000 WHERE id = 1`)},
		{says: "a balance after an entry is not the sum up to it", want: "V15", write: after(`UPDATE ledger_entry SET balance_after_minor = 201 WHERE id = 3`)},
		{says: "a balance after an entry is not written", want: "V15", write: after(`UPDATE ledger_entry SET balance_after_minor = NULL, floor_minor = NULL WHERE id = 3`)},
		{says: "a purchase took the balance below the credit limit of then", want: "V15", write: after(
			`ALTER TABLE ledger_entry DROP CONSTRAINT ledger_entry_floor`, `UPDATE ledger_entry SET floor_minor = 201 WHERE id = 3`)},
		{says: "the balance is below the credit limit of now", want: "V15", write: after(
			transaction+`(9, now(), 'adjustment', 400, 'EUR', 1, 'x', 'x', NULL, '', NULL, NULL)`,
			entry+`(9, 9, 1, -400, 'EUR', -150, -150), (10, 9, 4, 400, 'EUR', NULL, NULL)`,
			`UPDATE ledger_account SET balance_minor = -150 WHERE id = 1`)},
		{says: "a hold was released and its money not", want: "V15", write: after(`UPDATE ledger_hold SET state = 'released', ended_at = now()`)},
		{says: "a hold says that it has paid", want: "V15", write: after(`UPDATE ledger_hold SET captured_minor = 50`)},
		{says: "one idempotency key had two effects", want: "V15", write: after(`DROP INDEX ledger_transaction_key`,
			transaction+`(9, now(), 'purchase', 0, NULL, NULL, 'anna', 'anna', 'k', '', NULL, NULL)`)},
		{says: "the same key of somebody else is another key (F51)", write: after(
			transaction + `(9, now(), 'purchase', 0, NULL, NULL, 'ben', 'ben', 'k', '', NULL, NULL)`)},
		{says: "a subscription was paid twice", want: "V15", write: after(`DROP INDEX ledger_transaction_paid`,
			transaction+`(9, now(), 'purchase', 5, 'EUR', 1, 'x', 'x', NULL, '', 1, NULL)`,
			entry+`(9, 9, 1, -5, 'EUR', 245, -100), (10, 9, 4, 5, 'EUR', NULL, NULL)`, `UPDATE ledger_account SET balance_minor = 245 WHERE id = 1`)},
		{says: "more was refunded than paid", want: "V15", write: after(
			transaction+`(9, now(), 'refund', 201, 'EUR', 1, 'x', 'x', NULL, '', 1, 2)`,
			entry+`(9, 9, 1, 201, 'EUR', 451, -100), (10, 9, 5, -201, 'EUR', NULL, NULL)`, `UPDATE ledger_account SET balance_minor = 451 WHERE id = 1`)},
		{says: "all that was paid was refunded, in two parts", write: after(
			transaction+`(9, now(), 'refund', 200, 'EUR', 1, 'x', 'x', NULL, '', 1, 2)`,
			entry+`(9, 9, 1, 200, 'EUR', 450, -100), (10, 9, 5, -200, 'EUR', NULL, NULL)`, `UPDATE ledger_account SET balance_minor = 450 WHERE id = 1`)},
	})
}
