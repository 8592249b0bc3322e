package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

// worst is the largest number of arrivals in any sliding second: the two-pointer sweep of V7.
func worst(arrivals []arrival) int {
	times := make([]time.Time, len(arrivals))
	for i, a := range arrivals {
		times[i] = a.at
	}
	slices.SortFunc(times, time.Time.Compare)
	most, first := 0, 0
	for last := range times {
		for times[last].Sub(times[first]) >= time.Second {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}

// drive makes calls through all gateways for the time given, with several workers each.
func drive(t *testing.T, d time.Duration, workers int, gateways []*Gateway, call func(context.Context, *Gateway)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var wait sync.WaitGroup
	for _, g := range gateways {
		for range workers {
			wait.Go(func() {
				for ctx.Err() == nil {
					call(ctx, g)
				}
			})
		}
	}
	wait.Wait()
}

func TestNoSlidingSecondIsOverTheLimit(t *testing.T) {
	r := newRig(t)
	for _, perSecond := range []int{5, 50, 400} {
		t.Run(fmt.Sprintf("G4: two nodes, %d a second", perSecond), func(t *testing.T) {
			s := serve(t, ok)
			a := r.account(t.Name(), "gatewaytest", s.URL)
			r.limit(a, simwarden.GroupEnforce, simwarden.OpQueryState, perSecond)
			nodes := []*Gateway{r.gateway(Options{Holder: "a"}), r.gateway(Options{Holder: "b"})}
			const span = 4 * time.Second
			drive(t, span, 6, nodes, func(ctx context.Context, g *Gateway) {
				err := g.Do(ctx, a.ID, poll, state)
				var e *carrier.Error
				if err == nil || ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) {
					return
				}
				if !errors.As(err, &e) || e.Class != carrier.ClassLimited || e.RetryAfter <= 0 {
					t.Errorf("got %v, want limited with a time to come again (G5)", err)
					return
				}
				_ = clock.System().Sleep(ctx, e.RetryAfter) // as it was told
			})
			arrivals := s.log()
			if n := worst(arrivals); n > perSecond {
				t.Errorf("a sliding second saw %d arrivals, the limit is %d (G4)", n, perSecond)
			}
			// How much of the limit is used depends on the machine: `simwarden bench limit` measures it.
			if len(arrivals) == 0 {
				t.Error("nothing went out at all")
			}
			t.Logf("%d arrivals, %d in the worst second", len(arrivals), worst(arrivals))
		})
	}
}

func TestCommandsKeepTheLimitToo(t *testing.T) {
	// Each makes a connection of its own, and takes its permit when that stands.
	r := newRig(t)
	s := serve(t, ok)
	a := r.account("a", "gatewaytest", s.URL)
	r.limit(a, simwarden.GroupEnforce, simwarden.OpSuspend, 40)
	nodes := []*Gateway{r.gateway(Options{}), r.gateway(Options{})}
	drive(t, 3*time.Second, 8, nodes, func(ctx context.Context, g *Gateway) { _ = g.Do(ctx, a.ID, command, suspend) })
	if n := worst(s.log()); n > 40 || len(s.log()) < 80 {
		t.Errorf("%d arrivals, %d in the worst second; the limit is 40 (G4)", len(s.log()), n)
	}
}

func TestMonitorBlocksNothingAndCounts(t *testing.T) {
	// S15
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.limit(a, simwarden.GroupMonitor, simwarden.OpQueryState, 5)
	const calls = 100
	for range calls {
		if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
			t.Fatal(err)
		}
	}
	stats := r.stats(g, a.ID)
	if n := len(s.log()); n != calls || stats["query_state ok"] != calls {
		t.Errorf("the carrier saw %d of %d calls, %d counted", n, calls, stats["query_state ok"])
	}
	if would := stats["query_state would_block"]; would < calls/2 || would >= calls {
		t.Errorf("%d would-be blocks counted of %d calls at once with 5 a second", would, calls)
	}
	if stats["query_state blocked"] != 0 {
		t.Errorf("blocked in monitor: %v", stats)
	}
}

func TestEnforceBlocksPollsAndLetsExemptPass(t *testing.T) {
	// S14
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.limit(a, simwarden.GroupEnforce, simwarden.OpQueryState, 5)
	var wait sync.WaitGroup
	var mu sync.Mutex
	blocked := 0
	for range 1000 {
		wait.Go(func() {
			err := g.Do(t.Context(), a.ID, poll, state)
			if err == nil {
				return
			}
			var e *carrier.Error
			if !errors.As(err, &e) || e.Class != carrier.ClassLimited || !e.NotSent {
				t.Errorf("got %v, want limited and not sent (G5)", err)
			}
			mu.Lock()
			blocked++
			mu.Unlock()
		})
	}
	begun := time.Now()
	manual := poll
	manual.Purpose = simwarden.PurposeManualRefresh
	if err := g.Do(t.Context(), a.ID, manual, state); err != nil {
		t.Errorf("a manual refresh must pass: %v", err)
	}
	if took := time.Since(begun); took > pollWait {
		t.Errorf("a manual refresh took %s: it does not wait for a slot (G2)", took)
	}
	wait.Wait()
	if blocked < 980 {
		t.Errorf("%d of 1,000 polls at once were blocked with 5 a second", blocked)
	}
	stats := r.stats(g, a.ID)
	if stats["query_state blocked"] != int64(blocked) || stats["query_state ok"] != int64(len(s.log())) {
		t.Errorf("counted %v; blocked %d, arrived %d (G9)", stats, blocked, len(s.log()))
	}
}

func TestExemptCallsUseUpWhatOthersCouldHaveHad(t *testing.T) {
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.limit(a, simwarden.GroupEnforce, simwarden.OpQueryState, 10)
	manual := Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposeManual}
	for range 20 {
		if err := g.Do(t.Context(), a.ID, manual, state); err != nil {
			t.Fatal(err)
		}
	}
	e := failure(t, g.Do(t.Context(), a.ID, poll, state))
	if e.Class != carrier.ClassLimited || e.RetryAfter < 200*time.Millisecond {
		t.Errorf("got %v after %s; twenty exempt calls took the slots of two seconds (G4)", e, e.RetryAfter)
	}
}

func TestWhoWaitsIsOrdered(t *testing.T) {
	// G5: commands before polls, then by priority, then who came first.
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.limit(a, simwarden.GroupEnforce, "", 5)
	if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
		t.Fatal(err)
	}
	ln, _, _ := g.limiter.find(a.LimitGroupID, simwarden.OpQueryState)
	var mu sync.Mutex
	var order []string
	var wait sync.WaitGroup
	ask := func(name string, purpose simwarden.Purpose, priority int) {
		ln.mu.Lock()
		before := ln.order
		ln.mu.Unlock()
		wait.Go(func() {
			call := Call{Operation: simwarden.OpQueryState, Purpose: purpose, Priority: priority, Wait: 5 * time.Second}
			err := g.Do(t.Context(), a.ID, call, func(ctx context.Context, conn carrier.Conn) error {
				err := state(ctx, conn)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				return err
			})
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		eventually(t, func() bool { // it has joined the line
			ln.mu.Lock()
			defer ln.mu.Unlock()
			return ln.order > before
		})
	}
	// The first may get the slot at hand; the others wait together.
	ask("first", simwarden.PurposePoll, 0)
	ask("poll", simwarden.PurposePoll, 9)
	ask("poll, more urgent", simwarden.PurposePoll, 10)
	ask("command", simwarden.PurposeCommand, 0)
	ask("command of a paid SIM", simwarden.PurposeCommand, 5)
	wait.Wait()
	want := "command of a paid SIM, command, poll, more urgent, poll"
	got := strings.Join(slices.DeleteFunc(order, func(s string) bool { return s == "first" }), ", ")
	if got != want {
		t.Errorf("served %s; want %s", got, want)
	}
}

// eventually polls until the condition holds.
func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.NewTimer(10 * time.Second)
	defer deadline.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline.C:
			t.Fatal("it did not come about in 10 s")
		}
	}
}

func TestNoDatabaseNoGrant(t *testing.T) {
	// B20: a limit that cannot be asked holds.
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.limit(a, simwarden.GroupEnforce, "", 1000)
	if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
		t.Fatal(err)
	}
	r.store.Close()
	ln, _, _ := g.limiter.find(a.LimitGroupID, simwarden.OpQueryState)
	ln.mu.Lock()
	ln.slots = nil
	ln.mu.Unlock()
	for _, c := range []struct {
		call Call
		fn   func(context.Context, carrier.Conn) error
	}{{poll, state}, {command, suspend}} {
		e := failure(t, g.Do(t.Context(), a.ID, c.call, c.fn))
		if e.Class != carrier.ClassLimited || !e.NotSent || e.RetryAfter <= 0 {
			t.Errorf("%s: got %v, want limited and not sent", c.call.Operation, e)
		}
	}
	if n := len(s.log()); n != 1 {
		t.Errorf("the carrier saw %d requests, want the first alone", n)
	}
}

func TestLimitsChangeWithoutRestart(t *testing.T) {
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{ReloadEvery: 20 * time.Millisecond}), r.account("a", "gatewaytest", s.URL)
	run(t, g)
	r.limit(a, simwarden.GroupEnforce, simwarden.OpQueryState, 1)
	limitedNow := func() bool {
		err := g.Do(t.Context(), a.ID, poll, state)
		var e *carrier.Error
		return errors.As(err, &e) && e.Class == carrier.ClassLimited
	}
	eventually(t, limitedNow)
	r.tx(func(tx *store.Tx) error {
		return tx.SetLimitRate(t.Context(), a.LimitGroupID, simwarden.OpQueryState, 0)
	})
	eventually(t, func() bool { return !limitedNow() })
	r.limit(a, simwarden.GroupEnforce, simwarden.OpQueryState, 1)
	eventually(t, limitedNow)
	r.tx(func(tx *store.Tx) error { return tx.SetGroupMode(t.Context(), a.LimitGroupID, simwarden.GroupMonitor) })
	eventually(t, func() bool { return !limitedNow() })
}

// run runs the gateway until the test ends.
func run(t *testing.T, g *Gateway) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- g.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("run: %v", err)
		}
	})
}

func TestCallsAtATime(t *testing.T) {
	// V7: a carrier that takes one call at a time gets one at a time.
	r := newRig(t)
	var mu sync.Mutex
	underWay, most := 0, 0
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		underWay++
		most = max(most, underWay)
		mu.Unlock()
		defer func() {
			mu.Lock()
			underWay--
			mu.Unlock()
		}()
		ok(w, req)
	})
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest-one", s.URL)
	call := poll
	call.Wait = 10 * time.Second
	var wait sync.WaitGroup
	for range 20 {
		wait.Go(func() {
			if err := g.Do(t.Context(), a.ID, call, state); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if most != 1 || len(s.log()) != 20 {
		t.Errorf("%d calls at a time, %d arrived; want 1 and 20", most, len(s.log()))
	}
}
