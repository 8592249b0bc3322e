package api

import (
	"context"

	"github.com/simwarden/simwarden"
)

type planAdd struct {
	Body struct {
		Code           string                 `json:"code" minLength:"1" maxLength:"64" doc:"Unique, as people type it"`
		Name           string                 `json:"name,omitempty" maxLength:"200"`
		Kind           simwarden.PlanKind     `json:"kind" doc:"main or addon"`
		AllowanceBytes int64                  `json:"allowance_bytes" minimum:"-1" doc:"Per reset period; -1: no limit"`
		ValidityUnit   simwarden.ValidityUnit `json:"validity_unit" doc:"days, months, month_end or seconds"`
		ValidityCount  int                    `json:"validity_count,omitempty" minimum:"0"`
		Reset          simwarden.ResetKind    `json:"reset" doc:"none, calendar_month or cycle"`
		ResetDays      int                    `json:"reset_days,omitempty" minimum:"0" doc:"The length of a cycle"`
		Zone           string                 `json:"zone" minLength:"1" maxLength:"64" doc:"The IANA time zone in which days and months are counted"`
		Price          *amount                `json:"price,omitempty" doc:"What it costs; absent: nothing"`
	} `nameHint:"PlanRequest"`
}

func (r *rest) plans() {
	on(r, get("/plans", "list-plans", "List the plans"), func(ctx context.Context, _ *struct{}) (items[simwarden.Plan], error) {
		list, err := r.service.Plans(ctx)
		return items[simwarden.Plan]{list}, err
	})
	on(r, created(post("/plans", "add-plan", "Add a plan")), func(ctx context.Context, in *planAdd) (simwarden.Plan, error) {
		b := in.Body
		var price simwarden.Money
		if b.Price != nil {
			price = b.Price.money()
		}
		return r.service.AddPlan(ctx, simwarden.Plan{Code: b.Code, Name: b.Name, Kind: b.Kind, AllowanceBytes: b.AllowanceBytes,
			ValidityUnit: b.ValidityUnit, ValidityCount: b.ValidityCount, Reset: b.Reset, ResetDays: b.ResetDays, Zone: b.Zone,
			PriceMinor: price.AmountMinor, Currency: price.Currency}, actorOf(ctx))
	})
}
