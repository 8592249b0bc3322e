// Package plans moves subscriptions: it buys and queues them, ends them at their instant, starts
// the next, refills allowances, and sees to it in the same transaction that what follows is
// decided (L1).
package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrPlanInvalid says what is wrong with a plan; test with errors.Is.
var ErrPlanInvalid = errors.New("this plan cannot be sold")

// maxCount bounds a validity: ten years of days, or of months, or of seconds.
var maxCount = map[simwarden.ValidityUnit]int{
	simwarden.ValidityDays: 3660, simwarden.ValidityMonths: 120, simwarden.ValidityMonthEnd: 1, simwarden.ValidityBilling: 120,
	simwarden.ValiditySeconds: 10 * 366 * 86400,
}

// Check says whether a plan can be sold; the error wraps ErrPlanInvalid and says what to change.
func Check(p simwarden.Plan) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrPlanInvalid}, args...)...)
	}
	limit, known := maxCount[p.ValidityUnit]
	switch {
	case p.Code == "" || len(p.Code) > 64:
		return bad("its code must have 1 to 64 characters")
	case p.Kind != simwarden.PlanMain && p.Kind != simwarden.PlanAddon:
		return bad("its kind is %q; it must be main or addon", p.Kind)
	case p.AllowanceBytes < simwarden.UnlimitedBytes:
		return bad("its allowance is %d bytes; give 0 or more, or -1 for no limit", p.AllowanceBytes)
	case !known:
		return bad("its validity is in %q; give days, months, month_end, billing_month or seconds", p.ValidityUnit)
	case p.ValidityUnit != simwarden.ValidityMonthEnd && p.ValidityCount < 1:
		return bad("a validity of %d %s has no length; give 1 or more", p.ValidityCount, p.ValidityUnit)
	case p.ValidityCount > limit:
		return bad("a validity of %d %s is too long; the longest is %d", p.ValidityCount, p.ValidityUnit, limit)
	}
	if err := checkReset(p.Reset, p.ResetDays, bad); err != nil {
		return err
	}
	switch {
	case p.PriceMinor < 0 || p.PriceMinor > simwarden.MaxMinor:
		return bad("its price is %d minor units; give 0 to %d", p.PriceMinor, simwarden.MaxMinor)
	case p.PriceMinor > 0 && p.Currency == "":
		return bad("a price of %d needs a currency", p.PriceMinor)
	case p.GuardBandBytes == nil && p.GuardBandProbability != 0:
		return bad("a probability goes with a guard band alone")
	case p.GuardBandBytes != nil && (p.Kind != simwarden.PlanMain || p.AllowanceBytes == simwarden.UnlimitedBytes):
		return bad("a guard band goes with a main plan that has a data limit alone")
	case p.GuardBandBytes != nil && *p.GuardBandBytes < 0:
		return bad("a guard band of %d bytes; give 0 or more", *p.GuardBandBytes)
	case p.GuardBandProbability != 0 && !(p.GuardBandProbability >= 0.5 && p.GuardBandProbability <= 0.999):
		return bad("a guard band is promised with a probability of 0.5 to 0.999, not %v", p.GuardBandProbability)
	}
	if p.Currency != "" {
		if err := ledger.CheckCurrency(p.Currency); err != nil {
			return bad("%w", err)
		}
	}
	if _, err := calendar.LoadZone(p.Zone); err != nil {
		return bad("%v", err)
	}
	return checkModes(p, bad)
}

// checkReset says what is wrong with when an allowance, of a plan or a pool, is full again.
func checkReset(reset simwarden.ResetKind, days int, bad func(string, ...any) error) error {
	switch {
	case !slices.Contains(simwarden.ResetKinds(), reset):
		return bad("its reset is %q; give none, calendar_month, billing_month or cycle", reset)
	case reset == simwarden.ResetCycle && (days < 1 || days > 3660):
		return bad("a reset cycle needs a length of 1 to 3660 days, not %d", days)
	case reset != simwarden.ResetCycle && days != 0:
		return bad("a length of %d days goes with reset cycle alone", days)
	}
	return nil
}

// ErrWithdrawn says that a plan is sold no more.
var ErrWithdrawn = errors.New("this plan is withdrawn from sale")

// Order is a plan to buy for an asset.
type Order struct {
	Asset store.Asset
	Plan  simwarden.Plan
	By    string
	// StartAt begins a main plan at an instant of the past or present (an import of what runs
	// already); zero: now, or when the current one ends. Its time must not overlap that of another main
	// plan of the asset, also one that has ended. UTC.
	StartAt time.Time
	// UsedBytes is what an imported subscription has used already.
	UsedBytes int64
	// ImportRef makes a second purchase with the same reference store.ErrImportedBefore.
	ImportRef string
	// Pay takes the plan's price from the wallet of the asset; without it, and for a plan without a
	// price, no wallet is needed.
	Pay bool
	// IdempotencyKey makes a repeated order give the subscription of the first; it belongs to
	// Principal, or to By where that is empty (F51).
	IdempotencyKey string
	Principal      string
	// Renew buys a main plan again at its end, from the asset's wallet (M2).
	Renew bool
}

// Subscribe buys a plan: a main plan begins now where none is in force or queued and it waits for
// nothing else, and is queued otherwise; an add-on begins at once. A plan that can begin at once
// alone is ErrOverlap where another is before it (L4). The evaluation that follows is
// written with it (scenes
// plan_activated, topped_up), and what it costs is booked with it (M1): ledger.ErrNoWallet,
// ErrCurrency, ErrInsufficientFunds, ErrKeyReused. It gives the subscription as written, for a
// repeated order as it stands.
func Subscribe(ctx context.Context, tx *store.Tx, o Order) (simwarden.Subscription, error) {
	b, _, err := SubscribeOnce(ctx, tx, o)
	return b, err
}

// SubscribeOnce is Subscribe, and says whether the order had its effect before, under its key, so
// that nothing was done now.
func SubscribeOnce(ctx context.Context, tx *store.Tx, o Order) (b simwarden.Subscription, replayed bool, err error) {
	if err := tx.LockAsset(ctx, o.Asset); err != nil {
		return b, false, err
	}
	pay, err := newPayment(ctx, tx, o)
	if err != nil || pay.before != 0 {
		b, err = pay.subscription(ctx, tx, err)
		return b, err == nil, err
	}
	b, err = subscribe(ctx, tx, o, pay)
	return b, false, err
}

// subscribe writes the subscription and what follows from it.
func subscribe(ctx context.Context, tx *store.Tx, o Order, pay payment) (simwarden.Subscription, error) {
	if !o.Plan.WithdrawnAt.IsZero() {
		return simwarden.Subscription{}, fmt.Errorf("plan %s: %w", o.Plan.Code, ErrWithdrawn)
	}
	live, err := tx.LiveSubscriptions(ctx, o.Asset)
	if err != nil {
		return simwarden.Subscription{}, err
	}
	b := simwarden.Subscription{
		SIMID: o.Asset.SIMID, DeviceID: o.Asset.DeviceID, PlanID: o.Plan.ID, PlanCode: o.Plan.Code, Kind: o.Plan.Kind,
		State: simwarden.SubscriptionQueued, AllowanceBytes: o.Plan.AllowanceBytes, UsedBytes: o.UsedBytes,
		Renew: o.Renew && o.Plan.Kind == simwarden.PlanMain,
	}
	scene := simwarden.SceneToppedUp
	if o.Plan.Kind == simwarden.PlanMain {
		scene = simwarden.ScenePlanActivated
	}
	ahead := mainAhead(live, tx.At)
	now, err := activate(ctx, tx, &b, o, ahead)
	if err != nil {
		return b, err
	}
	if now {
		if err := begin(&b, o, tx.At); err != nil {
			return b, err
		}
		if err := standsAlone(ctx, tx, b, o); err != nil {
			return b, err
		}
	}
	if b.ID, err = tx.AddSubscription(ctx, b, o.By, o.ImportRef); err != nil {
		return b, err
	}
	if err := pay.book(ctx, tx, b.ID); err != nil {
		return b, err
	}
	err = tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventSubscribed, SIMID: b.SIMID, Actor: o.By,
		Data: map[string]any{"subscription_id": b.ID, "plan": b.PlanCode, "state": b.State, "start_at": b.StartAt, "end_at": b.EndAt, "device_id": b.DeviceID}}})
	switch {
	case err != nil:
		return b, err
	case b.State == simwarden.SubscriptionQueued && b.Activation == simwarden.ActivateFirstUse && !ahead:
		scene = simwarden.ScenePlanCheck // it has to run to be used
	case b.State == simwarden.SubscriptionQueued:
		return b, nil
	}
	_, err = tx.RequestEvaluation(ctx, store.Evaluation{
		SIMID: b.SIMID, DeviceID: b.DeviceID, Scene: scene, SubscriptionID: b.ID, AskedBy: o.By,
		Cause: store.Cause{Kind: store.CauseSubscription, ID: int64(b.ID)},
	})
	return b, err
}

// standsAlone says whether a main plan that has begun in the past, as an import has it, shares none of its time
// with another of its asset, ended ones too: usage of that time would belong to either (L4, V11).
func standsAlone(ctx context.Context, tx *store.Tx, b simwarden.Subscription, o Order) error {
	if b.Kind != simwarden.PlanMain || !b.StartAt.Before(tx.At) {
		return nil
	}
	other, err := tx.MainBetween(ctx, o.Asset, b.StartAt, b.EndAt)
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return fmt.Errorf("%w then: from %s to %s it would overlap subscription %d (plan %s), which ran until %s; give that as its start, or a later one",
		ErrPlanInvalid, b.StartAt.Format(time.RFC3339), b.EndAt.Format(time.RFC3339), other.ID, other.PlanCode, other.EndAt.Format(time.RFC3339))
}

// begin makes the subscription active, with its bounds.
func begin(b *simwarden.Subscription, o Order, at time.Time) error {
	start := at
	if !o.StartAt.IsZero() {
		start = o.StartAt
	}
	if start.After(at) {
		return fmt.Errorf("%w: it would begin at %s, in the future; only what runs already can be imported with a start", ErrPlanInvalid, start.Format(time.RFC3339))
	}
	end, reset, err := rules.Period(o.Plan, start)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrPlanInvalid, err)
	}
	if b.AnchorDay, err = rules.AnchorDay(o.Plan, start, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrPlanInvalid, err)
	}
	if !reset.IsZero() && !reset.After(at) {
		if reset, err = rules.NextReset(o.Plan, start, at, end); err != nil {
			return fmt.Errorf("%w: %w", ErrPlanInvalid, err)
		}
	}
	b.State, b.StartAt, b.EndAt, b.NextResetAt = simwarden.SubscriptionActive, start, end, reset
	if b.AllowanceBytes != simwarden.UnlimitedBytes && b.UsedBytes >= b.AllowanceBytes {
		b.State = simwarden.SubscriptionExhausted
	}
	return nil
}

// mainAhead says whether a main plan is in force or queued, so that another has to wait.
func mainAhead(live []simwarden.Subscription, at time.Time) bool {
	for _, b := range live {
		if b.Kind == simwarden.PlanMain && (b.State == simwarden.SubscriptionQueued || b.InForce(at)) {
			return true
		}
	}
	return false
}
