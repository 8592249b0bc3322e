package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// FailedChange counts suspends or resumes that a carrier answered with the same error.
type FailedChange struct {
	Direction  simwarden.Direction
	HTTPStatus int
	Code       string
	Message    string
	Class      string // as it was classified then
	Times      int
}

// FailedChanges counts the attempts of a driver's accounts that ended in an error after an instant, by
// error, the most frequent first.
func (s *Store) FailedChanges(ctx context.Context, driver string, after time.Time, limit int) ([]FailedChange, error) {
	return scanAll("failed changes of driver "+driver, func(row pgx.Row) (f FailedChange, err error) {
		err = row.Scan(&f.Direction, &f.HTTPStatus, &f.Code, &f.Message, &f.Class, &f.Times)
		return f, err
	})(s.pool.Query(ctx, `
		SELECT c.direction, t.http_status, t.code, t.message, t.class, count(*)
		FROM attempt t JOIN command c ON c.id = t.command_id JOIN account a ON a.id = c.account_id
		WHERE t.outcome = 'error' AND t.ended_at > $2 AND a.driver = $1
		GROUP BY 1, 2, 3, 4, 5 ORDER BY 6 DESC, 1, 2, 3, 4, 5 LIMIT $3`, driver, after, limit))
}

// FailedRead counts calls, other than suspends and resumes, that ended in an error. Their answers are
// not kept.
type FailedRead struct {
	Operation simwarden.Operation
	Class     string // as it was classified then
	Times     int
}

// FailedReads counts the calls of a driver's accounts after an instant that ended in one of the classes.
func (s *Store) FailedReads(ctx context.Context, driver string, after time.Time, classes []string) ([]FailedRead, error) {
	return scanAll("failed reads of driver "+driver, func(row pgx.Row) (f FailedRead, err error) {
		err = row.Scan(&f.Operation, &f.Class, &f.Times)
		return f, err
	})(s.pool.Query(ctx, `
		SELECT t.operation, t.outcome, sum(t.calls)::bigint FROM call_stat t JOIN account a ON a.id = t.account_id
		WHERE a.driver = $1 AND t.minute_at > $2 AND t.outcome = ANY($3) AND t.operation NOT IN ('suspend', 'resume')
		GROUP BY 1, 2 ORDER BY 1, 2`, driver, after, classes))
}

// ErrorRule gives one rule, locked for the rest of the transaction.
func (tx *Tx) ErrorRule(ctx context.Context, id int64) (ErrorRule, error) {
	r, err := scanRule(tx.QueryRow(ctx, `SELECT `+ruleColumns+` FROM error_rule WHERE id = $1 FOR UPDATE`, id))
	if err != nil {
		return r, fmt.Errorf("error rule %d: %w", id, err)
	}
	return r, nil
}
