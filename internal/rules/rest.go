package rules

import (
	"net/http"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// RestPolicy says when a carrier account that refuses nearly everybody's change is given a rest (G8):
// what is wrong is then the account, and each SIM that is tried tells the carrier and us nothing new.
type RestPolicy struct {
	// Of the Latest answers within Window, the latest of each SIM, at least AtLeast and SharePercent
	// must be refusals.
	Window       time.Duration
	Latest       int
	AtLeast      int
	SharePercent int
	// FirstProbe is the pause before one SIM is tried again, doubled after each refusal up to ProbeMost.
	FirstProbe time.Duration
	ProbeMost  time.Duration
}

// DefaultRest rests after ten SIMs, and nine of ten of the latest twenty, were refused within ten
// minutes; it tries one SIM after 30 s, and at last one every ten minutes.
func DefaultRest() RestPolicy {
	return RestPolicy{Window: 10 * time.Minute, Latest: 20, AtLeast: 10, SharePercent: 90,
		FirstProbe: 30 * time.Second, ProbeMost: 10 * time.Minute}
}

// Answer is what a carrier made of one change of a SIM.
type Answer struct {
	SIMID   simwarden.SIMID
	Refused bool
}

// Rest says whether an account with these answers, the latest first, is to be given a rest. A SIM that
// was refused again and again counts once.
func Rest(p RestPolicy, answers []Answer) bool {
	seen := make(map[simwarden.SIMID]bool, len(answers))
	refused := 0
	for _, a := range answers {
		if seen[a.SIMID] {
			continue
		}
		seen[a.SIMID] = true
		if a.Refused {
			refused++
		}
	}
	return refused >= p.AtLeast && refused*100 >= len(seen)*p.SharePercent
}

// ProbeWait is the pause before the next SIM is tried, after that many probes were refused.
func ProbeWait(p RestPolicy, refused int) time.Duration {
	return grow(p.FirstProbe, 2, refused+1, p.ProbeMost)
}

// RefusesChange says that an answer refuses a change in a way that may be the account's and not the
// SIM's: not allowed, not valid, or a complete answer below 500 that nobody knows. What names the SIM's own
// state (terminated, not found, risk-suspended) is the SIM's, and what is throttled, failing or refused for its
// credentials is looked after elsewhere.
func RefusesChange(class carrier.Class, e *carrier.Error) bool {
	switch class {
	case carrier.ClassRefused, carrier.ClassInvalid, carrier.ClassUnknown:
		return true
	case carrier.ClassUnknownOutcome:
		return e.HTTPStatus != 0 && e.HTTPStatus < http.StatusInternalServerError && !e.BadAnswer && e.Err == nil
	}
	return false
}
