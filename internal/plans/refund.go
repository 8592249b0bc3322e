package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrEndedAlready says that a subscription has expired, or was refunded or cancelled, before.
var ErrEndedAlready = errors.New("this subscription has ended already")

// ErrBegun says that a subscription has begun, and is refunded, not cancelled.
var ErrBegun = errors.New("this subscription has begun; refund it")

// Takeback is a subscription to take back.
type Takeback struct {
	SubscriptionID simwarden.SubscriptionID
	// AmountMinor is what its buyer gets back, in minor units of what was paid; 0 for all that is
	// left of it. KeepMoney gives nothing back.
	AmountMinor int64
	KeepMoney   bool
	// Cancel ends one that has not begun, as cancelled: ErrBegun where it has.
	Cancel bool
	Actor  string
	Reason string
	// IdempotencyKey makes a repeated request change nothing; it belongs to Principal, or to Actor
	// where that is empty (F51).
	IdempotencyKey string
	Principal      string
}

// Refund takes a subscription back and gives back all that is left of what was paid; see TakeBack.
func Refund(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, actor, reason string) error {
	_, err := TakeBack(ctx, tx, Takeback{SubscriptionID: id, Actor: actor, Reason: reason})
	return err
}

// TakeBack ends a subscription and books the refund with it (L3). Where it was a main plan in force,
// the next queued one begins now; where none is left, the asset is judged at once with scene
// refunded. It gives what was booked, nothing for what cost nothing. ErrEndedAlready where it has
// ended; ledger.ErrAbovePurchase, ErrNotPaid where that amount was not paid, ErrKeyReused.
func TakeBack(ctx context.Context, tx *store.Tx, r Takeback) (ledger.Transaction, error) {
	b, err := tx.SubscriptionByID(ctx, r.SubscriptionID)
	if err != nil {
		return ledger.Transaction{}, err
	}
	asset := store.Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}
	if err := tx.LockAsset(ctx, asset); err != nil {
		return ledger.Transaction{}, err
	}
	what, action, state, event := "take_back", "refund", simwarden.SubscriptionRefunded, store.EventRefunded
	if r.Cancel {
		what, action, state, event = "cancel", "cancel_subscription", simwarden.SubscriptionCancelled, store.EventCancelled
	}
	request, err := ledger.FingerprintOf(what, b.ID, r.AmountMinor, r.KeepMoney, r.Reason)
	if err != nil {
		return ledger.Transaction{}, err
	}
	by := ledger.By{Actor: r.Actor, Principal: r.Principal, Key: r.IdempotencyKey}
	if t, found, err := ledger.Find(ctx, tx, by, request); err != nil || found {
		return t, err
	}
	if b, err = tx.SubscriptionByID(ctx, b.ID); err != nil { // under the lock: it may have begun meanwhile
		return ledger.Transaction{}, err
	}
	if moved := (store.Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}); moved != asset { // with its SIM into a device
		asset = moved
		if err := tx.LockAsset(ctx, asset); err != nil {
			return ledger.Transaction{}, err
		}
	}
	if r.Cancel && (b.State == simwarden.SubscriptionActive || b.State == simwarden.SubscriptionExhausted) {
		return ledger.Transaction{}, fmt.Errorf("subscription %d: %w", b.ID, ErrBegun)
	}
	ended, err := tx.EndSubscription(ctx, b.ID, state)
	if err != nil {
		return ledger.Transaction{}, err
	}
	if !ended {
		return ledger.Transaction{}, fmt.Errorf("subscription %d: %w", b.ID, ErrEndedAlready)
	}
	t, err := giveBack(ctx, tx, r, request, by)
	if err != nil {
		return t, err
	}
	facts := map[string]any{"subscription_id": b.ID, "plan": b.PlanCode, "reason": r.Reason, "device_id": b.DeviceID,
		"refund_minor": t.AmountMinor, "currency": t.Currency}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: event, SIMID: b.SIMID, Actor: r.Actor, Data: facts}}); err != nil {
		return t, err
	}
	if err := tx.Audit(ctx, r.Actor, action, b.SIMID, 0, facts); err != nil {
		return t, err
	}
	if b.State == simwarden.SubscriptionQueued && !b.Activation.Waits() {
		return t, nil // those behind it begin at the same end as before
	}
	return t, afterRefund(ctx, tx, asset, b)
}

// giveBack books what the buyer gets.
func giveBack(ctx context.Context, tx *store.Tx, r Takeback, request ledger.Fingerprint, by ledger.By) (ledger.Transaction, error) {
	if r.KeepMoney {
		return ledger.KeepKey(ctx, tx, r.SubscriptionID, request, by)
	}
	by.Note = r.Reason
	t, err := ledger.RefundRequest(ctx, tx, r.SubscriptionID, r.AmountMinor, request, by)
	nothingLeft := errors.Is(err, ledger.ErrNotPaid) || errors.Is(err, ledger.ErrAbovePurchase)
	if r.AmountMinor == 0 && nothingLeft {
		return ledger.KeepKey(ctx, tx, r.SubscriptionID, request, by)
	}
	return t, err
}

func afterRefund(ctx context.Context, tx *store.Tx, asset store.Asset, b simwarden.Subscription) error {
	live, err := tx.LiveByAsset(ctx, []store.Asset{asset})
	if err != nil {
		return err
	}
	plans, err := tx.PlansByID(ctx, plansAhead(live))
	if err != nil {
		return err
	}
	c, err := newChanges(ctx, tx, live)
	if err != nil {
		return err
	}
	if b.Kind == simwarden.PlanMain {
		notBefore(live[asset], tx.At)
		if err := c.asset(ctx, asset, live[asset], plans); err != nil {
			return err
		}
	}
	// What else has just ended may have asked for a plan check alone, which a pause holds back: the
	// refund has its own say (E6). Of two judgements of one SIM the last counts.
	if !c.judged(simwarden.ScenePlanLapsed, simwarden.SceneQueuedActivated, simwarden.SceneToppedUp,
		simwarden.ScenePlanActivated, simwarden.SceneRealNameActivated) {
		scene := simwarden.SceneRefunded
		if b.Kind != simwarden.PlanMain || mainRunning(live[asset], tx.At) {
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
