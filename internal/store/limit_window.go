package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// LimitWindow is a limit of more than a second: at most Calls in any window of so many Seconds. The
// operation "" counts all of the group's calls together, logins included; any other counts its own.
type LimitWindow struct {
	Operation simwarden.Operation `json:"operation"`
	Seconds   int                 `json:"seconds"`
	Calls     int                 `json:"calls"`
}

// The bounds of what a group can be set to.
const (
	MinWindowSeconds       = 2
	MaxWindowSeconds       = 31 * 24 * 3600
	MaxWindowCalls         = 100_000_000
	MaxGroupConcurrent     = 10_000
	MaxCommandSharePercent = 90
)

// Check says what is wrong with a window.
func (w LimitWindow) Check() error {
	if w.Seconds < MinWindowSeconds || w.Seconds > MaxWindowSeconds {
		return fmt.Errorf("a window of %d s is not within %d s and 31 days", w.Seconds, MinWindowSeconds)
	}
	if w.Calls < 1 || w.Calls > MaxWindowCalls {
		return fmt.Errorf("%d calls in a window are not within 1 and %d", w.Calls, MaxWindowCalls)
	}
	return nil
}

// SetLimitWindow sets one of a group's windows. A new one begins with the calls that the statistics
// know of, so that a quota that is partly used up is not taken for a fresh one; one that is there
// keeps its count.
func (tx *Tx) SetLimitWindow(ctx context.Context, id simwarden.LimitGroupID, w LimitWindow) error {
	if err := w.Check(); err != nil {
		return fmt.Errorf("limit of group %d: %w", id, err)
	}
	// Buckets as take_slots has them. A minute of the statistics counts as its end, and what is not
	// written there yet, some seconds, is not known.
	_, err := tx.Exec(ctx, `
		WITH made AS (
			SELECT ($3::int + 0.25) / 60.0 AS width
		), base AS (
			SELECT width, floor(extract(epoch FROM app_now())::float8 / width)::bigint - 60 AS base FROM made
		), used AS (
			SELECT least(floor(extract(epoch FROM c.minute_at + interval '1 minute')::float8 / base.width)::bigint - base.base, 60) AS i,
				sum(c.calls) AS n, sum(c.calls) FILTER (WHERE c.purpose = 'poll') AS polls
			FROM call_stat c JOIN account a ON a.id = c.account_id CROSS JOIN base
			WHERE a.limit_group_id = $1 AND ($2 = '' OR c.operation = $2) AND c.outcome <> ALL ($5)
				AND c.minute_at > app_now() - make_interval(secs => $3::int + 60)
			GROUP BY 1
		)
		INSERT INTO limit_window (limit_group_id, operation, window_seconds, calls, base, counts, polls)
		SELECT $1, $2, $3, $4, base.base,
			(SELECT array_agg(least(coalesce(u.n, 0), 1000000000)::int ORDER BY g) FROM generate_series(0, 60) g LEFT JOIN used u ON u.i = g),
			(SELECT array_agg(least(coalesce(u.polls, 0), 1000000000)::int ORDER BY g) FROM generate_series(0, 60) g LEFT JOIN used u ON u.i = g)
		FROM base
		ON CONFLICT (limit_group_id, operation, window_seconds) DO UPDATE SET calls = excluded.calls`,
		id, string(w.Operation), w.Seconds, w.Calls, notAttempts)
	if err != nil {
		return fmt.Errorf("limit of group %d: %w", id, err)
	}
	return nil
}

// notAttempts are the outcomes in the statistics that count what did not leave this machine, or what
// is counted besides.
var notAttempts = []string{"not_sent", "blocked", "stopped", "would_block"}

// DropLimitWindow takes one of a group's windows away; false where there is none.
func (tx *Tx) DropLimitWindow(ctx context.Context, id simwarden.LimitGroupID, op simwarden.Operation, window time.Duration) (bool, error) {
	tag, err := tx.Exec(ctx, `DELETE FROM limit_window WHERE limit_group_id = $1 AND operation = $2 AND window_seconds = $3`,
		id, string(op), int(window/time.Second))
	if err != nil {
		return false, fmt.Errorf("limit of group %d: %w", id, err)
	}
	return tag.RowsAffected() > 0, nil
}

// SetGroupConcurrent sets how many calls at a time a group may make over all nodes; 0: any number.
func (tx *Tx) SetGroupConcurrent(ctx context.Context, id simwarden.LimitGroupID, most int) error {
	if most < 0 || most > MaxGroupConcurrent {
		return fmt.Errorf("limit of group %d: %d calls at a time are not within 0 and %d", id, most, MaxGroupConcurrent)
	}
	return tx.setGroup(ctx, id, `UPDATE limit_group SET max_concurrent = $2 WHERE id = $1`, most)
}

// SetCommandShare sets the share of each longer window that polls leave to commands.
func (tx *Tx) SetCommandShare(ctx context.Context, id simwarden.LimitGroupID, percent int) error {
	if percent < 0 || percent > MaxCommandSharePercent {
		return fmt.Errorf("limit of group %d: a share of %d %% is not within 0 and %d", id, percent, MaxCommandSharePercent)
	}
	return tx.setGroup(ctx, id, `UPDATE limit_group SET command_share_percent = $2 WHERE id = $1`, percent)
}

func (tx *Tx) setGroup(ctx context.Context, id simwarden.LimitGroupID, sql string, value int) error {
	tag, err := tx.Exec(ctx, sql, id, value)
	if err != nil {
		return fmt.Errorf("set limit group %d: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("limit group %d: %w", id, ErrNotFound)
	}
	return nil
}

// ErrLimitGroupExists says that a limit group of that name is there already.
var ErrLimitGroupExists = errors.New("a limit group of this name exists already")

// AddLimitGroup makes a group without limits, in monitor. The error is ErrLimitGroupExists where the
// name is taken.
func (tx *Tx) AddLimitGroup(ctx context.Context, name string) (simwarden.LimitGroupID, error) {
	var id simwarden.LimitGroupID
	err := tx.QueryRow(ctx, `INSERT INTO limit_group (name, created_at) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING RETURNING id`, name, tx.At).Scan(&id)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return 0, fmt.Errorf("%w: %q", ErrLimitGroupExists, name)
	case err != nil:
		return 0, fmt.Errorf("add limit group: %w", err)
	}
	return id, nil
}

// MoveAccountToGroup lets an account share another group's limits from now on.
func (tx *Tx) MoveAccountToGroup(ctx context.Context, id simwarden.AccountID, group simwarden.LimitGroupID) error {
	tag, err := tx.Exec(ctx, `UPDATE account SET limit_group_id = $2, updated_at = $3 WHERE id = $1`, id, group, tx.At)
	if err != nil {
		return fmt.Errorf("move account %d to limit group %d: %w", id, group, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("account %d: %w", id, ErrNotFound)
	}
	return nil
}
