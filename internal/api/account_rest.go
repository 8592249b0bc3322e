package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// accountSchema describes how an account is written: its own MarshalJSON adds the durations.
type accountSchema struct {
	store.Account
	FreshForSeconds      int64 `json:"fresh_for_seconds"`
	BrakeWindowSeconds   int64 `json:"brake_window_seconds"`
	StateEverySeconds    int64 `json:"state_every_seconds"`
	UsageEverySeconds    int64 `json:"usage_every_seconds"`
	RealNameEverySeconds int64 `json:"realname_every_seconds"`
	RenewalLeadSeconds   int64 `json:"renewal_lead_seconds"`
	DwellSeconds         int64 `json:"dwell_seconds"`
}

// NamePath names an account or limit group.
type NamePath struct {
	Name string `path:"name" maxLength:"64"`
}

// credentials go in and never come out (B10).
type credentials map[string]secret.Secret

type accountAdd struct {
	Body struct {
		Name                 string                    `json:"name" minLength:"1" maxLength:"64"`
		Driver               string                    `json:"driver" minLength:"1" maxLength:"64" doc:"One of the enumeration driver"`
		BaseURL              string                    `json:"base_url,omitempty" maxLength:"500" doc:"Empty: the driver's"`
		Zone                 string                    `json:"zone,omitempty" maxLength:"64" doc:"IANA time zone; empty: UTC"`
		LimitGroup           string                    `json:"limit_group,omitempty" maxLength:"64" doc:"The name of one that is there; empty: one of its own"`
		Settings             map[string]string         `json:"settings,omitempty"`
		Credentials          credentials               `json:"credentials,omitempty" doc:"By the names that the driver declares; write-only"`
		RealNameRequired     bool                      `json:"realname_required,omitempty"`
		Unplanned            simwarden.UnplannedPolicy `json:"unplanned,omitempty"`
		DriftPolicy          simwarden.DriftPolicy     `json:"drift_policy,omitempty"`
		FreshForSeconds      int64                     `json:"fresh_for_seconds,omitempty" minimum:"1" maximum:"604800"`
		StateEverySeconds    int64                     `json:"state_every_seconds,omitempty" minimum:"1" maximum:"2592000"`
		UsageEverySeconds    int64                     `json:"usage_every_seconds,omitempty" minimum:"1" maximum:"2592000"`
		RealNameEverySeconds int64                     `json:"realname_every_seconds,omitempty" minimum:"1" maximum:"2592000"`
	} `nameHint:"AccountRequest"`
}

type accountPatch struct {
	NamePath
	Body struct {
		Mode                 *simwarden.AccountMode     `json:"mode,omitempty" doc:"observe or act"`
		StateEverySeconds    *int64                     `json:"state_every_seconds,omitempty" minimum:"1" maximum:"2592000"`
		UsageEverySeconds    *int64                     `json:"usage_every_seconds,omitempty" minimum:"1" maximum:"2592000"`
		RealNameEverySeconds *int64                     `json:"realname_every_seconds,omitempty" minimum:"1" maximum:"2592000"`
		Unplanned            *simwarden.UnplannedPolicy `json:"unplanned,omitempty" doc:"leave or suspend: what becomes of SIMs that never had a main plan"`
		DriftPolicy          *simwarden.DriftPolicy     `json:"drift_policy,omitempty" doc:"enforce, alert or adopt: what becomes of SIMs that were changed outside"`
		FreshForSeconds      *int64                     `json:"fresh_for_seconds,omitempty" minimum:"1" maximum:"604800"`
		BrakePercent         *int                       `json:"brake_percent,omitempty" minimum:"0" maximum:"100"`
		BrakeCount           *int                       `json:"brake_count,omitempty" minimum:"0" maximum:"1000000"`
		BrakeWindowSeconds   *int64                     `json:"brake_window_seconds,omitempty" minimum:"1" maximum:"86400"`
		RenewalLeadSeconds   *int64                     `json:"renewal_lead_seconds,omitempty" minimum:"0" maximum:"604800" doc:"How long before its end a plan is bought again, where it is; 0: at its end"`
		CheckChangesPerDay   *int                       `json:"check_changes_per_day,omitempty" minimum:"0" maximum:"1000" doc:"How often in 24 hours checks alone may resume a SIM that is found suspended again, or suspend one, one fewer; 0: no bound"`
		DwellSeconds         *int64                     `json:"dwell_seconds,omitempty" minimum:"0" maximum:"86400" doc:"The least time from a resume to a suspend that checks alone ask for; 0: none"`
		RealNameRequired     *bool                      `json:"realname_required,omitempty" doc:"A change has all SIMs of the account judged in the background"`
		CarrierLimits        *bool                      `json:"carrier_limits,omitempty" doc:"Whether the carrier holds a data limit for each SIM, equal to what its plan allows; only at carriers that can"`
		LimitGroup           *string                    `json:"limit_group,omitempty" maxLength:"64" doc:"The group whose limits it shares from now on"`
		Credentials          credentials                `json:"credentials,omitempty" doc:"Replace all that are there; write-only"`
	} `nameHint:"AccountPatch"`
}

type accountAction struct {
	NamePath
	Body *why
}

// Lifted is what came of releasing or starting an account.
type Lifted struct {
	Account store.Account `json:"account"`
	Changed bool          `json:"changed" doc:"False where nothing held it"`
}

func (r *rest) accounts() {
	on(r, get("/accounts", "list-accounts", "List the carrier accounts"), func(ctx context.Context, _ *struct{}) (items[store.Account], error) {
		list, err := r.service.Accounts(ctx)
		return items[store.Account]{list}, err
	})
	on(r, get("/accounts/{name}", "get-account", "Get one carrier account"), func(ctx context.Context, in *NamePath) (store.Account, error) {
		return r.service.Account(ctx, in.Name)
	})
	on(r, created(post("/accounts", "add-account", "Add a carrier account, in observe mode")), func(ctx context.Context, in *accountAdd) (store.Account, error) {
		b := in.Body
		return r.service.AddAccount(ctx, NewAccount{Name: b.Name, Driver: b.Driver, BaseURL: b.BaseURL, Zone: b.Zone, LimitGroup: b.LimitGroup,
			Settings: b.Settings, Credentials: b.Credentials, RealNameRequired: b.RealNameRequired, Unplanned: b.Unplanned, DriftPolicy: b.DriftPolicy,
			FreshFor: secondsOf(b.FreshForSeconds), StateEvery: secondsOf(b.StateEverySeconds), UsageEvery: secondsOf(b.UsageEverySeconds),
			RealNameEvery: secondsOf(b.RealNameEverySeconds)}, actorOf(ctx))
	})
	on(r, patch("/accounts/{name}", "change-account", "Change a carrier account"), func(ctx context.Context, in *accountPatch) (store.Account, error) {
		b := in.Body
		return r.service.ChangeAccount(ctx, in.Name, AccountChange{Mode: b.Mode, StateEvery: maybeSeconds(b.StateEverySeconds),
			LimitGroup: b.LimitGroup, RealNameEvery: maybeSeconds(b.RealNameEverySeconds), Unplanned: b.Unplanned, DriftPolicy: b.DriftPolicy,
			UsageEvery: maybeSeconds(b.UsageEverySeconds), FreshFor: maybeSeconds(b.FreshForSeconds), BrakePercent: b.BrakePercent,
			BrakeCount: b.BrakeCount, BrakeWindow: maybeSeconds(b.BrakeWindowSeconds), RenewalLead: maybeSeconds(b.RenewalLeadSeconds),
			CheckChangesPerDay: b.CheckChangesPerDay, Dwell: maybeSeconds(b.DwellSeconds), RealNameRequired: b.RealNameRequired,
			CarrierLimits: b.CarrierLimits, Credentials: b.Credentials}, actorOf(ctx))
	})
	on(r, looks(post("/accounts/{name}/test", "test-account", "Ask the carrier something harmless with an account's credentials, at once; it counts as a refresh does")),
		func(ctx context.Context, in *NamePath) (AccountTested, error) {
			return r.service.TestAccount(ctx, in.Name, actorOf(ctx))
		})
	on(r, post("/accounts/{name}/release-brake", "release-brake", "Release an account's safety brake"),
		func(ctx context.Context, in *accountAction) (Lifted, error) {
			a, was, err := r.service.ReleaseBrake(ctx, in.Name, actorOf(ctx), reasonOf(in.Body))
			return Lifted{a, was}, err
		})
	on(r, post("/accounts/{name}/start", "start-account", "Start the calls of an account that was stopped for its credentials"),
		func(ctx context.Context, in *accountAction) (Lifted, error) {
			a, was, err := r.service.StartAccount(ctx, in.Name, actorOf(ctx), reasonOf(in.Body))
			return Lifted{a, was}, err
		})
}

func secondsOf(n int64) time.Duration { return time.Duration(n) * time.Second }

func maybeSeconds(n *int64) *time.Duration {
	if n == nil {
		return nil
	}
	d := secondsOf(*n)
	return &d
}
