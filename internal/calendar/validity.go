package calendar

import (
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Validity is how long a bought plan lasts (L4).
type Validity struct {
	Unit simwarden.ValidityUnit
	// N counts the unit. Of month_end the month of the start is the first, and 0 means it too: the
	// unit alone says until when.
	N int
	// AnchorDay is the day of the month that a chain of plans in months keeps, 1 to 31, so that
	// 28 February is followed by 31 March; 0 is the day of this start.
	AnchorDay int
}

// maxSeconds bounds a validity in seconds to the length of the others.
const maxSeconds = MaxDays * 24 * 60 * 60

// Check refuses a unit that does not exist, and a length of zero, below, or beyond a hundred years
// (F72; ErrLength).
func (v Validity) Check() error {
	switch v.Unit {
	case simwarden.ValidityDays:
		return checkLength(v.N, MaxDays, "days")
	case simwarden.ValidityMonths:
		if v.AnchorDay < 0 || v.AnchorDay > 31 {
			return fmt.Errorf("anchor day %d: %w, want 1 to 31", v.AnchorDay, ErrLength)
		}
		return checkLength(v.N, MaxMonths, "months")
	case simwarden.ValidityMonthEnd:
		if v.N == 0 {
			return nil
		}
		return checkLength(v.N, MaxMonths, "months")
	case simwarden.ValiditySeconds:
		return checkLength(v.N, maxSeconds, "seconds")
	}
	return fmt.Errorf("validity unit %q does not exist: use days, months, month_end or seconds", v.Unit)
}

// ValidityEnd is the exclusive end of a plan that begins at start, always after it; the next plan
// begins at that instant. Days and months keep the start's time of day in the zone.
func ValidityEnd(start time.Time, v Validity, zone *time.Location) (time.Time, error) {
	if err := v.Check(); err != nil {
		return time.Time{}, fmt.Errorf("end of validity: %w", err)
	}
	if err := checkInstant(start); err != nil {
		return time.Time{}, fmt.Errorf("end of validity: %w", err)
	}
	switch v.Unit {
	case simwarden.ValidityDays:
		return AddDays(start, v.N, zone), nil
	case simwarden.ValidityMonths:
		return AddMonths(start, v.N, v.AnchorDay, zone), nil
	case simwarden.ValidityMonthEnd:
		return endOfMonth(start, max(v.N, 1), zone), nil
	default: // seconds, as Check has seen
		return start.UTC().Round(0).Add(time.Duration(v.N) * time.Second), nil
	}
}

// Reset is when a plan's allowance is full again (L4, L5).
type Reset struct {
	Kind simwarden.ResetKind
	// Anchor and Days are those of a ResetCycle: where it begins (the subscription's start) and how
	// many calendar days a turn has.
	Anchor time.Time
	Days   int
}

// Check refuses a kind that does not exist, and a cycle of zero days, fewer, or more than a hundred
// years (F72; ErrLength).
func (r Reset) Check() error {
	switch r.Kind {
	case simwarden.ResetNone, simwarden.ResetCalendarMonth:
		return nil
	case simwarden.ResetCycle:
		return checkLength(r.Days, MaxDays, "days")
	}
	return fmt.Errorf("reset %q does not exist: use none, calendar_month or cycle", r.Kind)
}

// NextReset is the first reset after the instant (which does not count itself), or the zero time
// for none.
func NextReset(after time.Time, r Reset, zone *time.Location) (time.Time, error) {
	if err := r.Check(); err != nil {
		return time.Time{}, fmt.Errorf("next reset: %w", err)
	}
	if err := checkInstant(after); err != nil {
		return time.Time{}, fmt.Errorf("next reset: %w", err)
	}
	switch r.Kind {
	case simwarden.ResetCalendarMonth:
		return EndOfMonth(after, zone), nil
	case simwarden.ResetCycle:
		cycle, err := EveryDays(r.Anchor, r.Days, zone)
		if err != nil {
			return time.Time{}, fmt.Errorf("next reset: %w", err)
		}
		return cycle.Next(after), nil
	default: // none, as Check has seen
		return time.Time{}, nil
	}
}
