package evaluator_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("it did not come to be so: %s", what)
		}
	}
}

func TestSIMsThatComeAfterAPassBeganAreJudgedByTheNext(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	w.eval.Interval = time.Minute
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.eval.RunPeriodic(ctx) }()
	judged := func(id simwarden.SIMID) {
		t.Helper()
		begin := w.clock.Now()
		eventually(t, "the SIM is judged by a pass", func() bool {
			if err := w.clock.BlockUntil(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
			sim, err := w.store.SIM(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			if sim.DecidedScene == simwarden.ScenePeriodic {
				return true
			}
			w.clock.Advance(time.Second)
			return false
		})
		if took := w.clock.Now().Sub(begin); took > 2*w.eval.Interval {
			t.Errorf("it took %s, want no more than what is left of one pass and the next", took)
		}
	}
	w.pass() // on an empty fleet
	judged(w.unread())
	// A fleet that has grown a hundredfold since the pass was paced.
	var last simwarden.SIMID
	for range 100 {
		last = w.unread()
	}
	judged(last)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// pass lets the periodic evaluation tick a few times.
func (w *world) pass() {
	w.t.Helper()
	for range 3 {
		if err := w.clock.BlockUntil(w.t.Context(), 1); err != nil {
			w.t.Fatal(err)
		}
		w.clock.Advance(time.Second)
	}
}

// unread adds a SIM that nobody has read or judged.
func (w *world) unread() simwarden.SIMID {
	w.t.Helper()
	w.n++
	var id simwarden.SIMID
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		iccid, err := simwarden.ParseICCID("8986000000001" + time.Unix(int64(w.n), 0).UTC().Format("150405"))
		if err != nil {
			return err
		}
		ids, err := tx.AddSIMs(ctx, w.account, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		if err == nil {
			id = ids[0]
		}
		return err
	})
	return id
}

func TestWhoWaitsForASIMSeesWhatTheOneBeforeOrdered(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	second := make(chan error, 1)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		// The first orders a suspend; before it commits, the second has begun to wait for the SIM.
		if _, err := reconcile.Manual(ctx, tx, id, simwarden.DirectionSuspend, "cli:anna", "test"); err != nil {
			return err
		}
		go func() {
			second <- w.store.InTx(t.Context(), func(tx *store.Tx) error {
				facts, err := tx.Facts(t.Context(), []simwarden.SIMID{id})
				if err != nil {
					return err
				}
				switch f := facts[0]; {
				case f.Open == nil:
					return errors.New("the open command is missing from the facts: another one would be opened (C2)")
				case !f.Facts.ManualHold:
					return errors.New("the hold is missing from the facts: a resume could be ordered (E3)")
				}
				return nil
			})
		}()
		eventually(t, "the second waits for the lock", func() bool {
			var waiting bool
			if _, err := tx.Exec(ctx, `SELECT pg_stat_clear_snapshot()`); err != nil {
				t.Fatal(err)
			}
			if err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waiting); err != nil {
				t.Fatal(err)
			}
			return waiting
		})
		return nil
	})
	if err := <-second; err != nil {
		t.Error(err)
	}
}

func TestAPlanBoughtWhileAnotherJudgesIsNotMissing(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	w.tx(func(ctx context.Context, tx *store.Tx) error { // begins first, comes to the SIM second
		w.clock.Advance(time.Second)
		w.subscribe(id, p)
		_, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: simwarden.SceneUsageCheck, AskedBy: reconcile.System,
			Cause: store.Cause{Kind: store.CauseReading, ID: int64(id)}})
		return err
	})
	none(t, w.commands(id), "a plan is in force")
}
