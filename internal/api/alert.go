package api

import (
	"context"

	"github.com/simwarden/simwarden/internal/store"
)

// AlertQuery narrows a list of open alerts; zero fields do not.
type AlertQuery struct {
	Account string
	Kind    string
	Cursor  string
	Limit   int // 0: DefaultPage; at most MaxPage
}

// Alerts lists the open alerts, newest first.
func (s *Service) Alerts(ctx context.Context, q AlertQuery) (Page[store.Alert], error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return Page[store.Alert]{}, err
	}
	before, err := cursorID("alert", q.Cursor)
	if err != nil {
		return Page[store.Alert]{}, err
	}
	f := store.AlertFilter{Kind: q.Kind, Before: before, Limit: limit + 1}
	if f.AccountID, err = s.accountID(ctx, q.Account); err != nil {
		return Page[store.Alert]{}, err
	}
	rows, err := s.Store.Alerts(ctx, f)
	if err != nil {
		return Page[store.Alert]{}, err
	}
	return pageOf(rows, limit, "alert", func(a store.Alert) int64 { return a.ID }), nil
}

// ClearAlert closes an open alert. What it told of is not changed: one that goes on comes back.
func (s *Service) ClearAlert(ctx context.Context, id int64, actor string) (store.Alert, error) {
	var a store.Alert
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if a, err = tx.ClearAlertByID(ctx, id, actor); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "alert_clear", a.SIMID, a.AccountID, map[string]any{"alert_id": a.ID, "key": a.Key})
	})
	return a, err
}
