package api

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// ReleaseBrake lets an account's automatic suspends go on (C10), and clears its alert. It says
// whether the brake was on.
func (s *Service) ReleaseBrake(ctx context.Context, name, actor, reason string) (a store.Account, was bool, err error) {
	return s.lift(ctx, name, actor, "brake_release", reason, "brake", func(a store.Account) bool { return !a.BrakedAt.IsZero() },
		(*store.Tx).ReleaseBrake)
}

// StartAccount lets the calls of an account that was stopped for its credentials go on (G8), and
// clears its alert. It says whether they were stopped.
func (s *Service) StartAccount(ctx context.Context, name, actor, reason string) (a store.Account, was bool, err error) {
	return s.lift(ctx, name, actor, "account_start", reason, store.AlertAuth, func(a store.Account) bool { return !a.StoppedAt.IsZero() },
		(*store.Tx).StartAccount)
}

// keepCount leaves the count of active SIMs that goes with an account's lock as it is.
const keepCount = 100 * 365 * 24 * time.Hour

// lift takes back what holds an account, where on says that it is held.
func (s *Service) lift(ctx context.Context, name, actor, action, reason, alert string, on func(store.Account) bool,
	do func(*store.Tx, context.Context, simwarden.AccountID) error,
) (a store.Account, was bool, err error) {
	if err = checkReason(reason); err != nil {
		return a, false, err
	}
	if a, err = s.Store.AccountByName(ctx, name); err != nil {
		return a, false, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if on(a) { // what was held has no command: it is judged at once. The request's lock comes before the account's.
			if err := tx.RequestAccountEvaluation(ctx, a.ID, simwarden.ScenePeriodic, actor); err != nil {
				return err
			}
		}
		locked, _, err := tx.LockAccount(ctx, a.ID, keepCount)
		if err != nil {
			return err
		}
		if was = on(locked); !was {
			return nil
		}
		if err := do(tx, ctx, a.ID); err != nil {
			return err
		}
		if err := tx.ClearAlert(ctx, fmt.Sprintf("%s:%d", alert, a.ID), actor); err != nil {
			return err
		}
		return s.tellChange(ctx, tx, a.ID, actor, action, map[string]any{"reason": reason})
	})
	if err != nil {
		return a, false, err
	}
	a, err = s.Store.Account(ctx, a.ID)
	return a, was, err
}
