package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// APIToken is one token of the API (B6). Its secret is not here: the database keeps a SHA-256 of it.
type APIToken struct {
	ID         string    `json:"id"`
	Name       string    `json:"name"`
	CreatedAt  time.Time `json:"created_at"` // UTC, as all instants here
	CreatedBy  string    `json:"created_by"`
	LastUsedAt time.Time `json:"last_used_at,omitzero"` // to the minute
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
}

const tokenColumns = `id, name, created_at, created_by, last_used_at, revoked_at`

func scanToken(row pgx.Row, more ...any) (APIToken, error) {
	var t APIToken
	var used, revoked *time.Time
	err := one(row, append([]any{&t.ID, &t.Name, &t.CreatedAt, &t.CreatedBy, &used, &revoked}, more...)...)
	t.CreatedAt, t.LastUsedAt, t.RevokedAt = t.CreatedAt.UTC(), timeOf(used), timeOf(revoked)
	return t, err
}

// AddToken keeps a new token with the SHA-256 of its secret.
func (tx *Tx) AddToken(ctx context.Context, id, name string, secretHash []byte, by string) (APIToken, error) {
	t, err := scanToken(tx.QueryRow(ctx, `
		INSERT INTO api_token (id, name, secret_hash, created_at, created_by) VALUES ($1, $2, $3, $4, $5) RETURNING `+tokenColumns,
		id, name, secretHash, tx.At, by))
	if err != nil {
		return t, fmt.Errorf("add token %q: %w", name, err)
	}
	return t, nil
}

// Tokens gives the newest tokens, revoked ones too, newest first.
func (s *Store) Tokens(ctx context.Context, limit int) ([]APIToken, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM api_token ORDER BY created_at DESC, id LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	defer rows.Close()
	out := []APIToken{}
	for rows.Next() {
		t, err := scanToken(rows)
		if err != nil {
			return nil, fmt.Errorf("tokens: %w", err)
		}
		out = append(out, t)
	}
	return out, rows.Err()
}

// TokenByID gives a token and the SHA-256 of its secret; ErrNotFound where there is none.
func (s *Store) TokenByID(ctx context.Context, id string) (t APIToken, secretHash []byte, err error) {
	if t, err = scanToken(s.pool.QueryRow(ctx, `SELECT `+tokenColumns+`, secret_hash FROM api_token WHERE id = $1`, id), &secretHash); err != nil {
		return t, nil, fmt.Errorf("token: %w", err)
	}
	return t, secretHash, nil
}

// RevokeToken ends a token; it says whether it was good until now, and is ErrNotFound where there
// is none with that id.
func (tx *Tx) RevokeToken(ctx context.Context, id string) (bool, error) {
	var was *time.Time
	err := one(tx.QueryRow(ctx, `
		WITH before AS (SELECT id, revoked_at FROM api_token WHERE id = $1 FOR UPDATE)
		UPDATE api_token t SET revoked_at = coalesce(t.revoked_at, $2) FROM before b WHERE t.id = b.id RETURNING b.revoked_at`, id, tx.At), &was)
	if err != nil {
		return false, fmt.Errorf("revoke token: %w", err)
	}
	return was == nil, nil
}

// TouchToken notes that a token was used now, at most once in the given time (B6).
func (s *Store) TouchToken(ctx context.Context, id string, every time.Duration) error {
	now := s.Now()
	_, err := s.pool.Exec(ctx, `UPDATE api_token SET last_used_at = $2 WHERE id = $1 AND (last_used_at IS NULL OR last_used_at <= $3)`, id, now, now.Add(-every))
	if err != nil {
		return fmt.Errorf("note the use of a token: %w", err)
	}
	return nil
}
