// Package app wires the parts into one running node.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/commander"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/threshold"
)

// Config is what one node runs with. Zero values take the defaults of the parts.
type Config struct {
	Store   *store.Store
	Keyring *secret.Keyring
	Clock   clock.Clock
	Log     *slog.Logger
	// Holder names this node in leases and claims; it must be another for every running process.
	Holder   string
	Registry *prometheus.Registry
	// AllowLoopback allows carriers on this machine: the lab.
	AllowLoopback bool
	// EvaluateEvery is how long one periodic pass over the fleet takes; zero: 15 minutes.
	EvaluateEvery time.Duration
	Pace          *rules.PaceProfile
	Backoff       rules.BackoffPolicy
	Rest          rules.RestPolicy
	// Settle, CommandTimeout, ClaimMargin, ConfirmFor: see commander.Options.
	Settle         time.Duration
	CommandTimeout time.Duration
	ClaimMargin    time.Duration
	ConfirmFor     time.Duration
	// LimitCheckEvery and LimitReadGap: see threshold.Options.
	LimitCheckEvery time.Duration
	LimitReadGap    time.Duration
	// AuditFile takes the head of the audit log every hour (R3); empty: the log alone does.
	AuditFile string
	// LookEvery is how often each part looks for work when nothing wakes it earlier, and reads its
	// settings; zero: each part's own interval. Tests that run for hours of virtual time look seldom.
	LookEvery time.Duration
	// DialContext replaces the way to the carriers, in tests; see gateway.Options.
	DialContext func(ctx context.Context, network, addr string) (net.Conn, error)
}

// App is one node.
type App struct {
	Gateway *gateway.Gateway

	cfg     Config
	loops   []loop
	mu      sync.Mutex
	running map[string]bool
}

type loop struct {
	name string
	run  func(context.Context) error
}

// New puts the parts together; nothing runs until Run.
func New(cfg Config) (*App, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	var registerer prometheus.Registerer
	if cfg.Registry != nil {
		registerer = cfg.Registry
	}
	gw, err := gateway.New(gateway.Options{
		Store: cfg.Store, Clock: cfg.Clock, Keyring: cfg.Keyring, Log: cfg.Log.With("part", "gateway"), Registerer: registerer,
		AllowLoopback: cfg.AllowLoopback, Holder: cfg.Holder, CommandTimeout: cfg.CommandTimeout, DialContext: cfg.DialContext,
		ReloadEvery: cfg.LookEvery, FlushEvery: cfg.LookEvery,
	})
	if err != nil {
		return nil, err
	}
	cmd, err := commander.New(commander.Options{
		Store: cfg.Store, Gateway: gw, Clock: cfg.Clock, Log: cfg.Log.With("part", "commander"), Holder: cfg.Holder, Registerer: registerer,
		Backoff: cfg.Backoff, Rest: cfg.Rest, Settle: cfg.Settle, CommandTimeout: cfg.CommandTimeout, ClaimMargin: cfg.ClaimMargin, ConfirmFor: cfg.ConfirmFor, PollEvery: cfg.LookEvery,
	})
	if err != nil {
		return nil, err
	}
	poll, err := poller.New(poller.Options{
		Store: cfg.Store, Gateway: gw, Clock: cfg.Clock, Log: cfg.Log.With("part", "poller"), Holder: cfg.Holder, Registerer: registerer, Pace: cfg.Pace, NudgeEvery: cfg.LookEvery,
	})
	if err != nil {
		return nil, err
	}
	limits, err := threshold.New(threshold.Options{
		Store: cfg.Store, Gateway: gw, Clock: cfg.Clock, Log: cfg.Log.With("part", "limits"), Holder: cfg.Holder, Registerer: registerer,
		Backoff: cfg.Backoff, LookEvery: cfg.LookEvery, CheckEvery: cfg.LimitCheckEvery, ReadGap: cfg.LimitReadGap, CommandTimeout: cfg.CommandTimeout, Settle: cfg.Settle,
	})
	if err != nil {
		return nil, err
	}
	sweep := &plans.Sweeper{Store: cfg.Store, Clock: cfg.Clock, Log: cfg.Log.With("part", "plans"), Every: cfg.LookEvery}
	eval := &evaluator.Evaluator{Store: cfg.Store, Clock: cfg.Clock, Log: cfg.Log.With("part", "evaluator"), Holder: cfg.Holder, Interval: cfg.EvaluateEvery, LookEvery: cfg.LookEvery}
	seal := &evaluator.Sealer{Store: cfg.Store, Clock: cfg.Clock, Log: cfg.Log.With("part", "audit"), Holder: cfg.Holder, File: cfg.AuditFile, LookEvery: cfg.LookEvery}
	a := &App{Gateway: gw, cfg: cfg, running: map[string]bool{}}
	a.loops = []loop{
		{"commander", cmd.Run}, {"plans", sweep.Run}, {"evaluator", eval.Run},
		{"periodic", eval.RunPeriodic}, {"accounts", eval.RunAccounts}, {"bulk", eval.RunBulk}, {"poller", poll.Run}, {"limits", limits.Run}, {"partitions", a.keepPartitions}, {"alerts", a.clearAlerts}, {"audit", seal.Run},
	}
	return a, nil
}

// Run runs the node until ctx ends, then lets what is under way end, within each part's bound. It
// returns early, with the error, when a part ends by itself. The gateway outlives the others, so
// that calls under way are still counted.
func (a *App) Run(ctx context.Context) error {
	if err := AwaitDatabase(ctx, a.cfg.Clock, a.cfg.Log, a.prepare); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	gatewayCtx, stopGateway := context.WithCancel(context.WithoutCancel(ctx))
	defer stopGateway()
	gatewayDone := make(chan error, 1)
	go func() { gatewayDone <- a.guard(gatewayCtx, loop{"gateway", a.Gateway.Run}) }()

	errs := make(chan error, len(a.loops))
	for _, l := range a.loops {
		go func() { errs <- a.guard(ctx, l) }()
	}
	var failed []error
	for range a.loops {
		if err := <-errs; err != nil {
			failed = append(failed, err)
			cancel()
		}
	}
	stopGateway()
	if err := <-gatewayDone; err != nil {
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// prepare writes what all loops read.
func (a *App) prepare(ctx context.Context) error {
	if err := a.cfg.Store.SyncRules(ctx); err != nil {
		return fmt.Errorf("write the drivers' error rules: %w", err)
	}
	if _, err := a.cfg.Store.EnsurePartitions(ctx, a.cfg.Store.Now()); err != nil {
		return fmt.Errorf("make partitions: %w", err)
	}
	return nil
}

// guard runs one loop; one that ends before it was told to is an error.
func (a *App) guard(ctx context.Context, l loop) error {
	a.setRunning(l.name, true)
	defer a.setRunning(l.name, false)
	err := l.run(ctx)
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled)) {
		return nil
	}
	if err == nil {
		err = errors.New("ended by itself")
	}
	return fmt.Errorf("%s: %w", l.name, err)
}

func (a *App) setRunning(name string, yes bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.running[name] = yes
}

// Ready says whether every loop runs; the error names one that does not.
func (a *App) Ready(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, l := range a.loops {
		if !a.running[l.name] {
			return fmt.Errorf("the %s is not running", l.name)
		}
	}
	return nil
}

const partitionsEvery = time.Hour

// keepPartitions makes the partitions of the coming months, and raises an alert when rows have
// landed in a default partition (F18). It also prunes what is kept for a time, and measures what
// guard bands go by (E12).
func (a *App) keepPartitions(ctx context.Context) error {
	for {
		if err := errors.Join(a.checkPartitions(ctx), a.prune(ctx), a.retain(ctx), a.cfg.Store.MeasureGuardBands(ctx)); err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("keep the tables in order", "error", err)
		}
		if err := a.cfg.Clock.Sleep(ctx, partitionsEvery); err != nil {
			return err
		}
	}
}

const (
	alertsEvery = time.Minute
	// judgedWithin is how many passes of the periodic evaluation a SIM that could not be judged must have gone
	// through without a complaint for its alert to be over.
	judgedWithin = 3
)

// clearAlerts clears what has ended by itself.
func (a *App) clearAlerts(ctx context.Context) error {
	every, pass := alertsEvery, a.cfg.EvaluateEvery
	if a.cfg.LookEvery > 0 {
		every = a.cfg.LookEvery
	}
	if pass <= 0 {
		pass = evaluator.DefaultInterval
	}
	for {
		if _, err := a.cfg.Store.ClearEndedAlerts(ctx, judgedWithin*pass); err != nil && ctx.Err() == nil {
			a.cfg.Log.Error("clear alerts that are over", "error", err)
		}
		if err := a.cfg.Clock.Sleep(ctx, every); err != nil {
			return err
		}
	}
}

func (a *App) checkPartitions(ctx context.Context) error {
	now := a.cfg.Store.Now()
	if _, err := a.cfg.Store.EnsurePartitions(ctx, now); err != nil {
		return err
	}
	reports, err := a.cfg.Store.Partitions(ctx, now)
	if err != nil {
		return err
	}
	for _, r := range reports {
		key := "partition:" + r.Table
		if r.DefaultRows == 0 && r.MonthsAhead >= store.PartitionsAhead {
			if err := a.cfg.Store.InTx(ctx, func(tx *store.Tx) error { return tx.ClearAlert(ctx, key, "system") }); err != nil {
				return err
			}
			continue
		}
		if err := a.cfg.Store.Raise(ctx, store.Alert{Kind: store.AlertPartition, Key: key,
			Message: fmt.Sprintf("table %s has partitions for %d months ahead and %d rows outside any month; run: simwarden doctor", r.Table, r.MonthsAhead, r.DefaultRows)}); err != nil {
			return err
		}
	}
	return nil
}
