package store

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrKeyInFlight says that a request with the same idempotency key is being worked on.
var ErrKeyInFlight = errors.New("a request with this idempotency key is under way")

// KeptAnswer is what a request with an idempotency key was answered.
type KeptAnswer struct {
	Fingerprint []byte // tells the request from others
	Answer      []byte
}

// TakeKey takes a principal's idempotency key for this transaction, and gives what a request with it
// since the instant after was answered: ErrNotFound where there was none, ErrKeyInFlight where another
// transaction has the key. It waits for nobody.
func (tx *Tx) TakeKey(ctx context.Context, principal, key string, after time.Time) (KeptAnswer, error) {
	var k KeptAnswer
	var ours bool
	// Two keys with one hash only keep each other waiting.
	if err := tx.QueryRow(ctx, `SELECT pg_try_advisory_xact_lock(hashtextextended($1 || ' ' || $2, 51))`, principal, key).Scan(&ours); err != nil {
		return k, fmt.Errorf("take an idempotency key: %w", err)
	}
	if !ours {
		return k, ErrKeyInFlight
	}
	err := one(tx.QueryRow(ctx, `SELECT fingerprint, answer FROM idempotency_key WHERE principal = $1 AND key = $2 AND created_at > $3`,
		principal, key, after), &k.Fingerprint, &k.Answer)
	if err != nil {
		return k, fmt.Errorf("look for the idempotency key: %w", err)
	}
	return k, nil
}

// KeepAnswer keeps what a request with an idempotency key is answered, with its effect.
func (tx *Tx) KeepAnswer(ctx context.Context, principal, key string, k KeptAnswer) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO idempotency_key (principal, key, fingerprint, answer, created_at) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (principal, key) DO UPDATE SET fingerprint = excluded.fingerprint, answer = excluded.answer, created_at = excluded.created_at`,
		principal, key, k.Fingerprint, k.Answer, tx.At)
	if err != nil {
		return fmt.Errorf("keep the answer to an idempotency key: %w", err)
	}
	return nil
}

// DropKeptAnswers deletes answers given before an instant, up to limit; it gives how many.
func (s *Store) DropKeptAnswers(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, `
		DELETE FROM idempotency_key WHERE (principal, key) IN
			(SELECT principal, key FROM idempotency_key WHERE created_at < $1 ORDER BY created_at LIMIT $2)`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("drop kept answers: %w", err)
	}
	return tag.RowsAffected(), nil
}
