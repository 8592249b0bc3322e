package evaluator

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

const bulkBatch = 100

var (
	pointBulkBefore = fault.Register("bulk.before")
	pointBulkIn     = fault.Register("bulk.in")
	pointBulkAfter  = fault.Register("bulk.after")
)

// RunBulk works bulk actions off, one after another in the order in which they were asked for, until
// ctx ends; errors are logged and tried again. Several nodes may run it. Each SIM's result is written
// in the transaction that acts on it, so that a node goes on where another died, and none is acted on
// twice (F53).
func (e *Evaluator) RunBulk(ctx context.Context) error {
	for {
		n, err := e.StepBulk(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			e.Log.Error("work off a bulk action", "error", err)
		case n > 0:
			continue
		}
		if err := e.Clock.Sleep(ctx, e.lookEvery(pollEvery)); err != nil {
			return nil
		}
	}
}

// StepBulk acts on one batch of SIMs of the oldest bulk action; it gives how many, at least one where
// an action was found at all.
func (e *Evaluator) StepBulk(ctx context.Context) (int, error) {
	pointBulkBefore.Hit()
	n, err := e.bulkBatch(ctx, bulkBatch)
	if err == nil {
		if n > 0 {
			pointBulkAfter.Hit()
		}
		return n, nil
	}
	if ctx.Err() != nil || store.IsUnavailable(err) {
		return 0, err
	}
	// One bad row must not hold up the others (F5, F16): one at a time, and the bad one has failed.
	e.Log.Warn("a batch of a bulk action failed, trying its SIMs one by one", "error", err)
	done := 0
	for range bulkBatch {
		n, err := e.bulkBatch(ctx, 1)
		if err != nil && ctx.Err() == nil && !store.IsUnavailable(err) {
			n, err = 1, e.failBulkItem(ctx, err)
		}
		if err != nil || n == 0 {
			return done, err
		}
		done += n
	}
	return done, nil
}

// bulkBatch acts on up to limit SIMs in one transaction. A panic is an error like another.
func (e *Evaluator) bulkBatch(ctx context.Context, limit int) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	err = e.Store.InTx(ctx, func(tx *store.Tx) error {
		n = 0
		b, ok, err := tx.TakeBulk(ctx)
		if err != nil || !ok {
			return err
		}
		sims, err := tx.OpenBulkItems(ctx, b.ID, limit)
		if err != nil {
			return err
		}
		n = max(len(sims), 1)
		if len(sims) == 0 {
			return tx.FinishBulk(ctx, b.ID)
		}
		results, err := reconcile.Bulk(ctx, tx, b, sims)
		if err != nil {
			return err
		}
		if err := tx.EndBulkItems(ctx, b.ID, results); err != nil {
			return err
		}
		pointBulkIn.Hit()
		return nil
	})
	return n, err
}

// failBulkItem says of the next SIM that it could not be acted on.
func (e *Evaluator) failBulkItem(ctx context.Context, cause error) error {
	return e.Store.InTx(ctx, func(tx *store.Tx) error {
		b, ok, err := tx.TakeBulk(ctx)
		if err != nil || !ok {
			return err
		}
		sims, err := tx.OpenBulkItems(ctx, b.ID, 1)
		if err != nil || len(sims) == 0 {
			return err
		}
		e.Log.Error("a bulk action passes over a SIM", "bulk", b.ID, "sim", sims[0], "error", cause)
		return tx.EndBulkItems(ctx, b.ID, []store.BulkResult{{SIMID: sims[0], Outcome: store.BulkFailed, Because: cause.Error()}})
	})
}
