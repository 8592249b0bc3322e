package plans

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// Sweeper ends subscriptions at their instant, starts the queued ones and refills allowances.
type Sweeper struct {
	Store *store.Store
	Clock clock.Clock
	Log   *slog.Logger
	// Every is the longest pause between two sweeps; zero: a second.
	Every time.Duration

	ends, starts, early, resets aside
	held                        atomic.Bool // by the clock guard, at the last look
	many                        bool        // the last sweep found more ends than it took
}

var (
	pointLapseBefore = fault.Register("lapse.before")
	pointLapseIn     = fault.Register("lapse.in")
	pointLapseAfter  = fault.Register("lapse.after")
)

const (
	sweepBatch = 500
	sweepEvery = time.Second
	// sweepShares is how many batches of ends are handled at a time while many are due (L2): one alone
	// leaves the database idle for half of the time.
	sweepShares = 3
)

// Run sweeps every second, and more often where an end is nearer, until ctx ends. Several nodes
// may run it: each takes what the others have not locked. An error is logged and tried again. One
// Sweeper is for one goroutine at a time.
func (s *Sweeper) Run(ctx context.Context) error {
	for {
		n, err := s.Sweep(ctx)
		pause := s.every()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil: // what is due stays so: it is no reason to ask a database in need at once
			s.Log.Error("sweep of plan ends", "error", err)
		case n > 0:
			continue
		default:
			pause = s.untilNext(ctx)
		}
		if err := s.Clock.Sleep(ctx, pause); err != nil {
			return nil
		}
	}
}

func (s *Sweeper) untilNext(ctx context.Context) time.Duration {
	if s.held.Load() {
		return s.every()
	}
	now := s.Store.Now()
	next, err := s.Store.NextPlanInstant(ctx, append(s.ends.until(now), s.resets.until(now)...)...)
	if err != nil || next.IsZero() {
		return s.every()
	}
	return min(max(next.Sub(s.Clock.Now()), 20*time.Millisecond), s.every())
}

func (s *Sweeper) every() time.Duration {
	if s.Every > 0 {
		return s.Every
	}
	return sweepEvery
}

// Sweep handles one batch of each that is due: ends, starts of what has waited, renewals ahead of an
// end, resets, those of pools too, renewals whose wallet has got more, and holds of money that have expired.
// It gives how many. Ends are looked for in any case, since that look guards the clock.
func (s *Sweeper) Sweep(ctx context.Context) (int, error) {
	sum, err := s.sweepEnds(ctx)
	if err != nil {
		return sum, err
	}
	due, err := s.Store.PlansDue(ctx, s.Store.Now())
	if err != nil {
		return sum, err
	}
	for _, part := range []struct {
		due   bool
		sweep func(context.Context) (int, error)
	}{
		{due.Starts, s.sweepStarts}, {due.Early, s.sweepEarly}, {due.Resets, s.sweepResets}, {due.Pools, s.sweepPools},
		{due.Renewals, s.sweepRenewals}, {due.Holds, s.sweepHolds},
	} {
		if !part.due {
			continue
		}
		n, err := part.sweep(ctx)
		sum += n
		if err != nil {
			return sum, err
		}
	}
	return sum, nil
}

// sweepEnds handles one batch of ends, or one of each share at a time where many are due.
func (s *Sweeper) sweepEnds(ctx context.Context) (int, error) {
	shares := 1
	if s.many {
		shares = sweepShares
	}
	handled, errs := make([]int, shares), make([]error, shares)
	var all sync.WaitGroup
	for i := range shares {
		all.Go(func() { handled[i], errs[i] = s.sweepShare(ctx, store.Share{Part: i, Of: shares}) })
	}
	all.Wait()
	n := 0
	for _, one := range handled {
		n += one
	}
	s.many = slices.Contains(handled, sweepBatch)
	return n, errors.Join(errs...)
}

func (s *Sweeper) sweepShare(ctx context.Context, share store.Share) (int, error) {
	pointLapseBefore.Hit()
	taken := func(tx *store.Tx, ctx context.Context, limit int, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
		return takeLapsed(ctx, tx, limit, share, except...)
	}
	n, err := s.work(ctx, batch{aside: &s.ends, name: "end", take: s.trusted(taken), do: func(ctx context.Context, tx *store.Tx, due []simwarden.Subscription) error {
		pointLapseIn.Hit()
		return lapse(ctx, tx, due)
	}})
	if err != nil {
		return 0, fmt.Errorf("end subscriptions: %w", err)
	}
	if n > 0 {
		pointLapseAfter.Hit()
	}
	return n, nil
}

// lapse ends what has come to its end for the assets of the due subscriptions, starts what is
// queued, and judges (L1).
func lapse(ctx context.Context, tx *store.Tx, due []simwarden.Subscription) error {
	c, err := change(ctx, tx, assetsOf(due), func([]simwarden.Subscription) bool { return true })
	if err != nil {
		return err
	}
	return c.flush(ctx)
}

// change moves the subscriptions of assets, which it locks: what has come to its end ends, what can begin
// begins. Assets for which moves says no, given what is live of them, stay. What follows is left to flush.
func change(ctx context.Context, tx *store.Tx, assets []store.Asset, moves func(live []simwarden.Subscription) bool) (*changes, error) {
	live, err := lockLive(ctx, tx, assets)
	if err != nil {
		return nil, err
	}
	plans, err := tx.PlansByID(ctx, plansAhead(live))
	if err != nil {
		return nil, err
	}
	c, err := newChanges(ctx, tx, live)
	if err != nil {
		return nil, err
	}
	for _, a := range assets {
		if !moves(live[a]) {
			continue
		}
		if err := c.asset(ctx, a, live[a], plans); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// lockLive locks assets and gives what is live of each then.
func lockLive(ctx context.Context, tx *store.Tx, assets []store.Asset) (map[store.Asset][]simwarden.Subscription, error) {
	if err := tx.LockAssets(ctx, assets); err != nil {
		return nil, err
	}
	return tx.LiveByAsset(ctx, assets)
}

// changes collects what the lapses of one transaction lead to.
type changes struct {
	tx       *store.Tx
	ended    []simwarden.SubscriptionID
	events   []store.NewEvent
	items    []reconcile.Item
	requests []store.Evaluation // of devices
	purse    *ledger.Purse      // nil where nothing is renewed
	unpaid   []unpaid
}

func (c *changes) asset(ctx context.Context, a store.Asset, live []simwarden.Subscription, plans map[simwarden.PlanID]simwarden.Plan) error {
	var current, queue []simwarden.Subscription
	codes := map[simwarden.SubscriptionID]string{}
	realName := map[simwarden.SubscriptionID]bool{}
	for _, b := range live {
		realName[b.ID] = b.Activation == simwarden.ActivateRealName
		codes[b.ID] = b.PlanCode
		if b.State == simwarden.SubscriptionQueued {
			queue = append(queue, b)
		} else {
			current = append(current, b)
		}
	}
	result, err := rules.Lapse(current, queue, plans, c.tx.At)
	if err != nil {
		return err
	}
	var renewed bool
	if c.purse != nil {
		if result, renewed, err = c.renew(ctx, a, lapsing{current, queue, plans, codes}, result); err != nil {
			return err
		}
	}
	var lastMain, lastStarted simwarden.SubscriptionID
	for _, started := range result.Started {
		if fault.Planted("V11") { // a gap between a plan and the next
			started.StartAt = started.StartAt.Add(time.Second)
		}
		if _, err := c.tx.StartSubscription(ctx, started.ID, started.StartAt, started.EndAt, started.NextResetAt, started.AnchorDay); err != nil {
			return err
		}
		if realName[started.ID] { // it was no plan until now
			if err := c.tx.MarkPlanned(ctx, a); err != nil {
				return err
			}
		}
		lastStarted = started.ID
		c.events = append(c.events, store.NewEvent{Kind: store.EventPlanActivated, SIMID: a.SIMID, Actor: reconcile.System,
			Data: map[string]any{"subscription_id": started.ID, "plan": codes[started.ID], "start_at": started.StartAt, "end_at": started.EndAt, "device_id": a.DeviceID}})
	}
	for _, expired := range result.Expired {
		c.ended = append(c.ended, expired.ID)
		if expired.Kind == simwarden.PlanMain {
			lastMain = expired.ID
		}
		c.events = append(c.events, store.NewEvent{Kind: store.EventLapsed, SIMID: a.SIMID, Actor: reconcile.System,
			Data: map[string]any{"subscription_id": expired.ID, "plan": codes[expired.ID], "end_at": expired.EndAt, "device_id": a.DeviceID}})
	}
	switch {
	case result.MainEnded && !result.MainInForce:
		c.judge(a, simwarden.ScenePlanLapsed, lastMain)
	case renewed:
		c.judge(a, simwarden.SceneToppedUp, lastStarted)
	case len(result.Started) > 0:
		c.judge(a, sceneOfStart(result.Started), lastStarted)
	case len(result.Expired) > 0:
		c.judge(a, simwarden.ScenePlanCheck, result.Expired[len(result.Expired)-1].ID)
	}
	return nil
}

// judge has a standalone SIM judged in this transaction and asks for a device's evaluation (L1).
func (c *changes) judge(a store.Asset, scene simwarden.Scene, sub simwarden.SubscriptionID) {
	cause := store.Cause{Kind: store.CauseSubscription, ID: int64(sub)}
	if a.DeviceID != 0 {
		c.requests = append(c.requests, store.Evaluation{DeviceID: a.DeviceID, Scene: scene, Cause: cause, SubscriptionID: sub, AskedBy: reconcile.System})
		return
	}
	c.items = append(c.items, reconcile.Item{SIMID: a.SIMID, Scene: scene, Cause: cause, SubscriptionID: sub, AskedBy: reconcile.System})
}

func (c *changes) flush(ctx context.Context) error {
	if fault.Planted("V1") { // what has ended commits without anything that follows from it
		c.items, c.requests = nil, nil
	}
	if err := c.tx.EndSubscriptions(ctx, c.ended, simwarden.SubscriptionExpired); err != nil {
		return err
	}
	if err := c.keepUnpaid(ctx); err != nil {
		return err
	}
	if err := c.tx.AddEvents(ctx, c.events); err != nil {
		return err
	}
	outcomes, err := reconcile.SIMs(ctx, c.tx, c.items)
	if err != nil {
		return err
	}
	orders := make(map[simwarden.SIMID]string, len(outcomes))
	for _, o := range outcomes {
		orders[o.SIMID] = "judged at once: " + string(o.Ordered.Action)
	}
	// A row for each, worked off already, so that no cause is without one (V1).
	list, done := make([]store.Evaluation, 0, len(c.items)+len(c.requests)), make([]string, 0, len(c.items)+len(c.requests))
	for _, item := range c.items {
		list = append(list, store.Evaluation{SIMID: item.SIMID, Scene: item.Scene, Cause: item.Cause, SubscriptionID: item.SubscriptionID, AskedBy: item.AskedBy})
		done = append(done, orders[item.SIMID])
	}
	for _, r := range c.requests {
		list, done = append(list, r), append(done, "")
	}
	return c.tx.RequestEvaluations(ctx, list, done)
}

func (s *Sweeper) sweepResets(ctx context.Context) (int, error) {
	n, err := s.work(ctx, batch{aside: &s.resets, name: "reset", take: s.trusted((*store.Tx).TakeResets), do: usage.ResetSubscriptions})
	if err != nil {
		return 0, fmt.Errorf("reset subscriptions: %w", err)
	}
	return n, nil
}

func assetsOf(due []simwarden.Subscription) []store.Asset {
	var out []store.Asset
	seen := map[store.Asset]bool{}
	for _, b := range due {
		a := store.Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}
		if !seen[a] {
			seen[a] = true
			out = append(out, a)
		}
	}
	slices.SortFunc(out, func(x, y store.Asset) int {
		if x.DeviceID != y.DeviceID {
			return int(x.DeviceID - y.DeviceID)
		}
		return int(x.SIMID - y.SIMID)
	})
	return out
}

// plansAhead are the plans that may begin: of what is queued, and of what is bought again.
func plansAhead(live map[store.Asset][]simwarden.Subscription) []simwarden.PlanID {
	var ids []simwarden.PlanID
	for _, list := range live {
		for _, b := range list {
			if b.State == simwarden.SubscriptionQueued {
				ids = append(ids, b.PlanID)
			}
			if b.Renew {
				ids = append(ids, renewalPlan(b))
			}
		}
	}
	return ids
}
