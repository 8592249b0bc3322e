package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// maxRenewals bounds how many periods of one asset are bought at once, after the process was
	// away: beyond it a person's top-up begins anew.
	maxRenewals = 24
	// renewWaitFor is how long a renewal that nobody could pay waits for money; a later top-up does
	// not bring back what was given up.
	renewWaitFor = 30 * 24 * time.Hour
	// renewPause is how long a renewal rests that could not be handled.
	renewPause = time.Hour
)

// errManyPeriods is why a renewal stops although the wallet has money.
var errManyPeriods = fmt.Errorf("more than %d periods have passed at once", maxRenewals)

// unpaid is a renewal that could not be paid.
type unpaid struct {
	wait store.RenewalWait
	plan string
	why  error
}

// SetRenewal says whether a main subscription is bought again at its end, from its asset's wallet,
// and as which plan: a zero Plan for the same (M2). ErrPlanInvalid where the plan is no main plan.
func SetRenewal(ctx context.Context, tx *store.Tx, id simwarden.SubscriptionID, renew bool, as simwarden.Plan, actor string) error {
	b, err := tx.SubscriptionByID(ctx, id)
	if err != nil {
		return err
	}
	if b.Kind != simwarden.PlanMain || as.ID != 0 && as.Kind != simwarden.PlanMain {
		return fmt.Errorf("%w again by itself: only a main plan is, as a main plan", ErrPlanInvalid)
	}
	if err := tx.LockAsset(ctx, store.Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}); err != nil {
		return err
	}
	if _, err := tx.SetRenewal(ctx, id, renew, as.ID); err != nil {
		return err
	}
	return tx.Audit(ctx, actor, "set_renewal", b.SIMID, 0, map[string]any{
		"subscription_id": id, "renew": renew, "plan": as.Code, "device_id": b.DeviceID})
}

// renewalPlan is what a subscription is bought again as.
func renewalPlan(b simwarden.Subscription) simwarden.PlanID {
	if b.RenewPlanID != 0 {
		return b.RenewPlanID
	}
	return b.PlanID
}

// newChanges begins to collect what follows for the assets, locked before, and locks the wallets of
// those that renew. Where none does, it asks the database nothing.
func newChanges(ctx context.Context, tx *store.Tx, live map[store.Asset][]simwarden.Subscription) (*changes, error) {
	c := &changes{tx: tx}
	var assets []store.Asset
	for a, list := range live {
		if slices.ContainsFunc(list, func(b simwarden.Subscription) bool { return b.Renew }) {
			assets = append(assets, a)
		}
	}
	if len(assets) == 0 {
		return c, nil
	}
	var err error
	c.purse, err = ledger.OpenPurse(ctx, tx, assets)
	return c, err
}

// lapsing is what one asset has when something of it ends.
type lapsing struct {
	current, queue []simwarden.Subscription
	plans          map[simwarden.PlanID]simwarden.Plan
	codes          map[simwarden.SubscriptionID]string
}

func (l lapsing) byID(id simwarden.SubscriptionID) simwarden.Subscription {
	for _, list := range [][]simwarden.Subscription{l.current, l.queue} {
		for _, b := range list {
			if b.ID == id {
				return b
			}
		}
	}
	return simwarden.Subscription{}
}

// renew buys the next plan for an asset whose last main plan has ended with nothing behind it: as if
// it had been queued, so that it begins exactly at the end of the one before (L4, M2), and again
// where that has ended too. What cannot be paid is kept and told, and the lapse goes on.
func (c *changes) renew(ctx context.Context, a store.Asset, l lapsing, r rules.LapseResult) (rules.LapseResult, bool, error) {
	renewed := false
	for n := 0; r.MainEnded && !r.MainInForce; n++ {
		last := l.byID(lastMain(r))
		if !last.Renew || len(r.Started) < len(l.queue) { // what waits is next, whatever it waits for
			break
		}
		plan, ok := l.plans[renewalPlan(last)]
		if !ok {
			return r, false, fmt.Errorf("renew subscription %d: plan %d is not given", last.ID, renewalPlan(last))
		}
		if why := c.cannotRenew(a, plan, n); why != nil {
			c.unpaid = append(c.unpaid, unpaid{plan: plan.Code, why: why, wait: store.RenewalWait{
				SubscriptionID: last.ID, Asset: a, PlanID: plan.ID, WalletID: c.purse.WalletOf(a)}})
			break
		}
		b := simwarden.Subscription{State: simwarden.SubscriptionQueued}
		b, err := c.buyAgain(ctx, a, last.ID, plan, b, "renewal")
		if err != nil {
			return r, false, err
		}
		l.codes[b.ID] = plan.Code
		l.queue = append(l.queue, b)
		if r, err = rules.Lapse(l.current, l.queue, l.plans, c.tx.At); err != nil {
			return r, false, err
		}
		renewed = r.MainInForce
	}
	return r, renewed, nil
}

func (c *changes) cannotRenew(a store.Asset, plan simwarden.Plan, n int) error {
	if n >= maxRenewals {
		return errManyPeriods
	}
	return c.purse.CanPay(a, plan)
}

func lastMain(r rules.LapseResult) (id simwarden.SubscriptionID) {
	for _, e := range r.Expired {
		if e.Kind == simwarden.PlanMain {
			id = e.ID
		}
	}
	return id
}

// buyAgain writes and pays the renewal of a subscription that has lapsed, or will; b says its state and
// bounds. It is renewed in its turn. The occasion is in the key.
func (c *changes) buyAgain(ctx context.Context, a store.Asset, lapsed simwarden.SubscriptionID, plan simwarden.Plan, b simwarden.Subscription, occasion string) (simwarden.Subscription, error) {
	b.SIMID, b.DeviceID, b.PlanID, b.PlanCode, b.Kind = a.SIMID, a.DeviceID, plan.ID, plan.Code, plan.Kind
	b.AllowanceBytes, b.Renew = plan.AllowanceBytes, true
	var err error
	if b.ID, err = c.tx.AddSubscription(ctx, b, reconcile.System, ""); err != nil {
		return b, err
	}
	request, err := ledger.FingerprintOf("renewal", lapsed, plan.ID)
	if err != nil {
		return b, err
	}
	// The key is a second guard, behind the locks: whatever happens, one lapse is renewed once.
	t, err := c.purse.Purchase(ctx, ledger.PurchaseOrder{SubscriptionID: b.ID, Asset: a, Plan: plan, Request: request},
		ledger.By{Actor: reconcile.System, Principal: "renewal", Key: fmt.Sprintf("%s:%d", occasion, lapsed), Note: "renewal"})
	if err == nil && t.Replayed {
		err = errors.New("it has been renewed before")
	}
	if err != nil {
		return b, fmt.Errorf("renew subscription %d: %w", lapsed, err)
	}
	c.events = append(c.events, store.NewEvent{Kind: store.EventRenewed, SIMID: a.SIMID, Actor: reconcile.System, Data: map[string]any{
		"subscription_id": b.ID, "renews": lapsed, "plan": plan.Code, "price_minor": plan.PriceMinor, "currency": plan.Currency, "device_id": a.DeviceID}})
	return b, nil
}

// keepUnpaid keeps the renewals that nobody could pay, and tells of them: an event for each, and an
// alert for each wallet.
func (c *changes) keepUnpaid(ctx context.Context) error {
	if len(c.unpaid) == 0 {
		return nil
	}
	waits := make([]store.RenewalWait, len(c.unpaid))
	alerts := map[string]*store.Alert{}
	times := map[string]int{}
	var keys []string
	for i, u := range c.unpaid {
		waits[i] = u.wait
		a := u.wait.Asset
		c.events = append(c.events, store.NewEvent{Kind: store.EventRenewalUnpaid, SIMID: a.SIMID, Actor: reconcile.System, Data: map[string]any{
			"subscription_id": u.wait.SubscriptionID, "plan": u.plan, "wallet_id": u.wait.WalletID, "because": u.why.Error(), "device_id": a.DeviceID}})
		key := ledger.RenewalAlertKey(u.wait.WalletID, a)
		if alerts[key] == nil {
			keys = append(keys, key)
			alerts[key] = &store.Alert{Kind: store.AlertRenewal, Key: key}
			if u.wait.WalletID == 0 {
				alerts[key].SIMID = a.SIMID
			}
		}
		times[key]++
		alerts[key].Message = fmt.Sprintf("%d renewals could not be paid, the last of plan %s: %v", times[key], u.plan, u.why)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if err := c.tx.Raise(ctx, *alerts[key]); err != nil {
			return err
		}
	}
	return c.tx.AddRenewalWaits(ctx, waits)
}

// sweepRenewals tries renewals again whose wallet has got more.
func (s *Sweeper) sweepRenewals(ctx context.Context) (int, error) {
	n, err := s.tryRenewals(ctx, nil, sweepBatch)
	if err == nil || ctx.Err() != nil || store.IsUnavailable(err) {
		return n, err
	}
	s.Log.Warn("a batch of renewals failed, trying them one by one", "error", err)
	n = 0
	for range sweepBatch {
		var tried []store.RenewalWait
		one, err := s.tryRenewals(ctx, &tried, 1)
		switch {
		case err == nil && one == 0:
			return n, nil
		case err == nil:
			n++
		case ctx.Err() != nil, store.IsUnavailable(err), len(tried) == 0:
			return n, err
		default:
			s.Log.Error("a renewal could not be handled", "subscription", tried[0].SubscriptionID, "error", err)
			if err := s.Store.PostponeRenewal(ctx, tried[0].SubscriptionID, s.Store.Now().Add(renewPause)); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

func (s *Sweeper) tryRenewals(ctx context.Context, tried *[]store.RenewalWait, limit int) (n int, err error) {
	err = s.Store.InWorkTx(ctx, func(tx *store.Tx) error {
		due, err := tx.DueRenewals(ctx, nil, limit)
		if n = len(due); err != nil || n == 0 {
			return err
		}
		if tried != nil {
			*tried = due
		}
		return renewWaiting(ctx, tx, due)
	})
	if err != nil {
		return 0, fmt.Errorf("renew subscriptions: %w", err)
	}
	return n, nil
}

// renewWaiting buys for each asset that has no main plan since its renewal could not be paid; what
// is bought now begins now, for the SIM was suspended meanwhile. Where the plan still runs, its early
// renewal is queued behind it.
func renewWaiting(ctx context.Context, tx *store.Tx, due []store.RenewalWait) error {
	assets, ids := make([]store.Asset, 0, len(due)), make([]simwarden.SubscriptionID, 0, len(due))
	for _, w := range due {
		assets, ids = append(assets, w.Asset), append(ids, w.SubscriptionID)
	}
	live, err := lockLive(ctx, tx, assets)
	if err != nil {
		return err
	}
	c := &changes{tx: tx}
	if c.purse, err = ledger.OpenPurse(ctx, tx, assets); err != nil {
		return err
	}
	if due, err = tx.DueRenewals(ctx, ids, len(ids)); err != nil { // those that nobody else handled meanwhile
		return err
	}
	planIDs := plansAhead(live)
	for _, w := range due {
		planIDs = append(planIDs, w.PlanID)
	}
	plans, err := tx.PlansByID(ctx, planIDs)
	if err != nil {
		return err
	}
	var over []simwarden.SubscriptionID
	for _, w := range due {
		if i := slices.IndexFunc(live[w.Asset], func(b simwarden.Subscription) bool { return b.ID == w.SubscriptionID && b.Renew && b.InForce(tx.At) }); i >= 0 {
			bought, err := c.renewEarly(ctx, w.Asset, live[w.Asset], live[w.Asset][i], plans)
			if err != nil {
				return err
			}
			if bought {
				over = append(over, w.SubscriptionID)
			}
			continue
		}
		if mainAhead(live[w.Asset], tx.At) || tx.At.Sub(w.SinceAt) > renewWaitFor {
			over = append(over, w.SubscriptionID)
			continue
		}
		plan := plans[w.PlanID]
		if why := c.purse.CanPay(w.Asset, plan); why != nil {
			w.WalletID = c.purse.WalletOf(w.Asset)
			c.unpaid = append(c.unpaid, unpaid{wait: w, plan: plan.Code, why: why})
			continue
		}
		b := simwarden.Subscription{AllowanceBytes: plan.AllowanceBytes}
		if err := begin(&b, Order{Plan: plan}, tx.At); err != nil {
			return err
		}
		if b, err = c.buyAgain(ctx, w.Asset, w.SubscriptionID, plan, b, "renewal"); err != nil {
			return err
		}
		live[w.Asset] = append(live[w.Asset], b)
		over = append(over, w.SubscriptionID)
		c.judge(w.Asset, simwarden.SceneToppedUp, b.ID)
	}
	if err := tx.EndRenewalWaits(ctx, over); err != nil {
		return err
	}
	return c.flush(ctx)
}

// sweepHolds gives back money that was set aside and whose time has come.
func (s *Sweeper) sweepHolds(ctx context.Context) (n int, err error) {
	err = s.Store.InWorkTx(ctx, func(tx *store.Tx) (err error) {
		n, err = ledger.ReleaseExpired(ctx, tx, sweepBatch)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("release expired holds: %w", err)
	}
	return n, nil
}
