package rules_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestPace(t *testing.T) {
	tests := []struct {
		name        string
		in          rules.PaceInput
		least, most time.Duration
	}{
		{"P1: a state is read every ten minutes or so", rules.PaceInput{Kind: "state", State: "active", Outcome: rules.PaceRead}, 9 * time.Minute, 11 * time.Minute},
		{"P7: a list page counts as a reading", rules.PaceInput{Kind: "usage", State: "active", Outcome: rules.PaceListed}, 9 * time.Minute, 11 * time.Minute},
		{"P1: the real-name status every six hours", rules.PaceInput{Kind: "realname", State: "active", Outcome: rules.PaceRead}, 324 * time.Minute, 396 * time.Minute},
		{"P1: inventory seldom", rules.PaceInput{Kind: "state", State: "inventory", Outcome: rules.PaceRead}, 54 * time.Minute, 66 * time.Minute},
		{"P1: test_ready likewise", rules.PaceInput{Kind: "usage", State: "test_ready", Outcome: rules.PaceRead}, 54 * time.Minute, 66 * time.Minute},
		{"P1: terminated once a day", rules.PaceInput{Kind: "usage", State: "terminated", Outcome: rules.PaceRead}, 1296 * time.Minute, 1584 * time.Minute},
		{"P2: a limited poll comes back after two seconds", rules.PaceInput{Kind: "state", State: "active", Outcome: rules.PaceLimited}, 2 * time.Second, 2 * time.Second},
		{"P2: or when the carrier says", rules.PaceInput{Kind: "state", Outcome: rules.PaceLimited, RetryAfter: 30 * time.Second}, 30 * time.Second, 30 * time.Second},
		{"F26: not in a year", rules.PaceInput{Kind: "state", Outcome: rules.PaceLimited, RetryAfter: 9000 * time.Hour}, time.Hour, time.Hour},
		{"P2: a transient error after two minutes or so", rules.PaceInput{Kind: "state", State: "terminated", Outcome: rules.PaceTransientError}, 108 * time.Second, 132 * time.Second},
		{"P2: or when the carrier says", rules.PaceInput{Kind: "state", Outcome: rules.PaceTransientError, RetryAfter: 10 * time.Minute}, 10 * time.Minute, 10 * time.Minute},
		{"P2: a new SIM within a minute", rules.PaceInput{Kind: "state", Outcome: rules.PaceFirst}, 0, time.Minute},
	}
	p := rules.DefaultPace()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for seed := range uint64(200) {
				in := tt.in
				in.Now, in.Seed, in.LastDue = noon, seed, noon.Add(-time.Duration(seed)*time.Second)
				if d := rules.Pace(p, in).Sub(noon); d < tt.least || d > tt.most {
					t.Fatalf("seed %d is due after %s, want %s to %s", seed, d, tt.least, tt.most)
				}
			}
		})
	}
	p.FirstSpread = 0
	if got := rules.Pace(p, rules.PaceInput{Now: noon, Outcome: rules.PaceFirst, Seed: 9}); !got.Equal(noon) {
		t.Errorf("P2: without a spread a new SIM is due at %s, want now", got)
	}
}

// A million SIMs that are imported, or come back, at one instant make no burst (P1): in every
// tenth of the span lies about a tenth of them, also where their seeds follow each other.
func TestPaceSpreads(t *testing.T) {
	p := rules.DefaultPace()
	for _, outcome := range []rules.PaceOutcome{rules.PaceFirst, rules.PaceRead} {
		const sims, bins = 100_000, 10
		var count [bins]int
		span, from := p.FirstSpread, noon
		if outcome == rules.PaceRead {
			span, from = 2*time.Minute, noon.Add(9*time.Minute) // ±10 % of ten minutes
		}
		for seed := range uint64(sims) {
			due := rules.Pace(p, rules.PaceInput{Kind: simwarden.CheckState, State: "active", Now: noon, LastDue: noon, Outcome: outcome, Seed: seed})
			bin := int(due.Sub(from) * bins / span)
			if bin < 0 || bin >= bins {
				t.Fatalf("%s: due at %s", outcome, due)
			}
			count[bin]++
		}
		for bin, n := range count {
			if n < sims/bins*95/100 || n > sims/bins*105/100 {
				t.Errorf("P1: %s: %d of %d SIMs in tenth %d", outcome, n, sims, bin)
			}
		}
	}
}

func TestPaceNeverLooksBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := rules.PaceInput{
			Kind:       rapid.SampledFrom(simwarden.CheckKinds()).Draw(t, "kind"),
			State:      rapid.SampledFrom(simwarden.States()).Draw(t, "state"),
			Now:        noon,
			LastDue:    noon.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "due"))),
			Outcome:    rapid.SampledFrom([]rules.PaceOutcome{rules.PaceRead, rules.PaceListed, rules.PaceTransientError, rules.PaceLimited, rules.PaceFirst}).Draw(t, "outcome"),
			Seed:       rapid.Uint64().Draw(t, "seed"),
			RetryAfter: time.Duration(rapid.Int64().Draw(t, "retry after")),
		}
		due := rules.Pace(rules.DefaultPace(), in)
		if due.Before(noon) || due.After(noon.Add(27*time.Hour)) {
			t.Fatalf("%+v is due at %s", in, due)
		}
	})
}
