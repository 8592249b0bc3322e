package usage_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/usage"
)

var (
	march = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	april = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)
	noon  = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
)

func TestAdvance(t *testing.T) {
	kept := usage.Kept{Known: true, CounterBytes: 5_000_000, PeriodStartAt: march, ReadAt: noon, TrueAt: noon}
	forever := kept
	forever.PeriodStartAt = time.Time{}
	tests := []struct {
		name    string
		kept    usage.Kept
		counter int64
		period  time.Time
		after   time.Duration // of the reading, after noon
		want    usage.Outcome
		delta   int64
	}{
		{"the first reading is a baseline: what was used before is not ours", usage.Kept{}, 9_000_000, march, 0, usage.Baseline, 0},
		{"a higher counter of the same period adds the difference", kept, 5_000_700, march, time.Minute, usage.Grew, 700},
		{"U3: the same answer twice adds nothing", kept, 5_000_000, march, 0, usage.Grew, 0},
		{"U2: in a new period all of the counter is new", kept, 300, april, 22 * 24 * time.Hour, usage.Turned, 300},
		{"U2: a counter that falls within its period adds nothing", kept, 4_999_999, march, time.Minute, usage.Fell, 0},
		{"F28: a rollover at 2^32 adds nothing negative", kept, 0, march, time.Minute, usage.Fell, 0},
		{"F31: an answer older than the last is ignored", kept, 6_000_000, march, -time.Second, usage.Stale, 0},
		{"F31: an answer of the period before is ignored", kept, 6_000_000, march.AddDate(0, -1, 0), time.Minute, usage.Stale, 0},
		{"F29: a factor of 1024 is a change of unit", kept, 5_000_500 * 1024, march, time.Minute, usage.Jumped, 0},
		{"F29: a factor of 1000 is a change of unit", kept, 5_000_000 * 1000, march, time.Minute, usage.Jumped, 0},
		{"a sudden streamer is believed", kept, 5_000_000 + 600*5_000_000/8, march, 10 * time.Minute, usage.Grew, 600 * 5_000_000 / 8},
		{"F29: faster than any line is not believed", kept, 5_000_000 + 3_000_000_000_000, march, 20 * time.Minute, usage.Jumped, 0},
		{"the same is believed over a day", kept, 5_000_000 + 3_000_000_000_000, march, 24 * time.Hour, usage.Grew, 3_000_000_000_000},
		{"F29: faster than any line since the period began is not believed", kept, 1 << 62, april, 22 * 24 * time.Hour, usage.Jumped, 0},
		{"a counter that never resets goes on", forever, 5_000_001, time.Time{}, time.Minute, usage.Grew, 1},
		{"a counter that got periods begins anew", forever, 700, march, time.Minute, usage.Baseline, 0},
		{"a negative counter is an anomaly", kept, -1, march, time.Minute, usage.Fell, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			step := usage.Advance(tt.kept, simwarden.UsageReading{CounterBytes: tt.counter, PeriodStartAt: tt.period}, noon.Add(tt.after), usage.DefaultBound())
			if step.Outcome != tt.want || step.DeltaBytes != tt.delta {
				t.Errorf("got %s and %d bytes, want %s and %d", step.Outcome, step.DeltaBytes, tt.want, tt.delta)
			}
			if step.Outcome == usage.Fell && tt.counter >= 0 && step.Kept.CounterBytes != tt.kept.CounterBytes {
				t.Errorf("the high-water mark moved to %d (U2)", step.Kept.CounterBytes)
			}
			if (step.Outcome == usage.Stale || step.Outcome == usage.Jumped) && step.Kept != tt.kept {
				t.Errorf("%s changed what is kept to %+v", step.Outcome, step.Kept)
			}
			again := usage.Advance(step.Kept, simwarden.UsageReading{CounterBytes: tt.counter, PeriodStartAt: tt.period}, noon.Add(tt.after), usage.DefaultBound())
			if again.DeltaBytes != 0 {
				t.Errorf("the same answer again books %d bytes (U3)", again.DeltaBytes)
			}
		})
	}
}

func TestARollOverIsToldFromACorrection(t *testing.T) {
	const full = int64(1) << 32
	start := noon.Add(-10 * 24 * time.Hour)
	kept := func(counter int64, period time.Time) usage.Kept {
		return usage.Kept{Known: true, CounterBytes: counter, PeriodStartAt: period, ReadAt: noon, TrueAt: noon}
	}
	// 4 GiB in ten days are about 4.5 MB in fifteen minutes: 71 MB are likely.
	for _, tt := range []struct {
		name    string
		before  usage.Kept
		counter int64
		after   time.Duration
		wrap    int64
		want    usage.Outcome
		delta   int64
	}{
		{"U1: a counter of 32 bits begins anew near its width", kept(full-5000, start), 7000, time.Minute, full, usage.RolledOver, 12_000},
		{"U1: to zero", kept(full-1, start), 0, time.Minute, full, usage.RolledOver, 1},
		{"U2: no width is declared: a correction", kept(full-5000, start), 7000, time.Minute, 0, usage.Fell, 0},
		{"U2: it has been beyond the width: a correction", kept(full, start), 7000, time.Minute, full, usage.Fell, 0},
		{"U2: some is taken back near the width: nearly all of the width was not used", kept(full-5000, start), full - 6000, time.Minute, full, usage.Fell, 0},
		{"U2: more than the SIM's rate makes likely: a correction", kept(full-100<<20, start), 0, time.Minute, full, usage.Fell, 0},
		{"U1: the same over hours is likely", kept(full-100<<20, start), 0, time.Hour, full, usage.RolledOver, 100 << 20},
		{"U2: more than half of the width is a correction whatever the rate", kept(full/2-1, noon.Add(-time.Hour)), 0, time.Hour, full, usage.Fell, 0},
		{"U1: a counter that never resets rolls over by up to a sixteenth", kept(full-full/16, time.Time{}), 0, time.Minute, full, usage.RolledOver, full / 16},
		{"U2: and by more is corrected", kept(full-full/16, time.Time{}), 1, time.Minute, full, usage.Fell, 0},
		{"F31: an answer from before a roll-over is not believed", kept(7000, start), full - 5000, time.Minute, full, usage.Jumped, 0},
		{"but after an hour it is usage", kept(7000, start), full - 5000, time.Hour, full, usage.Grew, full - 12_000},
		{"growth below half of the width is believed", kept(7000, start), full/2 + 7000, time.Minute, full, usage.Grew, full / 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bound := usage.DefaultBound()
			bound.WrapBytes = tt.wrap
			r, at := simwarden.UsageReading{CounterBytes: tt.counter, PeriodStartAt: tt.before.PeriodStartAt}, noon.Add(tt.after)
			step := usage.Advance(tt.before, r, at, bound)
			if step.Outcome != tt.want || step.DeltaBytes != tt.delta {
				t.Errorf("got %s and %d bytes, want %s and %d", step.Outcome, step.DeltaBytes, tt.want, tt.delta)
			}
			if again := usage.Advance(step.Kept, r, at, bound); again.DeltaBytes != 0 {
				t.Errorf("the same answer again books %d bytes (U3)", again.DeltaBytes)
			}
		})
	}
}

// Whatever a SIM uses at a steady pace is counted to the byte through any number of roll-overs, also where
// answers come twice.
func TestRollOversLoseNoByte(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const full = int64(1) << 32
		bound := usage.DefaultBound()
		bound.WrapBytes, bound.UnitFrom = full, math.MaxInt64 // a growth by a factor of 1000 is another row's (F29)
		at, truth, booked := march.Add(time.Minute), int64(0), int64(0)
		kept := usage.Advance(usage.Kept{}, simwarden.UsageReading{PeriodStartAt: march}, at, bound).Kept
		rate := rapid.Int64Range(1, 100_000).Draw(t, "bytes a second")
		for range rapid.IntRange(1, 60).Draw(t, "readings") {
			seconds := rapid.Int64Range(1, 3600).Draw(t, "seconds")
			at, truth = at.Add(time.Duration(seconds)*time.Second), truth+seconds*rate
			r := simwarden.UsageReading{CounterBytes: truth % full, PeriodStartAt: march}
			for range rapid.IntRange(1, 2).Draw(t, "times") {
				step := usage.Advance(kept, r, at, bound)
				kept, booked = step.Kept, booked+step.DeltaBytes
			}
			if booked != truth {
				t.Fatalf("%d bytes were used and %d booked", truth, booked)
			}
		}
	})
}

// reading is one of a sequence, in any order and of any kind.
type reading struct {
	counter int64
	period  time.Time
	readAt  time.Time
}

func readings(t *rapid.T, most int) []reading {
	n := rapid.IntRange(1, most).Draw(t, "readings")
	out := make([]reading, n)
	at := noon
	for i := range out {
		at = at.Add(time.Duration(rapid.IntRange(-600, 7200).Draw(t, "seconds")) * time.Second)
		out[i] = reading{
			counter: rapid.Int64Range(0, 1<<rapid.IntRange(0, 45).Draw(t, "bits")).Draw(t, "counter"),
			period:  rapid.SampledFrom([]time.Time{march, march, march, march.AddDate(0, -1, 0), march.Add(9 * 24 * time.Hour)}).Draw(t, "period"),
			readAt:  at,
		}
		if i > 0 && rapid.IntRange(0, 4).Draw(t, "again") == 0 {
			out[i] = out[i-1]
		}
	}
	return out
}

func TestCountersNeverFallWithinAPeriod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var kept usage.Kept
		for _, r := range readings(t, 30) {
			step := usage.Advance(kept, simwarden.UsageReading{CounterBytes: r.counter, PeriodStartAt: r.period}, r.readAt, usage.DefaultBound())
			if step.DeltaBytes < 0 {
				t.Fatalf("F28: a negative delta %d", step.DeltaBytes)
			}
			if kept.Known && step.Kept.PeriodStartAt.Equal(kept.PeriodStartAt) && step.Kept.CounterBytes != kept.CounterBytes+step.DeltaBytes {
				t.Fatalf("V16: the counter went from %d to %d with a delta of %d", kept.CounterBytes, step.Kept.CounterBytes, step.DeltaBytes)
			}
			if kept.Known && (step.Kept.PeriodStartAt.Before(kept.PeriodStartAt) || step.Kept.ReadAt.Before(kept.ReadAt)) {
				t.Fatalf("F31: went back from %+v to %+v", kept, step.Kept)
			}
			kept = step.Kept
		}
	})
}
