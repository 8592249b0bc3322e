package evaluator_test

import (
	"context"
	"log/slog"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/store"
)

// sql runs a statement that no code of ours would: it makes the rows that must harm no others.
func (w *world) sql(text string, args ...any) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, text, args...)
		return err
	})
}

// refuse makes the database refuse every change of what is written of one SIM's decision (F16).
func (w *world) refuse(id simwarden.SIMID) {
	w.t.Helper()
	w.sql(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused'; END $$`)
	w.sql(`CREATE TRIGGER refuse BEFORE UPDATE ON poll_state FOR EACH ROW WHEN (OLD.sim_id = ` + strconv.FormatInt(int64(id), 10) + `) EXECUTE FUNCTION refuse()`)
}

// sweepAll handles what is due and must not fail, however bad a row there is.
func (w *world) sweepAll() {
	w.t.Helper()
	for range 10 {
		if _, err := w.sweeper.Sweep(w.t.Context()); err != nil {
			w.t.Fatalf("one bad row stops the sweep: %v (F16)", err)
		}
	}
}

// killOthers ends the connections of all transactions that are open, and waits until they are gone.
func (w *world) killOthers() {
	w.t.Helper()
	const open = ` FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'`
	w.sql(`SELECT pg_terminate_backend(pid)` + open)
	eventually(w.t, "the connections are gone", func() (gone bool) {
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			return tx.QueryRow(ctx, `SELECT count(*) = 0`+open).Scan(&gone)
		})
		return gone
	})
}

func (w *world) alerts() map[string]int {
	w.t.Helper()
	list, err := w.store.OpenAlerts(w.t.Context(), 50)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[string]int{}
	for _, a := range list {
		out[a.Kind]++
	}
	return out
}

// badQueue gives a SIM whose plan ends in 30 days and whose queued plan is in a zone that is gone.
func (w *world) badQueue() simwarden.SIMID {
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("first", simwarden.PlanMain, 1<<30, 30))
	gone := w.plan("gone", simwarden.PlanMain, 1<<30, 30)
	w.subscribe(id, gone)
	w.sql(`UPDATE plan SET zone = 'Mars/Olympus' WHERE id = $1`, gone.ID)
	return id
}

func TestF16APlanWhoseZoneIsGoneHoldsUpNoOtherPlansEnd(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	bad := w.badQueue()
	good := w.sim(simwarden.StateActive)
	w.subscribe(good, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.clock.Advance(30 * day)
	w.sweepAll()
	one(t, w.commands(good), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	for range 3 {
		w.clock.Advance(time.Minute)
		w.sweepAll()
	}
	if n := w.alerts()[store.AlertRowSetAside]; n != 1 {
		t.Errorf("%d alerts about the plan that cannot be ended, want one (F5)", n)
	}
	w.sql(`UPDATE plan SET zone = 'UTC' WHERE code = 'gone'`)
	w.clock.Advance(2 * time.Hour)
	w.sweepAll()
	subs, err := w.store.SubscriptionsOf(t.Context(), bad, 10)
	if err != nil {
		t.Fatal(err)
	}
	if subs[0].State != simwarden.SubscriptionActive || subs[1].State != simwarden.SubscriptionExpired {
		t.Errorf("mended, the plans are %s and %s, want the queued one active and the first expired", subs[0].State, subs[1].State)
	}
}

func TestF16ARowThatCannotBeWrittenHoldsUpNoOtherPlansEnd(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, 1<<30, 30)
	bad, good := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	w.subscribe(bad, p)
	w.subscribe(good, p)
	w.settle()
	w.refuse(bad)
	w.clock.Advance(30 * day)
	w.sweepAll()
	one(t, w.commands(good), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
}

func TestF16APlanWhoseZoneIsGoneHoldsUpNoOthersReset(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	monthly := func(code string) simwarden.Plan {
		p := simwarden.Plan{Code: code, Name: code, Kind: simwarden.PlanMain, AllowanceBytes: 1 << 30, ValidityUnit: simwarden.ValidityDays,
			ValidityCount: 90, Reset: simwarden.ResetCycle, ResetDays: 10, Zone: "UTC"}
		w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			p, err = tx.AddPlan(ctx, p)
			return err
		})
		return p
	}
	bad, good := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	w.subscribe(bad, monthly("gone"))
	b := w.subscribe(good, monthly("fine"))
	w.settle()
	w.sql(`UPDATE plan SET zone = 'Mars/Olympus' WHERE code = 'gone'`)
	w.clock.Advance(11 * day)
	w.sweepAll()
	subs, err := w.store.SubscriptionsOf(t.Context(), good, 10)
	if err != nil {
		t.Fatal(err)
	}
	if !subs[0].NextResetAt.After(b.NextResetAt) {
		t.Errorf("the next reset is %s, want one after %s", subs[0].NextResetAt, b.NextResetAt)
	}
}

func TestF5AnEndThatPanicsHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.clock.Advance(30 * day)
	restore := fault.Set("lapse.in", func() { panic("a mistake in the code") })
	defer restore()
	w.sweepAll()
	restore()
	w.clock.Advance(time.Minute)
	w.sweepAll()
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
}

func TestF5ARequestThatPanicsIsSetAside(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30)) // asks for an evaluation
	restore := fault.Set("evaluate.in", func() { panic("a mistake in the code") })
	defer restore()
	for range 4 {
		if _, err := w.eval.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Minute)
	}
	if n := w.alerts()[store.AlertRowSetAside]; n != 1 {
		t.Errorf("%d alerts about the request, want one", n)
	}
}

func TestF16APeriodicPassGoesPastARowThatCannotBeWritten(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, 1<<30, 30)
	bad, good := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	for _, id := range []simwarden.SIMID{bad, good} {
		b := w.subscribe(id, p)
		w.settle()
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			return tx.Spend(ctx, []store.SpentRow{{ID: b.ID, UsedBytes: 1 << 30, Exhausted: true}})
		})
	}
	w.refuse(bad)
	w.eval.Interval = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.eval.RunPeriodic(ctx) }()
	eventually(t, "the pass has judged the SIM behind the bad one", func() bool {
		if err := w.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(time.Second)
		return len(w.commands(good)) == 1
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if n := w.alerts()[store.AlertRowSetAside]; n != 1 {
		t.Errorf("%d alerts about the SIM that cannot be judged, want one", n)
	}
}

func TestF16ASIMWhoseDriverIsNotBuiltInHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, 1<<30, 30)
	bad, good := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	var other store.Account
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		other, err = tx.AddAccount(ctx, store.Account{Name: "new", Driver: "of a newer version"})
		return err
	})
	w.subscribe(bad, p)
	w.subscribe(good, p)
	w.settle()
	w.sql(`UPDATE sim SET account_id = $1 WHERE id = $2`, other.ID, bad)
	w.clock.Advance(30 * day)
	w.sweepAll()
	one(t, w.commands(good), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	subs, err := w.store.SubscriptionsOf(t.Context(), bad, 1)
	if err != nil || subs[0].State != simwarden.SubscriptionExpired {
		t.Errorf("the plan of the other is %s (error %v), want expired: its driver has no say in that", subs[0].State, err)
	}
}

func TestF9ADatabaseThatIsAwayPutsNoRequestOff(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	// Each transaction's connection is ended under it, as a crash of the database does.
	restore := fault.Set("evaluate.in", func() { w.killOthers() })
	defer restore()
	for range 4 {
		if _, err := w.eval.Step(t.Context()); err == nil {
			t.Fatal("a transaction whose connection was ended says that it went well")
		}
	}
	restore()
	if n, err := w.eval.Step(t.Context()); err != nil || n != 1 {
		t.Errorf("when the database is back %d requests are worked off at once (error %v), want the one", n, err)
	}
}

func TestF12ADatabaseThatCannotWriteIsNotAskedAllTheTime(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.sql(`CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$`)
	w.sql(`CREATE TRIGGER full_disk BEFORE UPDATE ON subscription FOR EACH ROW EXECUTE FUNCTION full_disk()`)
	w.clock.Advance(30 * day)
	var failures atomic.Int32
	w.sweeper.Log = slog.New(slog.NewTextHandler(countingWriter{&failures}, nil))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.sweeper.Run(ctx) }()
	for range 30 { // three seconds
		if err := w.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(100 * time.Millisecond)
	}
	if n := failures.Load(); n < 2 || n > 4 {
		t.Errorf("the sweep failed %d times in three seconds, want one try a second", n)
	}
	w.sql(`DROP TRIGGER full_disk ON subscription`)
	eventually(t, "the plan is ended when there is room again", func() bool {
		if err := w.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		w.clock.Advance(100 * time.Millisecond)
		return len(w.commands(id)) == 1
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// countingWriter counts the lines of a log.
type countingWriter struct{ n *atomic.Int32 }

func (w countingWriter) Write(p []byte) (int, error) {
	w.n.Add(1)
	return len(p), nil
}
