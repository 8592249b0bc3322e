package app

import (
	"context"
	"time"

	"github.com/simwarden/simwarden/internal/api"
)

const (
	// keepCallStats is how long the statistics of calls are kept: the longest month, and some days to
	// look at it (G9).
	keepCallStats = 35 * 24 * time.Hour
	// keepNudges is how long a nudge waits for a node that polls its account.
	keepNudges = 24 * time.Hour

	// pruneBatch is how many rows one statement deletes, pruneBatches how many of them at a time; what
	// is left then goes an hour later.
	pruneBatch   = 10_000
	pruneBatches = 100
)

// prune deletes what has been kept long enough.
func (a *App) prune(ctx context.Context) error {
	now := a.cfg.Store.Now()
	if err := inBatches(ctx, now.Add(-keepCallStats), a.cfg.Store.DropCallStats); err != nil {
		return err
	}
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
