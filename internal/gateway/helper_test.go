package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func init() {
	carrier.Register("gatewaytest", testDriver{})
	carrier.Register("gatewaytest-one", testDriver{maxConcurrent: 1})
}

// testDriver speaks to the test's own servers: GET /state, POST /suspend, POST /login.
type testDriver struct{ maxConcurrent int }

func (d testDriver) Info() carrier.Info {
	return carrier.Info{Name: "gatewaytest", Title: "Gateway test", DefaultBaseURL: "https://carrier.invalid",
		Hosts:       []string{"carrier.invalid"},
		Credentials: []carrier.Field{{Name: "password", Required: true, Secret: true}}, MaxConcurrent: d.maxConcurrent,
		Rules: []carrier.Rule{
			{Name: "risk", Code: "RISK", Class: carrier.ClassRiskSuspended, Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true, NotExecuted: true},
			{Name: "busy", Code: "BUSY", Class: carrier.ClassInProgress, NotExecuted: true},
		}}
}

func (d testDriver) Open(cfg carrier.Config) (carrier.Conn, error) {
	if cfg.Credentials["password"] == "" {
		return nil, errors.New("open: credential password is missing")
	}
	return &testConn{cfg: cfg}, nil
}

type testConn struct {
	cfg carrier.Config
	// foreign is where State asks instead of the base URL.
	foreign string
}

func (c *testConn) do(ctx context.Context, op simwarden.Operation, method, path string) error {
	base := c.cfg.BaseURL
	if c.foreign != "" {
		base = c.foreign
	}
	req, err := http.NewRequestWithContext(ctx, method, base+path, nil)
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+c.cfg.Credentials["password"])
	ans, err := c.cfg.Fetch(req, op)
	if err != nil {
		return err
	}
	if !ans.OK() {
		return ans.Refusal(op)
	}
	if !json.Valid(ans.Body) {
		return carrier.BadAnswer(op, ans.Status, errors.New("not JSON"))
	}
	return nil
}

func (c *testConn) State(ctx context.Context, _ carrier.SIMRef) (simwarden.Reading, error) {
	return simwarden.Reading{}, c.do(ctx, simwarden.OpQueryState, http.MethodGet, "/state")
}

func (c *testConn) Usage(ctx context.Context, _ carrier.SIMRef) (simwarden.Reading, error) {
	return simwarden.Reading{}, c.do(ctx, simwarden.OpQueryUsage, http.MethodGet, "/usage")
}

func (c *testConn) Suspend(ctx context.Context, _ carrier.SIMRef) (carrier.Result, error) {
	return carrier.Result{Outcome: carrier.Done}, c.do(ctx, simwarden.OpSuspend, http.MethodPost, "/suspend")
}

func (c *testConn) Resume(ctx context.Context, _ carrier.SIMRef) (carrier.Result, error) {
	return carrier.Result{Outcome: carrier.Done}, c.do(ctx, simwarden.OpResume, http.MethodPost, "/resume")
}

func (c *testConn) Probe(ctx context.Context) error {
	return c.do(ctx, simwarden.OpToken, http.MethodPost, "/login")
}

// password is the credential of every test account, and the canary that must be seen nowhere.
const password = "canary-4f1d09c2-secret"

// rig is a database, a carrier and gateways between them.
type rig struct {
	t       *testing.T
	store   *store.Store
	keyring *secret.Keyring
	logs    *storetest.Log
}

func newRig(t *testing.T) *rig {
	t.Helper()
	s, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, store.Migrate)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return &rig{t: t, store: s, keyring: testKeyring(t), logs: &storetest.Log{}}
}

// gateway makes a node's gateway.
func (r *rig) gateway(o Options) *Gateway {
	r.t.Helper()
	o.Store, o.Keyring, o.AllowLoopback = r.store, r.keyring, true
	o.Log = slog.New(slog.NewTextHandler(r.logs, nil))
	g, err := New(o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(g.clients.close)
	return g
}

// account adds an account that calls the server.
func (r *rig) account(name, driver, baseURL string) store.Account {
	r.t.Helper()
	var a store.Account
	r.tx(func(tx *store.Tx) error {
		var err error
		if a, err = tx.AddAccount(r.t.Context(), store.Account{Name: name, Driver: driver, BaseURL: baseURL}); err != nil {
			return err
		}
		return tx.SetCredential(r.t.Context(), a.ID, r.seal(a.ID, password))
	})
	return a
}

func (r *rig) seal(id simwarden.AccountID, password string) []byte {
	r.t.Helper()
	plain, err := json.Marshal(map[string]string{"password": password})
	if err != nil {
		r.t.Fatal(err)
	}
	sealed, err := r.keyring.Seal("account", strconv.FormatInt(int64(id), 10), plain)
	if err != nil {
		r.t.Fatal(err)
	}
	return sealed
}

func (r *rig) tx(fn func(*store.Tx) error) {
	r.t.Helper()
	if err := r.store.InTx(r.t.Context(), fn); err != nil {
		r.t.Fatal(err)
	}
}

// limit sets an account's group: mode, and one limit for an operation.
func (r *rig) limit(a store.Account, mode simwarden.GroupMode, op simwarden.Operation, perSecond int) {
	r.t.Helper()
	r.tx(func(tx *store.Tx) error {
		if err := tx.SetLimitRate(r.t.Context(), a.LimitGroupID, op, perSecond); err != nil {
			return err
		}
		return tx.SetGroupMode(r.t.Context(), a.LimitGroupID, mode)
	})
}

// stats gives the counts of an account by operation and outcome, all minutes together.
func (r *rig) stats(g *Gateway, id simwarden.AccountID) map[string]int64 {
	r.t.Helper()
	if err := g.Flush(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	now := time.Now()
	rows, err := r.store.CallStats(r.t.Context(), store.CallStatFilter{AccountID: id, FromAt: now.Add(-time.Hour), UntilAt: now.Add(time.Hour), Limit: 1000})
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]int64{}
	for _, row := range rows {
		out[string(row.Operation)+" "+row.Outcome] += row.Calls
	}
	return out
}

// arrival is one request that the test's carrier has read to its end.
type arrival struct {
	at        time.Time
	path      string
	requestID string
}

// server is a carrier of the test: it logs each request and answers as told.
type server struct {
	*httptest.Server
	mu       sync.Mutex
	arrivals []arrival
}

// serve starts a carrier whose answers fn gives.
func serve(t *testing.T, fn func(w http.ResponseWriter, r *http.Request)) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.arrivals = append(s.arrivals, arrival{time.Now(), r.URL.Path, r.Header.Get("X-Request-Id")})
		s.mu.Unlock()
		fn(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *server) log() []arrival {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]arrival(nil), s.arrivals...)
}

func ok(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{}`)) }

// answer answers with a status and a body.
func answer(status int, body string) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// reset breaks the connection with RST, after the request was read.
func reset(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	if tcp, ok := conn.(interface{ SetLinger(int) error }); ok {
		_ = tcp.SetLinger(0)
	}
	_ = conn.Close()
}

func state(ctx context.Context, conn carrier.Conn) error {
	_, err := conn.State(ctx, carrier.SIMRef{})
	return err
}

func suspend(ctx context.Context, conn carrier.Conn) error {
	_, err := conn.Suspend(ctx, carrier.SIMRef{})
	return err
}

var (
	poll    = Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposePoll}
	command = Call{Operation: simwarden.OpSuspend, Purpose: simwarden.PurposeCommand, RequestID: "attempt-1"}
)

// failure makes the call and gives its *carrier.Error.
func failure(t *testing.T, err error) *carrier.Error {
	t.Helper()
	var e *carrier.Error
	if !errors.As(err, &e) {
		t.Fatalf("want a *carrier.Error (G6), got %v", err)
	}
	if e.Class == "" {
		t.Fatalf("the error has no class (G6): %v", e)
	}
	return e
}

func testKeyring(t testing.TB) *secret.Keyring {
	t.Helper()
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}
