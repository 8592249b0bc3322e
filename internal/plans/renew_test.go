package plans_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

func TestM2RenewalBeginsExactlyAtTheOldEnd(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(3500)
	sim := w.sim(wallet)
	first := w.renewing(sim, w.plan(1000))
	w.clock.Advance(30*day + 7*time.Hour) // the process was away over the end
	w.sweep()
	got := w.history(sim)
	if len(got) != 2 || got[1].State != simwarden.SubscriptionActive || !got[1].StartAt.Equal(first.EndAt) || got[0].State != simwarden.SubscriptionExpired {
		t.Fatalf("after the end the SIM has %+v, want the next one active from %s (L4: no gap)", got, first.EndAt)
	}
	if n := len(w.commands(sim)); n != 0 {
		t.Errorf("%d commands were written, want none: the SIM stays paid", n)
	}
	if n := w.count(`SELECT count(*) FROM evaluation_request WHERE scene = 'topped_up' AND cause_id = $1`, got[1].ID); n != 1 {
		t.Errorf("%d evaluations with scene topped_up stand for the renewal, want 1 (M2)", n)
	}
	w.sweep()
	if got := w.balance(wallet); got != 1500 {
		t.Errorf("the balance is %d, want 1500: two of 1000 out of 3500", got)
	}
	w.clock.Advance(30 * day) // renewed ones are renewed again, while money lasts
	w.sweep()
	if n := len(w.history(sim)); n != 3 {
		t.Errorf("after two ends there are %d subscriptions, want 3", n)
	}
}

func TestM2UnpaidRenewalSaysSoAndTheLapseGoesOn(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(1500)
	sim := w.sim(wallet)
	w.renewing(sim, w.plan(1000))
	w.clock.Advance(30 * day)
	w.sweep()
	list := w.commands(sim)
	if len(list) != 1 || list[0].Direction != simwarden.DirectionSuspend || list[0].Scene != simwarden.ScenePlanLapsed {
		t.Fatalf("the SIM has the commands %+v, want one suspend of scene plan_lapsed", list)
	}
	if n := w.count(`SELECT count(*) FROM event WHERE kind = 'renewal_unpaid' AND sim_id = $1 AND data->>'because' LIKE '%has 5.00 EUR%needs 10.00 EUR%'`, sim.SIMID); n != 1 {
		t.Errorf("%d events say that the wallet could not pay, want 1", n)
	}
	alerts, err := w.store.OpenAlerts(t.Context(), 10)
	if err != nil || len(alerts) != 1 || alerts[0].Kind != store.AlertRenewal || !strings.Contains(alerts[0].Message, "10.00 EUR") {
		t.Fatalf("alerts %+v (error %v), want one that says what is missing", alerts, err)
	}
	w.clock.Advance(day)
	w.topUp(wallet, 499)
	w.sweep()
	if n := len(w.history(sim)); n != 1 {
		t.Fatalf("a top-up that is not enough has led to %d subscriptions, want 1", n)
	}
	w.topUp(wallet, 1)
	now := w.clock.Now()
	w.sweep()
	got := w.history(sim)
	if len(got) != 2 || got[1].State != simwarden.SubscriptionActive || !got[1].StartAt.Equal(now) || !got[1].Renew {
		t.Fatalf("after the top-up the SIM has %+v, want a new one from %s (M2)", got, now)
	}
	if n := w.count(`SELECT count(*) FROM evaluation_request WHERE scene = 'topped_up' AND sim_id = $1`, sim.SIMID); n != 1 {
		t.Errorf("%d evaluations with scene topped_up stand, want 1 (M2)", n)
	}
	if got := w.balance(wallet); got != 0 {
		t.Errorf("the balance is %d, want 0", got)
	}
	if alerts, err = w.store.OpenAlerts(t.Context(), 10); err != nil || len(alerts) != 0 {
		t.Errorf("alerts %+v (error %v) are open after the renewal, want none", alerts, err)
	}
	w.topUp(wallet, 5000)
	w.sweep()
	if n := len(w.history(sim)); n != 2 {
		t.Errorf("a later top-up has led to %d subscriptions, want 2: one lapse is renewed once", n)
	}
}

func TestRenewalOfAWalletThatPaysForSome(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(5000)
	plan := w.plan(1000)
	var sims []store.Asset
	for range 3 {
		sims = append(sims, w.sim(wallet))
		w.renewing(sims[len(sims)-1], plan)
	}
	w.clock.Advance(30 * day) // 2000 are left for three
	w.sweep()
	running := 0
	for _, s := range sims {
		if len(w.commands(s)) == 0 {
			running++
		}
	}
	if running != 2 || w.balance(wallet) != 0 {
		t.Errorf("%d SIMs go on and %d is left, want 2 and nothing", running, w.balance(wallet))
	}
}

func TestRenewalWithoutAWallet(t *testing.T) {
	w := newMoneyWorld(t)
	sim, plan := w.sim(0), w.plan(1000)
	if _, err := w.subscribe(plans.Order{Asset: sim, Plan: plan, By: "test", Renew: true}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(30 * day)
	w.sweep()
	if n := len(w.commands(sim)); n != 1 {
		t.Fatalf("%d commands were written, want the suspend", n)
	}
	w.must(func(ctx context.Context, tx *store.Tx) error {
		return ledger.Assign(ctx, tx, sim, w.wallet(1000), "cli:anna")
	})
	w.sweep()
	if n := len(w.history(sim)); n != 2 {
		t.Errorf("after a wallet was assigned there are %d subscriptions, want 2", n)
	}
	if alerts, err := w.store.OpenAlerts(t.Context(), 10); err != nil || len(alerts) != 0 {
		t.Errorf("alerts %+v (error %v) are open, want none", alerts, err)
	}
}

func TestRenewalEndsWhereItIsNotWanted(t *testing.T) {
	w := newMoneyWorld(t)
	set := func(id simwarden.SubscriptionID, renew bool, as simwarden.Plan) error {
		return w.tx(func(ctx context.Context, tx *store.Tx) error {
			return plans.SetRenewal(ctx, tx, id, renew, as, "cli:anna")
		})
	}
	wallet := w.wallet(10_000)
	plan, other := w.plan(1000), w.plan(100)
	turnedOff, asOther, queued, late := w.sim(wallet), w.sim(wallet), w.sim(wallet), w.sim(w.wallet(1000))
	if err := set(w.renewing(turnedOff, plan).ID, false, simwarden.Plan{}); err != nil {
		t.Fatal(err)
	}
	if err := set(w.renewing(asOther, plan).ID, true, other); err != nil {
		t.Fatal(err)
	}
	w.renewing(queued, plan)
	if _, err := w.subscribe(plans.Order{Asset: queued, Plan: other, By: "test", Pay: true}); err != nil {
		t.Fatal(err)
	}
	lateSub := w.renewing(late, plan)
	if err := set(lateSub.ID, true, simwarden.Plan{ID: 1, Kind: simwarden.PlanAddon}); !errors.Is(err, plans.ErrPlanInvalid) {
		t.Errorf("a renewal as an add-on gives %v, want ErrPlanInvalid", err)
	}
	w.clock.Advance(30 * day)
	w.sweep()
	if n := len(w.history(turnedOff)); n != 1 {
		t.Errorf("a renewal that was turned off has led to %d subscriptions, want 1", n)
	}
	if got := w.history(asOther); len(got) != 2 || got[1].PlanID != other.ID {
		t.Errorf("a renewal as another plan has led to %+v", got)
	}
	if got := w.history(queued); len(got) != 2 || got[1].State != simwarden.SubscriptionActive {
		t.Errorf("with a plan queued there are %+v, want no renewal beside it", got)
	}
	w.clock.Advance(31 * day) // money that comes after a month does not bring back what was given up
	w.sweep()
	w.must(func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.WalletsOfAssets(ctx, []store.Asset{late})
		if err != nil {
			return err
		}
		_, err = ledger.TopUp(ctx, tx, a[late], simwarden.Money{AmountMinor: 1000, Currency: "EUR"}, ledger.By{Actor: "test"})
		return err
	})
	w.sweep()
	if n := len(w.history(late)); n != 1 {
		t.Errorf("money a month late has led to %d subscriptions, want 1", n)
	}
	if n := w.count(`SELECT count(*) FROM renewal_wait WHERE subscription_id = $1`, lateSub.ID); n != 0 {
		t.Error("the renewal still waits")
	}
}

func TestMissedPeriodsAreBoughtInABound(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(1_000_000)
	sim := w.sim(wallet)
	w.renewing(sim, w.plan(1000))
	w.clock.Advance(3*30*day + day) // three ends were missed
	w.sweep()
	got := w.history(sim)
	if len(got) != 4 || got[3].State != simwarden.SubscriptionActive {
		t.Fatalf("after three missed ends there are %d subscriptions, want 4 with the last active", len(got))
	}
	for i := 1; i < len(got); i++ {
		if !got[i].StartAt.Equal(got[i-1].EndAt) {
			t.Errorf("subscription %d begins at %s, want %s (L4)", i, got[i].StartAt, got[i-1].EndAt)
		}
	}
	w.clock.Advance(40 * 30 * day)
	w.sweep()
	if n := len(w.history(sim)); n != 4+24 {
		t.Errorf("after forty missed ends there are %d subscriptions, want 28: a bound, and no more money taken", n)
	}
	if n := len(w.commands(sim)); n != 1 {
		t.Errorf("%d commands were written, want one suspend", n)
	}
}
