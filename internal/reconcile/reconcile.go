// Package reconcile turns facts into a decision and a decision into an order, inside the caller's
// transaction, so that a cause and the command it leads to commit together (C1). It alone opens
// commands and says what a SIM is.
package reconcile

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// Item is one SIM to judge.
type Item struct {
	SIMID          simwarden.SIMID
	Scene          simwarden.Scene
	Cause          store.Cause
	SubscriptionID simwarden.SubscriptionID // the one that lapsed, was refunded, activated …
	AskedBy        string                   // "system", "cli:anna", "token:…"
	Manual         simwarden.Direction      // in scene manual alone
	// Requested says that the caller holds an evaluation request for this item and keeps it waiting
	// where the order is to wait; otherwise a request is written then.
	Requested bool
	// Observed is a lapse that was not commanded while the account observed. Where polling is stopped the
	// item is judged as that lapse, which nothing else would come back to (E6); where it is not, as any
	// other, so that the brake has its say in what begins with the account's acting (C10).
	Observed *store.Lapse
}

// settle gives the item as it is to be judged, given the SIM.
func (item Item) settle(sim store.SIMFacts) Item {
	if l := item.Observed; l != nil && sim.Facts.PollingStopped() {
		item.Scene, item.SubscriptionID = l.Scene, l.SubscriptionID
		item.Cause = store.Cause{Kind: store.CauseSubscription, ID: int64(l.SubscriptionID)}
	}
	return item
}

// Outcome is what came of one item.
type Outcome struct {
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	ICCID     string
	Facts     rules.Facts
	Decision  simwarden.Decision
	Ordered   rules.Ordered
	CommandID simwarden.CommandID // of the command that was opened
}

// System is who asks for what no person asked for.
const System = "system"

// SIM judges one SIM and orders what follows; see SIMs.
func SIM(ctx context.Context, tx *store.Tx, item Item) (Outcome, error) {
	out, err := SIMs(ctx, tx, []Item{item})
	if err != nil {
		return Outcome{}, err
	}
	if len(out) == 0 {
		return Outcome{}, fmt.Errorf("judge sim %d: %w", item.SIMID, store.ErrNotFound)
	}
	return out[0], nil
}

// SIMs judges SIMs, each at most once in a call, and writes what follows: the decision, a command,
// the end of one that is no longer wanted, or an evaluation request that waits for the command
// under way. The SIMs are locked in the order of their ids; those that do not exist are left out.
func SIMs(ctx context.Context, tx *store.Tx, items []Item) ([]Outcome, error) {
	return run(ctx, tx, items, nil)
}

// run judges; drifted names the SIMs whose state a reading found changed from outside.
func run(ctx context.Context, tx *store.Tx, items []Item, drifted map[simwarden.SIMID]bool) ([]Outcome, error) {
	byID := make(map[simwarden.SIMID]Item, len(items))
	ids := make([]simwarden.SIMID, 0, len(items))
	for _, item := range items {
		if _, twice := byID[item.SIMID]; !twice {
			ids = append(ids, item.SIMID)
		}
		byID[item.SIMID] = item
	}
	if len(ids) == 0 {
		return nil, nil
	}
	slices.Sort(ids)
	sims, err := tx.Facts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	accounts, err := accountsOf(ctx, tx, sims)
	if err != nil {
		return nil, err
	}
	var lapses []store.Lapse
	for _, sim := range sims {
		byID[sim.ID] = byID[sim.ID].settle(sim)
		if l, ok := lapseOf(byID[sim.ID]); ok {
			lapses = append(lapses, l)
		}
	}
	triggered, err := tx.LapsesTriggered(ctx, lapses)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	w := &writer{tx: tx, brakes: map[simwarden.AccountID]*brake{}, triggered: triggered}
	out := make([]Outcome, 0, len(sims))
	for _, sim := range sims {
		o, err := w.judge(ctx, sim, byID[sim.ID], accounts[sim.AccountID], drifted[sim.ID])
		if err != nil {
			return nil, fmt.Errorf("judge sim %d: %w", sim.ID, err)
		}
		out = append(out, o)
	}
	return out, w.flush(ctx, out)
}

func accountsOf(ctx context.Context, tx *store.Tx, sims []store.SIMFacts) (map[simwarden.AccountID]store.Account, error) {
	var ids []simwarden.AccountID
	for _, s := range sims {
		if !slices.Contains(ids, s.AccountID) {
			ids = append(ids, s.AccountID)
		}
	}
	return tx.AccountsByID(ctx, ids)
}

// decidedAt is the instant for which the facts are judged: the transaction's, which was taken when it
// began, or a little later where the facts hold a plan that another transaction has started since. No
// plan is started ahead of time, so its start has passed; judged at the earlier instant, a SIM whose
// plan was bought while we waited for its lock would be found without one.
func decidedAt(f rules.Facts, at time.Time) time.Time {
	for _, b := range f.Subscriptions {
		if b.StartAt.After(at) {
			at = b.StartAt
		}
	}
	return at
}

// complete adds to the facts what the account, its driver, the scene and the instant say. Of a driver
// that is not built in, as in a program older than the account, nothing is known; the SIM is judged
// by the rest, so that it holds up no other, and nobody can send until the driver is there.
func complete(f *rules.Facts, a store.Account, item Item, at time.Time) {
	var info carrier.Info
	if driver, err := carrier.Lookup(a.Driver); err == nil {
		info = driver.Info()
	}
	f.NowAt, f.Scene, f.Manual = decidedAt(*f, at), item.Scene, item.Manual
	plantedFacts(f)
	f.TrafficStates = info.TrafficStates
	f.RealNameRequired, f.Unplanned, f.FreshFor = a.RealNameRequired, a.Unplanned, a.FreshFor
	if f.GuardBand != nil {
		f.GuardBand.CarrierLag = info.Usage.Lag
	}
	f.HasUsage, f.HasReal = info.CanRead(simwarden.CheckUsage), info.CanRead(simwarden.CheckRealName)
}

// Priority orders waiting commands (G5): a person's click first, then resumes of paid SIMs and
// suspends of ended plans, then the rest.
func Priority(d simwarden.Direction, s simwarden.Scene) int {
	switch {
	case s == simwarden.SceneManual:
		return 100
	case d == simwarden.DirectionResume, s.EndsPlan():
		return 80
	}
	return 50
}
