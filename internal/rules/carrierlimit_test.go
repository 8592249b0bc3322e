package rules_test

import (
	"math"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestP8TheLimitAtTheCarrierIsWhatThePlanAllows(t *testing.T) {
	const mib = 1 << 20
	now := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	month := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	sub := func(kind simwarden.PlanKind, allowance, used int64) rules.SubscriptionFact {
		return rules.SubscriptionFact{Kind: kind, StartAt: now.AddDate(0, 0, -5), EndAt: now.AddDate(0, 0, 5), AllowanceBytes: allowance, UsedBytes: used}
	}
	plan := func(allowance, used int64) []rules.SubscriptionFact {
		return []rules.SubscriptionFact{sub(simwarden.PlanMain, allowance, used)}
	}
	for _, row := range []struct {
		name    string
		subs    []rules.SubscriptionFact
		counter int64
		but     func(*rules.CarrierLimitInput)
		want    rules.CarrierLimitWant
	}{
		{name: "the counter and what is left", subs: plan(100*mib, 30*mib), counter: 50 * mib, want: rules.CarrierLimitWant{Bytes: 120 * mib, Because: rules.LimitOfPlan}},
		{name: "both have grown: the same", subs: plan(100*mib, 40*mib), counter: 60 * mib, want: rules.CarrierLimitWant{Bytes: 120 * mib, Because: rules.LimitOfPlan}},
		{name: "past the allowance: still the same", subs: plan(100*mib, 130*mib), counter: 150 * mib, want: rules.CarrierLimitWant{Bytes: 120 * mib, Because: rules.LimitOfPlan}},
		{name: "rounded up, never below the allowance", subs: plan(100*mib+1, 0), counter: 0, want: rules.CarrierLimitWant{Bytes: 101 * mib, Because: rules.LimitOfPlan}},
		{name: "add-ons count", subs: append(plan(100*mib, 100*mib), sub(simwarden.PlanAddon, 20*mib, 5*mib)), counter: 105 * mib,
			want: rules.CarrierLimitWant{Bytes: 120 * mib, Because: rules.LimitOfPlan}},
		{name: "the carrier's month has turned since the last reading", subs: plan(100*mib, 30*mib), counter: 50 * mib,
			but: func(in *rules.CarrierLimitInput) { in.PeriodNowAt = month.AddDate(0, 1, 0) }, want: rules.CarrierLimitWant{Bytes: 70 * mib, Because: rules.LimitOfPlan}},
		{name: "used up before the carrier's month turned: the least limit there is", subs: plan(100*mib, 130*mib), counter: 0,
			want: rules.CarrierLimitWant{Bytes: mib, Because: rules.LimitOfPlan}},
		{name: "a plan without a limit", subs: plan(simwarden.UnlimitedBytes, 0), want: rules.CarrierLimitWant{Because: rules.NoLimitUnlimited}},
		{name: "an add-on without a limit", subs: append(plan(mib, 0), sub(simwarden.PlanAddon, simwarden.UnlimitedBytes, 0)), want: rules.CarrierLimitWant{Because: rules.NoLimitUnlimited}},
		{name: "more than the carrier can hold", subs: plan(math.MaxInt64, 0), counter: mib, want: rules.CarrierLimitWant{Because: rules.NoLimitTooLarge}},
		{name: "no plan", want: rules.CarrierLimitWant{Because: rules.NoLimitPlan}},
		{name: "an add-on alone is no plan", subs: []rules.SubscriptionFact{sub(simwarden.PlanAddon, mib, 0)}, want: rules.CarrierLimitWant{Because: rules.NoLimitPlan}},
		{name: "between a plan's end and the start of the queued one it stays", but: func(in *rules.CarrierLimitInput) { in.Facts.MainQueued = true },
			want: rules.CarrierLimitWant{Keep: true}},
		{name: "a lapse that is held back changes nothing", but: func(in *rules.CarrierLimitInput) { in.Facts.LapseHeld = true }, want: rules.CarrierLimitWant{Keep: true}},
		{name: "usage was never read", subs: plan(mib, 0), but: func(in *rules.CarrierLimitInput) { in.CounterBytes = nil }, want: rules.CarrierLimitWant{Because: rules.NoLimitUnread}},
		{name: "in a device", subs: plan(mib, 0), but: func(in *rules.CarrierLimitInput) { in.InDevice = true }, want: rules.CarrierLimitWant{Because: rules.NoLimitDevice}},
		{name: "in a pool", subs: plan(mib, 0), but: func(in *rules.CarrierLimitInput) { in.Facts.Pool = &rules.PoolFact{} }, want: rules.CarrierLimitWant{Because: rules.NoLimitPool}},
		{name: "E5: polling is paused", subs: plan(mib, 0), but: func(in *rules.CarrierLimitInput) { in.Facts.SIMPaused = true }, want: rules.CarrierLimitWant{Because: rules.NoLimitPaused}},
		{name: "terminated", subs: plan(mib, 0), but: func(in *rules.CarrierLimitInput) { in.Facts.State = simwarden.StateTerminated }, want: rules.CarrierLimitWant{Because: rules.NoLimitTerminated}},
		{name: "switched off", subs: plan(mib, 0), but: func(in *rules.CarrierLimitInput) { in.On = false }, want: rules.CarrierLimitWant{Because: rules.NoLimitOff}},
	} {
		t.Run(row.name, func(t *testing.T) {
			in := rules.CarrierLimitInput{On: true, CounterBytes: &row.counter, PeriodStartAt: month, PeriodNowAt: month, UnitBytes: mib, MostBytes: (1<<31 - 1) * mib,
				Facts: rules.Facts{NowAt: now, State: simwarden.StateActive, Subscriptions: row.subs}}
			if row.but != nil {
				row.but(&in)
			}
			if got := rules.CarrierLimit(in); got != row.want {
				t.Errorf("the limit is %+v, want %+v", got, row.want)
			}
		})
	}
}

func TestP8AFailedLimitIsTriedAgainAfterAPauseThatGrowsToABound(t *testing.T) {
	for _, row := range []struct {
		failures   int
		retryAfter time.Duration
		want       time.Duration
	}{{1, 0, 15 * time.Second}, {2, 0, 30 * time.Second}, {5, 0, 4 * time.Minute}, {50, 0, 15 * time.Minute}, {1, time.Minute, time.Minute}, {1, 48 * time.Hour, time.Hour}} {
		if got := rules.CarrierLimitRetry(rules.DefaultBackoff(), row.failures, row.retryAfter); got != row.want {
			t.Errorf("after %d failures and Retry-After %s: %s, want %s", row.failures, row.retryAfter, got, row.want)
		}
	}
}
