package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// WALWritten is how many bytes of write-ahead log the server has written since it was made, those
// of other databases and of its own upkeep among them. Postgres alone counts so: a difference of
// two is what was written between them.
func (s *Store) WALWritten(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint`).Scan(&n); err != nil {
		return 0, fmt.Errorf("position of the write-ahead log: %w", err)
	}
	return n, nil
}

// BackendPID is the number of a process of the server that serves this store, on the server's machine.
func (s *Store) BackendPID(ctx context.Context) (int, error) {
	var pid int
	if err := s.pool.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return 0, fmt.Errorf("process of the database: %w", err)
	}
	return pid, nil
}

// SubscribeAll gives every SIM of an account an active main subscription of the plan, from the
// transaction's instant to end, and asks for no evaluation: the next reading of each SIM judges it.
// It is how a fleet is made for a measurement; what is sold goes through plans.Subscribe.
func (tx *Tx) SubscribeAll(ctx context.Context, account simwarden.AccountID, plan simwarden.Plan, end time.Time, by string) (int64, error) {
	tag, err := tx.Exec(ctx, `
		WITH planned AS (
			UPDATE sim SET ever_planned = true WHERE account_id = $1 RETURNING id
		)
		INSERT INTO subscription (sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by)
		SELECT id, $2, 'main', 'active', $3, $4, $5, $3, $6 FROM planned`,
		account, plan.ID, tx.At, end, plan.AllowanceBytes, by)
	if err != nil {
		return 0, fmt.Errorf("subscribe all sims of account %d: %w", account, err)
	}
	return tag.RowsAffected(), nil
}
