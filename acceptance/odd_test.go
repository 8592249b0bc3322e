package acceptance

import (
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// A carrier whose figures go wrong for a fleet at once, and a SIM of it that by its own true figures should be
// suspended, and one that should be resumed: the suspend waits for a person, the resume does not (F29, F30, V13).
func TestV13WhereAFleetReadsOddSuspendsWaitAndResumesDoNot(t *testing.T) {
	t.Parallel()
	const fleet, allowance = 10, 1 << 20 // as many as is odd in an account of so few (rules.OddLimit)
	for name, fault := range map[string]lab.Fault{
		"F29: megabytes become kilobytes": {Name: lab.UnitChange},
		"F30: every SIM is suspended":     {Name: lab.MassState, State: simwarden.StateSuspended},
		"F30: every SIM has ended":        {Name: lab.MassState, State: simwarden.StateTerminated},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "soracom")
			p := w.plan(time.Hour, allowance)
			var odd []card
			for range fleet + 2 {
				c := w.add(simwarden.StateActive, true)
				w.must(w.carrier.AddUsage(c.iccid, 100_000))
				w.buy(c, p)
				if len(odd) < fleet {
					fault.ICCIDs = append(fault.ICCIDs, c.iccid)
				}
				odd = append(odd, c)
			}
			uses, comes := odd[fleet], odd[fleet+1]
			odd = odd[:fleet]
			w.run()
			eventually(t, "all are read, and as they should be", func() bool {
				return w.count(`SELECT count(*) FROM poll_state WHERE settled AND desired = 'running' AND state = 'active' AND usage_counter_bytes = 100000`) == fleet+2
			})
			w.must(w.carrier.AddUsage(comes.iccid, 2*allowance))
			w.stops(comes)

			w.fault(fault)
			eventually(t, "the brake is on", func() bool { return w.count(`SELECT count(*) FROM account WHERE braked_at IS NOT NULL`) == 1 })
			if n := w.count(`SELECT count(*) FROM alert WHERE kind = $1 AND cleared_at IS NULL AND key LIKE 'brake:%'`, store.AlertBrake); n != 1 {
				t.Errorf("%d alerts of the brake, want one", n)
			}
			w.must(w.carrier.AddUsage(uses.iccid, 2*allowance))
			w.topUp(comes, 1<<40)
			w.comesBack(comes)
			var summary string
			eventually(t, "explain says that the suspend is held, and why", func() bool {
				e, err := w.person().Explain(w.ctx, uses.iccid)
				w.must(err)
				summary = e.Summary
				return strings.Contains(summary, "safety brake is on") && strings.Contains(summary, "read odd")
			})
			if list := w.commands(uses); len(list) != 0 {
				t.Errorf("the suspend is not held: %s", describe(list))
			}
			w.lab.ClearFaults()
			if _, was, err := w.person().ReleaseBrake(w.ctx, "acme", anna, "the carrier has mended it"); err != nil || !was {
				t.Fatalf("the release: the brake was on: %v, %v", was, err)
			}
			w.stops(uses)
			for _, c := range odd {
				for _, cmd := range w.commands(c) {
					if cmd.Direction == simwarden.DirectionSuspend {
						t.Errorf("SIM %s, whose figures alone were odd: %s", c.iccid, describe([]store.Command{cmd}))
					}
				}
			}
		})
	}
}
