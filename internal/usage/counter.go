package usage

import (
	"time"

	"github.com/simwarden/simwarden"
)

// Kept is what is known of a SIM's counter before a reading.
type Kept struct {
	// Known says that a counter has been read; the rest is zero otherwise.
	Known bool
	// CounterBytes is the highest counter of the period.
	CounterBytes  int64
	PeriodStartAt time.Time // zero: a counter that never resets
	ReadAt        time.Time
	TrueAt        time.Time
}

// Outcome says what a reading was taken for.
type Outcome string

// The outcomes.
const (
	// Baseline: the first reading, or the first of a counter of another kind. What was used before
	// is not ours to count.
	Baseline Outcome = "baseline"
	// Grew: the counter is higher than before, or the same, within its period.
	Grew Outcome = "grew"
	// Turned: a new period has begun; all its counter says is new (U2).
	Turned Outcome = "turned"
	// Stale: older than what is kept, by its instant or by its period. Ignored.
	Stale Outcome = "stale"
	// RolledOver: the counter has reached its width and begun from zero within its period; what is new is the
	// rest up to the width and all that it says now (U1).
	RolledOver Outcome = "rolled_over"
	// Fell: lower than before within one period. An anomaly (U2): the high-water mark stays.
	Fell Outcome = "fell"
	// Jumped: higher than is plausible. An anomaly (F29): not believed, see Bound.
	Jumped Outcome = "jumped"
)

// Anomaly says that a person should look.
func (o Outcome) Anomaly() bool { return o == Fell || o == Jumped }

// Bound says which jump of a counter is not plausible.
//
// An implausible reading changes nothing but the alert: counter, period and instants stay as they
// are, so that the next one is measured against the last that was believed. Two things are not
// plausible. A mean rate since then above BytesPerSecond: it is believed later, once enough time
// has passed for that usage. And a factor of a change of unit (1000, 1024 and their squares, with
// no more than UnitSlack on top) on a counter of UnitFrom bytes or more: that does not become right
// by waiting, and is not believed for as long as the counter stays there. Meanwhile the usage known
// of the SIM grows old, which keeps a resume from resting on it (E11), and nothing is suspended for
// it. What a changed unit makes of counters that also grew by more than UnitSlack, or were small,
// looks like usage: there the safety brake is the net (C10).
type Bound struct {
	BytesPerSecond float64
	// Least is the shortest time that a reading is measured over: a carrier that books by the hour
	// delivers an hour at once.
	Least     time.Duration
	UnitFrom  int64
	UnitSlack float64
	// WrapBytes is where the carrier's counter starts over, as its driver declares; 0 where it never does. A
	// counter that falls has then rolled over if what was used by that is likely (see likely), and no more than
	// half of the width; otherwise the carrier has corrected it. Of such a counter a rise by more than half of
	// the width is not plausible either unless it is likely, or still there after oldAnswers: an answer from
	// before a roll-over looks like it.
	WrapBytes int64
}

// likelyTimes is how many times faster than in its period until now a SIM may have used data for its counter to
// have rolled over.
const likelyTimes = 16

// oldAnswers is how long after a roll-over an answer may come that a carrier has made before it.
const oldAnswers = time.Hour

// DefaultBound is 10 Gbit/s over at least 15 minutes, and unit factors from 64 KiB on with 10 % of usage on top.
func DefaultBound() Bound {
	return Bound{BytesPerSecond: 10e9 / 8, Least: 15 * time.Minute, UnitFrom: 64 << 10, UnitSlack: 0.10}
}

// Step is what follows from one reading: what is kept from now on, and what to book.
type Step struct {
	Outcome    Outcome
	DeltaBytes int64 // never negative
	Kept       Kept
}

// Advance takes in one reading (U1-U3). Instants are compared to the microsecond that the database
// keeps. The same reading twice gives a delta of 0 the second time.
func Advance(k Kept, r simwarden.UsageReading, readAt time.Time, b Bound) Step {
	next := Kept{
		Known: true, CounterBytes: r.CounterBytes, PeriodStartAt: micro(r.PeriodStartAt),
		ReadAt: micro(readAt), TrueAt: micro(r.TrueAt),
	}
	if next.TrueAt.IsZero() {
		next.TrueAt = next.ReadAt
	}
	switch {
	case r.CounterBytes < 0:
		return Step{Outcome: Fell, Kept: k}
	case !k.Known, k.PeriodStartAt.IsZero() != next.PeriodStartAt.IsZero():
		if k.Known && next.ReadAt.Before(k.ReadAt) {
			return Step{Outcome: Stale, Kept: k}
		}
		return Step{Outcome: Baseline, Kept: next}
	case next.ReadAt.Before(k.ReadAt), next.PeriodStartAt.Before(k.PeriodStartAt):
		return Step{Outcome: Stale, Kept: k}
	case next.PeriodStartAt.After(k.PeriodStartAt):
		if b.tooFast(r.CounterBytes, next.ReadAt.Sub(next.PeriodStartAt)) {
			return Step{Outcome: Jumped, Kept: k}
		}
		return Step{Outcome: Turned, DeltaBytes: r.CounterBytes, Kept: next}
	case b.rolledOver(k, next):
		return Step{Outcome: RolledOver, DeltaBytes: b.WrapBytes - k.CounterBytes + r.CounterBytes, Kept: next}
	case r.CounterBytes < k.CounterBytes:
		next.CounterBytes = k.CounterBytes
		return Step{Outcome: Fell, Kept: next}
	}
	delta := r.CounterBytes - k.CounterBytes
	over := next.ReadAt.Sub(k.ReadAt)
	fromBefore := b.WrapBytes > 0 && over < oldAnswers && delta > max(b.WrapBytes/2, b.likely(k, over))
	if fromBefore || b.tooFast(delta, over) || b.otherUnit(k.CounterBytes, r.CounterBytes) {
		return Step{Outcome: Jumped, Kept: k}
	}
	return Step{Outcome: Grew, DeltaBytes: delta, Kept: next}
}

func (b Bound) tooFast(delta int64, over time.Duration) bool {
	return float64(delta) > b.BytesPerSecond*max(over, b.Least).Seconds()
}

// rolledOver says that a counter of a declared width which is lower than before has begun anew.
func (b Bound) rolledOver(k, next Kept) bool {
	if next.CounterBytes >= k.CounterBytes || k.CounterBytes >= b.WrapBytes {
		return false
	}
	over := next.ReadAt.Sub(k.ReadAt)
	used := b.WrapBytes - k.CounterBytes + next.CounterBytes
	return used <= min(b.WrapBytes/2, b.likely(k, over)) && !b.tooFast(used, over)
}

// likely is how much a SIM may use in a time, from the mean rate in its period; where the counter has no period,
// and so no rate, a sixteenth of the width. The rate is too low once the counter has rolled over before: then a
// roll-over may be taken for a correction, which is told, and books too little rather than too much.
func (b Bound) likely(k Kept, over time.Duration) int64 {
	if k.PeriodStartAt.IsZero() {
		return b.WrapBytes / likelyTimes
	}
	since := max(k.ReadAt.Sub(k.PeriodStartAt), b.Least)
	return int64(likelyTimes * float64(k.CounterBytes) / since.Seconds() * max(over, b.Least).Seconds())
}

func (b Bound) otherUnit(before, after int64) bool {
	if before < b.UnitFrom {
		return false
	}
	ratio := float64(after) / float64(before)
	for _, factor := range []float64{1e3, 1 << 10, 1e6, 1 << 20} {
		if ratio >= factor && ratio <= factor*(1+b.UnitSlack) {
			return true
		}
	}
	return false
}

func micro(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}
