package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	_ "github.com/simwarden/simwarden/carrier/supersim"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// world is the API over a real database; time stands still until it is moved. Each answer is held
// against the API's own OpenAPI document.
type world struct {
	t       *testing.T
	store   *store.Store
	clock   *clock.Manual
	service *api.Service
	server  *httptest.Server
	url     string
	router  routers.Router
	doc     *openapi3.T
	token   string
	log     *storetest.Log
	ready   error
	sweeper *plans.Sweeper
	eval    *evaluator.Evaluator
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewManual(noon), log: &storetest.Log{}}
	url := storetest.URL(t, store.Migrate)
	s, err := store.Open(t.Context(), store.Options{URL: url, Clock: w.clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	if err != nil {
		t.Fatal(err)
	}
	w.store, w.url = s, url
	w.service = &api.Service{Store: s, Clock: w.clock, Keyring: ring}
	discard := slog.New(slog.DiscardHandler)
	w.sweeper = &plans.Sweeper{Store: s, Clock: w.clock, Log: discard}
	w.eval = &evaluator.Evaluator{Store: s, Clock: w.clock, Log: discard, Holder: "test"}
	registry := prometheus.NewRegistry()
	registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "simwarden_test_total"}))
	handler, err := api.NewHandler(api.Options{Service: w.service, Registry: registry, Ready: func(context.Context) error { return w.ready },
		Log: slog.New(slog.NewTextHandler(w.log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	w.server = httptest.NewServer(handler)
	t.Cleanup(w.server.Close)
	made, err := w.service.CreateToken(t.Context(), "anna", "cli:test")
	if err != nil {
		t.Fatal(err)
	}
	w.token = made.Text
	w.loadDocument()
	return w
}

func (w *world) loadDocument() {
	w.t.Helper()
	status, _, text := w.send(http.MethodGet, "/api/v1/openapi.json", w.token, nil, nil)
	if status != http.StatusOK {
		w.t.Fatalf("the OpenAPI document: HTTP %d: %s", status, text)
	}
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		w.t.Fatalf("the OpenAPI document: %v", err)
	}
	w.doc = doc
	if w.router, err = gorillamux.NewRouter(doc); err != nil {
		w.t.Fatal(err)
	}
}

// send makes one request as it is given.
func (w *world) send(method, path, token string, header map[string]string, body []byte) (int, http.Header, []byte) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, v := range header {
		req.Header.Set(name, v)
	}
	res, err := w.server.Client().Do(req)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res.StatusCode, res.Header, text
}

// call makes a request as a bearer of the token, holds the answer against the document, and gives
// the decoded body.
func (w *world) call(method, path string, body any) (int, map[string]any) {
	w.t.Helper()
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			w.t.Fatal(err)
		}
	}
	status, header, answer := w.send(method, path, w.token, nil, text)
	w.holdAgainstDocument(method, path, status, header, answer)
	out := map[string]any{}
	if err := json.Unmarshal(answer, &out); err != nil {
		w.t.Fatalf("%s %s: HTTP %d is no JSON object: %s", method, path, status, answer)
	}
	return status, out
}

func (w *world) holdAgainstDocument(method, path string, status int, header http.Header, answer []byte) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	route, params, err := w.router.FindRoute(req)
	if err != nil {
		w.t.Fatalf("%s %s is not in the document: %v", method, path, err)
	}
	input := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
		Status:                 status, Header: header, Body: io.NopCloser(bytes.NewReader(answer)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateResponse(w.t.Context(), input); err != nil {
		w.t.Errorf("%s %s: HTTP %d is not as the document says: %v\n%.2000s", method, path, status, err, answer)
	}
}

// want calls and fails unless the status is the wanted one.
func (w *world) want(status int, method, path string, body any) map[string]any {
	w.t.Helper()
	got, out := w.call(method, path, body)
	if got != status {
		w.t.Fatalf("%s %s: HTTP %d, want %d: %v", method, path, got, status, out)
	}
	return out
}

func (w *world) tx(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	if err := w.store.InTx(w.t.Context(), func(tx *store.Tx) error { return fn(w.t.Context(), tx) }); err != nil {
		w.t.Fatal(err)
	}
}

// account adds an account with credentials that are invented.
func (w *world) account(name string, change func(*api.NewAccount)) store.Account {
	w.t.Helper()
	n := api.NewAccount{Name: name, Driver: "soracom", Credentials: map[string]secret.Secret{
		"auth_key_id": secret.New("keyId-invented"), "auth_key": secret.New("secret-invented-0000")}}
	if change != nil {
		change(&n)
	}
	a, err := w.service.AddAccount(w.t.Context(), n, "cli:test")
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func numbered(n int) simwarden.ICCID {
	return simwarden.MustParseICCID(fmt.Sprintf("898600000000%07d", n))
}

// sims adds SIMs numbered from first.
func (w *world) sims(a store.Account, first, n int) []simwarden.SIMID {
	w.t.Helper()
	list := make([]store.NewSIM, n)
	for i := range list {
		list[i] = store.NewSIM{ICCID: numbered(first + i), Raw: numbered(first + i).String()}
	}
	var ids []simwarden.SIMID
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		ids, err = tx.AddSIMs(ctx, a, list, 0)
		return err
	})
	return ids
}

// sim adds one SIM that has been read in the state.
func (w *world) sim(a store.Account, n int, state simwarden.State) simwarden.SIMID {
	w.t.Helper()
	id := w.sims(a, n, 1)[0]
	w.observe(id, state)
	return id
}

func (w *world) observe(id simwarden.SIMID, state simwarden.State) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Observe(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: w.clock.Now(),
			State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone, Raw: string(state)}}}})
		return err
	})
}

func (w *world) plan(code string, allowance int64, days int) simwarden.Plan {
	w.t.Helper()
	p, err := w.service.AddPlan(w.t.Context(), simwarden.Plan{Code: code, Kind: simwarden.PlanMain, AllowanceBytes: allowance,
		ValidityUnit: simwarden.ValidityDays, ValidityCount: days, Reset: simwarden.ResetNone, Zone: "UTC"}, "cli:test")
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

// settle works everything off that is due now.
func (w *world) settle() {
	w.t.Helper()
	for range 100 {
		a, err := w.sweeper.Sweep(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		b, err := w.eval.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if a+b == 0 {
			return
		}
	}
	w.t.Fatal("evaluations go on for ever")
}

// rows counts with SQL of its own: what is in the database, not what our code says of it.
func (w *world) rows(query string, args ...any) int {
	w.t.Helper()
	var n int
	w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.QueryRow(ctx, query, args...).Scan(&n) })
	return n
}

// at follows keys and indexes into decoded JSON.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok {
				t.Fatalf("%v: no object at %q", path, key)
			}
			v = m[key]
		case int:
			list, ok := v.([]any)
			if !ok || key >= len(list) {
				t.Fatalf("%v: no item %d in %v", path, key, v)
			}
			v = list[key]
		}
	}
	return v
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s lacks %q: %s", what, part, text)
		}
	}
}
