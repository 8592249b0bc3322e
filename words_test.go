package simwarden_test

import (
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
)

// every checks that a list of words has no gap, no double and no empty one.
func every[T ~string](t *testing.T, what string, words []T, n int) {
	t.Helper()
	seen := map[T]bool{}
	for _, w := range words {
		if w == "" || seen[w] {
			t.Errorf("%s: %q is empty or there twice", what, w)
		}
		seen[w] = true
	}
	if len(words) != n {
		t.Errorf("%s: %d words, there should be %d", what, len(words), n)
	}
}

func TestWordsAreComplete(t *testing.T) {
	every(t, "scenes (E4)", simwarden.Scenes(), 15)
	every(t, "states", simwarden.States(), 6)
	every(t, "extended states", simwarden.ExtendedStates(), 6)
	every(t, "real names, and exempt", simwarden.RealNames(), 4)
	every(t, "reasons (E2, E10)", simwarden.Reasons(), 5)
	every(t, "command states (C2)", simwarden.CommandStates(), 9)
	every(t, "purposes (G2)", simwarden.Purposes(), 6)
	every(t, "operations", simwarden.Operations(), 12)
	every(t, "kinds of check (P1)", simwarden.CheckKinds(), 3)
	every(t, "states of a subscription", simwarden.SubscriptionStates(), 6)
}

func TestScenesThatPassAPause(t *testing.T) {
	for _, s := range simwarden.Scenes() {
		ends := s == simwarden.ScenePlanLapsed || s == simwarden.SceneRefunded
		if s.EndsPlan() != ends {
			t.Errorf("E6: %s ends a plan: %t", s, s.EndsPlan())
		}
		if want := ends || s == simwarden.SceneManual; s.IgnoresPause() != want {
			t.Errorf("E5: %s passes a pause: %t", s, s.IgnoresPause())
		}
	}
}

func TestCommandStatesOpenAndUnderWay(t *testing.T) {
	open := []simwarden.CommandState{"queued", "sending", "verifying", "confirming"}
	for _, s := range simwarden.CommandStates() {
		if s.Open() != slices.Contains(open, s) {
			t.Errorf("C2: %s is open: %t", s, s.Open())
		}
		if want := slices.Contains(open[1:], s); s.UnderWay() != want {
			t.Errorf("C2: %s is under way: %t", s, s.UnderWay())
		}
	}
}

func TestDirections(t *testing.T) {
	if simwarden.DirectionSuspend.Opposite() != simwarden.DirectionResume || simwarden.DirectionResume.Opposite() != simwarden.DirectionSuspend {
		t.Error("suspend and resume are not opposites")
	}
	if simwarden.DirectionSuspend.Target() != simwarden.StateSuspended || simwarden.DirectionResume.Target() != simwarden.StateActive {
		t.Error("a direction leads to the wrong state")
	}
	for desired, want := range map[simwarden.Desired]simwarden.Direction{"suspended": "suspend", "running": "resume", "leave": ""} {
		got, some := simwarden.Decision{Desired: desired}.Direction()
		if got != want || some != (want != "") {
			t.Errorf("%s takes %q, %t", desired, got, some)
		}
	}
	for _, op := range simwarden.Operations() {
		changes := op == simwarden.OperationOf(simwarden.DirectionSuspend) || op == simwarden.OperationOf(simwarden.DirectionResume)
		if op.ChangesState() != changes {
			t.Errorf("C6: %s changes a SIM: %t", op, op.ChangesState())
		}
	}
}

func TestPurposesThatPassALimit(t *testing.T) {
	for _, p := range simwarden.Purposes() {
		if want := p != simwarden.PurposePoll && p != simwarden.PurposeCommand; p.Exempt() != want {
			t.Errorf("G2: %s passes a limit group: %t", p, p.Exempt())
		}
	}
}

func TestExtendedStatesThatClosePolling(t *testing.T) {
	for _, e := range simwarden.ExtendedStates() {
		if want := e == "risk_suspended" || e == "terminated"; e.ClosesPolling() != want {
			t.Errorf("P5: %s closes polling: %t", e, e.ClosesPolling())
		}
	}
}

func TestSubscriptionInForce(t *testing.T) {
	start := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	end := start.AddDate(0, 1, 0)
	for _, s := range simwarden.SubscriptionStates() {
		sub := simwarden.Subscription{State: s, StartAt: start, EndAt: end}
		counts := s == simwarden.SubscriptionActive || s == simwarden.SubscriptionExhausted
		for at, within := range map[time.Time]bool{start.Add(-1): false, start: true, end.Add(-1): true, end: false} {
			if got := sub.InForce(at); got != (counts && within) {
				t.Errorf("%s at %s counts: %t", s, at, got)
			}
		}
	}
}

func TestDecisionHolds(t *testing.T) {
	d := simwarden.Decision{Reasons: []simwarden.ReasonHeld{{Reason: simwarden.ReasonNoPlan}, {Reason: simwarden.ReasonRealNameUnmet}}}
	for _, r := range simwarden.Reasons() {
		if want := r == simwarden.ReasonNoPlan || r == simwarden.ReasonRealNameUnmet; d.Holds(r) != want {
			t.Errorf("E10: %s holds: %t", r, d.Holds(r))
		}
	}
}
