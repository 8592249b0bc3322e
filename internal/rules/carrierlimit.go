package rules

import (
	"math"
	"time"

	"github.com/simwarden/simwarden"
)

// CarrierLimitInput is all that CarrierLimit looks at.
type CarrierLimitInput struct {
	Facts Facts // with its instant
	// On says that the account keeps limits at its carrier, and that its carrier can hold them.
	On       bool
	InDevice bool
	// The carrier's counter as it was last booked, nil for never, and the start of the period that it is
	// of; PeriodNowAt is the start of the carrier's running period, zero where that is not known.
	CounterBytes  *int64
	PeriodStartAt time.Time
	PeriodNowAt   time.Time
	// UnitBytes and MostBytes are the carrier's unit and its largest limit.
	UnitBytes, MostBytes int64
}

// CarrierLimitWant is the data limit that a carrier should hold for a SIM.
type CarrierLimitWant struct {
	Bytes   int64 // of the carrier's counter in its running period; 0: no limit
	Keep    bool  // as it is: in a moment more is known
	Because string
}

// The reasons for no limit at the carrier.
const (
	NoLimitOff        = "its account keeps no limits at the carrier"
	NoLimitTerminated = "it is terminated"
	NoLimitPaused     = "its polling is stopped, and nothing automatic stops it meanwhile"
	NoLimitDevice     = "its allowance is its device's"
	NoLimitPool       = "its allowance is a pool's"
	NoLimitPlan       = "it has no plan in force"
	NoLimitUnlimited  = "its plan has no data limit"
	NoLimitUnread     = "its usage was never read"
	NoLimitTooLarge   = "its plan allows more than the carrier can hold"
	LimitOfPlan       = "what its plan allows"
)

// CarrierLimit says which limit the carrier should hold for a SIM, so that it equals what the plan allows
// (P8): the carrier's counter and what is left of the allowance, which grow against each other, so that
// usage alone changes nothing. It is rounded up to the carrier's unit: never below the allowance. Only
// standalone SIMs with an allowance of their own have one.
func CarrierLimit(in CarrierLimitInput) CarrierLimitWant {
	f := in.Facts
	used, allowance, limited, some := f.data()
	hasMain := false
	for _, s := range f.Subscriptions {
		hasMain = hasMain || s.Kind == simwarden.PlanMain && s.InForce(f.NowAt)
	}
	none := func(because string) CarrierLimitWant { return CarrierLimitWant{Because: because} }
	switch {
	case !in.On:
		return none(NoLimitOff)
	case f.State == simwarden.StateTerminated || f.Extended == simwarden.ExtendedTerminated:
		return none(NoLimitTerminated)
	case f.PollingStopped():
		return none(NoLimitPaused)
	case in.InDevice:
		return none(NoLimitDevice)
	case f.Pool != nil:
		return none(NoLimitPool)
	case !hasMain && (f.MainQueued || f.LapseHeld):
		return CarrierLimitWant{Keep: true}
	case !hasMain || !some:
		return none(NoLimitPlan)
	case !limited:
		return none(NoLimitUnlimited)
	case in.CounterBytes == nil:
		return none(NoLimitUnread)
	}
	counter := *in.CounterBytes
	if in.PeriodStartAt.Before(in.PeriodNowAt) {
		counter = 0 // the carrier counts anew: what it has counted since is not booked either
	}
	limit := addBytes(counter, allowance) - used
	units := max(1, limit/in.UnitBytes)
	if units <= math.MaxInt64/in.UnitBytes-1 && limit > units*in.UnitBytes {
		units++
	}
	if units > in.MostBytes/in.UnitBytes {
		return none(NoLimitTooLarge)
	}
	return CarrierLimitWant{Bytes: units * in.UnitBytes, Because: LimitOfPlan}
}

// CarrierLimitRetry is how long to wait after so many failures in a row to set a limit: as long as a command
// would, and no less than what the carrier asked for. It is tried again for ever.
func CarrierLimitRetry(p BackoffPolicy, failures int, retryAfter time.Duration) time.Duration {
	return max(grow(p.FirstDelay, p.Factor, failures, p.MaxDelay), min(retryAfter, p.ThrottleMax))
}
