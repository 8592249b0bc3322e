package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// CarrierCost is one row of a carrier's statement: what a SIM cost in a month.
type CarrierCost struct {
	ICCID  simwarden.ICCID
	SIMID  simwarden.SIMID // 0 where we have no such SIM
	Period time.Time       // the first day of the month it is for, midnight UTC
	Item   string          // tells several rows of one SIM and month apart
	simwarden.Money
}

// ImportCarrierCosts writes rows of an account's statement, each (period, ICCID, item) at most once
// in a call. Rows that are there already are corrected where they differ; it gives how many were
// new, and how many were corrected.
func (tx *Tx) ImportCarrierCosts(ctx context.Context, account simwarden.AccountID, statement, by string, rows []CarrierCost) (added, corrected int, err error) {
	n := len(rows)
	iccids, items, currencies := make([]string, n), make([]string, n), make([]string, n)
	sims, periods, costs := make([]*int64, n), make([]time.Time, n), make([]int64, n)
	for i, r := range rows {
		iccids[i], items[i], currencies[i] = r.ICCID.String(), r.Item, r.Currency
		sims[i], periods[i], costs[i] = nullID(int64(r.SIMID)), r.Period, r.AmountMinor
	}
	err = tx.QueryRow(ctx, `
		WITH written AS (
			INSERT INTO carrier_cost AS c (account_id, iccid, sim_id, period, item, cost_minor, currency, statement, imported_at, imported_by)
			SELECT $1, v.iccid, v.sim_id, v.period, v.item, v.cost, v.currency, $2, $3, $4
			FROM unnest($5::text[], $6::bigint[], $7::date[], $8::text[], $9::bigint[], $10::text[]) AS v (iccid, sim_id, period, item, cost, currency)
			ORDER BY v.period, v.iccid, v.item
			ON CONFLICT ON CONSTRAINT carrier_cost_row DO UPDATE SET sim_id = excluded.sim_id, cost_minor = excluded.cost_minor,
				currency = excluded.currency, statement = excluded.statement, imported_at = excluded.imported_at, imported_by = excluded.imported_by
			WHERE (c.sim_id, c.cost_minor, c.currency) IS DISTINCT FROM (excluded.sim_id, excluded.cost_minor, excluded.currency)
			RETURNING xmax = 0 AS added
		)
		SELECT count(*) FILTER (WHERE added), count(*) FILTER (WHERE NOT added) FROM written`,
		account, statement, tx.At, by, iccids, sims, periods, items, costs, currencies).Scan(&added, &corrected)
	if err != nil {
		return 0, 0, fmt.Errorf("import statement %q of account %d: %w", statement, account, err)
	}
	return added, corrected, nil
}

// SetCarrierRate says what an active SIM of the account should cost a month, from the month that
// begins on the day given on.
func (tx *Tx) SetCarrierRate(ctx context.Context, account simwarden.AccountID, from time.Time, m simwarden.Money) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO carrier_rate (account_id, from_period, cost_minor, currency) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account_id, from_period) DO UPDATE SET cost_minor = excluded.cost_minor, currency = excluded.currency`,
		account, from, m.AmountMinor, m.Currency)
	if err != nil {
		return fmt.Errorf("rate of account %d: %w", account, err)
	}
	return nil
}

// CarrierRate is what an active SIM of the account should cost in the month; false where nobody has
// said.
func (tx *Tx) CarrierRate(ctx context.Context, account simwarden.AccountID, period time.Time) (simwarden.Money, bool, error) {
	var m simwarden.Money
	err := tx.QueryRow(ctx, `
		SELECT cost_minor, currency FROM carrier_rate WHERE account_id = $1 AND from_period <= $2 ORDER BY from_period DESC LIMIT 1`,
		account, period).Scan(&m.AmountMinor, &m.Currency)
	if errors.Is(err, pgx.ErrNoRows) {
		return m, false, nil
	}
	if err != nil {
		return m, false, fmt.Errorf("rate of account %d: %w", account, err)
	}
	return m, true, nil
}

// Month is a month of an account: its first day, and its bounds as instants, the end exclusive.
type Month struct {
	AccountID simwarden.AccountID
	Period    time.Time // midnight UTC of the first day
	StartAt   time.Time // UTC, in the account's zone
	EndAt     time.Time
}

// DifferenceKind says how a carrier's statement and our book differ.
type DifferenceKind string

// The kinds of difference.
const (
	DifferenceUnknownSIM   DifferenceKind = "unknown_sim"   // charged, and we have no such SIM
	DifferenceOtherAccount DifferenceKind = "other_account" // charged, and the SIM is at another account
	DifferenceNotCharged   DifferenceKind = "not_charged"   // active or used in the month, and not charged
	DifferenceAmount       DifferenceKind = "amount"        // not what the account's rate says
)

// Difference is one place where a statement and our book differ.
type Difference struct {
	Kind     DifferenceKind   `json:"kind"`
	ICCID    string           `json:"iccid"`
	SIMID    simwarden.SIMID  `json:"sim_id,omitempty"`
	Period   string           `json:"period"` // 2026-05
	Charged  *simwarden.Money `json:"charged,omitempty"`
	Expected *simwarden.Money `json:"expected,omitempty"`
	// UsedBytes is what a SIM that is not charged used in the month, by UTC days.
	UsedBytes int64 `json:"used_bytes,omitempty"`
}

// StatementDifferences gives up to limit differences of an account's month, by ICCID, kind and
// currency, from the after-th on. A SIM that is not charged is listed where some statement of the
// month has been imported: because it was used, or has been active since before the month's end.
func (tx *Tx) StatementDifferences(ctx context.Context, m Month, expected *simwarden.Money, after, limit int) ([]Difference, error) {
	var rate *int64
	var rateCurrency *string
	if expected != nil {
		rate, rateCurrency = &expected.AmountMinor, &expected.Currency
	}
	rows, err := tx.Query(ctx, `
		WITH row AS (
			SELECT coalesce(c.sim_id, s.id) AS sim_id, c.iccid, c.currency, c.cost_minor
			FROM carrier_cost c LEFT JOIN sim s ON c.sim_id IS NULL AND s.iccid = c.iccid
			WHERE c.account_id = $1 AND c.period = $2
		), charged AS (
			SELECT sim_id, min(iccid) AS iccid, currency, sum(cost_minor)::bigint AS cost
			FROM row GROUP BY sim_id, CASE WHEN sim_id IS NULL THEN iccid END, currency
		), used AS (
			SELECT u.sim_id, sum(u.bytes)::bigint AS bytes FROM usage_day u JOIN sim s ON s.id = u.sim_id AND s.account_id = $1
			WHERE u.day >= $2::date AND u.day < ($2::date + interval '1 month') AND u.bytes > 0 GROUP BY u.sim_id
		)
		SELECT 'unknown_sim' AS kind, c.iccid, 0::bigint, c.cost, c.currency, 0::bigint FROM charged c WHERE c.sim_id IS NULL
		UNION ALL
		SELECT 'other_account', c.iccid, c.sim_id, c.cost, c.currency, 0 FROM charged c JOIN sim s ON s.id = c.sim_id WHERE s.account_id <> $1
		UNION ALL
		SELECT 'amount', c.iccid, c.sim_id, c.cost, c.currency, 0 FROM charged c JOIN sim s ON s.id = c.sim_id
		WHERE s.account_id = $1 AND $4::bigint IS NOT NULL AND (c.cost, c.currency) IS DISTINCT FROM ($4::bigint, $5::text)
		UNION ALL
		SELECT 'not_charged', s.iccid, s.id, 0, '', coalesce(u.bytes, 0)
		FROM sim s JOIN poll_state p ON p.sim_id = s.id LEFT JOIN used u ON u.sim_id = s.id
		WHERE s.account_id = $1 AND EXISTS (SELECT FROM row) AND NOT EXISTS (SELECT FROM charged c WHERE c.sim_id = s.id)
		  AND (u.bytes > 0 OR p.state = 'active' AND p.state_since_at < $3)
		ORDER BY 2, 1, 5 OFFSET $6 LIMIT $7`,
		m.AccountID, m.Period, m.EndAt, rate, rateCurrency, after, limit)
	if err != nil {
		return nil, fmt.Errorf("differences of account %d: %w", m.AccountID, err)
	}
	defer rows.Close()
	out := []Difference{}
	for rows.Next() {
		d := Difference{Period: m.Period.Format("2006-01")}
		var charged simwarden.Money
		if err := rows.Scan(&d.Kind, &d.ICCID, &d.SIMID, &charged.AmountMinor, &charged.Currency, &d.UsedBytes); err != nil {
			return nil, fmt.Errorf("differences of account %d: %w", m.AccountID, err)
		}
		if charged.Currency != "" {
			d.Charged = &charged
		}
		if d.Kind == DifferenceAmount || d.Kind == DifferenceNotCharged {
			d.Expected = expected
		}
		out = append(out, d)
	}
	return out, rows.Err()
}
