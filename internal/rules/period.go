package rules

import (
	"errors"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// ErrPlan is what Period and NextReset say of a plan that cannot be counted out.
var ErrPlan = errors.New("the plan cannot be counted out")

// Period gives the end (exclusive) of a subscription that begins at start, and the instant at
// which its allowance is full again, zero for never; both in UTC (L4). The error wraps ErrPlan.
func Period(p simwarden.Plan, start time.Time) (end, nextReset time.Time, err error) {
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return time.Time{}, time.Time{}, fmt.Errorf("plan %s: %w: %w", p.Code, ErrPlan, err)
	}
	local := start.In(zone)
	switch p.ValidityUnit {
	case simwarden.ValidityDays:
		end = local.AddDate(0, 0, p.ValidityCount)
	case simwarden.ValidityMonths:
		end = local.AddDate(0, p.ValidityCount, 0)
	case simwarden.ValidityMonthEnd:
		end = time.Date(local.Year(), local.Month()+1, 1, 0, 0, 0, 0, zone)
	default:
		end = start.Add(time.Duration(p.ValidityCount) * time.Second)
	}
	nextReset, err = NextReset(p, start, start, end.UTC())
	return end.UTC(), nextReset, err
}

// NextReset gives the first instant after after at which the allowance of a subscription that
// began at start is full again; zero where there is none before end. UTC (L4, L5).
func NextReset(p simwarden.Plan, start, after, end time.Time) (time.Time, error) {
	zone, err := time.LoadLocation(p.Zone)
	if err != nil {
		return time.Time{}, fmt.Errorf("plan %s: %w: %w", p.Code, ErrPlan, err)
	}
	if p.Reset != simwarden.ResetCalendarMonth {
		return time.Time{}, nil
	}
	local := after.In(zone)
	next := time.Date(local.Year(), local.Month()+1, 1, 0, 0, 0, 0, zone).UTC()
	if !next.Before(end) {
		return time.Time{}, nil
	}
	return next, nil
}
