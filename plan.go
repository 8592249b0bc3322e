package simwarden

import "time"

// SIMID and the others are ids of rows. Zero is "none".
type (
	SIMID          int64
	DeviceID       int64
	AccountID      int64
	LimitGroupID   int64
	PlanID         int64
	SubscriptionID int64
	CommandID      int64
	EvaluationID   int64
)

// PlanKind tells a plan that keeps an asset running from one that adds data to it.
type PlanKind string

// The kinds of plan.
const (
	PlanMain  PlanKind = "main"
	PlanAddon PlanKind = "addon"
)

// ValidityUnit is the unit in which a plan's validity is counted (L4).
type ValidityUnit string

// The units. ValiditySeconds exists for demonstrations and tests of real speed.
const (
	ValidityDays     ValidityUnit = "days"
	ValidityMonths   ValidityUnit = "months"
	ValidityMonthEnd ValidityUnit = "month_end"
	ValiditySeconds  ValidityUnit = "seconds"
)

// ResetKind says when a plan's allowance is full again (L4, L5).
type ResetKind string

// The kinds of reset. ResetCycle repeats every ResetEvery ResetUnit from the subscription's start.
const (
	ResetNone          ResetKind = "none"
	ResetCalendarMonth ResetKind = "calendar_month"
	ResetCycle         ResetKind = "cycle"
)

// Activation says when a bought plan begins (L4).
type Activation string

// The activation modes.
const (
	ActivateNow          Activation = "now"
	ActivateAfterCurrent Activation = "after_current"
)

// UnlimitedBytes is the allowance of a plan without a data limit.
const UnlimitedBytes int64 = -1

// Plan is what is sold.
type Plan struct {
	ID   PlanID   `json:"id"`
	Code string   `json:"code"` // unique, as people type it
	Name string   `json:"name"`
	Kind PlanKind `json:"kind"`
	// AllowanceBytes is the data per reset period, UnlimitedBytes for no limit.
	AllowanceBytes int64        `json:"allowance_bytes"`
	ValidityUnit   ValidityUnit `json:"validity_unit"`
	ValidityCount  int          `json:"validity_count"`
	Reset          ResetKind    `json:"reset"`
	// ResetDays is the length of a ResetCycle in days.
	ResetDays int `json:"reset_days,omitempty"`
	// Zone is the IANA zone in which days and months are counted.
	Zone string `json:"zone"`
	// PriceMinor is what it costs, in minor units of Currency (ISO 4217), which is empty where the
	// plan costs nothing (M1).
	PriceMinor int64  `json:"price_minor,omitempty"`
	Currency   string `json:"currency,omitempty"`
}

// Price is what the plan costs.
func (p Plan) Price() Money { return Money{AmountMinor: p.PriceMinor, Currency: p.Currency} }

// SubscriptionState is where a bought plan is in its life.
type SubscriptionState string

// The states of a subscription.
const (
	SubscriptionQueued    SubscriptionState = "queued"
	SubscriptionActive    SubscriptionState = "active"
	SubscriptionExhausted SubscriptionState = "exhausted"
	SubscriptionExpired   SubscriptionState = "expired"
	SubscriptionRefunded  SubscriptionState = "refunded"
	SubscriptionCancelled SubscriptionState = "cancelled"
)

// SubscriptionStates lists every state of a subscription.
func SubscriptionStates() []SubscriptionState {
	return []SubscriptionState{SubscriptionQueued, SubscriptionActive, SubscriptionExhausted,
		SubscriptionExpired, SubscriptionRefunded, SubscriptionCancelled}
}

// Subscription is one plan bought for one asset: a standalone SIM or a device.
type Subscription struct {
	ID       SubscriptionID    `json:"id"`
	SIMID    SIMID             `json:"sim_id,omitempty"`
	DeviceID DeviceID          `json:"device_id,omitempty"`
	PlanID   PlanID            `json:"plan_id"`
	PlanCode string            `json:"plan_code"`
	Kind     PlanKind          `json:"kind"`
	State    SubscriptionState `json:"state"`
	// StartAt and EndAt bound it, end exclusive, UTC; both zero while queued.
	StartAt time.Time `json:"start_at,omitzero"`
	EndAt   time.Time `json:"end_at,omitzero"`
	// NextResetAt is when the allowance is full again; zero for never. UTC.
	NextResetAt    time.Time `json:"next_reset_at,omitzero"`
	AllowanceBytes int64     `json:"allowance_bytes"`
	UsedBytes      int64     `json:"used_bytes"`
	// Renew says that it is bought again at its end, as RenewPlanID where that is set, else as the
	// same plan (M2).
	Renew       bool   `json:"renew,omitempty"`
	RenewPlanID PlanID `json:"renew_plan_id,omitempty"`
}

// InForce says whether the subscription counts at the instant: start <= t < end, and active or
// exhausted (words of the specification, section 1).
func (s Subscription) InForce(t time.Time) bool {
	return (s.State == SubscriptionActive || s.State == SubscriptionExhausted) &&
		!t.Before(s.StartAt) && t.Before(s.EndAt)
}
