package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden/internal/calendar"
)

// ErrKeepTime says that a table cannot be kept for that long.
var ErrKeepTime = errors.New("this cannot be kept for so long")

// KeepForGood is the number of days of a table of which nothing is ever deleted.
const KeepForGood = 0

// keptTable is a table that grows for ever unless something is deleted.
type keptTable struct {
	name        string
	defaultDays int
	// leastDays is how long it has to be kept, since others look back as far.
	leastDays int
	oldest    string // gives the instant of the oldest row that may be deleted one day; empty: see partitions
	// drop deletes at most so many rows that are older, each no longer needed; $1 is before, $2 the limit.
	drop string
	// batch bounds one statement; 0: retentionBatch.
	batch int
	// with is a table whose rows go with this one's; empty: none.
	with string
}

const retentionBatch = 10_000

// keptTables are all that grow. The audit log is none of them: its chain has no end that could be
// cut off without the rest being unproven (R3). Nor are the ledger, who was in which device, and which
// lapses have triggered, which holds for ever (E6).
//
// What is deleted in order of ids goes by the instant of that row alone: ids grow with time, and no
// index is needed. Of commands the latest of each SIM stays: the next order is compared with it.
var keptTables = []keptTable{
	{name: "command_record", defaultDays: KeepForGood, leastDays: 31},
	{name: "usage_day", defaultDays: 762, leastDays: 62},
	{name: "command", defaultDays: 180, leastDays: 35, with: "attempt",
		oldest: `SELECT created_at FROM command ORDER BY id LIMIT 1`},
	{name: "event", defaultDays: 400, leastDays: 35,
		oldest: `SELECT at FROM event ORDER BY id LIMIT 1`,
		drop:   `DELETE FROM event WHERE id = ANY (ARRAY(SELECT id FROM event ORDER BY id LIMIT $2)) AND at < $1`},
	{name: "evaluation_request", defaultDays: 7, leastDays: 7,
		oldest: `SELECT done_at FROM evaluation_request WHERE done_at IS NOT NULL ORDER BY done_at LIMIT 1`,
		drop: `DELETE FROM evaluation_request WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM evaluation_request WHERE done_at < $1 ORDER BY done_at LIMIT $2))`},
	{name: "call_stat", defaultDays: 35, leastDays: 1,
		oldest: `SELECT minute_at FROM call_stat ORDER BY minute_at LIMIT 1`,
		// A writer that has been silent for as long has ended: each process is another.
		drop: `WITH silent AS (DELETE FROM call_stat_writer WHERE written_at < $1) DELETE FROM call_stat WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM call_stat WHERE minute_at < $1 ORDER BY minute_at LIMIT $2))`},
	{name: "account_evaluation", defaultDays: 90, leastDays: 7,
		oldest: `SELECT min(finished_at) FROM account_evaluation`,
		drop: `DELETE FROM account_evaluation WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM account_evaluation WHERE finished_at < $1 LIMIT $2))`},
	{name: "bulk_action", defaultDays: 400, leastDays: 35, batch: 5, with: "bulk_item", // each with up to 100,000 of them
		oldest: `SELECT min(finished_at) FROM bulk_action`,
		drop: `DELETE FROM bulk_action WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM bulk_action WHERE finished_at < $1 LIMIT $2))`},
	{name: "alert", defaultDays: 400, leastDays: 7,
		oldest: `SELECT min(cleared_at) FROM alert`,
		drop: `DELETE FROM alert WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM alert WHERE cleared_at < $1 LIMIT $2))`},
	{name: "guard_band_stop", defaultDays: 400, leastDays: 62,
		oldest: `SELECT min(until_at) FROM guard_band_stop`,
		drop: `DELETE FROM guard_band_stop WHERE ctid = ANY (ARRAY(
			SELECT ctid FROM guard_band_stop WHERE ordered_at < $1 AND until_at < $1 LIMIT $2))`},
}

func (k keptTable) monthly() bool { return slices.Contains(monthly, k.name) }

// Retention says how long a table is kept, and what there is of it.
type Retention struct {
	Table       string `json:"table"`
	KeepDays    int    `json:"keep_days"` // KeepForGood: for good
	DefaultDays int    `json:"default_days"`
	LeastDays   int    `json:"least_days"`
	// ByMonth says that whole months are dropped, as soon as their last row is old enough.
	ByMonth bool `json:"by_month"`
	// DropsBefore is the instant before which rows go; zero: none.
	DropsBefore time.Time `json:"drops_before,omitzero"`
	// OldestAt is the oldest row's instant, of a table by month the beginning of the oldest month that
	// holds rows; zero where there is none.
	OldestAt time.Time `json:"oldest_at,omitzero"`
	Bytes    int64     `json:"bytes"` // on the disk, with indexes
}

// RetentionRun is what the last run deleted.
type RetentionRun struct {
	At      time.Time        `json:"at"`
	Dropped map[string]int64 `json:"dropped"` // rows by table, of tables by month: months
}

const (
	retentionKey    = "retention"
	retentionRunKey = "retention_run"
)

func (s *Store) keepDays(ctx context.Context) (map[string]int, error) {
	days := map[string]int{}
	for _, k := range keptTables {
		days[k.name] = k.defaultDays
	}
	var set map[string]int
	if err := s.setting(ctx, retentionKey, &set); err != nil {
		return nil, err
	}
	for name, n := range set {
		days[name] = n
	}
	return days, nil
}

// setting reads a setting; one that was never set leaves the value as it is.
func (s *Store) setting(ctx context.Context, key string, into any) error {
	var text []byte
	err := s.pool.QueryRow(ctx, `SELECT value FROM setting WHERE key = $1`, key).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("setting %s: %w", key, err)
	}
	return nil
}

// SetKeepDays says for how many days a table is kept, KeepForGood for ever. ErrNotFound where the
// table is none of those that grow, ErrKeepTime where others look back further.
func (tx *Tx) SetKeepDays(ctx context.Context, table string, days int) error {
	i := slices.IndexFunc(keptTables, func(k keptTable) bool { return k.name == table })
	if i < 0 {
		return fmt.Errorf("table %q: %w", table, ErrNotFound)
	}
	if least := keptTables[i].leastDays; days != KeepForGood && (days < least || days > 36600) {
		return fmt.Errorf("%w: table %s for %d days: give %d to 36600, or 0 for good", ErrKeepTime, table, days, least)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO setting AS s (key, value) VALUES ($1, jsonb_build_object($2::text, $3::int))
		ON CONFLICT (key) DO UPDATE SET value = s.value || excluded.value`, retentionKey, table, days)
	if err != nil {
		return fmt.Errorf("keep table %s for %d days: %w", table, days, err)
	}
	return nil
}

// Retentions says of each table that grows how long it is kept, how old and how large it is, and what
// the last run deleted.
func (s *Store) Retentions(ctx context.Context, at time.Time) ([]Retention, RetentionRun, error) {
	run := RetentionRun{Dropped: map[string]int64{}}
	if err := s.setting(ctx, retentionRunKey, &run); err != nil {
		return nil, run, err
	}
	days, err := s.keepDays(ctx)
	if err != nil {
		return nil, run, err
	}
	var out []Retention
	for _, k := range keptTables {
		r := Retention{Table: k.name, KeepDays: days[k.name], DefaultDays: k.defaultDays, LeastDays: k.leastDays, ByMonth: k.monthly()}
		if r.KeepDays != KeepForGood {
			r.DropsBefore = calendar.AddDays(at, -r.KeepDays, time.UTC)
		}
		tables := []string{k.name}
		if k.monthly() {
			months, err := s.months(ctx, k.name)
			if err != nil {
				return nil, run, err
			}
			tables = append(tables, k.name+"_default")
			for _, m := range months {
				tables = append(tables, m.name)
				var some bool
				if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM `+pgx.Identifier{m.name}.Sanitize()+`)`).Scan(&some); err != nil {
					return nil, run, fmt.Errorf("retention of %s: %w", k.name, err)
				}
				if some && r.OldestAt.IsZero() {
					r.OldestAt = m.from
				}
			}
		} else {
			var oldest *time.Time
			if err := s.pool.QueryRow(ctx, k.oldest).Scan(&oldest); err != nil && !errors.Is(err, pgx.ErrNoRows) {
				return nil, run, fmt.Errorf("retention of %s: %w", k.name, err)
			}
			r.OldestAt = timeOf(oldest)
		}
		if k.with != "" {
			tables = append(tables, k.with)
		}
		if err := s.pool.QueryRow(ctx, `SELECT coalesce(sum(pg_total_relation_size(name::regclass)), 0)::bigint FROM unnest($1::text[]) name`, tables).Scan(&r.Bytes); err != nil {
			return nil, run, fmt.Errorf("retention of %s: %w", k.name, err)
		}
		out = append(out, r)
	}
	return out, run, nil
}

// RetentionDue says whether the last run is a day ago.
func (s *Store) RetentionDue(ctx context.Context, at time.Time) (bool, error) {
	var run RetentionRun
	if err := s.setting(ctx, retentionRunKey, &run); err != nil {
		return false, err
	}
	return at.Sub(run.At) >= 24*time.Hour || run.At.After(at), nil
}

// Retain deletes what has been kept for long enough: whole months, and batches of rows, up to batches
// of them a table; what is left then goes the next day. It never takes what is still needed: an open
// command, a request that waits, an alert that is open. goOn is asked before each statement, and false
// ends it: the lease is another's. One table that fails does not hold up the others.
func (s *Store) Retain(ctx context.Context, at time.Time, batches int, goOn func() bool) (RetentionRun, error) {
	run := RetentionRun{At: at.UTC(), Dropped: map[string]int64{}}
	days, err := s.keepDays(ctx)
	if err != nil {
		return run, err
	}
	var failed []error
	for _, k := range keptTables {
		if days[k.name] == KeepForGood {
			continue
		}
		n, err := s.retain(ctx, k, calendar.AddDays(at, -days[k.name], time.UTC), batches, goOn)
		if n > 0 {
			run.Dropped[k.name] = n
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("retention of %s: %w", k.name, err))
		}
	}
	if len(failed) > 0 || !goOn() {
		return run, errors.Join(failed...)
	}
	text, err := marshalText(run)
	if err != nil {
		return run, err
	}
	_, err = s.pool.Exec(ctx, `INSERT INTO setting (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value`, retentionRunKey, text)
	if err != nil {
		return run, fmt.Errorf("keep the run of the retention: %w", err)
	}
	return run, nil
}

func (s *Store) retain(ctx context.Context, k keptTable, before time.Time, batches int, goOn func() bool) (dropped int64, err error) {
	if k.monthly() {
		return s.dropMonths(ctx, k.name, before, goOn)
	}
	limit := retentionBatch
	if k.batch > 0 {
		limit = k.batch
	}
	after := int64(0)
	for range batches {
		if !goOn() {
			break
		}
		var n int64
		more := false
		if k.name == "command" {
			n, after, more, err = s.dropCommands(ctx, before, after, limit)
		} else {
			tag, failed := s.pool.Exec(ctx, k.drop, before, limit)
			n, err = tag.RowsAffected(), failed
			more = n == int64(limit)
		}
		dropped += n
		if err != nil || !more {
			break
		}
	}
	return dropped, err
}

// dropCommands deletes, of the next so many commands by id, those that ended before an instant and are
// not the latest of their SIM, with their attempts. more is false once commands are younger.
func (s *Store) dropCommands(ctx context.Context, before time.Time, after int64, limit int) (n, last int64, more bool, err error) {
	last = after
	err = s.InTx(ctx, func(tx *Tx) error {
		var newest *time.Time
		var seen int
		if err := tx.QueryRow(ctx, `
			SELECT coalesce(max(id), $1), count(*), max(created_at) FROM (SELECT id, created_at FROM command WHERE id > $1 ORDER BY id LIMIT $2) next`,
			after, limit).Scan(&last, &seen, &newest); err != nil {
			return err
		}
		more = seen == limit && timeOf(newest).Before(before)
		rows, err := tx.Query(ctx, `
			SELECT id FROM command c WHERE id > $1 AND id <= $2 AND ended_at < $3
			  AND state IN ('done', 'failed', 'obsolete', 'replaced', 'observed')
			  AND EXISTS (SELECT FROM command n WHERE n.sim_id = c.sim_id AND n.id > c.id)
			FOR UPDATE SKIP LOCKED`, after, last, before)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := tx.Exec(ctx, `DELETE FROM attempt WHERE command_id = ANY($1)`, ids); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `DELETE FROM command WHERE id = ANY($1)`, ids)
		n = tag.RowsAffected()
		return err
	})
	return n, last, more, err
}
