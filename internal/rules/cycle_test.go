package rules_test

import (
	"errors"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/rules"
)

func billing(day, count int, zone string) simwarden.Plan {
	return simwarden.Plan{Code: "billing", Kind: "main", ValidityUnit: "billing_month", ValidityCount: count, Reset: "billing_month", AnchorDay: day, Zone: zone}
}

func TestCyclesOfPlans(t *testing.T) {
	days := func(n int) simwarden.Plan {
		return simwarden.Plan{Code: "days", ValidityUnit: "days", ValidityCount: n, Reset: "cycle", ResetDays: 30, Zone: "Asia/Shanghai"}
	}
	endless := billing(31, 1, "Asia/Shanghai")
	endless.ValidityUnit, endless.ValidityCount = "days", 360
	for _, tt := range []struct {
		name              string
		plan              simwarden.Plan
		start, end, reset string
	}{
		{"L4: the billing month from the 27th to the 26th ends with the 26th", billing(27, 1, "Asia/Shanghai"), "2026-02-10T12:00:00+08:00", "2026-02-27T00:00:00+08:00", ""},
		{"L4: bought at its beginning it is whole", billing(27, 1, "Asia/Shanghai"), "2026-02-27T00:00:00+08:00", "2026-03-27T00:00:00+08:00", ""},
		{"L4: bought a moment before, a moment is the first", billing(27, 1, "Asia/Shanghai"), "2026-02-26T23:59:59+08:00", "2026-02-27T00:00:00+08:00", ""},
		{"L4: of three the begun one is the first, and it is reset at each", billing(27, 3, "Asia/Shanghai"), "2026-02-10T12:00:00+08:00", "2026-04-27T00:00:00+08:00", "2026-02-27T00:00:00+08:00"},
		{"L4: the day is the plan's zone's: in UTC it is the 26th still", billing(27, 1, "Asia/Shanghai"), "2026-02-26T16:00:00Z", "2026-03-27T00:00:00+08:00", ""},
		{"L4: a cycle from the 31st begins on the last of a shorter month", billing(31, 1, "Asia/Shanghai"), "2026-02-10T12:00:00+08:00", "2026-02-28T00:00:00+08:00", ""},
		{"L4: and on the 31st again after it", billing(31, 1, "Asia/Shanghai"), "2026-02-28T00:00:00+08:00", "2026-03-31T00:00:00+08:00", ""},
		{"L4: and on 29 February of a leap year", billing(31, 1, "Asia/Shanghai"), "2028-02-10T12:00:00+08:00", "2028-02-29T00:00:00+08:00", ""},
		{"L4: a year of 360 days, reset every 30 of them", days(360), "2026-01-01T00:00:00+08:00", "2026-12-27T00:00:00+08:00", "2026-01-31T00:00:00+08:00"},
		{"L4: from 30 to 30 days has no reset within", days(30), "2026-01-01T00:00:00+08:00", "2026-01-31T00:00:00+08:00", ""},
		{"L4: 360 days with the resets of a billing month", endless, "2026-01-15T00:00:00+08:00", "2027-01-10T00:00:00+08:00", "2026-01-31T00:00:00+08:00"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			end, reset, err := rules.Period(tt.plan, at(t, tt.start))
			if err != nil {
				t.Fatal(err)
			}
			if !end.Equal(at(t, tt.end)) || !reset.Equal(at(t, tt.reset)) {
				t.Errorf("ends %s, reset %s; want %s, %s", end, reset, tt.end, tt.reset)
			}
		})
	}
	for name, p := range map[string]simwarden.Plan{
		"F72: of no billing months":       billing(27, 0, "UTC"),
		"a cycle of no day":               billing(0, 1, "UTC"),
		"a cycle of the 32nd":             billing(32, 1, "UTC"),
		"of billing months for centuries": billing(1, 5000, "UTC"),
	} {
		if _, _, err := rules.Period(p, noon); !errors.Is(err, rules.ErrPlan) {
			t.Errorf("%s: error %v, want ErrPlan", name, err)
		}
	}
}

// chain queues plans behind one that begins at start, and gives where each begins; the last is the end.
func chain(t interface{ Fatal(...any) }, p simwarden.Plan, start time.Time, n int) []time.Time {
	p.ID = 1
	queue := make([]simwarden.Subscription, n)
	for i := range queue {
		queue[i] = simwarden.Subscription{ID: simwarden.SubscriptionID(i + 1), PlanID: 1, Kind: "main", State: "queued"}
	}
	queue[0].Activation, queue[0].ReadyAt = simwarden.ActivateFirstUse, start
	r, err := rules.Lapse(nil, queue, map[simwarden.PlanID]simwarden.Plan{1: p}, start.AddDate(100, 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	var out []time.Time
	for _, s := range r.Started {
		out = append(out, s.StartAt)
	}
	return append(out, r.Started[len(r.Started)-1].EndAt)
}

func TestL4TheAnchorDayIsKeptOverAChainOfMonths(t *testing.T) {
	month := simwarden.Plan{Code: "month", Kind: "main", ValidityUnit: "months", ValidityCount: 1, Reset: "none", Zone: "Asia/Shanghai"}
	want := []string{"2026-01-31", "2026-02-28", "2026-03-31", "2026-04-30", "2026-05-31"}
	for i, at := range chain(t, month, at(t, "2026-01-31T09:30:00+08:00"), 4) {
		zone, err := calendar.LoadZone("Asia/Shanghai")
		if err != nil {
			t.Fatal(err)
		}
		if got := at.In(zone).Format("2006-01-02 15:04"); got != want[i]+" 09:30" {
			t.Errorf("link %d begins at %s, want %s 09:30", i, got, want[i])
		}
	}
	for name, tt := range map[string]struct {
		start string
		kept  int
		want  int
	}{
		"the first has its own day":                           {"2026-01-31T00:00:00+08:00", 0, 31},
		"the last of a short month keeps the 31st":            {"2026-02-28T00:00:00+08:00", 31, 31},
		"a start on another day is a new chain":               {"2026-03-15T00:00:00+08:00", 31, 15},
		"the day before the last of the month too":            {"2026-04-29T00:00:00+08:00", 31, 29},
		"the day is the zone's, where UTC has the day before": {"2026-03-30T16:00:00Z", 0, 31},
	} {
		if got, err := rules.AnchorDay(month, at(t, tt.start), tt.kept); err != nil || got != tt.want {
			t.Errorf("%s: %d, %v, want %d", name, got, err, tt.want)
		}
	}
	month.ValidityUnit = "days"
	if got, err := rules.AnchorDay(month, noon, 31); err != nil || got != 0 {
		t.Errorf("a plan in days keeps day %d (%v), want none", got, err)
	}
}

// Over forty years a chain of plans has neither gap nor overlap nor empty link; months keep their day
// or the last one, billing months begin at midnight of theirs, and resets lie where they belong (L4).
func TestCyclesOverFortyYears(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom([]string{"UTC", "Asia/Shanghai", "Europe/Berlin", "Australia/Lord_Howe"}).Draw(t, "zone")
		zone, err := calendar.LoadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		start := time.Unix(rapid.Int64Range(1767225600, 3029529600).Draw(t, "start"), 0).UTC() // 2026 to 2066
		day := rapid.IntRange(1, 31).Draw(t, "day")
		p := simwarden.Plan{Code: "p", Kind: "main", Zone: name, ValidityCount: rapid.IntRange(1, 13).Draw(t, "count"), AnchorDay: day,
			ValidityUnit: rapid.SampledFrom([]simwarden.ValidityUnit{"months", "billing_month"}).Draw(t, "unit"), Reset: "billing_month"}
		links := chain(t, p, start, 30)
		first := start.In(zone)
		for i := 1; i < len(links); i++ {
			if !links[i].After(links[i-1]) {
				t.Fatalf("L4: link %d ends at %s, where it begins at %s", i, links[i], links[i-1])
			}
			local := links[i].In(zone)
			last := time.Date(local.Year(), local.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
			keeps := day
			if p.ValidityUnit == "months" {
				keeps = first.Day()
				months := (local.Year()-first.Year())*12 + int(local.Month()) - int(first.Month())
				if months != i*p.ValidityCount {
					t.Fatalf("L4: link %d ends %d months after the first began, want %d", i, months, i*p.ValidityCount)
				}
			} else if local.Hour() != 0 || local.Minute() != 0 {
				t.Fatalf("L4: link %d ends at %s, want midnight", i, local)
			}
			if local.Day() != min(keeps, last) {
				t.Fatalf("L4: link %d ends on day %d of a month of %d, want day %d or the last", i, local.Day(), last, keeps)
			}
			reset, err := rules.NextReset(p, links[i-1], links[i-1], links[i])
			if err != nil {
				t.Fatal(err)
			}
			if reset.IsZero() {
				continue
			}
			if r := reset.In(zone); !reset.After(links[i-1]) || !reset.Before(links[i]) || r.Day() != min(day, time.Date(r.Year(), r.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()) {
				t.Fatalf("L4: link %d from %s to %s is reset at %s, not on day %d within", i, links[i-1], links[i], r, day)
			}
		}
	})
}
