package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden/internal/clock"
)

// clockWatch notices steps of this machine's clock: between two looks the time of day must have moved
// as far as the monotonic reading. A clock without one, as a test's, never steps for it.
type clockWatch struct {
	bound time.Duration
	// read gives the time of day, and what has passed by the monotonic reading.
	read func() (time.Time, time.Duration)

	mu     sync.Mutex
	last   time.Time
	passed time.Duration
	step   time.Duration // found, and not yet told to the database
}

func newClockWatch(c clock.Clock, bound time.Duration) *clockWatch {
	start := c.Now()
	w := &clockWatch{bound: bound, read: func() (time.Time, time.Duration) {
		now := c.Now()
		return now.Round(0), now.Sub(start)
	}}
	w.look()
	return w
}

// look gives the step that is to be told; zero: none.
func (w *clockWatch) look() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	now, passed := w.read()
	if !w.last.IsZero() {
		if step := now.Sub(w.last) - (passed - w.passed); step.Abs() > w.bound {
			w.step = step
		}
	}
	w.last, w.passed = now, passed
	return w.step
}

func (w *clockWatch) told() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step = 0
}

// ClockHolds says why the time is not to be trusted, empty where it is: a clock guard is open, or the
// transaction's instant and the database's clock are further apart than Options.ClockBound, or this
// machine's clock has stepped by more. The latter two open the guard, in a transaction of its own, so
// that it stays whatever becomes of this one (C10, V13).
func (tx *Tx) ClockHolds(ctx context.Context) (string, error) {
	var because string
	var now time.Time
	err := tx.QueryRow(ctx, `SELECT app_now(), coalesce((SELECT because FROM guard WHERE kind = 'clock' AND released_at IS NULL), '')`).Scan(&now, &because)
	if err != nil {
		return "", fmt.Errorf("clock guard: %w", err)
	}
	if because != "" || tx.store.watch.bound <= 0 {
		return because, nil
	}
	step, apart := tx.store.watch.look(), tx.At.Sub(now)
	switch {
	case step != 0:
		because = fmt.Sprintf("the clock of a node has stepped by %s", step.Round(time.Second))
	case apart.Abs() > tx.store.watch.bound:
		because = fmt.Sprintf("the clocks of a node and of the database are %s apart", apart.Abs().Round(time.Second))
	default:
		return "", nil
	}
	if err := tx.store.openClockGuard(ctx, because); err != nil {
		return "", err
	}
	tx.store.watch.told()
	return because, nil
}

func (s *Store) openClockGuard(ctx context.Context, because string) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := (&Tx{Tx: tx, At: s.Now(), store: s}).openGuard(ctx, GuardClock, 0, because, "no plan lapses and nothing is suspended automatically")
		return err
	})
}
