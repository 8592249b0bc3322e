package plans

import (
	"context"
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

// earlyRenewal is the occasion of a renewal that is bought before the end of its plan.
const earlyRenewal = "early-renewal"

// sweepEarly buys plans again before their end, for accounts whose carrier has to be told early (M2): the
// next is queued, and begins at the end of the one before as any other that is queued (L4).
func (s *Sweeper) sweepEarly(ctx context.Context) (int, error) {
	n, err := s.work(ctx, batch{aside: &s.early, name: "early renewal", take: s.trusted((*store.Tx).TakeEarly), do: early})
	if err != nil {
		return 0, fmt.Errorf("renew subscriptions early: %w", err)
	}
	return n, nil
}

// early renews the due subscriptions, each once: where the wallet cannot pay, that is told and tried again when
// there is more in it, and at the end in any case.
func early(ctx context.Context, tx *store.Tx, due []simwarden.Subscription) error {
	assets := assetsOf(due)
	live, err := lockLive(ctx, tx, assets)
	if err != nil {
		return err
	}
	plans, err := tx.PlansByID(ctx, plansAhead(live))
	if err != nil {
		return err
	}
	c := &changes{tx: tx}
	if c.purse, err = ledger.OpenPurse(ctx, tx, assets); err != nil {
		return err
	}
	ids := make([]simwarden.SubscriptionID, len(due))
	for i, b := range due {
		ids[i] = b.ID
		a := store.Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}
		if _, err := c.renewEarly(ctx, a, live[a], b, plans); err != nil {
			return err
		}
	}
	if err := tx.MarkEarly(ctx, ids); err != nil {
		return err
	}
	return c.flush(ctx)
}

// renewEarly queues the renewal of a main plan that is in force, unless something is queued behind it already; it
// says whether nothing is left to buy. What cannot be paid is kept and told.
func (c *changes) renewEarly(ctx context.Context, a store.Asset, live []simwarden.Subscription, b simwarden.Subscription, plans map[simwarden.PlanID]simwarden.Plan) (bool, error) {
	if slices.ContainsFunc(live, func(o simwarden.Subscription) bool {
		return o.Kind == simwarden.PlanMain && o.State == simwarden.SubscriptionQueued
	}) {
		return true, nil
	}
	plan, ok := plans[renewalPlan(b)]
	if !ok {
		return false, fmt.Errorf("renew subscription %d: plan %d is not given", b.ID, renewalPlan(b))
	}
	if why := c.purse.CanPay(a, plan); why != nil {
		c.unpaid = append(c.unpaid, unpaid{plan: plan.Code, why: why, wait: store.RenewalWait{
			SubscriptionID: b.ID, Asset: a, PlanID: plan.ID, WalletID: c.purse.WalletOf(a)}})
		return false, nil
	}
	if _, err := c.buyAgain(ctx, a, b.ID, plan, simwarden.Subscription{State: simwarden.SubscriptionQueued}, earlyRenewal); err != nil {
		return false, err
	}
	return true, c.tx.RenewedEarly(ctx, b.ID)
}
