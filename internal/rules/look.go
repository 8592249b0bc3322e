package rules

import (
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// The names of the checks in a decision.
const (
	CheckPlanInForce   = "plan in force"
	CheckDataLeft      = "data left"
	CheckRealNameMet   = "real name"
	CheckNoManualHold  = "no manual hold"
	CheckPollingOn     = "polling on"
	CheckNoCarrierStop = "no stop by the carrier"
	CheckStateKnown    = "state known"
	CheckFactsFresh    = "facts fresh"
)

// looked is what was found in the facts: every check made and every reason that holds (E10).
type looked struct {
	checks  []simwarden.Check
	reasons []simwarden.ReasonHeld
	// first is the first of E2's reasons that holds.
	first  simwarden.Reason
	noPlan bool
	// neverPlanned: never had a main plan, and the account says to leave such SIMs alone.
	neverPlanned bool
	// planChangeDue: a queued main plan is about to be started by the sweep (L1).
	planChangeDue bool
	// realNameUnread: real-name is required and can be read, but was never.
	realNameUnread bool
	// realNameUnclear: real-name is required and was read, but the carrier's answer says nothing.
	realNameUnclear bool
	// warnings are the failed checks of E2 in words (E3).
	warnings []string
}

func look(f Facts) looked {
	l := looked{reasons: []simwarden.ReasonHeld{}}
	l.plan(f)
	l.data(f)
	l.realName(f)
	l.manualHold(f)
	l.polling(f)
	l.carrierStop(f)
	l.state(f)
	return l
}

func (l *looked) check(name, saw string, passed bool, asOf time.Time) {
	l.checks = append(l.checks, simwarden.Check{Name: name, Saw: saw, Passed: passed, AsOf: asOf})
}

// hold keeps one of E2's reasons.
func (l *looked) hold(f Facts, r simwarden.Reason, evidence string, since time.Time) {
	if l.first == simwarden.ReasonNone {
		l.first = r
	}
	l.warnings = append(l.warnings, fmt.Sprintf("%s: %s", r, evidence))
	l.reasons = append(l.reasons, f.since(simwarden.ReasonHeld{
		Reason: r, Owner: simwarden.OwnerPlatform, Evidence: evidence, SinceAt: since,
	}))
}

func (l *looked) plan(f Facts) {
	var ended time.Time
	for _, s := range f.Subscriptions {
		if s.Kind != simwarden.PlanMain {
			continue
		}
		if s.InForce(f.NowAt) {
			l.check(CheckPlanInForce, fmt.Sprintf("plan %s in force from %s until %s", s.PlanCode, instant(s.StartAt), instant(s.EndAt)), true, time.Time{})
			return
		}
		if !s.EndAt.After(f.NowAt) && s.EndAt.After(ended) {
			ended = s.EndAt
		}
	}
	if f.LastPlanEndedAt.After(ended) && !f.LastPlanEndedAt.After(f.NowAt) {
		ended = f.LastPlanEndedAt
	}
	var saw string
	switch {
	case f.LapseHeld:
		l.planChangeDue = true
		saw = fmt.Sprintf("the main plan ended at %s; its lapse waits for a person's release", instant(ended))
	case f.AwaitsUse:
		l.check(CheckPlanInForce, "the next main plan begins with its first use", true, time.Time{})
		return
	case !f.Scene.IgnoresPause() && sweepDue(f, ended):
		l.planChangeDue = true
		saw = fmt.Sprintf("the main plan ended at %s; its end is just being handled", instant(ended))
	case f.MainQueued:
		l.planChangeDue = true
		saw = "no main plan in force; a queued one is about to start"
	case !f.EverPlanned && ended.IsZero() && f.Unplanned != simwarden.UnplannedSuspend:
		l.neverPlanned = true
		saw = "there has never been a main plan; the account leaves such SIMs alone"
	case ended.IsZero():
		saw = "no main plan in force"
	default:
		saw = fmt.Sprintf("no main plan in force; the last one ended at %s", instant(ended))
	}
	l.check(CheckPlanInForce, saw, false, time.Time{})
	if l.planChangeDue || l.neverPlanned {
		l.warnings = append(l.warnings, saw)
		return
	}
	l.noPlan = true
	since := ended
	if since.IsZero() {
		since = f.NowAt
	}
	l.hold(f, simwarden.ReasonNoPlan, saw, since)
}

// sweepGrace is how long after a plan's end its own handling has the say (L1): it comes within a
// second or so, with scene plan_lapsed. Later than that, whoever looks concludes no_plan.
const sweepGrace = time.Minute

// sweepDue says that a main plan has ended just now and that its end was not handled yet.
func sweepDue(f Facts, ended time.Time) bool {
	if ended.IsZero() || f.NowAt.Sub(ended) >= sweepGrace {
		return false
	}
	for _, s := range f.Subscriptions {
		if s.Kind == simwarden.PlanMain && s.EndAt.Equal(ended) {
			return true
		}
	}
	return false
}

func (l *looked) data(f Facts) {
	used, allowance, limited, some := f.data()
	switch {
	case !some:
		l.check(CheckDataLeft, "no subscription in force, so no allowance to use up", true, f.UsageReadAt)
		return
	case !limited:
		l.check(CheckDataLeft, fmt.Sprintf("%s used, no limit", bytes(used)), true, f.UsageReadAt)
		return
	}
	saw := fmt.Sprintf("%s used of %s", bytes(used), bytes(allowance))
	exhausted := used >= allowance
	if f.Pool != nil {
		saw += "; " + f.Pool.saw()
		exhausted = exhausted && !f.Pool.Serves()
	}
	l.check(CheckDataLeft, saw, !exhausted, f.UsageReadAt)
	if exhausted {
		l.hold(f, simwarden.ReasonDataExhausted, saw, f.NowAt)
	}
	if f.Pool == nil || !f.Pool.Serves() { // else nothing passes an allowance: the pool bears it
		l.guardBand(f, exhausted)
	}
}

func (l *looked) realName(f Facts) {
	status := f.RealName
	if status == "" {
		status = simwarden.RealNameUnknown
	}
	switch {
	case !f.RealNameRequired:
		l.check(CheckRealNameMet, fmt.Sprintf("%s; the account does not require it", status), true, f.RealNameAt)
	case status == simwarden.RealNameVerified:
		l.check(CheckRealNameMet, "verified, as the account requires"+oddName(f), true, f.RealNameAt)
	case status == simwarden.RealNameExempt:
		l.check(CheckRealNameMet, "the account requires it; the carrier exempts this SIM"+oddName(f), true, f.RealNameAt)
	case status == simwarden.RealNameUnknown && f.HasReal && f.RealNameAt.IsZero():
		// A fact that was never read proves nothing: a first import must not switch off a fleet.
		l.realNameUnread = true
		saw := "the account requires it; it has not been read yet"
		l.check(CheckRealNameMet, saw, false, f.RealNameAt)
		l.warnings = append(l.warnings, saw)
	case status == simwarden.RealNameUnknown && f.HasReal:
		// Nor does an answer that is not understood, and asking again would bring the same.
		l.realNameUnclear = true
		saw := "the account requires it" + oddName(f)
		l.check(CheckRealNameMet, saw, false, f.RealNameAt)
		l.warnings = append(l.warnings, saw)
	default:
		saw := fmt.Sprintf("%s; the account requires it%s", status, oddName(f))
		l.check(CheckRealNameMet, saw, false, f.RealNameAt)
		l.hold(f, simwarden.ReasonRealNameUnmet, saw, f.NowAt)
	}
}

// oddName tells of an answer about the real name that is not understood, for the end of a check.
func oddName(f Facts) string {
	if f.RealNameOdd == "" {
		return ""
	}
	return fmt.Sprintf("; the carrier's latest answer %q is not understood", f.RealNameOdd)
}

func (l *looked) manualHold(f Facts) {
	if !f.ManualHold {
		l.check(CheckNoManualHold, "no person holds it suspended", true, time.Time{})
		return
	}
	saw := "suspended by a person"
	if f.ManualHoldBy != "" {
		saw = "suspended by " + f.ManualHoldBy
	}
	since := f.ManualHoldAt
	if since.IsZero() {
		since = f.NowAt
	} else {
		saw += " at " + instant(since)
	}
	l.check(CheckNoManualHold, saw, false, time.Time{})
	l.reasons = append(l.reasons, f.since(simwarden.ReasonHeld{
		Reason: simwarden.ReasonManualHold, Owner: simwarden.OwnerPerson, Evidence: saw, SinceAt: since,
	}))
}

func (l *looked) polling(f Facts) {
	switch {
	case f.SIMPaused:
		l.check(CheckPollingOn, "the SIM's polling is paused by a person", false, time.Time{})
	case f.DevicePaused:
		l.check(CheckPollingOn, "the device's polling is paused by a person", false, time.Time{})
	case f.Closed:
		l.check(CheckPollingOn, "the SIM's polling is closed", false, time.Time{})
	default:
		l.check(CheckPollingOn, "polling is on", true, time.Time{})
	}
}

// carrierStop shows a stop that the carrier made; it blocks nothing (E7, E10).
func (l *looked) carrierStop(f Facts) {
	if f.Extended == "" || f.Extended == simwarden.ExtendedNone {
		l.check(CheckNoCarrierStop, "the carrier reports none", true, f.StateReadAt)
		return
	}
	saw := string(f.Extended)
	if f.RawState != "" {
		saw = fmt.Sprintf("%s (the carrier says %q)", f.Extended, f.RawState)
	}
	l.check(CheckNoCarrierStop, saw, false, f.StateReadAt)
	since := f.StateReadAt
	if since.IsZero() {
		since = f.NowAt
	}
	l.reasons = append(l.reasons, f.since(simwarden.ReasonHeld{
		Reason: simwarden.ReasonCarrierStop, Owner: simwarden.OwnerCarrier, Evidence: saw, SinceAt: since,
	}))
}

func (l *looked) state(f Facts) {
	switch {
	case f.StateReadAt.IsZero():
		l.check(CheckStateKnown, "the state has never been read", false, f.StateReadAt)
	case f.stateUnread():
		l.check(CheckStateKnown, "the carrier's state is not known", false, f.StateReadAt)
	default:
		saw := string(f.State)
		if f.Pending {
			saw += ", the carrier is changing it"
		}
		l.check(CheckStateKnown, saw, true, f.StateReadAt)
	}
	if stale := f.staleForResume(); len(stale) > 0 {
		l.check(CheckFactsFresh, fmt.Sprintf("older than %s: %s", f.FreshFor, join(stale)), false, time.Time{})
	} else {
		l.check(CheckFactsFresh, "nothing that a resume would rest on is too old", true, time.Time{})
	}
}
