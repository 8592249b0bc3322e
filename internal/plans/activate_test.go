package plans_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

func TestCheckOfModesAndCycles(t *testing.T) {
	good := simwarden.Plan{Code: "p", Kind: simwarden.PlanMain, AllowanceBytes: 1, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30,
		Reset: simwarden.ResetNone, Zone: "Asia/Shanghai"}
	with := func(change func(*simwarden.Plan)) simwarden.Plan {
		p := good
		change(&p)
		return p
	}
	for sentence, p := range map[string]simwarden.Plan{
		"no activation is the usual one": good,
		"L4: a billing month from the 27th": with(func(p *simwarden.Plan) {
			p.ValidityUnit, p.ValidityCount, p.Reset, p.AnchorDay = simwarden.ValidityBilling, 1, simwarden.ResetBilling, 27
		}),
		"L4: a cycle anchored on the 31st": with(func(p *simwarden.Plan) { p.Reset, p.AnchorDay = simwarden.ResetBilling, 31 }),
		"L4: first use, within 90 days":    with(func(p *simwarden.Plan) { p.Activation, p.ActivateByDays = simwarden.ActivateFirstUse, 90 }),
		"L4: real name, without a latest":  with(func(p *simwarden.Plan) { p.Activation = simwarden.ActivateRealName }),
		"an add-on begins at once":         with(func(p *simwarden.Plan) { p.Kind, p.Activation = simwarden.PlanAddon, simwarden.ActivateNow }),
	} {
		if err := plans.Check(p); err != nil {
			t.Errorf("%s: %v", sentence, err)
		}
	}
	for _, tt := range []struct {
		sentence string
		plan     simwarden.Plan
		says     string
	}{
		{"F72: no billing months have no length", with(func(p *simwarden.Plan) {
			p.ValidityUnit, p.ValidityCount, p.AnchorDay = simwarden.ValidityBilling, 0, 27
		}), "no length"},
		{"F72: no days have no length", with(func(p *simwarden.Plan) { p.ValidityCount = 0 }), "no length"},
		{"a billing month needs its day", with(func(p *simwarden.Plan) { p.Reset = simwarden.ResetBilling }), "day 1 to 31"},
		{"there is no 32nd", with(func(p *simwarden.Plan) { p.Reset, p.AnchorDay = simwarden.ResetBilling, 32 }), "day 1 to 31"},
		{"a day without a billing month says nothing", with(func(p *simwarden.Plan) { p.AnchorDay = 27 }), "billing_month alone"},
		{"an activation that there is not", with(func(p *simwarden.Plan) { p.Activation = "later" }), "give now, after_current, first_use or realname"},
		{"an add-on does not wait", with(func(p *simwarden.Plan) { p.Kind, p.Activation = simwarden.PlanAddon, simwarden.ActivateFirstUse }), "begins at once"},
		{"a latest start of what does not wait", with(func(p *simwarden.Plan) { p.ActivateByDays = 3 }), "first_use or realname alone"},
		{"a latest start in the past", with(func(p *simwarden.Plan) { p.Activation, p.ActivateByDays = simwarden.ActivateFirstUse, -1 }), "give 1 to 3660"},
	} {
		if err := plans.Check(tt.plan); !errors.Is(err, plans.ErrPlanInvalid) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want ErrPlanInvalid with %q", tt.sentence, err, tt.says)
		}
	}
}

// M2, L4: a renewal begins at the end of the one before it, whatever its plan waits for when it is
// bought first; and where another plan waits behind, that one is next and nothing is bought again.
func TestRenewalOfPlansThatWait(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(10_000)
	sim := w.sim(wallet)
	first := w.plan(1000)
	first.Code, first.Activation, first.ActivateByDays = "first", simwarden.ActivateFirstUse, 1
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		first, err = tx.AddPlan(ctx, first)
		return err
	})
	start := w.store.Now().Add(day)
	w.renewing(sim, first)
	w.clock.Advance(31*day + time.Minute) // its latest start, and its end a month later
	w.sweep()
	got := w.history(sim)
	if len(got) != 2 || !got[0].StartAt.Equal(start) || !got[1].StartAt.Equal(got[0].EndAt) || got[1].State != simwarden.SubscriptionActive {
		t.Fatalf("M2: the subscriptions are %+v, want the renewal from the end of the first on", got)
	}
	if _, err := w.subscribe(plans.Order{Asset: sim, Plan: first, By: "test", Pay: true}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(31 * day)
	w.sweep()
	got = w.history(sim)
	if len(got) != 3 || got[1].State != simwarden.SubscriptionExpired || got[2].State != simwarden.SubscriptionActive || !got[2].StartAt.Equal(got[1].EndAt) {
		t.Errorf("L4: the subscriptions are %+v, want the third, past its latest start, from the end of the second on, and no fourth", got)
	}
	if n := w.balance(wallet); n != 7000 {
		t.Errorf("M1: the balance is %d, want 7000: three of 1000 out of 10000", n)
	}
}

// F69: what is looked at and cannot begin yet is not looked at for ever.
func TestWhatIsWokenTooEarlyRests(t *testing.T) {
	w := newMoneyWorld(t)
	sim := w.sim(0)
	if _, err := w.subscribe(plans.Order{Asset: sim, Plan: w.plan(0), By: "test"}); err != nil {
		t.Fatal(err)
	}
	named := w.plan(0)
	named.Code, named.Activation, named.ActivateByDays = "named", simwarden.ActivateRealName, 10
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		named, err = tx.AddPlan(ctx, named)
		return err
	})
	b, err := w.subscribe(plans.Order{Asset: sim, Plan: named, By: "test"})
	if err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(10 * day)
	if n, err := w.sweeper.Sweep(t.Context()); err != nil || n != 1 {
		t.Fatalf("its latest start woke %d (error %v), want 1", n, err)
	}
	if n, err := w.sweeper.Sweep(t.Context()); err != nil || n != 0 {
		t.Fatalf("behind a plan that runs it was looked at again (%d, error %v)", n, err)
	}
	w.clock.Advance(20 * day)
	w.sweep()
	if got := w.state(b.ID); got != simwarden.SubscriptionActive {
		t.Errorf("after the plan before it has ended it is %s, want active", got)
	}
}
