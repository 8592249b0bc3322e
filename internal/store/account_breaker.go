package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// AccountBreaker is a node's circuit breaker of an account, while it is not closed (G8).
type AccountBreaker struct {
	AccountID simwarden.AccountID `json:"-"`
	Node      string              `json:"node"`
	SinceAt   time.Time           `json:"since_at"`
	ProbeAt   time.Time           `json:"probe_at"` // when the carrier is asked next
	Because   string              `json:"because"`
}

// BreakerStale is how long a node's word about its breaker counts: a node that is gone takes nothing back.
const BreakerStale = time.Minute

// TellBreaker keeps what a node tells of a breaker that is not closed, and raises the account's alert where it is
// open for longer than a time.
func (s *Store) TellBreaker(ctx context.Context, b AccountBreaker, account string, alertAfter time.Duration) error {
	return s.InTx(ctx, func(tx *Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO account_breaker (account_id, holder, since_at, probe_at, because, seen_at) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (account_id, holder) DO UPDATE SET since_at = $3, probe_at = $4, because = $5, seen_at = $6`,
			b.AccountID, b.Node, b.SinceAt, b.ProbeAt, b.Because, tx.At)
		if err != nil {
			return fmt.Errorf("tell breaker of account %d: %w", b.AccountID, err)
		}
		if tx.At.Sub(b.SinceAt) < alertAfter {
			return nil
		}
		return tx.Raise(ctx, Alert{Kind: AlertFailing, Key: fmt.Sprintf("%s:%d", AlertFailing, b.AccountID), AccountID: b.AccountID,
			Message: fmt.Sprintf("the carrier of account %s keeps failing since %s: %s; its calls rest, and single ones probe it",
				account, b.SinceAt.UTC().Format(time.RFC3339), b.Because)})
	})
}

// CloseBreaker forgets a node's breaker of an account, which has closed.
func (s *Store) CloseBreaker(ctx context.Context, id simwarden.AccountID, node string) error {
	if _, err := s.pool.Exec(ctx, `DELETE FROM account_breaker WHERE account_id = $1 AND holder = $2`, id, node); err != nil {
		return fmt.Errorf("close breaker of account %d: %w", id, err)
	}
	return s.ForgetBreakers(ctx)
}

// ForgetBreakers forgets breakers of nodes that tell nothing any more, and closes the alerts of accounts of which no
// breaker is open.
func (s *Store) ForgetBreakers(ctx context.Context) error {
	now := s.Now()
	_, err := s.pool.Exec(ctx, `
		WITH gone AS (DELETE FROM account_breaker WHERE seen_at < $2)
		UPDATE alert a SET cleared_at = $1, cleared_by = 'system' WHERE a.kind = $3 AND a.cleared_at IS NULL
		  AND NOT EXISTS (SELECT FROM account_breaker b WHERE b.account_id = a.account_id AND b.seen_at >= $2)`,
		now, now.Add(-BreakerStale), AlertFailing)
	if err != nil {
		return fmt.Errorf("forget breakers: %w", err)
	}
	return nil
}

// BreakersOf gives the breakers of an account, or (zero) of all accounts, that are not closed.
func (s *Store) BreakersOf(ctx context.Context, id simwarden.AccountID) ([]AccountBreaker, error) {
	return scanAll("breakers", func(row pgx.Row) (AccountBreaker, error) {
		var b AccountBreaker
		err := one(row, &b.AccountID, &b.Node, &b.SinceAt, &b.ProbeAt, &b.Because)
		b.SinceAt, b.ProbeAt = b.SinceAt.UTC(), b.ProbeAt.UTC()
		return b, err
	})(s.pool.Query(ctx, `
		SELECT account_id, holder, since_at, probe_at, because FROM account_breaker WHERE ($1 = 0 OR account_id = $1) AND seen_at >= $2 ORDER BY account_id, since_at, holder`,
		int64(id), s.Now().Add(-BreakerStale)))
}
