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
	zone, err := calendar.LoadZone(p.Zone)
	if err != nil {
		return time.Time{}, time.Time{}, planError(p, err)
	}
	end, err = calendar.ValidityEnd(start, calendar.Validity{Unit: p.ValidityUnit, N: p.ValidityCount}, zone)
	if err != nil {
		return time.Time{}, time.Time{}, planError(p, err)
	}
	nextReset, err = NextReset(p, start, start, end)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	return end, nextReset, nil
}

// NextReset gives the first instant after after at which the allowance of a subscription that
// began at start and ends at end is full again; zero where there is none before its end. UTC (L4,
// L5). The error wraps ErrPlan.
func NextReset(p simwarden.Plan, start, after, end time.Time) (time.Time, error) {
	zone, err := calendar.LoadZone(p.Zone)
	if err != nil {
		return time.Time{}, planError(p, err)
	}
	next, err := calendar.NextReset(after, calendar.Reset{Kind: p.Reset, Anchor: start, Days: p.ResetDays}, zone)
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
