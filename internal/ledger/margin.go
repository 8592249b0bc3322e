package ledger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrStatement says what is wrong with a row of a carrier's statement.
var ErrStatement = errors.New("this statement cannot be imported")

// maxStatementRows bounds one call; a larger file comes in several, within one transaction.
const maxStatementRows = 10_000

// StatementRow is one row of a carrier's statement.
type StatementRow struct {
	ICCID  simwarden.ICCID
	Period string // the month it is for, as the carrier names it: 2026-05
	Item   string // tells several rows of one SIM and month apart; may be empty
	// Cost is in minor units; a credit note is negative.
	Cost simwarden.Money
}

// StatementResult counts what an import did.
type StatementResult struct {
	Added     int `json:"added"`
	Corrected int `json:"corrected"` // were there with another cost, currency or SIM
	Same      int `json:"same"`
	Unmatched int `json:"unmatched"` // of SIMs that we do not have, listed as differences
}

// ImportStatement writes up to 10,000 rows of an account's statement (M3). The same row again changes
// nothing, a corrected one takes the place of the old. statement is the file's name or number.
// ErrStatement names the row, counted from 1, that cannot be taken; nothing is written then.
func ImportStatement(ctx context.Context, tx *store.Tx, account simwarden.AccountID, statement, actor string, rows []StatementRow) (StatementResult, error) {
	r, err := AddStatementRows(ctx, tx, account, statement, actor, rows)
	if err != nil || len(rows) == 0 {
		return r, err
	}
	return r, tx.Audit(ctx, actor, "import_statement", 0, account, map[string]any{"statement": statement, "rows": len(rows),
		"added": r.Added, "corrected": r.Corrected, "unmatched": r.Unmatched})
}

// AddStatementRows is ImportStatement for one part of a larger file, whose import has an audit row of
// its own.
func AddStatementRows(ctx context.Context, tx *store.Tx, account simwarden.AccountID, statement, actor string, rows []StatementRow) (StatementResult, error) {
	costs, err := checkRows(rows)
	if err != nil || len(costs) == 0 {
		return StatementResult{}, err
	}
	if err := match(ctx, tx, costs); err != nil {
		return StatementResult{}, err
	}
	var r StatementResult
	if r.Added, r.Corrected, err = tx.ImportCarrierCosts(ctx, account, statement, actor, costs); err != nil {
		return r, err
	}
	r.Same = len(costs) - r.Added - r.Corrected
	for _, c := range costs {
		if c.SIMID == 0 {
			r.Unmatched++
		}
	}
	return r, nil
}

func checkRows(rows []StatementRow) ([]store.CarrierCost, error) {
	if len(rows) > maxStatementRows {
		return nil, fmt.Errorf("%w: %d rows at once; at most %d", ErrStatement, len(rows), maxStatementRows)
	}
	type key struct{ iccid, period, item string }
	seen := make(map[key]int, len(rows))
	out := make([]store.CarrierCost, len(rows))
	for i, r := range rows {
		period, err := parseMonth(r.Period)
		if err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrStatement, i+1, err)
		}
		if err := CheckCurrency(r.Cost.Currency); err != nil {
			return nil, fmt.Errorf("%w: row %d: %w", ErrStatement, i+1, err)
		}
		k := key{r.ICCID.String(), r.Period, r.Item}
		switch {
		case r.ICCID.IsZero():
			return nil, fmt.Errorf("%w: row %d has no ICCID", ErrStatement, i+1)
		case len(r.Item) > 128:
			return nil, fmt.Errorf("%w: row %d: its item has more than 128 bytes", ErrStatement, i+1)
		case r.Cost.AmountMinor > simwarden.MaxMinor || r.Cost.AmountMinor < -simwarden.MaxMinor:
			return nil, fmt.Errorf("%w: row %d: %w: %d minor units", ErrStatement, i+1, ErrAmount, r.Cost.AmountMinor)
		case seen[k] != 0:
			return nil, fmt.Errorf("%w: rows %d and %d are of one SIM, month and item", ErrStatement, seen[k], i+1)
		}
		seen[k] = i + 1
		out[i] = store.CarrierCost{ICCID: r.ICCID, Period: period, Item: r.Item, Money: r.Cost}
	}
	return out, nil
}

// match finds the rows' SIMs, in whatever form the card is known (I6); of several forms that are
// different cards to us, only the row's own counts.
func match(ctx context.Context, tx *store.Tx, costs []store.CarrierCost) error {
	var forms []string
	for _, c := range costs {
		forms = append(forms, c.ICCID.String())
		for _, other := range c.ICCID.Alternates() {
			forms = append(forms, other.String())
		}
	}
	known, err := tx.KnownICCIDs(ctx, forms)
	if err != nil {
		return err
	}
	for i, c := range costs {
		if id, ok := known[c.ICCID.String()]; ok {
			costs[i].SIMID = id
			continue
		}
		found := 0
		for _, other := range c.ICCID.Alternates() {
			if id, ok := known[other.String()]; ok {
				costs[i].SIMID = id
				found++
			}
		}
		if found > 1 {
			costs[i].SIMID = 0
		}
	}
	return nil
}

// SetRate says what an active SIM of an account should cost a month, from a month (2026-05) on.
func SetRate(ctx context.Context, tx *store.Tx, account simwarden.AccountID, from string, m simwarden.Money, actor string) error {
	period, err := parseMonth(from)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	if err := CheckCurrency(m.Currency); err != nil {
		return err
	}
	if m.AmountMinor < 0 || m.AmountMinor > simwarden.MaxMinor {
		return fmt.Errorf("%w: a rate of %d minor units; give 0 to %d", ErrAmount, m.AmountMinor, simwarden.MaxMinor)
	}
	if err := tx.SetCarrierRate(ctx, account, period, m); err != nil {
		return err
	}
	return tx.Audit(ctx, actor, "carrier_rate", 0, account, map[string]any{"from": from, "cost_minor": m.AmountMinor, "currency": m.Currency})
}

// Differences gives up to limit (1 to 1000) differences between the statement of an account's month
// (2026-05) and our book, by ICCID, from the after-th on (M3).
func Differences(ctx context.Context, tx *store.Tx, account simwarden.AccountID, period string, after, limit int) ([]store.Difference, error) {
	m, err := monthOf(ctx, tx, account, period)
	if err != nil {
		return nil, err
	}
	rate, has, err := tx.CarrierRate(ctx, account, m.Period)
	if err != nil {
		return nil, err
	}
	expected := &rate
	if !has {
		expected = nil
	}
	return tx.StatementDifferences(ctx, m, expected, max(after, 0), min(max(limit, 1), maxLines))
}

// Margins gives up to limit (1 to 1000) rows of what an account's SIMs earned and cost in a month
// (2026-05, in the account's zone), behind the SIM and currency of the last row; see store.Margins.
func Margins(ctx context.Context, tx *store.Tx, account simwarden.AccountID, period string, after store.Margin, limit int) ([]store.Margin, error) {
	m, err := monthOf(ctx, tx, account, period)
	if err != nil {
		return nil, err
	}
	return tx.Margins(ctx, m, after.SIMID, after.Currency, min(max(limit, 1), maxLines))
}

// monthOf gives a month's bounds in its account's zone.
func monthOf(ctx context.Context, tx *store.Tx, account simwarden.AccountID, period string) (store.Month, error) {
	first, err := parseMonth(period)
	if err != nil {
		return store.Month{}, fmt.Errorf("%w: %w", ErrBadRequest, err)
	}
	accounts, err := tx.AccountsByID(ctx, []simwarden.AccountID{account})
	if err != nil {
		return store.Month{}, err
	}
	a, ok := accounts[account]
	if !ok {
		return store.Month{}, fmt.Errorf("account %d: %w", account, store.ErrNotFound)
	}
	zone, err := calendar.LoadZone(a.Zone)
	if err != nil {
		return store.Month{}, fmt.Errorf("account %d: %w", account, err)
	}
	// The middle of the month is in it in every zone.
	middle := first.Add(14 * 24 * time.Hour)
	return store.Month{AccountID: account, Period: first, StartAt: calendar.StartOfMonth(middle, zone), EndAt: calendar.EndOfMonth(middle, zone)}, nil
}

// CheckPeriod says whether a text is a month as statements name it, 2026-05; the error says how to
// write it.
func CheckPeriod(text string) error {
	_, err := parseMonth(text)
	return err
}

// parseMonth reads 2026-05 as the first day of that month, midnight UTC.
func parseMonth(text string) (time.Time, error) {
	month, err := time.Parse("2006-01", text)
	if err != nil || month.Year() < 2000 || month.Year() > 2199 {
		return time.Time{}, fmt.Errorf("%.16q is no month; write it as 2026-05", text)
	}
	return month, nil
}
