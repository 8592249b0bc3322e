package api_test

import (
	"context"
	"math"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

func TestTheSummaryAddsUp(t *testing.T) {
	w, a, _ := fleet(t)
	w.sim(a, 2, simwarden.StateSuspended)
	w.sims(w.account("other", nil), 3, 1)
	w.want(http.StatusOK, "POST", simURL(1, "/suspend"), map[string]any{"reason": "x"})
	w.want(http.StatusOK, "POST", simURL(2, "/polling/pause"), map[string]any{"reason": "x"})
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.BrakeAccount(ctx, a.ID, "60 suspends"); err != nil {
			return err
		}
		if err := tx.SetDrifting(ctx, 2, "x"); err != nil {
			return err
		}
		return tx.Raise(ctx, store.Alert{Kind: store.AlertDrift, Key: "x", Message: "x"})
	})
	got := w.want(http.StatusOK, "GET", "/api/v1/summary", nil)
	for name, want := range map[string]float64{"sims": 3, "unread": 1, "drifting": 1, "paused": 1, "closed": 0, "held": 1, "alerts": 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	for _, row := range []struct {
		path []any
		want any
	}{
		{[]any{"by_state", "active"}, 1.0},
		{[]any{"by_state", "suspended"}, 1.0},
		{[]any{"by_state", "unknown"}, 1.0},
		{[]any{"by_desired", "suspended"}, 1.0},
		{[]any{"open_commands", "queued"}, 1.0},
		{[]any{"accounts", 0, "name"}, "acme"},
		{[]any{"accounts", 0, "mode"}, "act"},
		{[]any{"accounts", 0, "sims"}, 2.0},
		{[]any{"accounts", 0, "active"}, 1.0},
		{[]any{"accounts", 0, "suspended"}, 1.0},
		{[]any{"accounts", 0, "braked_because"}, "60 suspends"},
		{[]any{"accounts", 1, "sims"}, 1.0},
	} {
		if v := at(t, got, row.path...); v != row.want {
			t.Errorf("%v is %v, want %v", row.path, v, row.want)
		}
	}
}

// slowClock shows each time it is asked a second more than before: whatever is measured by it takes
// a second.
type slowClock struct {
	clock.Clock
	mu sync.Mutex
	at time.Time
}

func (c *slowClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(time.Second)
	return c.at
}

func TestASummaryThatTakesASecondIsKeptForTwenty(t *testing.T) {
	w, a, _ := fleet(t)
	s := &api.Service{Store: w.store, Clock: &slowClock{Clock: w.clock, at: noon}}
	first, err := s.Summary(t.Context()) // from :01 to :02, so kept until :22
	if err != nil {
		t.Fatal(err)
	}
	w.sims(a, 2, 1)
	for i := 3; i < 22; i++ {
		again, err := s.Summary(t.Context())
		if err != nil || again.SIMs != first.SIMs {
			t.Fatalf("counted anew at second %d: %v", i, err)
		}
	}
	if anew, err := s.Summary(t.Context()); err != nil || anew.SIMs != first.SIMs+1 {
		t.Errorf("after twenty seconds: %d SIMs, want %d: %v", anew.SIMs, first.SIMs+1, err)
	}
}

func TestTheDoctorSeesClocksShardsAndPartitions(t *testing.T) {
	w, a, _ := fleet(t)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		// The database's clock is 90 seconds ahead of ours, which stands still.
		_, err := tx.Exec(ctx, `CREATE OR REPLACE FUNCTION app_now() RETURNS timestamptz LANGUAGE sql VOLATILE AS $$ SELECT '2026-05-04 12:01:30+00'::timestamptz $$`)
		return err
	})
	got := w.want(http.StatusOK, "GET", "/api/v1/doctor", nil)
	if ahead := got["clock_ahead_seconds"].(float64); math.Abs(ahead-90) > 0.001 {
		t.Errorf("the database's clock is %v s ahead, want 90 (F17)", ahead)
	}
	if got["schema_wanted"] != got["schema_found"] || got["database_version"] == "" {
		t.Errorf("versions: %v", got)
	}
	if at(t, got, "poll_shards", "shards") != float64(a.Shards) || at(t, got, "poll_shards", "held") != 0.0 || got["oldest_open_command"] != nil {
		t.Errorf("shards or commands: %v", got)
	}
	if at(t, got, "partitions", 0, "months_ahead") != 0.0 {
		t.Errorf("partitions that nobody made: %v", got["partitions"])
	}
	if _, err := w.store.EnsurePartitions(t.Context(), noon); err != nil {
		t.Fatal(err)
	}
	if _, err := w.store.TakeShards(t.Context(), "node-a", 3, time.Minute); err != nil {
		t.Fatal(err)
	}
	w.want(http.StatusOK, "POST", simURL(1, "/suspend"), map[string]any{"reason": "x"})
	got = w.want(http.StatusOK, "GET", "/api/v1/doctor", nil)
	if at(t, got, "partitions", 0, "months_ahead") != float64(store.PartitionsAhead) {
		t.Errorf("partitions: %v (R1)", got["partitions"])
	}
	if at(t, got, "poll_shards", "held") != 3.0 || at(t, got, "poll_shards", "holders", 0) != "node-a" {
		t.Errorf("shards: %v", got["poll_shards"])
	}
	if at(t, got, "oldest_open_command", "direction") != "suspend" {
		t.Errorf("oldest open command: %v", got["oldest_open_command"])
	}
}
