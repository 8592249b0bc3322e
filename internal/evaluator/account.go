package evaluator

import (
	"context"
	"fmt"
	"strconv"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

const accountBatch = 200

var (
	pointAccountBefore = fault.Register("account_evaluation.before")
	pointAccountIn     = fault.Register("account_evaluation.in")
	pointAccountAfter  = fault.Register("account_evaluation.after")
)

// RunAccounts judges all SIMs of the accounts and pools for which that was asked, as when an account's
// real-name policy has changed (S19), it goes to act (C9), its brake is
// released (C10) or a pool is used up (L6), until ctx ends; errors are logged and tried again. Several nodes may run it. How far it has come is kept with each batch, so that a node goes on where another died.
func (e *Evaluator) RunAccounts(ctx context.Context) error {
	for {
		n, err := e.StepAccount(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			e.Log.Error("judge the SIMs of an account", "error", err)
		case n > 0:
			continue
		}
		if err := e.Clock.Sleep(ctx, e.lookEvery(pollEvery)); err != nil {
			return nil
		}
	}
}

// StepAccount judges one batch of SIMs of the oldest account's or pool's evaluation; it gives how many, at least
// one where one was found at all.
func (e *Evaluator) StepAccount(ctx context.Context) (int, error) {
	pointAccountBefore.Hit()
	n, err := e.accountBatch(ctx, accountBatch)
	if err == nil {
		if n > 0 {
			pointAccountAfter.Hit()
		}
		return n, nil
	}
	if ctx.Err() != nil || store.IsUnavailable(err) {
		return 0, err
	}
	// One bad row must not hold up the others (F5, F16): one at a time, and the bad one is passed over.
	e.Log.Warn("a batch of an account's SIMs failed, trying them one by one", "error", err)
	done := 0
	for range accountBatch {
		n, err := e.accountBatch(ctx, 1)
		if err != nil && ctx.Err() == nil && !store.IsUnavailable(err) {
			n, err = 1, e.passOver(ctx, err)
		}
		if err != nil || n == 0 {
			return done, err
		}
		done += n
	}
	return done, nil
}

// accountBatch judges up to limit SIMs and moves the cursor in one transaction. A panic is an error
// like another.
func (e *Evaluator) accountBatch(ctx context.Context, limit int) (n int, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	err = e.Store.InTx(ctx, func(tx *store.Tx) error {
		n = 0
		job, ok, err := tx.TakeAccountEvaluation(ctx)
		if err != nil || !ok {
			return err
		}
		ids, cursor, err := tx.SIMsToJudge(ctx, job, limit)
		if err != nil {
			return err
		}
		n = max(len(ids), 1)
		if cursor == job.Cursor {
			return tx.FinishAccountEvaluation(ctx, job.ID)
		}
		pointAccountIn.Hit()
		items := accountItems(job, ids)
		if job.AccountID != 0 && job.Scene == simwarden.ScenePeriodic { // it may act now
			lapses, err := tx.TakeObservedLapses(ctx, ids)
			if err != nil {
				return err
			}
			for i := range items {
				if l, ok := lapses[items[i].SIMID]; ok {
					items[i].Observed = &l
				}
			}
		}
		outcomes, err := reconcile.SIMs(ctx, tx, items)
		if err != nil {
			return err
		}
		return tx.MoveAccountEvaluation(ctx, job.ID, cursor, len(ids), ordered(outcomes))
	})
	return n, err
}

func accountItems(job store.AccountEvaluation, ids []simwarden.SIMID) []reconcile.Item {
	cause := store.Cause{Kind: store.CauseAccount, ID: int64(job.AccountID)}
	if job.PoolID != 0 {
		cause = store.Cause{Kind: store.CausePool, ID: int64(job.PoolID)}
	}
	items := make([]reconcile.Item, len(ids))
	for i, id := range ids {
		items[i] = reconcile.Item{SIMID: id, Scene: job.Scene, AskedBy: job.AskedBy, Cause: cause}
	}
	return items
}

func ordered(outcomes []reconcile.Outcome) int {
	n := 0
	for _, o := range outcomes {
		if o.Ordered.Action == rules.OrderOpen || o.Ordered.Action == rules.OrderReplace {
			n++
		}
	}
	return n
}

// passOver moves the cursor past the SIM that cannot be judged, with an alert.
func (e *Evaluator) passOver(ctx context.Context, cause error) error {
	return e.Store.InTx(ctx, func(tx *store.Tx) error {
		job, ok, err := tx.TakeAccountEvaluation(ctx)
		if err != nil || !ok {
			return err
		}
		ids, cursor, err := tx.SIMsToJudge(ctx, job, 1)
		if err != nil || cursor == job.Cursor {
			return err
		}
		for _, id := range ids { // one, or all of a device that is in a pool
			e.Log.Error("the evaluation of an account or pool passes over a SIM", "sim", id, "error", cause)
			if err := tx.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: "account_evaluation:" + strconv.FormatInt(int64(id), 10), SIMID: id,
				AccountID: job.AccountID, Message: fmt.Sprintf("this SIM could not be judged in scene %s, which goes on with the others: %v", job.Scene, cause)}); err != nil {
				return err
			}
		}
		return tx.MoveAccountEvaluation(ctx, job.ID, cursor, len(ids), 0)
	})
}
