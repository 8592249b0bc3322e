package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Guard is something that stops lapsing until a person releases it (C10, V13).
type Guard struct {
	ID            int64               `json:"id"`
	Kind          GuardKind           `json:"kind"`
	AccountID     simwarden.AccountID `json:"account_id,omitempty"` // 0: all accounts
	SinceAt       time.Time           `json:"since_at"`             // UTC
	Because       string              `json:"because"`
	Held          int64               `json:"held_subscriptions"` // of a mass lapse: those that wait for its release
	ReleasedAt    time.Time           `json:"released_at,omitzero"`
	ReleasedBy    string              `json:"released_by,omitempty"`
	ReleaseReason string              `json:"release_reason,omitempty"`
}

// GuardKind is what a guard is on for.
type GuardKind string

// The kinds of guard. A step of a clock stops all lapsing and all automatic suspends; a mass lapse
// those plan ends of one account that an import or an edit wrote.
const (
	GuardClock     GuardKind = "clock"
	GuardMassLapse GuardKind = "mass_lapse"
)

const guardColumns = `g.id, g.kind, coalesce(g.account_id, 0), g.since_at, g.because,
	(SELECT count(*) FROM subscription b WHERE b.guard_id = g.id AND b.state IN ('active', 'exhausted')), g.released_at, g.released_by, g.release_reason`

func scanGuard(row pgx.Row) (Guard, error) {
	var g Guard
	var released *time.Time
	err := one(row, &g.ID, &g.Kind, &g.AccountID, &g.SinceAt, &g.Because, &g.Held, &released, &g.ReleasedBy, &g.ReleaseReason)
	g.SinceAt, g.ReleasedAt = g.SinceAt.UTC(), timeOf(released)
	return g, err
}

// Guards gives up to limit guards, the newest first; only those that nobody has released where open
// is set.
func (s *Store) Guards(ctx context.Context, open bool, limit int) ([]Guard, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+guardColumns+` FROM guard g WHERE released_at IS NULL OR NOT $1 ORDER BY g.id DESC LIMIT $2`, open, limit)
	if err != nil {
		return nil, fmt.Errorf("guards: %w", err)
	}
	defer rows.Close()
	out := []Guard{}
	for rows.Next() {
		g, err := scanGuard(rows)
		if err != nil {
			return nil, fmt.Errorf("guards: %w", err)
		}
		out = append(out, g)
	}
	return out, rows.Err()
}

// GuardsOfSIM gives the open guards that hold something of the SIM: those of a clock, and the one that
// keeps a plan of its asset from lapsing.
func (s *Store) GuardsOfSIM(ctx context.Context, id simwarden.SIMID) ([]Guard, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+guardColumns+` FROM guard g WHERE g.released_at IS NULL AND (g.kind = 'clock' OR g.id IN (
			SELECT b.guard_id FROM subscription b JOIN sim s ON s.id = $1
			WHERE (b.sim_id = s.id OR b.device_id = s.device_id) AND b.state IN ('active', 'exhausted')))
		ORDER BY g.id`, id)
	if err != nil {
		return nil, fmt.Errorf("guards of sim %d: %w", id, err)
	}
	defer rows.Close()
	out := []Guard{}
	for rows.Next() {
		g, err := scanGuard(rows)
		if err != nil {
			return nil, fmt.Errorf("guards of sim %d: %w", id, err)
		}
		out = append(out, g)
	}
	return out, rows.Err()
}

// openGuard opens a guard with its alert, or gives the one of its kind and account that is open.
func (tx *Tx) openGuard(ctx context.Context, kind GuardKind, account simwarden.AccountID, because, advice string) (int64, error) {
	var id int64
	err := tx.QueryRow(ctx, `
		INSERT INTO guard (kind, account_id, since_at, because) VALUES ($1, $2, $3, $4)
		ON CONFLICT (kind, coalesce(account_id, 0)) WHERE released_at IS NULL DO NOTHING RETURNING id`,
		string(kind), nullID(int64(account)), tx.At, because).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		err = tx.QueryRow(ctx, `SELECT id FROM guard WHERE kind = $1 AND coalesce(account_id, 0) = $2 AND released_at IS NULL`,
			string(kind), int64(account)).Scan(&id)
		if err != nil {
			return 0, fmt.Errorf("guard %s: %w", kind, err)
		}
		return id, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open guard %s: %w", kind, err)
	}
	return id, tx.Raise(ctx, Alert{Kind: AlertClock, Key: guardKey(id), AccountID: account,
		Message: fmt.Sprintf("%s; %s until a person releases it: simwarden guard release %d --reason …", because, advice, id)})
}

func guardKey(id int64) string { return fmt.Sprintf("guard:%d", id) }

// ReleaseGuard lets go what a guard holds: it lapses with the next sweep, and no guard holds it again
// for the same end. ErrNotFound where no open guard has the id. It gives the guard with how many
// subscriptions it had held.
func (tx *Tx) ReleaseGuard(ctx context.Context, id int64, by, reason string) (Guard, error) {
	g, err := scanGuard(tx.QueryRow(ctx, `SELECT `+guardColumns+` FROM guard g WHERE g.id = $1 AND g.released_at IS NULL FOR UPDATE`, id))
	if err != nil {
		return g, fmt.Errorf("open guard %d: %w", id, err)
	}
	if _, err := tx.Exec(ctx, `UPDATE guard SET released_at = $2, released_by = $3, release_reason = $4 WHERE id = $1`, id, tx.At, by, reason); err != nil {
		return g, fmt.Errorf("release guard %d: %w", id, err)
	}
	if _, err := tx.Exec(ctx, `UPDATE subscription SET hasty_at = NULL, guard_id = NULL WHERE guard_id = $1`, id); err != nil {
		return g, fmt.Errorf("release guard %d: %w", id, err)
	}
	g.ReleasedAt, g.ReleasedBy, g.ReleaseReason = tx.At, by, reason
	return g, tx.ClearAlert(ctx, guardKey(id), by)
}
