package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrEndedAlready says that a subscription has expired, or was refunded or cancelled, before.
var ErrEndedAlready = errors.New("this subscription has ended already")

// Refund takes a subscription back (L3). Where it was a main plan in force, the next queued one
// begins now; where none is left, the asset is judged at once with scene refunded.
func Refund(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, actor, reason string) error {
	b, err := tx.SubscriptionByID(ctx, id)
	if err != nil {
		return err
	}
	asset := store.Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}
	if err := tx.LockAsset(ctx, asset); err != nil {
		return err
	}
	ended, err := tx.EndSubscription(ctx, id, simwarden.SubscriptionRefunded)
	if err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("subscription %d: %w", id, ErrEndedAlready)
	}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventRefunded, SIMID: b.SIMID, Actor: actor,
		Data: map[string]any{"subscription_id": id, "plan": b.PlanCode, "reason": reason, "device_id": b.DeviceID}}}); err != nil {
		return err
	}
	if err := tx.Audit(ctx, actor, "refund", b.SIMID, 0, map[string]any{"subscription_id": id, "reason": reason}); err != nil {
		return err
	}
	if b.State == simwarden.SubscriptionQueued {
		return nil
	}
	return afterRefund(ctx, tx, asset, b)
}

func afterRefund(ctx context.Context, tx *store.Tx, asset store.Asset, b simwarden.Subscription) error {
	live, err := tx.LiveByAsset(ctx, []store.Asset{asset})
	if err != nil {
		return err
	}
	plans, err := tx.PlansByID(ctx, queuedPlans(live))
	if err != nil {
		return err
	}
	c := changes{tx: tx}
	if b.Kind == simwarden.PlanMain {
		if err := c.asset(ctx, asset, live[asset], plans); err != nil {
			return err
		}
	}
	// What else has just ended may have asked for a plan check alone, which a pause holds back: the
	// refund has its own say (E6). Of two judgements of one SIM the last counts.
	if !c.judged(simwarden.ScenePlanLapsed, simwarden.SceneQueuedActivated) {
		scene := simwarden.SceneRefunded
		if b.Kind != simwarden.PlanMain || mainAhead(live[asset], tx.At) {
			scene = simwarden.ScenePlanCheck
		}
		c.judge(asset, scene, b.ID)
	}
	return c.flush(ctx)
}

// judged says whether something has been asked for with one of the scenes.
func (c *changes) judged(scenes ...simwarden.Scene) bool {
	return slices.ContainsFunc(c.items, func(i reconcile.Item) bool { return slices.Contains(scenes, i.Scene) }) ||
		slices.ContainsFunc(c.requests, func(e store.Evaluation) bool { return slices.Contains(scenes, e.Scene) })
}
