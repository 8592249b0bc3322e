package api

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// ImportStatement writes rows of a carrier's statement for an account (M3): the same row again
// changes nothing, a corrected one takes the place of the old. statement is the file's name or
// number. ledger.ErrStatement names the row that cannot be taken; nothing is written then.
func (s *Service) ImportStatement(ctx context.Context, account, statement string, rows []ledger.StatementRow, actor string) (r ledger.StatementResult, err error) {
	if statement == "" || len(statement) > 200 || !cleanText(statement) {
		return r, badInput("a statement's name has 1 to 200 bytes, none of them a control character")
	}
	a, err := s.Store.AccountByName(ctx, account)
	if err != nil {
		return r, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		r, err = ledger.ImportStatement(ctx, tx, a.ID, statement, actor, rows)
		return err
	})
	return r, err
}

// SetCarrierRate says what an active SIM of an account should cost a month, from a month (2026-05)
// on: what is charged otherwise is a difference.
func (s *Service) SetCarrierRate(ctx context.Context, account, from string, m simwarden.Money, actor string) error {
	a, err := s.Store.AccountByName(ctx, account)
	if err != nil {
		return err
	}
	return s.Store.InTx(ctx, func(tx *store.Tx) error { return ledger.SetRate(ctx, tx, a.ID, from, m, actor) })
}

// Differences lists where the statements of an account's month (2026-05) and our book differ (M3).
func (s *Service) Differences(ctx context.Context, account, period, cursor string, limit int) (Page[store.Difference], error) {
	none := Page[store.Difference]{}
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	after, err := cursorID("difference", cursor)
	if err != nil {
		return none, err
	}
	a, err := s.Store.AccountByName(ctx, account)
	if err != nil {
		return none, err
	}
	var rows []store.Difference
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		rows, err = ledger.Differences(ctx, tx, a.ID, period, int(after), limit+1)
		return err
	})
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "difference", func(store.Difference) int64 { return after + int64(limit) }), nil
}

// Margins lists what an account's SIMs earned and cost in a month (2026-05, in the account's zone),
// by SIM and currency (M3).
func (s *Service) Margins(ctx context.Context, account, period, cursor string, limit int) (Page[store.Margin], error) {
	none := Page[store.Margin]{}
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	after, err := marginAfter(cursor)
	if err != nil {
		return none, err
	}
	a, err := s.Store.AccountByName(ctx, account)
	if err != nil {
		return none, err
	}
	var rows []store.Margin
	err = s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		rows, err = ledger.Margins(ctx, tx, a.ID, period, after, limit+1)
		return err
	})
	if err != nil || len(rows) <= limit {
		return Page[store.Margin]{Items: rows}, err
	}
	last := rows[limit-1]
	text := "margin:" + last.Currency + ":" + strconv.FormatInt(int64(last.SIMID), 10)
	return Page[store.Margin]{Items: rows[:limit], Next: base64.RawURLEncoding.EncodeToString([]byte(text))}, nil
}

// marginAfter is the row in a cursor of the list of margins: its SIM and currency.
func marginAfter(cursor string) (m store.Margin, err error) {
	if cursor == "" {
		return m, nil
	}
	if text, err := base64.RawURLEncoding.DecodeString(cursor); err == nil {
		parts := strings.Split(string(text), ":")
		if len(parts) == 3 && parts[0] == "margin" && ledger.CheckCurrency(parts[1]) == nil {
			if id, err := strconv.ParseInt(parts[2], 10, 64); err == nil && id > 0 {
				return store.Margin{SIMID: simwarden.SIMID(id), Currency: parts[1]}, nil
			}
		}
	}
	return m, badInput("this cursor is not one that this list gave out; begin without one")
}
