package store

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden"
)

// Margin is what a SIM earned and cost in a month, in minor units of one currency; a SIM with two
// currencies has two rows, for amounts of different currencies are not added.
type Margin struct {
	SIMID        simwarden.SIMID `json:"sim_id"`
	ICCID        string          `json:"iccid"`
	Currency     string          `json:"currency"`
	RevenueMinor int64           `json:"revenue_minor"` // paid for plans, less refunds
	CostMinor    int64           `json:"cost_minor"`    // what the carrier charged
	MarginMinor  int64           `json:"margin_minor"`
}

// Margins gives up to limit rows of an account's month, behind the SIM and currency given, in their
// order. What was paid and refunded for a subscription counts in the month in which it began; a
// device's is shared out evenly among the SIMs that are in it, to the last minor unit.
func (tx *Tx) Margins(ctx context.Context, m Month, after simwarden.SIMID, afterCurrency string, limit int) ([]Margin, error) {
	rows, err := tx.Query(ctx, `
		WITH paid AS (
			SELECT b.sim_id, b.device_id, t.currency, sum(CASE t.kind WHEN 'refund' THEN -t.amount_minor ELSE t.amount_minor END) AS minor
			FROM subscription b JOIN ledger_transaction t ON t.subscription_id = b.id AND t.kind IN ('purchase', 'capture', 'refund') AND t.amount_minor > 0
			WHERE b.start_at >= $3 AND b.start_at < $4
			GROUP BY b.sim_id, b.device_id, t.currency
		), member AS (
			SELECT s.id AS sim_id, s.account_id, s.device_id,
				row_number() OVER (PARTITION BY s.device_id ORDER BY s.id) AS n, count(*) OVER (PARTITION BY s.device_id) AS of
			FROM sim s WHERE s.device_id IN (SELECT device_id FROM paid)
		), flow AS (
			SELECT s.id AS sim_id, p.currency, p.minor AS revenue, 0::numeric AS cost
			FROM paid p JOIN sim s ON s.id = p.sim_id WHERE s.account_id = $1
			UNION ALL
			SELECT d.sim_id, p.currency, div(p.minor * d.n, d.of) - div(p.minor * (d.n - 1), d.of), 0
			FROM paid p JOIN member d ON d.device_id = p.device_id WHERE d.account_id = $1
			UNION ALL
			SELECT s.id, c.currency, 0, c.cost_minor
			FROM carrier_cost c JOIN sim s ON s.id = coalesce(c.sim_id, (SELECT x.id FROM sim x WHERE x.iccid = c.iccid))
			WHERE c.account_id = $1 AND c.period = $2 AND s.account_id = $1
		)
		SELECT f.sim_id, s.iccid, f.currency, sum(f.revenue)::bigint, sum(f.cost)::bigint, sum(f.revenue - f.cost)::bigint
		FROM flow f JOIN sim s ON s.id = f.sim_id WHERE (f.sim_id, f.currency) > ($5::bigint, $6::text)
		GROUP BY f.sim_id, s.iccid, f.currency ORDER BY f.sim_id, f.currency LIMIT $7`,
		m.AccountID, m.Period, m.StartAt, m.EndAt, after, afterCurrency, limit)
	if err != nil {
		return nil, fmt.Errorf("margins of account %d: %w", m.AccountID, err)
	}
	defer rows.Close()
	out := []Margin{}
	for rows.Next() {
		var r Margin
		if err := rows.Scan(&r.SIMID, &r.ICCID, &r.Currency, &r.RevenueMinor, &r.CostMinor, &r.MarginMinor); err != nil {
			return nil, fmt.Errorf("margins of account %d: %w", m.AccountID, err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}
