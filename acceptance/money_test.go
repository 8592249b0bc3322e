package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

func euros(cents int64) simwarden.Money {
	return simwarden.Money{AmountMinor: cents, Currency: "EUR"}
}

// wallet adds a wallet that pays for the SIM, with so much in it.
func (w *world) wallet(c card, cents int64) simwarden.WalletID {
	w.t.Helper()
	var id simwarden.WalletID
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		wallet, err := ledger.AddWallet(ctx, tx, "anna", euros(0))
		if err != nil {
			return err
		}
		id = wallet.ID
		return ledger.Assign(ctx, tx, store.Asset{SIMID: c.id}, id, "cli:anna")
	})
	w.pays(id, cents)
	return id
}

// pays puts money into a wallet.
func (w *world) pays(id simwarden.WalletID, cents int64) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := ledger.TopUp(ctx, tx, id, euros(cents), ledger.By{Actor: "cli:anna"})
		return err
	})
}

// renewed gives an active SIM whose plan of 1.00 EUR lasts so long, is paid from a wallet with so much
// in it, and is bought again at its end as one that lasts an hour.
func (w *world) renewed(lasts time.Duration, cents int64) (card, simwarden.WalletID, simwarden.Subscription) {
	w.t.Helper()
	c := w.sim(simwarden.StateActive)
	w.reads(c, simwarden.StateActive)
	id := w.wallet(c, cents)
	short, long := w.priced(w.plan(lasts, simwarden.UnlimitedBytes)), w.priced(w.plan(time.Hour, simwarden.UnlimitedBytes))
	var b simwarden.Subscription
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: short, By: "cli:anna", Pay: true, Renew: true})
		if err != nil {
			return err
		}
		return plans.SetRenewal(ctx, tx, b.ID, true, long, "cli:anna")
	})
	return c, id, b
}

// priced makes a plan cost 1.00 EUR.
func (w *world) priced(p simwarden.Plan) simwarden.Plan {
	w.t.Helper()
	p.PriceMinor, p.Currency = 100, "EUR"
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE plan SET price_minor = $2, currency = $3 WHERE id = $1`, p.ID, p.PriceMinor, p.Currency)
		return err
	})
	return p
}

// renewal waits until the subscription has been bought again and that was judged as a top-up (M2).
func (w *world) renewal(c card) simwarden.SubscriptionID {
	w.t.Helper()
	eventually(w.t, "the plan is bought again and judged", func() bool {
		return w.count(`SELECT count(*) FROM evaluation_request e JOIN subscription b ON b.id = e.subscription_id
			WHERE b.sim_id = $1 AND b.state = 'active' AND b.bought_by = 'system' AND e.scene = 'topped_up' AND e.done_at IS NOT NULL`, c.id) == 1
	})
	return simwarden.SubscriptionID(w.count(`SELECT id FROM subscription WHERE sim_id = $1 AND state = 'active'`, c.id))
}

func (w *world) has(id simwarden.WalletID, cents int) {
	w.t.Helper()
	if got := w.count(`SELECT balance_minor FROM ledger_account WHERE wallet_id = $1 AND kind = 'wallet'`, id); got != cents {
		w.t.Errorf("the wallet has %d cents, want %d", got, cents)
	}
}

func TestM2AWalletWithMoneyRenewsThePlanAndNothingIsSuspended(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, wallet, first := w.renewed(4*time.Second, 250)
		next := w.renewal(c)
		if start := w.instant(`SELECT start_at FROM subscription WHERE id = $1`, next); !start.Equal(first.EndAt) {
			t.Errorf("the plan that was bought again begins at %s, the first ended at %s (L4)", start, first.EndAt)
		}
		w.has(wallet, 50)
		w.evaluated(c, simwarden.ScenePlanCheck, 0)
		w.periodic(c)
		if n := len(w.changes(c)); n != 0 || w.truth(c).State != simwarden.StateActive {
			t.Errorf("SIM %s is %s after %d requests, want active after none", c.iccid, w.truth(c).State, n)
		}
	})
}

func TestM2AWalletThatCannotPaySaysSoAndTheLapseGoesOnUntilItIsToppedUp(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, wallet, first := w.renewed(4*time.Second, 150)
		w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		w.suspended(c)
		if n := w.count(`SELECT count(*) FROM event WHERE kind = $1 AND sim_id = $2 AND (data->>'subscription_id')::bigint = $3`, string(store.EventRenewalUnpaid), c.id, first.ID); n != 1 {
			t.Errorf("%d events that it could not be paid, want one", n)
		}
		alert := ledger.RenewalAlertKey(wallet, store.Asset{})
		if n := w.count(`SELECT count(*) FROM alert WHERE key = $1 AND cleared_at IS NULL`, alert); n != 1 {
			t.Errorf("%d open alerts of the wallet, want one", n)
		}
		w.has(wallet, 50)

		w.pays(wallet, 50)
		w.renewal(c)
		w.runs(c)
		w.has(wallet, 0)
		if n := w.count(`SELECT count(*) FROM alert WHERE key = $1 AND cleared_at IS NULL`, alert); n != 0 {
			t.Error("the wallet's alert is still open")
		}
		list := w.commands(c)
		if len(list) != 2 || list[1].Direction != simwarden.DirectionResume || list[1].Scene != simwarden.SceneToppedUp {
			t.Errorf("the commands are not a suspend and a resume in scene topped_up: %s", describe(list))
		}
	})
}

// runs waits until the SIM is active at the carrier and its commands have ended.
func (w *world) runs(c card) {
	w.t.Helper()
	eventually(w.t, "the SIM runs again", func() bool {
		list := w.commands(c)
		return w.truth(c).State == simwarden.StateActive && len(list) > 0 && !list[len(list)-1].State.Open()
	})
}

// TestS1 with money: the wallet is topped up, and the plan is bought by itself.
func TestS1MoneyDoesNotResumeAPausedSIM(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, wallet, _ := w.renewed(4*time.Second, 100)
		w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		w.suspended(c)
		w.pause(c)
		w.pays(wallet, 100)
		w.renewal(c)
		w.has(wallet, 0)
		w.evaluated(c, simwarden.SceneToppedUp, 0)
		w.periodic(c)
		if list := w.commands(c); len(list) != 1 {
			t.Errorf("a paused SIM was resumed by a top-up: %s", describe(list))
		}
		w.suspended(c)

		w.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := reconcile.Manual(ctx, tx, c.id, simwarden.DirectionResume, "cli:anna", "acceptance")
			return err
		})
		w.runs(c)
	})
}
