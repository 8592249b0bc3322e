package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// AccountRest is an account whose changes of one direction rest, because the carrier refused nearly all (G8).
type AccountRest struct {
	AccountID simwarden.AccountID `json:"-"`
	Direction simwarden.Direction `json:"direction"`
	SinceAt   time.Time           `json:"since_at"`
	Because   string              `json:"because"`
	// ProbeAt is when one SIM may be tried next, Probes how many have been.
	ProbeAt      time.Time           `json:"probe_at"`
	Probes       int                 `json:"probes"`
	ProbeCommand simwarden.CommandID `json:"probe_command_id,omitempty"`
	ProbedAt     time.Time           `json:"probed_at,omitzero"`
}

const restColumns = `account_id, direction, since_at, because, probe_at, probes, coalesce(probe_command, 0), probed_at`

func scanRest(row pgx.Row) (AccountRest, error) {
	var r AccountRest
	var probed *time.Time
	if err := one(row, &r.AccountID, &r.Direction, &r.SinceAt, &r.Because, &r.ProbeAt, &r.Probes, &r.ProbeCommand, &probed); err != nil {
		return AccountRest{}, err
	}
	r.SinceAt, r.ProbeAt, r.ProbedAt = r.SinceAt.UTC(), r.ProbeAt.UTC(), timeOf(probed)
	return r, nil
}

// RestAlertKey names the alert of an account whose changes of one direction rest.
func RestAlertKey(id simwarden.AccountID, d simwarden.Direction) string {
	return fmt.Sprintf("%s:%d:%s", AlertRest, id, d)
}

// RestsOf gives what of an account, or (zero) of all accounts, rests.
func (s *Store) RestsOf(ctx context.Context, id simwarden.AccountID) ([]AccountRest, error) {
	return scanAll("accounts at rest", scanRest)(s.pool.Query(ctx, `
		SELECT `+restColumns+` FROM account_rest WHERE ($1 = 0 OR account_id = $1) AND since_at IS NOT NULL ORDER BY account_id, direction`, int64(id)))
}

// NoteAnswer keeps what the carrier made of a command's attempt, and says whether the account's changes of
// that direction rest.
func (tx *Tx) NoteAnswer(ctx context.Context, c Command, refused bool) (rests bool, err error) {
	err = tx.QueryRow(ctx, `
		WITH noted AS (INSERT INTO account_answer (account_id, direction, at, sim_id, refused) VALUES ($1, $2, $3, $4, $5))
		SELECT EXISTS (SELECT FROM account_rest WHERE account_id = $1 AND direction = $2 AND since_at IS NOT NULL)`,
		c.AccountID, string(c.Direction), tx.At, c.SIMID, refused).Scan(&rests)
	if err != nil {
		return false, fmt.Errorf("note answer to command %d: %w", c.ID, err)
	}
	return rests, nil
}

// LatestAnswers gives the latest answers to an account's changes of one direction since an instant, the
// latest first, but none from before its last rest ended.
func (tx *Tx) LatestAnswers(ctx context.Context, id simwarden.AccountID, d simwarden.Direction, since time.Time, limit int) ([]rules.Answer, error) {
	rows, err := tx.Query(ctx, `
		SELECT sim_id, refused FROM account_answer WHERE account_id = $1 AND direction = $2
		  AND at > greatest($3, (SELECT ended_at FROM account_rest WHERE account_id = $1 AND direction = $2))
		ORDER BY at DESC LIMIT $4`, id, string(d), since, limit)
	if err != nil {
		return nil, fmt.Errorf("answers to account %d: %w", id, err)
	}
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[rules.Answer])
	if err != nil {
		return nil, fmt.Errorf("answers to account %d: %w", id, err)
	}
	return out, nil
}

// RestAccount lets an account's changes of one direction rest; refused since reopenFrom are the SIMs to judge
// again when it ends. It says whether they did not rest until now.
func (tx *Tx) RestAccount(ctx context.Context, id simwarden.AccountID, d simwarden.Direction, because string, probeAt, reopenFrom time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `
		INSERT INTO account_rest AS r (account_id, direction, since_at, because, probe_at, reopen_from) VALUES ($1, $2, $3, $4, $5, $6)
		ON CONFLICT (account_id, direction) DO UPDATE SET since_at = $3, because = $4, probe_at = $5, probes = 0, probe_command = NULL,
			probed_at = NULL, reopen_from = least(r.reopen_from, $6)
		WHERE r.since_at IS NULL`, id, string(d), tx.At, because, probeAt, reopenFrom)
	if err != nil {
		return false, fmt.Errorf("rest account %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// EndRest lets an account's changes go on; it says whether they rested until now.
func (tx *Tx) EndRest(ctx context.Context, id simwarden.AccountID, d simwarden.Direction) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE account_rest SET since_at = NULL, ended_at = $3 WHERE account_id = $1 AND direction = $2 AND since_at IS NOT NULL`,
		id, string(d), tx.At)
	if err != nil {
		return false, fmt.Errorf("end rest of account %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// RestOf looks whether an account's changes of one direction rest. It locks nothing.
func (tx *Tx) RestOf(ctx context.Context, id simwarden.AccountID, d simwarden.Direction) (AccountRest, bool, error) {
	return tx.rest(ctx, id, d, ``)
}

// LockRest is RestOf with the row locked, so that one probe goes out at a time over all nodes. It comes after
// the locks of SIM and command.
func (tx *Tx) LockRest(ctx context.Context, id simwarden.AccountID, d simwarden.Direction) (AccountRest, bool, error) {
	return tx.rest(ctx, id, d, ` FOR NO KEY UPDATE`)
}

func (tx *Tx) rest(ctx context.Context, id simwarden.AccountID, d simwarden.Direction, lock string) (AccountRest, bool, error) {
	r, err := scanRest(tx.QueryRow(ctx, `
		SELECT `+restColumns+` FROM account_rest WHERE account_id = $1 AND direction = $2 AND since_at IS NOT NULL`+lock, id, string(d)))
	if errors.Is(err, ErrNotFound) {
		return r, false, nil
	}
	if err != nil {
		return r, false, fmt.Errorf("rest of account %d: %w", id, err)
	}
	return r, true, nil
}

// ProbeUnderWay says whether the SIM that was tried last may still be changing at the carrier.
func (tx *Tx) ProbeUnderWay(ctx context.Context, r AccountRest) (bool, error) {
	if r.ProbeCommand == 0 {
		return false, nil
	}
	var yes bool
	err := tx.QueryRow(ctx, `SELECT EXISTS (SELECT FROM command WHERE id = $1 AND state IN ('sending', 'verifying', 'confirming'))`, r.ProbeCommand).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("probe of account %d: %w", r.AccountID, err)
	}
	return yes, nil
}

// TakeProbe makes a command the one that is tried, and sets when the next may be.
func (tx *Tx) TakeProbe(ctx context.Context, c Command, next time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE account_rest SET probes = probes + 1, probe_command = $3, probed_at = $4, probe_at = $5
		WHERE account_id = $1 AND direction = $2`, c.AccountID, string(c.Direction), c.ID, tx.At, next)
	if err != nil {
		return fmt.Errorf("probe account %d: %w", c.AccountID, err)
	}
	return nil
}

// FoldFailures closes the alerts of single SIMs that were refused while or just before their account's changes
// came to rest: the account's own alert stands for them.
func (s *Store) FoldFailures(ctx context.Context) error {
	_, err := s.work.Exec(ctx, `
		UPDATE alert SET cleared_at = $1, cleared_by = 'system' WHERE cleared_at IS NULL AND id IN (
			SELECT a.id FROM account_rest r JOIN account_answer n ON n.account_id = r.account_id AND n.direction = r.direction AND n.refused AND n.at >= r.reopen_from
			JOIN alert a ON a.sim_id = n.sim_id AND a.kind = $2 AND a.cleared_at IS NULL
			WHERE r.since_at IS NOT NULL)`, s.Now(), AlertCommandFailed)
	if err != nil {
		return fmt.Errorf("fold alerts of accounts at rest: %w", err)
	}
	return nil
}

// RefusedWhileAtRest finds SIMs, up to limit, that were refused before or during a rest that has ended, and that
// still wait before the same order may be opened again.
func (s *Store) RefusedWhileAtRest(ctx context.Context, limit int) ([]simwarden.SIMID, error) {
	return scanAll("sims refused by accounts at rest", scanID[simwarden.SIMID])(s.work.Query(ctx, `
		SELECT DISTINCT n.sim_id FROM account_rest r
		JOIN account_answer n ON n.account_id = r.account_id AND n.direction = r.direction AND n.refused AND n.at >= r.reopen_from
		JOIN sim s ON s.id = n.sim_id AND s.failed_direction = r.direction AND s.reopen_at > $1
		WHERE r.since_at IS NULL AND r.reopen_from IS NOT NULL LIMIT $2`, s.Now(), limit))
}

// ForgetRefusals lets go of ended rests whose SIMs have all been judged again, and of answers that count no
// more: those from before an instant, but not the refusals of a rest that is on.
func (s *Store) ForgetRefusals(ctx context.Context, before time.Time) error {
	_, err := s.work.Exec(ctx, `
		WITH over AS (
			UPDATE account_rest r SET reopen_from = NULL WHERE r.since_at IS NULL AND r.reopen_from IS NOT NULL AND NOT EXISTS (
				SELECT FROM account_answer n JOIN sim s ON s.id = n.sim_id AND s.failed_direction = n.direction AND s.reopen_at > $1
				WHERE n.account_id = r.account_id AND n.direction = r.direction AND n.refused AND n.at >= r.reopen_from)
		)
		DELETE FROM account_answer n WHERE n.at < $2 AND NOT (n.refused AND EXISTS (
			SELECT FROM account_rest r WHERE r.account_id = n.account_id AND r.direction = n.direction AND r.reopen_from IS NOT NULL))`,
		s.Now(), before)
	if err != nil {
		return fmt.Errorf("forget refusals: %w", err)
	}
	return nil
}
