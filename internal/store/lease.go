package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// Lease is a right that one node holds at a time, as a row with holder and epoch: a session lock
// would survive a stopped holder for ever. Times are the database's.
type Lease struct {
	Name   string
	Holder string
	Epoch  int64
	Cursor string
}

// TakeLease takes or renews a lease for d; ok is false while another holds it. The epoch grows
// with each change of holder.
func (s *Store) TakeLease(ctx context.Context, name, holder string, d time.Duration) (l Lease, ok bool, err error) {
	err = s.work.QueryRow(ctx, `
		INSERT INTO lease AS l (name, holder, epoch, lease_until) VALUES ($1, $2, 1, app_now() + make_interval(secs => $3))
		ON CONFLICT (name) DO UPDATE SET
			epoch = l.epoch + CASE WHEN l.holder = excluded.holder THEN 0 ELSE 1 END,
			holder = excluded.holder, lease_until = excluded.lease_until
		WHERE l.holder = excluded.holder OR l.lease_until < app_now()
		RETURNING name, holder, epoch, cursor`, name, holder, d.Seconds()).Scan(&l.Name, &l.Holder, &l.Epoch, &l.Cursor)
	if errors.Is(err, pgx.ErrNoRows) {
		return Lease{}, false, nil
	}
	if err != nil {
		return Lease{}, false, fmt.Errorf("take lease %s: %w", name, err)
	}
	return l, true, nil
}

// HoldsLease says, and locks until the end of the transaction, whether the lease is still this
// holder's in this epoch.
func (tx *Tx) HoldsLease(ctx context.Context, l Lease) (bool, error) {
	var yes bool
	err := tx.QueryRow(ctx, `SELECT true FROM lease WHERE name = $1 AND holder = $2 AND epoch = $3 FOR SHARE`, l.Name, l.Holder, l.Epoch).Scan(&yes)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("check lease %s: %w", l.Name, err)
	}
	return yes, nil
}

// SetCursor keeps how far the holder of a lease has come.
func (s *Store) SetCursor(ctx context.Context, l Lease, cursor string) error {
	_, err := s.pool.Exec(ctx, `UPDATE lease SET cursor = $4 WHERE name = $1 AND holder = $2 AND epoch = $3`, l.Name, l.Holder, l.Epoch, cursor)
	if err != nil {
		return fmt.Errorf("keep cursor of %s: %w", l.Name, err)
	}
	return nil
}

// GiveLease gives a lease back, so that another need not wait for its end.
func (s *Store) GiveLease(ctx context.Context, l Lease) error {
	_, err := s.pool.Exec(ctx, `UPDATE lease SET lease_until = '-infinity' WHERE name = $1 AND holder = $2 AND epoch = $3`, l.Name, l.Holder, l.Epoch)
	if err != nil {
		return fmt.Errorf("give lease %s: %w", l.Name, err)
	}
	return nil
}
