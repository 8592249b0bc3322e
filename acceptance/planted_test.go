package acceptance

import (
	"slices"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// TestPlantedBugsAreCaught runs a program that breaks one invariant on purpose: a checker that stays
// silent then would prove nothing when it is silent elsewhere (reliability rule 2).
func TestPlantedBugsAreCaught(t *testing.T) {
	t.Parallel()
	path := binary(t, "planted")
	suspends := []simwarden.Operation{simwarden.OpSuspend}
	for _, bug := range []struct {
		invariant, what string
		fault           lab.Fault
	}{
		{"V2", "one attempt sends twice", lab.Fault{}},
		{"V4", "a change whose answer was lost is sent again without a read", lab.Fault{Name: lab.ResetBefore, Operations: suspends, Count: 1}},
		{"V5", "the facts that are kept are not those of the decision", lab.Fault{}},
		{"V6", "the carrier's Retry-After is not waited for", lab.Fault{Name: lab.Throttle, Variant: "seconds", Seconds: 5, Operations: suspends, Count: 1}},
	} {
		t.Run(bug.invariant, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "soracom", seldom)
			sim := lapsing(w)
			if bug.fault.Name != "" {
				w.fault(bug.fault)
			}
			program := w.serve(path, "SIMWARDEN_PLANTED="+bug.invariant)
			eventually(t, "the command has ended", func() bool {
				list := w.commands(sim)
				return len(list) > 0 && !slices.ContainsFunc(list, func(c store.Command) bool { return c.State.Open() })
			})
			program.stop()
			report := w.report(t)
			for _, v := range report.Violations {
				if v.Invariant == bug.invariant {
					return
				}
			}
			t.Errorf("%s: the checker reports no %s; it reports %v and has looked at %+v", bug.what, bug.invariant, report.Violations, report.Looked)
		})
		t.Run(bug.invariant+" not planted", func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "soracom", seldom)
			sim := lapsing(w)
			if bug.fault.Name != "" {
				w.fault(bug.fault)
			}
			program := w.serve(path)
			w.ends(sim, simwarden.CommandDone)
			w.calm()
			program.stop()
			w.check()
		})
	}
}
