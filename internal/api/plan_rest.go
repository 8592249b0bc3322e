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
		ValidityUnit   simwarden.ValidityUnit `json:"validity_unit" doc:"days, months, month_end, billing_month or seconds"`
		ValidityCount  int                    `json:"validity_count,omitempty" minimum:"0"`
		Reset          simwarden.ResetKind    `json:"reset" doc:"none, calendar_month, billing_month or cycle"`
		ResetDays      int                    `json:"reset_days,omitempty" minimum:"0" doc:"The length of a cycle"`
		AnchorDay      int                    `json:"anchor_day,omitempty" minimum:"0" maximum:"31" doc:"The day at whose midnight a billing month begins, in a shorter month its last day: 27 for the 27th to the 26th"`
		Activation     simwarden.Activation   `json:"activation,omitempty" doc:"now, after_current, first_use or realname; default: after_current, of an add-on now"`
		ActivateByDays int                    `json:"activate_by_days,omitempty" minimum:"0" maximum:"3660" doc:"After how many days one that waits for its first use or real name begins without; 0: never"`
		Zone           string                 `json:"zone" minLength:"1" maxLength:"64" doc:"The IANA time zone in which days and months are counted"`
		Price          *amount                `json:"price,omitempty" doc:"What it costs; absent: nothing"`
		GuardBand      *struct {
			Bytes       int64   `json:"bytes" minimum:"0" doc:"How far usage may pass the allowance at most"`
			Probability float64 `json:"probability,omitempty" minimum:"0.5" maximum:"0.999" doc:"With which probability that is promised; default: 0.95"`
		} `json:"guard_band,omitempty" doc:"Of main plans with a data limit: its SIMs are suspended early enough to keep the promise; absent: when the allowance is used up (E12)"`
	} `nameHint:"PlanRequest"`
}

// PlanPath names a plan.
type PlanPath struct {
	Code string `path:"code" maxLength:"64" doc:"A plan's code"`
}

type planPatch struct {
	PlanPath
	Body struct {
		Name      *string `json:"name,omitempty" minLength:"1" maxLength:"200"`
		Price     *amount `json:"price,omitempty" doc:"What it costs from now on, renewals too"`
		Withdrawn *bool   `json:"withdrawn,omitempty" doc:"Whether it is sold no more; what was bought runs on and is renewed"`
	} `nameHint:"PlanPatch"`
}

func (r *rest) plans() {
	on(r, get("/plans/{code}", "get-plan", "Get one plan"), func(ctx context.Context, in *PlanPath) (simwarden.Plan, error) {
		return r.service.Plan(ctx, in.Code)
	})
	on(r, patch("/plans/{code}", "change-plan", "Change a plan's name or price, or withdraw it from sale"), func(ctx context.Context, in *planPatch) (simwarden.Plan, error) {
		c := PlanChange{Name: in.Body.Name, Withdrawn: in.Body.Withdrawn}
		if in.Body.Price != nil {
			m := in.Body.Price.money()
			c.Price = &m
		}
		return r.service.ChangePlan(ctx, in.Code, c, actorOf(ctx))
	})
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
		p := simwarden.Plan{Code: b.Code, Name: b.Name, Kind: b.Kind, AllowanceBytes: b.AllowanceBytes,
			ValidityUnit: b.ValidityUnit, ValidityCount: b.ValidityCount, Reset: b.Reset, ResetDays: b.ResetDays, Zone: b.Zone,
			AnchorDay: b.AnchorDay, Activation: b.Activation, ActivateByDays: b.ActivateByDays,
			PriceMinor: price.AmountMinor, Currency: price.Currency}
		if b.GuardBand != nil {
			p.GuardBandBytes, p.GuardBandProbability = &b.GuardBand.Bytes, b.GuardBand.Probability
		}
		return r.service.AddPlan(ctx, p, actorOf(ctx))
	})
}
