package rules

import (
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
)

// Why a decision is a leave, or takes no command; the words of Decision.Because.
const (
	BecausePollingPaused       = "polling_paused"
	BecauseDevicePollingPaused = "device_polling_paused"
	BecausePollingClosed       = "polling_closed"
	BecauseManualHold          = "manual_hold"
	BecauseNeverPlanned        = "never_planned"
	BecausePlanChangeDue       = "plan_change_due"
	BecauseStateUnknown        = "state_unknown"
	BecauseRealNameUnread      = "realname_unread"
	BecauseRealNameUnclear     = "realname_unclear"
	BecauseFactsTooOld         = "facts_too_old"
	BecauseAlreadySuspended    = "already_suspended"
	BecauseAlreadyRunning      = "already_running"
	BecauseChanging            = "carrier_is_changing_it"
	BecauseNoDirection         = "no_direction_asked"
)

// Decide says what is wanted of the SIM and why (E1). Desired names what is wanted also where the
// SIM is so already; NeedsCommand says whether a command follows. All reasons and checks are
// there whatever is decided (E10).
func Decide(f Facts) simwarden.Decision {
	l := look(f)
	d := simwarden.Decision{
		Desired: simwarden.DesiredLeave, Scene: f.Scene, DecidedAt: f.NowAt,
		Reasons: l.reasons, Checks: l.checks,
	}
	if f.Scene == simwarden.SceneManual {
		decideManual(&d, f, l)
		return d
	}
	wish(&d, f, l)
	if d.Desired != simwarden.DesiredLeave {
		fitToState(&d, f)
	}
	return d
}

// decideManual does what the person asked, whatever E2 says (E3).
func decideManual(d *simwarden.Decision, f Facts, l looked) {
	switch {
	case f.Manual != simwarden.DirectionSuspend && f.Manual != simwarden.DirectionResume:
		d.Because = BecauseNoDirection
		return
	case f.State == simwarden.StateTerminated:
		d.Because = stateWords(f.State)
		return
	case f.Manual == simwarden.DirectionSuspend:
		d.Desired, d.Reason = simwarden.DesiredSuspended, simwarden.ReasonManualHold
		if !d.Holds(simwarden.ReasonManualHold) {
			d.Reasons = append(d.Reasons, f.since(simwarden.ReasonHeld{
				Reason: simwarden.ReasonManualHold, Owner: simwarden.OwnerPerson,
				Evidence: "a person asks for it now", SinceAt: f.NowAt,
			}))
		}
	default:
		d.Desired, d.Reason = simwarden.DesiredRunning, simwarden.ReasonManualResume
		d.Reasons = without(d.Reasons, simwarden.ReasonManualHold) // it is lifted by this order
		d.Warnings = l.warnings
	}
	switch {
	case f.inState(d.Desired):
		d.Because = already(d.Desired)
	case f.stateUnread():
		d.Because, d.ReadFirst = BecauseStateUnknown, []simwarden.CheckKind{simwarden.CheckState}
	}
}

// wish applies E2 with what persons and pauses allow (E3, E5, E6), not yet looking at the state.
func wish(d *simwarden.Decision, f Facts, l looked) {
	suspend := func() {
		d.Desired, d.Reason = simwarden.DesiredSuspended, l.first
	}
	switch {
	case f.PollingStopped():
		// Under pause only the end of a plan acts, and only for that reason (E6).
		if f.Scene.EndsPlan() && l.noPlan {
			suspend()
			return
		}
		d.Because = f.heldBecause()
	case l.first != simwarden.ReasonNone && !l.neverPlanned:
		suspend()
	case f.ManualHold && f.inState(simwarden.DesiredRunning) && !f.Scene.EndsPlan():
		// Somebody else has put it back, or the person's order has come to nothing (E13, C8). What leaves the
		// SIM alone otherwise, such as a plan that is about to change, or that it never had one, is no reason to
		// let it run.
		d.Desired, d.Reason = simwarden.DesiredSuspended, simwarden.ReasonManualHold
	case f.ManualHold && f.inState(simwarden.DesiredSuspended):
		d.Because = BecauseManualHold
	case l.neverPlanned:
		d.Because = BecauseNeverPlanned
	case l.planChangeDue:
		d.Because = BecausePlanChangeDue
	case l.realNameUnread:
		d.Because, d.ReadFirst = BecauseRealNameUnread, []simwarden.CheckKind{simwarden.CheckRealName}
	case l.realNameUnclear:
		d.Because = BecauseRealNameUnclear
	case f.ManualHold:
		d.Because = BecauseManualHold
	default:
		d.Desired = simwarden.DesiredRunning
	}
}

// fitToState takes back a wish that the SIM's state does not allow, and says where it is so already.
func fitToState(d *simwarden.Decision, f Facts) {
	leave := func(because string) {
		d.Desired, d.Reason, d.Because = simwarden.DesiredLeave, simwarden.ReasonNone, because
	}
	switch {
	case f.State == simwarden.StateTerminated:
		leave(stateWords(f.State))
	case f.stateUnread():
		// The order that a plan's end causes is written all the same, since nothing may ask again
		// (C1, E6); the state is read before it is sent (ReadBeforeSending).
		if !f.Scene.EndsPlan() || d.Desired != simwarden.DesiredSuspended {
			leave(BecauseStateUnknown)
		} else {
			d.Because = BecauseStateUnknown
		}
		d.ReadFirst = []simwarden.CheckKind{simwarden.CheckState}
	case f.State == simwarden.StateInventory || f.State == simwarden.StateTestReady:
		if d.Desired == simwarden.DesiredRunning || !f.traffic() {
			leave(stateWords(f.State))
		}
	case f.inState(d.Desired):
		d.Because = already(d.Desired)
	case f.Pending:
		d.Because = BecauseChanging
	case d.Desired == simwarden.DesiredRunning:
		if stale := f.staleForResume(); len(stale) > 0 {
			d.Because, d.ReadFirst = BecauseFactsTooOld, stale
		}
	}
}

// NeedsCommand says whether a command has to follow the decision made from these facts, and in
// which direction. It does not where the SIM is to be left or is in the wanted state already (E3),
// where the carrier is changing it just now, and where a resume would rest on facts that are too
// old (E11). A person's order and a plan's end do not wait for the carrier: nothing may come
// back to them, and the carrier's answer "in progress" does.
func NeedsCommand(d simwarden.Decision, f Facts) (simwarden.Direction, bool) {
	if _, no := noCommand(d, f); no {
		return "", false
	}
	return d.Direction()
}

func noCommand(d simwarden.Decision, f Facts) (why string, no bool) {
	mustNotWait := d.Scene == simwarden.SceneManual || d.Scene.EndsPlan()
	switch {
	case d.Desired != simwarden.DesiredRunning && d.Desired != simwarden.DesiredSuspended:
		return d.Because, true
	case f.inState(d.Desired) && !(d.Scene == simwarden.SceneManual && f.stateStale()):
		return already(d.Desired), true
	case f.Pending && !mustNotWait:
		return BecauseChanging, true
	case d.Desired == simwarden.DesiredRunning && d.Scene != simwarden.SceneManual && len(f.staleForResume()) > 0:
		return BecauseFactsTooOld, true
	}
	return "", false
}

// ReadBeforeSending names what must be read before the command is sent: the state where it is
// older than the account's bound, for an automatic resume also the usage and the real-name
// status that it rests on (E11). Empty: send.
func ReadBeforeSending(d simwarden.Decision, f Facts) []simwarden.CheckKind {
	switch {
	case d.Desired == simwarden.DesiredRunning && d.Scene != simwarden.SceneManual:
		return f.staleForResume()
	case d.Desired == simwarden.DesiredLeave:
		// A state that was read just now and is still unknown is not asked for again and again.
		return slices.DeleteFunc(slices.Clone(d.ReadFirst), func(k simwarden.CheckKind) bool {
			return k == simwarden.CheckState && !f.stateStale()
		})
	case f.stateStale():
		return []simwarden.CheckKind{simwarden.CheckState}
	}
	return nil
}

func already(wanted simwarden.Desired) string {
	if wanted == simwarden.DesiredSuspended {
		return BecauseAlreadySuspended
	}
	return BecauseAlreadyRunning
}

func alreadyThere(because string) bool {
	return because == BecauseAlreadySuspended || because == BecauseAlreadyRunning
}

func stateWords(s simwarden.State) string { return fmt.Sprintf("state %s", s) }

func without(reasons []simwarden.ReasonHeld, r simwarden.Reason) []simwarden.ReasonHeld {
	out := make([]simwarden.ReasonHeld, 0, len(reasons))
	for _, held := range reasons {
		if held.Reason != r {
			out = append(out, held)
		}
	}
	return out
}
