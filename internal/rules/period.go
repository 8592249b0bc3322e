package rules

import (
	"errors"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
)

// ErrPlan is what Period and NextReset say of a plan that cannot be counted out: an unknown zone,
// unit or kind of reset, or a length of zero or beyond a hundred years (F72).
var ErrPlan = errors.New("the plan cannot be counted out")

// Period gives the end (exclusive) of a subscription to the plan that begins at start, and the
// first instant at which its allowance is full again, zero where it never is; both in UTC, counted
// in the plan's zone (L4). The error wraps ErrPlan.
func Period(p simwarden.Plan, start time.Time) (end, nextReset time.Time, err error) {
	return period(p, start, 0)
}

// period keeps an anchor day of months; 0 is the day of the start.
func period(p simwarden.Plan, start time.Time, anchorDay int) (end, nextReset time.Time, err error) {
	zone, err := calendar.LoadZone(p.Zone)
	if err != nil {
		return time.Time{}, time.Time{}, planError(p, err)
	}
	if p.ValidityUnit == simwarden.ValidityBilling {
		end, err = billingEnd(p, start, zone)
	} else {
		end, err = calendar.ValidityEnd(start, calendar.Validity{Unit: p.ValidityUnit, N: p.ValidityCount, AnchorDay: anchorDay}, zone)
	}
	if err != nil {
		return time.Time{}, time.Time{}, planError(p, err)
	}
	nextReset, err = NextReset(p, start, start, end)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	return end, nextReset, nil
}

// billingEnd is the end of a number of billing months, of which the one that start is in is the
// first, however little of it is left: as with the end of a calendar month.
func billingEnd(p simwarden.Plan, start time.Time, zone *time.Location) (time.Time, error) {
	if p.ValidityCount < 1 || p.ValidityCount > calendar.MaxMonths {
		return time.Time{}, fmt.Errorf("end of validity: %d billing months: %w, want 1 to %d", p.ValidityCount, calendar.ErrLength, calendar.MaxMonths)
	}
	cycle, err := calendar.Monthly(p.AnchorDay, zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("end of validity: %w", err)
	}
	end := start
	for range p.ValidityCount {
		end = cycle.Next(end)
	}
	return end, nil
}

// AnchorDay is the day of the month that a subscription to a plan in months keeps, and so does the
// chain behind it: that of the one before it, kept, where it begins on that day, or on the last of a
// month that has no such day; else the day of its own start in the plan's zone. A plan begun on
// 31 January so ends on 28 February, and those queued behind it on 31 March, 30 April and 31 May
// (L4). It is 0 for plans in other units. The error wraps ErrPlan.
func AnchorDay(p simwarden.Plan, start time.Time, kept int) (int, error) {
	if p.ValidityUnit != simwarden.ValidityMonths {
		return 0, nil
	}
	zone, err := calendar.LoadZone(p.Zone)
	if err != nil {
		return 0, planError(p, err)
	}
	local := start.In(zone)
	last := time.Date(local.Year(), local.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
	if kept > 0 && local.Day() == min(kept, last) {
		return kept, nil
	}
	return local.Day(), nil
}

// NextReset gives the first instant after after at which the allowance of a subscription that
// began at start and ends at end is full again; zero where there is none before its end. UTC (L4,
// L5). The error wraps ErrPlan.
func NextReset(p simwarden.Plan, start, after, end time.Time) (time.Time, error) {
	zone, err := calendar.LoadZone(p.Zone)
	if err != nil {
		return time.Time{}, planError(p, err)
	}
	var next time.Time
	if p.Reset == simwarden.ResetBilling {
		var cycle calendar.Cycle
		if cycle, err = calendar.Monthly(p.AnchorDay, zone); err == nil {
			next = cycle.Next(after)
		}
	} else {
		next, err = calendar.NextReset(after, calendar.Reset{Kind: p.Reset, Anchor: start, Days: p.ResetDays}, zone)
	}
	if err != nil {
		return time.Time{}, planError(p, err)
	}
	if next.IsZero() || !next.Before(end) {
		return time.Time{}, nil
	}
	return next, nil
}

func planError(p simwarden.Plan, err error) error {
	return fmt.Errorf("plan %s: %w: %w", p.Code, ErrPlan, err)
}
