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

// The units. ValidityBilling lasts to the end of a billing month, which begins on the plan's
// AnchorDay; ValiditySeconds exists for demonstrations and tests of real speed.
const (
	ValidityDays     ValidityUnit = "days"
	ValidityMonths   ValidityUnit = "months"
	ValidityMonthEnd ValidityUnit = "month_end"
	ValidityBilling  ValidityUnit = "billing_month"
	ValiditySeconds  ValidityUnit = "seconds"
)

// ValidityUnits lists every unit of validity.
func ValidityUnits() []ValidityUnit {
	return []ValidityUnit{ValidityDays, ValidityMonths, ValidityMonthEnd, ValidityBilling, ValiditySeconds}
}

// ResetKind says when a plan's allowance is full again (L4, L5).
type ResetKind string

// The kinds of reset. ResetCycle repeats every ResetDays days from the subscription's start,
// ResetBilling at local midnight of the plan's AnchorDay.
const (
	ResetNone          ResetKind = "none"
	ResetCalendarMonth ResetKind = "calendar_month"
	ResetBilling       ResetKind = "billing_month"
	ResetCycle         ResetKind = "cycle"
)

// ResetKinds lists every kind of reset.
func ResetKinds() []ResetKind {
	return []ResetKind{ResetNone, ResetCalendarMonth, ResetBilling, ResetCycle}
}

// Activation says when a bought plan begins (L4).
type Activation string

// The activation modes. ActivateNow begins at once and is refused where a main plan is in force or
// queued; ActivateAfterCurrent begins when the plans before it have ended, at once where there are
// none. ActivateFirstUse waits besides for the first usage after the purchase, ActivateRealName until
// a SIM of the asset is verified.
const (
	ActivateNow          Activation = "now"
	ActivateAfterCurrent Activation = "after_current"
	ActivateFirstUse     Activation = "first_use"
	ActivateRealName     Activation = "realname"
)

// Activations lists every activation mode.
func Activations() []Activation {
	return []Activation{ActivateNow, ActivateAfterCurrent, ActivateFirstUse, ActivateRealName}
}

// Waits says that a plan so activated waits for more than the end of the one before it.
func (a Activation) Waits() bool { return a == ActivateFirstUse || a == ActivateRealName }

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
	// AnchorDay is the day of the month, 1 to 31, at whose local midnight a billing month begins, in
	// a shorter month its last day: 27 for China Unicom's, which runs to the 26th. 0 where neither
	// validity nor reset counts billing months.
	AnchorDay int `json:"anchor_day,omitempty"`
	// Activation is when it begins; empty is now for an add-on, after_current for a main plan.
	Activation Activation `json:"activation,omitempty"`
	// ActivateByDays is after how many days, in Zone, one that waits for its first use or real name
	// begins without; 0 for never.
	ActivateByDays int `json:"activate_by_days,omitempty"`
	// Zone is the IANA zone in which days and months are counted.
	Zone string `json:"zone"`
	// PriceMinor is what it costs, in minor units of Currency (ISO 4217), which is empty where the
	// plan costs nothing (M1).
	PriceMinor int64  `json:"price_minor,omitempty"`
	Currency   string `json:"currency,omitempty"`
	// GuardBandBytes is how far usage may pass the allowance at most, promised with GuardBandProbability
	// (0.5 to 0.999); nil promises nothing. Of main plans with a data limit alone (E12).
	GuardBandBytes       *int64  `json:"guard_band_bytes,omitempty"`
	GuardBandProbability float64 `json:"guard_band_probability,omitempty"`
	// WithdrawnAt is since when it is sold no more, UTC; zero: it is sold.
	WithdrawnAt time.Time `json:"withdrawn_at,omitzero"`
}

// DefaultGuardBandProbability is promised where a plan has a guard band and does not say (E12).
const DefaultGuardBandProbability = 0.95

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
	NextResetAt time.Time `json:"next_reset_at,omitzero"`
	// AnchorDay is the day of the month that a chain of plans in months keeps, so that 28 February is
	// followed by 31 March; 0 for other units and while queued.
	AnchorDay int `json:"anchor_day,omitempty"`
	// Activation is what a queued one waits for. ReadyAt is when that came about, ActivateBy when it
	// begins without; zero for not yet and never. UTC.
	Activation     Activation `json:"activation,omitempty"`
	ReadyAt        time.Time  `json:"ready_at,omitzero"`
	ActivateBy     time.Time  `json:"activate_by,omitzero"`
	AllowanceBytes int64      `json:"allowance_bytes"`
	UsedBytes      int64      `json:"used_bytes"`
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

// MayBegin says from when on a queued subscription may begin: zero where it waits for nothing but
// the plan before it. It is false where what it waits for has not come about by the instant.
func (s Subscription) MayBegin(t time.Time) (time.Time, bool) {
	if !s.Activation.Waits() {
		return time.Time{}, true
	}
	from := s.ReadyAt
	if from.IsZero() || !s.ActivateBy.IsZero() && s.ActivateBy.Before(from) {
		from = s.ActivateBy
	}
	return from, !from.IsZero() && !from.After(t)
}
