package api

import (
	"context"

	"github.com/simwarden/simwarden/internal/store"
)

type alertList struct {
	Paging
	Account string `query:"account" maxLength:"64" doc:"An account's name"`
	Kind    string `query:"kind" maxLength:"64"`
}

type alertPath struct {
	ID int64 `path:"id" minimum:"1"`
}

func (r *rest) alerts() {
	on(r, get("/alerts", "list-alerts", "List the open alerts, newest first"), func(ctx context.Context, in *alertList) (Page[store.Alert], error) {
		return r.service.Alerts(ctx, AlertQuery{Account: in.Account, Kind: in.Kind, Cursor: in.Cursor, Limit: in.Limit})
	})
	on(r, post("/alerts/{id}/clear", "clear-alert", "Clear an open alert"), func(ctx context.Context, in *alertPath) (store.Alert, error) {
		return r.service.ClearAlert(ctx, in.ID, actorOf(ctx))
	})
}
