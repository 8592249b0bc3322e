package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// AlertNotFound is the kind of alert for a SIM that its carrier does not know.
const AlertNotFound = "sim_not_found"

// EventNotFound says that the carrier did not know a SIM at two checks in a row.
const EventNotFound = "sim_not_found"

// PollShard is a part of an account's SIMs whose schedule one node keeps at a time. The epoch grows
// with each change of holder.
type PollShard struct {
	AccountID simwarden.AccountID
	Shard     int16
	Epoch     int64
}

// ScheduleRow is what the owner of a shard keeps in memory of a SIM.
type ScheduleRow struct {
	SIMID     simwarden.SIMID
	Shard     int16
	Key       string
	ICCID     string
	State     simwarden.State
	New       bool // its state was never read
	Off       bool // paused or closed, its own or its device's
	StateAt   time.Time
	UsageAt   time.Time
	RealAt    time.Time
	AccountID simwarden.AccountID
}

// RenewShards prolongs the shards that are still the holder's for d from now, by the database's
// clock, and gives those that are. One whose lease ran out and that nobody took meanwhile is kept.
func (s *Store) RenewShards(ctx context.Context, holder string, held []PollShard, d time.Duration) ([]PollShard, error) {
	accounts, shards, epochs := shardArrays(held)
	return s.pollShards(ctx, "renew", `
		UPDATE poll_shard p SET lease_until = app_now() + make_interval(secs => $5)
		FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS v (account_id, shard, epoch)
		WHERE p.account_id = v.account_id AND p.shard = v.shard AND p.epoch = v.epoch AND p.holder = $1
		RETURNING p.account_id, p.shard, p.epoch`, holder, accounts, shards, epochs, d.Seconds())
}

// TakeShards takes up to limit shards that nobody holds, spread over the accounts.
func (s *Store) TakeShards(ctx context.Context, holder string, limit int, d time.Duration, except ...simwarden.AccountID) ([]PollShard, error) {
	left := make([]int64, len(except))
	for i, id := range except {
		left[i] = int64(id)
	}
	return s.pollShards(ctx, "take", `
		WITH free AS (
			SELECT account_id, shard FROM poll_shard WHERE lease_until < app_now() AND account_id <> ALL($4)
			ORDER BY shard, account_id LIMIT $2 FOR UPDATE SKIP LOCKED
		)
		UPDATE poll_shard p SET holder = $1, epoch = p.epoch + 1, lease_until = app_now() + make_interval(secs => $3)
		FROM free WHERE p.account_id = free.account_id AND p.shard = free.shard
		RETURNING p.account_id, p.shard, p.epoch`, holder, limit, d.Seconds(), left)
}

// GiveShards gives shards back, so that another node need not wait for the end of the lease.
func (s *Store) GiveShards(ctx context.Context, holder string, held []PollShard) error {
	accounts, shards, epochs := shardArrays(held)
	_, err := s.pool.Exec(ctx, `
		UPDATE poll_shard p SET lease_until = '-infinity'
		FROM unnest($2::bigint[], $3::smallint[], $4::bigint[]) AS v (account_id, shard, epoch)
		WHERE p.account_id = v.account_id AND p.shard = v.shard AND p.epoch = v.epoch AND p.holder = $1`, holder, accounts, shards, epochs)
	if err != nil {
		return fmt.Errorf("give %d poll shards: %w", len(held), err)
	}
	return nil
}

// CountShards is how many poll shards there are.
func (s *Store) CountShards(ctx context.Context) (int, error) {
	var n int
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM poll_shard`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count poll shards: %w", err)
	}
	return n, nil
}

// LiveLeases counts the leases in force whose name has the prefix, and forgets those that ended
// more than a day ago.
func (s *Store) LiveLeases(ctx context.Context, prefix string) (int, error) {
	if _, err := s.pool.Exec(ctx, `DELETE FROM lease WHERE starts_with(name, $1) AND lease_until < app_now() - interval '1 day'`, prefix); err != nil {
		return 0, fmt.Errorf("forget leases %s: %w", prefix, err)
	}
	var n int
	err := s.pool.QueryRow(ctx, `SELECT count(*) FROM lease WHERE starts_with(name, $1) AND lease_until > app_now()`, prefix).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count leases %s: %w", prefix, err)
	}
	return n, nil
}

func (s *Store) pollShards(ctx context.Context, doing, query string, args ...any) ([]PollShard, error) {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("%s poll shards: %w", doing, err)
	}
	defer rows.Close()
	var out []PollShard
	for rows.Next() {
		var p PollShard
		if err := rows.Scan(&p.AccountID, &p.Shard, &p.Epoch); err != nil {
			return nil, fmt.Errorf("%s poll shards: %w", doing, err)
		}
		out = append(out, p)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("%s poll shards: %w", doing, err)
	}
	return out, nil
}

func shardArrays(held []PollShard) (accounts []int64, shards []int16, epochs []int64) {
	accounts, shards, epochs = make([]int64, len(held)), make([]int16, len(held)), make([]int64, len(held))
	for i, h := range held {
		accounts[i], shards[i], epochs[i] = int64(h.AccountID), h.Shard, h.Epoch
	}
	return accounts, shards, epochs
}

const scheduleColumns = `p.sim_id, p.account_id, p.shard, s.key, s.iccid, p.state, p.state_read_at IS NULL,
	s.paused_at IS NOT NULL OR s.closed_at IS NOT NULL OR d.paused_at IS NOT NULL,
	p.state_due_at, p.usage_due_at, p.realname_due_at`

const scheduleTables = ` FROM poll_state p JOIN sim s ON s.id = p.sim_id LEFT JOIN device d ON d.id = s.device_id `

// Schedule calls each for every SIM of an account's shard, in no order. each must not keep the
// connection busy: it is called while rows arrive.
func (s *Store) Schedule(ctx context.Context, account simwarden.AccountID, shard int16, each func(ScheduleRow)) error {
	return s.schedule(ctx, each, `SELECT `+scheduleColumns+scheduleTables+`WHERE p.account_id = $1 AND p.shard = $2`, account, shard)
}

// ScheduleOf calls each for every one of the SIMs that exists.
func (s *Store) ScheduleOf(ctx context.Context, ids []simwarden.SIMID, each func(ScheduleRow)) error {
	return s.schedule(ctx, each, `SELECT `+scheduleColumns+scheduleTables+`WHERE p.sim_id = ANY($1)`, ids)
}

func (s *Store) schedule(ctx context.Context, each func(ScheduleRow), query string, args ...any) error {
	rows, err := s.pool.Query(ctx, query, args...)
	if err != nil {
		return fmt.Errorf("poll schedule: %w", err)
	}
	defer rows.Close()
	for rows.Next() {
		var r ScheduleRow
		if err := rows.Scan(&r.SIMID, &r.AccountID, &r.Shard, &r.Key, &r.ICCID, &r.State, &r.New, &r.Off, &r.StateAt, &r.UsageAt, &r.RealAt); err != nil {
			return fmt.Errorf("poll schedule: %w", err)
		}
		r.StateAt, r.UsageAt, r.RealAt = r.StateAt.UTC(), r.UsageAt.UTC(), r.RealAt.UTC()
		each(r)
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("poll schedule: %w", err)
	}
	return nil
}

// TakeNudges takes up to limit of the SIMs of the held shards whose schedule was changed behind the
// owner's back. A nudge that is taken and not followed is made good by the next load of the shard,
// since the due times are in the row itself.
func (s *Store) TakeNudges(ctx context.Context, held []PollShard, limit int) ([]simwarden.SIMID, error) {
	accounts, shards, _ := shardArrays(held)
	rows, err := s.pool.Query(ctx, `
		WITH due AS (
			SELECT n.sim_id FROM poll_nudge n
			JOIN unnest($1::bigint[], $2::smallint[]) AS v (account_id, shard) ON n.account_id = v.account_id AND n.shard = v.shard
			LIMIT $3 FOR UPDATE OF n SKIP LOCKED
		)
		DELETE FROM poll_nudge n USING due WHERE n.sim_id = due.sim_id RETURNING n.sim_id`, accounts, shards, limit)
	if err != nil {
		return nil, fmt.Errorf("take poll nudges: %w", err)
	}
	defer rows.Close()
	var out []simwarden.SIMID
	for rows.Next() {
		var id simwarden.SIMID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("take poll nudges: %w", err)
		}
		out = append(out, id)
	}
	return out, rows.Err()
}

// DropNudges removes, up to limit, the nudges that fell due before an instant and that nobody will
// take, as nobody holds their shard; it gives how many. Who takes the shard loads its whole schedule.
func (s *Store) DropNudges(ctx context.Context, before time.Time, limit int) (int64, error) {
	tag, err := s.pool.Exec(ctx, `
		DELETE FROM poll_nudge WHERE ctid = ANY (ARRAY(
			SELECT n.ctid FROM poll_nudge n WHERE n.due_at < $1 AND NOT EXISTS (
				SELECT FROM poll_shard h WHERE h.account_id = n.account_id AND h.shard = n.shard AND h.lease_until > app_now())
			LIMIT $2))`, before, limit)
	if err != nil {
		return 0, fmt.Errorf("drop old poll nudges: %w", err)
	}
	return tag.RowsAffected(), nil
}

// PollRef is how a carrier is asked for a SIM, with the due times in the database, which another
// node may have moved.
type PollRef struct {
	SIMID   simwarden.SIMID
	ICCID   simwarden.ICCID
	Key     string
	MSISDN  string
	IMSI    string
	StateAt time.Time
	UsageAt time.Time
	RealAt  time.Time
	// StateReadAt and UsageReadAt are when they were last read; zero: never.
	StateReadAt, UsageReadAt time.Time
}

// PollRefs gives the references of SIMs; ids that do not exist are left out.
func (s *Store) PollRefs(ctx context.Context, ids []simwarden.SIMID) ([]PollRef, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT s.id, s.iccid, s.key, s.msisdn, s.imsi, p.state_due_at, p.usage_due_at, p.realname_due_at, p.state_read_at, p.usage_read_at
		FROM sim s JOIN poll_state p ON p.sim_id = s.id WHERE s.id = ANY($1)`, ids)
	if err != nil {
		return nil, fmt.Errorf("references of %d sims: %w", len(ids), err)
	}
	defer rows.Close()
	out := make([]PollRef, 0, len(ids))
	for rows.Next() {
		var r PollRef
		var iccid string
		var stateRead, usageRead *time.Time
		if err := rows.Scan(&r.SIMID, &iccid, &r.Key, &r.MSISDN, &r.IMSI, &r.StateAt, &r.UsageAt, &r.RealAt, &stateRead, &usageRead); err != nil {
			return nil, fmt.Errorf("references of %d sims: %w", len(ids), err)
		}
		if r.ICCID, err = simwarden.ParseICCID(iccid); err != nil {
			return nil, fmt.Errorf("sim %d: %w", r.SIMID, err)
		}
		r.StateAt, r.UsageAt, r.RealAt = r.StateAt.UTC(), r.UsageAt.UTC(), r.RealAt.UTC()
		r.StateReadAt, r.UsageReadAt = timeOf(stateRead), timeOf(usageRead)
		out = append(out, r)
	}
	return out, rows.Err()
}

// FindListed gives the account's SIMs with these carrier keys or ICCIDs: what a list page is
// matched by where the SIM is not in this node's memory. An ICCID is given in all its forms.
func (s *Store) FindListed(ctx context.Context, account simwarden.AccountID, keys, iccids []string) ([]ScheduleRow, error) {
	var out []ScheduleRow
	err := s.schedule(ctx, func(r ScheduleRow) { out = append(out, r) }, `SELECT `+scheduleColumns+scheduleTables+`
		WHERE s.id IN (SELECT id FROM sim WHERE account_id = $1 AND key = ANY($2) AND key <> ''
		               UNION SELECT id FROM sim WHERE iccid = ANY($3) AND account_id = $1)`, account, keys, iccids)
	return out, err
}

// UnnamedUsage is a SIM that a complete pass over a list of users did not name.
type UnnamedUsage struct {
	SIMID simwarden.SIMID
	Shard int16
	Known bool // its counter has been read before
}

// UnnamedUsages gives up to limit of an account's SIMs after one, by id, whose usage was not read
// since an instant and whose counter is not known, or is nought in the period or of an earlier one:
// those that a list of users may have left out because they used nothing.
func (s *Store) UnnamedUsages(ctx context.Context, account simwarden.AccountID, period, since time.Time, after simwarden.SIMID, limit int) ([]UnnamedUsage, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT p.sim_id, p.shard, p.usage_counter_bytes IS NOT NULL
		FROM poll_state p JOIN sim s ON s.id = p.sim_id LEFT JOIN device d ON d.id = s.device_id
		WHERE s.account_id = $1 AND s.id > $4 AND s.paused_at IS NULL AND s.closed_at IS NULL AND d.paused_at IS NULL
		  AND (p.usage_read_at IS NULL OR p.usage_read_at < $3)
		  AND (p.usage_counter_bytes IS NULL OR p.usage_period_start_at < $2 OR p.usage_period_start_at = $2 AND p.usage_counter_bytes = 0)
		ORDER BY s.id LIMIT $5`, account, period, since, after, limit)
	if err != nil {
		return nil, fmt.Errorf("sims without usage of account %d: %w", account, err)
	}
	defer rows.Close()
	var out []UnnamedUsage
	for rows.Next() {
		var u UnnamedUsage
		if err := rows.Scan(&u.SIMID, &u.Shard, &u.Known); err != nil {
			return nil, fmt.Errorf("sims without usage of account %d: %w", account, err)
		}
		out = append(out, u)
	}
	return out, rows.Err()
}

// LearnedKey is a carrier's own name for a SIM, as read.
type LearnedKey struct {
	SIMID simwarden.SIMID
	Key   string
}

// LearnKeys keeps the carrier's names for SIMs of an account. One that another of its SIMs has is
// left out: it is told by the number of rows.
func (s *Store) LearnKeys(ctx context.Context, account simwarden.AccountID, rows []LearnedKey) (int64, error) {
	ids, keys := make([]int64, len(rows)), make([]string, len(rows))
	for i, r := range rows {
		ids[i], keys[i] = int64(r.SIMID), r.Key
	}
	tag, err := s.pool.Exec(ctx, `
		UPDATE sim s SET key = v.key
		FROM (SELECT DISTINCT ON (key) sim_id, key FROM unnest($2::bigint[], $3::text[]) AS u (sim_id, key) ORDER BY key, sim_id) v
		WHERE s.id = v.sim_id AND s.key <> v.key AND s.account_id + 0 = $1
		  AND v.key NOT IN (SELECT o.key FROM sim o WHERE o.account_id = $1 AND o.key = ANY ($3) AND o.key <> '')`, account, ids, keys)
	if err != nil {
		return 0, fmt.Errorf("learn %d keys: %w", len(rows), err)
	}
	return tag.RowsAffected(), nil
}
