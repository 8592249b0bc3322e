// Package threshold keeps the data limits that carriers hold for SIMs equal to what their plans allow
// (P8): it reads what each account holds, sets what differs, and finds what was dropped or changed there.
// What is wanted is decided in package reconcile, with its cause.
//
// One node at a time works for an account, under a lease. It marks a limit before its request goes out, so
// that whoever takes over after a crash, or after an answer that did not come, reads first and then sets.
package threshold

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
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// The places at which a test may kill the process: a request may be out, and nobody has heard of it.
var (
	pointMarked   = fault.Register("carrier_limit.marked")
	pointAnswered = fault.Register("carrier_limit.answered")
)

// Gateway is the one way out to carriers. Errors are *carrier.Error, classified.
type Gateway interface {
	Do(ctx context.Context, account simwarden.AccountID, call gateway.Call, do func(context.Context, carrier.Conn) error) error
	Info(account simwarden.AccountID) (carrier.Info, error)
}

// Options say how to keep limits. Zero durations take the defaults named.
type Options struct {
	Store   *store.Store
	Gateway Gateway
	Clock   clock.Clock
	Log     *slog.Logger
	// Holder names this process in leases.
	Holder     string
	Registerer prometheus.Registerer
	Backoff    rules.BackoffPolicy // zero: rules.DefaultBackoff
	// LookEvery is how often limits with something to do are looked for (1 s).
	LookEvery time.Duration
	// CheckEvery is how often what a carrier holds is read (15 min), ReadGap the least time between two such
	// reads of an account (10 s).
	CheckEvery, ReadGap time.Duration
	// CommandTimeout bounds one request (30 s), Settle is the least time after that before a read that does
	// not show its effect is believed (5 s); a driver may ask for more.
	CommandTimeout, Settle time.Duration
}

func (o Options) withDefaults() Options {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Backoff == (rules.BackoffPolicy{}) {
		o.Backoff = rules.DefaultBackoff()
	}
	for _, d := range []struct {
		value     *time.Duration
		byDefault time.Duration
	}{
		{&o.LookEvery, time.Second}, {&o.CheckEvery, 15 * time.Minute}, {&o.ReadGap, 10 * time.Second},
		{&o.CommandTimeout, 30 * time.Second}, {&o.Settle, 5 * time.Second},
	} {
		if *d.value <= 0 {
			*d.value = d.byDefault
		}
	}
	return o
}

// Keeper keeps limits. Several may run at a time, in one process or many.
type Keeper struct {
	Options
	calls *prometheus.CounterVec
	drift prometheus.Counter

	mu     sync.Mutex
	busy   map[simwarden.AccountID]bool
	readAt map[simwarden.AccountID]time.Time // when an account's limits were last read, or that was tried
}

// New makes a keeper; it does nothing until Run. The error is that of registering its metrics.
func New(o Options) (*Keeper, error) {
	o = o.withDefaults()
	if o.Store == nil || o.Gateway == nil {
		return nil, errors.New("threshold: a store and a gateway are needed")
	}
	k := &Keeper{Options: o, busy: map[simwarden.AccountID]bool{}, readAt: map[simwarden.AccountID]time.Time{},
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "simwarden_carrier_limit_calls_total",
			Help: "Calls about data limits at carriers, by what was asked and what came of it."}, []string{"call", "outcome"}),
		drift: prometheus.NewCounter(prometheus.CounterOpts{Name: "simwarden_carrier_limit_drift_total",
			Help: "Data limits that carriers were found to have dropped or changed."}),
	}
	if o.Registerer != nil {
		for _, c := range []prometheus.Collector{k.calls, k.drift} {
			if err := o.Registerer.Register(c); err != nil {
				return nil, fmt.Errorf("threshold: %w", err)
			}
		}
	}
	return k, nil
}

// Run keeps limits until the context ends, each account in a goroutine of its own, so that a slow one
// delays no other (P6). It returns nil when the last has ended.
func (k *Keeper) Run(ctx context.Context) error {
	var done sync.WaitGroup
	defer done.Wait()
	for {
		accounts, err := k.Store.AccountsWithDueLimits(ctx)
		if err != nil && ctx.Err() == nil {
			k.Log.ErrorContext(ctx, "look for data limits to keep", "error", err)
		}
		for _, id := range accounts {
			if k.enter(id) {
				done.Go(func() {
					defer k.leave(id)
					if err := k.account(ctx, id); err != nil && ctx.Err() == nil {
						k.Log.ErrorContext(ctx, "keep the data limits of an account", "account", id, "error", err)
					}
				})
			}
		}
		if err := k.Clock.Sleep(ctx, k.LookEvery); err != nil {
			return nil
		}
	}
}

func (k *Keeper) enter(id simwarden.AccountID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.busy[id] {
		return false
	}
	k.busy[id] = true
	return true
}

func (k *Keeper) leave(id simwarden.AccountID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.busy, id)
}

// mayRead says that the account's limits were not read just now, and takes it that they are.
func (k *Keeper) mayRead(id simwarden.AccountID, now time.Time) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if last, ok := k.readAt[id]; ok && now.Before(last.Add(k.ReadGap)) && !now.Before(last) {
		return false
	}
	k.readAt[id] = now
	return true
}

// leaseFor outlasts one request, so that a holder that lives keeps the lease while it waits for one.
func (k *Keeper) leaseFor() time.Duration { return 2*k.CommandTimeout + k.Settle }
