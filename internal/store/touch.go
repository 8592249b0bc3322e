package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/simwarden/simwarden"
)

// PollFence is the right under which readings of one account are written: the epochs of its shards,
// or the lease of its list. A node that lost it writes nothing.
type PollFence struct {
	AccountID simwarden.AccountID
	Holder    string
	Epochs    map[int16]int64 // by shard; unused with a lease
	Lease     *Lease
}

// PollRow is one reading of one kind with the instant of the next check.
type PollRow struct {
	SIMID   simwarden.SIMID
	Shard   int16
	Kind    simwarden.CheckKind
	Reading simwarden.Reading
	DueAt   time.Time
}

// Touched says which rows are not written, since they said something new or the fence did not hold,
// and whether it held. Under epochs Held are the shards still ours; under a lease it is empty and
// Fenced tells.
type Touched struct {
	Missed map[simwarden.SIMID]bool
	Held   map[int16]bool
	Fenced bool
}

// Touch writes the rows whose reading says what is known already of a SIM whose decision stands: the
// instants move, nothing else. All rows are of one kind, and each reading has the part of that kind
// alone; a SIM may appear once. The rows that are not in the answer go the full way, those of a
// fence that did not hold go no way.
func (s *Store) Touch(ctx context.Context, f PollFence, kind simwarden.CheckKind, rows []PollRow) (Touched, error) {
	args := make([]any, 0, 12)
	args = append(args, f.AccountID, f.Holder)
	head, tail := fenceByEpochs, inEpochs
	if f.Lease != nil {
		head, tail = fenceByLease, inLease
		args = append(args, f.Lease.Name, f.Lease.Epoch)
	} else {
		shards, epochs := f.arrays()
		args = append(args, shards, epochs)
	}
	args = append(args, len(rows))
	var update string
	switch kind {
	case simwarden.CheckState:
		update, args = stateUpdate(args, rows)
	case simwarden.CheckUsage:
		update, args = touchUsage, usageArgs(args, rows)
	default:
		update, args = touchRealName, realNameArgs(args, rows)
	}
	var held []int16
	var ids []int64
	query := head + update + tail + touched
	err := retryPassing(ctx, func() error { return s.touch.QueryRow(ctx, query, args...).Scan(&held, &ids) })
	if err != nil {
		return Touched{}, fmt.Errorf("touch %d sims: %w", len(rows), err)
	}
	out := Touched{Held: make(map[int16]bool, len(held)), Fenced: len(held) > 0}
	if ids != nil {
		out.Missed = make(map[simwarden.SIMID]bool, len(rows)-len(ids))
		for _, r := range rows {
			out.Missed[r.SIMID] = true
		}
		for _, id := range ids {
			delete(out.Missed, simwarden.SIMID(id))
		}
	}
	for _, shard := range held {
		out.Held[shard] = true
	}
	return out, nil
}

func (f PollFence) arrays() (shards []int16, epochs []int64) {
	shards, epochs = make([]int16, 0, len(f.Epochs)), make([]int64, 0, len(f.Epochs))
	for shard, epoch := range f.Epochs {
		shards, epochs = append(shards, shard), append(epochs, epoch)
	}
	return shards, epochs
}

// FenceHolds says whether the fence still stands within a transaction: for which shards, or for a
// lease whether at all. Somebody who takes it over right after finds the SIMs' own locks.
func (tx *Tx) FenceHolds(ctx context.Context, f PollFence) (map[int16]bool, bool, error) {
	if f.Lease != nil {
		var yes bool
		err := tx.QueryRow(ctx, `SELECT true FROM lease WHERE name = $1 AND holder = $2 AND epoch = $3 AND lease_until > app_now()`,
			f.Lease.Name, f.Holder, f.Lease.Epoch).Scan(&yes)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil, false, nil
		}
		if err != nil {
			return nil, false, fmt.Errorf("check lease %s: %w", f.Lease.Name, err)
		}
		return nil, yes, nil
	}
	shards, epochs := f.arrays()
	var held []int16
	err := tx.QueryRow(ctx, `
		SELECT ARRAY(SELECT h.shard FROM poll_shard h JOIN unnest($3::smallint[], $4::bigint[]) AS v (shard, epoch)
			ON h.shard = v.shard AND h.epoch = v.epoch
			WHERE h.account_id = $1 AND h.holder = $2 AND h.lease_until > app_now())`, f.AccountID, f.Holder, shards, epochs).Scan(&held)
	if err != nil {
		return nil, false, fmt.Errorf("check poll shards of account %d: %w", f.AccountID, err)
	}
	out := make(map[int16]bool, len(held))
	for _, shard := range held {
		out[shard] = true
	}
	return out, len(held) > 0, nil
}

// retryPassing runs one statement again after a deadlock or a lock time-out, as InTx does.
func retryPassing(ctx context.Context, fn func() error) error {
	for try := 1; ; try++ {
		err := fn()
		if err == nil || try == txTries || !mayRepeat(err) {
			return err
		}
		if err := waitForOthers(ctx, try); err != nil {
			return err
		}
	}
}

// WriteDues keeps when SIMs, locked before, are looked at next, by kind of check.
func (tx *Tx) WriteDues(ctx context.Context, rows []PollRow) error {
	n := len(rows)
	ids, kinds, dues := make([]int64, n), make([]string, n), make([]time.Time, n)
	for i, r := range rows {
		ids[i], kinds[i], dues[i] = int64(r.SIMID), string(r.Kind), r.DueAt
	}
	_, err := tx.Exec(ctx, `
		UPDATE poll_state p SET
			state_due_at = CASE WHEN v.kind = 'state' THEN v.due_at ELSE p.state_due_at END,
			usage_due_at = CASE WHEN v.kind = 'usage' THEN v.due_at ELSE p.usage_due_at END,
			realname_due_at = CASE WHEN v.kind = 'realname' THEN v.due_at ELSE p.realname_due_at END
		FROM unnest($1::bigint[], $2::text[], $3::timestamptz[]) AS v (sim_id, kind, due_at)
		WHERE p.sim_id = v.sim_id`, ids, kinds, dues)
	if err != nil {
		return fmt.Errorf("write %d due times: %w", n, err)
	}
	return nil
}

// IsUnavailable says that the fault is the database's as a whole (connection, resources, shutdown,
// read-only after a failover), or a passing one that persisted, and not that of the rows in hand.
func IsUnavailable(err error) bool {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		switch pg.Code[:2] {
		case "08", "25", "40", "53", "55", "57", "58":
			return pg.Code != "57014" // query_canceled: fewer rows may do
		}
		return false
	}
	return errors.As(err, new(*pgconn.ConnectError)) || errors.As(err, new(net.Error)) || pgconn.SafeToRetry(err) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// PollTable is what Postgres counts of poll_state since its statistics were reset: updates, and how
// many of them were HOT. It lags by a second or so.
func (s *Store) PollTable(ctx context.Context) (updates, hot int64, err error) {
	err = s.pool.QueryRow(ctx, `SELECT coalesce(sum(n_tup_upd), 0)::bigint, coalesce(sum(n_tup_hot_upd), 0)::bigint FROM pg_stat_user_tables WHERE relname = 'poll_state'`).Scan(&updates, &hot)
	if err != nil {
		return 0, 0, fmt.Errorf("statistics of poll_state: %w", err)
	}
	return updates, hot, nil
}
