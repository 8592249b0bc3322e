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
	// renewedFor is for how long after a change was refused for its token the next refusal of a change
	// says that the token is not to blame: longer than an attempt waits for the one after it.
	renewedFor = time.Hour
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

// renewed says whether a change has been refused for its token lately, so that its driver has got another,
// and none was taken since: a call that begins now and is refused again is not refused for its token's age
// (G8). Reads in between that are answered prove nothing: they may be all that is allowed.
func (a *account) renewed() bool {
	at := a.tokenRefusedAt.Load()
	return at != 0 && a.gateway.clock.Now().Sub(time.Unix(0, at)) < renewedFor
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
