package app

import (
	"context"
	"errors"
	"time"

	"github.com/simwarden/simwarden/internal/api"
)

const (
	// keepNudges is how long a nudge waits for a node that polls its account.
	keepNudges = 24 * time.Hour

	// pruneBatch is how many rows one statement deletes, pruneBatches how many of them at a time; what
	// is left then goes an hour later.
	pruneBatch   = 10_000
	pruneBatches = 100
)

// retentionLease is the right to delete what has been kept for long enough, and retentionFor how long it
// stays a node's that is stopped.
const (
	retentionLease = "retention"
	retentionFor   = 5 * time.Minute
)

// retain deletes once a day what has been kept for as long as the settings say; one node does (R1, U5).
func (a *App) retain(ctx context.Context) error {
	now := a.cfg.Store.Now()
	due, err := a.cfg.Store.RetentionDue(ctx, now)
	if err != nil || !due {
		return err
	}
	lease, ok, err := a.cfg.Store.TakeLease(ctx, retentionLease, a.cfg.Holder, retentionFor)
	if err != nil || !ok {
		return err
	}
	held := func() bool {
		l, ok, err := a.cfg.Store.TakeLease(ctx, retentionLease, a.cfg.Holder, retentionFor)
		return err == nil && ok && l.Epoch == lease.Epoch
	}
	run, err := a.cfg.Store.Retain(ctx, now, pruneBatches, held)
	if len(run.Dropped) > 0 {
		a.cfg.Log.Info("deleted what was kept for long enough", "rows", run.Dropped)
	}
	return errors.Join(err, a.cfg.Store.GiveLease(ctx, lease))
}

// prune deletes what nobody waits for any more.
func (a *App) prune(ctx context.Context) error {
	now := a.cfg.Store.Now()
	if err := inBatches(ctx, now.Add(-api.KeepAnswers), a.cfg.Store.DropKeptAnswers); err != nil {
		return err
	}
	return inBatches(ctx, now.Add(-keepNudges), a.cfg.Store.DropNudges)
}

func inBatches(ctx context.Context, before time.Time, drop func(context.Context, time.Time, int) (int64, error)) error {
	for range pruneBatches {
		if n, err := drop(ctx, before, pruneBatch); err != nil || n < pruneBatch {
			return err
		}
	}
	return nil
}
