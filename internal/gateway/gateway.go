// Package gateway sends: it is the one way from simwarden to any carrier, and the only maker of
// HTTP clients to them. It limits, meters and classifies every HTTP attempt, stops accounts that
// must not be called, and keeps secrets and personal data out of what it says (G1-G9).
package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/dial"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// Options say how a gateway works. Store and Keyring are needed; the rest has defaults.
type Options struct {
	Store   *store.Store
	Clock   clock.Clock // nil: the machine's
	Keyring *secret.Keyring
	Log     *slog.Logger // nil: none
	// Registerer takes the metrics; nil: none are exported.
	Registerer prometheus.Registerer
	// AllowLoopback allows accounts at http://127.0.0.1 and the like: the lab's.
	AllowLoopback bool
	// Holder is the node's name, for logs.
	Holder string
	// DialContext replaces the dialer that refuses private addresses, in tests; nil: that one.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
	// RootCAs are the certificate authorities that carriers are checked against; nil: the machine's.
	RootCAs *x509.CertPool
	// Slack is δ of the limiter: what a slot's use and its way to the carrier may vary in time
	// (G4). 0: 50 ms.
	Slack time.Duration
	// CommandTimeout and ReadTimeout bound one HTTP attempt, from connecting to the last byte.
	// 0: 30 s. A command's context usually ends sooner.
	CommandTimeout, ReadTimeout time.Duration
	// HeaderTimeout bounds the wait from a request's last byte to the answer's headers. 0: 20 s.
	HeaderTimeout time.Duration
	// ReloadEvery and FlushEvery are how often accounts, groups and rules are read, and statistics
	// written. 0: 1 s and 5 s.
	ReloadEvery, FlushEvery time.Duration
	// Breaker says when an account is given a rest (G8). Zero fields take the defaults.
	Breaker BreakerPolicy
	// BreakerAlertAfter is how long an account's breaker is open before an alert says so. 0: 5 minutes.
	BreakerAlertAfter time.Duration
}

// The defaults of Options, and bounds of our own.
const (
	defaultSlack   = 50 * time.Millisecond
	defaultTimeout = 30 * time.Second
	headerTimeout  = 20 * time.Second
	reloadEvery    = time.Second
	flushEvery     = 5 * time.Second
	// stopBound is how long the last flush may take after Run's context has ended.
	stopBound = 5 * time.Second
	// flushPause is between its tries where the database cannot be written.
	flushPause = 200 * time.Millisecond
)

// Gateway sends for all accounts of a node. It is used from many goroutines.
type Gateway struct {
	opts    Options
	store   *store.Store
	clock   clock.Clock
	log     *slog.Logger
	clients clients
	limiter *limiter
	placer  *placer
	meter   *meter

	loading  sync.Mutex // held by whoever reads the settings
	loaded   atomic.Bool
	forgotAt time.Time // when breakers of nodes that are gone were last forgotten; guarded by loading

	mu       sync.RWMutex
	accounts map[simwarden.AccountID]*account
	rules    map[string]*rules.RuleSet // by driver
}

// New makes a gateway. It reads nothing until the first call or Run.
func New(o Options) (*Gateway, error) {
	if o.Store == nil || o.Keyring == nil {
		return nil, errors.New("gateway: a store and a keyring are needed")
	}
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Holder != "" {
		o.Log = o.Log.With("node", o.Holder)
	}
	o.Slack = orDefault(o.Slack, defaultSlack)
	o.CommandTimeout = orDefault(o.CommandTimeout, defaultTimeout)
	o.ReadTimeout = orDefault(o.ReadTimeout, defaultTimeout)
	o.HeaderTimeout = orDefault(o.HeaderTimeout, headerTimeout)
	o.ReloadEvery = orDefault(o.ReloadEvery, reloadEvery)
	o.FlushEvery = orDefault(o.FlushEvery, flushEvery)
	o.Breaker = o.Breaker.orDefaults()
	o.BreakerAlertAfter = orDefault(o.BreakerAlertAfter, breakerAlertAfter)
	if o.DialContext == nil {
		o.DialContext = dial.New(dial.Policy{AllowLoopback: o.AllowLoopback}).DialContext
	}
	m, err := newMeter(o.Store, o.Clock, o.Log, o.Registerer)
	if err != nil {
		return nil, err
	}
	return &Gateway{
		opts: o, store: o.Store, clock: o.Clock, log: o.Log,
		clients: newClients(o), limiter: newLimiter(o.Store, o.Clock, o.Log, o.Slack), meter: m,
		placer:   newPlacer(o.Store, o.Clock, o.Log, max(o.CommandTimeout, o.ReadTimeout)),
		accounts: map[simwarden.AccountID]*account{}, rules: map[string]*rules.RuleSet{},
	}, nil
}

func orDefault(d, byDefault time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return byDefault
}

// Run keeps the settings fresh and the statistics written until the context ends; then it writes the
// rest and returns nil. The drivers' rules are in the table by then: see store.SyncRules.
func (g *Gateway) Run(ctx context.Context) error {
	reload, flush := g.clock.NewTimer(0), g.clock.NewTimer(g.opts.FlushEvery)
	defer reload.Stop()
	defer flush.Stop()
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopBound)
			defer cancel()
			for !g.flush(last) && g.clock.Sleep(last, flushPause) == nil { // a connection may break just now
			}
			g.clients.close()
			return nil
		case <-reload.C():
			if err := g.reload(ctx); err != nil && ctx.Err() == nil {
				g.log.Error("gateway: settings could not be read", "error", err)
			}
			g.limiter.bringBack()
			reload.Reset(g.opts.ReloadEvery)
		case <-flush.C():
			g.flush(ctx)
			flush.Reset(g.opts.FlushEvery)
		}
	}
}

func (g *Gateway) flush(ctx context.Context) (written bool) {
	err := g.meter.flush(ctx)
	if err != nil && ctx.Err() == nil {
		g.log.Error("gateway: call statistics could not be written", "error", err)
	}
	return err == nil
}

// Flush writes the statistics gathered so far.
func (g *Gateway) Flush(ctx context.Context) error { return g.meter.flush(ctx) }

// Reload reads accounts, limit groups and error rules now, rather than within the second.
func (g *Gateway) Reload(ctx context.Context) error { return g.reload(ctx) }

// reload reads all settings.
func (g *Gateway) reload(ctx context.Context) error {
	g.loading.Lock()
	defer g.loading.Unlock()
	return g.readSettings(ctx)
}

// ready reads the settings where nobody has yet.
func (g *Gateway) ready(ctx context.Context) error {
	if g.loaded.Load() {
		return nil
	}
	g.loading.Lock()
	defer g.loading.Unlock()
	if g.loaded.Load() {
		return nil
	}
	return g.readSettings(ctx)
}

// readSettings needs loading held.
func (g *Gateway) readSettings(ctx context.Context) error {
	g.persistStops(ctx)
	g.tellBreakers(ctx)
	stops := g.stopCounts() // before the query: a stop made meanwhile outlives it
	rows, err := g.store.Accounts(ctx)
	if err != nil {
		return err
	}
	groups, err := g.store.LimitGroups(ctx)
	if err != nil {
		return err
	}
	sets, err := g.readRules(ctx)
	if err != nil {
		return err
	}
	g.limiter.set(groups)
	g.placer.set(groups)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.rules = sets
	fresh := make(map[simwarden.AccountID]*account, len(rows))
	for _, row := range rows {
		a := g.accounts[row.ID]
		if a == nil {
			a = newAccount(g, row)
		}
		a.set(row, stops[row.ID])
		fresh[row.ID] = a
	}
	g.accounts = fresh
	g.loaded.Store(true)
	return nil
}

func (g *Gateway) stopCounts() map[simwarden.AccountID]uint64 {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := make(map[simwarden.AccountID]uint64, len(g.accounts))
	for id, a := range g.accounts {
		out[id] = a.stops.Load()
	}
	return out
}

func (g *Gateway) all() []*account {
	g.mu.RLock()
	defer g.mu.RUnlock()
	out := make([]*account, 0, len(g.accounts))
	for a := range maps.Values(g.accounts) {
		out = append(out, a)
	}
	return out
}

// account finds an account, reading the settings again for one that is new.
func (g *Gateway) account(ctx context.Context, id simwarden.AccountID) (*account, error) {
	if err := g.ready(ctx); err != nil {
		return nil, err
	}
	if a := g.known(id); a != nil {
		return a, nil
	}
	if err := g.reload(ctx); err != nil {
		return nil, err
	}
	if a := g.known(id); a != nil {
		return a, nil
	}
	return nil, fmt.Errorf("account %d: %w", id, store.ErrNotFound)
}

func (g *Gateway) known(id simwarden.AccountID) *account {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.accounts[id]
}

// Info gives what the driver of an account declares. The error is store.ErrNotFound, the
// database's, or that no such driver is built in.
func (g *Gateway) Info(id simwarden.AccountID) (carrier.Info, error) {
	ctx, cancel := context.WithTimeout(context.Background(), stopBound)
	defer cancel()
	a, err := g.account(ctx, id)
	if err != nil {
		return carrier.Info{}, err
	}
	return a.info, a.driverErr
}

// Drop forgets the open connection of an account, its token with it, so that the next call opens
// it anew with what the database says then.
func (g *Gateway) Drop(id simwarden.AccountID) {
	if a := g.known(id); a != nil {
		a.drop()
	}
}
