package rules_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// world is a small model of everything around the rules: one SIM at a carrier that does as it is
// told, its plans, what persons said, and its one open command. It applies Decide and Order as
// reconcile does, and judges again before sending as the commander does. It checks each command by
// its own knowledge, not by the rules'.
type world struct {
	state                    simwarden.State
	paused, closed, onDevice bool
	hold                     bool
	// The main plan in force, if any, and what has happened to the ones before.
	plan, everPlanned, exhausted bool
	planID                       simwarden.SubscriptionID
	// endedID and endedBy are the plan that ended last and the scene of its end.
	endedID simwarden.SubscriptionID
	endedBy simwarden.Scene

	open    *rules.OpenCommand
	waiting []request
	// ordered counts the commands by (subscription, scene) of a plan's end.
	ordered map[string]int
	// lapseOwed says that a plan's end was the last word: the SIM has to be suspended.
	lapseOwed bool
	// outside says that somebody else was the last to change the SIM, at the carrier (E13).
	outside bool
	broken  []string
}

// request is an evaluation request that waits for a command under way.
type request struct {
	scene  simwarden.Scene
	manual simwarden.Direction
}

func (w *world) clone() *world {
	c := *w
	if w.open != nil {
		open := *w.open
		c.open = &open
	}
	c.waiting = slices.Clone(w.waiting)
	c.ordered = maps.Clone(w.ordered)
	return &c
}

// key tells worlds apart whose futures may differ.
func (w *world) key() string {
	open := "-"
	if w.open != nil {
		open = fmt.Sprint(w.open.Direction, w.open.State, w.open.Scene)
	}
	return fmt.Sprint(w.state, w.paused, w.closed, w.hold, w.plan, w.everPlanned, w.exhausted, w.planID,
		w.endedID, w.endedBy, open, w.waiting, w.ordered, w.lapseOwed, w.outside)
}

func (w *world) held() bool { return w.paused || w.closed }

// shouldRun is E2 and E3 in the model's own words.
func (w *world) shouldRun() bool { return w.plan && !w.exhausted && !w.hold }

func (w *world) complain(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
}

func (w *world) facts(r request) rules.Facts {
	f := rules.Facts{
		NowAt: noon, Scene: r.scene, Manual: r.manual,
		State: w.state, Extended: simwarden.ExtendedNone, StateReadAt: noon, UsageReadAt: noon,
		TrafficStates: []simwarden.State{simwarden.StateActive}, RealName: simwarden.RealNameUnknown,
		ManualHold: w.hold, Closed: w.closed, SIMPaused: w.paused && !w.onDevice, DevicePaused: w.paused && w.onDevice,
		EverPlanned: w.everPlanned, Unplanned: simwarden.UnplannedLeave, FreshFor: time.Hour, HasUsage: true,
	}
	if w.closed {
		f.Extended = simwarden.ExtendedRiskSuspended
	}
	if w.plan {
		s := mainPlan(0)
		s.ID = w.planID
		if w.exhausted {
			s.UsedBytes = s.AllowanceBytes
		}
		f.Subscriptions = []rules.SubscriptionFact{s}
	} else if w.everPlanned {
		f.LastPlanEndedAt = noon.Add(-time.Second)
	}
	return f
}

func (w *world) lapseKey(s simwarden.Scene) string { return fmt.Sprintf("%d/%s", w.endedID, s) }

// evaluate is what reconcile does with one evaluation request.
func (w *world) evaluate(r request) {
	f := w.facts(r)
	d := rules.Decide(f)
	o := rules.Order(rules.OrderInput{
		Decision: d, Facts: f, Open: w.open, Mode: simwarden.ModeAct,
		LapseTriggered: r.scene.EndsPlan() && w.ordered[w.lapseKey(r.scene)] > 0,
	})
	switch o.Action {
	case rules.OrderWithdraw, rules.OrderReplace, rules.OrderOpen:
		if w.open != nil && w.open.State.UnderWay() {
			w.complain("C2: %s while a command is under way", o.Action)
		}
		if o.Action == rules.OrderOpen && w.open != nil {
			w.complain("C2: a second command is opened")
		}
		if w.open != nil && w.open.Scene == simwarden.SceneManual && r.scene != simwarden.SceneManual {
			w.complain("E3: scene %s ends a person's order", r.scene)
		}
		if o.Action == rules.OrderWithdraw {
			w.end()
		} else {
			w.begin(r, o.Direction)
		}
	case rules.OrderWait:
		w.waiting = append(w.waiting, r)
	}
	held := slices.ContainsFunc(d.Reasons, func(h simwarden.ReasonHeld) bool { return h.Reason == simwarden.ReasonNoPlan })
	if held == w.plan && w.everPlanned {
		w.complain("E10: no_plan is %t with a plan in force %t", held, w.plan)
	}
	if d.Holds(simwarden.ReasonDataExhausted) != (w.plan && w.exhausted) {
		w.complain("E10: data_exhausted is not kept, decision %s because %q", d.Desired, d.Because)
	}
	if r.scene != simwarden.SceneManual && d.Holds(simwarden.ReasonManualHold) != w.hold {
		w.complain("E10: manual_hold is not kept")
	}
}

func (w *world) begin(r request, direction simwarden.Direction) {
	w.open = &rules.OpenCommand{ID: 1, Direction: direction, State: simwarden.CommandQueued, Scene: r.scene}
	if r.scene.EndsPlan() {
		if w.held() && w.ordered[w.lapseKey(r.scene)] > 0 {
			w.complain("V9: a second command of scene %s for subscription %d", r.scene, w.endedID)
		}
		w.ordered[w.lapseKey(r.scene)]++
	}
	if w.held() && r.scene != simwarden.SceneManual && (!r.scene.EndsPlan() || direction != simwarden.DirectionSuspend) {
		w.complain("V9: scene %s opened a %s under pause", r.scene, direction)
	}
}

// send claims the queued command and judges it afresh with its own scene (C3).
func (w *world) send() {
	if w.open == nil || w.open.State != simwarden.CommandQueued {
		return
	}
	c := w.open
	r := request{scene: c.Scene}
	if c.Scene == simwarden.SceneManual {
		r.manual = c.Direction
	}
	f := w.facts(r)
	d := rules.Decide(f)
	if direction, needed := rules.NeedsCommand(d, f); !needed || direction != c.Direction {
		w.end() // obsolete
		return
	}
	if stale := rules.ReadBeforeSending(d, f); len(stale) > 0 {
		w.complain("E11: everything is fresh, yet %v is to be read", stale)
	}
	automatic := c.Scene != simwarden.SceneManual
	switch {
	case automatic && w.held() && (!c.Scene.EndsPlan() || c.Direction != simwarden.DirectionSuspend || w.plan):
		w.complain("V9: a %s of scene %s is sent under pause", c.Direction, c.Scene)
	case automatic && w.hold && c.Direction == simwarden.DirectionResume:
		w.complain("V14: scene %s lifts a manual suspend", c.Scene)
	case automatic && (c.Direction == simwarden.DirectionResume) != w.shouldRun() && !w.held():
		w.complain("E2: a %s of scene %s is sent against the facts", c.Direction, c.Scene)
	}
	c.State = simwarden.CommandSending
}

// settle lets the carrier act on the command under way and ends it.
func (w *world) settle() {
	if w.open == nil || !w.open.State.UnderWay() {
		return
	}
	w.state, w.outside = w.open.Direction.Target(), false
	w.end()
}

// end ends the open command.
func (w *world) end() {
	w.open = nil
	w.judgeWaiting()
}

func (w *world) judgeWaiting() {
	waiting := w.waiting
	w.waiting = nil
	for _, r := range waiting {
		w.evaluate(r)
	}
}

// drain carries out all that is open. It must come to an end by itself.
func (w *world) drain() {
	for range 20 {
		if w.open == nil {
			return
		}
		w.send()
		w.settle()
	}
	w.complain("C2: commands follow each other without end")
}

func (w *world) endPlan(s simwarden.Scene) {
	if !w.plan {
		return
	}
	w.plan, w.exhausted, w.endedID, w.endedBy, w.lapseOwed = false, false, w.planID, s, true
	w.evaluate(request{scene: s})
}

// manual is a person's order: it is written down at once, and a newer one takes the place of one
// that waits.
func (w *world) manual(d simwarden.Direction) {
	w.hold = d == simwarden.DirectionSuspend
	if d == simwarden.DirectionResume {
		w.lapseOwed = false
	}
	w.waiting = slices.DeleteFunc(w.waiting, func(r request) bool { return r.scene == simwarden.SceneManual })
	w.evaluate(request{scene: simwarden.SceneManual, manual: d})
}

// events are what can happen to the world, in one step each.
var events = []struct {
	name string
	do   func(*world)
}{
	{"pause", func(w *world) { w.paused = true }},
	{"unpause", func(w *world) {
		w.paused = false
		w.evaluate(request{scene: simwarden.ScenePollingResumed})
	}},
	{"lapse", func(w *world) { w.endPlan(simwarden.ScenePlanLapsed) }},
	{"refund", func(w *world) { w.endPlan(simwarden.SceneRefunded) }},
	{"top-up", func(w *world) {
		if !w.plan {
			w.planID++
		}
		w.plan, w.everPlanned, w.exhausted, w.lapseOwed = true, true, false, false
		w.evaluate(request{scene: simwarden.SceneToppedUp})
	}},
	{"manual suspend", func(w *world) { w.manual(simwarden.DirectionSuspend) }},
	{"manual resume", func(w *world) { w.manual(simwarden.DirectionResume) }},
	{"exhaust", func(w *world) {
		w.exhausted = w.plan
		w.evaluate(request{scene: simwarden.SceneUsageCheck})
	}},
	// Beyond what persons do: the steps of the machinery, at any time between.
	{"send", (*world).send},
	{"settle", (*world).settle},
	{"temporary failure", func(w *world) {
		if w.open != nil && w.open.State.UnderWay() {
			w.open.State = simwarden.CommandQueued
			w.judgeWaiting() // it is not under way any more
		}
	}},
	{"periodic", func(w *world) { w.evaluate(request{scene: simwarden.ScenePeriodic}) }},
	{"lapse evaluated again", func(w *world) {
		if w.endedBy != "" {
			w.evaluate(request{scene: w.endedBy})
		}
	}},
	{"resumed outside", func(w *world) {
		if w.open == nil && w.state == simwarden.StateSuspended {
			w.state, w.outside, w.lapseOwed = simwarden.StateActive, true, false
			w.evaluate(request{scene: simwarden.SceneStateCheck})
		}
	}},
	{"close", func(w *world) {
		w.closed = true
		w.evaluate(request{scene: simwarden.SceneStateCheck})
	}},
	{"reopen", func(w *world) {
		w.closed = false
		w.evaluate(request{scene: simwarden.ScenePollingResumed})
	}},
}

// calm checks where the world comes to rest from here (V12).
func (w *world) calm() []string {
	rest := w.clone()
	rest.drain()
	if rest.lapseOwed && rest.everPlanned && rest.state != simwarden.StateSuspended {
		rest.complain("E6: the end of the plan is lost, the SIM is %s", rest.state)
	}
	// What somebody else resumed, the next evaluation suspends again, and none does under pause (E5, E13).
	if rest.hold && rest.state != simwarden.StateSuspended && !rest.outside {
		rest.complain("E3: a person suspended it, yet it is %s", rest.state)
	}
	if !rest.held() && (rest.everPlanned || rest.hold) {
		rest.evaluate(request{scene: simwarden.ScenePeriodic})
		rest.drain()
		if want := map[bool]simwarden.State{true: simwarden.StateActive, false: simwarden.StateSuspended}[rest.shouldRun()]; rest.state != want {
			rest.complain("E10: plan %t, exhausted %t, hold %t: it rests %s, want %s", rest.plan, rest.exhausted, rest.hold, rest.state, want)
		}
	}
	return rest.broken
}

func trail(steps []int) string {
	names := make([]string, len(steps))
	for i, s := range steps {
		names[i] = events[s].name
	}
	return strings.Join(names, ", ")
}
