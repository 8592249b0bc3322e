package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// AccountEvaluation is the judging of all SIMs of an account (S19), or of a pool's members (L6), in the
// background, with a scene.
type AccountEvaluation struct {
	ID         int64               `json:"id"`
	AccountID  simwarden.AccountID `json:"account_id,omitempty"`
	PoolID     simwarden.PoolID    `json:"pool_id,omitempty"`
	Scene      simwarden.Scene     `json:"scene"`
	Cursor     int64               `json:"-"` // the last SIM of the account, or member of the pool, that was judged
	UntilID    int64               `json:"-"` // the last to judge
	Total      int64               `json:"total"`
	Done       int64               `json:"done"`
	Ordered    int64               `json:"ordered"` // commands that it led to
	AskedBy    string              `json:"asked_by"`
	AskedAt    time.Time           `json:"asked_at"`
	FinishedAt time.Time           `json:"finished_at,omitzero"`
	Outcome    string              `json:"outcome,omitempty"`
}

const accountEvaluationColumns = `id, coalesce(account_id, 0), coalesce(pool_id, 0), scene, cursor, until_id, total, done, ordered, asked_by, asked_at, finished_at, outcome`

func scanAccountEvaluation(row pgx.Row) (AccountEvaluation, error) {
	var e AccountEvaluation
	var finished *time.Time
	err := one(row, &e.ID, &e.AccountID, &e.PoolID, &e.Scene, &e.Cursor, &e.UntilID, &e.Total, &e.Done, &e.Ordered, &e.AskedBy, &e.AskedAt, &finished, &e.Outcome)
	e.AskedAt, e.FinishedAt = e.AskedAt.UTC(), timeOf(finished)
	return e, err
}

// SetRealNameRequired sets whether an account's SIMs must be verified by real name (E2).
func (tx *Tx) SetRealNameRequired(ctx context.Context, id simwarden.AccountID, required bool) error {
	return tx.touchAccount(ctx, id, `realname_required = $3`, required)
}

// RequestAccountEvaluation asks in the cause's own transaction for all SIMs of an account to be
// judged (C1). One that is under way with the same scene is overtaken: the newer goes over all again.
func (tx *Tx) RequestAccountEvaluation(ctx context.Context, account simwarden.AccountID, scene simwarden.Scene, by string) error {
	if _, err := tx.Exec(ctx, `
		UPDATE account_evaluation SET finished_at = $3, outcome = 'overtaken by a newer change'
		WHERE account_id = $1 AND scene = $2 AND finished_at IS NULL`, account, string(scene), tx.At); err != nil {
		return fmt.Errorf("overtake the evaluation of account %d: %w", account, err)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO account_evaluation (account_id, scene, until_id, total, asked_by, asked_at)
		SELECT $1, $2, coalesce(max(id), 0), count(*), $3, $4 FROM sim WHERE account_id = $1`, account, string(scene), by, tx.At)
	if err != nil {
		return fmt.Errorf("ask for the evaluation of account %d: %w", account, err)
	}
	return nil
}

// TakeAccountEvaluation locks the oldest unfinished one that nobody else has locked, for the rest of
// the transaction: the lock is the lease, and a node that dies gives it back at once. ok is false
// where there is none.
func (tx *Tx) TakeAccountEvaluation(ctx context.Context) (e AccountEvaluation, ok bool, err error) {
	e, err = scanAccountEvaluation(tx.QueryRow(ctx, `SELECT `+accountEvaluationColumns+` FROM account_evaluation
		WHERE finished_at IS NULL ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED`))
	if errors.Is(err, ErrNotFound) {
		return e, false, nil
	}
	if err != nil {
		return e, false, fmt.Errorf("take an account's evaluation: %w", err)
	}
	return e, true, nil
}

// SIMsToJudge gives the next SIMs of an evaluation, those of up to limit SIMs of its account or members
// of its pool, and how far it has come with them: its own Cursor where there are no more.
func (tx *Tx) SIMsToJudge(ctx context.Context, e AccountEvaluation, limit int) (ids []simwarden.SIMID, cursor int64, err error) {
	cursor = e.Cursor
	if e.PoolID != 0 {
		var last simwarden.PoolMemberID
		if ids, last, err = tx.SIMsOfPool(ctx, e.PoolID, simwarden.PoolMemberID(e.Cursor), simwarden.PoolMemberID(e.UntilID), limit); last != 0 {
			cursor = int64(last)
		}
		return ids, cursor, err
	}
	if ids, err = tx.simsOfAccount(ctx, e.AccountID, e.Cursor, e.UntilID, limit); len(ids) > 0 {
		cursor = int64(ids[len(ids)-1])
	}
	return ids, cursor, err
}

func (tx *Tx) simsOfAccount(ctx context.Context, account simwarden.AccountID, after, until int64, limit int) ([]simwarden.SIMID, error) {
	return scanAll(fmt.Sprintf("sims of account %d", account), scanID[simwarden.SIMID])(tx.Query(ctx,
		`SELECT id FROM sim WHERE account_id = $1 AND id > $2 AND id <= $3 ORDER BY id LIMIT $4`, account, after, until, limit))
}

// MoveAccountEvaluation keeps how far it has come, in the transaction that judged.
func (tx *Tx) MoveAccountEvaluation(ctx context.Context, id, cursor int64, done, ordered int) error {
	_, err := tx.Exec(ctx, `UPDATE account_evaluation SET cursor = $2, done = done + $3, ordered = ordered + $4 WHERE id = $1`, id, cursor, done, ordered)
	if err != nil {
		return fmt.Errorf("keep how far evaluation %d of an account has come: %w", id, err)
	}
	return nil
}

// FinishAccountEvaluation ends it.
func (tx *Tx) FinishAccountEvaluation(ctx context.Context, id int64) error {
	_, err := tx.Exec(ctx, `UPDATE account_evaluation SET finished_at = $2, outcome = 'all judged' WHERE id = $1`, id, tx.At)
	if err != nil {
		return fmt.Errorf("finish evaluation %d of an account: %w", id, err)
	}
	return nil
}

// AccountEvaluations lists an account's, the newest first.
func (s *Store) AccountEvaluations(ctx context.Context, account simwarden.AccountID, limit int) ([]AccountEvaluation, error) {
	return scanAll(fmt.Sprintf("evaluations of account %d", account), scanAccountEvaluation)(
		s.pool.Query(ctx, `SELECT `+accountEvaluationColumns+` FROM account_evaluation WHERE account_id = $1 ORDER BY id DESC LIMIT $2`, account, limit))
}

// SetRealName keeps a SIM's real-name status as a person said it.
func (tx *Tx) SetRealName(ctx context.Context, id simwarden.SIMID, status simwarden.RealName) error {
	_, err := tx.Exec(ctx, `UPDATE poll_state SET realname = $2, realname_read_at = $3, settled = false WHERE sim_id = $1`, id, string(status), tx.At)
	if err != nil {
		return fmt.Errorf("real-name status of sim %d: %w", id, err)
	}
	return tx.wakeVerified(ctx, []int64{int64(id)})
}
