package rules_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	v, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestPeriod(t *testing.T) {
	tests := []struct {
		name              string
		plan              simwarden.Plan
		start, end, reset string
		bad               bool
	}{
		{"L4: thirty days in Shanghai", simwarden.Plan{ValidityUnit: "days", ValidityCount: 30, Reset: "none", Zone: "Asia/Shanghai"}, "2026-01-31T10:00:00Z", "2026-03-02T10:00:00Z", "", false},
		{"L4, F64: 31 January and a month is the end of February", simwarden.Plan{ValidityUnit: "months", ValidityCount: 1, Reset: "none", Zone: "UTC"}, "2026-01-31T10:00:00Z", "2026-02-28T10:00:00Z", "", false},
		{"L4, F64: 29 February and a year", simwarden.Plan{ValidityUnit: "months", ValidityCount: 12, Reset: "none", Zone: "UTC"}, "2028-02-29T00:00:00Z", "2029-02-28T00:00:00Z", "", false},
		{"L4: until the month's end in the plan's zone", simwarden.Plan{ValidityUnit: "month_end", ValidityCount: 1, Reset: "none", Zone: "Asia/Shanghai"}, "2026-01-31T15:59:59Z", "2026-01-31T16:00:00Z", "", false},
		{"L4, F65: days keep their time of day over daylight saving", simwarden.Plan{ValidityUnit: "days", ValidityCount: 1, Reset: "none", Zone: "Europe/Berlin"}, "2026-03-28T12:00:00Z", "2026-03-29T11:00:00Z", "", false},
		{"L4: seconds, for demonstrations", simwarden.Plan{ValidityUnit: "seconds", ValidityCount: 90, Reset: "none", Zone: "UTC"}, "2026-01-01T00:00:00Z", "2026-01-01T00:01:30Z", "", false},
		{"L5: full again with the calendar month", simwarden.Plan{ValidityUnit: "months", ValidityCount: 3, Reset: "calendar_month", Zone: "Asia/Shanghai"}, "2026-01-15T00:00:00Z", "2026-04-15T00:00:00Z", "2026-01-31T16:00:00Z", false},
		{"L5: full again every 30 days", simwarden.Plan{ValidityUnit: "months", ValidityCount: 3, Reset: "cycle", ResetDays: 30, Zone: "UTC"}, "2026-01-15T00:00:00Z", "2026-04-15T00:00:00Z", "2026-02-14T00:00:00Z", false},
		{"L5: no reset at or after the end", simwarden.Plan{ValidityUnit: "days", ValidityCount: 30, Reset: "cycle", ResetDays: 30, Zone: "UTC"}, "2026-01-15T00:00:00Z", "2026-02-14T00:00:00Z", "", false},
		{"F72: ten years do not overflow", simwarden.Plan{ValidityUnit: "months", ValidityCount: 120, Reset: "none", Zone: "UTC"}, "2030-06-01T00:00:00Z", "2040-06-01T00:00:00Z", "", false},
		{"F72: a plan of no length is refused", simwarden.Plan{ValidityUnit: "days", Reset: "none", Zone: "UTC"}, "2026-01-15T00:00:00Z", "", "", true},
		{"F72: a negative one too", simwarden.Plan{ValidityUnit: "seconds", ValidityCount: -1, Reset: "none", Zone: "UTC"}, "2026-01-15T00:00:00Z", "", "", true},
		{"L4: an unknown zone is refused", simwarden.Plan{ValidityUnit: "days", ValidityCount: 1, Reset: "none", Zone: "Mars/Olympus"}, "2026-01-15T00:00:00Z", "", "", true},
		{"L4: a cycle of no days is refused", simwarden.Plan{ValidityUnit: "days", ValidityCount: 1, Reset: "cycle", Zone: "UTC"}, "2026-01-15T00:00:00Z", "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			end, reset, err := rules.Period(tt.plan, at(t, tt.start))
			if tt.bad {
				if !errors.Is(err, rules.ErrPlan) {
					t.Fatalf("error %v, want ErrPlan", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if !end.Equal(at(t, tt.end)) || !reset.Equal(at(t, tt.reset)) {
				t.Errorf("ends %s, reset %s; want %s, %s", end, reset, tt.end, tt.reset)
			}
			if end.Location() != time.UTC {
				t.Errorf("the end is in %s, want UTC", end.Location())
			}
		})
	}
	if _, err := rules.NextReset(simwarden.Plan{Zone: "Local"}, noon, noon, april); !errors.Is(err, rules.ErrPlan) {
		t.Errorf("F66: the machine's own zone gave error %v, want ErrPlan", err)
	}
}

func TestLapse(t *testing.T) {
	plans := map[simwarden.PlanID]simwarden.Plan{
		10: {ID: 10, Code: "day", Kind: "main", ValidityUnit: "days", ValidityCount: 1, Reset: "none", Zone: "UTC"},
		11: {ID: 11, Code: "month", Kind: "main", ValidityUnit: "months", ValidityCount: 1, Reset: "none", Zone: "UTC"},
		12: {ID: 12, Code: "broken", Kind: "main", ValidityUnit: "days", Reset: "none", Zone: "UTC"},
	}
	main := func(id simwarden.SubscriptionID, start, end time.Time) simwarden.Subscription {
		return simwarden.Subscription{ID: id, PlanID: 10, Kind: "main", State: "active", StartAt: start, EndAt: end}
	}
	queued := func(id simwarden.SubscriptionID, plan simwarden.PlanID) simwarden.Subscription {
		return simwarden.Subscription{ID: id, PlanID: plan, Kind: "main", State: "queued"}
	}
	extra := simwarden.Subscription{ID: 5, Kind: "addon", State: "active", StartAt: noon.AddDate(0, 0, -3), EndAt: noon.Add(-time.Minute)}
	yesterday, before := noon.AddDate(0, 0, -1), noon.AddDate(0, 0, -2)

	tests := []struct {
		name           string
		current, queue []simwarden.Subscription
		expired        []simwarden.SubscriptionID
		started        string
		ended, inForce bool
		bad            bool
	}{
		{"L1: nothing has ended", []simwarden.Subscription{main(1, before, noon.Add(1))}, nil, nil, "", false, true, false},
		{"S9: the end instant itself is the end", []simwarden.Subscription{main(1, before, noon)}, nil, ids(1), "", true, false, false},
		{"S10: the queued one begins where the former ended", []simwarden.Subscription{main(1, before, noon)}, []simwarden.Subscription{queued(2, 10)}, ids(1), "2@2026-03-10T12:00:00Z..2026-03-11T12:00:00Z", true, true, false},
		{"L4: also where that was a while ago: no gap", []simwarden.Subscription{main(1, before, noon.Add(-time.Hour))}, []simwarden.Subscription{queued(2, 10)}, ids(1), "2@2026-03-10T11:00:00Z..2026-03-11T11:00:00Z", true, true, false},
		{"F69: several have ended while nothing ran", []simwarden.Subscription{main(1, before, yesterday.Add(-time.Hour))}, []simwarden.Subscription{queued(2, 10), queued(3, 11)}, ids(1, 2), "2@2026-03-09T11:00:00Z..2026-03-10T11:00:00Z 3@2026-03-10T11:00:00Z..2026-04-10T11:00:00Z", true, true, false},
		{"F69: and none is left", []simwarden.Subscription{main(1, before.AddDate(0, 0, -2), before)}, []simwarden.Subscription{queued(2, 10), queued(3, 10)}, ids(1, 2, 3), "2@2026-03-08T12:00:00Z..2026-03-09T12:00:00Z 3@2026-03-09T12:00:00Z..2026-03-10T12:00:00Z", true, false, false},
		{"L4: the queued one waits while another main plan runs: no overlap", []simwarden.Subscription{main(1, before, noon), main(2, before, noon.Add(time.Hour))}, []simwarden.Subscription{queued(3, 10)}, ids(1), "", true, true, false},
		{"L3: with none before it, a queued one begins now", nil, []simwarden.Subscription{queued(2, 10)}, nil, "2@2026-03-10T12:00:00Z..2026-03-11T12:00:00Z", false, true, false},
		{"L1: an add-on ends by itself and no lapse follows", []simwarden.Subscription{extra, main(1, before, april)}, nil, ids(5), "", false, true, false},
		{"L1: in the order of their ends", []simwarden.Subscription{main(1, before, noon), extra}, nil, ids(5, 1), "", true, false, false},
		{"a queued plan that is not given is an error", []simwarden.Subscription{main(1, before, noon)}, []simwarden.Subscription{queued(2, 99)}, nil, "", false, false, true},
		{"one that cannot be counted out too", nil, []simwarden.Subscription{queued(2, 12)}, nil, "", false, false, true},
		{"an add-on does not queue as a main plan", nil, []simwarden.Subscription{{ID: 2, Kind: "addon", State: "queued"}}, nil, "", false, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := rules.Lapse(tt.current, tt.queue, plans, noon)
			if (err != nil) != tt.bad {
				t.Fatalf("error %v, want one: %t", err, tt.bad)
			}
			var expired []simwarden.SubscriptionID
			for _, e := range got.Expired {
				expired = append(expired, e.ID)
			}
			started := ""
			for i, s := range got.Started {
				if i > 0 {
					started += " "
				}
				started += fmt.Sprintf("%d@%s..%s", s.ID, s.StartAt.Format(time.RFC3339), s.EndAt.Format(time.RFC3339))
			}
			if !slices.Equal(expired, tt.expired) || started != tt.started || got.MainEnded != tt.ended || got.MainInForce != tt.inForce {
				t.Errorf("expired %v, started %q, ended %t, in force %t; want %v, %q, %t, %t",
					expired, started, got.MainEnded, got.MainInForce, tt.expired, tt.started, tt.ended, tt.inForce)
			}
		})
	}
}

func ids(n ...simwarden.SubscriptionID) []simwarden.SubscriptionID { return n }

// However late and however often the sweep runs, the chain of plans is the same: without gap or
// overlap (L4), each ended and begun once (L1, L2).
func TestLapseChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		plans := map[simwarden.PlanID]simwarden.Plan{}
		var queue []simwarden.Subscription
		for i := range rapid.IntRange(0, 6).Draw(t, "queued") {
			id := simwarden.PlanID(i + 1)
			plans[id] = simwarden.Plan{ID: id, Kind: "main", Reset: "none",
				ValidityUnit:  rapid.SampledFrom([]simwarden.ValidityUnit{"days", "months", "month_end", "seconds"}).Draw(t, "unit"),
				ValidityCount: rapid.IntRange(1, 3).Draw(t, "count"),
				Zone:          rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "Europe/Berlin", "America/St_Johns"}).Draw(t, "zone")}
			queue = append(queue, simwarden.Subscription{ID: simwarden.SubscriptionID(i + 1), PlanID: id, Kind: "main"})
		}
		first := simwarden.Subscription{ID: 100, Kind: "main", StartAt: noon.AddDate(0, 0, -1), EndAt: noon}
		end := noon.AddDate(2, 0, 0)

		whole, err := rules.Lapse([]simwarden.Subscription{first}, queue, plans, end)
		if err != nil {
			t.Fatal(err)
		}
		var stepped rules.LapseResult
		current := []simwarden.Subscription{first}
		for now := noon.Add(-time.Hour); !now.After(end); now = now.Add(time.Duration(rapid.IntRange(1, 2000).Draw(t, "hours")) * time.Hour) {
			r, err := rules.Lapse(current, queue, plans, now)
			if err != nil {
				t.Fatal(err)
			}
			stepped.Expired = append(stepped.Expired, r.Expired...)
			stepped.Started = append(stepped.Started, r.Started...)
			queue = queue[len(r.Started):]
			for _, s := range r.Started {
				current = append(current, simwarden.Subscription{ID: s.ID, Kind: "main", StartAt: s.StartAt, EndAt: s.EndAt, AnchorDay: s.AnchorDay})
			}
			current = slices.DeleteFunc(current, func(s simwarden.Subscription) bool {
				return slices.ContainsFunc(r.Expired, func(e rules.LapsedSubscription) bool { return e.ID == s.ID })
			})
			if want := slices.ContainsFunc(current, func(s simwarden.Subscription) bool { return s.EndAt.After(now) }); r.MainInForce != want {
				t.Fatalf("at %s in force: %t, want %t", now, r.MainInForce, want)
			}
		}
		if len(stepped.Started) != len(whole.Started) {
			// The last step may fall short of the end; the rest must be the same.
			whole.Started = whole.Started[:len(stepped.Started)]
		}
		if !slices.Equal(stepped.Started, whole.Started) {
			t.Fatalf("L4: in steps %v, at once %v", stepped.Started, whole.Started)
		}
		edge := noon
		for _, s := range whole.Started {
			if !s.StartAt.Equal(edge) {
				t.Fatalf("L4: %d starts at %s, the one before ended at %s", s.ID, s.StartAt, edge)
			}
			edge = s.EndAt
		}
	})
}
