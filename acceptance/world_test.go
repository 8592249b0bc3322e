package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	_ "github.com/simwarden/simwarden/carrier/all" // the drivers
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/onelink"  // a dialect
	_ "github.com/simwarden/simwarden/lab/soracom"  // a dialect
	_ "github.com/simwarden/simwarden/lab/supersim" // a dialect
)

// carriers are the drivers that every time line runs with.
var carriers = []string{"soracom", "supersim"}

// eachCarrier runs a time line once for each carrier, at the same time.
func eachCarrier(t *testing.T, run func(t *testing.T, driver string)) {
	t.Parallel()
	for _, driver := range carriers {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			run(t, driver)
		})
	}
}

// world is a database, a carrier over real HTTP with one account, and, once it runs, a node.
type world struct {
	t        *testing.T
	ctx      context.Context // outlives the test's own, for the check at its end
	url      string
	dataDir  string // holds the key file, as serve finds it
	store    *store.Store
	pool     *pgxpool.Pool // for plain SQL, as a checker sees the database
	lab      *lab.World
	carrier  *lab.Account
	log      *storetest.Log // the carrier's, as it was written
	ring     *secret.Keyring
	account  store.Account
	nodes    int
	plans    int
	counting atomic.Int32 // nodes and programs that have counts of requests in memory
	mu       sync.Mutex
	killed   []time.Time // when programs were killed, with the counts they had
}

// setting changes the account before it is written.
type setting func(*store.Account)

// seldom lets the account's SIMs be polled once, at the start, and not again within a test.
func seldom(a *store.Account) { a.StateEvery, a.UsageEvery = 24*time.Hour, 24*time.Hour }

// newWorld makes a world without a node. When the test ends the checker goes over everything: no
// invariant may have been broken, whatever the test looked at itself (reliability rule 1).
func newWorld(t *testing.T, driver string, settings ...setting) *world {
	t.Helper()
	w := &world{t: t, ctx: context.WithoutCancel(t.Context()), url: storetest.URL(t, store.Migrate), dataDir: t.TempDir(), log: &storetest.Log{}}
	var err error
	w.store, err = store.Open(t.Context(), store.Options{URL: w.url, Conns: 4, WorkConns: 3})
	w.must(err)
	t.Cleanup(w.store.Close)
	config, err := pgxpool.ParseConfig(w.url)
	w.must(err)
	config.MaxConns = 2
	w.pool, err = pgxpool.NewWithConfig(w.ctx, config)
	w.must(err)
	t.Cleanup(w.pool.Close)
	w.must(check.Watch(w.ctx, w.url))

	w.lab = lab.New(lab.Config{Seed: 7, Log: w.log})
	server, err := w.lab.Serve(w.ctx, "")
	w.must(err)
	t.Cleanup(func() {
		w.lab.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	w.carrier, err = w.lab.AddAccount(lab.AccountSpec{Name: "acme", Dialect: dialectOf(driver)})
	w.must(err)
	w.ring, err = secret.LoadOrCreate(filepath.Join(w.dataDir, "keys"))
	w.must(err)
	a := store.Account{Name: "acme", Driver: driver, BaseURL: w.carrier.BaseURL(server.URL),
		StateEvery: time.Second, UsageEvery: time.Second}
	for _, set := range settings {
		set(&a)
	}
	w.addAccount(a)
	return w
}

// addAccount writes the account, with its sealed credentials, in mode act.
func (w *world) addAccount(a store.Account) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		var err error
		if w.account, err = tx.AddAccount(ctx, a); err != nil {
			return err
		}
		text, err := json.Marshal(w.carrier.Credentials())
		if err != nil {
			return err
		}
		sealed, err := w.ring.Seal("account", strconv.FormatInt(int64(w.account.ID), 10), text)
		if err != nil {
			return err
		}
		if err := tx.SetCredential(ctx, w.account.ID, sealed); err != nil {
			return err
		}
		return tx.SetAccountMode(ctx, w.account.ID, simwarden.ModeAct)
	})
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) tx(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	w.must(w.store.InTx(w.ctx, func(tx *store.Tx) error { return fn(w.ctx, tx) }))
}

const (
	// evaluateEvery is one periodic pass over the few SIMs of a test.
	evaluateEvery = 3 * time.Second
	// commandTimeout bounds one request; settle is ours, drivers ask for more.
	commandTimeout = 2 * time.Second
	settle         = 300 * time.Millisecond
)

// fastBackoff is the default policy at the speed of a test.
func fastBackoff() rules.BackoffPolicy {
	return rules.BackoffPolicy{
		FirstDelay: 200 * time.Millisecond, MaxDelay: time.Second, Factor: 2, MaxAttempts: 6,
		ThrottleDelay: 300 * time.Millisecond, ThrottleMax: time.Hour,
		HeldDelay: 300 * time.Millisecond, BusyDelay: 300 * time.Millisecond, HeldMax: time.Hour,
		ReopenFirst: 15 * time.Minute, ReopenMax: 24 * time.Hour,
	}
}

// option changes how a node runs.
type option func(*app.Config)

// rarely makes periodic evaluations so rare that none is under way in a test.
func rarely(c *app.Config) { c.EvaluateEvery = 24 * time.Hour }

// run starts a node on the world, and stops it when the test ends: once nothing is under way, and
// before the check, so that all that it counted has been written.
func (w *world) run(options ...option) {
	w.t.Helper()
	w.nodes++
	out := &testWriter{t: w.t}
	pace := rules.DefaultPace()
	pace.LimitedRetry, pace.RetryAfterError, pace.FirstSpread = 200*time.Millisecond, 500*time.Millisecond, 0
	config := app.Config{
		Store: w.store, Keyring: w.ring, AllowLoopback: true, Holder: fmt.Sprintf("node-%d", w.nodes),
		Log:           slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn})),
		EvaluateEvery: evaluateEvery, Pace: &pace, Backoff: fastBackoff(),
		Settle: settle, CommandTimeout: commandTimeout, ClaimMargin: time.Second,
	}
	for _, o := range options {
		o(&config)
	}
	node, err := app.New(config)
	w.must(err)
	ctx, stop := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	w.counting.Add(1)
	go func() { ended <- node.Run(ctx) }()
	w.t.Cleanup(func() {
		if !w.t.Failed() {
			w.calm()
		}
		stop()
		if err := <-ended; err != nil {
			w.t.Errorf("the node ended with %v", err)
		}
		w.counting.Add(-1)
		out.close()
		if !w.t.Failed() {
			w.check()
		}
	})
	eventually(w.t, "the node is ready", func() bool { return node.Ready(w.ctx) == nil })
}

// testWriter shows what a node logs, until the test ends.
type testWriter struct {
	mu     sync.Mutex
	t      *testing.T
	closed bool
}

func (o *testWriter) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.closed {
		o.t.Logf("node: %s", bytes.TrimSpace(p))
	}
	return len(p), nil
}

func (o *testWriter) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// card is one SIM, here and at the carrier.
type card struct {
	id    simwarden.SIMID
	iccid string
}

// sim adds a SIM at the carrier and here; nothing is known of it until the node has read it.
func (w *world) sim(state simwarden.State) card {
	w.t.Helper()
	return w.add(state, false)
}

// add is sim; withKey says that the carrier's own name for the SIM is known from the start.
func (w *world) add(state simwarden.State, withKey bool) card {
	w.t.Helper()
	truth, err := w.carrier.AddSIM(lab.NewSIM{State: state, Age: time.Hour})
	w.must(err)
	c := card{iccid: truth.ICCID}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		iccid, err := simwarden.ParseICCID(truth.ICCID)
		if err != nil {
			return err
		}
		sim := store.NewSIM{ICCID: iccid, Raw: truth.ICCID}
		if withKey {
			sim.Key = truth.Key
		}
		ids, err := tx.AddSIMs(ctx, w.account, []store.NewSIM{sim}, 0)
		if err == nil {
			c.id = ids[0]
		}
		return err
	})
	return c
}

// reads waits until the node has read the SIM in a state.
func (w *world) reads(c card, state simwarden.State) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("SIM %s is read as %s", c.iccid, state), func() bool {
		return w.text(`SELECT state FROM poll_state WHERE sim_id = $1`, c.id) == string(state)
	})
}

// plan adds a main plan that lasts for so long (whole seconds).
func (w *world) plan(lasts time.Duration, allowanceBytes int64) simwarden.Plan {
	w.t.Helper()
	w.plans++
	var p simwarden.Plan
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, simwarden.Plan{Code: fmt.Sprintf("plan-%d", w.plans), Name: "test", Kind: simwarden.PlanMain,
			AllowanceBytes: allowanceBytes, ValidityUnit: simwarden.ValiditySeconds, ValidityCount: int(lasts / time.Second),
			Reset: simwarden.ResetNone, Zone: "UTC"})
		return err
	})
	return p
}

// buy buys a plan for a SIM.
func (w *world) buy(c card, p simwarden.Plan) simwarden.Subscription {
	w.t.Helper()
	var b simwarden.Subscription
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: p, By: "test"})
		return err
	})
	return b
}

func (w *world) fault(f lab.Fault) {
	w.t.Helper()
	_, err := w.lab.SetFault(f)
	w.must(err)
}

// truth is the SIM as it truly is at the carrier.
func (w *world) truth(c card) lab.SIMTruth {
	w.t.Helper()
	truth, ok := w.carrier.SIM(c.iccid)
	if !ok {
		w.t.Fatalf("the carrier has no SIM %s", c.iccid)
	}
	return truth
}

// lines are the carrier's log of the SIM, of some kinds, in order of arrival.
func (w *world) lines(c card, kinds ...lab.Kind) []lab.LogLine {
	var out []lab.LogLine
	for _, l := range w.lab.LogLines() {
		for _, k := range kinds {
			if l.Kind == k && l.ICCID == c.iccid {
				out = append(out, l)
			}
		}
	}
	return out
}

// changes are the state-changing requests for the SIM that the carrier saw.
func (w *world) changes(c card) []lab.LogLine { return w.lines(c, lab.KindChange) }
