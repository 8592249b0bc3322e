package rules_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// A queued plan that waits for its first use or a real name begins when that came about, never before
// the end of the one before it, and those behind it wait for it (L4).
func TestLapseOfPlansThatWait(t *testing.T) {
	plans := map[simwarden.PlanID]simwarden.Plan{
		10: {ID: 10, Code: "day", Kind: "main", ValidityUnit: "days", ValidityCount: 1, Reset: "none", Zone: "UTC"},
	}
	hours := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }
	main := func(end time.Time) []simwarden.Subscription {
		return []simwarden.Subscription{{ID: 1, PlanID: 10, Kind: "main", State: "active", StartAt: hours(-100), EndAt: end}}
	}
	waits := func(id simwarden.SubscriptionID, a simwarden.Activation, ready, by time.Time) simwarden.Subscription {
		return simwarden.Subscription{ID: id, PlanID: 10, Kind: "main", State: "queued", Activation: a, ReadyAt: ready, ActivateBy: by}
	}
	never := time.Time{}
	for _, tt := range []struct {
		name           string
		current, queue []simwarden.Subscription
		started        []time.Time
		waited         simwarden.Activation
		ended, inForce bool
	}{
		{"L4: unused, it does not begin", nil, []simwarden.Subscription{waits(2, "first_use", never, never)}, nil, "", false, false},
		{"L4: it begins at its first use", nil, []simwarden.Subscription{waits(2, "first_use", hours(-3), never)}, []time.Time{hours(-3)}, "first_use", false, true},
		{"L4: what was used after now is not yet", nil, []simwarden.Subscription{waits(2, "first_use", hours(1), never)}, nil, "", false, false},
		{"L4: it begins by itself at its latest start", nil, []simwarden.Subscription{waits(2, "first_use", never, hours(-2))}, []time.Time{hours(-2)}, "first_use", false, true},
		{"L4: used before its latest start, it began then", nil, []simwarden.Subscription{waits(2, "first_use", hours(-3), hours(-2))}, []time.Time{hours(-3)}, "first_use", false, true},
		{"L4: used after its latest start, it had begun", nil, []simwarden.Subscription{waits(2, "first_use", hours(-2), hours(-3))}, []time.Time{hours(-3)}, "first_use", false, true},
		{"L4: its latest start is still to come", nil, []simwarden.Subscription{waits(2, "realname", never, hours(1))}, nil, "", false, false},
		{"L4: verified during the plan before it, it begins at that one's end", main(hours(-1)), []simwarden.Subscription{waits(2, "realname", hours(-5), never)}, []time.Time{hours(-1)}, "", true, true},
		{"L4: verified after it, it begins then: the gap is its own", main(hours(-5)), []simwarden.Subscription{waits(2, "realname", hours(-1), never)}, []time.Time{hours(-1)}, "realname", true, true},
		{"L4: verified while another runs, it waits for that one's end: no overlap", main(hours(1)), []simwarden.Subscription{waits(2, "realname", hours(-1), never)}, nil, "", false, true},
		{"L4: one that waits holds up those behind it", main(noon), []simwarden.Subscription{waits(2, "realname", never, never), waits(3, "", never, never)}, nil, "", true, false},
		{"L4: and they follow it without gap", nil, []simwarden.Subscription{waits(2, "first_use", hours(-30), never), waits(3, "after_current", never, never)}, []time.Time{hours(-30), hours(-6)}, "", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := rules.Lapse(tt.current, tt.queue, plans, noon)
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Started) != len(tt.started) || r.MainEnded != tt.ended || r.MainInForce != tt.inForce {
				t.Fatalf("started %+v, ended %t, in force %t; want %v, %t, %t", r.Started, r.MainEnded, r.MainInForce, tt.started, tt.ended, tt.inForce)
			}
			for i, s := range r.Started {
				if !s.StartAt.Equal(tt.started[i]) || !s.EndAt.Equal(s.StartAt.AddDate(0, 0, 1)) {
					t.Errorf("%d runs from %s to %s, want a day from %s", s.ID, s.StartAt, s.EndAt, tt.started[i])
				}
				if i == len(r.Started)-1 && s.Waited != tt.waited {
					t.Errorf("it waited for %q, want %q", s.Waited, tt.waited)
				}
			}
		})
	}
}

func TestL4APlanThatAwaitsItsFirstUseLetsTheSIMRun(t *testing.T) {
	f := rules.Facts{NowAt: noon, Scene: simwarden.ScenePlanCheck, State: simwarden.StateSuspended, StateReadAt: noon,
		TrafficStates: []simwarden.State{simwarden.StateActive}, EverPlanned: true, LastPlanEndedAt: noon.AddDate(0, 0, -3)}
	if d := rules.Decide(f); d.Desired != simwarden.DesiredSuspended || d.Reason != simwarden.ReasonNoPlan {
		t.Fatalf("without it the decision is %s (%s), want suspended for no_plan", d.Desired, d.Reason)
	}
	f.AwaitsUse = true
	d := rules.Decide(f)
	if d.Desired != simwarden.DesiredRunning || len(d.Reasons) != 0 {
		t.Errorf("decided %s for %v, want running for nothing", d.Desired, d.Reasons)
	}
	f.ManualHold = true
	if d := rules.Decide(f); d.Desired == simwarden.DesiredRunning {
		t.Error("E10: it lifts a person's hold")
	}
}
