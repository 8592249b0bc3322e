package faults_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/pprof"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// node is one running node of a world.
type node struct {
	world    *world
	name     string
	store    *store.Store
	database *lines
	carriers *lines
	stop     context.CancelFunc
	ended    chan error
	label    unsafe.Pointer
	dead     atomic.Bool
	cut      atomic.Bool // from its database, once at least
	stood    time.Time   // when a part of it last came to stand still; guarded by the world's mu
}

const (
	lookEvery      = 15 * time.Second
	evaluateEvery  = 30 * time.Second
	commandTimeout = 12 * time.Second
	settle         = 3 * time.Second
	retryAfterMax  = 2 * time.Minute
)

func backoff() rules.BackoffPolicy {
	return rules.BackoffPolicy{
		FirstDelay: 2 * time.Second, MaxDelay: 20 * time.Second, Factor: 2, MaxAttempts: 5,
		ThrottleDelay: 3 * time.Second, ThrottleMax: retryAfterMax,
		HeldDelay: 5 * time.Second, BusyDelay: 3 * time.Second, HeldMax: time.Hour,
		ReopenFirst: 15 * time.Minute, ReopenMax: 24 * time.Hour,
	}
}

// start starts a node that no other is named like.
func (w *world) start() {
	w.started++
	n := &node{world: w, name: fmt.Sprintf("node-%d", w.started), ended: make(chan error, 1),
		database: newLines(w.databaseClock.Dial), carriers: newLines(w.network.Dial)}
	var err error
	n.store, err = store.Open(w.ctx, store.Options{URL: w.database.url, Conns: 2, WorkConns: 2, Dial: n.database.Dial})
	w.must(err)
	pace := rules.DefaultPace()
	pace.FirstSpread, pace.RetryAfterError = 0, 10*time.Second
	config := app.Config{
		Store: n.store, Keyring: w.ring, AllowLoopback: true, Holder: n.name, DialContext: n.carriers.Dial, LookEvery: lookEvery,
		Log:           slog.New(slog.NewTextHandler(&w.trace, &slog.HandlerOptions{Level: slog.LevelWarn})).With("node", n.name),
		EvaluateEvery: evaluateEvery, Pace: &pace, Backoff: backoff(), Settle: settle, CommandTimeout: commandTimeout,
		ClaimMargin: 6 * time.Second, ConfirmFor: 90 * time.Second,
	}
	a, err := app.New(config)
	w.must(err)
	ctx, stop := context.WithCancel(w.ctx)
	n.stop = stop
	w.nodes = append(w.nodes, n)
	w.trace.note("%s starts", n.name)
	ready := make(chan struct{})
	go func() {
		pprof.SetGoroutineLabels(pprof.WithLabels(ctx, pprof.Labels("node", n.name)))
		n.label = goroutineLabels()
		byLabel.Store(n.label, n)
		close(ready)
		n.ended <- a.Run(ctx)
	}()
	<-ready
}

// living are the nodes that run.
func (w *world) living() []*node {
	return slices.DeleteFunc(slices.Clone(w.nodes), func(n *node) bool { return n.dead.Load() })
}

// leave stops a node in good order, for which it has half a minute (F8).
func (w *world) leave(n *node) {
	n.stop()
	asked := time.Now()
	err := <-n.ended
	if !n.dead.Load() && (err != nil || time.Since(asked) > 30*time.Second && !w.stoodStill(n, asked)) {
		w.failf("%s was stopped and ended after %s with %v", n.name, time.Since(asked), err)
	}
	n.ended <- err
	n.dead.Store(true)
	w.trace.note("%s was stopped in good order", n.name)
}

// bury finds nodes that have ended by themselves. One that loses its database while it starts does so
// and is started again, as a service manager would; no other may.
func (w *world) bury() {
	for _, n := range w.living() {
		select {
		case err := <-n.ended:
			n.ended <- err
			n.dead.Store(true)
			w.trace.note("%s ended by itself: %v", n.name, err)
			if !n.cut.Load() {
				w.failf("%s ended by itself, with %v", n.name, err)
			}
			w.mu.Lock()
			w.killed = append(w.killed, time.Now())
			w.mu.Unlock()
		default:
		}
	}
}

// kill is SIGKILL as all others see it: nothing of the node reaches anybody from here on.
func (n *node) kill() {
	n.dead.Store(true)
	n.database.cut(true)
	n.carriers.cut(true)
	n.stop()
}

// byLabel finds the node that a goroutine belongs to: goroutines inherit the labels of the one that
// starts them, which those of a node have from the node's first. Points are the process's, nodes are
// several in it.
var byLabel sync.Map

//go:linkname goroutineLabels runtime/pprof.runtime_getProfLabel
func goroutineLabels() unsafe.Pointer

// setPoints has all points tell the world of the node that came by.
func setPoints() {
	for _, name := range fault.Points() {
		fault.Set(name, func() {
			if label := goroutineLabels(); label != nil {
				if n, ok := byLabel.Load(label); ok {
					n.(*node).world.hit(n.(*node), name)
				}
			}
		})
	}
}

// arming is the one thing that is to happen at a point.
type arming struct {
	episode
	left  int
	taken bool
}

// inTransaction are the points at which a transaction is open. A node that stands still there for as
// long as ours do loses its session: the database ends those that are idle in a transaction.
var inTransaction = []string{"lapse.in", "evaluate.in", "account_evaluation.in", "bulk.in", "cmd.claim.before_commit", "cmd.record.before_commit"}

func (w *world) hit(n *node, point string) {
	w.mu.Lock()
	a := w.armed
	if a == nil || a.taken || a.Point != point || n.dead.Load() {
		w.mu.Unlock()
		return
	}
	if a.left--; a.left > 0 {
		w.mu.Unlock()
		return
	}
	a.taken = true
	cut := a.How == cutOff || a.How == paused && slices.Contains(inTransaction, point)
	n.cut.Store(n.cut.Load() || cut)
	if a.How == killed {
		w.killed = append(w.killed, time.Now().Add(a.backIn))
	} else if until := time.Now().Add(a.standsBy); a.How == paused && until.After(w.paused[n]) { // another part may stand still for longer
		w.paused[n] = until
	}
	if a.How == paused {
		n.stood = time.Now()
	}
	if a.How == killed {
		w.lost = append(w.lost, time.Now())
		if w.paused[n].After(time.Now()) { // with a request that it has not counted yet
			w.lost = append(w.lost, n.stood)
		}
	}
	w.mu.Unlock()
	w.trace.note("%s: %s at %s", a.How, n.name, point)
	switch a.How {
	case killed:
		n.kill()
	case cutOff:
		n.database.cut(false)
	case paused:
		if slices.Contains(inTransaction, point) {
			n.database.cut(false)
		}
		_ = clock.System().Sleep(context.Background(), a.standsBy) // nothing ends a background context
	}
}

// allMove says that no part of a node that runs stands still.
func (w *world) allMove() bool {
	living := w.living()
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(living, func(n *node) bool { return w.paused[n].After(time.Now()) })
}

// stoodStill says whether a part of the node still was paused at the instant.
func (w *world) stoodStill(n *node, at time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.paused[n].After(at)
}
