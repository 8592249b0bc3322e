package rules_test

import (
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestOrder(t *testing.T) {
	const (
		suspend = simwarden.DirectionSuspend
		resume  = simwarden.DirectionResume
	)
	open := func(d simwarden.Direction, s simwarden.CommandState, sc simwarden.Scene) func(*rules.OrderInput) {
		return func(in *rules.OrderInput) {
			in.Open = &rules.OpenCommand{ID: 7, Direction: d, State: s, Scene: sc}
		}
	}
	queued := func(d simwarden.Direction, sc simwarden.Scene) func(*rules.OrderInput) {
		return open(d, simwarden.CommandQueued, sc)
	}
	observe := func(in *rules.OrderInput) { in.Mode = simwarden.ModeObserve }
	failed := func(d simwarden.Direction) func(*rules.OrderInput) {
		return func(in *rules.OrderInput) { in.LastFailedDirection, in.ReopenAt = d, noon.Add(10*time.Minute) }
	}
	triggered := func(in *rules.OrderInput) { in.LapseTriggered = true }
	triggeredHeld := func(in *rules.OrderInput) { in.LapseTriggered, in.TriggeredHeld = true, true }
	braked := func(in *rules.OrderInput) { in.Braked = true }
	drift := func(in *rules.OrderInput) { in.DriftHold = true }
	both := func(c ...func(*rules.OrderInput)) func(*rules.OrderInput) {
		return func(in *rules.OrderInput) {
			for _, c := range c {
				c(in)
			}
		}
	}
	nothing := both()
	exhausted := used(2_000_000_000)

	tests := []struct {
		name      string
		facts     change
		in        func(*rules.OrderInput)
		action    rules.OrderAction
		direction simwarden.Direction
	}{
		// nothing open
		{"C1: a suspend that is needed is opened", lapsed, nothing, rules.OrderOpen, suspend},
		{"C1: a resume likewise", state("suspended"), nothing, rules.OrderOpen, resume},
		{"E3: what is so already opens nothing", also(), nothing, rules.OrderNone, ""},
		{"E5: a leave opens nothing", also(paused, exhausted), nothing, rules.OrderNone, ""},
		{"E11: a resume on old facts opens nothing", also(state("suspended"), usageAge(2*time.Hour)), nothing, rules.OrderNone, ""},
		{"an ended command is none", lapsed, open(suspend, simwarden.CommandFailed, "periodic"), rules.OrderOpen, suspend},

		// C9
		{"C9: an account that observes sends no suspend", lapsed, observe, rules.OrderObserve, suspend},
		{"C9: nor a person's", manual(suspend), observe, rules.OrderObserve, suspend},
		{"C9: an account without a mode observes", lapsed, func(in *rules.OrderInput) { in.Mode = "" }, rules.OrderObserve, suspend},
		{"C9: observing uses up no trigger", also(paused, lapsed, scene("plan_lapsed")), both(observe, triggered), rules.OrderObserve, suspend},
		{"C9: nothing needed, nothing observed", also(), observe, rules.OrderNone, ""},

		// C8
		{"C8: the same order waits after a failure", lapsed, failed(suspend), rules.OrderHold, suspend},
		{"C8: the opposite does not", state("suspended"), failed(suspend), rules.OrderOpen, resume},
		{"C8: nor once the pause is over", lapsed, func(in *rules.OrderInput) { in.LastFailedDirection, in.ReopenAt = suspend, noon }, rules.OrderOpen, suspend},
		{"C8: nor a person's", manual(suspend), failed(suspend), rules.OrderOpen, suspend},
		{"C8: a new lapse is written at once and waits as a command", also(paused, lapsed, scene("plan_lapsed")), failed(suspend), rules.OrderOpen, suspend},
		{"C8: the same lapse waits", also(lapsed, scene("plan_lapsed")), both(failed(suspend), triggered), rules.OrderHold, suspend},

		// C10
		{"C10: the brake holds automatic suspends", exhausted, braked, rules.OrderHold, suspend},
		{"C10: resumes pass it", state("suspended"), braked, rules.OrderOpen, resume},
		{"C10: lapses pass it", also(lapsed, scene("plan_lapsed")), braked, rules.OrderOpen, suspend},
		{"C10: refunds pass it", also(lapsed, scene("refunded")), braked, rules.OrderOpen, suspend},
		{"C10: a person passes it", manual(suspend), braked, rules.OrderOpen, suspend},

		// E6
		{"E6: a paused SIM's lapse is triggered once", also(paused, lapsed, scene("plan_lapsed")), triggered, rules.OrderHold, suspend},
		{"E6: so is a closed one's", also(closed, lapsed, scene("refunded")), triggered, rules.OrderHold, suspend},
		{"E6: nor has it a second say when polling goes on", also(lapsed, scene("plan_lapsed")), triggeredHeld, rules.OrderHold, suspend},
		{"E9: the evaluation when polling goes on suspends it", also(lapsed, scene("polling_resumed")), triggeredHeld, rules.OrderOpen, suspend},
		{"E6: without a pause it is judged as ever", also(lapsed, scene("plan_lapsed")), triggered, rules.OrderOpen, suspend},

		// E13
		{"E13: drift that only alerts is left to a person", state("suspended"), drift, rules.OrderHold, resume},
		{"E13: a person's order is no drift", also(state("suspended"), manual(resume)), drift, rules.OrderOpen, resume},
		{"E13: a plan's end is no drift", also(lapsed, scene("plan_lapsed")), drift, rules.OrderOpen, suspend},

		// C2, queued
		{"C2: the same one stays", exhausted, queued(suspend, "usage_check"), rules.OrderNone, ""},
		{"C2: the opposite one is replaced", state("suspended"), queued(suspend, "usage_check"), rules.OrderReplace, resume},
		{"C2: the opposite one is withdrawn where nothing else is needed", also(), queued(suspend, "usage_check"), rules.OrderWithdraw, ""},
		{"C2: also where the account observes", state("suspended"), both(queued(suspend, "usage_check"), observe), rules.OrderWithdraw, ""},
		{"C3: one that has become so by itself is withdrawn", also(exhausted, state("suspended")), queued(suspend, "usage_check"), rules.OrderWithdraw, ""},
		{"C2: one whose SIM the carrier is changing stays", also(exhausted, pending), queued(suspend, "usage_check"), rules.OrderNone, ""},
		{"E11: a queued resume whose facts have grown old stays: they are read before sending", also(state("suspended"), usageAge(2*time.Hour)), queued(resume, "topped_up"), rules.OrderNone, ""},
		{"E3: a queued resume ends when a person has suspended", also(hold, state("suspended")), queued(resume, "topped_up"), rules.OrderWithdraw, ""},
		{"E3: a queued command stays while the state is unknown", unread, queued(suspend, "usage_check"), rules.OrderNone, ""},
		{"S10: a queued lapse stays while the next plan is about to start", also(lapsed, func(f *rules.Facts) { f.MainQueued = true }), queued(suspend, "plan_lapsed"), rules.OrderNone, ""},
		{"E5: a pause withdraws an automatic command", also(paused, exhausted), queued(suspend, "usage_check"), rules.OrderWithdraw, ""},
		{"E5: but not the end of a plan", also(paused, lapsed), queued(suspend, "plan_lapsed"), rules.OrderNone, ""},
		{"E5: nor a person's order", also(paused, exhausted), queued(suspend, "manual"), rules.OrderNone, ""},
		{"E6: a refund that leaves another plan withdraws the lapse", also(paused, scene("refunded")), queued(suspend, "plan_lapsed"), rules.OrderWithdraw, ""},
		{"E6: a plan's end takes over from a command that a pause would end", also(lapsed, scene("plan_lapsed")), queued(suspend, "usage_check"), rules.OrderReplace, suspend},
		{"E6: but one trigger is enough", also(paused, lapsed, scene("plan_lapsed")), both(queued(suspend, "usage_check"), triggered), rules.OrderNone, ""},
		{"E6: a lapse that is queued is not queued again", also(lapsed, scene("refunded")), queued(suspend, "plan_lapsed"), rules.OrderNone, ""},
		{"E3: a person's order is not replaced by an automatic one", state("suspended"), queued(suspend, "manual"), rules.OrderNone, ""},
		{"E6: a plan's end waits behind a person's order to resume", also(paused, lapsed, state("suspended"), scene("plan_lapsed")), queued(resume, "manual"), rules.OrderWait, suspend},
		{"E6: behind one to suspend it need not", also(paused, lapsed, scene("plan_lapsed")), queued(suspend, "manual"), rules.OrderNone, ""},
		{"E3: a person's order takes over from an automatic one, so that it is judged as theirs", manual(suspend), queued(suspend, "usage_check"), rules.OrderReplace, suspend},
		{"E3: twice is once", manual(suspend), queued(suspend, "manual"), rules.OrderNone, ""},
		{"E3: a person changes their mind before it is sent", manual(resume), queued(suspend, "manual"), rules.OrderWithdraw, ""},
		{"E3: or when the SIM is suspended already", also(state("suspended"), manual(resume)), queued(suspend, "manual"), rules.OrderReplace, resume},

		// C2, under way
		{"C2: the opposite waits while one is sent", state("suspended"), open(suspend, simwarden.CommandSending, "usage_check"), rules.OrderWait, resume},
		{"C2: also where the state read before shows it as not needed", also(), open(suspend, simwarden.CommandVerifying, "usage_check"), rules.OrderWait, resume},
		{"C2: a person waits too", manual(resume), open(suspend, simwarden.CommandConfirming, "usage_check"), rules.OrderWait, resume},
		{"C2: the same needs nothing", exhausted, open(suspend, simwarden.CommandSending, "usage_check"), rules.OrderNone, ""},
		{"E6: a plan's end waits for the same command of a scene that a pause would end", also(lapsed, scene("plan_lapsed")), open(suspend, simwarden.CommandVerifying, "usage_check"), rules.OrderWait, suspend},
		{"E3: a person's order likewise", manual(suspend), open(suspend, simwarden.CommandSending, "usage_check"), rules.OrderWait, suspend},
		{"C2: a leave stops nothing that is under way", also(paused, exhausted), open(suspend, simwarden.CommandSending, "usage_check"), rules.OrderNone, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy(tt.facts)
			in := rules.OrderInput{Decision: rules.Decide(f), Facts: f, Mode: simwarden.ModeAct}
			tt.in(&in)
			got := rules.Order(in)
			if got.Action != tt.action || got.Direction != tt.direction {
				t.Errorf("%s %s (%s), want %s %s", got.Action, got.Direction, got.Because, tt.action, tt.direction)
			}
			if got.Action != rules.OrderOpen && got.Action != rules.OrderReplace && got.Because == "" {
				t.Error("nothing is said about why no command is opened")
			}
		})
	}
}

func TestOrderSaysWhen(t *testing.T) {
	f := healthy(paused, lapsed, scene("plan_lapsed"))
	in := rules.OrderInput{Decision: rules.Decide(f), Facts: f, Mode: simwarden.ModeAct,
		LastFailedDirection: simwarden.DirectionSuspend, ReopenAt: noon.Add(10 * time.Minute)}
	if got := rules.Order(in); !got.NotBefore.Equal(in.ReopenAt) {
		t.Errorf("C8: not before %s, want %s", got.NotBefore, in.ReopenAt)
	}
	f = healthy(lapsed)
	in.Decision, in.Facts = rules.Decide(f), f
	if got := rules.Order(in); !strings.Contains(got.Because, "not before 2026-03-10T12:10:00Z") {
		t.Errorf("C8: because %q, want the instant", got.Because)
	}
}
