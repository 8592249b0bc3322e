package calendar

import (
	"errors"
	"fmt"
	"time"
)

// The longest lengths that are taken: a hundred years and a little (F72).
const (
	MaxDays   = 36600
	MaxMonths = 1200
)

// ErrLength says that a length is zero, negative or beyond a hundred years.
var ErrLength = errors.New("length out of range")

// ErrInstant says that an instant is outside of 1970 to 2200, which is a mistake in the data.
var ErrInstant = errors.New("instant out of range")

// Period is a stretch of time: Start <= t < End. UTC.
type Period struct {
	Start, End time.Time
}

// Contains says whether t is in the period.
func (p Period) Contains(t time.Time) bool { return !t.Before(p.Start) && t.Before(p.End) }

// Cycle is an anchor and a length, repeated without end in both directions without gap or overlap:
// a carrier's month from the 27th to the 26th, 30 days, a year of 360 days (L4). Make it with
// Monthly, EveryMonths or EveryDays. Every boundary is counted from the anchor, so a short month or
// a change of clocks moves that boundary alone.
type Cycle struct {
	anchor       time.Time // a boundary
	anchorDay    int       // of months: the day that is kept
	days, months int       // one of them is set
	zone         *time.Location
}

// Monthly is the cycle of one month that begins at local midnight of the given day, 1 to 31, or of
// the last day where the month is shorter. China Unicom's is Monthly(27, Asia/Shanghai).
func Monthly(dayOfMonth int, zone *time.Location) (Cycle, error) {
	if dayOfMonth < 1 || dayOfMonth > 31 {
		return Cycle{}, fmt.Errorf("cycle from day %d of the month: %w, want 1 to 31", dayOfMonth, ErrLength)
	}
	// Any January serves as anchor, since it has all 31 days.
	anchor := resolve(time.Date(2000, time.January, dayOfMonth, 0, 0, 0, 0, time.UTC), zone)
	return Cycle{anchor: anchor, anchorDay: dayOfMonth, months: 1, zone: zone}, nil
}

// EveryMonths is the cycle of n months of which one begins at the anchor, and which keeps the
// anchor's day of the month and time of day in the zone. It refuses n < 1 and n > MaxMonths.
func EveryMonths(anchor time.Time, n int, zone *time.Location) (Cycle, error) {
	if err := checkLength(n, MaxMonths, "months"); err != nil {
		return Cycle{}, fmt.Errorf("cycle: %w", err)
	}
	if err := checkInstant(anchor); err != nil {
		return Cycle{}, fmt.Errorf("cycle: %w", err)
	}
	return Cycle{anchor: anchor.UTC().Round(0), anchorDay: wall(anchor, zone).Day(), months: n, zone: zone}, nil
}

// EveryDays is the cycle of n calendar days of which one begins at the anchor, and which keeps the
// anchor's time of day in the zone. It refuses n < 1 and n > MaxDays.
func EveryDays(anchor time.Time, n int, zone *time.Location) (Cycle, error) {
	if err := checkLength(n, MaxDays, "days"); err != nil {
		return Cycle{}, fmt.Errorf("cycle: %w", err)
	}
	if err := checkInstant(anchor); err != nil {
		return Cycle{}, fmt.Errorf("cycle: %w", err)
	}
	return Cycle{anchor: anchor.UTC().Round(0), days: n, zone: zone}, nil
}

// Containing is the cycle's turn that t is in.
func (c Cycle) Containing(t time.Time) Period {
	// An estimate first, then steps: daylight saving and short months leave it one off at most.
	var k int
	if c.months > 0 {
		from, to := wall(c.anchor, c.zone), wall(t, c.zone)
		k = ((to.Year()-from.Year())*12 + int(to.Month()) - int(from.Month())) / c.months
	} else {
		// In seconds, since a time.Duration ends after 292 years.
		k = int((t.Unix() - c.anchor.Unix()) / (24 * 60 * 60) / int64(c.days))
	}
	start, end := c.boundary(k), c.boundary(k+1)
	for start.After(t) {
		k--
		start, end = c.boundary(k), start
	}
	for !end.After(t) {
		k++
		start, end = end, c.boundary(k+1)
	}
	return Period{Start: start, End: end}
}

// Next is the first boundary after t; t itself does not count.
func (c Cycle) Next(t time.Time) time.Time { return c.Containing(t).End }

// boundary is the kth boundary after the anchor, which is the 0th. A later boundary is never
// earlier; two are equal only where the zone leaves out whole days (Samoa, 30 December 2011).
func (c Cycle) boundary(k int) time.Time {
	if c.months > 0 {
		return AddMonths(c.anchor, k*c.months, c.anchorDay, c.zone)
	}
	return AddDays(c.anchor, k*c.days, c.zone)
}

func checkLength(n, most int, unit string) error {
	if n < 1 || n > most {
		return fmt.Errorf("%d %s: %w, want 1 to %d", n, unit, ErrLength, most)
	}
	return nil
}

func checkInstant(t time.Time) error {
	if year := t.UTC().Year(); year < 1970 || year > 2200 {
		return fmt.Errorf("%s: %w, want 1970 to 2200", t.UTC().Format(time.RFC3339), ErrInstant)
	}
	return nil
}
