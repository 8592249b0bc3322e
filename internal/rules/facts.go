// Package rules decides: pure functions from facts to decisions, orders, delays and dates. No
// clock, database or network inside; the same facts always give the same answer.
package rules

import (
	"time"

	"github.com/simwarden/simwarden"
)

// Facts are all that Decide looks at. They are stored with each attempt, so that the decision
// can be made again from them (V5).
type Facts struct {
	NowAt time.Time       `json:"now_at"` // UTC
	Scene simwarden.Scene `json:"scene"`

	// The SIM as last read.
	State       simwarden.State         `json:"state"`
	Pending     bool                    `json:"pending,omitempty"`
	Extended    simwarden.ExtendedState `json:"extended"`
	RawState    string                  `json:"raw_state,omitempty"`
	StateReadAt time.Time               `json:"state_read_at,omitzero"` // zero: never read
	// TrafficStates are the states that carry traffic at its carrier.
	TrafficStates []simwarden.State  `json:"traffic_states"`
	RealName      simwarden.RealName `json:"realname"`
	RealNameAt    time.Time          `json:"realname_read_at,omitzero"`
	// RealNameOdd is what the carrier said of the real name last, where that is not understood.
	RealNameOdd string    `json:"realname_odd,omitempty"`
	UsageReadAt time.Time `json:"usage_read_at,omitzero"`
	// UsageTrueAt is the instant for which the usage is true as far as the carrier says.
	UsageTrueAt time.Time `json:"usage_true_at,omitzero"`

	// LimitMayStopAt is since when the SIM reads as suspended at a carrier that holds a data limit for it
	// (P8), which may be why; zero otherwise.
	LimitMayStopAt time.Time `json:"limit_may_stop_at,omitzero"`

	// What persons said.
	ManualHold   bool      `json:"manual_hold,omitempty"`
	ManualHoldAt time.Time `json:"manual_hold_at,omitzero"`
	ManualHoldBy string    `json:"manual_hold_by,omitempty"`
	SIMPaused    bool      `json:"sim_paused,omitempty"`
	DevicePaused bool      `json:"device_paused,omitempty"`
	Closed       bool      `json:"closed,omitempty"`
	// Manual is what a person asks for, in scene manual alone.
	Manual simwarden.Direction `json:"manual,omitempty"`

	// The asset's plans: all that are active or exhausted, main and add-on.
	Subscriptions []SubscriptionFact `json:"subscriptions"`
	// Pool is the pool that the asset is in, nil for none (L6).
	Pool *PoolFact `json:"pool,omitempty"`
	// EverPlanned says that the asset has had a main subscription at some time (E2).
	EverPlanned bool `json:"ever_planned"`
	// LastPlanEndedAt is when its latest main subscription ended; zero where none has.
	LastPlanEndedAt time.Time `json:"last_plan_ended_at,omitzero"`
	// MainQueued says that a main subscription is queued. Between a plan's end and the sweep that
	// starts the queued one, no_plan is not concluded (L1, S10).
	MainQueued bool `json:"main_queued,omitempty"`
	// AwaitsUse says that the next main plan waits for its first use: the SIM has to run for that, so
	// no_plan is not concluded (L4).
	AwaitsUse bool `json:"awaits_use,omitempty"`
	// LapseHeld says that a main plan whose end has come waits for a person's release (C10): until then
	// no_plan is not concluded either.
	LapseHeld bool `json:"lapse_held,omitempty"`

	// GuardBand is the promise of the main plan in force; nil where it makes none (E12).
	GuardBand *GuardBand `json:"guard_band,omitempty"`

	// The account's policies.
	RealNameRequired bool                      `json:"realname_required,omitempty"`
	Unplanned        simwarden.UnplannedPolicy `json:"unplanned"`
	// FreshFor is how old the facts of a resume may be, and the state before anything is sent
	// (E11); 0: no bound. HasUsage says that the driver can read usage at all.
	FreshFor time.Duration `json:"fresh_for_ns"`
	HasUsage bool          `json:"has_usage,omitempty"`
	HasReal  bool          `json:"has_realname,omitempty"`

	// Held are the reasons of the decision before, for how long they have held (E10).
	Held []simwarden.ReasonHeld `json:"held,omitempty"`
}

// SubscriptionFact is what a decision needs of one subscription.
type SubscriptionFact struct {
	ID             simwarden.SubscriptionID `json:"id"`
	Kind           simwarden.PlanKind       `json:"kind"`
	PlanCode       string                   `json:"plan_code"`
	StartAt        time.Time                `json:"start_at"`
	EndAt          time.Time                `json:"end_at"`
	AllowanceBytes int64                    `json:"allowance_bytes"` // simwarden.UnlimitedBytes: no limit
	UsedBytes      int64                    `json:"used_bytes"`
	// GuardBandBytes is how far usage may pass the allowance, with GuardBandProbability; that is 0 where
	// the plan promises nothing (E12).
	GuardBandBytes       int64   `json:"guard_band_bytes,omitempty"`
	GuardBandProbability float64 `json:"guard_band_probability,omitempty"`
}

// InForce says whether it counts at the instant: start <= t < end.
func (s SubscriptionFact) InForce(t time.Time) bool {
	return !t.Before(s.StartAt) && t.Before(s.EndAt)
}
