package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// TokenLease is the right to log in at a carrier for an account, which one has at a time over all
// nodes. It is a row and no lock: a login is a call to a carrier, made with no transaction open.
type TokenLease struct {
	AccountID simwarden.AccountID
	Holder    string
	Epoch     int64
	// Sealed is the token kept when the lease was taken, nil for none.
	Sealed []byte
}

// CarrierToken gives the sealed token of an account, nil where none is kept.
func (s *Store) CarrierToken(ctx context.Context, id simwarden.AccountID) ([]byte, error) {
	var sealed []byte
	err := s.work.QueryRow(ctx, `SELECT sealed FROM carrier_token WHERE account_id = $1`, id).Scan(&sealed)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return nil, fmt.Errorf("token of account %d: %w", id, err)
	}
	return sealed, nil
}

// TakeTokenLease takes the right to log in for d; ok is false while another holds it. A holder's name
// is good for one login.
func (s *Store) TakeTokenLease(ctx context.Context, id simwarden.AccountID, holder string, d time.Duration) (l TokenLease, ok bool, err error) {
	l = TokenLease{AccountID: id, Holder: holder}
	err = s.work.QueryRow(ctx, `
		INSERT INTO carrier_token AS t (account_id, holder, epoch, lease_until) VALUES ($1, $2, 1, app_now() + make_interval(secs => $3))
		ON CONFLICT (account_id) DO UPDATE SET holder = excluded.holder, epoch = t.epoch + 1, lease_until = excluded.lease_until
		WHERE t.lease_until < app_now()
		RETURNING epoch, sealed`, id, holder, d.Seconds()).Scan(&l.Epoch, &l.Sealed)
	if errors.Is(err, pgx.ErrNoRows) {
		return TokenLease{}, false, nil
	}
	if err != nil {
		return TokenLease{}, false, fmt.Errorf("take the login of account %d: %w", id, err)
	}
	return l, true, nil
}

// KeepToken keeps a new token and gives the lease back. ours is false, and nothing is kept, where
// another has taken the lease meanwhile.
func (s *Store) KeepToken(ctx context.Context, l TokenLease, sealed []byte) (ours bool, err error) {
	tag, err := s.work.Exec(ctx, `
		UPDATE carrier_token SET sealed = $4, renewed_at = $5, lease_until = '-infinity'
		WHERE account_id = $1 AND holder = $2 AND epoch = $3`, l.AccountID, l.Holder, l.Epoch, sealed, s.Now())
	if err != nil {
		return false, fmt.Errorf("keep the token of account %d: %w", l.AccountID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// GiveTokenLease gives the lease back without a token.
func (s *Store) GiveTokenLease(ctx context.Context, l TokenLease) error {
	_, err := s.work.Exec(ctx, `
		UPDATE carrier_token SET lease_until = '-infinity'
		WHERE account_id = $1 AND holder = $2 AND epoch = $3`, l.AccountID, l.Holder, l.Epoch)
	if err != nil {
		return fmt.Errorf("give the login of account %d back: %w", l.AccountID, err)
	}
	return nil
}
