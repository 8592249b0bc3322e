package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

type statisticList struct {
	Account string    `query:"account" maxLength:"64" doc:"An account's name"`
	From    time.Time `query:"from" doc:"Default: an hour before until"`
	Until   time.Time `query:"until" doc:"Exclusive; default: now"`
	Limit   int       `query:"limit" minimum:"1" maximum:"5000" default:"1000"`
}

type guardBandList struct {
	Account string    `query:"account" maxLength:"64" doc:"An account's name; default: all"`
	Since   time.Time `query:"since" doc:"Stops ordered from then on; default: the last 30 days"`
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
		func(ctx context.Context, in *statisticList) (items[store.CallStat], error) {
			list, err := r.service.Statistics(ctx, StatisticQuery{Account: in.Account, FromAt: in.From, UntilAt: in.Until, Limit: in.Limit})
			return items[store.CallStat]{list}, err
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
