package evaluator_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// bulk asks for a bulk action.
func (w *world) bulk(d simwarden.Direction, sims ...simwarden.SIMID) store.BulkAction {
	w.t.Helper()
	var b store.BulkAction
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = tx.AddBulk(ctx, store.BulkAction{Direction: d, Reason: "tariff change", Actor: "cli:anna"}, sims)
		return err
	})
	return b
}

// many adds running SIMs in few statements.
func (w *world) many(n int) []simwarden.SIMID {
	w.t.Helper()
	list := make([]store.NewSIM, n)
	for i := range list {
		w.n++
		iccid := simwarden.MustParseICCID(fmt.Sprintf("898600000000%07d", w.n))
		list[i] = store.NewSIM{ICCID: iccid, Raw: iccid.String()}
	}
	var ids []simwarden.SIMID
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		if ids, err = tx.AddSIMs(ctx, w.account, list, 0); err != nil {
			return err
		}
		read := make([]store.Observed, n)
		for i, id := range ids {
			read[i] = store.Observed{SIMID: id, Reading: simwarden.Reading{ReadAt: w.clock.Now(),
				State: &simwarden.StateReading{State: simwarden.StateActive, Extended: simwarden.ExtendedNone, Raw: "active"}}}
		}
		_, err = reconcile.Observe(ctx, tx, read)
		return err
	})
	return ids
}

// outcomes counts what came of a bulk action's SIMs.
func (w *world) outcomes(id int64) map[store.BulkOutcome]int {
	w.t.Helper()
	list, err := w.store.BulkCounts(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	out := map[store.BulkOutcome]int{}
	for _, c := range list {
		out[c.Outcome] = c.SIMs
	}
	return out
}

func (w *world) action(id int64) store.BulkAction {
	w.t.Helper()
	b, err := w.store.Bulk(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

func (w *world) workBulk() {
	w.t.Helper()
	for {
		n, err := w.eval.StepBulk(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

// interrupted is the context of a node that is stopped in the middle of its work: when it has been
// looked at so many times.
type interrupted struct {
	context.Context
	stop context.CancelFunc
	left atomic.Int64
}

// Done is what every wait for the database looks at.
func (c *interrupted) Done() <-chan struct{} {
	if c.left.Add(-1) == 0 {
		c.stop()
	}
	return c.Context.Done()
}

// count gives the one number that a query of a bulk action answers.
func (w *world) count(sql string, id int64) (n int) {
	w.t.Helper()
	conn, err := pgx.Connect(w.t.Context(), w.url)
	if err != nil {
		w.t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(w.t.Context()))
	if err := conn.QueryRow(w.t.Context(), sql, id).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func TestF53ABulkActionGoesOnAfterCrashesAndActsOnNoSIMTwice(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	const n = 2000
	sims := w.many(n)
	b := w.bulk(simwarden.DirectionSuspend, sims...)
	crashes, end := 0, time.Now().Add(time.Minute) // the database may take its time to end what a dead node had begun
	for i := 0; w.action(b.ID).State == store.BulkRunning; i++ {
		// Each node dies in the middle of its batches: the later, the further it has come.
		ctx, stop := context.WithCancel(t.Context())
		node := &evaluator.Evaluator{Store: w.store, Clock: w.clock, Log: slog.New(slog.DiscardHandler), Holder: "mortal"}
		dying := &interrupted{Context: ctx, stop: stop}
		dying.left.Store(int64(5 + 11*i))
		for {
			m, err := node.StepBulk(dying)
			if err != nil {
				crashes++
				break
			}
			if m == 0 {
				break
			}
		}
		stop()
		if time.Now().After(end) {
			t.Fatal("it does not come to an end")
		}
	}
	if crashes < 3 {
		t.Errorf("%d nodes died in the middle, want some", crashes)
	}
	if got := w.action(b.ID); got.Done != n || got.State != store.BulkDone || got.FinishedAt.IsZero() {
		t.Errorf("the action is %+v, want %d done", got, n)
	}
	if got := w.outcomes(b.ID); got[store.BulkOrdered] != n || len(got) != 1 {
		t.Errorf("the outcomes are %v, want %d ordered", got, n)
	}
	for what, sql := range map[string]string{
		"commands (V3)": `SELECT count(*) FROM command WHERE cause_kind = 'bulk' AND cause_id = $1 AND direction = 'suspend' AND scene = 'manual'`,
		"audit rows (R2)": `SELECT count(*) FROM audit WHERE action = 'sim_suspend' AND actor = 'cli:anna' AND (data->>'bulk_id')::bigint = $1
			AND sim_id IN (SELECT sim_id FROM bulk_item WHERE bulk_id = $1)`,
		"holds (E3)": `SELECT count(*) FROM sim WHERE hold_by = 'cli:anna' AND $1::bigint > 0`,
		"events":     `SELECT count(*) FROM event WHERE kind = 'manual_hold' AND (data->>'bulk_id')::bigint = $1`,
	} {
		if got := w.count(sql, b.ID); got != n {
			t.Errorf("%d %s, want %d: one for each SIM", got, what, n)
		}
	}
	c := w.commands(sims[n-1])
	one(t, c, simwarden.DirectionSuspend, simwarden.SceneManual, simwarden.ReasonManualHold)
	if single := reconcile.Priority(simwarden.DirectionSuspend, simwarden.SceneManual); len(c) == 1 && c[0].Priority >= single {
		t.Errorf("G5: a bulk command has priority %d, a person's click %d: it would wait behind", c[0].Priority, single)
	}
}

func TestF53TwoNodesShareABulkAction(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	const n = 450
	b := w.bulk(simwarden.DirectionSuspend, w.many(n)...)
	errs := make(chan error, 2)
	for range 2 {
		go func() {
			for {
				got, err := w.store.Bulk(t.Context(), b.ID)
				if err == nil && got.State == store.BulkRunning {
					_, err = w.eval.StepBulk(t.Context())
				} else if err == nil {
					errs <- nil
					return
				}
				if err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	for range 2 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if got := w.count(`SELECT count(*) FROM command WHERE cause_kind = 'bulk' AND cause_id = $1`, b.ID); got != n {
		t.Errorf("%d commands, want %d", got, n)
	}
}

func TestF53WhatAPersonDoesMeanwhileStands(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	first, clicked := w.sim(simwarden.StateActive), w.sim(simwarden.StateSuspended)
	b := w.bulk(simwarden.DirectionSuspend, first, clicked)
	w.clock.Advance(time.Second)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Manual(ctx, tx, clicked, simwarden.DirectionResume, "cli:bob", "this one is needed")
		return err
	})
	w.workBulk()
	if got := w.outcomes(b.ID); got[store.BulkOrdered] != 1 || got[store.BulkOvertaken] != 1 {
		t.Errorf("the outcomes are %v, want one ordered and one overtaken", got)
	}
	one(t, w.commands(clicked), simwarden.DirectionResume, simwarden.SceneManual, simwarden.ReasonManualResume)
}

func TestF53OfTwoBulkActionsTheLaterHasTheLastWord(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	stop := w.bulk(simwarden.DirectionSuspend, id)
	w.clock.Advance(time.Second)
	start := w.bulk(simwarden.DirectionResume, id)
	w.clock.Advance(time.Second)
	w.workBulk()
	if a, b := w.outcomes(stop.ID), w.outcomes(start.ID); a[store.BulkOrdered] != 1 || b[store.BulkOvertaken] != 0 {
		t.Errorf("the outcomes are %v and %v", a, b)
	}
	if n := w.count(`SELECT count(*) FROM sim WHERE id = $1 AND hold_at IS NULL`, int64(id)); n != 1 {
		t.Error("the hold of the first was not lifted by the second (E3)")
	}
	for _, c := range w.commands(id) {
		if c.Direction == simwarden.DirectionSuspend && c.State.Open() {
			t.Errorf("the suspend is still %s", c.State)
		}
	}
}

func TestF53ACancelledBulkActionLeavesTheRest(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	sims := w.many(250)
	b := w.bulk(simwarden.DirectionSuspend, sims...)
	if _, err := w.eval.StepBulk(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		was, err := tx.CancelBulk(ctx, b.ID, "cli:bob")
		if err == nil && !was {
			t.Error("it did not run")
		}
		return err
	})
	w.workBulk()
	if got := w.outcomes(b.ID); got[store.BulkOrdered] != 100 || got[store.BulkDropped] != 150 {
		t.Errorf("the outcomes are %v, want 100 ordered and 150 cancelled", got)
	}
	if got := w.action(b.ID); got.State != store.BulkCancelled || got.CancelledBy != "cli:bob" || got.Done != 100 {
		t.Errorf("the action is %+v", got)
	}
	none(t, w.commands(sims[249]), "it was not reached")
}

func TestF16ABadRowOfABulkActionHoldsUpNoOther(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	first, bad, last := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	w.refuse(bad)
	b := w.bulk(simwarden.DirectionSuspend, first, bad, last)
	w.workBulk()
	if got := w.outcomes(b.ID); got[store.BulkOrdered] != 2 || got[store.BulkFailed] != 1 {
		t.Errorf("the outcomes are %v, want two ordered and one failed", got)
	}
	items, err := w.store.BulkItems(t.Context(), b.ID, store.BulkFailed, 0, 10)
	if err != nil || len(items) != 1 || items[0].SIMID != bad || items[0].Because == "" {
		t.Errorf("the failed one is %+v (%v), want why", items, err)
	}
}

func TestC9ABulkActionOnAnObservedAccountSendsNothing(t *testing.T) {
	w := newWorld(t, simwarden.ModeObserve)
	id := w.sim(simwarden.StateActive)
	b := w.bulk(simwarden.DirectionSuspend, id)
	w.workBulk()
	if got := w.outcomes(b.ID); got[store.BulkObserved] != 1 {
		t.Errorf("the outcomes are %v, want one observed", got)
	}
}
