package app_test

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestANodeKeepsItsTablesInOrder(t *testing.T) {
	s, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, store.Migrate)})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	minute := s.Now().Truncate(time.Minute)
	stat := func(daysAgo int) store.CallStat {
		return store.CallStat{MinuteAt: minute.AddDate(0, 0, -daysAgo), AccountID: 1, Operation: simwarden.OpQueryState, Purpose: simwarden.PurposePoll, Outcome: "ok", Calls: 1}
	}
	if err := s.AddCallStats(t.Context(), store.CallStatFlush{Writer: "node", Number: 1, Stats: []store.CallStat{stat(36), stat(34)}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Raise(t.Context(), store.Alert{Kind: store.AlertPartition, Key: "partition:usage_day", Message: "none ahead"}); err != nil {
		t.Fatal(err)
	}
	a, err := app.New(app.Config{Store: s, Keyring: ring, Holder: "node"})
	if err != nil {
		t.Fatal(err)
	}
	run, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- a.Run(run) }()
	left := func() []store.CallStat {
		list, err := s.CallStats(t.Context(), store.CallStatFilter{FromAt: minute.AddDate(-1, 0, 0), UntilAt: minute, Limit: 10})
		if err != nil {
			t.Fatal(err)
		}
		return list
	}
	eventually(t, "statistics of more than 35 days ago are deleted", func() bool { return len(left()) == 1 })
	if got := left()[0].MinuteAt; !got.Equal(stat(34).MinuteAt) {
		t.Errorf("those of %s are left, want those of 34 days ago", got)
	}
	eventually(t, "the alert of partitions that have been made is cleared", func() bool {
		open, err := s.OpenAlerts(t.Context(), 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(open) == 0
	})
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the node ended with %v", err)
	}
}
