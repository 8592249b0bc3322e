package check

import (
	"context"
	"fmt"
)

// book is V15: entries sum to zero, no balance was ever below its credit limit, a key has one
// effect, and no more is refunded than was paid. It adds everything up again from the entries.
func (c *checker) book(ctx context.Context) error {
	if err := c.DB.QueryRow(ctx, `SELECT count(*) FROM ledger_entry`).Scan(&c.report.Looked.Entries); err != nil {
		return fmt.Errorf("V15: %w", err)
	}
	for _, sql := range []string{`
		SELECT 'transaction ' || transaction_id, 'its entries in ' || currency || ' sum to ' || sum(amount_minor)
		FROM ledger_entry GROUP BY transaction_id, currency HAVING sum(amount_minor) <> 0`, `
		SELECT 'transaction ' || t.id, 'it is of ' || t.amount_minor || ' and its positive entries sum to ' || coalesce(sum(e.amount_minor) FILTER (WHERE e.amount_minor > 0), 0)
		FROM ledger_transaction t LEFT JOIN ledger_entry e ON e.transaction_id = t.id
		GROUP BY t.id HAVING t.amount_minor <> coalesce(sum(e.amount_minor) FILTER (WHERE e.amount_minor > 0), 0)`, `
		SELECT 'entry ' || e.id, 'it is in ' || e.currency || ', its account in ' || a.currency || ', its wallet in ' || coalesce(w.currency, a.currency)
		FROM ledger_entry e JOIN ledger_account a ON a.id = e.ledger_account_id LEFT JOIN wallet w ON w.id = a.wallet_id
		WHERE e.currency <> a.currency OR w.currency <> e.currency`, `
		SELECT 'entry ' || e.id, 'it moves wallet ' || a.wallet_id || ', its transaction is of wallet ' || t.wallet_id
		FROM ledger_entry e JOIN ledger_account a ON a.id = e.ledger_account_id JOIN ledger_transaction t ON t.id = e.transaction_id
		WHERE a.wallet_id <> t.wallet_id`, `
		SELECT 'entry ' || id, 'the balance after it is ' || coalesce(balance_after_minor::text, 'not written') || ', the sum up to it ' || s
		FROM (SELECT e.id, e.balance_after_minor, sum(e.amount_minor) OVER (PARTITION BY e.ledger_account_id ORDER BY e.id) AS s
			FROM ledger_entry e JOIN ledger_account a ON a.id = e.ledger_account_id WHERE a.wallet_id IS NOT NULL) x
		WHERE balance_after_minor IS DISTINCT FROM s`, `
		SELECT 'entry ' || id, 'the balance after it is ' || balance_after_minor || ', below what was allowed then, ' || floor_minor
		FROM ledger_entry WHERE balance_after_minor < floor_minor`, `
		SELECT 'wallet ' || w.id, 'it has ' || a.balance_minor || ', below its credit limit of ' || w.credit_limit_minor
		FROM wallet w JOIN ledger_account a ON a.wallet_id = w.id AND a.kind = 'wallet' WHERE a.balance_minor < -w.credit_limit_minor`, `
		SELECT 'wallet ' || a.wallet_id, 'its ' || a.kind || ' is kept as ' || a.balance_minor || ', its entries sum to ' || coalesce(sum(e.amount_minor), 0)
		FROM ledger_account a LEFT JOIN ledger_entry e ON e.ledger_account_id = a.id WHERE a.wallet_id IS NOT NULL
		GROUP BY a.id HAVING a.balance_minor <> coalesce(sum(e.amount_minor), 0)`, `
		SELECT 'wallet ' || a.wallet_id, a.balance_minor || ' is held, open holds are of ' || coalesce(sum(h.amount_minor), 0)
		FROM ledger_account a LEFT JOIN ledger_hold h ON h.wallet_id = a.wallet_id AND h.state = 'open' WHERE a.kind = 'held'
		GROUP BY a.id HAVING a.balance_minor <> coalesce(sum(h.amount_minor), 0)`, `
		SELECT 'hold ' || h.id, 'it says that ' || h.captured_minor || ' was captured, and ' || coalesce(sum(t.amount_minor), 0) || ' was'
		FROM ledger_hold h LEFT JOIN ledger_transaction t ON t.hold_id = h.id AND t.kind = 'capture'
		GROUP BY h.id HAVING h.captured_minor <> coalesce(sum(t.amount_minor), 0)`, `
		SELECT 'transaction ' || min(id), 'its idempotency key has had ' || count(*) || ' effects'
		FROM ledger_transaction WHERE idempotency_key IS NOT NULL GROUP BY principal, idempotency_key HAVING count(*) > 1`, `
		SELECT 'subscription ' || subscription_id, 'it was paid ' || count(*) || ' times'
		FROM ledger_transaction WHERE kind IN ('purchase', 'capture') AND subscription_id IS NOT NULL
		GROUP BY subscription_id HAVING count(*) > 1`, `
		SELECT 'transaction ' || p.id, sum(r.amount_minor) || ' of it was refunded, and ' || p.amount_minor || ' paid'
		FROM ledger_transaction p JOIN ledger_transaction r ON r.purchase_id = p.id
		GROUP BY p.id HAVING sum(r.amount_minor) > p.amount_minor`,
	} {
		if err := c.each(ctx, "V15", sql); err != nil {
			return err
		}
	}
	return nil
}
