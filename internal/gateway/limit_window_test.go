package gateway

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
)

// window sets a longer limit of an account's group, which enforces.
func (r *rig) window(a store.Account, w store.LimitWindow) {
	r.t.Helper()
	r.tx(func(tx *store.Tx) error {
		if err := tx.SetLimitWindow(r.t.Context(), a.LimitGroupID, w); err != nil {
			return err
		}
		return tx.SetGroupMode(r.t.Context(), a.LimitGroupID, simwarden.GroupEnforce)
	})
}

// crowd counts how many requests are under way at a time.
type crowd struct {
	mu             sync.Mutex
	underWay, most int
}

func (c *crowd) answer(took time.Duration) func(http.ResponseWriter, *http.Request) {
	return func(w http.ResponseWriter, req *http.Request) {
		c.mu.Lock()
		c.underWay++
		c.most = max(c.most, c.underWay)
		c.mu.Unlock()
		timer := time.NewTimer(took)
		defer timer.Stop()
		<-timer.C
		c.mu.Lock()
		c.underWay--
		c.mu.Unlock()
		ok(w, req)
	}
}

func TestAWindowThatIsUsedUpHoldsAndSaysUntilWhen(t *testing.T) {
	// G2, F36: two nodes share a day's quota; polls leave a tenth of it to commands.
	r := newRig(t)
	s := serve(t, ok)
	a := r.account("a", "gatewaytest", s.URL)
	const calls = 40
	r.window(a, store.LimitWindow{Seconds: 86400, Calls: calls})
	nodes := []*Gateway{r.gateway(Options{Holder: "a"}), r.gateway(Options{Holder: "b"})}
	asking := func(purpose simwarden.Purpose) (passed int, last *carrier.Error) {
		call := poll
		call.Purpose = purpose
		for quiet := 0; quiet < 6; { // a node may still have slots that it brings back
			for _, g := range nodes {
				err := g.Do(t.Context(), a.ID, call, state)
				if err == nil {
					passed, quiet = passed+1, 0
					continue
				}
				last = failure(t, err)
				quiet++
				g.limiter.bringBack()
			}
		}
		return passed, last
	}
	polls, e := asking(simwarden.PurposePoll)
	if polls < calls*8/10 || polls > calls*9/10 {
		t.Errorf("%d polls passed of a quota of %d, a tenth of which is kept for commands", polls, calls)
	}
	if e.Class != carrier.ClassLimited || !e.NotSent || !strings.Contains(e.Message, "quota") || e.RetryAfter < 22*time.Hour || e.RetryAfter > 25*time.Hour {
		t.Errorf("a poll got %v, to come again after %s; want about a day (G5)", e, e.RetryAfter)
	}
	commands, e := asking(simwarden.PurposeCommand)
	if commands < calls/10 || polls+commands > calls || e.Class != carrier.ClassLimited || e.RetryAfter < 22*time.Hour {
		t.Errorf("%d commands passed after %d polls, then %v", commands, polls, e)
	}
	if n := len(s.log()); n > calls {
		t.Errorf("the carrier saw %d requests, the limit is %d (V7)", n, calls)
	}
	manual := Call{Operation: simwarden.OpQueryState, Purpose: simwarden.PurposeManualRefresh}
	if err := nodes[0].Do(t.Context(), a.ID, manual, state); err != nil {
		t.Errorf("a person's click passes: %v", err)
	}
	r.tx(func(tx *store.Tx) error {
		_, err := tx.DropLimitWindow(t.Context(), a.LimitGroupID, "", 24*time.Hour)
		return err
	})
	for _, g := range nodes {
		if err := g.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
			t.Errorf("a limit that was taken away still holds: %v", err)
		}
	}
}

func TestUnusedSlotsComeBack(t *testing.T) {
	// A day's quota is used by calls, not by slots that nobody took.
	r := newRig(t)
	s := serve(t, ok)
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.window(a, store.LimitWindow{Seconds: 86400, Calls: 1000})
	r.limit(a, simwarden.GroupEnforce, simwarden.OpSuspend, 100)
	for range 40 {
		if err := g.Do(t.Context(), a.ID, command, suspend); err != nil {
			t.Fatal(err)
		}
	}
	used := func() int { // asked for by other operations, which share the day
		all, err := r.store.TakeSlots(t.Context(), store.SlotAsk{Group: a.LimitGroupID, Commands: 1000, Span: time.Second, Within: 15 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		back := []store.SlotsBack{{LeaseAt: all.FirstAt, Slots: all.Slots}}
		if _, err = r.store.TakeSlots(t.Context(), store.SlotAsk{Group: a.LimitGroupID, Back: back}); err != nil {
			t.Fatal(err)
		}
		return 1000 - all.Slots
	}
	eventually(t, func() bool {
		g.limiter.bringBack()
		return used() == 40
	})
	if n := len(s.log()); n != 40 {
		t.Errorf("the carrier saw %d requests, want 40", n)
	}
}

func TestCallsAtATimeOverAllNodes(t *testing.T) {
	// V7, F39: the cap of the driver for an account, and that of the group, hold for all nodes together;
	// each node has its turn.
	for _, tc := range []struct {
		name, driver string
		group, most  int
	}{
		{"the driver declares one at a time", "gatewaytest-one", 0, 1},
		{"the group has three at a time", "gatewaytest", 3, 3},
		{"the smaller of both holds", "gatewaytest-one", 3, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t)
			c := &crowd{}
			s := serve(t, c.answer(20*time.Millisecond))
			a := r.account("a", tc.driver, s.URL)
			r.tx(func(tx *store.Tx) error {
				if err := tx.SetGroupConcurrent(t.Context(), a.LimitGroupID, tc.group); err != nil {
					return err
				}
				return tx.SetGroupMode(t.Context(), a.LimitGroupID, simwarden.GroupEnforce)
			})
			call := poll
			call.Wait = 30 * time.Second
			var wait sync.WaitGroup
			for _, g := range []*Gateway{r.gateway(Options{}), r.gateway(Options{})} {
				for range 20 {
					wait.Go(func() {
						if err := g.Do(t.Context(), a.ID, call, state); err != nil {
							t.Error(err)
						}
					})
				}
			}
			wait.Wait()
			if c.most != tc.most || len(s.log()) != 40 {
				t.Errorf("%d calls at a time, %d arrived; want %d and 40", c.most, len(s.log()), tc.most)
			}
		})
	}
}

func TestCallsAtATimeInMonitorHoldNothingBack(t *testing.T) {
	r := newRig(t)
	c := &crowd{}
	s := serve(t, c.answer(300*time.Millisecond))
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest", s.URL)
	r.tx(func(tx *store.Tx) error { return tx.SetGroupConcurrent(t.Context(), a.LimitGroupID, 1) })
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			if err := g.Do(t.Context(), a.ID, poll, state); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if stats := r.stats(g, a.ID); c.most < 2 || stats["query_state would_block"] == 0 {
		t.Errorf("%d at a time, counted %v; monitor holds nothing back and counts (G3)", c.most, stats)
	}
}

func TestPlacesAreGivenToCommandsFirst(t *testing.T) {
	// G5: who waits for a place is ordered like who waits for a slot.
	r := newRig(t)
	held := make(chan struct{})
	s := serve(t, func(w http.ResponseWriter, req *http.Request) {
		<-held
		ok(w, req)
	})
	g, a := r.gateway(Options{}), r.account("a", "gatewaytest-one", s.URL)
	var mu sync.Mutex
	var order []string
	var wait sync.WaitGroup
	ask := func(name string, purpose simwarden.Purpose, priority int) {
		wait.Go(func() {
			call := Call{Operation: simwarden.OpQueryState, Purpose: purpose, Priority: priority, Wait: 20 * time.Second}
			if err := g.Do(t.Context(), a.ID, call, func(ctx context.Context, conn carrier.Conn) error {
				err := state(ctx, conn)
				mu.Lock()
				order = append(order, name)
				mu.Unlock()
				return err
			}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	places := g.placer.of(accountPlaces(a.ID))
	waiting := func(n int) func() bool {
		return func() bool {
			places.mu.Lock()
			defer places.mu.Unlock()
			return places.waiting.Len() == n && places.inUse == 1
		}
	}
	ask("first", simwarden.PurposePoll, 0)
	eventually(t, waiting(0))
	for i, who := range []struct {
		name     string
		purpose  simwarden.Purpose
		priority int
	}{{"poll", simwarden.PurposePoll, 9}, {"command", simwarden.PurposeCommand, 0}, {"resume of a paid SIM", simwarden.PurposeCommand, 5}} {
		ask(who.name, who.purpose, who.priority)
		eventually(t, waiting(i+1))
	}
	close(held)
	wait.Wait()
	if got := strings.Join(order, ", "); got != "first, resume of a paid SIM, command, poll" {
		t.Errorf("served %s", got)
	}
}

func TestAccountsOfAGroupShareItsLimit(t *testing.T) {
	// G2: an account that is moved to a group falls under its limits, on running nodes too.
	r := newRig(t)
	s := serve(t, ok)
	g := r.gateway(Options{ReloadEvery: 20 * time.Millisecond})
	a, b := r.account("a", "gatewaytest", s.URL), r.account("b", "gatewaytest", s.URL)
	r.window(a, store.LimitWindow{Seconds: 3600, Calls: 10})
	run(t, g)
	limited := func(id simwarden.AccountID) bool {
		err := g.Do(t.Context(), id, command, state)
		return err != nil && failure(t, err).Class == carrier.ClassLimited
	}
	passed := 0
	eventually(t, func() bool { // the window is new to the node, too
		if limited(a.ID) {
			return true
		}
		passed++
		return false
	})
	if limited(b.ID) {
		t.Error("an account of another group is limited")
	}
	r.tx(func(tx *store.Tx) error { return tx.MoveAccountToGroup(t.Context(), b.ID, a.LimitGroupID) })
	begun := time.Now()
	eventually(t, func() bool { return limited(b.ID) })
	if took := time.Since(begun); took > 2*time.Second {
		t.Errorf("it took %s until the move was taken up, want 2 s at most", took)
	}
	if passed > 10 {
		t.Errorf("%d calls passed, the group's limit is 10", passed)
	}
}
