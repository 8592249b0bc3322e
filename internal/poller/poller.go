// Package poller reads what is due from the carriers and hands it in. It keeps due times in memory,
// in shards that one node owns at a time by a lease; it sweeps lists first and asks for single SIMs
// where those do not serve; and it writes back in batches, one statement for all SIMs of which
// nothing new was heard (P1-P7).
package poller

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

// Gateway is what the poller needs of the one way out.
type Gateway interface {
	Do(ctx context.Context, id simwarden.AccountID, call gateway.Call, fn func(ctx context.Context, conn carrier.Conn) error) error
	Can(ctx context.Context, id simwarden.AccountID, what gateway.Capability) (bool, error)
	Info(id simwarden.AccountID) (carrier.Info, error)
}

// Options say how to poll. Store, Gateway and Holder are needed.
type Options struct {
	Store   *store.Store
	Gateway Gateway
	Sink    Sink // nil: Database
	Clock   clock.Clock
	Log     *slog.Logger
	// Holder names this process among all that poll: unique, also after a restart.
	Holder string
	// Pace is the profile of intervals; an account's own StateEvery, UsageEvery and RealNameEvery
	// stand in for those in it. Nil: rules.DefaultPace.
	Pace *rules.PaceProfile
	// LeaseFor is how long shards and lists stay another's after a node died; 0: 30 s.
	LeaseFor time.Duration
	// NudgeEvery is how often changes of the schedule from outside are looked for; 0: 1 s.
	NudgeEvery time.Duration
	// Concurrency is how many checks of one account are under way at a time where its driver does
	// not say; 0: 16.
	Concurrency int
	// Wait is how long a check waits at the gateway for a permit; 0: 2 s.
	Wait       time.Duration
	Registerer prometheus.Registerer // nil: no metrics
}

const (
	defaultLease       = 30 * time.Second
	defaultNudge       = time.Second
	defaultConcurrency = 16
	defaultWait        = 2 * time.Second
	// givingBack bounds the last writes and the return of leases at a shutdown.
	givingBack = 5 * time.Second
	// refusedFor is how long an account is left alone that could not be started.
	refusedFor = time.Minute
	// presence is the name of the lease by which nodes see each other, before the holder.
	presence = "poller:"
	// nudgeBatch is how many SIMs are read anew at a time.
	nudgeBatch = 1000
	// writers is how many batches of readings are written at a time, all accounts together: the
	// pool is for others too.
	writers = 4
)

// Poller is one node's part of the polling. Make it with New.
type Poller struct {
	o        Options
	pace     rules.PaceProfile
	metrics  *metrics
	counters counters
	writing  chan struct{} // holds one for each batch being written

	mu       sync.Mutex
	accounts map[simwarden.AccountID]*account
	running  sync.WaitGroup
	// refused are the accounts that could not be started, and until when their shards are left alone.
	// Only Run's goroutine uses it.
	refused map[simwarden.AccountID]time.Time
	// renewedAt is when the leases were last known to be ours.
	renewedAt time.Time
}

// New makes a poller that does nothing until Run. The error says what of the options is missing, or
// that the metrics are registered already.
func New(o Options) (*Poller, error) {
	if o.Store == nil || o.Gateway == nil || o.Holder == "" {
		return nil, errors.New("poller: a store, a gateway and a holder are needed")
	}
	if o.Sink == nil {
		o.Sink = Database{Store: o.Store}
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	o.LeaseFor = orDefault(o.LeaseFor, defaultLease)
	o.NudgeEvery = orDefault(o.NudgeEvery, defaultNudge)
	o.Wait = orDefault(o.Wait, defaultWait)
	if o.Concurrency <= 0 {
		o.Concurrency = defaultConcurrency
	}
	p := &Poller{o: o, pace: rules.DefaultPace(), accounts: map[simwarden.AccountID]*account{}, refused: map[simwarden.AccountID]time.Time{}, writing: make(chan struct{}, writers)}
	if o.Pace != nil {
		p.pace = *o.Pace
	}
	var err error
	if p.metrics, err = newMetrics(o.Registerer, p); err != nil {
		return nil, fmt.Errorf("poller: %w", err)
	}
	return p, nil
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return byDefault
}

// Run polls until the context ends; then it lets the checks under way end, writes what was read,
// gives its shards back, and returns nil. A database that is away is waited for.
func (p *Poller) Run(ctx context.Context) error {
	p.mu.Lock()
	p.renewedAt = p.o.Clock.Now()
	p.mu.Unlock()
	lease, nudge := p.o.Clock.NewTimer(0), p.o.Clock.NewTimer(p.o.NudgeEvery)
	defer lease.Stop()
	defer nudge.Stop()
	for {
		select {
		case <-ctx.Done():
			p.stop(ctx)
			return nil
		case <-lease.C():
			if err := p.keepShards(ctx); err != nil && ctx.Err() == nil {
				p.o.Log.Error("poller: shards", "error", err)
				p.dropExpired()
			}
			lease.Reset(p.o.LeaseFor / 3)
		case <-nudge.C():
			if err := p.takeNudges(ctx); err != nil && ctx.Err() == nil {
				p.o.Log.Error("poller: nudges", "error", err)
			}
			nudge.Reset(p.o.NudgeEvery)
		}
	}
}

// Stats gives the counts so far.
func (p *Poller) Stats() Stats { return p.counters.stats() }

// Shards is how many shards this node holds.
func (p *Poller) Shards() int { return len(p.held()) }

// SIMs is how many SIMs are in its schedule.
func (p *Poller) SIMs() int {
	return p.sum(func(a *account) int { return a.sched.size() })
}

// Queued is how many SIMs wait for a check, due or not.
func (p *Poller) Queued() int {
	return p.sum(func(a *account) int { return len(a.sched.due.items) + len(a.sched.fresh.items) })
}

func (p *Poller) sum(of func(*account) int) int {
	n := 0
	for _, a := range p.all() {
		a.mu.Lock()
		n += of(a)
		a.mu.Unlock()
	}
	return n
}

func (p *Poller) all() []*account {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*account, 0, len(p.accounts))
	for _, a := range p.accounts {
		out = append(out, a)
	}
	return out
}

func (p *Poller) held() []store.PollShard {
	var out []store.PollShard
	for _, a := range p.all() {
		out = append(out, a.shards()...)
	}
	return out
}

// stop ends all accounts and gives everything back.
func (p *Poller) stop(ctx context.Context) {
	held := p.held()
	for _, a := range p.all() {
		a.cancel()
	}
	p.running.Wait()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givingBack)
	defer cancel()
	if err := p.o.Store.GiveShards(ctx, p.o.Holder, held); err != nil {
		p.o.Log.Error("poller: shards were not given back; others wait for the end of the lease", "error", err)
	}
	if l, ok, err := p.o.Store.TakeLease(ctx, presence+p.o.Holder, p.o.Holder, time.Millisecond); err == nil && ok {
		if err := p.o.Store.GiveLease(ctx, l); err != nil {
			p.o.Log.Error("poller: presence was not withdrawn", "error", err)
		}
	}
	p.mu.Lock()
	p.accounts = map[simwarden.AccountID]*account{}
	p.mu.Unlock()
}
