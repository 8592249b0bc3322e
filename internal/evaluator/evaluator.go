// Package evaluator works off evaluation requests, each with its scene, and judges the whole fleet
// again and again, spread over an interval, so that nothing that was missed stays so.
package evaluator

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// Evaluator judges what others asked to be judged. Several nodes may run it.
type Evaluator struct {
	Store *store.Store
	Clock clock.Clock
	Log   *slog.Logger
	// Holder names this node in leases.
	Holder string
	// Interval is how long one periodic pass over the fleet takes; zero: DefaultInterval.
	Interval time.Duration
	// LookEvery is the pause between two looks for work; zero: 200 ms for requests, a second for the
	// periodic pass.
	LookEvery time.Duration
}

// lookEvery gives the pause between two looks, or byDefault.
func (e *Evaluator) lookEvery(byDefault time.Duration) time.Duration {
	if e.LookEvery > 0 {
		return e.LookEvery
	}
	return byDefault
}

var (
	pointBefore = fault.Register("evaluate.before")
	pointIn     = fault.Register("evaluate.in")
	pointAfter  = fault.Register("evaluate.after")
)

const (
	batch      = 100
	pollEvery  = 200 * time.Millisecond
	maxTries   = 3
	setAside   = time.Hour
	retryAfter = 10 * time.Second
	// maxDeviceSIMs bounds how many SIMs one device's request judges in a transaction.
	maxDeviceSIMs = 1000
)

// Run works requests off until ctx ends; errors are logged and tried again.
func (e *Evaluator) Run(ctx context.Context) error {
	for {
		n, err := e.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			e.Log.Error("work off evaluation requests", "error", err)
		case n > 0:
			continue
		}
		if err := e.Clock.Sleep(ctx, e.lookEvery(pollEvery)); err != nil {
			return nil
		}
	}
}

// Step works off one batch of due requests; it gives how many. Where the batch fails as a whole, and
// not for want of a database, each is tried alone, so that one bad row holds up no other (F5, F16).
func (e *Evaluator) Step(ctx context.Context) (int, error) {
	pointBefore.Hit()
	taken, err := e.work(ctx, batch)
	if err == nil {
		if len(taken) > 0 {
			pointAfter.Hit()
		}
		return len(taken), nil
	}
	if ctx.Err() != nil || store.IsUnavailable(err) {
		return 0, err
	}
	return e.oneByOne(ctx, err)
}

// work works off up to limit requests in one transaction, and gives those that it took, also where
// that failed. A panic is an error like another.
func (e *Evaluator) work(ctx context.Context, limit int) (taken []store.Evaluation, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	err = e.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if taken, err = tx.TakeEvaluations(ctx, limit); err != nil || len(taken) == 0 {
			return err
		}
		pointIn.Hit()
		return judge(ctx, tx, taken)
	})
	return taken, err
}

// judge judges the SIMs of the requests. A SIM that several ask for is judged for each in turn,
// since their scenes differ; a request that has to wait for a command under way keeps its place.
func judge(ctx context.Context, tx *store.Tx, requests []store.Evaluation) error {
	b := rounds{of: map[simwarden.SIMID]int{}}
	for _, r := range requests {
		if r.DeviceID == 0 {
			b.add(r, r.SIMID)
			continue
		}
		sims, err := tx.SIMsOfDevice(ctx, r.DeviceID)
		if err != nil {
			return err
		}
		now := min(len(sims), maxDeviceSIMs)
		for _, sim := range sims[:now] {
			b.add(r, sim)
		}
		// More than fit a transaction are each asked for by a request of their own.
		rest := make([]store.Evaluation, 0, len(sims)-now)
		for _, sim := range sims[now:] {
			rest = append(rest, store.Evaluation{SIMID: sim, Scene: r.Scene, Cause: r.Cause, SubscriptionID: r.SubscriptionID, AskedBy: r.AskedBy})
		}
		if err := tx.RequestEvaluations(ctx, rest, nil); err != nil {
			return err
		}
	}
	orders := map[asked]rules.Ordered{}
	for _, round := range b.list {
		outcomes, err := reconcile.SIMs(ctx, tx, round.items)
		if err != nil {
			return err
		}
		for _, o := range outcomes {
			orders[asked{round.by[o.SIMID], o.SIMID}] = o.Ordered
		}
	}
	for _, r := range requests {
		if err := settle(ctx, tx, r, orders[asked{r.ID, r.SIMID}]); err != nil {
			return err
		}
	}
	return nil
}

// asked is one request's say about one SIM.
type asked struct {
	request simwarden.EvaluationID
	sim     simwarden.SIMID
}

// round is a set of items with each SIM at most once.
type round struct {
	items []reconcile.Item
	by    map[simwarden.SIMID]simwarden.EvaluationID
}

type rounds struct {
	list []*round
	of   map[simwarden.SIMID]int
}

func (b *rounds) add(r store.Evaluation, sim simwarden.SIMID) {
	i := b.of[sim]
	b.of[sim]++
	if i == len(b.list) {
		b.list = append(b.list, &round{by: map[simwarden.SIMID]simwarden.EvaluationID{}})
	}
	b.list[i].by[sim] = r.ID
	b.list[i].items = append(b.list[i].items, reconcile.Item{
		SIMID: sim, Scene: r.Scene, SubscriptionID: r.SubscriptionID, AskedBy: r.AskedBy, Manual: r.Manual, Cause: r.Cause,
		Requested: r.DeviceID == 0,
	})
}

func settle(ctx context.Context, tx *store.Tx, r store.Evaluation, o rules.Ordered) error {
	switch {
	case r.DeviceID != 0:
		return tx.FinishEvaluation(ctx, r.ID, "judged its SIMs")
	case o.Action == rules.OrderWait:
		return tx.PutOffEvaluation(ctx, r.ID, tx.At.Add(reconcile.WaitForCommand), false)
	}
	return tx.FinishEvaluation(ctx, r.ID, fmt.Sprintf("%s %s", o.Action, o.Because))
}

// oneByOne works a failing batch off row by row; a row that fails is put off, and set aside with
// an alert after its third failure.
func (e *Evaluator) oneByOne(ctx context.Context, cause error) (int, error) {
	e.Log.Warn("evaluation batch failed, trying its requests one by one", "error", cause)
	done := 0
	for range batch {
		taken, err := e.work(ctx, 1)
		switch {
		case ctx.Err() != nil:
			return done, ctx.Err()
		case err != nil && (store.IsUnavailable(err) || len(taken) == 0):
			return done, err
		case err != nil:
			if err := e.putOff(ctx, taken[0], err); err != nil {
				return done, err
			}
		case len(taken) == 0:
			return done, nil
		}
		done += len(taken)
	}
	return done, nil
}

// putOff lets the request that failed wait.
func (e *Evaluator) putOff(ctx context.Context, r store.Evaluation, cause error) error {
	return e.Store.InTx(ctx, func(tx *store.Tx) error {
		if r.Tries+1 < maxTries {
			return tx.PutOffEvaluation(ctx, r.ID, tx.At.Add(retryAfter), true)
		}
		e.Log.Error("evaluation request set aside", "evaluation", r.ID, "sim", r.SIMID, "error", cause)
		if err := tx.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: "evaluation:" + strconv.FormatInt(int64(r.ID), 10), SIMID: r.SIMID,
			Message: fmt.Sprintf("evaluation request %d (scene %s) failed %d times and waits an hour; see the log", r.ID, r.Scene, r.Tries+1)}); err != nil {
			return err
		}
		return tx.PutOffEvaluation(ctx, r.ID, tx.At.Add(setAside), true)
	})
}
