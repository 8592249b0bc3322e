// Package commander carries commands out: it claims those that are due, judges each afresh, sends
// one request an attempt, and follows what may be at the carrier until the SIM's state shows it.
//
// A step of a command is a short transaction that claims it, one call to the carrier with no
// transaction open, and a short transaction that writes what came of it, each only while the claim
// holds. A worker that dies leaves a claim that runs out: a read is then anybody's again, a sent
// request becomes one whose outcome is unknown (C6).
package commander

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// Gateway is the one way out to carriers. Errors are *carrier.Error, classified.
type Gateway interface {
	Do(ctx context.Context, account simwarden.AccountID, call gateway.Call, do func(context.Context, carrier.Conn) error) error
	Can(ctx context.Context, account simwarden.AccountID, what gateway.Capability) (bool, error)
}

// Options say how to carry commands out. Zero durations and counts take the defaults named.
type Options struct {
	Store   *store.Store
	Gateway Gateway
	Clock   clock.Clock
	Log     *slog.Logger
	// Holder names this process in claims.
	Holder  string
	Backoff rules.BackoffPolicy // zero: rules.DefaultBackoff
	Rest    rules.RestPolicy    // zero: rules.DefaultRest
	// Settle is the least time after the last instant at which a request could have been executed
	// before a read that shows no change is believed (V4); a driver may ask for more. Zero: 5 s.
	Settle time.Duration
	// CommandTimeout bounds one request from its claim on (30 s); ClaimMargin is how much longer
	// the claim lasts, to write what came of it (15 s).
	CommandTimeout time.Duration
	ClaimMargin    time.Duration
	// ConfirmFor is how long a command that the carrier took may need to show (10 min), ConfirmEvery
	// the first pause between two looks (2 s).
	ConfirmFor   time.Duration
	ConfirmEvery time.Duration
	// GiveUpAfter is how long a state that cannot be read, or that stays half changed, is followed
	// before the command is failed (24 h).
	GiveUpAfter time.Duration
	// Workers is how many steps of one account run at a time (16). A dead account fills its own
	// workers and delays no other (P6).
	Workers int
	// PollEvery is how often due commands are looked for when nothing wakes earlier (250 ms).
	PollEvery time.Duration
	// SlotWait is how long a call may wait for its turn in the limit group (2 s).
	SlotWait time.Duration
	// Grace is how long calls under way may go on after Run's context has ended (15 s); what is not
	// over then becomes unknown (F8).
	Grace      time.Duration
	Registerer prometheus.Registerer
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Holder == "" {
		o.Holder = "commander"
	}
	if o.Backoff == (rules.BackoffPolicy{}) {
		o.Backoff = rules.DefaultBackoff()
	}
	if o.Rest == (rules.RestPolicy{}) {
		o.Rest = rules.DefaultRest()
	}
	for _, d := range []struct {
		value     *time.Duration
		byDefault time.Duration
	}{
		{&o.Settle, 5 * time.Second}, {&o.CommandTimeout, 30 * time.Second}, {&o.ClaimMargin, 15 * time.Second},
		{&o.ConfirmFor, 10 * time.Minute}, {&o.ConfirmEvery, 2 * time.Second}, {&o.GiveUpAfter, 24 * time.Hour},
		{&o.PollEvery, 250 * time.Millisecond}, {&o.SlotWait, 2 * time.Second}, {&o.Grace, 15 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.byDefault
		}
	}
	if o.Workers <= 0 {
		o.Workers = 16
	}
	return o
}

// Commander carries commands out. Several may run at a time, in one process or many.
type Commander struct {
	Options
	metrics *metrics
	row     rowTrouble
	// resolves remembers by driver name whether its connections look up a key of their own.
	resolves sync.Map
	forgotAt time.Time // when answers were last let go
}

// New makes a commander; it does nothing until Run or Step. The error is that of registering its
// metrics.
func New(o Options) (*Commander, error) {
	o = o.withDefaults()
	if o.Store == nil || o.Gateway == nil {
		return nil, errors.New("commander: a store and a gateway are needed")
	}
	m, err := newMetrics(o.Registerer)
	if err != nil {
		return nil, fmt.Errorf("commander: %w", err)
	}
	return &Commander{Options: o, metrics: m}, nil
}

const (
	// pollSpacing bounds how often a busy commander asks for due commands.
	pollSpacing = 20 * time.Millisecond
	// sweepEvery is how often expired claims are looked for.
	sweepEvery = time.Second
	// sweepBatch bounds what one sweep takes in hand.
	sweepBatch = 200
	// recordGrace is how long writing may go on after the calls have been cut off at the end.
	recordGrace = 5 * time.Second
)

// contexts are the lives of the two halves of a step: at the end of Run, calls are cut off first,
// and what came of them can still be written.
type contexts struct{ calls, records context.Context }

// Run carries commands out until the context ends. Then nothing new is claimed; steps under way may
// end, for Grace at most, after which their calls are cut off and their outcomes become unknown
// (F8). It returns nil then.
func (m *Commander) Run(ctx context.Context) error {
	calls, cutCalls := context.WithCancel(context.WithoutCancel(ctx))
	defer cutCalls()
	records, cutRecords := context.WithCancel(context.WithoutCancel(ctx))
	defer cutRecords()
	l := newLanes(m, contexts{calls, records})
	swept := time.Time{}
	for ctx.Err() == nil {
		if now := m.Clock.Now(); now.Sub(swept) >= sweepEvery || now.Before(swept) {
			swept = now
			m.sweep(ctx)
		}
		if err := l.fill(ctx); err != nil && ctx.Err() == nil {
			m.Log.ErrorContext(ctx, "look for due commands", "error", err)
		}
		l.wait(ctx)
	}
	l.drain(cutCalls, cutRecords)
	return nil
}

// Step runs one due step, or takes expired claims back, in the caller's goroutine; did is false
// where nothing was due. It is how tests drive a commander.
func (m *Commander) Step(ctx context.Context) (did bool, err error) {
	n, err := m.expire(ctx)
	if err != nil {
		return false, err
	}
	if err := m.Store.HoldWaiting(ctx, sweepBatch); err != nil {
		return false, err
	}
	if err := m.endRests(ctx); err != nil {
		return false, err
	}
	due, err := m.Store.DueSteps(ctx, m.Workers, nil)
	if err != nil {
		return n > 0, err
	}
	for _, d := range due {
		done, err := m.step(contexts{ctx, ctx}, d.ID)
		if done || err != nil {
			return true, err
		}
	}
	return n > 0, nil
}

func (m *Commander) sweep(ctx context.Context) {
	if _, err := m.expire(ctx); err != nil && ctx.Err() == nil {
		m.Log.ErrorContext(ctx, "take back expired claims", "error", err)
	}
	if err := m.Store.HoldWaiting(ctx, sweepBatch); err != nil && ctx.Err() == nil {
		m.Log.ErrorContext(ctx, "note what commands wait for", "error", err)
	}
	if err := m.endRests(ctx); err != nil && ctx.Err() == nil {
		m.Log.ErrorContext(ctx, "look after accounts at rest", "error", err)
	}
}

// step claims one command and takes its next step; false where there was nothing to claim. A panic
// is an error like another (F5).
func (m *Commander) step(ctx contexts, id simwarden.CommandID) (did bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			did, err = true, &panicError{value: p}
		}
		if did || err != nil {
			m.row.note(ctx.records, m, id, err)
		}
	}()
	t, err := m.claim(ctx.records, id)
	if err != nil || !t.claimed {
		return false, err
	}
	m.metrics.inFlight.Inc()
	defer m.metrics.inFlight.Dec()
	switch t.kind {
	case taskSend:
		err = m.send(ctx, t)
	case taskRead:
		err = m.read(ctx, t)
	}
	return true, err
}
