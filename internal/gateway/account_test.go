package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
)

func TestAuthFailureStopsTheAccount(t *testing.T) {
	// G8, F35: carriers lock accounts that go on with wrong credentials.
	r := newRig(t)
	var good atomic.Bool
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if good.Load() {
			ok(w, req)
			return
		}
		answer(401, `{"message":"who are you"}`)(w, req)
	})
	a, other := r.account("a", "gatewaytest", s.URL), r.account("other", "gatewaytest", serve(t, ok).URL)
	nodes := []*Gateway{r.gateway(Options{ReloadEvery: 20 * time.Millisecond}), r.gateway(Options{ReloadEvery: 20 * time.Millisecond})}
	run(t, nodes[0])
	run(t, nodes[1])
	if e := failure(t, nodes[0].Do(t.Context(), a.ID, poll, state)); e.Class != carrier.ClassAuth {
		t.Fatalf("got %v, want auth", e)
	}
	for range 5 {
		if e := failure(t, nodes[0].Do(t.Context(), a.ID, command, suspend)); e.Class != carrier.ClassStopped || !e.NotSent {
			t.Errorf("got %v, want stopped and not sent", e)
		}
	}
	if n := len(s.log()); n != 1 {
		t.Errorf("the carrier saw %d requests, want the refused one alone", n)
	}
	if err := nodes[0].Do(t.Context(), other.ID, poll, state); err != nil {
		t.Errorf("another account was stopped too: %v", err)
	}
	alerts, err := r.store.OpenAlerts(t.Context(), 10)
	if err != nil || len(alerts) != 1 || alerts[0].Kind != store.AlertAuth || alerts[0].AccountID != a.ID || alerts[0].Times != 1 {
		t.Errorf("alerts are %+v, %v; want one of the account", alerts, err)
	}
	stoppedAt := func(g *Gateway) bool {
		err := g.Do(t.Context(), a.ID, poll, func(context.Context, carrier.Conn) error { return nil })
		var e *carrier.Error
		return errors.As(err, &e) && e.Class == carrier.ClassStopped
	}
	eventually(t, func() bool { return stoppedAt(nodes[1]) })
	good.Store(true)
	r.tx(func(tx *store.Tx) error { return tx.StartAccount(t.Context(), a.ID) })
	for _, g := range nodes {
		eventually(t, func() bool { return g.Do(t.Context(), a.ID, poll, state) == nil })
	}
}

func TestExpiredTokenStopsNothing(t *testing.T) {
	r := newRig(t)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", serve(t, answer(401, `{}`)).URL)
	e := failure(t, g.Do(t.Context(), a.ID, command, func(ctx context.Context, conn carrier.Conn) error {
		err := suspend(ctx, conn)
		var e *carrier.Error
		if errors.As(err, &e) {
			e.TokenExpired = true
		}
		return err
	}))
	if e.Class != carrier.ClassTemporary {
		t.Errorf("got %v, want temporary: the next attempt logs in anew", e)
	}
	if e := failure(t, g.Do(t.Context(), a.ID, poll, state)); e.Class != carrier.ClassAuth {
		t.Errorf("got %v: the account was stopped for a token that ran out", e)
	}
}

func TestBreaker(t *testing.T) {
	r := newRig(t)
	var sick atomic.Bool
	sick.Store(true)
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if sick.Load() {
			answer(503, `{}`)(w, req)
			return
		}
		ok(w, req)
	})
	g := r.gateway(Options{Breaker: BreakerPolicy{InARow: 5, Rest: 200 * time.Millisecond}})
	a := r.account("a", "gatewaytest", s.URL)
	for range 5 {
		if e := failure(t, g.Do(t.Context(), a.ID, poll, state)); e.Class != carrier.ClassTemporary {
			t.Fatalf("got %v", e)
		}
	}
	e := failure(t, g.Do(t.Context(), a.ID, command, suspend))
	if e.Class != carrier.ClassStopped || !e.NotSent || e.RetryAfter <= 0 || e.RetryAfter > 200*time.Millisecond {
		t.Errorf("got %v, retry after %s; want a rest of up to 200 ms (G8)", e, e.RetryAfter)
	}
	if n := len(s.log()); n != 5 {
		t.Errorf("the carrier saw %d requests, want 5", n)
	}
	// Probed once, still sick: another rest.
	eventually(t, func() bool { _ = g.Do(t.Context(), a.ID, poll, state); return len(s.log()) > 5 })
	if e := failure(t, g.Do(t.Context(), a.ID, poll, state)); e.Class != carrier.ClassStopped {
		t.Errorf("got %v after a bad probe, want stopped", e)
	}
	// Probed by single calls, and closed after three good ones.
	sick.Store(false)
	eventually(t, func() bool { return g.Do(t.Context(), a.ID, poll, state) == nil })
	err := g.Do(t.Context(), a.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
		if e := failure(t, g.Do(ctx, a.ID, poll, state)); e.Class != carrier.ClassStopped {
			t.Errorf("got %v: two probes at a time", e)
		}
		return state(ctx, conn)
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
			t.Fatal(err)
		}
	}
}

func TestBreakerOpensByShare(t *testing.T) {
	for _, c := range []struct {
		sentence   string
		bad, calls int
		open       bool
	}{
		{"three of five calls fail, in a row of at most three", 3, 60, true},
		{"two of five calls fail", 2, 200, false},
		{"three of five fail, but there were few calls", 3, 45, false},
	} {
		b := newBreaker(DefaultBreaker(), "a", slog.New(slog.DiscardHandler))
		for i := range c.calls {
			settle, _, ok := b.allow()
			if !ok {
				break
			}
			settle(map[bool]result{true: resultBad, false: resultGood}[i%5 < c.bad])
		}
		if _, _, ok := b.allow(); ok == c.open {
			t.Errorf("%s: open is %v, want %v", c.sentence, !ok, c.open)
		}
	}
}

func TestStopThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	// G8: an account stays stopped while the database is away, and after.
	r := newRig(t)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", serve(t, ok).URL)
	if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
		t.Fatal(err)
	}
	acc := g.known(a.ID)
	acc.stopped.Store(&stopped{because: "the carrier refuses the credentials", unsaved: true})
	acc.set(a, acc.stops.Load()) // a reading that does not know of it
	if e := failure(t, g.Do(t.Context(), a.ID, poll, state)); e.Class != carrier.ClassStopped {
		t.Errorf("got %v, want stopped", e)
	}
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	row, err := r.store.Account(t.Context(), a.ID)
	if err != nil || row.StoppedAt.IsZero() {
		t.Errorf("the database says stopped at %v, %v", row.StoppedAt, err)
	}
	if alerts, err := r.store.OpenAlerts(t.Context(), 10); err != nil || len(alerts) != 1 {
		t.Errorf("alerts are %+v, %v; want one", alerts, err)
	}
}

func TestRefusalsDoNotOpenTheBreaker(t *testing.T) {
	r := newRig(t)
	for status, sentence := range map[int]string{429: "throttling", 400: "a refusal", 404: "an unknown SIM"} {
		t.Run(sentence, func(t *testing.T) {
			g := r.gateway(Options{Breaker: BreakerPolicy{InARow: 3}})
			a := r.account(t.Name(), "gatewaytest", serve(t, answer(status, `{}`)).URL)
			for range 10 {
				if e := failure(t, g.Do(t.Context(), a.ID, poll, state)); e.Class == carrier.ClassStopped {
					t.Fatalf("%s opened the breaker", sentence)
				}
			}
		})
	}
}

func TestNoSecretGetsOut(t *testing.T) {
	// V20: the canary is in the answer's message, code and headers, and in a broken URL.
	r := newRig(t)
	const msisdn = "8613800138000"
	s := serve(t, answer(400, fmt.Sprintf(`{"code":"E-%s","message":"token %s of +%s refused, see https://carrier.example/x/%s?key=abc123 %s"}`,
		password, password, msisdn, password, strings.Repeat("x", 2000))))
	reg := prometheus.NewRegistry()
	g, a := r.gateway(Options{Registerer: reg}), r.account("a", "gatewaytest", s.URL)
	broken := serve(t, reset)
	b := r.account("b", "gatewaytest", broken.URL+"/"+password)
	locked := r.account("c", "gatewaytest", serve(t, answer(401, `{"message":"`+password+`"}`)).URL)
	var texts []string
	for _, id := range []simwarden.AccountID{a.ID, b.ID, locked.ID} {
		for _, fn := range []func(context.Context, carrier.Conn) error{state, suspend} {
			e := failure(t, g.Do(t.Context(), id, command, fn))
			texts = append(texts, e.Error(), fmt.Sprintf("%+v", e), fmt.Sprint(e.Unwrap()))
			if len(e.Message) > maxMessageBytes {
				t.Errorf("a message has %d bytes", len(e.Message))
			}
		}
	}
	foreign := failure(t, g.Do(t.Context(), a.ID, poll, func(context.Context, carrier.Conn) error {
		return fmt.Errorf("get \"https://user:%s@carrier.example/path?token=%s\": no", password, password)
	}))
	texts = append(texts, foreign.Error(), r.logs.String())
	alerts, err := r.store.OpenAlerts(t.Context(), 10)
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, fmt.Sprintf("%+v", alerts))
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	texts = append(texts, fmt.Sprint(families))
	for _, text := range texts {
		for _, canary := range []string{password, msisdn, "abc123", "/path"} {
			if strings.Contains(text, canary) {
				t.Errorf("%q is in %q (V20)", canary, text)
			}
		}
	}
}

func TestCredentialsChangeWithoutRestart(t *testing.T) {
	r := newRig(t)
	var last atomic.Value
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		last.Store(req.Header.Get("Authorization"))
		ok(w, req)
	})
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	conn := func() carrier.Conn {
		t.Helper()
		var out carrier.Conn
		err := g.Do(t.Context(), a.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
			out = conn
			return state(ctx, conn)
		})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	first := conn()
	// Another setting, and the same credential sealed anew: the login is kept.
	r.tx(func(tx *store.Tx) error {
		if err := tx.SetCredential(t.Context(), a.ID, r.seal(a.ID, password)); err != nil {
			return err
		}
		return tx.SetAccountMode(t.Context(), a.ID, simwarden.ModeAct)
	})
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn() != first {
		t.Error("the connection, and its token, was thrown away for nothing")
	}
	r.tx(func(tx *store.Tx) error { return tx.SetCredential(t.Context(), a.ID, r.seal(a.ID, "another-secret")) })
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if conn() == first || last.Load() != "Bearer another-secret" {
		t.Errorf("the new credential is not used: %v", last.Load())
	}
	kept := conn()
	g.Drop(a.ID)
	if conn() == kept {
		t.Error("Drop kept the connection")
	}
}

func TestAccountsThatCannotBeOpened(t *testing.T) {
	r := newRig(t)
	g := r.gateway(Options{})
	bare := r.account("bare", "gatewaytest", "https://carrier.invalid")
	r.tx(func(tx *store.Tx) error { return tx.SetCredential(t.Context(), bare.ID, nil) })
	for sentence, id := range map[string]simwarden.AccountID{
		"password is missing": bare.ID,
		"no carrier driver":   r.account("odd", "no-such-driver", "").ID,
		"not found":           99999,
	} {
		e := failure(t, g.Do(t.Context(), id, poll, state))
		if e.Class != carrier.ClassStopped || !e.NotSent || !strings.Contains(e.Error(), sentence) {
			t.Errorf("got %v, want it to say %q", e, sentence)
		}
	}
	// The right credential works as soon as the settings were read again.
	r.tx(func(tx *store.Tx) error {
		return tx.SetCredential(t.Context(), bare.ID, r.seal(bare.ID, password))
	})
	if err := g.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Can(t.Context(), bare.ID, CanList); err != nil {
		t.Errorf("the account still cannot be opened: %v", err)
	}
	if _, err := g.Info(99999); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Info gives %v, want not found", err)
	}
}

func TestTesterAndGatewayAgree(t *testing.T) {
	// S25, G6, G7
	r := newRig(t)
	s := serve(t, answer(409, `{"code":"X7","message":"line is resting"}`))
	g, a := r.gateway(Options{ReloadEvery: 20 * time.Millisecond}), r.account("a", "gatewaytest", s.URL)
	run(t, g)
	ask := func() Test {
		t.Helper()
		out, err := g.TestRule(t.Context(), "gatewaytest", simwarden.OpSuspend, 409, "X7", "line is resting")
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	if c := ask(); c.Class != carrier.ClassUnknownOutcome {
		t.Fatalf("got %+v before there is a rule", c)
	}
	r.tx(func(tx *store.Tx) error {
		_, err := tx.PutErrorRule(t.Context(), store.ErrorRule{Driver: "gatewaytest", Position: 1,
			Rule: carrier.Rule{Name: "resting", Contains: "resting", Class: carrier.ClassInProgress, NotExecuted: true, RetryAfterMin: 7 * time.Second}})
		return err
	})
	test := ask()
	e := failure(t, g.Do(t.Context(), a.ID, command, suspend))
	if test.Class != carrier.ClassInProgress || e.Class != test.Class || e.Rule != "resting" || test.Rule == nil || test.Rule.Name != e.Rule || e.RetryAfter != test.RetryAfter {
		t.Errorf("the tester says %+v, the gateway %+v", test, e)
	}
	if _, err := g.TestRule(t.Context(), "no-such-driver", simwarden.OpSuspend, 409, "", ""); err == nil {
		t.Error("a driver that is not there was tested")
	}
}

func TestP5WhatNoAnswerSaidClosesNoPolling(t *testing.T) {
	r := newRig(t)
	s := serve(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.tx(func(tx *store.Tx) error { // matches whatever says so, also our own words for a call that ran out of time
		_, err := tx.PutErrorRule(t.Context(), store.ErrorRule{Driver: "gatewaytest", Position: 1, Rule: carrier.Rule{Name: "anything", Pattern: ".*",
			Class: carrier.ClassRiskSuspended, Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true, NotExecuted: true}})
		return err
	})
	for _, c := range []struct {
		call Call
		fn   func(context.Context, carrier.Conn) error
		want carrier.Class
	}{{poll, state, carrier.ClassRiskSuspended}, {command, suspend, carrier.ClassUnknownOutcome}} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		e := failure(t, g.Do(ctx, a.ID, c.call, c.fn))
		cancel()
		if e.Rule != "anything" || e.Class != c.want || e.HTTPStatus != 0 {
			t.Errorf("got %+v, want class %s by the rule", e, c.want)
		}
		if e.ClosePolling || e.Extended != "" || e.NotExecuted {
			t.Errorf("F24: the carrier said nothing of the SIM, yet it is %q, closed %v, not executed %v", e.Extended, e.ClosePolling, e.NotExecuted)
		}
	}
}

func TestTLS(t *testing.T) {
	r := newRig(t)
	s := httptest.NewTLSServer(http.HandlerFunc(ok))
	t.Cleanup(s.Close)
	a := r.account("a", "gatewaytest", s.URL)
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	trusting := r.gateway(Options{RootCAs: pool})
	for _, call := range []struct {
		call Call
		fn   func(context.Context, carrier.Conn) error
	}{{poll, state}, {poll, state}, {command, suspend}} {
		if err := trusting.Do(t.Context(), a.ID, call.call, call.fn); err != nil {
			t.Error(err)
		}
	}
	// F37: no fallback, and nothing was sent.
	e := failure(t, r.gateway(Options{}).Do(t.Context(), a.ID, command, suspend))
	if !e.NotSent || e.Class != carrier.ClassTemporary || !strings.Contains(e.Message, "certificate") {
		t.Errorf("got %v", e)
	}
}

func TestCan(t *testing.T) {
	r := newRig(t)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", "https://carrier.invalid")
	for what, want := range map[Capability]bool{CanReadUsage: true, CanList: false, CanListUsage: false, CanResolve: false, CanReadRealName: false} {
		if got, err := g.Can(t.Context(), a.ID, what); err != nil || got != want {
			t.Errorf("can %s: got %v, %v; want %v", what, got, err, want)
		}
	}
}

func TestStatisticsSurviveADatabaseThatIsAway(t *testing.T) {
	// G9, F9: what could not be written is written later.
	r := newRig(t)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", serve(t, ok).URL)
	if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Flush(gone); err == nil {
		t.Fatal("a flush without a database worked")
	}
	if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
		t.Fatal(err)
	}
	if stats := r.stats(g, a.ID); stats["query_state ok"] != 2 {
		t.Errorf("counted %v, want 2", stats)
	}
}
