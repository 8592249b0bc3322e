package evaluator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

const hour = time.Hour

// modePlan adds a main plan of some days that begins as said.
func (w *world) modePlan(code string, a simwarden.Activation, days, byDays int) simwarden.Plan {
	w.t.Helper()
	p := simwarden.Plan{Code: code, Name: code, Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: days,
		Reset: simwarden.ResetNone, Zone: "UTC", Activation: a, ActivateByDays: byDays}
	if err := plans.Check(p); err != nil {
		w.t.Fatal(err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	return p
}

// counter reads the carrier's counter of a SIM now, as the poller does.
func (w *world) counter(id simwarden.SIMID, bytes int64) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		obs := []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: w.clock.Now(), Usage: &simwarden.UsageReading{CounterBytes: bytes}}}}
		if _, err := usage.Book(ctx, tx, obs); err != nil {
			return err
		}
		_, err := reconcile.Observe(ctx, tx, obs)
		return err
	})
}

func (w *world) realName(id simwarden.SIMID, status simwarden.RealName) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Observe(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{
			ReadAt: w.clock.Now(), RealName: &simwarden.RealNameReading{Status: status}}}})
		return err
	})
}

func (w *world) subscription(id simwarden.SubscriptionID) (b simwarden.Subscription) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = tx.SubscriptionByID(ctx, id)
		return err
	})
	return b
}

// is checks where a subscription stands; a zero start for one that has none.
func (w *world) is(id simwarden.SubscriptionID, state simwarden.SubscriptionState, start time.Time, used int64) {
	w.t.Helper()
	if b := w.subscription(id); b.State != state || !b.StartAt.Equal(start) || b.UsedBytes != used {
		w.t.Fatalf("subscription %d is %s from %s with %d bytes used; want %s, %s, %d", id, b.State, b.StartAt, b.UsedBytes, state, start, used)
	}
}

// scenes counts what was asked for since a subscription, by scene.
func (w *world) scenes(sub simwarden.SubscriptionID) map[simwarden.Scene]int {
	w.t.Helper()
	out := map[simwarden.Scene]int{}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, `SELECT scene, count(*) FROM evaluation_request WHERE subscription_id = $1 GROUP BY scene`, sub)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var scene simwarden.Scene
			var n int
			if err := rows.Scan(&scene, &n); err != nil {
				return err
			}
			out[scene] = n
		}
		return rows.Err()
	})
	return out
}

func TestL4FirstUseBeginsAtTheReadingAndBearsIt(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.counter(id, 100)
	w.clock.Advance(hour)
	w.counter(id, 500) // used before it is bought: no matter of the plan's
	b := w.subscribe(id, w.modePlan("first", simwarden.ActivateFirstUse, 30, 0))
	w.settle()
	w.is(b.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
	w.clock.Advance(hour)
	w.counter(id, 500)
	w.settle()
	w.is(b.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
	if list := w.commands(id); len(list) != 0 {
		t.Fatalf("a SIM that waits for its first use has commands: %+v", list)
	}
	w.clock.Advance(48 * hour)
	used := w.clock.Now()
	w.counter(id, 600)
	w.counter(id, 600) // the same answer again
	w.clock.Advance(2 * time.Second)
	w.counter(id, 650) // and more, before anything has started it
	w.settle()
	w.is(b.ID, simwarden.SubscriptionActive, used, 150)
	if end := w.subscription(b.ID).EndAt; !end.Equal(used.AddDate(0, 0, 30)) {
		t.Errorf("it ends at %s, want 30 days after its first use", end)
	}
	if got := w.scenes(b.ID); got[simwarden.ScenePlanActivated] != 1 || len(got) != 2 || got[simwarden.ScenePlanCheck] != 1 {
		t.Errorf("asked for %v, want a plan_check for the purchase and one plan_activated", got)
	}
	w.clock.Advance(hour)
	w.counter(id, 700)
	w.settle()
	w.is(b.ID, simwarden.SubscriptionActive, used, 200)
}

func TestL4FirstUseThatUsesAllUpIsExhausted(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.counter(id, 0)
	b := w.subscribe(id, w.modePlan("first", simwarden.ActivateFirstUse, 30, 0))
	w.clock.Advance(time.Minute)
	used := w.clock.Now()
	w.counter(id, 1000)
	w.settle()
	w.is(b.ID, simwarden.SubscriptionExhausted, used, 1000)
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanActivated, simwarden.ReasonDataExhausted)
}

func TestL4FirstUseBringsASuspendedSIMBack(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateSuspended)
	w.counter(id, 0)
	w.realName(id, simwarden.RealNameVerified)
	w.subscribe(id, w.modePlan("first", simwarden.ActivateFirstUse, 30, 0))
	w.settle()
	one(t, w.commands(id), simwarden.DirectionResume, simwarden.ScenePlanCheck, simwarden.ReasonNone)
}

func TestL4FirstUseBehindAPlanBearsWhatIsUsedAfterItsEnd(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.counter(id, 0)
	day := w.subscribe(id, w.plan("day", simwarden.PlanMain, 1000, 1))
	first := w.subscribe(id, w.modePlan("first", simwarden.ActivateFirstUse, 30, 0))
	w.clock.Advance(hour)
	w.counter(id, 10)
	w.settle()
	w.is(day.ID, simwarden.SubscriptionActive, noon, 10)
	w.is(first.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
	w.clock.Advance(24 * hour) // the day has ended, and no sweep has seen it
	used := w.clock.Now()
	w.counter(id, 40)
	w.settle()
	w.is(day.ID, simwarden.SubscriptionExpired, noon, 10)
	w.is(first.ID, simwarden.SubscriptionActive, used, 30)
	if list := w.commands(id); len(list) != 0 {
		t.Errorf("between the two there are commands: %+v", list)
	}
}

func TestL4BytesBetweenAnEndAndItsSweepBelongToTheQueuedPlan(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.counter(id, 0)
	w.subscribe(id, w.plan("day", simwarden.PlanMain, 1000, 1))
	next := w.subscribe(id, w.plan("next", simwarden.PlanMain, 1000, 5))
	w.clock.Advance(24*hour + time.Second)
	w.counter(id, 40)
	w.settle()
	w.is(next.ID, simwarden.SubscriptionActive, noon.AddDate(0, 0, 1), 40)
}

func TestL4LatestStart(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	for _, mode := range []simwarden.Activation{simwarden.ActivateFirstUse, simwarden.ActivateRealName} {
		id := w.sim(simwarden.StateActive)
		bought := w.clock.Now()
		b := w.subscribe(id, w.modePlan("by "+string(mode), mode, 30, 90))
		w.clock.Advance(90*24*hour - time.Second)
		w.settle()
		w.is(b.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
		w.clock.Advance(hour)
		w.settle()
		w.is(b.ID, simwarden.SubscriptionActive, bought.AddDate(0, 0, 90), 0)
	}
}

func TestL4RealNameBeginsOnceVerified(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	read, said := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	p := w.modePlan("named", simwarden.ActivateRealName, 30, 0)
	b1, b2 := w.subscribe(read, p), w.subscribe(said, p)
	w.clock.Advance(hour)
	w.realName(read, simwarden.RealNameUnverified)
	w.settle()
	w.is(b1.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
	if list := w.commands(read); len(list) != 0 {
		t.Fatalf("E2: what has not begun is no plan that is over: %+v", list)
	}
	w.clock.Advance(hour)
	at := w.clock.Now()
	w.realName(read, simwarden.RealNameVerified)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.SetRealName(ctx, tx, said, simwarden.RealNameVerified, "cli:anna", "shown in the shop")
		return err
	})
	w.settle()
	for _, b := range []simwarden.Subscription{b1, b2} {
		w.is(b.ID, simwarden.SubscriptionActive, at, 0)
		if got := w.scenes(b.ID); got[simwarden.SceneRealNameActivated] != 1 || len(got) != 1 {
			t.Errorf("asked for %v, want one realname_activated", got)
		}
	}
	w.clock.Advance(hour)
	w.realName(read, simwarden.RealNameVerified) // again: it changes nothing
	w.settle()
	w.is(b1.ID, simwarden.SubscriptionActive, at, 0)

	w.clock.Advance(31 * 24 * hour)
	w.settle()
	one(t, w.commands(said), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	again := w.subscribe(said, p)
	w.is(again.ID, simwarden.SubscriptionActive, w.clock.Now(), 0) // verified already
}

func TestL4RefundBeforeAVerifiedPlanStartsItNowAndNotBefore(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.realName(id, simwarden.RealNameVerified)
	main := w.subscribe(id, w.plan("month", simwarden.PlanMain, 1000, 30))
	named := w.subscribe(id, w.modePlan("named", simwarden.ActivateRealName, 30, 0))
	w.is(named.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
	w.clock.Advance(100 * hour)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return plans.Refund(ctx, tx, main.ID, "cli:anna", "test")
	})
	w.settle()
	w.is(named.ID, simwarden.SubscriptionActive, w.clock.Now(), 0)
}

func TestL4TakingBackWhatWaitsLetsTheNextBegin(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	waits := w.subscribe(id, w.modePlan("first", simwarden.ActivateFirstUse, 30, 0))
	next := w.subscribe(id, w.plan("month", simwarden.PlanMain, 1000, 30))
	w.clock.Advance(hour)
	w.settle()
	w.is(next.ID, simwarden.SubscriptionQueued, time.Time{}, 0)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return plans.Refund(ctx, tx, waits.ID, "cli:anna", "test")
	})
	w.settle()
	w.is(next.ID, simwarden.SubscriptionActive, w.clock.Now(), 0)
}

func TestL4PlansThatBeginAtOnceAloneNeverOverlap(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	now := w.modePlan("now", simwarden.ActivateNow, 1, 0)
	b := w.subscribe(id, now)
	w.is(b.ID, simwarden.SubscriptionActive, noon, 0)
	buy := func() error {
		return w.store.InTx(t.Context(), func(tx *store.Tx) error {
			_, err := plans.Subscribe(t.Context(), tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: now, By: "test"})
			return err
		})
	}
	if err := buy(); !errors.Is(err, plans.ErrOverlap) || !errors.Is(err, plans.ErrPlanInvalid) {
		t.Errorf("a second at once: %v, want ErrOverlap", err)
	}
	w.clock.Advance(25 * hour)
	w.settle()
	if err := buy(); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestL4TheAnchorDayIsKeptInTheDatabase(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.clock.Advance(time.Date(2027, 1, 31, 9, 0, 0, 0, time.UTC).Sub(w.clock.Now()))
	p := simwarden.Plan{Code: "month", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityMonths, ValidityCount: 1, Reset: simwarden.ResetNone, Zone: "UTC"}
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	var list []simwarden.Subscription
	for range 3 {
		list = append(list, w.subscribe(id, p))
	}
	for i, day := range []time.Time{time.Date(2027, 2, 28, 9, 0, 0, 0, time.UTC), time.Date(2027, 3, 31, 9, 0, 0, 0, time.UTC), time.Date(2027, 4, 30, 9, 0, 0, 0, time.UTC)} {
		if b := w.subscription(list[i].ID); !b.EndAt.Equal(day) || b.AnchorDay != 31 {
			t.Errorf("month %d ends at %s and keeps day %d, want %s and 31", i, b.EndAt, b.AnchorDay, day)
		}
		w.clock.Advance(day.Sub(w.clock.Now()) + time.Minute)
		w.settle()
	}
}

// U4, L5: usage that the carrier reports after a billing month has turned, true for before it, is not
// spent on the new month's allowance.
func TestU4LateUsageOfABillingMonthIsNotTheNewOnes(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.counter(id, 0)
	p := simwarden.Plan{Code: "unicom", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 360,
		Reset: simwarden.ResetBilling, AnchorDay: 27, Zone: "Asia/Shanghai"}
	if err := plans.Check(p); err != nil {
		t.Fatal(err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	b := w.subscribe(id, p)
	turn := time.Date(2026, 5, 26, 16, 0, 0, 0, time.UTC) // 27 May in Shanghai
	if got := w.subscription(b.ID).NextResetAt; !got.Equal(turn) {
		t.Fatalf("reset at %s, want %s", got, turn)
	}
	w.clock.Advance(hour)
	w.counter(id, 300)
	w.clock.Advance(turn.Sub(w.clock.Now()) + time.Minute)
	w.settle()
	w.is(b.ID, simwarden.SubscriptionActive, noon, 0)
	w.clock.Advance(hour)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		booked, err := usage.Book(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: w.clock.Now(),
			Usage: &simwarden.UsageReading{CounterBytes: 400, TrueAt: turn.Add(-time.Minute)}}}})
		if err == nil && booked.LateBytes != 100 {
			t.Errorf("%d bytes are late, want 100", booked.LateBytes)
		}
		return err
	})
	w.is(b.ID, simwarden.SubscriptionActive, noon, 0)
	w.clock.Advance(hour)
	w.counter(id, 450)
	w.is(b.ID, simwarden.SubscriptionActive, noon, 50)
}
