package rules

import (
	"time"

	"github.com/simwarden/simwarden"
)

// OpenCommand is a SIM's one open command (C2).
type OpenCommand struct {
	ID        simwarden.CommandID
	Direction simwarden.Direction
	State     simwarden.CommandState
	Scene     simwarden.Scene
	// HeldForFlap says that it waits because checks have changed the SIM too often (F30).
	HeldForFlap bool
}

// OrderInput is all that Order looks at.
type OrderInput struct {
	Decision simwarden.Decision
	Facts    Facts
	Open     *OpenCommand // nil: none
	Mode     simwarden.AccountMode
	// LastFailedDirection is that of the SIM's latest command where it failed, empty where it did
	// not; the same order is not opened again before ReopenAt (C8).
	LastFailedDirection simwarden.Direction
	ReopenAt            time.Time
	// LapseTriggered says that a command of this scene was already written for this SIM and
	// subscription (E6); TriggeredHeld that polling was stopped then, so that it has no second say
	// when polling goes on.
	LapseTriggered bool
	TriggeredHeld  bool
	// Braked says that the account's safety brake is on (C10), DriftHold that the account's policy
	// leaves a state that was changed outside to a person (E13).
	Braked    bool
	DriftHold bool
}

// OrderAction is what becomes of a decision.
type OrderAction string

// The actions. OrderNone is the safe one.
const (
	OrderNone OrderAction = "none"
	// OrderOpen writes a new command.
	OrderOpen OrderAction = "open"
	// OrderReplace ends the open, unsent command as replaced and writes a new one (C2).
	OrderReplace OrderAction = "replace"
	// OrderWithdraw ends the open, unsent command as obsolete: it is no longer wanted.
	OrderWithdraw OrderAction = "withdraw"
	// OrderWait keeps the evaluation request until the open command has ended or gone back to queued (C2). A person's newer
	// order takes the place of an older one that waits.
	OrderWait OrderAction = "wait"
	// OrderObserve records what would have been sent (C9).
	OrderObserve OrderAction = "observe"
	// OrderHold sends nothing although it would be needed; Because says what holds it back.
	OrderHold OrderAction = "hold"
)

// Ordered is what Order says.
type Ordered struct {
	Action    OrderAction
	Direction simwarden.Direction // of the command that is opened, observed or held back
	Because   string
	// NotBefore is the earliest instant at which an opened command may be sent; zero: at once. UTC.
	NotBefore time.Time
}

// Order says what to do about the SIM's commands, given a new decision.
func Order(in OrderInput) Ordered {
	if in.Open != nil && in.Open.State.UnderWay() {
		return orderUnderWay(in)
	}
	if in.Open != nil && in.Open.State.Open() {
		return orderQueued(in)
	}
	return orderFresh(in)
}

// orderUnderWay never touches the command: a request may be at the carrier. What counts is what is
// wanted, not what was last read: the read may be older than the request.
func orderUnderWay(in OrderInput) Ordered {
	wanted, some := in.Decision.Direction()
	if some && wanted != in.Open.Direction {
		return Ordered{Action: OrderWait, Direction: wanted, Because: "the opposite command is under way"}
	}
	if scene := in.Decision.Scene; some && (scene.EndsPlan() || outlasts(scene, in.Open.Scene)) {
		// Should this one fail, it would be judged as its own scene and might end; the newer must
		// not. And a plan's end keeps its turn behind a person's older order that waits as well.
		return Ordered{Action: OrderWait, Direction: wanted, Because: "the same command is under way for another cause"}
	}
	return Ordered{Action: OrderNone, Because: "a command is under way"}
}

func orderQueued(in OrderInput) Ordered {
	d, open := in.Decision, in.Open
	wanted, some := d.Direction()
	if open.Scene == simwarden.SceneManual && d.Scene != simwarden.SceneManual {
		if d.Scene.EndsPlan() && some && wanted != open.Direction {
			// Nothing may come back to the plan's end, so it waits behind the person's order (C1, E6).
			return Ordered{Action: OrderWait, Direction: wanted, Because: "a person's order goes first"}
		}
		return Ordered{Action: OrderNone, Because: "a person's order is open"}
	}
	if !some {
		return orderQueuedLeave(in)
	}
	if wanted != open.Direction {
		next := orderFresh(in)
		if next.Action == OrderOpen {
			next.Action = OrderReplace
			return next
		}
		return Ordered{Action: OrderWithdraw, Because: "the opposite is wanted"}
	}
	if why, no := noCommand(d, in.Facts); no && alreadyThere(why) {
		return Ordered{Action: OrderWithdraw, Because: why}
	}
	// The judgement before sending uses the command's own scene (C3). So an order that must
	// outlive a change of mind (a person's) or a pause (a plan's end, E6) takes the place of one
	// that would not.
	// Nor must what a top-up or a purchase asks for wait where a check's change has to (F30).
	if outlasts(d.Scene, open.Scene) || open.HeldForFlap && !d.Scene.FromCheck() {
		if next := orderFresh(in); next.Action == OrderOpen {
			next.Action = OrderReplace
			return next
		}
	}
	return Ordered{Action: OrderNone, Because: "the same command is queued"}
}

func orderQueuedLeave(in OrderInput) Ordered {
	d, open := in.Decision, in.Open
	switch {
	case d.Because == BecauseStateUnknown || d.Because == BecauseRealNameUnread || d.Because == BecausePlanChangeDue:
		// The judgement before sending will know more.
		return Ordered{Action: OrderNone, Because: d.Because}
	case in.Facts.PollingStopped() && open.Scene.EndsPlan() && !d.Scene.EndsPlan():
		return Ordered{Action: OrderNone, Because: "a plan's end is carried out under pause"}
	}
	return Ordered{Action: OrderWithdraw, Because: d.Because}
}

// orderFresh decides as if nothing were open.
func orderFresh(in OrderInput) Ordered {
	d, f := in.Decision, in.Facts
	if why, no := noCommand(d, f); no {
		return Ordered{Action: OrderNone, Because: why}
	}
	direction, _ := d.Direction()
	manual := d.Scene == simwarden.SceneManual
	hold := func(why string) Ordered {
		return Ordered{Action: OrderHold, Direction: direction, Because: why}
	}
	failedBefore := in.LastFailedDirection == direction && f.NowAt.Before(in.ReopenAt)
	switch {
	case in.Mode != simwarden.ModeAct:
		return Ordered{Action: OrderObserve, Direction: direction, Because: "the account observes"}
	case manual:
		return Ordered{Action: OrderOpen, Direction: direction}
	case d.Scene.EndsPlan():
		if in.LapseTriggered && (f.PollingStopped() || in.TriggeredHeld) {
			return hold("lapse already triggered")
		}
		if failedBefore && in.LapseTriggered {
			return hold(notBefore(in.ReopenAt))
		}
		next := Ordered{Action: OrderOpen, Direction: direction}
		if failedBefore {
			// Nothing rescans a paused SIM for its lapse: the order is written now and waits (C1, E6).
			next.NotBefore, next.Because = in.ReopenAt, notBefore(in.ReopenAt)
		}
		return next
	case failedBefore:
		return hold(notBefore(in.ReopenAt))
	case in.DriftHold:
		return hold("drift_policy")
	case in.Braked && direction == simwarden.DirectionSuspend:
		return hold("braked")
	}
	return Ordered{Action: OrderOpen, Direction: direction}
}

func notBefore(at time.Time) string {
	return "same order failed, not before " + at.UTC().Format(time.RFC3339)
}

// outlasts says that a command of scene a may still hold where one of scene b no longer does.
func outlasts(a, b simwarden.Scene) bool {
	if a == simwarden.SceneManual {
		return b != simwarden.SceneManual
	}
	return a.EndsPlan() && !b.IgnoresPause()
}
