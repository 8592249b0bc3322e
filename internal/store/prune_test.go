package store_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

func TestNudgesThatNobodyTakesAreDropped(t *testing.T) {
	s, pool := open(t)
	exec := func(sql string, args ...any) {
		t.Helper()
		if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
			t.Fatal(err)
		}
	}
	_, _, fence, at := polled(t, s, exec, 8) // eight nudges, two a shard
	drop := func(want int64, why string) {
		t.Helper()
		if n, err := s.DropNudges(t.Context(), at.Add(time.Hour), 100); err != nil || n != want {
			t.Errorf("dropped %d, %v; want %d: %s", n, err, want, why)
		}
	}
	drop(0, "a node that is there takes them")
	held := store.PollShard{AccountID: fence.AccountID, Shard: 1, Epoch: fence.Epochs[1]}
	if err := s.GiveShards(t.Context(), fence.Holder, []store.PollShard{held}); err != nil {
		t.Fatal(err)
	}
	drop(2, "nobody holds their shard")
	if n, err := s.DropNudges(t.Context(), at.Add(-time.Hour), 100); err != nil || n != 0 {
		t.Errorf("dropped %d that fell due later, %v", n, err)
	}
}
