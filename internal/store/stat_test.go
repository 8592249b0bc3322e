package store_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

func TestCallStatsAddUp(t *testing.T) {
	// G9: two nodes write the same minute.
	s, _ := open(t)
	minute := time.Date(2026, 3, 1, 10, 5, 0, 0, time.UTC)
	row := store.CallStat{MinuteAt: minute, AccountID: 7, Operation: simwarden.OpQueryState, Purpose: simwarden.PurposePoll, Outcome: "ok", Calls: 3, LatencyMS: 40}
	later := row
	later.MinuteAt = minute.Add(time.Minute)
	for _, f := range []store.CallStatFlush{
		{Writer: "one", Number: 1, Stats: []store.CallStat{row, later}},
		{Writer: "two", Number: 1, Stats: []store.CallStat{row}},
		{Writer: "two", Number: 2},
		{Writer: "one", Number: 1, Stats: []store.CallStat{row, later}}, // whose answer was lost (V8)
	} {
		if err := s.AddCallStats(t.Context(), f); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.CallStats(t.Context(), store.CallStatFilter{AccountID: 7, FromAt: minute, UntilAt: minute.Add(time.Minute), Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	want := row
	want.Calls, want.LatencyMS = 6, 80
	if len(got) != 1 || got[0] != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if all, err := s.CallStats(t.Context(), store.CallStatFilter{FromAt: minute, UntilAt: minute.Add(time.Hour), Limit: 10}); err != nil || len(all) != 2 {
		t.Errorf("all accounts: got %d rows, %v; want 2", len(all), err)
	}
}
