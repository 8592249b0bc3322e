package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

func TestRequestsWorkedOffArePruned(t *testing.T) {
	s, pool := open(t)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "any"})
		if err != nil {
			return err
		}
		sims, err := tx.AddSIMs(ctx, a, []store.NewSIM{{ICCID: simwarden.MustParseICCID("898600000000000001"), Raw: "898600000000000001"}}, 0)
		if err != nil {
			return err
		}
		for range 5 {
			if _, err := tx.RequestEvaluation(ctx, store.Evaluation{SIMID: sims[0], Scene: simwarden.ScenePlanCheck, AskedBy: "test"}); err != nil {
				return err
			}
		}
		_, err = tx.Exec(ctx, `UPDATE evaluation_request SET done_at = $1::timestamptz - id * interval '1 day' WHERE id < 5`, tx.At)
		return err
	})
	before := s.Now().Add(-36 * time.Hour) // three were worked off longer ago
	for _, want := range []int64{2, 1, 0} {
		if n, err := s.PruneEvaluations(t.Context(), before, 2); err != nil || n != want {
			t.Fatalf("pruned %d, %v; want %d", n, err, want)
		}
	}
	var left []int64
	if err := pool.QueryRow(t.Context(), `SELECT array_agg(id ORDER BY id) FROM evaluation_request`).Scan(&left); err != nil {
		t.Fatal(err)
	}
	if len(left) != 2 || left[0] != 1 || left[1] != 5 {
		t.Errorf("left are %v, want the one of a day ago and the one that waits", left)
	}
}

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
