package poller_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/all"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/onelink"
	_ "github.com/simwarden/simwarden/lab/soracom"
	_ "github.com/simwarden/simwarden/lab/supersim"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// patience bounds every wait for something that must happen.
const patience = 40 * time.Second

// rig is a carrier, a database and a gateway between them, at real speed.
type rig struct {
	t       *testing.T
	ctx     context.Context
	world   *lab.World
	server  *lab.Server
	url     string
	store   *store.Store
	pool    *pgxpool.Pool
	gateway *gateway.Gateway
	keyring *secret.Keyring
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, ctx: t.Context(), world: lab.New(lab.Config{Seed: 11}), url: storetest.URL(t, store.Migrate)}
	var err error
	if r.server, err = r.world.Serve(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.world.Close()
		if err := r.server.Close(); err != nil {
			t.Error(err)
		}
	})
	if r.store, err = store.Open(r.ctx, store.Options{URL: r.url}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.store.Close)
	if r.pool, err = pgxpool.New(r.ctx, r.url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.pool.Close)
	if r.keyring, err = secret.LoadOrCreate(filepath.Join(t.TempDir(), "key")); err != nil {
		t.Fatal(err)
	}
	if r.gateway, err = gateway.New(gateway.Options{Store: r.store, Keyring: r.keyring, AllowLoopback: true, Holder: "test"}); err != nil {
		t.Fatal(err)
	}
	if err := r.store.SyncRules(r.ctx); err != nil {
		t.Fatal(err)
	}
	r.background(r.gateway.Run)
	return r
}

// background runs fn until the test ends, and gives what ends it sooner.
func (r *rig) background(fn func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(r.ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := fn(ctx); err != nil {
			r.t.Errorf("in the background: %v", err)
		}
	}()
	stop = func() { cancel(); <-done }
	r.t.Cleanup(stop)
	return stop
}

// account adds an account at the lab with so many SIMs, and the same in the store.
func (r *rig) account(spec lab.AccountSpec, sims int, every time.Duration) (*lab.Account, store.Account, []simwarden.SIMID) {
	r.t.Helper()
	at, err := r.world.AddAccount(spec)
	if err != nil {
		r.t.Fatal(err)
	}
	iccids, err := at.Populate(lab.Population{Count: sims, ActiveShare: 0.7, InventoryShare: 0.1, Age: time.Hour})
	if err != nil {
		r.t.Fatal(err)
	}
	var row store.Account
	var ids []simwarden.SIMID
	r.tx(func(tx *store.Tx) error {
		var err error
		row, err = tx.AddAccount(r.ctx, store.Account{Name: spec.Name, Driver: spec.Dialect, BaseURL: at.BaseURL(r.server.URL), StateEvery: every, UsageEvery: every})
		if err != nil {
			return err
		}
		word, err := json.Marshal(at.Credentials())
		if err != nil {
			return err
		}
		sealed, err := r.keyring.Seal("account", strconv.FormatInt(int64(row.ID), 10), word)
		if err != nil {
			return err
		}
		if err := tx.SetCredential(r.ctx, row.ID, sealed); err != nil {
			return err
		}
		add := make([]store.NewSIM, len(iccids))
		for i, text := range iccids {
			add[i] = store.NewSIM{ICCID: simwarden.MustParseICCID(text), Raw: text}
		}
		ids, err = tx.AddSIMs(r.ctx, row, add, 0)
		return err
	})
	return at, row, ids
}

func (r *rig) tx(fn func(*store.Tx) error) {
	r.t.Helper()
	if err := r.store.InTx(r.ctx, fn); err != nil {
		r.t.Fatal(err)
	}
}

// poller makes one and runs it until the test ends, or stop is called.
func (r *rig) poller(o poller.Options) (p *poller.Poller, stop func()) {
	r.t.Helper()
	o.Store, o.Gateway = r.store, r.gateway
	if o.Holder == "" {
		o.Holder = "node-1"
	}
	o.NudgeEvery = 100 * time.Millisecond
	o.Log = slog.New(slog.NewTextHandler(testLog{r.t}, &slog.HandlerOptions{Level: slog.LevelInfo}))
	p, err := poller.New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	return p, r.background(p.Run)
}

// testLog writes to the test's own log, for as long as the test runs.
type testLog struct{ t *testing.T }

func (l testLog) Write(b []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Logf("%s", b)
	}
	return len(b), nil
}

// until waits until the condition holds.
func (r *rig) until(what string, holds func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.ctx, patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			r.t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (r *rig) one(query string, args ...any) (n int64) {
	r.t.Helper()
	if err := r.pool.QueryRow(r.ctx, query, args...).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	return n
}

// quick is a profile whose retries a test can wait for.
func quick() *rules.PaceProfile {
	p := rules.DefaultPace()
	p.RetryAfterError, p.LimitedRetry, p.IdleFactor = 300*time.Millisecond, 100*time.Millisecond, 1
	return &p
}

// matches says how many SIMs are kept in another state than they have at the lab.
func (r *rig) differ(at *lab.Account, row store.Account) (n int) {
	r.t.Helper()
	sims, err := r.store.SIMs(r.ctx, store.SIMFilter{AccountID: row.ID, Limit: 10000})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, sim := range sims {
		truth, ok := at.SIM(sim.ICCID.String())
		if !ok {
			r.t.Fatalf("the lab has no SIM %s", sim.ICCID)
		}
		if truth.State != sim.State {
			n++
		}
	}
	return n
}

func (r *rig) fault(f lab.Fault) {
	r.t.Helper()
	if _, err := r.world.SetFault(f); err != nil {
		r.t.Fatal(fmt.Errorf("set fault: %w", err))
	}
}

func itoa(id simwarden.SIMID) string { return strconv.FormatInt(int64(id), 10) }
