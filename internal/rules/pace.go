package rules

import (
	"time"

	"github.com/simwarden/simwarden"
)

// PaceProfile says how often a SIM is looked at (P1).
type PaceProfile struct {
	StateEvery    time.Duration `json:"state_every_ns"`
	UsageEvery    time.Duration `json:"usage_every_ns"`
	RealNameEvery time.Duration `json:"realname_every_ns"`
	// IdleFactor lengthens the intervals of SIMs in inventory and test_ready.
	IdleFactor float64 `json:"idle_factor"`
	// TerminatedEvery is the interval of every check of a terminated SIM.
	TerminatedEvery time.Duration `json:"terminated_every_ns"`
	// FirstSpread is the span over which the first checks of new SIMs are spread; 0: at once.
	FirstSpread time.Duration `json:"first_spread_ns"`
	// RetryAfterError is the delay after a transient error, LimitedRetry that after a rate limit (P2).
	RetryAfterError time.Duration `json:"retry_after_error_ns"`
	LimitedRetry    time.Duration `json:"limited_retry_ns"`
}

// DefaultPace is the profile of an account that has none of its own.
func DefaultPace() PaceProfile {
	return PaceProfile{
		StateEvery:      10 * time.Minute,
		UsageEvery:      10 * time.Minute,
		RealNameEvery:   6 * time.Hour,
		IdleFactor:      6,
		TerminatedEvery: 24 * time.Hour,
		FirstSpread:     time.Minute,
		RetryAfterError: 2 * time.Minute,
		LimitedRetry:    2 * time.Second,
	}
}

// PaceOutcome is what became of the check that was due.
type PaceOutcome string

// The outcomes of a check.
const (
	PaceRead           PaceOutcome = "read"            // its own call answered
	PaceListed         PaceOutcome = "listed"          // a list page or batch answered it (P7)
	PaceTransientError PaceOutcome = "transient_error" // it failed; nothing is known
	PaceLimited        PaceOutcome = "limited"         // our limit or the carrier's; no failure
	PaceFirst          PaceOutcome = "first"           // the SIM is new
)

// PaceInput is what the next due time hangs on.
type PaceInput struct {
	Kind    simwarden.CheckKind
	State   simwarden.State
	Now     time.Time // UTC
	LastDue time.Time // when the check was due, zero for PaceFirst; UTC
	Outcome PaceOutcome
	Seed    uint64 // the SIM's own, constant: it spreads the fleet
	// RetryAfter is what the limiter or the carrier asked for; 0: nothing.
	RetryAfter time.Duration
}

// Pace gives the instant at which the check is due next, in UTC and never before in.Now. It has no
// state, so that another rule can take its place.
func Pace(p PaceProfile, in PaceInput) time.Time {
	switch in.Outcome {
	case PaceFirst:
		return in.Now.Add(time.Duration(fraction(in.Seed) * float64(p.FirstSpread)))
	case PaceLimited:
		return in.Now.Add(max(p.LimitedRetry, min(in.RetryAfter, MaxRetryAfter)))
	}
	// The due time is part of the seed, so that a SIM does not keep one and the same deviation and
	// two that met once part again.
	seed := mix(in.Seed) ^ uint64(in.LastDue.Unix())
	if in.Outcome == PaceTransientError {
		return in.Now.Add(max(Jitter(p.RetryAfterError, seed), min(in.RetryAfter, MaxRetryAfter)))
	}
	return in.Now.Add(Jitter(p.interval(in.Kind, in.State), seed))
}

func (p PaceProfile) interval(kind simwarden.CheckKind, state simwarden.State) time.Duration {
	every := p.StateEvery
	switch kind {
	case simwarden.CheckUsage:
		every = p.UsageEvery
	case simwarden.CheckRealName:
		every = p.RealNameEvery
	}
	switch state {
	case simwarden.StateTerminated:
		return max(every, p.TerminatedEvery)
	case simwarden.StateInventory, simwarden.StateTestReady:
		idle := time.Duration(float64(every) * max(p.IdleFactor, 1))
		return min(idle, max(every, p.TerminatedEvery)) // terminated ones are the slowest
	}
	return every
}
