package rules_test

import (
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

func pool(policy simwarden.PoolPolicy, used, drawn, limit int64) change {
	return func(f *rules.Facts) {
		f.Pool = &rules.PoolFact{ID: 5, Name: "meters", Policy: policy, AllowanceBytes: 1000, UsedBytes: used, CapBytes: limit, DrawnBytes: drawn}
	}
}

func TestL6APoolStopsItsMembersByItsPolicy(t *testing.T) {
	const full = 1_000_000_000 // of the member's own plan
	for _, row := range []struct {
		sentence string
		facts    rules.Facts
		desired  simwarden.Desired
		saw      string
	}{
		{"its own is used up, and the pool has data", healthy(used(full), pool(simwarden.PoolAll, 999, 0, 0)), simwarden.DesiredRunning, "pool meters: 999 B used of 1.00 kB"},
		{"all: the pool is used up to the last byte", healthy(used(full), pool(simwarden.PoolAll, 1000, 0, 0)), simwarden.DesiredSuspended, "so all its members without data of their own stop"},
		{"all: a cap helps nobody", healthy(used(full), pool(simwarden.PoolAll, 1000, 1, 500)), simwarden.DesiredSuspended, "so all its members without data of their own stop"},
		{"over_cap: below its own cap it goes on", healthy(used(full), pool(simwarden.PoolOverCap, 5000, 499, 500)), simwarden.DesiredRunning, "this one has drawn 499 B of 500 B"},
		{"over_cap: at its own cap it stops", healthy(used(full), pool(simwarden.PoolOverCap, 1000, 500, 500)), simwarden.DesiredSuspended, "members stop at their own cap"},
		{"over_cap: without a cap it stops with the pool", healthy(used(full), pool(simwarden.PoolOverCap, 1000, 0, 0)), simwarden.DesiredSuspended, "members stop at their own cap"},
		{"over_cap: its cap counts only where the pool is used up", healthy(used(full), pool(simwarden.PoolOverCap, 999, 900, 500)), simwarden.DesiredRunning, "999 B used"},
		{"data of its own is left: the pool does not matter", healthy(used(full-1), pool(simwarden.PoolAll, 5000, 0, 0)), simwarden.DesiredRunning, "(999999999 B) used of 1.00 GB"},
		{"E5: paused, nothing follows", healthy(used(full), pool(simwarden.PoolAll, 1000, 0, 0), func(f *rules.Facts) { f.SIMPaused = true }), simwarden.DesiredLeave, "so all its members without data of their own stop"},
	} {
		d := rules.Decide(row.facts)
		if d.Desired != row.desired {
			t.Errorf("%s: %s, want %s", row.sentence, d.Desired, row.desired)
		}
		if d.Desired == simwarden.DesiredSuspended && d.Reason != simwarden.ReasonDataExhausted {
			t.Errorf("%s: the reason is %s", row.sentence, d.Reason)
		}
		saw := ""
		for _, c := range d.Checks {
			if c.Name == rules.CheckDataLeft {
				saw = c.Saw
			}
		}
		if !strings.Contains(saw, row.saw) {
			t.Errorf("%s: it saw %q, want %q in it", row.sentence, saw, row.saw)
		}
	}
}
