package plans_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// lead has plans bought again two days before their end.
func (w *moneyWorld) lead() {
	w.t.Helper()
	w.must(func(ctx context.Context, tx *store.Tx) error { return tx.SetRenewalLead(ctx, w.account.ID, 2*day) })
}

func TestM2AnAccountWithALeadRenewsAheadOfTheEnd(t *testing.T) {
	w := newMoneyWorld(t)
	w.lead()
	wallet := w.wallet(3500)
	sim := w.sim(wallet)
	first := w.renewing(sim, w.plan(1000))
	w.clock.Advance(28*day - time.Minute)
	w.sweep()
	if n := len(w.history(sim)); n != 1 {
		t.Fatalf("before the lead there are %d subscriptions, want 1", n)
	}
	w.clock.Advance(time.Minute)
	w.sweep()
	w.sweep()
	got := w.history(sim)
	if len(got) != 2 || got[1].State != simwarden.SubscriptionQueued || !got[1].Renew || got[0].Renew || w.balance(wallet) != 1500 {
		t.Fatalf("two days before the end the SIM has %+v and the wallet %d, want the next one queued and paid", got, w.balance(wallet))
	}
	w.clock.Advance(2*day + 7*time.Hour) // the process was away over the end
	w.sweep()
	got = w.history(sim)
	if len(got) != 2 || got[1].State != simwarden.SubscriptionActive || !got[1].StartAt.Equal(first.EndAt) || w.balance(wallet) != 1500 {
		t.Fatalf("after the end the SIM has %+v and the wallet %d, want the next active from %s (L4), paid once", got, w.balance(wallet), first.EndAt)
	}
	if n := len(w.commands(sim)); n != 0 {
		t.Errorf("%d commands were written, want none", n)
	}
	w.clock.Advance(28 * day) // what was bought again is bought again in its turn
	w.sweep()
	if n := len(w.history(sim)); n != 3 || w.balance(wallet) != 500 {
		t.Errorf("before the second end there are %d subscriptions and %d in the wallet", n, w.balance(wallet))
	}
}

func TestM2AnEarlyRenewalThatCannotBePaidIsToldEarlyAndWaitsForMoney(t *testing.T) {
	w := newMoneyWorld(t)
	w.lead()
	wallet := w.wallet(1500)
	late, poor := w.sim(wallet), w.sim(w.wallet(1000))
	p := w.plan(1000)
	w.renewing(late, p)
	w.renewing(poor, p)
	w.clock.Advance(28 * day)
	w.sweep()
	if n := w.count(`SELECT count(*) FROM event WHERE kind = 'renewal_unpaid'`); n != 2 {
		t.Errorf("%d events of unpaid renewals two days ahead, want 2", n)
	}
	w.clock.Advance(day)
	w.topUp(wallet, 500)
	w.sweep()
	if got := w.history(late); len(got) != 2 || got[1].State != simwarden.SubscriptionQueued || w.balance(wallet) != 0 {
		t.Errorf("with money a day before the end: %+v, %d in the wallet; want the next one queued", got, w.balance(wallet))
	}
	if list := w.commands(poor); len(list) != 0 {
		t.Errorf("L1: a command before the end: %+v", list)
	}
	w.clock.Advance(day)
	w.sweep()
	if list := w.commands(poor); len(list) != 1 || list[0].Scene != simwarden.ScenePlanLapsed {
		t.Errorf("L1: at the end the SIM that was not paid for has %+v, want one suspend of scene plan_lapsed", list)
	}
	if list := w.commands(late); len(list) != 0 {
		t.Errorf("the SIM that was paid for has %+v", list)
	}
}

func TestM2NothingIsRenewedEarlyBehindWhatIsQueuedNorAgainAfterItWasTakenBack(t *testing.T) {
	w := newMoneyWorld(t)
	w.lead()
	wallet := w.wallet(5000)
	queued, back := w.sim(wallet), w.sim(wallet)
	p := w.plan(1000)
	w.renewing(queued, p)
	if _, err := w.subscribe(plans.Order{Asset: queued, Plan: p, By: "test", Pay: true}); err != nil {
		t.Fatal(err)
	}
	w.renewing(back, p)
	w.clock.Advance(28 * day)
	w.sweep()
	if n := len(w.history(queued)); n != 2 {
		t.Errorf("behind what is queued there are %d subscriptions, want 2", n)
	}
	next := w.history(back)[1]
	w.must(func(ctx context.Context, tx *store.Tx) error {
		return plans.Refund(ctx, tx, next.ID, "cli:anna", "not wanted")
	})
	w.clock.Advance(2 * day)
	w.sweep()
	if got := w.history(back); len(got) != 2 || w.balance(wallet) != 5000-3000 {
		t.Errorf("taken back, it was bought again: %+v, %d in the wallet", got, w.balance(wallet))
	}
	if list := w.commands(back); len(list) != 1 || list[0].Scene != simwarden.ScenePlanLapsed {
		t.Errorf("at its end the SIM has %+v, want one suspend of scene plan_lapsed", list)
	}
}
