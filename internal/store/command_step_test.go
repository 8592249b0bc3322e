package store_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// queue is a database whose time stands still, with an account and queued commands.
type queue struct {
	t       *testing.T
	store   *store.Store
	pool    *pgxpool.Pool
	clock   *clock.Manual
	account store.Account
	n       int
}

func newQueue(t *testing.T) *queue {
	t.Helper()
	q := &queue{t: t, clock: clock.NewManual(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))}
	url := storetest.URL(t, store.Migrate)
	var err error
	if q.store, err = store.Open(t.Context(), store.Options{URL: url, Clock: q.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.store.Close)
	if q.pool, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.pool.Close)
	q.account = q.addAccount("acme")
	return q
}

func (q *queue) addAccount(name string) (a store.Account) {
	inTx(q.t, q.store, func(ctx context.Context, tx *store.Tx) (err error) {
		if a, err = tx.AddAccount(ctx, store.Account{Name: name, Driver: "any"}); err != nil {
			return err
		}
		return tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct)
	})
	return a
}

func (q *queue) add(a store.Account, scene simwarden.Scene, priority int) (id simwarden.CommandID) {
	q.t.Helper()
	q.n++
	inTx(q.t, q.store, func(ctx context.Context, tx *store.Tx) error {
		iccid := simwarden.MustParseICCID(fmt.Sprintf("8986000000%09d", q.n))
		sims, err := tx.AddSIMs(ctx, a, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		if err != nil {
			return err
		}
		ids, err := tx.OpenCommands(ctx, []store.NewCommand{{SIMID: sims[0], AccountID: a.ID, Direction: simwarden.DirectionSuspend,
			Scene: scene, Cause: store.Cause{Kind: store.CauseReading, ID: 1}, AskedBy: "system", Priority: priority}})
		if err != nil {
			return err
		}
		id = ids[0]
		return nil
	})
	return id
}

// send claims a command as a worker does that sends at once; false where it was not to be had.
func (q *queue) send(id simwarden.CommandID, holder string) (store.Command, bool) {
	q.t.Helper()
	var c store.Command
	var ok bool
	inTx(q.t, q.store, func(ctx context.Context, tx *store.Tx) (err error) {
		if c, ok, err = tx.LockDueCommand(ctx, id); err != nil || !ok {
			return err
		}
		c, err = tx.BeginAttempt(ctx, c, holder, store.NewAttempt{Facts: rules.Facts{NowAt: tx.At},
			DeadlineAt: tx.At.Add(30 * time.Second), ClaimUntil: tx.At.Add(45 * time.Second)})
		return err
	})
	return c, ok
}

func (q *queue) move(from, to store.Command) bool {
	q.t.Helper()
	var moved bool
	inTx(q.t, q.store, func(ctx context.Context, tx *store.Tx) (err error) {
		moved, err = tx.MoveCommand(ctx, from, to)
		return err
	})
	return moved
}

func (q *queue) due() []store.DueStep {
	q.t.Helper()
	due, err := q.store.DueSteps(q.t.Context(), 10, nil)
	if err != nil {
		q.t.Fatal(err)
	}
	return due
}

func ids(due []store.DueStep) []simwarden.CommandID {
	var out []simwarden.CommandID
	for _, d := range due {
		out = append(out, d.ID)
	}
	return out
}

func TestNoTwoWorkersClaimOneCommand(t *testing.T) {
	// V2, V3, F4: eight nodes that take from one queue at once.
	q := newQueue(t)
	var want []simwarden.CommandID
	for range 24 {
		want = append(want, q.add(q.account, simwarden.ScenePlanLapsed, 80))
	}
	var mu sync.Mutex
	claimed := map[simwarden.CommandID]int{}
	var workers sync.WaitGroup
	for n := range 8 {
		workers.Go(func() {
			for _, id := range want {
				if _, ok := q.send(id, fmt.Sprintf("node-%d", n)); ok {
					mu.Lock()
					claimed[id]++
					mu.Unlock()
				}
			}
		})
	}
	workers.Wait()
	for _, id := range want {
		if claimed[id] > 1 {
			t.Errorf("command %d was claimed %d times", id, claimed[id])
		}
	}
	var attempts, commands int
	if err := q.pool.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT command_id) FROM attempt`).Scan(&attempts, &commands); err != nil {
		t.Fatal(err)
	}
	if attempts != commands || attempts != len(claimed) {
		t.Errorf("%d attempts of %d commands, %d claims", attempts, commands, len(claimed))
	}
	if left := q.due(); len(left)+len(claimed) != len(want) {
		t.Errorf("%d claimed and %d due of %d", len(claimed), len(left), len(want))
	}
}

func TestOnlyTheHolderOfAClaimMovesACommand(t *testing.T) {
	q := newQueue(t)
	claimed, ok := q.send(q.add(q.account, simwarden.ScenePlanLapsed, 80), "a")
	if !ok {
		t.Fatal("a command that is due could not be claimed")
	}
	verifying := claimed
	verifying.State, verifying.RunAt = simwarden.CommandVerifying, claimed.MayActUntil
	for _, tc := range []struct {
		says   string
		change func(*store.Command)
	}{
		{"another holder", func(c *store.Command) { c.ClaimedBy = "b" }},
		{"an earlier attempt", func(c *store.Command) { c.Attempt-- }},
		{"a claim that was renewed", func(c *store.Command) { c.ClaimUntil = c.ClaimUntil.Add(time.Second) }},
		{"a command that has moved on", func(c *store.Command) { c.State = simwarden.CommandConfirming }},
	} {
		other := claimed
		tc.change(&other)
		if q.move(other, verifying) {
			t.Errorf("%s moved the command", tc.says)
		}
	}
	if !q.move(claimed, verifying) {
		t.Error("the holder could not move its command")
	}
	if q.move(claimed, verifying) {
		t.Error("a claim was used twice")
	}
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		done := claimed
		done.State = simwarden.CommandDone
		if _, err := tx.MoveCommand(ctx, claimed, done); err == nil {
			t.Error("a command was ended without its record (V18)")
		}
		return nil
	})
}

func TestDueStepsComeByPriorityFollowUpsFirst(t *testing.T) {
	q := newQueue(t)
	plain := q.add(q.account, simwarden.ScenePeriodic, 50)
	lapse := q.add(q.account, simwarden.ScenePlanLapsed, 80)
	manual := q.add(q.account, simwarden.SceneManual, 100)
	followed, _ := q.send(q.add(q.account, simwarden.ScenePlanLapsed, 80), "a")
	next := followed
	next.State, next.RunAt = simwarden.CommandVerifying, q.clock.Now()
	q.move(followed, next)
	if got, want := ids(q.due()), []simwarden.CommandID{manual, followed.ID, lapse, plain}; !slices.Equal(got, want) {
		t.Errorf("due are %v, want %v (G5)", got, want)
	}
	busy, err := q.store.DueSteps(t.Context(), 1, []simwarden.CommandID{manual})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ids(busy), []simwarden.CommandID{followed.ID, lapse}; !slices.Equal(got, want) {
		t.Errorf("with one step of each kind, and the manual one busy: %v, want %v", got, want)
	}
}

func TestG5ACommandThatHasWaitedForLongGoesFirst(t *testing.T) {
	q := newQueue(t)
	low := q.add(q.account, simwarden.ScenePeriodic, 50)
	for at := time.Duration(0); ; at += time.Minute {
		q.add(q.account, simwarden.ScenePlanLapsed, 80) // there is always something that goes before it
		q.add(q.account, simwarden.ScenePlanLapsed, 80)
		due, err := q.store.DueSteps(t.Context(), 2, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first := due[0]; first.Aged != (at >= store.AgedAfter) || first.Aged != (first.ID == low) {
			t.Fatalf("after %s the first of %+v is aged: %v, want command %d from %s on", at, due, first.Aged, low, store.AgedAfter)
		} else if first.Aged {
			return
		}
		q.clock.Advance(time.Minute)
	}
}

func TestStoppedAndBrakedAccountsHoldTheirCommandsAndNoOthers(t *testing.T) {
	q := newQueue(t)
	stopped, braked := q.addAccount("stopped"), q.addAccount("braked")
	q.add(stopped, simwarden.ScenePlanLapsed, 80)
	periodic := q.add(braked, simwarden.ScenePeriodic, 50)
	lapse := q.add(braked, simwarden.ScenePlanLapsed, 80)
	other := q.add(q.account, simwarden.ScenePeriodic, 50)
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.StopAccount(ctx, stopped.ID, "test"); err != nil {
			return err
		}
		_, err := tx.BrakeAccount(ctx, braked.ID, "test")
		return err
	})
	if got, want := ids(q.due()), []simwarden.CommandID{other, lapse}; !slices.Equal(got, want) {
		t.Errorf("due are %v, want %v (G8, C10)", got, want)
	}
	if err := q.store.HoldWaiting(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	c, err := q.store.CommandByID(t.Context(), periodic)
	if err != nil {
		t.Fatal(err)
	}
	if c.HeldBy != store.HeldByBrake {
		t.Errorf("held by %q, nobody can see why it waits", c.HeldBy)
	}
}

func TestC9WhatIsQueuedIsLookedAtWhenItsAccountBeginsToObserve(t *testing.T) {
	q := newQueue(t)
	waits, held, sent := q.add(q.account, simwarden.ScenePlanLapsed, 80), q.add(q.account, simwarden.ScenePeriodic, 50), q.add(q.account, simwarden.ScenePlanLapsed, 80)
	if _, ok := q.send(sent, "worker"); !ok {
		t.Fatal("not to be had")
	}
	if err := q.store.PutOffCommand(t.Context(), waits, q.clock.Now().Add(time.Hour), "the carrier"); err != nil {
		t.Fatal(err)
	}
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.StopAccount(ctx, q.account.ID, "test"); err != nil {
			return err
		}
		_, err := tx.BrakeAccount(ctx, q.account.ID, "test")
		return err
	})
	if got := ids(q.due()); len(got) != 0 {
		t.Fatalf("due are %v of a stopped account", got)
	}
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		return tx.SetAccountMode(ctx, q.account.ID, simwarden.ModeObserve)
	})
	if got, want := ids(q.due()), []simwarden.CommandID{waits, held}; !slices.Equal(got, want) {
		t.Errorf("due are %v, want %v: they end as observed, whatever they waited for; what was sent is not touched", got, want)
	}
}

func TestAStepThatNobodyFinishedIsAnybodysAgain(t *testing.T) {
	q := newQueue(t)
	id := q.add(q.account, simwarden.ScenePlanLapsed, 80)
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		c, ok, err := tx.LockDueCommand(ctx, id)
		if err != nil || !ok {
			return fmt.Errorf("claim: %v, %w", ok, err)
		}
		_, err = tx.ClaimStep(ctx, c, "a", tx.At.Add(time.Minute))
		return err
	})
	if due := q.due(); len(due) != 0 {
		t.Errorf("a claimed step is due: %v", due)
	}
	q.clock.Advance(time.Minute)
	if due := q.due(); len(due) != 1 {
		t.Error("a step whose claim ran out is lost")
	}
	c, ok := q.send(id, "b")
	if !ok {
		t.Fatal("it cannot be claimed")
	}
	q.clock.Advance(45*time.Second + time.Millisecond)
	if due := q.due(); len(due) != 0 {
		t.Error("a send whose claim ran out is due again: it may have been carried out (C6)")
	}
	expired, err := q.store.ExpiredSends(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	if len(expired) != 1 || expired[0].ID != c.ID {
		t.Errorf("expired are %v", expired)
	}
}

func TestAttemptsNeverSentLeaveOneRowAndUseUpNoBudget(t *testing.T) {
	q := newQueue(t)
	id := q.add(q.account, simwarden.ScenePlanLapsed, 80)
	for range 3 {
		c, ok := q.send(id, "a")
		if !ok {
			t.Fatal("it cannot be claimed")
		}
		inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
			if err := tx.EndAttempt(ctx, c, store.AttemptEnd{Outcome: store.AttemptNotSent, Class: "limited"}); err != nil {
				return err
			}
			next := c
			next.State, next.RunAt = simwarden.CommandQueued, tx.At
			_, err := tx.MoveCommand(ctx, c, next)
			return err
		})
	}
	var n int
	if err := q.pool.QueryRow(t.Context(), `SELECT count(*) FROM attempt`).Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 1 {
		t.Errorf("%d rows for calls that our own limit held back, want 1", n)
	}
	c, _ := q.send(id, "a")
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		sent, err := tx.SentAt(ctx, c.SIMID, tx.At.Add(-time.Hour))
		if len(sent) != 1 {
			t.Errorf("%d changes count, want the one under way (C11)", len(sent))
		}
		return err
	})
}
