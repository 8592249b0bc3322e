package rules_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
)

// beginnings are the worlds from which every sequence starts.
func beginnings() map[string]*world {
	planned := func(state simwarden.State, onDevice bool) *world {
		return &world{state: state, plan: true, everPlanned: true, planID: 1, onDevice: onDevice, ordered: map[string]int{}}
	}
	return map[string]*world{
		"active with a plan":                       planned(simwarden.StateActive, false),
		"active with a plan, paused on its device": planned(simwarden.StateActive, true),
		"suspended though it has a plan":           planned(simwarden.StateSuspended, false),
		"active, never planned":                    {state: simwarden.StateActive, ordered: map[string]int{}},
	}
}

// Pause, lapse, refund, top-up, manual orders and exhaustion in every order, with the steps of the
// machinery anywhere between (F71): V9, V14, E9, E10, C2 hold at each step, and the SIM comes to
// rest where it should be. Worlds that are equal in all that can matter are followed once.
func TestEveryOrder(t *testing.T) {
	const depth = 6
	for name, begin := range beginnings() {
		t.Run(name, func(t *testing.T) {
			followed := make(map[string]int) // the greatest depth left with which a world was followed
			var steps []int
			var follow func(w *world, left int) bool
			follow = func(w *world, left int) bool {
				key := w.key()
				if before, seen := followed[key]; seen && before >= left {
					return true
				}
				if _, seen := followed[key]; !seen {
					if broken := w.calm(); len(broken) > 0 {
						t.Errorf("after %s, at rest: %v", trail(steps), broken)
						return false
					}
				}
				followed[key] = left
				if left == 0 {
					return true
				}
				for i, e := range events {
					next := w.clone()
					steps = append(steps, i)
					e.do(next)
					if len(next.broken) > 0 {
						t.Errorf("%s: %v", trail(steps), next.broken)
						return false
					}
					if !follow(next, left-1) {
						return false
					}
					steps = steps[:len(steps)-1]
				}
				return true
			}
			follow(begin, depth)
			if len(followed) < 1000 {
				t.Errorf("only %d worlds were reached: the model is too tame to show anything", len(followed))
			}
			t.Logf("%d worlds", len(followed))
		})
	}
}

// The same over long sequences, drawn at random.
func TestLongSequences(t *testing.T) {
	worlds := beginnings()
	rapid.Check(t, func(t *rapid.T) {
		w := worlds[rapid.SampledFrom([]string{"active with a plan", "suspended though it has a plan"}).Draw(t, "begin")].clone()
		steps := rapid.SliceOfN(rapid.IntRange(0, len(events)-1), 1, 60).Draw(t, "steps")
		for i, s := range steps {
			events[s].do(w)
			if broken := append(w.broken, w.calm()...); len(broken) > 0 {
				t.Fatalf("%s: %v", trail(steps[:i+1]), broken)
			}
		}
	})
}

// E9: taking polling up again decides at once, without waiting for the periodic evaluation.
func TestPollingResumedDecidesAtOnce(t *testing.T) {
	w := beginnings()["active with a plan"]
	do := func(name string) {
		for _, e := range events {
			if e.name == name {
				e.do(w)
			}
		}
	}
	do("pause")
	do("exhaust")
	w.drain()
	if w.state != simwarden.StateActive {
		t.Fatalf("S4: %s, want active: no command under pause", w.state)
	}
	do("unpause")
	w.drain()
	if w.state != simwarden.StateSuspended {
		t.Fatalf("S5, E9: %s, want suspended", w.state)
	}
	do("pause")
	do("top-up")
	w.drain()
	if w.state != simwarden.StateSuspended {
		t.Fatalf("S1: %s, want suspended: no automatic resume under pause", w.state)
	}
	do("unpause")
	w.drain()
	if w.state != simwarden.StateActive || len(w.broken) > 0 {
		t.Fatalf("E9: %s, %v; want active", w.state, w.broken)
	}
}
