package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/rules"
)

type serveCmd struct {
	Listen        string        `help:"Address of the REST API; another than loopback is refused." default:"127.0.0.1:8470"`
	AllowLab      bool          `help:"Allow carriers on this machine (127.0.0.1), for a lab."`
	EvaluateEvery time.Duration `help:"How long one periodic pass over the whole fleet takes." default:"15m"`
	Settle        time.Duration `help:"How long after the last instant at which a request could have acted a read is not yet believed to show it; a driver may ask for more." default:"5s"`
	Timeout       time.Duration `help:"How long one suspend or resume may take at the carrier." default:"30s"`
	ClaimMargin   time.Duration `hidden:"" help:"How much longer than a request its claim lasts." default:"15s"`
	FirstDelay    time.Duration `hidden:"" help:"The pause after a command's first failure." default:"15s"`
}

// Run runs a node until it is told to stop.
func (c *serveCmd) Run(ctx context.Context, g *Globals) error {
	if err := c.run(ctx, g); ctx.Err() == nil || !onlyStopped(err) {
		return err
	}
	return nil // it was told to stop, perhaps before it had started
}

func (c *serveCmd) run(ctx context.Context, g *Globals) error {
	e, err := g.open(ctx, openOptions{own: true, migrate: true, await: true})
	if err != nil {
		return err
	}
	defer e.close()
	backoff := rules.DefaultBackoff()
	backoff.FirstDelay = c.FirstDelay
	n, err := startNode(ctx, e, c.Listen, app.Config{
		AllowLoopback: c.AllowLab, EvaluateEvery: c.EvaluateEvery, Backoff: backoff,
		Settle: c.Settle, CommandTimeout: c.Timeout, ClaimMargin: c.ClaimMargin,
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(g.Out, "simwarden is running; REST API at http://%s/api/v1 (make a token: simwarden token create NAME). Stop with Ctrl-C.\n", n.address)
	return n.wait(ctx, e)
}

// node is a running app with its API.
type node struct {
	address string
	app     *app.App
	cancel  context.CancelFunc
	done    chan error
}

// startNode starts the loops and the API; it fails at once where the address is taken.
func startNode(ctx context.Context, e *env, listen string, cfg app.Config) (*node, error) {
	listener, err := api.Listen(ctx, listen)
	if err != nil {
		return nil, err
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	cfg.Store, cfg.Keyring, cfg.Clock, cfg.Log = e.Store, e.Keyring, e.Clock, e.Log
	cfg.Holder, cfg.Registry, cfg.AuditFile = holder(), registry, anchorFile(e.DataDir)
	a, err := app.New(cfg)
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	e.Asker = a.Asker()
	handler, err := api.NewHandler(api.Options{Service: e.Service, Registry: registry, Ready: a.Ready, Log: e.Log.With("part", "api")})
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	n := &node{address: listener.Addr().String(), app: a, cancel: cancel, done: make(chan error, 1)}
	go func() {
		errs := make(chan error, 2)
		go func() { errs <- api.Serve(ctx, listener, handler) }()
		go func() { errs <- a.Run(ctx) }()
		err := <-errs
		cancel()
		n.done <- errors.Join(err, <-errs)
	}()
	return n, nil
}

// wait waits until the node has ended, or the database has gone for good.
func (n *node) wait(_ context.Context, e *env) error {
	gone := make(<-chan struct{})
	if e.pg != nil {
		gone = e.pg.Done()
	}
	select {
	case err := <-n.done:
		return err
	case <-gone:
		n.cancel()
		return errors.Join(errors.New("the private Postgres has stopped; see postgres.log in the data directory"), <-n.done)
	}
}

// onlyStopped says whether an error tells nothing but that work was broken off, which is how a node
// that was told to stop ends where it was at work.
func onlyStopped(err error) bool {
	if several, ok := err.(interface{ Unwrap() []error }); ok {
		return !slices.ContainsFunc(several.Unwrap(), func(one error) bool { return !onlyStopped(one) })
	}
	return errors.Is(err, context.Canceled)
}

// stop ends the node and waits for it.
func (n *node) stop() error {
	n.cancel()
	return <-n.done
}

// holder names this process in leases: host, process and something random, since a host's name and
// a process's number come again.
func holder() string {
	host, err := os.Hostname()
	if err != nil {
		host = "node"
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}
