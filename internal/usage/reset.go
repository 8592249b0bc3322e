package usage

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// refill is a subscription whose reset is due, with the bounds of the period that runs now.
type refill struct {
	simwarden.Subscription
	lastAt, nextAt time.Time // nextAt is zero where no reset follows
}

// ResetSubscriptions begins the running period of subscriptions, locked before, whose reset is due, with a full
// allowance, and asks for what is to be judged by that (L5). Where several resets have passed, it is as of the
// last of them. The error wraps rules.ErrPlan where a plan cannot be counted out.
func ResetSubscriptions(ctx context.Context, tx *store.Tx, due []simwarden.Subscription) error {
	plans, err := plansOf(ctx, tx, due)
	if err != nil {
		return err
	}
	refills := make([]refill, len(due))
	for i, b := range due {
		if refills[i], err = refillOf(plans[b.PlanID], b, tx.At); err != nil {
			return err
		}
	}
	return fillAgain(ctx, tx, refills)
}

func plansOf(ctx context.Context, tx *store.Tx, due []simwarden.Subscription) (map[simwarden.PlanID]simwarden.Plan, error) {
	ids := make([]simwarden.PlanID, len(due))
	for i, b := range due {
		ids[i] = b.PlanID
	}
	return tx.PlansByID(ctx, ids)
}

func refillOf(p simwarden.Plan, b simwarden.Subscription, now time.Time) (refill, error) {
	r := refill{Subscription: b, nextAt: b.NextResetAt}
	for !r.nextAt.IsZero() && !r.nextAt.After(now) {
		next, err := rules.NextReset(p, b.StartAt, r.nextAt, b.EndAt)
		if err != nil {
			return r, err
		}
		r.lastAt, r.nextAt = r.nextAt, next
	}
	return r, nil
}

func fillAgain(ctx context.Context, tx *store.Tx, refills []refill) error {
	var requests []store.Evaluation
	var events []store.NewEvent
	for _, b := range refills {
		if err := tx.ResetSubscription(ctx, b.ID, b.lastAt, b.nextAt); err != nil {
			return err
		}
		events = append(events, store.NewEvent{Kind: store.EventPlanReset, SIMID: b.SIMID, Actor: "system",
			Data: map[string]any{"subscription_id": b.ID, "plan": b.PlanCode, "used_bytes": b.UsedBytes, "next_reset_at": b.nextAt}})
		requests = append(requests, store.Evaluation{SIMID: b.SIMID, DeviceID: b.DeviceID, Scene: simwarden.ScenePlanReset, SubscriptionID: b.ID,
			Cause: store.Cause{Kind: store.CauseSubscription, ID: int64(b.ID)}, AskedBy: "system"})
	}
	if err := tx.AddEvents(ctx, events); err != nil {
		return err
	}
	return tx.RequestEvaluations(ctx, requests, nil)
}

// reset fills the allowances again whose reset is due, before anything is spent on them: what is used from that
// instant on is the next period's also where the sweep has not come by yet (L4). What cannot be counted out is
// left to the sweep, which sets it aside; and where the time is not to be trusted, all is (C10).
func (b *booking) reset(ctx context.Context, tx *store.Tx) error {
	var due []simwarden.Subscription
	bearing := map[simwarden.SubscriptionID]*store.BearingSubscription{}
	for _, subs := range b.subs {
		for _, s := range subs {
			if s.Ended || s.Queued || s.NextResetAt.IsZero() || s.NextResetAt.After(tx.At) {
				continue
			}
			bearing[s.ID] = s
			due = append(due, simwarden.Subscription{ID: s.ID, PlanID: s.PlanID, PlanCode: s.PlanCode, SIMID: s.Asset.SIMID, DeviceID: s.Asset.DeviceID,
				StartAt: s.StartAt, EndAt: s.EndAt, NextResetAt: s.NextResetAt, UsedBytes: s.UsedBytes})
		}
	}
	if len(due) == 0 {
		return nil
	}
	if because, err := tx.ClockHolds(ctx); err != nil || because != "" {
		return err
	}
	plans, err := plansOf(ctx, tx, due)
	if err != nil {
		return err
	}
	var refills []refill
	for _, d := range due {
		r, err := refillOf(plans[d.PlanID], d, tx.At)
		if err != nil {
			continue
		}
		refills = append(refills, r)
		s := bearing[d.ID]
		s.UsedBytes, s.Exhausted, s.ResetAt, s.NextResetAt = 0, false, r.lastAt, r.nextAt
	}
	return fillAgain(ctx, tx, refills)
}
