package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Count is how many SIMs of an account share a state, what is wanted of them, and why.
type Count struct {
	AccountID simwarden.AccountID
	State     simwarden.State
	Desired   simwarden.Desired
	Reason    simwarden.Reason // the first that holds
	SIMs      int64
	Unread    int64 // of these, never read
}

// Counts counts all SIMs: one pass over the narrow table of what was last read.
func (s *Store) Counts(ctx context.Context) ([]Count, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT account_id, state, desired, reason, count(*), count(*) FILTER (WHERE state_read_at IS NULL)
		FROM poll_state GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4`)
	if err != nil {
		return nil, fmt.Errorf("count sims: %w", err)
	}
	defer rows.Close()
	out := []Count{}
	for rows.Next() {
		var c Count
		if err := rows.Scan(&c.AccountID, &c.State, &c.Desired, &c.Reason, &c.SIMs, &c.Unread); err != nil {
			return nil, fmt.Errorf("count sims: %w", err)
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// Marks counts the SIMs that something is said of.
type Marks struct {
	Drifting int64 `json:"drifting"`
	Paused   int64 `json:"paused"` // the SIM's own pause; a device's is not counted
	Closed   int64 `json:"closed"`
	Held     int64 `json:"held"` // by hand
}

// Marks counts the SIMs that are marked.
func (s *Store) Marks(ctx context.Context) (Marks, error) {
	var m Marks
	err := s.pool.QueryRow(ctx, `
		SELECT count(drifting_at), count(paused_at), count(closed_at), count(hold_at) FROM sim`).Scan(&m.Drifting, &m.Paused, &m.Closed, &m.Held)
	if err != nil {
		return m, fmt.Errorf("count marked sims: %w", err)
	}
	return m, nil
}

// CountOpenCommands counts the open commands by state.
func (s *Store) CountOpenCommands(ctx context.Context) (map[simwarden.CommandState]int64, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT state, count(*) FROM command WHERE state IN ('queued', 'sending', 'verifying', 'confirming') GROUP BY state`)
	if err != nil {
		return nil, fmt.Errorf("count open commands: %w", err)
	}
	defer rows.Close()
	out := map[simwarden.CommandState]int64{}
	for rows.Next() {
		var state simwarden.CommandState
		var n int64
		if err := rows.Scan(&state, &n); err != nil {
			return nil, fmt.Errorf("count open commands: %w", err)
		}
		out[state] = n
	}
	return out, rows.Err()
}

// OldestOpenCommand gives the open command that was asked for first; ErrNotFound where none is open.
func (s *Store) OldestOpenCommand(ctx context.Context) (Command, error) {
	c, err := scanCommand(s.pool.QueryRow(ctx, `SELECT `+commandColumns+` FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE c.state IN ('queued', 'sending', 'verifying', 'confirming') ORDER BY c.created_at, c.id LIMIT 1`))
	if err != nil {
		return c, fmt.Errorf("oldest open command: %w", err)
	}
	return c, nil
}

// CountAlerts counts the open alerts.
func (s *Store) CountAlerts(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM alert WHERE cleared_at IS NULL`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count alerts: %w", err)
	}
	return n, nil
}

// Backlog is what waits to be evaluated.
type Backlog struct {
	Due         int64     `json:"due"`
	OldestDueAt time.Time `json:"oldest_due_at,omitzero"` // UTC
}

// EvaluationBacklog counts the evaluation requests that are due at an instant and not done, up to
// a hundred thousand.
func (s *Store) EvaluationBacklog(ctx context.Context, at time.Time) (Backlog, error) {
	var b Backlog
	var oldest *time.Time
	err := s.pool.QueryRow(ctx, `
		SELECT count(*), min(run_at) FROM (
			SELECT run_at FROM evaluation_request WHERE done_at IS NULL AND run_at <= $1 ORDER BY run_at LIMIT 100000) due`, at).Scan(&b.Due, &oldest)
	if err != nil {
		return b, fmt.Errorf("count evaluations: %w", err)
	}
	b.OldestDueAt = timeOf(oldest)
	return b, nil
}

// ShardReport says how many parts of the poll schedule somebody keeps.
type ShardReport struct {
	Shards  int      `json:"shards"`
	Held    int      `json:"held"` // by a lease in force, by the database's clock
	Holders []string `json:"holders"`
}

// ShardsHeld reports on the leases of the poll schedule.
func (s *Store) ShardsHeld(ctx context.Context) (ShardReport, error) {
	r := ShardReport{}
	err := s.pool.QueryRow(ctx, `
		WITH at AS MATERIALIZED (SELECT app_now() AS now)
		SELECT count(*), count(*) FILTER (WHERE lease_until > now),
			coalesce(array_agg(DISTINCT holder ORDER BY holder) FILTER (WHERE lease_until > now), '{}')
		FROM poll_shard, at`).Scan(&r.Shards, &r.Held, &r.Holders)
	if err != nil {
		return r, fmt.Errorf("poll shards: %w", err)
	}
	return r, nil
}

// Server says what the database is and what its clock shows.
type Server struct {
	Version string
	Now     time.Time // UTC
}

// Server asks the database for its version and time.
func (s *Store) Server(ctx context.Context) (Server, error) {
	var v Server
	if err := s.pool.QueryRow(ctx, `SELECT current_setting('server_version'), app_now()`).Scan(&v.Version, &v.Now); err != nil {
		return v, fmt.Errorf("database: %w", err)
	}
	v.Now = v.Now.UTC()
	return v, nil
}
