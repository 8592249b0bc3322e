package store_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// setClock lets the database's clock of leases and limits stand at an instant.
func setClock(t *testing.T, pool *pgxpool.Pool, at time.Time) {
	t.Helper()
	_, err := pool.Exec(t.Context(), fmt.Sprintf(`CREATE OR REPLACE FUNCTION app_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$SELECT '%s'::timestamptz$$`,
		at.UTC().Format(time.RFC3339Nano)))
	if err != nil {
		t.Fatal(err)
	}
}

// windowed makes a group with one window and no limit a second.
func windowed(t *testing.T, s *store.Store, name string, windows ...store.LimitWindow) simwarden.LimitGroupID {
	t.Helper()
	var id simwarden.LimitGroupID
	inTx(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		if id, err = tx.AddLimitGroup(ctx, name); err != nil {
			return err
		}
		for _, w := range windows {
			if err := tx.SetLimitWindow(ctx, id, w); err != nil {
				return err
			}
		}
		return nil
	})
	return id
}

func lease(t *testing.T, s *store.Store, ask store.SlotAsk) store.SlotLease {
	t.Helper()
	if ask.Span == 0 {
		ask.Span = 300 * time.Millisecond
	}
	ask.Within, ask.Slack = 15*time.Second, 50*time.Millisecond
	l, err := s.TakeSlots(t.Context(), ask)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

var monday = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

func TestNoSlidingWindowIsOverTheLimit(t *testing.T) {
	// V7: whatever is asked for, brought back and spent at whatever time, the slots that were kept and
	// the exempt calls before them are never more than the limit in any span of the window's length.
	s, pool := open(t)
	for _, w := range []store.LimitWindow{{Seconds: 60, Calls: 100}, {Seconds: 3600, Calls: 37}, {Seconds: 86400, Calls: 1000}, {Seconds: 30 * 86400, Calls: 5000}} {
		t.Run(fmt.Sprintf("%d in %d s", w.Calls, w.Seconds), func(t *testing.T) {
			id := windowed(t, s, t.Name(), w)
			random := rand.New(rand.NewPCG(7, uint64(w.Seconds)))
			window, now := time.Duration(w.Seconds)*time.Second, monday
			var kept []time.Time
			var back []store.SlotsBack
			full := 0
			for range 250 {
				now = now.Add(time.Duration(random.Int64N(int64(window) / 40)))
				setClock(t, pool, now)
				l := lease(t, s, store.SlotAsk{Group: id, Line: simwarden.OpQueryState, Commands: random.IntN(w.Calls/10 + 1), Polls: random.IntN(w.Calls/10 + 1), Back: back})
				back = nil
				if l.Slots == 0 && !l.FullUntil.IsZero() {
					full++
				}
				unused := random.IntN(l.Slots + 1)
				if unused > 0 {
					back = []store.SlotsBack{{LeaseAt: l.FirstAt, Slots: unused, Polls: max(0, unused-(l.Slots-l.Polls))}}
				}
				for i := range l.Slots - unused {
					kept = append(kept, l.FirstAt.Add(time.Duration(i)*l.Step))
				}
			}
			most, first := 0, 0
			for last := range kept {
				for kept[last].Sub(kept[first]) >= window+250*time.Millisecond {
					first++
				}
				most = max(most, last-first+1)
			}
			if most > w.Calls {
				t.Errorf("%d slots within %s, the limit is %d", most, window, w.Calls)
			}
			if full == 0 || most < w.Calls*8/10 {
				t.Errorf("the limit was met %d times, and %d of %d used at most: too little was asked for", full, most, w.Calls)
			}
		})
	}
}

func TestWindowsHoldTogether(t *testing.T) {
	s, pool := open(t)
	setClock(t, pool, monday)
	t.Run("the smallest rest of all windows counts", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 60, Calls: 10}, store.LimitWindow{Seconds: 86400, Calls: 6, Operation: simwarden.OpQueryState})
		if l := lease(t, s, store.SlotAsk{Group: id, Line: simwarden.OpQueryState, Commands: 20}); l.Slots != 6 {
			t.Errorf("got %+v, want the day's 6", l)
		}
		l := lease(t, s, store.SlotAsk{Group: id, Line: simwarden.OpQueryState, Commands: 20})
		if until := l.FullUntil.Sub(monday); l.Slots != 0 || until < 23*time.Hour || until > 25*time.Hour {
			t.Errorf("got %+v, want none until about a day later", l)
		}
		if l := lease(t, s, store.SlotAsk{Group: id, Line: "", Commands: 20}); l.Slots != 4 {
			t.Errorf("got %+v for the other operations, want what the minute of all has left", l)
		}
	})
	t.Run("a share is kept for commands", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 3600, Calls: 100})
		l := lease(t, s, store.SlotAsk{Group: id, Polls: 200})
		if l.Slots != 90 || l.Polls != 90 || l.FullUntil.After(time.Time{}) {
			t.Errorf("got %+v, want 90 for polls", l)
		}
		l = lease(t, s, store.SlotAsk{Group: id, Polls: 5, Commands: 200})
		if l.Slots != 10 || l.Polls != 0 || l.PollsUntil.IsZero() {
			t.Errorf("got %+v, want 10 for commands and none for polls", l)
		}
	})
	t.Run("with no share kept, polls may use all", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 3600, Calls: 100})
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SetCommandShare(ctx, id, 0) })
		if l := lease(t, s, store.SlotAsk{Group: id, Polls: 200}); l.Polls != 100 {
			t.Errorf("got %+v, want 100", l)
		}
	})
	t.Run("exempt calls use up what others could have had", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 3600, Calls: 10})
		if l := lease(t, s, store.SlotAsk{Group: id, Spent: 12}); l.Slots != 0 {
			t.Errorf("got %+v for nobody", l)
		}
		if l := lease(t, s, store.SlotAsk{Group: id, Commands: 1}); l.Slots != 0 || l.FullUntil.IsZero() {
			t.Errorf("got %+v, want none", l)
		}
	})
	t.Run("what is brought back can be had again", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 3600, Calls: 10})
		first := lease(t, s, store.SlotAsk{Group: id, Commands: 10})
		l := lease(t, s, store.SlotAsk{Group: id, Commands: 10, Back: []store.SlotsBack{{LeaseAt: first.FirstAt, Slots: 3}}})
		if l.Slots != 3 {
			t.Errorf("got %+v, want the 3 that were brought back", l)
		}
	})
	t.Run("a limit that is raised counts what was used before", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 3600, Calls: 10})
		lease(t, s, store.SlotAsk{Group: id, Commands: 10})
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.SetLimitWindow(ctx, id, store.LimitWindow{Seconds: 3600, Calls: 14})
		})
		if l := lease(t, s, store.SlotAsk{Group: id, Commands: 10}); l.Slots != 4 {
			t.Errorf("got %+v, want 4", l)
		}
	})
	t.Run("F17: a clock that was ahead and is set back blocks for one window, not for as long as it was ahead", func(t *testing.T) {
		id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 60, Calls: 10})
		setClock(t, pool, monday.AddDate(1, 0, 0))
		lease(t, s, store.SlotAsk{Group: id, Commands: 10})
		setClock(t, pool, monday)
		if l := lease(t, s, store.SlotAsk{Group: id, Commands: 10}); l.Slots != 0 {
			t.Errorf("got %+v: the calls of a moment ago are forgotten", l)
		}
		for range 4 { // the slot itself comes back by the horizon at a time
			setClock(t, pool, monday.Add(2*time.Minute))
			lease(t, s, store.SlotAsk{Group: id, Spent: 0})
		}
		setClock(t, pool, monday.Add(3*time.Minute))
		if l := lease(t, s, store.SlotAsk{Group: id, Commands: 10}); l.Slots != 10 {
			t.Errorf("got %+v, want 10 again", l)
		}
	})
}

func TestANewWindowBeginsWithWhatWasMade(t *testing.T) {
	// A day's quota that is entered at noon is not a fresh one.
	s, pool := open(t)
	setClock(t, pool, monday)
	var account store.Account
	inTx(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		account, err = tx.AddAccount(ctx, store.Account{Name: t.Name(), Driver: "any"})
		return err
	})
	for _, row := range []struct {
		ago       time.Duration
		outcome   string
		purpose   string
		calls     int
		operation simwarden.Operation
	}{
		{time.Hour, "ok", "command", 30, simwarden.OpQueryState}, {2 * time.Hour, "throttled", "poll", 7, simwarden.OpQueryState},
		{time.Hour, "blocked", "poll", 500, simwarden.OpQueryState}, {time.Hour, "would_block", "poll", 500, simwarden.OpQueryState},
		{time.Hour, "ok", "poll", 3, simwarden.OpSuspend}, {25 * time.Hour, "ok", "poll", 40, simwarden.OpQueryState},
	} {
		if _, err := pool.Exec(t.Context(), `INSERT INTO call_stat (minute_at, account_id, operation, purpose, outcome, calls, latency_ms) VALUES ($1, $2, $3, $4, $5, $6, 0)`,
			monday.Add(-row.ago), account.ID, string(row.operation), row.purpose, row.outcome, row.calls); err != nil {
			t.Fatal(err)
		}
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.SetLimitWindow(ctx, account.LimitGroupID, store.LimitWindow{Operation: simwarden.OpQueryState, Seconds: 86400, Calls: 100}); err != nil {
			return err
		}
		return tx.SetLimitWindow(ctx, account.LimitGroupID, store.LimitWindow{Seconds: 86400, Calls: 100})
	})
	if l := lease(t, s, store.SlotAsk{Group: account.LimitGroupID, Line: simwarden.OpQueryState, Commands: 1000, Span: time.Second}); l.Slots != 60 {
		t.Errorf("got %d, want 60: 37 queries and 3 suspends were made within the day", l.Slots)
	}
	if l := lease(t, s, store.SlotAsk{Group: account.LimitGroupID, Commands: 1000, Span: time.Second}); l.Slots != 0 {
		t.Errorf("got %d of a quota of all operations that is used up", l.Slots)
	}
}

func TestLeasesOfAWindowAtOnce(t *testing.T) {
	// Lines that do not share a slot row meet at the window's: whoever waited sees what was taken.
	s, _ := open(t)
	const calls = 500
	id := windowed(t, s, t.Name(), store.LimitWindow{Seconds: 86400, Calls: calls})
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.SetLimitRate(ctx, id, simwarden.OpQueryUsage, 100_000); err != nil {
			return err
		}
		return tx.SetLimitRate(ctx, id, simwarden.OpSuspend, 100_000)
	})
	var mu sync.Mutex
	var wait sync.WaitGroup
	total := 0
	for _, line := range []simwarden.Operation{"", simwarden.OpQueryUsage, simwarden.OpSuspend} {
		for range 3 {
			wait.Go(func() {
				for range 100 {
					l, err := s.TakeSlots(t.Context(), store.SlotAsk{Group: id, Line: line, Commands: 3, Span: time.Second, Within: time.Second, Slack: 50 * time.Millisecond})
					if err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					total += l.Slots
					mu.Unlock()
				}
			})
		}
	}
	wait.Wait()
	if total != calls {
		t.Errorf("%d slots were given out, want %d", total, calls)
	}
}

func TestGroupSettings(t *testing.T) {
	s, _ := open(t)
	id := windowed(t, s, "g", store.LimitWindow{Operation: simwarden.OpSuspend, Seconds: 86400, Calls: 5}, store.LimitWindow{Seconds: 60, Calls: 7})
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.SetGroupConcurrent(ctx, id, 3); err != nil {
			return err
		}
		return tx.SetCommandShare(ctx, id, 25)
	})
	g, err := s.LimitGroupByName(t.Context(), "g")
	if err != nil {
		t.Fatal(err)
	}
	want := []store.LimitWindow{{Seconds: 60, Calls: 7}, {Operation: simwarden.OpSuspend, Seconds: 86400, Calls: 5}}
	if !slices.Equal(g.Windows, want) || g.MaxConcurrent != 3 || g.CommandSharePercent != 25 {
		t.Errorf("got %+v", g)
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		was, err := tx.DropLimitWindow(ctx, id, "", time.Minute)
		if err == nil && !was {
			t.Error("the window was not there")
		}
		return err
	})
	for _, bad := range []struct {
		name string
		set  func(context.Context, *store.Tx) error
	}{
		{"a window of no calls", func(ctx context.Context, tx *store.Tx) error {
			return tx.SetLimitWindow(ctx, id, store.LimitWindow{Seconds: 60})
		}},
		{"a window of a second", func(ctx context.Context, tx *store.Tx) error {
			return tx.SetLimitWindow(ctx, id, store.LimitWindow{Seconds: 1, Calls: 1})
		}},
		{"calls at a time below none", func(ctx context.Context, tx *store.Tx) error { return tx.SetGroupConcurrent(ctx, id, -1) }},
		{"a share of everything", func(ctx context.Context, tx *store.Tx) error { return tx.SetCommandShare(ctx, id, 100) }},
		{"a second group of the name", func(ctx context.Context, tx *store.Tx) error { _, err := tx.AddLimitGroup(ctx, "g"); return err }},
		{"a group that is not there", func(ctx context.Context, tx *store.Tx) error { return tx.SetGroupConcurrent(ctx, id+99, 1) }},
	} {
		if err := s.InTx(t.Context(), func(tx *store.Tx) error { return bad.set(t.Context(), tx) }); err == nil {
			t.Errorf("%s was taken", bad.name)
		}
	}
}

func TestPlacesOfAllNodes(t *testing.T) {
	s, pool := open(t)
	setClock(t, pool, monday)
	ask := func(holder string, most, inUse, wanted int) store.PlaceLease {
		t.Helper()
		l, err := s.TakePlaces(t.Context(), store.PlaceAsk{Key: "group:1", Holder: holder, Cap: most, InUse: inUse, Wanted: wanted, For: 45 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	is := func(what string, got store.PlaceLease, held, allowed int) {
		t.Helper()
		if got.Held != held || got.Allowed != allowed {
			t.Errorf("%s: got %+v, want %d held and %d allowed", what, got, held, allowed)
		}
	}
	is("the first takes all that it wants", ask("a", 3, 0, 5), 3, 3)
	is("the second waits", ask("b", 3, 0, 2), 0, 0)
	is("the first is told to make room", ask("a", 3, 3, 5), 3, 1)
	is("it keeps what is under way", ask("a", 3, 2, 5), 2, 1)
	is("the second has what was freed", ask("b", 3, 0, 2), 1, 1)
	is("a third waits", ask("c", 3, 0, 1), 0, 0)
	is("a node that wants none gives all back", ask("b", 3, 0, 0), 0, 0)
	is("the third is next", ask("c", 3, 0, 1), 1, 1)
	is("a lower cap takes nothing that is under way", ask("a", 1, 2, 0), 2, 1)
	setClock(t, pool, monday.Add(46*time.Second))
	is("a node that has died keeps its places for its time alone", ask("d", 3, 0, 9), 3, 3)
	setClock(t, pool, monday.Add(47*time.Second))
	is("one place: the second waits", ask("e", 1, 0, 1), 0, 0)
	is("one place: the holder is to end", ask("d", 1, 1, 1), 1, 0)
	is("one place: it goes to the end of the queue", ask("d", 1, 0, 1), 0, 0)
	is("one place: the second has it, and may use it", ask("e", 1, 0, 1), 1, 1)
}

func TestPlacesAtOnce(t *testing.T) {
	// V7: however nodes ask at once, they never hold more than the cap together.
	s, pool := open(t)
	const most = 5
	var wait sync.WaitGroup
	for i := range 6 {
		wait.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(i)))
			held := 0
			for range 60 {
				l, err := s.TakePlaces(t.Context(), store.PlaceAsk{Key: "account:1", Holder: fmt.Sprint(i), Cap: most, InUse: random.IntN(held + 1),
					Wanted: random.IntN(4), For: time.Minute})
				if err != nil {
					t.Error(err)
					return
				}
				held = l.Held
				var sum int
				if err := pool.QueryRow(t.Context(), `SELECT coalesce(sum(held), 0) FROM limit_place WHERE key = 'account:1'`).Scan(&sum); err != nil || sum > most {
					t.Errorf("%d places are held, %v; the cap is %d", sum, err, most)
					return
				}
			}
		})
	}
	wait.Wait()
}
