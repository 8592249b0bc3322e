package faults_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

const anna = "cli:anna"

// deed is something that a person does.
type deed struct {
	name string
	do   func(w *world, c card) error
}

var deeds = []deed{
	{"pauses polling of", func(w *world, c card) error { return w.pause(c) }},
	{"takes up polling of", func(w *world, c card) error { return w.takeUp(c) }},
	{"suspends", func(w *world, c card) error { return w.manual(c, simwarden.DirectionSuspend) }},
	{"resumes", func(w *world, c card) error { return w.manual(c, simwarden.DirectionResume) }},
	{"buys a plan for", func(w *world, c card) error { return w.buy(c, 2*time.Minute, 0) }},
	{"buys a plan that is soon over for", func(w *world, c card) error { return w.buy(c, moment, 0) }},
	{"orders many SIMs with", func(w *world, _ card) error { return w.orderMany() }},
	{"refunds a plan", func(w *world, _ card) error { return w.refund() }},
	{"buys data on top for", func(w *world, c card) error { return w.topUp(c) }},
	{"uses data with", func(_ *world, c card) error { return c.carrier.AddUsage(c.iccid, allowanceBytes*3/4) }},
	{"changes the real-name policy of the account of", func(w *world, _ card) error { return w.flipRealName() }},
	{"releases all that holds", func(w *world, _ card) error { return w.release() }},
}

// interfere has people do something or other until the context ends.
func (w *world) interfere(ctx context.Context) {
	for {
		if err := clock.System().Sleep(ctx, between(w.random, 3*time.Second, 15*time.Second)); err != nil {
			return
		}
		w.doAny()
	}
}

func (w *world) doAny() {
	all := slices.Concat(deeds, moreDeeds)
	d, c := all[w.random.IntN(len(all))], w.sims[w.random.IntN(len(w.sims))]
	w.trace.note("a person %s SIM %d (%s)", d.name, c.id, c.iccid)
	if err := d.do(w, c); err != nil && !errors.Is(err, plans.ErrEndedAlready) {
		w.failf("a person %s SIM %d: %v", d.name, c.id, err)
	}
}

// stir brings about that nodes come by the point.
func (w *world) stir(point string) {
	c, other := w.sims[w.random.IntN(len(w.sims))], w.sims[w.random.IntN(len(w.sims))]
	var err error
	switch part, _, _ := strings.Cut(point, "."); part {
	case "lapse":
		if c, err = w.withoutPlan(c); err == nil {
			err = w.buy(c, moment, 0)
		}
	case "evaluate":
		err = errors.Join(w.pause(c), w.takeUp(c))
	case "bulk":
		err = w.orderMany()
	case "account_evaluation":
		err = w.flipRealName()
	default:
		err = errors.Join(w.flip(c), w.flip(other))
	}
	if err != nil {
		w.failf("stir for %s: %v", point, err)
	}
}

func (w *world) pause(c card) error {
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, c.id, anna, "test")
		return err
	})
}

func (w *world) takeUp(c card) error {
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.ResumePolling(ctx, tx, c.id, anna, "test")
		return err
	})
}

func (w *world) manual(c card, d simwarden.Direction) error {
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Manual(ctx, tx, c.id, d, anna, "test")
		return err
	})
}

// flip orders by hand the state that the SIM is not in.
func (w *world) flip(c card) error {
	if truth, ok := c.carrier.SIM(c.iccid); ok && truth.State == simwarden.StateSuspended {
		return w.manual(c, simwarden.DirectionResume)
	}
	return w.manual(c, simwarden.DirectionSuspend)
}

// withoutPlan gives a SIM that no main plan is in force for or queued, or else the one given.
func (w *world) withoutPlan(or card) (card, error) {
	var ids []simwarden.SIMID
	err := w.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM sim s WHERE device_id IS NULL AND NOT EXISTS (SELECT FROM subscription b
			WHERE b.sim_id = s.id AND b.kind = 'main' AND b.state IN ('queued', 'active', 'exhausted'))`).Scan(&ids)
	})
	if err != nil || len(ids) == 0 {
		return or, err
	}
	id := ids[w.random.IntN(len(ids))]
	return w.sims[slices.IndexFunc(w.sims, func(c card) bool { return c.id == id })], nil
}

// orderMany suspends or resumes some SIMs in one action (C8).
func (w *world) orderMany() error {
	var ids []simwarden.SIMID
	for range 4 {
		ids = append(ids, w.sims[w.random.IntN(len(w.sims))].id)
	}
	slices.Sort(ids)
	direction := simwarden.DirectionSuspend
	if w.random.IntN(2) == 0 {
		direction = simwarden.DirectionResume
	}
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddBulk(ctx, store.BulkAction{Direction: direction, Reason: "test", Actor: anna}, slices.Compact(ids))
		return err
	})
}

// refund takes one of the plans in force back.
func (w *world) refund() error {
	var ids []simwarden.SubscriptionID
	if err := w.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `SELECT coalesce(array_agg(id ORDER BY id), '{}') FROM subscription WHERE state IN ('active', 'exhausted')`).Scan(&ids)
	}); err != nil || len(ids) == 0 {
		return err
	}
	id := ids[w.random.IntN(len(ids))]
	return w.tx(func(ctx context.Context, tx *store.Tx) error { return plans.Refund(ctx, tx, id, anna, "test") })
}

func (w *world) topUp(c card) error {
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: c.asset(), Plan: w.addon, By: "test"})
		return err
	})
}

func (w *world) flipRealName() error {
	a, err := w.store.Account(w.ctx, w.accounts[w.random.IntN(len(w.accounts))].ID)
	if err != nil {
		return err
	}
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		if err := tx.RequestAccountEvaluation(ctx, a.ID, simwarden.SceneRealNamePolicyChanged, anna); err != nil {
			return err
		}
		return tx.SetRealNameRequired(ctx, a.ID, !a.RealNameRequired)
	})
}

// release releases brakes, guards and accounts that were stopped for their credentials.
func (w *world) release() error {
	list, err := w.store.Accounts(w.ctx)
	if err != nil {
		return err
	}
	for _, a := range list {
		if a.BrakedAt.IsZero() && a.StoppedAt.IsZero() {
			continue
		}
		if err := w.tx(func(ctx context.Context, tx *store.Tx) error {
			return errors.Join(tx.RequestAccountEvaluation(ctx, a.ID, simwarden.ScenePeriodic, anna), tx.ReleaseBrake(ctx, a.ID), tx.StartAccount(ctx, a.ID))
		}); err != nil {
			return err
		}
	}
	open, err := w.store.Guards(w.ctx, true, 100)
	if err != nil {
		return err
	}
	for _, g := range open {
		if err := w.tx(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.ReleaseGuard(ctx, g.ID, anna, "test")
			return err
		}); err != nil {
			return err
		}
	}
	return nil
}
