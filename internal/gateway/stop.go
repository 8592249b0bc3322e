package gateway

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// stoppedWait is how soon to look again whether a stopped account goes on.
	stoppedWait = time.Minute
	// saveBound is how long the stop may take to be written.
	saveBound = 5 * time.Second
)

// admit says whether an account may be called now: settle takes what became of the call, or held
// says why not.
func (a *account) admit(call Call) (settle func(result), held *carrier.Error) {
	if err := a.held(call.Operation); err != nil {
		return nil, err
	}
	settle, wait, ok := a.breaker.allow()
	if !ok {
		return nil, &carrier.Error{Account: a.id, Operation: call.Operation, Class: carrier.ClassStopped, NotSent: true, RetryAfter: wait,
			Message: "the carrier keeps failing: it is given a rest and then probed"}
	}
	return settle, nil
}

// held is the error of an account that is stopped, nil for one that is not.
func (a *account) held(op simwarden.Operation) *carrier.Error {
	s := a.stopped.Load()
	if s == nil {
		return nil
	}
	return &carrier.Error{Account: a.id, Operation: op, Class: carrier.ClassStopped, NotSent: true, RetryAfter: stoppedWait,
		Message: "the account's calls are stopped: " + s.because}
}

// stop stops the account's calls at once, here and, through the database, on all nodes, and
// raises an alert: carriers lock accounts that go on with wrong credentials (G8).
func (g *Gateway) stop(ctx context.Context, a *account, e *carrier.Error) {
	s := &stopped{because: "the carrier refuses the credentials (" + e.Error() + ")", unsaved: true}
	if !a.stopped.CompareAndSwap(nil, s) {
		return
	}
	a.stops.Add(1)
	g.log.Warn("gateway: account stopped", "account", a.row.Load().Name, "because", s.because)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveBound)
	defer cancel()
	if err := g.persistStop(ctx, a, s); err != nil {
		g.log.Error("gateway: the stop of an account could not be written yet", "account", a.row.Load().Name, "error", err)
	}
}

// persistStops writes the stops that could not be written when they were made.
func (g *Gateway) persistStops(ctx context.Context) {
	for _, a := range g.all() {
		if s := a.stopped.Load(); s != nil && s.unsaved {
			if err := g.persistStop(ctx, a, s); err != nil {
				g.log.Error("gateway: the stop of an account could not be written yet", "account", a.row.Load().Name, "error", err)
			}
		}
	}
}

func (g *Gateway) persistStop(ctx context.Context, a *account, s *stopped) error {
	err := g.store.InTx(ctx, func(tx *store.Tx) error {
		first, err := tx.StopAccount(ctx, a.id, s.because)
		if err != nil || !first {
			return err
		}
		return tx.Raise(ctx, store.Alert{Kind: store.AlertAuth, Key: fmt.Sprintf("%s:%d", store.AlertAuth, a.id), AccountID: a.id,
			Message: "calls of account " + a.row.Load().Name + " are stopped: " + s.because})
	})
	if err != nil {
		return err
	}
	a.stops.Add(1) // a reading begun before the commit does not know of it
	a.stopped.CompareAndSwap(s, &stopped{because: s.because})
	return nil
}
