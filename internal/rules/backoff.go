package rules

import (
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// BackoffPolicy says how a command goes on after a failed attempt (C5-C8).
type BackoffPolicy struct {
	// FirstDelay is the wait after the first failure, growing by Factor up to MaxDelay; at
	// MaxAttempts failures the command has failed.
	FirstDelay  time.Duration
	MaxDelay    time.Duration
	Factor      float64
	MaxAttempts int
	// ThrottleDelay is the wait where a carrier throttles without Retry-After, ThrottleMax the
	// longest that is waited at its word.
	ThrottleDelay time.Duration
	ThrottleMax   time.Duration
	// HeldDelay is how often a command looks again whether its cause has ended (auth,
	// maintenance, quota, stopped account), BusyDelay likewise for a change that is in progress.
	HeldDelay time.Duration
	BusyDelay time.Duration
	HeldMax   time.Duration
	// ReopenFirst is the pause before the same order may be opened again after a failure,
	// doubled for each failure in a row up to ReopenMax (C8).
	ReopenFirst time.Duration
	ReopenMax   time.Duration
}

// DefaultBackoff gives up after six failures, about eight minutes after the first.
func DefaultBackoff() BackoffPolicy {
	return BackoffPolicy{
		FirstDelay: 15 * time.Second, MaxDelay: 15 * time.Minute, Factor: 2, MaxAttempts: 6,
		ThrottleDelay: 2 * time.Second, ThrottleMax: time.Hour,
		HeldDelay: 5 * time.Minute, BusyDelay: 15 * time.Second, HeldMax: 24 * time.Hour,
		ReopenFirst: 15 * time.Minute, ReopenMax: 24 * time.Hour,
	}
}

// Next is how a command goes on.
type Next struct {
	State simwarden.CommandState
	// Wait is the time until the next step, without jitter; 0: at once, or as long as the carrier
	// takes to settle where State is verifying.
	Wait time.Duration
	// CountsAsFailure says that the attempt uses up one of MaxAttempts.
	CountsAsFailure bool
	// HeldBy names what a queued command waits for; empty for an ordinary retry.
	HeldBy string
}

// Backoff says how a command goes on after an attempt that ended in the class. failures counts
// the failed attempts of the command, this one included where it counts. retryAfter is what the
// carrier or our limiter asked for, 0 for nothing. A command whose outcome was unknown and whose
// state was then read as unchanged goes on as ClassTemporary, with the same count (C6).
func Backoff(p BackoffPolicy, class carrier.Class, failures int, retryAfter time.Duration) Next {
	if class.Terminal() {
		return Next{State: simwarden.CommandFailed, CountsAsFailure: true}
	}
	switch class {
	case carrier.ClassAlreadyInState:
		return Next{State: simwarden.CommandConfirming}
	case carrier.ClassTemporary:
		if failures >= p.MaxAttempts {
			return Next{State: simwarden.CommandFailed, CountsAsFailure: true}
		}
		wait := max(grow(p.FirstDelay, p.Factor, failures, p.MaxDelay), min(retryAfter, p.ThrottleMax))
		return Next{State: simwarden.CommandQueued, Wait: wait, CountsAsFailure: true}
	case carrier.ClassThrottled:
		return held(class, orElse(retryAfter, p.ThrottleDelay), p.ThrottleMax)
	case carrier.ClassLimited:
		return held(class, orElse(retryAfter, p.ThrottleDelay), p.HeldMax)
	case carrier.ClassInProgress:
		return held(class, orElse(retryAfter, p.BusyDelay), p.HeldMax)
	case carrier.ClassAuth, carrier.ClassMaintenance, carrier.ClassQuotaExhausted, carrier.ClassStopped:
		return held(class, orElse(retryAfter, p.HeldDelay), p.HeldMax)
	}
	// unknown_outcome, unknown, and what nobody classified: the carrier may have acted.
	return Next{State: simwarden.CommandVerifying, CountsAsFailure: true}
}

// ReopenWait is the pause before the same order for the same SIM may be opened again after that
// many failed commands in a row (C8).
func ReopenWait(p BackoffPolicy, failedInRow int) time.Duration {
	if failedInRow < 1 {
		return 0
	}
	return grow(p.ReopenFirst, 2, failedInRow, p.ReopenMax)
}

func held(class carrier.Class, wait, most time.Duration) Next {
	return Next{State: simwarden.CommandQueued, Wait: min(wait, most), HeldBy: string(class)}
}

func orElse(asked, otherwise time.Duration) time.Duration {
	if asked > 0 {
		return asked
	}
	return otherwise
}

// grow is first * factor^(n-1), at most most. It multiplies step by step and stops at the bound, so
// that no n overflows.
func grow(first time.Duration, factor float64, n int, most time.Duration) time.Duration {
	d := float64(first)
	for i := 1; i < n && d < float64(most); i++ {
		if factor <= 1 {
			break
		}
		d *= factor
	}
	if d >= float64(most) {
		return most
	}
	return time.Duration(d)
}
