package store

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden"
)

// Totals are counts over everything, for a live summary.
type Totals struct {
	States         map[simwarden.State]int64 `json:"states"`
	Lapsed         int64                     `json:"lapsed"`
	Exhausted      int64                     `json:"exhausted"` // times an allowance was used up
	SuspendsDone   int64                     `json:"suspends_done"`
	ResumesDone    int64                     `json:"resumes_done"`
	CommandsFailed int64                     `json:"commands_failed"`
	CommandsOpen   int64                     `json:"commands_open"`
	// PollCalls are calls made for polling, as counted in the statistics by the minute.
	PollCalls int64 `json:"poll_calls"`
}

// Totals counts. It reads whole tables, so it is for small fleets and for demonstrations.
func (s *Store) Totals(ctx context.Context) (Totals, error) {
	t := Totals{States: map[simwarden.State]int64{}}
	err := s.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM subscription WHERE state = 'expired' AND kind = 'main'),
			(SELECT count(*) FROM event WHERE kind = 'data_exhausted'),
			(SELECT count(*) FROM command WHERE state = 'done' AND direction = 'suspend'),
			(SELECT count(*) FROM command WHERE state = 'done' AND direction = 'resume'),
			(SELECT count(*) FROM command WHERE state = 'failed'),
			(SELECT count(*) FROM command WHERE state IN ('queued', 'sending', 'verifying', 'confirming')),
			(SELECT coalesce(sum(calls), 0) FROM call_stat WHERE purpose = 'poll')`).
		Scan(&t.Lapsed, &t.Exhausted, &t.SuspendsDone, &t.ResumesDone, &t.CommandsFailed, &t.CommandsOpen, &t.PollCalls)
	if err != nil {
		return t, fmt.Errorf("totals: %w", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT state, count(*) FROM poll_state GROUP BY state`)
	if err != nil {
		return t, fmt.Errorf("totals: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var state simwarden.State
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return t, fmt.Errorf("totals: %w", err)
		}
		t.States[state] = n
	}
	return t, rows.Err()
}
