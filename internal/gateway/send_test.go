package gateway

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/fault"
)

func TestCommandIsOneRequest(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		sentence string
		answer   func(http.ResponseWriter, *http.Request)
		class    carrier.Class
	}{
		{"C4: a good answer is one request", ok, ""},
		{"S17, F20: the connection dies after the carrier acted: one request, outcome unknown", reset, carrier.ClassUnknownOutcome},
		{"S16: a 500 is one request, outcome unknown", answer(500, `{}`), carrier.ClassUnknownOutcome},
		{"F24: HTML with 200 is one request, outcome unknown", answer(200, `<html>`), carrier.ClassUnknownOutcome},
		{"C4: a redirect is not followed", func(w http.ResponseWriter, req *http.Request) {
			http.Redirect(w, req, "/elsewhere", http.StatusTemporaryRedirect)
		}, carrier.ClassUnknownOutcome},
		{"F40: a refusal that the driver's rules know is terminal", answer(400, `{"code":"RISK"}`), carrier.ClassRiskSuspended},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			s := serve(t, c.answer)
			g := r.gateway(Options{})
			a := r.account(strings.ToLower(t.Name()), "gatewaytest", s.URL)
			// A read first, so that a kept connection is at hand for whoever would reuse it.
			_ = g.Do(t.Context(), a.ID, poll, state)
			before := len(s.log())
			err := g.Do(t.Context(), a.ID, command, suspend)
			got := s.log()[before:]
			if len(got) != 1 {
				t.Errorf("the carrier saw %d requests: one attempt is one request (C4)", len(got))
			}
			if got[0].requestID != "attempt-1" {
				t.Errorf("X-Request-Id is %q, want the attempt's (V2)", got[0].requestID)
			}
			if c.class == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			e := failure(t, err)
			if e.Class != c.class || e.NotSent || e.Account != a.ID || e.Operation != simwarden.OpSuspend {
				t.Errorf("got %+v, want class %s, sent", e, c.class)
			}
			if c.class == carrier.ClassRiskSuspended && (e.Rule != "risk" || !e.ClosePolling || e.Extended != simwarden.ExtendedRiskSuspended) {
				t.Errorf("the matched rule is not in %+v (G6)", e)
			}
		})
	}
}

func TestSecondChangeInOneAttemptIsRefused(t *testing.T) {
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	err := g.Do(t.Context(), a.ID, command, func(ctx context.Context, conn carrier.Conn) error {
		if err := suspend(ctx, conn); err != nil {
			return err
		}
		return suspend(ctx, conn)
	})
	e := failure(t, err)
	if e.NotSent || e.Class != carrier.ClassUnknownOutcome {
		t.Errorf("got %+v: the first request was sent", e)
	}
	if n := len(s.log()); n != 1 {
		t.Errorf("the carrier saw %d requests, want 1 (C4)", n)
	}
}

func TestNotSent(t *testing.T) {
	r := newRig(t)
	closed := serve(t, ok)
	closed.Close()
	hang := serve(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	broken := serve(t, reset)
	good := serve(t, ok)
	for _, c := range []struct {
		sentence string
		url      string
		call     Call
		ctx      func(context.Context) (context.Context, context.CancelFunc)
		notSent  bool
		class    carrier.Class
	}{
		{"a command that finds no connection was not sent", closed.URL, command, context.WithCancel, true, carrier.ClassTemporary},
		{"a read that finds no connection was not sent", closed.URL, poll, context.WithCancel, true, carrier.ClassTemporary},
		{"a command whose answer does not come may have acted", hang.URL, command, within(300 * time.Millisecond), false, carrier.ClassUnknownOutcome},
		{"a read whose answer does not come can be asked again", hang.URL, poll, within(300 * time.Millisecond), false, carrier.ClassTemporary},
		{"a command whose connection breaks may have acted", broken.URL, command, context.WithCancel, false, carrier.ClassUnknownOutcome},
		{"a command whose deadline has passed is not sent", good.URL, command, within(-time.Second), true, carrier.ClassTemporary},
		{"a command that was cancelled before is not sent", good.URL, command, cancelled, true, carrier.ClassTemporary},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			g := r.gateway(Options{})
			a := r.account(t.Name(), "gatewaytest", c.url)
			if err := g.Reload(t.Context()); err != nil {
				t.Fatal(err)
			}
			if _, err := g.Can(t.Context(), a.ID, CanReadUsage); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := c.ctx(t.Context())
			defer cancel()
			fn := state
			if c.call.Operation == simwarden.OpSuspend {
				fn = suspend
			}
			e := failure(t, g.Do(ctx, a.ID, c.call, fn))
			if e.NotSent != c.notSent || e.Class != c.class {
				t.Errorf("got NotSent %v, class %s (%v); want %v, %s", e.NotSent, e.Class, e, c.notSent, c.class)
			}
		})
	}
	if n := len(good.log()); n != 0 {
		t.Errorf("the carrier saw %d requests that were said not to be sent", n)
	}
}

func within(d time.Duration) func(context.Context) (context.Context, context.CancelFunc) {
	return func(ctx context.Context) (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, d) }
}

func cancelled(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	return ctx, cancel
}

func TestNothingIsWrittenAfterTheDeadline(t *testing.T) {
	// F3: the process stands still between the grant and the write, past the claim's end.
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	defer fault.Set("cmd.before_write", func() { <-ctx.Done() })()
	e := failure(t, g.Do(ctx, a.ID, command, suspend))
	if !e.NotSent || len(s.log()) != 0 {
		t.Errorf("NotSent is %v and the carrier saw %d requests; want true and none", e.NotSent, len(s.log()))
	}
}

func TestPointsAreHitInOrder(t *testing.T) {
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	hits := make(chan string, 10)
	want := []string{"cmd.before_connect", "cmd.connected", "cmd.before_write", "cmd.after_write", "cmd.headers_read", "cmd.body_read"}
	for _, name := range want {
		defer fault.Set(name, func() { hits <- name })()
	}
	if err := g.Do(t.Context(), a.ID, command, suspend); err != nil {
		t.Fatal(err)
	}
	// The transport writes in a goroutine of its own: the answer may be read before that goroutine
	// comes to say that it has written.
	patience, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	var got []string
	for len(got) < len(want) {
		select {
		case name := <-hits:
			got = append(got, name)
		case <-patience.Done():
			t.Fatalf("hit %v, want %v", got, want)
		}
	}
	before, after := slices.Index(got, "cmd.before_write"), slices.Index(got, "cmd.after_write")
	if after < before {
		t.Errorf("hit %v: a write was over before it began", got)
	}
	got = slices.Delete(got, after, after+1)
	if rest := slices.DeleteFunc(slices.Clone(want), func(name string) bool { return name == "cmd.after_write" }); !slices.Equal(got, rest) {
		t.Errorf("hit %v, want %v with cmd.after_write after cmd.before_write", got, rest)
	}
}

func TestResentReadIsCounted(t *testing.T) {
	// Go re-sends a GET whose kept connection dies (reliability 3.3).
	r := newRig(t)
	var n atomic.Int32
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if n.Add(1) == 2 {
			reset(w, req)
			return
		}
		ok(w, req)
	})
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	for range 2 {
		if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
			t.Fatal(err)
		}
	}
	seen := int64(len(s.log()))
	if seen != 3 {
		t.Fatalf("the carrier saw %d requests; this test is about the third", seen)
	}
	var counted int64
	stats := r.stats(g, a.ID)
	for key, calls := range stats {
		if _, outcome, _ := strings.Cut(key, " "); IsAttempt(outcome) {
			counted += calls
		}
	}
	if counted != seen {
		t.Errorf("counted %d attempts of %d (G1, V8): %v", counted, seen, stats)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	r := newRig(t)
	t.Run("F25: a body without end is cut", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			block := make([]byte, 64<<10)
			for {
				if _, err := w.Write(block); err != nil {
					return
				}
			}
		})
		g, a := r.gateway(Options{}), r.account("flood", "gatewaytest", s.URL)
		e := failure(t, g.Do(t.Context(), a.ID, command, suspend))
		if !e.BadAnswer || e.Class != carrier.ClassUnknownOutcome {
			t.Errorf("got %+v, want a bad answer of unknown outcome", e)
		}
	})
	t.Run("F25: a body that drips ends with the attempt's time", func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, req *http.Request) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for {
				if _, err := w.Write([]byte(" ")); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-tick.C:
				case <-req.Context().Done():
					return
				}
			}
		})
		g, a := r.gateway(Options{CommandTimeout: 300 * time.Millisecond}), r.account("drip", "gatewaytest", s.URL)
		begun := time.Now()
		e := failure(t, g.Do(t.Context(), a.ID, command, suspend))
		if e.NotSent || e.Class != carrier.ClassUnknownOutcome || time.Since(begun) > 5*time.Second {
			t.Errorf("got %+v after %s", e, time.Since(begun))
		}
	})
	t.Run("F25: headers that do not come end with their own time", func(t *testing.T) {
		s := serve(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
		g, a := r.gateway(Options{HeaderTimeout: 200 * time.Millisecond}), r.account("silent", "gatewaytest", s.URL)
		e := failure(t, g.Do(t.Context(), a.ID, poll, state))
		if e.NotSent || e.Class != carrier.ClassTemporary {
			t.Errorf("got %+v", e)
		}
	})
}

func TestOnlyTheAccountsHosts(t *testing.T) {
	r := newRig(t)
	s, other := serve(t, ok), serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	e := failure(t, g.Do(t.Context(), a.ID, poll, func(ctx context.Context, conn carrier.Conn) error {
		elsewhere := *conn.(*testConn)
		elsewhere.foreign = other.URL
		return state(ctx, &elsewhere)
	}))
	if !e.NotSent || len(other.log()) != 0 {
		t.Errorf("a request went to a host that is not the account's (B16): %v", e)
	}
}

func TestPlainHTTPIsForLoopbackAlone(t *testing.T) {
	r := newRig(t)
	g := r.gateway(Options{DialContext: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a connection was made (B16)")
		return nil, net.ErrClosed
	}})
	a := r.account("a", "gatewaytest", "http://carrier.example")
	e := failure(t, g.Do(t.Context(), a.ID, poll, state))
	if !e.NotSent || e.Class != carrier.ClassStopped || !strings.Contains(e.Error(), "https") {
		t.Errorf("got %v", e)
	}
}
