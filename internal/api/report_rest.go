package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

type statisticList struct {
	Account   string    `query:"account" maxLength:"64" doc:"An account's name"`
	Operation string    `query:"operation" maxLength:"32"`
	From      time.Time `query:"from" doc:"Default: an hour before until"`
	Until     time.Time `query:"until" doc:"Exclusive; default: now"`
	Cursor    string    `query:"cursor" maxLength:"600" doc:"The next_cursor of the page before; give the same range with it"`
	Limit     int       `query:"limit" minimum:"1" maximum:"5000" default:"1000"`
}

type guardBandList struct {
	Account string    `query:"account" maxLength:"64" doc:"An account's name; default: all"`
	Since   time.Time `query:"since" doc:"Stops ordered from then on; default: the last 30 days"`
}

type retentionChange struct {
	NamePath
	Body struct {
		KeepDays int    `json:"keep_days" minimum:"0" maximum:"36600" doc:"0: for good"`
		Reason   string `json:"reason" minLength:"1" maxLength:"500"`
	} `nameHint:"RetentionRequest"`
}

// retention is how long what grows is kept.
func (r *rest) retention() {
	on(r, get("/retention", "get-retention", "How long each table that grows is kept, and what the last run deleted"), func(ctx context.Context, _ *struct{}) (RetentionReport, error) {
		return r.service.Retention(ctx)
	})
	on(r, put("/retention/{name}", "set-retention", "Say for how many days a table is kept"), func(ctx context.Context, in *retentionChange) (RetentionReport, error) {
		return r.service.KeepFor(ctx, in.Name, in.Body.KeepDays, in.Body.Reason, actorOf(ctx))
	})
}

// reports are what only looks.
func (r *rest) reports() {
	on(r, get("/summary", "get-summary", "The fleet in a few numbers"), func(ctx context.Context, _ *struct{}) (Summary, error) {
		return r.service.Summary(ctx)
	})
	on(r, get("/enumerations", "list-enumerations", "List every word that a field can hold"), func(context.Context, *struct{}) (map[string][]string, error) {
		return r.service.Enumerations(), nil
	})
	on(r, get("/statistics", "list-statistics", "Calls per minute, account, operation, purpose and outcome, oldest first"),
		func(ctx context.Context, in *statisticList) (Page[store.CallStat], error) {
			return r.service.Statistics(ctx, StatisticQuery{Account: in.Account, Operation: simwarden.Operation(in.Operation), FromAt: in.From, UntilAt: in.Until,
				Cursor: in.Cursor, Limit: in.Limit})
		})
	on(r, get("/reports/guard-bands", "report-guard-bands", "How often the promises of plans with a guard band were kept, by account and plan"),
		func(ctx context.Context, in *guardBandList) (items[store.GuardBandReport], error) {
			list, err := r.service.GuardBands(ctx, in.Account, in.Since)
			return items[store.GuardBandReport]{list}, err
		})
	on(r, get("/doctor", "get-doctor", "What a health check of the installation looks at"), func(ctx context.Context, _ *struct{}) (Doctor, error) {
		return r.service.Doctor(ctx)
	})
}
