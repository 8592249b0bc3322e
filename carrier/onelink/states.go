package onelink

import (
	"strings"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
)

// platform is which of the carrier's two a SIM is on. The same call answers in either's codes.
type platform uint8

const (
	platformUnknown platform = iota
	platformCT
	platformPB
)

// statuses are the codes of cardStatus: one digit of CT, two of PB.
var statuses = map[string]struct {
	state    simwarden.State
	extended simwarden.ExtendedState
	pending  bool
	stopped  bool // why is told by another call
}{
	"1": {state: simwarden.StateInventory}, // waits for its activation
	"2": {state: simwarden.StateActive},
	"4": {state: simwarden.StateSuspended, stopped: true},
	"6": {state: simwarden.StateTestReady},
	"7": {state: simwarden.StateInventory},
	"8": {state: simwarden.StateTerminated, extended: simwarden.ExtendedTerminated, pending: true},
	"9": {state: simwarden.StateTerminated, extended: simwarden.ExtendedTerminated},

	"00": {state: simwarden.StateActive},
	"01": {state: simwarden.StateSuspended, stopped: true}, // in one direction
	"02": {state: simwarden.StateSuspended, stopped: true},
	"03": {state: simwarden.StateTerminated, extended: simwarden.ExtendedTerminated, pending: true},
	"04": {state: simwarden.StateTerminated, extended: simwarden.ExtendedTerminated},
	"05": {state: simwarden.StateUnknown, extended: simwarden.ExtendedOther}, // given to another customer
	"06": {state: simwarden.StateInventory},                                  // dormant
	"07": {state: simwarden.StateInventory},                                  // waits for its activation
}

// stateOf gives the reading of a status code, and whether the SIM is stopped, so that the reason is
// to be read too.
func stateOf(code string) (r simwarden.StateReading, stopped bool) {
	s, known := statuses[code]
	if !known {
		return simwarden.StateReading{State: simwarden.StateUnknown, Extended: simwarden.ExtendedOther, Raw: code}, false
	}
	r = simwarden.StateReading{State: s.state, Extended: s.extended, Pending: s.pending, Raw: code}
	if r.Extended == "" {
		r.Extended = simwarden.ExtendedNone
	}
	return r, s.stopped
}

// platformOf tells the platform from a status code.
func platformOf(code string) platform {
	switch len(code) {
	case 1:
		return platformCT
	case 2:
		return platformPB
	}
	return platformUnknown
}

// The positions of the stop reason, counted from 0. Those not named here are not known.
const (
	stopDigits    = 12
	stopExpired   = 0  // the product has expired
	stopCredit    = 4  // credit control
	stopRequested = 8  // by the customer's own request
	stopForced    = 10 // by the operator
)

// riskWord is in the description of a stop by risk control, where the answer has one: the digits have
// no position for it that is known.
const riskWord = "风险"

// whyStopped says what the stop reason means: twelve digits, one for each kind of stop, 0 where it
// does not hold. Several may hold at once; the worst for a resume counts. An own request alone is
// plain suspension. Digits that are not understood are "other".
//
// Source: the stop-reason call's answers as resellers of the carrier explain them.
func whyStopped(reason, description string) simwarden.ExtendedState {
	if strings.Contains(description, riskWord) {
		return simwarden.ExtendedRiskSuspended
	}
	if len(reason) != stopDigits {
		return simwarden.ExtendedOther
	}
	out := simwarden.ExtendedNone
	for i := range len(reason) {
		switch {
		case reason[i] < '0' || reason[i] > '9':
			return simwarden.ExtendedOther
		case reason[i] == '0' || i == stopRequested:
		case i == stopCredit:
			if out == simwarden.ExtendedNone {
				out = simwarden.ExtendedArrears
			}
		default: // expired, forced, or one that nobody knows
			out = simwarden.ExtendedOther
		}
	}
	return out
}

// maxPlatforms bounds what is remembered of SIMs; beyond it all is forgotten and learnt anew.
const maxPlatforms = 500_000

// platforms remembers on which platform SIMs are, as their states have told: a usage answer does not
// say, and the platform decides how old its figure is.
type platforms struct {
	all platform // of all SIMs, by the account's setting

	mu sync.Mutex
	of map[string]platform
}

func (p *platforms) learn(iccid string, is platform) {
	if is == platformUnknown || p.all != platformUnknown {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil || len(p.of) >= maxPlatforms {
		p.of = make(map[string]platform)
	}
	p.of[iccid] = is
}

func (p *platforms) find(iccid string) platform {
	if p.all != platformUnknown {
		return p.all
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[iccid]
}

// midnight is the last one in UTC+8, as UTC: up to then PB usage and all batches of usage count.
func midnight(now time.Time) time.Time {
	t := now.In(zone)
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, zone).UTC()
}
