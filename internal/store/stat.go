package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// CallStat counts the calls of one account, operation, purpose and outcome in one minute (G9).
// The outcome is the gateway's word: "ok", an error class, or why nothing was sent.
type CallStat struct {
	MinuteAt  time.Time           `json:"minute_at"`
	AccountID simwarden.AccountID `json:"account_id"`
	Operation simwarden.Operation `json:"operation"`
	Purpose   simwarden.Purpose   `json:"purpose"`
	Outcome   string              `json:"outcome"`
	Calls     int64               `json:"calls"`
	LatencyMS int64               `json:"latency_ms"` // the sum over the calls
}

// CallStatFlush is what one writer, the meter of one process, adds to the counts at one time. Writer is
// another for every process, Number grows with each flush: what did not hear whether it was written is
// given again with the same number, and is added once all the same (V8).
type CallStatFlush struct {
	Writer string
	Number int64
	Stats  []CallStat
}

// AddCallStats adds the counts to those that are there, once for each number of a writer. Each key may
// occur once in a flush. Give them in one order everywhere, by key, so that two nodes do not wait for
// each other.
func (s *Store) AddCallStats(ctx context.Context, f CallStatFlush) error {
	if len(f.Stats) == 0 {
		return nil
	}
	n := len(f.Stats)
	minutes, accounts := make([]time.Time, n), make([]int64, n)
	ops, purposes, outcomes := make([]string, n), make([]string, n), make([]string, n)
	calls, latencies := make([]int64, n), make([]int64, n)
	for i, c := range f.Stats {
		minutes[i], accounts[i] = c.MinuteAt, int64(c.AccountID)
		ops[i], purposes[i], outcomes[i] = string(c.Operation), string(c.Purpose), c.Outcome
		calls[i], latencies[i] = c.Calls, c.LatencyMS
	}
	// One statement: the number and the counts commit together. Where the same flush is still under way
	// on a connection that was lost, this one waits for the writer's row, and then sees its number.
	_, err := s.pool.Exec(ctx, `
		WITH mine AS (
			INSERT INTO call_stat_writer AS w (writer, number, written_at) VALUES ($8, $9, $10)
			ON CONFLICT (writer) DO UPDATE SET number = excluded.number, written_at = excluded.written_at WHERE w.number < excluded.number
			RETURNING 1)
		INSERT INTO call_stat AS c (minute_at, account_id, operation, purpose, outcome, calls, latency_ms)
		SELECT * FROM unnest($1::timestamptz[], $2::bigint[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[])
		WHERE EXISTS (SELECT FROM mine)
		ON CONFLICT (minute_at, account_id, operation, purpose, outcome)
		DO UPDATE SET calls = c.calls + excluded.calls, latency_ms = c.latency_ms + excluded.latency_ms`,
		minutes, accounts, ops, purposes, outcomes, calls, latencies, f.Writer, f.Number, s.Now())
	if err != nil {
		return fmt.Errorf("add call statistics: %w", err)
	}
	return nil
}

// CallStatFilter narrows a list of counts; zero fields do not. The minutes are from FromAt to before
// UntilAt, UTC. After is the last row of the page before.
type CallStatFilter struct {
	AccountID simwarden.AccountID
	Operation simwarden.Operation
	FromAt    time.Time
	UntilAt   time.Time
	After     *CallStat
	Limit     int
}

// CallStats gives counts by minute and key.
func (s *Store) CallStats(ctx context.Context, f CallStatFilter) ([]CallStat, error) {
	after := CallStat{}
	if f.After != nil {
		after = *f.After
	}
	rows, err := s.pool.Query(ctx, `
		SELECT minute_at, account_id, operation, purpose, outcome, calls, latency_ms FROM call_stat
		WHERE minute_at >= $1 AND minute_at < $2 AND ($3 = 0 OR account_id = $3) AND ($5 = '' OR operation = $5)
		  AND (NOT $6 OR (minute_at, account_id, operation, purpose, outcome) > ($7, $8, $9, $10, $11))
		ORDER BY minute_at, account_id, operation, purpose, outcome LIMIT $4`, f.FromAt, f.UntilAt, int64(f.AccountID), f.Limit, string(f.Operation),
		f.After != nil, after.MinuteAt, int64(after.AccountID), string(after.Operation), string(after.Purpose), after.Outcome)
	if err != nil {
		return nil, fmt.Errorf("call statistics: %w", err)
	}
	defer rows.Close()
	out := []CallStat{}
	for rows.Next() {
		var c CallStat
		if err := rows.Scan(&c.MinuteAt, &c.AccountID, &c.Operation, &c.Purpose, &c.Outcome, &c.Calls, &c.LatencyMS); err != nil {
			return nil, fmt.Errorf("call statistics: %w", err)
		}
		c.MinuteAt = c.MinuteAt.UTC()
		out = append(out, c)
	}
	return out, rows.Err()
}
