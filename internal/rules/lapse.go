package rules

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
)

// LapseResult is what the passing of time does to one asset's subscriptions.
type LapseResult struct {
	// Expired are the subscriptions that have ended, each at its own end instant, main and add-on,
	// in the order of their ends.
	Expired []LapsedSubscription
	// Started are the queued main subscriptions that have begun, in order. One that has itself
	// ended meanwhile is in Expired too.
	Started []StartedSubscription
	// MainEnded says that a main subscription is among Expired; MainInForce that one is in force
	// afterwards. A lapse that has to be judged is MainEnded without MainInForce (L1).
	MainEnded   bool
	MainInForce bool
}

// LapsedSubscription is one that has ended.
type LapsedSubscription struct {
	ID    simwarden.SubscriptionID
	Kind  simwarden.PlanKind
	EndAt time.Time // UTC
}

// StartedSubscription is a queued one that has begun, with its bounds in UTC. NextResetAt is zero
// where its allowance is never refilled. AnchorDay is the day that its months keep, 0 for other units.
type StartedSubscription struct {
	ID          simwarden.SubscriptionID
	StartAt     time.Time
	EndAt       time.Time
	NextResetAt time.Time
	AnchorDay   int
	// Waited is what it waited for after the plan before it had ended: first_use, realname, or empty.
	Waited simwarden.Activation
}

// Lapse says which of an asset's subscriptions have ended at the instant and which queued ones
// begin (L1, L4). current are its active and exhausted ones, queue its queued main ones in the
// order in which they begin; plans must hold the plans of the queue. A queued one begins at the
// instant at which the main subscription before it ended, without gap or overlap, also where that
// was long ago and it has itself ended since; it begins now where none is before it. One that waits
// for its first use or a real name begins when that came about, not before the end of the one before
// it; until then those behind it wait too. The error names a plan that is missing or cannot be
// counted out.
func Lapse(current, queue []simwarden.Subscription, plans map[simwarden.PlanID]simwarden.Plan, now time.Time) (LapseResult, error) {
	var r LapseResult
	var lastEndAt time.Time // of the main subscriptions so far
	var anchorDay int       // of the last of them
	for _, s := range current {
		if s.Kind == simwarden.PlanMain && s.EndAt.After(lastEndAt) {
			lastEndAt, anchorDay = s.EndAt, s.AnchorDay
		}
		if !s.EndAt.After(now) {
			r.expire(s.ID, s.Kind, s.EndAt)
		}
	}
	for _, s := range queue {
		if s.Kind != simwarden.PlanMain {
			return LapseResult{}, fmt.Errorf("lapse: queued subscription %d is no main plan", s.ID)
		}
		from, may := s.MayBegin(now)
		if lastEndAt.After(now) || !may {
			break
		}
		startAt := lastEndAt
		var waited simwarden.Activation
		if from.After(startAt) {
			startAt, waited, anchorDay = from, s.Activation, 0
		}
		if startAt.IsZero() {
			startAt = now
		}
		plan, ok := plans[s.PlanID]
		if !ok {
			return LapseResult{}, fmt.Errorf("lapse: plan %d of queued subscription %d is not given", s.PlanID, s.ID)
		}
		started, err := start(plan, startAt, anchorDay)
		if err != nil {
			return LapseResult{}, fmt.Errorf("lapse: start queued subscription %d: %w", s.ID, err)
		}
		started.ID, started.Waited = s.ID, waited
		r.Started = append(r.Started, started)
		if !started.EndAt.After(now) {
			r.expire(s.ID, s.Kind, started.EndAt)
		}
		lastEndAt, anchorDay = started.EndAt, started.AnchorDay
	}
	slices.SortStableFunc(r.Expired, func(a, b LapsedSubscription) int {
		return cmp.Or(a.EndAt.Compare(b.EndAt), cmp.Compare(a.ID, b.ID))
	})
	r.MainInForce = mainInForce(current, r.Started, now)
	return r, nil
}

// start counts out a subscription that begins at the instant, behind one that kept the anchor day.
func start(plan simwarden.Plan, at time.Time, kept int) (StartedSubscription, error) {
	day, err := AnchorDay(plan, at, kept)
	if err != nil {
		return StartedSubscription{}, err
	}
	end, reset, err := period(plan, at, day)
	return StartedSubscription{StartAt: at.UTC(), EndAt: end, NextResetAt: reset, AnchorDay: day}, err
}

func (r *LapseResult) expire(id simwarden.SubscriptionID, kind simwarden.PlanKind, endAt time.Time) {
	r.Expired = append(r.Expired, LapsedSubscription{ID: id, Kind: kind, EndAt: endAt.UTC()})
	r.MainEnded = r.MainEnded || kind == simwarden.PlanMain
}

func mainInForce(current []simwarden.Subscription, started []StartedSubscription, now time.Time) bool {
	for _, s := range current {
		if s.Kind == simwarden.PlanMain && !now.Before(s.StartAt) && now.Before(s.EndAt) {
			return true
		}
	}
	for _, s := range started {
		if !now.Before(s.StartAt) && now.Before(s.EndAt) {
			return true
		}
	}
	return false
}
