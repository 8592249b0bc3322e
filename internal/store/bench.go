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

// SeedReadings writes that every SIM of an account has just been read as active, as a fleet in the
// middle of its life is known; for a measurement.
func (tx *Tx) SeedReadings(ctx context.Context, account simwarden.AccountID) error {
	_, err := tx.Exec(ctx, `UPDATE poll_state SET state = 'active', state_read_at = $2, state_since_at = $2 WHERE account_id = $1`, account, tx.At)
	if err != nil {
		return fmt.Errorf("seed readings of account %d: %w", account, err)
	}
	return nil
}

// CommandsNumbered is how many commands have been given a number, also in transactions that were
// rolled back: what it costs to ask does not grow with them.
func (s *Store) CommandsNumbered(ctx context.Context) (int64, error) {
	var n int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(pg_sequence_last_value(pg_get_serial_sequence('command', 'id')::regclass), 0)`).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count commands: %w", err)
	}
	return n, nil
}

// LapseTally says what became of the main plans of an account that end up to an instant.
type LapseTally struct {
	Subscriptions int64
	Expired       int64 // ended, at their instant or after it
	OneEvent      int64 // that have exactly one lapse in the timeline
	OneTrigger    int64 // that have led to exactly one command, which is the one noted for the lapse
	OneCommand    int64 // whose SIM has exactly one command in all for a plan's end
	SeveralOfAny  int64 // that have more than one of any of these
}

// TallyLapses counts the lapses of an account.
func (s *Store) TallyLapses(ctx context.Context, account simwarden.AccountID, until time.Time) (LapseTally, error) {
	var t LapseTally
	err := s.pool.QueryRow(ctx, `
		WITH events AS MATERIALIZED (SELECT (data->>'subscription_id')::bigint AS id, count(*) AS n FROM event WHERE kind = 'plan_lapsed' GROUP BY 1),
		commands AS MATERIALIZED (SELECT sim_id, count(*) AS n, max(id) AS id FROM command WHERE account_id = $1 AND scene = 'plan_lapsed' GROUP BY 1),
		triggers AS MATERIALIZED (SELECT subscription_id AS id, count(*) AS n, max(command_id) AS command FROM lapse_trigger GROUP BY 1)
		SELECT count(*), count(*) FILTER (WHERE b.state = 'expired' AND b.ended_at >= b.end_at), count(*) FILTER (WHERE e.n = 1),
			count(*) FILTER (WHERE t.n = 1 AND t.command = c.id), count(*) FILTER (WHERE c.n = 1),
			count(*) FILTER (WHERE e.n > 1 OR t.n > 1 OR c.n > 1)
		FROM subscription b JOIN sim s ON s.id = b.sim_id
		LEFT JOIN events e ON e.id = b.id LEFT JOIN triggers t ON t.id = b.id LEFT JOIN commands c ON c.sim_id = b.sim_id
		WHERE s.account_id = $1 AND b.kind = 'main' AND b.end_at <= $2`, account, until).
		Scan(&t.Subscriptions, &t.Expired, &t.OneEvent, &t.OneTrigger, &t.OneCommand, &t.SeveralOfAny)
	if err != nil {
		return t, fmt.Errorf("count lapses of account %d: %w", account, err)
	}
	return t, nil
}

// CommandsInScene gives the commands of an account that were written in a scene, up to limit, the
// latest first.
func (s *Store) CommandsInScene(ctx context.Context, account simwarden.AccountID, scene simwarden.Scene, limit int) ([]Command, error) {
	return scanCommands(s.pool.Query(ctx, `SELECT `+commandColumns+` FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE c.account_id = $1 AND c.scene = $2 ORDER BY c.id DESC LIMIT $3`, account, string(scene), limit))
}
