package plans_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// steppedClock is a node's clock that is off from the database's.
type steppedClock struct {
	clock.Clock
	by atomic.Int64
}

func (c *steppedClock) Now() time.Time { return c.Clock.Now().Add(time.Duration(c.by.Load())) }

// guardWorld is a database on the world's time, with an account of running SIMs.
type guardWorld struct {
	t       *testing.T
	store   *store.Store
	clock   *steppedClock
	conn    *pgx.Conn
	sweeper *plans.Sweeper
	account store.Account
	plan    simwarden.Plan
	sims    []simwarden.SIMID
}

func newGuardWorld(t *testing.T, sims int) *guardWorld {
	t.Helper()
	w := &guardWorld{t: t, clock: &steppedClock{Clock: clock.System()}}
	url := storetest.URL(t, store.Migrate)
	var err error
	if w.store, err = store.Open(t.Context(), store.Options{URL: url, Clock: w.clock, ClockBound: 5 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.conn, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.conn.Close(context.Background()) })
	w.sweeper = &plans.Sweeper{Store: w.store, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if w.account, err = tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "soracom", BrakePercent: 5, BrakeCount: 50, BrakeWindow: 10 * time.Minute}); err != nil {
			return err
		}
		if err := tx.SetAccountMode(ctx, w.account.ID, simwarden.ModeAct); err != nil {
			return err
		}
		if w.plan, err = tx.AddPlan(ctx, simwarden.Plan{Code: "month", Name: "month", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"}); err != nil {
			return err
		}
		list := make([]store.NewSIM, sims)
		for i := range list {
			iccid := simwarden.MustParseICCID(fmt.Sprintf("8986%014d", i+1))
			list[i] = store.NewSIM{ICCID: iccid, Raw: iccid.String()}
		}
		if w.sims, err = tx.AddSIMs(ctx, w.account, list, time.Hour); err != nil {
			return err
		}
		return tx.SeedReadings(ctx, w.account.ID)
	})
	return w
}

func (w *guardWorld) tx(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	if err := w.store.InTx(w.t.Context(), func(tx *store.Tx) error { return fn(w.t.Context(), tx) }); err != nil {
		w.t.Fatal(err)
	}
}

// imported writes plans that began so long ago, as a file of running plans does.
func (w *guardWorld) imported(sims []simwarden.SIMID, ago time.Duration) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, id := range sims {
			_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: w.plan, By: "cli:anna", StartAt: tx.At.Add(-ago), ImportRef: fmt.Sprintf("csv:%d-%s", id, ago)})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

func (w *guardWorld) sweep() {
	w.t.Helper()
	for range 50 {
		n, err := w.sweeper.Sweep(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
	w.t.Fatal("there is always something more to sweep")
}

func (w *guardWorld) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	if err := w.conn.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *guardWorld) expired() int {
	return w.count(`SELECT count(*) FROM subscription WHERE state = 'expired'`)
}

func (w *guardWorld) suspends() int {
	return w.count(`SELECT count(*) FROM command WHERE direction = 'suspend'`)
}

// guard gives the one open guard, and releases it when asked to.
func (w *guardWorld) guard(kind store.GuardKind) store.Guard {
	w.t.Helper()
	list, err := w.store.Guards(w.t.Context(), true, 10)
	if err != nil {
		w.t.Fatal(err)
	}
	if len(list) != 1 || list[0].Kind != kind {
		w.t.Fatalf("open guards are %+v, want one of kind %s", list, kind)
	}
	if n := w.count(`SELECT count(*) FROM alert WHERE kind = 'clock' AND cleared_at IS NULL`); n != 1 {
		w.t.Errorf("%d alerts tell of it, want 1 (C10)", n)
	}
	return list[0]
}

func (w *guardWorld) release(id int64) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.ReleaseGuard(ctx, id, "cli:anna", "looked at it")
		return err
	})
	if n := w.count(`SELECT count(*) FROM alert WHERE cleared_at IS NULL`); n != 0 {
		w.t.Errorf("%d alerts are open after the release", n)
	}
}

const month = 30 * 24 * time.Hour

func TestV13AnImportThatEndsMoreThanTheBrakesShareWaitsForAPerson(t *testing.T) {
	w := newGuardWorld(t, 200)
	w.imported(w.sims[:60], 2*month) // ended a month ago: somebody has mistaken the column
	w.sweep()
	g := w.guard(store.GuardMassLapse)
	if w.expired() != 0 || w.suspends() != 0 || g.Held != 60 || g.AccountID != w.account.ID {
		t.Fatalf("%d plans lapsed and %d SIMs are suspended; the guard is %+v", w.expired(), w.suspends(), g)
	}

	// Judged again for whatever cause, nobody concludes that they have no plan.
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, id := range w.sims[:60] {
			o, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.ScenePeriodic, AskedBy: reconcile.System})
			if err != nil {
				return err
			}
			if o.Decision.Desired != simwarden.DesiredLeave {
				t.Errorf("sim %d: %s because %s, want leave", id, o.Decision.Desired, o.Decision.Because)
			}
		}
		return nil
	})

	// What runs out in its time goes on meanwhile.
	if _, err := w.conn.Exec(t.Context(), `INSERT INTO subscription (sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by)
		SELECT id, $1, 'main', 'active', now() - interval '30 days', now(), -1, now() - interval '30 days', 'x' FROM sim WHERE id = ANY($2)`, w.plan.ID, w.sims[100:180]); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	if w.expired() != 80 {
		t.Errorf("%d of 80 plans that ran out in their time have lapsed", w.expired())
	}

	w.release(g.ID)
	w.sweep()
	if w.expired() != 140 || w.count(`SELECT count(*) FROM guard`) != 1 {
		t.Errorf("%d of 140 have lapsed after the release, with %d guards", w.expired(), w.count(`SELECT count(*) FROM guard`))
	}
}

// later lets all clocks be ahead by so much since the world's beginning.
func (w *guardWorld) later(by time.Duration) {
	w.t.Helper()
	_, err := w.conn.Exec(w.t.Context(), fmt.Sprintf(
		`CREATE OR REPLACE FUNCTION app_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT clock_timestamp() + interval '%d seconds'$$`, int64(by.Seconds())))
	if err != nil {
		w.t.Fatal(err)
	}
	w.clock.by.Store(int64(by))
}

func TestC10V13AnImportThatEndsTooManySoonWaitsForAPersonWhenTheyEnd(t *testing.T) {
	w := newGuardWorld(t, 200)
	w.imported(w.sims[:60], month-10*time.Hour) // at tonight's midnight
	w.sweep()
	if n := w.count(`SELECT count(*) FROM guard`); n != 0 {
		t.Errorf("%d guards before anything ends", n)
	}
	w.later(11 * time.Hour)
	w.sweep()
	g := w.guard(store.GuardMassLapse)
	if w.expired() != 0 || w.suspends() != 0 || g.Held != 60 {
		t.Fatalf("%d plans lapsed and %d SIMs are suspended; the guard is %+v", w.expired(), w.suspends(), g)
	}
	w.release(g.ID)
	w.sweep()
	if w.expired() != 60 {
		t.Errorf("%d of 60 lapsed after the release", w.expired())
	}
}

// Nobody has to release what runs out in its time: ends that several imports have set, that a person stands
// for, or that everybody had a week to look at.
func TestC10L2HonestEndsAtOneInstantLapse(t *testing.T) {
	for name, begin := range map[string]func(w *guardWorld) (sims int, after time.Duration){
		"imported over days": func(w *guardWorld) (int, time.Duration) {
			w.imported(w.sims[:40], month-72*time.Hour)
			w.later(48 * time.Hour)
			w.imported(w.sims[40:80], month-24*time.Hour)
			return 80, 73 * time.Hour
		},
		"confirmed": func(w *guardWorld) (int, time.Duration) {
			w.imported(w.sims, month-10*time.Hour)
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				var ids []simwarden.SubscriptionID
				for _, id := range w.sims {
					list, err := tx.LiveSubscriptions(ctx, store.Asset{SIMID: id})
					if err != nil {
						return err
					}
					ids = append(ids, list[0].ID)
				}
				return tx.ConfirmEnds(ctx, ids)
			})
			return 200, 11 * time.Hour
		},
		"more than a week ahead": func(w *guardWorld) (int, time.Duration) {
			w.imported(w.sims, month-8*24*time.Hour)
			return 200, 8*24*time.Hour + time.Hour
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newGuardWorld(t, 200)
			sims, after := begin(w)
			w.later(after)
			w.sweep()
			if w.expired() != sims || w.count(`SELECT count(*) FROM guard`) != 0 {
				t.Errorf("%d of %d lapsed, with %d guards", w.expired(), sims, w.count(`SELECT count(*) FROM guard`))
			}
		})
	}
}

func TestC10V13AnEditThatBringsManyEndsForwardWaitsAndOneThatPutsThemOffDoesNot(t *testing.T) {
	w := newGuardWorld(t, 200)
	w.imported(w.sims[:60], month/2)
	if _, err := w.conn.Exec(t.Context(), `INSERT INTO subscription (sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by)
		SELECT id, $1, 'main', 'active', now() - interval '60 days', now() + interval '1 day', -1, now() - interval '60 days', 'x' FROM sim WHERE id = ANY($2)`, w.plan.ID, w.sims[100:180]); err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{
		`UPDATE subscription SET end_at = now() + interval '2 days' WHERE bought_by <> 'x'`,
		`UPDATE subscription SET end_at = end_at + interval '1 hour'`, // all of them, and soon still
	} {
		if _, err := w.conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	w.later(73 * time.Hour)
	w.sweep()
	if g := w.guard(store.GuardMassLapse); g.Held != 60 || w.expired() != 80 {
		t.Errorf("the guard holds %d, want the 60 that were brought forward; %d of the 80 that were only put off lapsed", g.Held, w.expired())
	}
}

func TestV13AnImportWithinTheBrakesShareLapses(t *testing.T) {
	w := newGuardWorld(t, 200)
	w.imported(w.sims[:50], 2*month)
	w.sweep()
	if w.expired() != 50 || w.count(`SELECT count(*) FROM guard`) != 0 {
		t.Fatalf("%d of 50 lapsed, %d guards", w.expired(), w.count(`SELECT count(*) FROM guard`))
	}
	// The next file, a moment later, is counted with it.
	w.imported(w.sims[50:51], 2*month)
	w.sweep()
	if g := w.guard(store.GuardMassLapse); w.expired() != 50 || g.Held != 1 {
		t.Errorf("%d lapsed, the guard holds %d: a typing error in slices is one all the same", w.expired(), g.Held)
	}
}

func TestV13AnEditOfManyEndsWaitsForAPerson(t *testing.T) {
	w := newGuardWorld(t, 200)
	w.imported(w.sims, month/2) // they run
	w.sweep()
	if _, err := w.conn.Exec(t.Context(), `UPDATE subscription SET end_at = now() - interval '1 day'`); err != nil {
		t.Fatal(err)
	}
	w.sweep()
	if g := w.guard(store.GuardMassLapse); w.expired() != 0 || g.Held != 200 {
		t.Errorf("%d lapsed, the guard holds %d", w.expired(), g.Held)
	}
}

// A queued plan, bought by a person as the correction, begins at once: what is held does not stand in its way.
func TestC10ANewPlanTakesTheHeldOnesPlace(t *testing.T) {
	w := newGuardWorld(t, 200)
	w.imported(w.sims[:60], 2*month)
	w.sweep()
	g := w.guard(store.GuardMassLapse)
	w.imported(w.sims[:60], month/2)
	w.release(g.ID)
	w.sweep()
	if w.expired() != 60 || w.suspends() != 0 {
		t.Errorf("%d lapsed and %d SIMs are suspended, want 60 and none", w.expired(), w.suspends())
	}
}

func TestV13F68AClockADayAheadStopsLapsingAndAutomaticSuspends(t *testing.T) {
	for _, by := range []time.Duration{24 * time.Hour, 6 * time.Minute, -6 * time.Minute, -24 * time.Hour} {
		t.Run(by.String(), func(t *testing.T) {
			w := newGuardWorld(t, 20)
			w.imported(w.sims, month-time.Hour*2)
			w.sweep()
			w.clock.by.Store(int64(by))
			w.sweep()
			g := w.guard(store.GuardClock)
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				for _, id := range w.sims {
					if _, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.ScenePeriodic, AskedBy: reconcile.System}); err != nil {
						return err
					}
				}
				return nil
			})
			if w.expired() != 0 || w.suspends() != 0 {
				t.Fatalf("%d plans lapsed and %d SIMs are to be suspended by a clock that is %s off", w.expired(), w.suspends(), by)
			}
			// Set right again, it waits all the same until a person has looked (V13).
			w.clock.by.Store(0)
			if _, err := w.conn.Exec(t.Context(), `UPDATE subscription SET end_at = now() WHERE sim_id = $1`, w.sims[0]); err != nil {
				t.Fatal(err)
			}
			w.sweep()
			if w.expired() != 0 {
				t.Fatal("a plan lapsed before the release")
			}
			w.release(g.ID)
			w.sweep()
			if w.expired() != 1 || w.suspends() != 1 {
				t.Errorf("after the release %d plans lapsed, and %d SIMs are to be suspended, want 1", w.expired(), w.suspends())
			}
		})
	}
}

func TestC10L6APersonAtANodeADayAheadFillsNoPoolAgain(t *testing.T) {
	w := newGuardWorld(t, 1)
	var p store.Pool
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = plans.AddPool(ctx, tx, store.Pool{Name: "meters", Policy: simwarden.PoolAll, AllowanceBytes: 500,
			Reset: simwarden.ResetCycle, ResetDays: 1, Zone: "UTC"}, "cli:anna")
		return err
	})
	w.clock.by.Store(int64(25 * time.Hour))
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, _, _, err = plans.TopUpPool(ctx, tx, p.ID, store.PoolTopUp{Bytes: 100, Actor: "cli:anna"}, "a key")
		return err
	})
	if p.Period != 1 || p.TotalBytes() != 600 {
		t.Errorf("the pool is in period %d with %d bytes, want the first still, with 600", p.Period, p.TotalBytes())
	}
	w.guard(store.GuardClock)
}

// The first to notice may be whoever judges a SIM.
func TestV13TheClockIsLookedAtWhereASuspendWouldBeOrdered(t *testing.T) {
	w := newGuardWorld(t, 1)
	w.imported(w.sims, month-time.Hour)
	w.clock.by.Store(int64(24 * time.Hour))
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		o, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: w.sims[0], Scene: simwarden.ScenePeriodic, AskedBy: reconcile.System})
		if err == nil && o.Ordered.Action != "hold" {
			t.Errorf("ordered %+v, want hold", o.Ordered)
		}
		return err
	})
	w.guard(store.GuardClock)
}

func TestV13AClockWithinTheBoundIsTrusted(t *testing.T) {
	w := newGuardWorld(t, 1)
	w.imported(w.sims, month-2*time.Minute)
	w.clock.by.Store(int64(4 * time.Minute))
	w.sweep()
	if w.expired() != 1 || w.count(`SELECT count(*) FROM guard`) != 0 {
		t.Errorf("%d lapsed, %d guards; 4 minutes are within the bound", w.expired(), w.count(`SELECT count(*) FROM guard`))
	}
}
