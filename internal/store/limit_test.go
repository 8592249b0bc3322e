package store_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// group makes a limit group with one limit, by way of an account.
func group(t *testing.T, s *store.Store, op simwarden.Operation, perSecond int) simwarden.LimitGroupID {
	t.Helper()
	var id simwarden.LimitGroupID
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: t.Name(), Driver: "any"})
		if err != nil {
			return err
		}
		id = a.LimitGroupID
		return tx.SetLimitRate(ctx, id, op, perSecond)
	})
	return id
}

func TestSlotsOfAllNodesAreApart(t *testing.T) {
	// G4: leases that run at once never give one slot twice, nor two closer than (1 s + δ)/N.
	s, _ := open(t)
	const perSecond, slack = 1000, 50 * time.Millisecond
	id := group(t, s, simwarden.OpQueryState, perSecond)
	var mu sync.Mutex
	var slots []time.Time
	var wait sync.WaitGroup
	for range 5 {
		wait.Go(func() {
			for range 40 {
				l, err := s.TakeSlots(t.Context(), store.SlotAsk{Group: id, Line: simwarden.OpQueryState, Polls: 4, Commands: 3,
					Span: 300 * time.Millisecond, Within: 15 * time.Second, Slack: slack})
				if err != nil || !l.Limited || l.Slots != 7 {
					t.Errorf("got %+v, %v; want 7 slots", l, err)
					return
				}
				if l.FirstAt.Before(l.NowAt.Add(-time.Second)) {
					t.Errorf("a slot lies in the past: %+v", l)
				}
				mu.Lock()
				for i := range l.Slots {
					slots = append(slots, l.FirstAt.Add(time.Duration(i)*l.Step))
				}
				mu.Unlock()
			}
		})
	}
	wait.Wait()
	slices.SortFunc(slots, time.Time.Compare)
	if len(slots) != 5*40*7 {
		t.Fatalf("got %d slots, want %d", len(slots), 5*40*7)
	}
	least := (time.Second + slack) / perSecond
	for i := 1; i < len(slots); i++ {
		if gap := slots[i].Sub(slots[i-1]); gap < least-2*time.Microsecond { // the database keeps microseconds
			t.Fatalf("slots %d and %d are %s apart, want at least %s", i-1, i, gap, least)
		}
	}
}

func TestTakeSlots(t *testing.T) {
	s, pool := open(t)
	id := group(t, s, "", 10)
	ask := store.SlotAsk{Group: id, Polls: 100, Span: 300 * time.Millisecond, Within: time.Second, Slack: 50 * time.Millisecond}
	take := func(t *testing.T) store.SlotLease {
		t.Helper()
		l, err := s.TakeSlots(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	t.Run("a lease covers no more than its span", func(t *testing.T) {
		if l := take(t); l.Slots != 3 || l.Step != 105*time.Millisecond {
			t.Errorf("got %+v, want 3 slots 105 ms apart", l)
		}
	})
	t.Run("a first slot beyond reach takes nothing and tells when", func(t *testing.T) {
		for range 100 {
			before := nextAt(t, pool, id)
			l := take(t)
			if l.Slots > 0 {
				continue
			}
			if ahead := l.FirstAt.Sub(l.NowAt); ahead <= time.Second || ahead > 2*time.Second {
				t.Errorf("the first slot lies %s ahead", ahead)
			}
			if after := nextAt(t, pool, id); !after.Equal(before) {
				t.Errorf("the next slot moved from %s to %s", before, after)
			}
			return
		}
		t.Error("the limit never ran out")
	})
	t.Run("F17: after the database's clock was set back, the next slot is soon", func(t *testing.T) {
		if _, err := pool.Exec(t.Context(), `UPDATE limit_slot SET next_at = app_now() + interval '1 day'`); err != nil {
			t.Fatal(err)
		}
		if l := take(t); l.Slots != 0 || l.FirstAt.Sub(l.NowAt) > 20*time.Second {
			t.Errorf("got %+v, want no slot and the first within 20 s", l)
		}
	})
	t.Run("a limit that was taken away is none", func(t *testing.T) {
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SetLimitRate(ctx, id, "", 0) })
		if l := take(t); l.Limited {
			t.Errorf("got %+v, want no limit", l)
		}
	})
}

func nextAt(t *testing.T, db rowQuerier, id simwarden.LimitGroupID) time.Time {
	t.Helper()
	var at time.Time
	if err := db.QueryRow(t.Context(), `SELECT next_at FROM limit_slot WHERE limit_group_id = $1`, id).Scan(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

func TestLimitGroups(t *testing.T) {
	s, _ := open(t)
	id := group(t, s, simwarden.OpSuspend, 5)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.SetLimitRate(ctx, id, "", 50); err != nil {
			return err
		}
		return tx.SetGroupMode(ctx, id, simwarden.GroupEnforce)
	})
	g, err := s.LimitGroupByName(t.Context(), t.Name())
	if err != nil {
		t.Fatal(err)
	}
	if g.Mode != simwarden.GroupEnforce || g.PerSecond[simwarden.OpSuspend] != 5 || g.PerSecond[""] != 50 || len(g.PerSecond) != 2 {
		t.Errorf("got %+v", g)
	}
	err = s.InTx(t.Context(), func(tx *store.Tx) error { return tx.SetLimitRate(t.Context(), id, "", store.MaxPerSecond+1) })
	if err == nil {
		t.Error("a limit beyond the largest was taken")
	}
}
