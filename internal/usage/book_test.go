package usage_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/internal/usage"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// fatal is what *testing.T and *rapid.T have in common.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// rig is a database with an account and plans.
type rig struct {
	ctx     context.Context
	store   *store.Store
	pool    *pgxpool.Pool
	clock   *clock.Manual
	account store.Account
	plans   map[string]simwarden.Plan
	serial  int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	url := storetest.URL(t, store.Migrate)
	r := &rig{ctx: t.Context(), clock: clock.NewManual(noon), plans: map[string]simwarden.Plan{}}
	var err error
	if r.store, err = store.Open(r.ctx, store.Options{URL: url, Clock: r.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.store.Close)
	if r.pool, err = pgxpool.New(r.ctx, url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	r.tx(t, func(tx *store.Tx) error {
		if r.account, err = tx.AddAccount(r.ctx, store.Account{Name: "first", Driver: "none"}); err != nil {
			return err
		}
		for _, p := range []simwarden.Plan{
			{Code: "main", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"},
			{Code: "addon", Kind: simwarden.PlanAddon, AllowanceBytes: 500, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"},
			{Code: "monthly", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 365, Reset: simwarden.ResetCalendarMonth, Zone: "UTC"},
		} {
			if p, err = tx.AddPlan(r.ctx, p); err != nil {
				return err
			}
			r.plans[p.Code] = p
		}
		return nil
	})
	return r
}

func (r *rig) tx(t fatal, fn func(*store.Tx) error) {
	t.Helper()
	if err := r.store.InTx(r.ctx, fn); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) sim(t fatal, device simwarden.DeviceID) (id simwarden.SIMID) {
	t.Helper()
	r.serial++
	text := fmt.Sprintf("89999000%010dA", r.serial)
	r.tx(t, func(tx *store.Tx) error {
		ids, err := tx.AddSIMs(r.ctx, r.account, []store.NewSIM{{ICCID: simwarden.MustParseICCID(text), Raw: text, DeviceID: device}}, 0)
		if err == nil {
			id = ids[0]
		}
		return err
	})
	return id
}

func (r *rig) subscribe(t fatal, asset store.Asset, plan string, start, end time.Time) (id simwarden.SubscriptionID) {
	t.Helper()
	p := r.plans[plan]
	r.tx(t, func(tx *store.Tx) (err error) {
		id, err = tx.AddSubscription(r.ctx, simwarden.Subscription{SIMID: asset.SIMID, DeviceID: asset.DeviceID, PlanID: p.ID, Kind: p.Kind,
			State: simwarden.SubscriptionActive, StartAt: start, EndAt: end, AllowanceBytes: p.AllowanceBytes}, "cli:test", "")
		return err
	})
	return id
}

func (r *rig) subscription(t fatal, id simwarden.SubscriptionID) (b simwarden.Subscription) {
	t.Helper()
	r.tx(t, func(tx *store.Tx) (err error) {
		b, err = tx.SubscriptionByID(r.ctx, id)
		return err
	})
	return b
}

func (r *rig) book(t fatal, obs ...store.Observed) (b usage.Booked) {
	t.Helper()
	r.tx(t, func(tx *store.Tx) (err error) {
		b, err = usage.Book(r.ctx, tx, obs)
		return err
	})
	return b
}

func (r *rig) one(t fatal, query string, args ...any) (n int64) {
	t.Helper()
	if err := r.pool.QueryRow(r.ctx, query, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func observed(id simwarden.SIMID, counter int64, period, readAt time.Time) store.Observed {
	return store.Observed{SIMID: id, Reading: simwarden.Reading{ReadAt: readAt, Usage: &simwarden.UsageReading{CounterBytes: counter, PeriodStartAt: period}}}
}

func TestMainPlanIsSpentFirstThenAddons(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	main := r.subscribe(t, store.Asset{SIMID: id}, "main", noon, noon.Add(720*time.Hour))
	addon := r.subscribe(t, store.Asset{SIMID: id}, "addon", noon, noon.Add(24*time.Hour))
	r.book(t, observed(id, 10, march, noon))
	if b := r.book(t, observed(id, 910, march, noon.Add(time.Minute))); b.DeltaBytes != 900 || len(b.Exhausted) != 0 {
		t.Errorf("booked %+v, want 900 bytes and nothing exhausted", b)
	}
	if b := r.book(t, observed(id, 1110, march, noon.Add(2*time.Minute))); len(b.Exhausted) != 1 || b.Exhausted[0] != main {
		t.Errorf("L5: exhausted are %v, want the main plan %d", b.Exhausted, main)
	}
	if b := r.book(t, observed(id, 1210, march, noon.Add(3*time.Minute))); len(b.Exhausted) != 0 {
		t.Errorf("exhausted again: %v", b.Exhausted)
	}
	m, a := r.subscription(t, main), r.subscription(t, addon)
	if m.UsedBytes != 1000 || m.State != simwarden.SubscriptionExhausted || a.UsedBytes != 200 || a.State != simwarden.SubscriptionActive {
		t.Errorf("L5: main used %d (%s), add-on %d (%s)", m.UsedBytes, m.State, a.UsedBytes, a.State)
	}
	if n := r.one(t, `SELECT count(*) FROM event WHERE kind = 'data_exhausted'`); n != 1 {
		t.Errorf("%d events of exhaustion, want one", n)
	}
}

func TestDeviceSIMsSpendTheDevicesPlanTogether(t *testing.T) {
	r := newRig(t)
	var device simwarden.DeviceID
	r.tx(t, func(tx *store.Tx) (err error) {
		imei, err := simwarden.ParseIMEI("00440152020000")
		if err == nil {
			device, err = tx.Device(r.ctx, imei, "tracker")
		}
		return err
	})
	a, b := r.sim(t, device), r.sim(t, device)
	sub := r.subscribe(t, store.Asset{DeviceID: device}, "main", noon, noon.Add(720*time.Hour))
	r.book(t, observed(b, 0, march, noon), observed(a, 0, march, noon))
	booked := r.book(t, observed(b, 600, march, noon.Add(time.Minute)), observed(a, 400, march, noon.Add(time.Minute)))
	if got := r.subscription(t, sub); got.UsedBytes != 1000 || got.State != simwarden.SubscriptionExhausted || len(booked.Exhausted) != 1 {
		t.Errorf("E8: the device's plan has used %d (%s), exhausted %v", got.UsedBytes, got.State, booked.Exhausted)
	}
}

func TestAnomaliesAreToldOncePerPeriod(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	sub := r.subscribe(t, store.Asset{SIMID: id}, "main", noon, noon.Add(720*time.Hour))
	r.book(t, observed(id, 200<<10, march, noon))
	for i := 1; i <= 3; i++ {
		obs := []store.Observed{observed(id, 200<<20, march, noon.Add(time.Duration(i)*time.Hour))}
		b := r.book(t, obs...)
		if obs[0].Odd != (i == 1) {
			t.Errorf("F29: at the anomaly's reading %d it is marked odd: %v", i, obs[0].Odd)
		}
		if len(b.Anomalies) != 1 || b.DeltaBytes != 0 {
			t.Fatalf("F29: booked %+v", b)
		}
	}
	if got := r.subscription(t, sub); got.UsedBytes != 0 || got.State != simwarden.SubscriptionActive {
		t.Errorf("F29: a change of unit spent %d bytes (%s)", got.UsedBytes, got.State)
	}
	if events, alerts := r.one(t, `SELECT count(*) FROM event WHERE kind = 'usage_anomaly'`), r.one(t, `SELECT count(*) FROM alert WHERE cleared_at IS NULL`); events != 1 || alerts != 1 {
		t.Errorf("U2: %d events and %d alerts, want one each", events, alerts)
	}
	sim, err := r.store.SIM(r.ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if !sim.UsageReadAt.Equal(noon) {
		t.Errorf("E11: usage that was not believed counts as read at %v", sim.UsageReadAt)
	}
	if b := r.book(t, observed(id, 200<<10+100, march, noon.Add(4*time.Hour))); b.DeltaBytes != 100 {
		t.Errorf("a counter that is right again books %d bytes, want 100", b.DeltaBytes)
	}
}

func TestLateUsageGoesToTheEndedPlan(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	first := r.subscribe(t, store.Asset{SIMID: id}, "main", noon, noon.Add(time.Hour))
	r.book(t, observed(id, 0, march, noon))
	r.clock.Set(noon.Add(2 * time.Hour))
	r.tx(t, func(tx *store.Tx) error {
		_, err := tx.EndSubscription(r.ctx, first, simwarden.SubscriptionExpired)
		return err
	})
	second := r.subscribe(t, store.Asset{SIMID: id}, "main", noon.Add(time.Hour), noon.Add(48*time.Hour))
	late := observed(id, 70, march, noon.Add(2*time.Hour))
	late.Reading.Usage.TrueAt = noon.Add(30 * time.Minute)
	if b := r.book(t, late); b.LateBytes != 70 || b.DeltaBytes != 70 {
		t.Errorf("U4: booked %+v, want 70 bytes late", b)
	}
	if f, s := r.subscription(t, first), r.subscription(t, second); f.UsedBytes != 70 || s.UsedBytes != 0 || f.State != simwarden.SubscriptionExpired {
		t.Errorf("U4: the ended plan bears %d (%s), the one in force %d", f.UsedBytes, f.State, s.UsedBytes)
	}
	if n := r.one(t, `SELECT count(*) FROM event WHERE kind = 'usage_late'`); n != 1 {
		t.Errorf("U4: %d events of late usage, want one", n)
	}
}

func TestLateUsageOfAClosedMonthDoesNotSpendTheRefilledAllowance(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	sub := r.subscribe(t, store.Asset{SIMID: id}, "monthly", noon, noon.AddDate(1, 0, 0))
	r.book(t, observed(id, 0, time.Time{}, noon))
	r.clock.Set(april.Add(time.Hour))
	r.tx(t, func(tx *store.Tx) error { return tx.ResetSubscription(r.ctx, sub, april, april.AddDate(0, 1, 0)) })
	late := observed(id, 70, time.Time{}, april.Add(time.Hour))
	late.Reading.Usage.TrueAt = april.Add(-time.Minute)
	if b := r.book(t, late); b.LateBytes != 70 {
		t.Errorf("U4: booked %+v, want 70 bytes late", b)
	}
	r.book(t, observed(id, 100, time.Time{}, april.Add(2*time.Hour)))
	if got := r.subscription(t, sub); got.UsedBytes != 30 {
		t.Errorf("U4: April's allowance bears %d bytes, want the 30 of April", got.UsedBytes)
	}
}

// L4, U4: the sweep has not come by for days of a plan whose allowance is filled each day at noon.
func TestUsageAfterAResetFindsTheNextPeriodBeforeTheSweep(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	p := simwarden.Plan{Code: "daily", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 9,
		Reset: simwarden.ResetCycle, ResetDays: 1, Zone: "UTC"}
	var sub simwarden.SubscriptionID
	r.tx(t, func(tx *store.Tx) (err error) {
		if p, err = tx.AddPlan(r.ctx, p); err != nil {
			return err
		}
		sub, err = tx.AddSubscription(r.ctx, simwarden.Subscription{SIMID: id, PlanID: p.ID, Kind: p.Kind, State: simwarden.SubscriptionActive,
			StartAt: noon, EndAt: noon.AddDate(0, 0, 9), NextResetAt: noon.AddDate(0, 0, 1), AllowanceBytes: p.AllowanceBytes}, "cli:test", "")
		return err
	})
	r.uses(t, id, 0, 0)
	r.clock.Advance(time.Hour)
	r.uses(t, id, 1000, 0)
	if got := r.subscription(t, sub); got.State != simwarden.SubscriptionExhausted {
		t.Fatalf("the first day: %s", got.State)
	}
	is := func(day string, used int64, next time.Time) {
		t.Helper()
		if got := r.subscription(t, sub); got.UsedBytes != used || got.State != simwarden.SubscriptionActive || !got.NextResetAt.Equal(next) {
			t.Errorf("the %s day bears %d bytes (%s) until %s, want %d until %s", day, got.UsedBytes, got.State, got.NextResetAt, used, next)
		}
	}
	r.clock.Set(noon.AddDate(0, 0, 1))
	r.uses(t, id, 1010, 0)
	is("second", 10, noon.AddDate(0, 0, 2))
	r.clock.Set(noon.AddDate(0, 0, 4).Add(time.Hour))
	if b := r.uses(t, id, 1040, 2*time.Hour); b.LateBytes != 30 { // of the fourth day, which nobody has seen
		t.Errorf("U4: booked %+v, want 30 bytes late", b)
	}
	r.uses(t, id, 1100, 0)
	is("fifth", 60, noon.AddDate(0, 0, 5))
	if n := r.one(t, `SELECT count(*) FROM evaluation_request WHERE scene = 'plan_reset' AND subscription_id = $1 AND sim_id = $2`, sub, id); n != 2 {
		t.Errorf("V1: %d requests with scene plan_reset, want one for each reset that was made", n)
	}
	if n := r.one(t, `SELECT sum((data->>'used_bytes')::bigint)::bigint FROM event WHERE kind = 'plan_reset' AND sim_id = $1`, id); n != 1010 {
		t.Errorf("closed periods have borne %d bytes, want 1010", n)
	}
}

func TestC10NothingIsFilledAgainWhileTheTimeIsNotToBeTrusted(t *testing.T) {
	r := newRig(t)
	id := r.sim(t, 0)
	sub := r.subscribe(t, store.Asset{SIMID: id}, "monthly", noon, noon.AddDate(1, 0, 0))
	r.uses(t, id, 0, 0)
	if _, err := r.pool.Exec(r.ctx, `UPDATE subscription SET next_reset_at = $1`, april); err != nil {
		t.Fatal(err)
	}
	if _, err := r.pool.Exec(r.ctx, `INSERT INTO guard (kind, because, since_at) VALUES ('clock', 'a test', $1)`, noon); err != nil {
		t.Fatal(err)
	}
	r.clock.Set(april.Add(time.Hour))
	r.uses(t, id, 70, 0)
	if got := r.subscription(t, sub); got.UsedBytes != 70 || !got.NextResetAt.Equal(april) {
		t.Errorf("%d bytes used, reset at %s", got.UsedBytes, got.NextResetAt)
	}
}

func TestEveryByteIsBookedOnce(t *testing.T) {
	r := newRig(t)
	rapid.Check(t, func(t *rapid.T) {
		id := r.sim(t, 0)
		r.subscribe(t, store.Asset{SIMID: id}, "main", march.AddDate(0, -2, 0), march.AddDate(1, 0, 0))
		r.subscribe(t, store.Asset{SIMID: id}, "addon", march.AddDate(0, -2, 0), march.AddDate(0, 6, 0))
		var sum, before int64
		for _, rd := range readings(t, 12) {
			sum += r.book(t, observed(id, rd.counter, rd.period, rd.readAt)).DeltaBytes
			lifetime := r.one(t, `SELECT lifetime_bytes FROM poll_state WHERE sim_id = $1`, id)
			if lifetime < before {
				t.Fatalf("V16: lifetime fell from %d to %d", before, lifetime)
			}
			before = lifetime
		}
		days := r.one(t, `SELECT coalesce(sum(bytes), 0)::bigint FROM usage_day WHERE sim_id = $1`, id)
		spent := r.one(t, `SELECT sum(used_bytes)::bigint FROM subscription WHERE sim_id = $1`, id)
		if before != sum || days != sum || spent != sum {
			t.Fatalf("V16, F28: deltas %d, lifetime %d, days %d, subscriptions %d", sum, before, days, spent)
		}
	})
}
