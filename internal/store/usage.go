package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// EventUsageLate is usage that arrived after the period it belongs to had closed (U4).
const EventUsageLate = "usage_late"

// EventUsageRolledOver is a carrier's counter that has reached its width and begun anew within its period (U1).
const EventUsageRolledOver = "usage_rolled_over"

// UsageState is what is kept of a SIM's usage, with its row locked.
type UsageState struct {
	SIMID         simwarden.SIMID
	AccountID     simwarden.AccountID
	Asset         Asset
	ICCID         string
	CounterBytes  *int64    // the carrier's, highest in its period; nil: never read
	PeriodStartAt time.Time // zero: a counter that never resets, or never read
	ReadAt        time.Time
	TrueAt        time.Time
}

// BearingSubscription is a subscription that usage may be spent on, with its row locked.
type BearingSubscription struct {
	rules.SubscriptionFact
	PlanID    simwarden.PlanID
	Asset     Asset
	Exhausted bool
	// Ended says that it no longer counts: it bears late usage alone (U4).
	Ended bool
	// ResetAt is the instant at which its running allowance was filled; zero where it was never
	// filled again.
	ResetAt time.Time
	// NextResetAt is when it is to be filled again, which may have passed; zero for never.
	NextResetAt time.Time
	// Queued says that it is the asset's next main plan: it bears what is used after the end of the one
	// before it and before the sweep has started it, and begins by it where it waits for its first use
	// (L4). StartAt is then from when on it may, zero for not yet, and EndAt is zero.
	Queued bool
}

// LockUsage locks the SIMs with all they can spend on: first the subscriptions of those in spend,
// as the sweep of plan ends does, then the SIMs, each in the order of their ids. The states come in
// that order; ids that do not exist are left out.
//
// An ended subscription is given where it ended no longer than since before the transaction's
// instant: usage that late has no period any more.
func (tx *Tx) LockUsage(ctx context.Context, ids, spend []simwarden.SIMID, since time.Duration) ([]UsageState, []BearingSubscription, error) {
	var subs []BearingSubscription
	if len(spend) > 0 {
		var err error
		if subs, err = tx.bearing(ctx, spend, since); err != nil {
			return nil, nil, err
		}
	}
	rows, err := tx.Query(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT sim_id, account_id, usage_counter_bytes, usage_period_start_at, usage_read_at, usage_true_at
			FROM poll_state WHERE sim_id = ANY($1) ORDER BY sim_id FOR NO KEY UPDATE
		)
		SELECT p.sim_id, p.account_id, CASE WHEN s.device_id IS NULL THEN s.id ELSE 0 END, coalesce(s.device_id, 0), s.iccid,
			p.usage_counter_bytes, p.usage_period_start_at, p.usage_read_at, p.usage_true_at
		FROM locked p JOIN sim s ON s.id = p.sim_id ORDER BY p.sim_id`, ids)
	if err != nil {
		return nil, nil, fmt.Errorf("lock usage of %d sims: %w", len(ids), err)
	}
	defer rows.Close()
	states := make([]UsageState, 0, len(ids))
	for rows.Next() {
		var u UsageState
		var period, read, truly *time.Time
		if err := rows.Scan(&u.SIMID, &u.AccountID, &u.Asset.SIMID, &u.Asset.DeviceID, &u.ICCID, &u.CounterBytes, &period, &read, &truly); err != nil {
			return nil, nil, fmt.Errorf("lock usage of %d sims: %w", len(ids), err)
		}
		u.PeriodStartAt, u.ReadAt, u.TrueAt = timeOf(period), timeOf(read), timeOf(truly)
		states = append(states, u)
	}
	if err := rows.Err(); err != nil {
		return nil, nil, fmt.Errorf("lock usage of %d sims: %w", len(ids), err)
	}
	return states, subs, nil
}

// bearing locks and gives what the SIMs' assets have bought. A calendar-month allowance was last
// filled at the beginning of the month in the plan's zone, unless its reset is still to be swept.
func (tx *Tx) bearing(ctx context.Context, ids []simwarden.SIMID, since time.Duration) ([]BearingSubscription, error) {
	rows, err := tx.Query(ctx, `
		WITH asset AS MATERIALIZED (SELECT CASE WHEN device_id IS NULL THEN id END AS sim_id, device_id FROM sim WHERE id = ANY($1)),
		chosen AS MATERIALIZED (
			SELECT b.id FROM asset a JOIN subscription b ON b.sim_id = a.sim_id
			WHERE b.state IN ('active', 'exhausted') OR b.ended_at > $3 AND b.state IN ('expired', 'refunded') AND b.start_at IS NOT NULL
			UNION
			SELECT b.id FROM asset a JOIN subscription b ON b.device_id = a.device_id
			WHERE b.state IN ('active', 'exhausted') OR b.ended_at > $3 AND b.state IN ('expired', 'refunded') AND b.start_at IS NOT NULL
		),
		heads AS MATERIALIZED ( -- the next main plan of each asset
			SELECT min(b.id) AS id FROM asset a JOIN subscription b ON b.sim_id = a.sim_id WHERE b.state = 'queued' AND b.kind = 'main' GROUP BY b.sim_id
			UNION
			SELECT min(b.id) FROM asset a JOIN subscription b ON b.device_id = a.device_id WHERE b.state = 'queued' AND b.kind = 'main' GROUP BY b.device_id
		),
		locked AS MATERIALIZED (
			SELECT * FROM subscription WHERE id IN (SELECT id FROM chosen UNION SELECT id FROM heads) ORDER BY id FOR NO KEY UPDATE
		)
		SELECT b.id, p.id, coalesce(b.sim_id, 0), coalesce(b.device_id, 0), b.kind, p.code,
			CASE WHEN b.state <> 'queued' THEN b.start_at
			     WHEN b.activation = 'realname' THEN least(b.ready_at, b.activate_by)
			     ELSE b.bought_at END,
			CASE WHEN b.state = 'refunded' THEN least(b.ended_at, b.end_at) ELSE b.end_at END,
			b.allowance_bytes, b.used_bytes, b.state = 'exhausted', b.state IN ('expired', 'refunded'), b.state = 'queued',
			CASE WHEN b.last_reset_at IS NOT NULL THEN b.last_reset_at
			     WHEN p.reset = 'calendar_month' AND (b.next_reset_at IS NULL OR b.next_reset_at > $2)
				THEN date_trunc('month', $2::timestamptz, p.zone) END,
			b.next_reset_at,
			coalesce(p.guard_band_bytes, 0), CASE WHEN p.guard_band_bytes IS NULL THEN 0 ELSE p.guard_band_probability END
		FROM locked b JOIN plan p ON p.id = b.plan_id ORDER BY b.id`, ids, tx.At, tx.At.Add(-since))
	if err != nil {
		return nil, fmt.Errorf("subscriptions that %d sims spend on: %w", len(ids), err)
	}
	defer rows.Close()
	var out []BearingSubscription
	for rows.Next() {
		var b BearingSubscription
		var start, end, reset, next *time.Time
		if err := rows.Scan(&b.ID, &b.PlanID, &b.Asset.SIMID, &b.Asset.DeviceID, &b.Kind, &b.PlanCode, &start, &end,
			&b.AllowanceBytes, &b.UsedBytes, &b.Exhausted, &b.Ended, &b.Queued, &reset, &next,
			&b.GuardBandBytes, &b.GuardBandProbability); err != nil {
			return nil, fmt.Errorf("subscriptions that %d sims spend on: %w", len(ids), err)
		}
		b.StartAt, b.EndAt, b.ResetAt, b.NextResetAt = timeOf(start), timeOf(end), timeOf(reset), timeOf(next)
		if !b.ResetAt.After(b.StartAt) {
			b.ResetAt = time.Time{}
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// UsageRow is what is kept of a SIM's usage from now on, and what is added.
type UsageRow struct {
	SIMID         simwarden.SIMID
	CounterBytes  int64
	PeriodStartAt time.Time // zero: a counter that never resets
	ReadAt        time.Time
	TrueAt        time.Time
	DeltaBytes    int64 // never negative
}

// WriteUsage keeps counters, adds the deltas to the lifetime counters, and to the daily series of
// the UTC day on which they were read (U3, U5). One SIM may appear once, locked before.
func (tx *Tx) WriteUsage(ctx context.Context, rows []UsageRow) error {
	if len(rows) == 0 {
		return nil
	}
	n := len(rows)
	ids, counters, deltas := make([]int64, n), make([]int64, n), make([]int64, n)
	periods, reads, trues := make([]*time.Time, n), make([]time.Time, n), make([]*time.Time, n)
	grew := false
	for i, r := range rows {
		ids[i], counters[i], deltas[i] = int64(r.SIMID), r.CounterBytes, r.DeltaBytes
		periods[i], reads[i], trues[i] = nullTime(r.PeriodStartAt), r.ReadAt, nullTime(r.TrueAt)
		grew = grew || r.DeltaBytes > 0
	}
	_, err := tx.Exec(ctx, `
		UPDATE poll_state p SET usage_counter_bytes = v.counter, usage_period_start_at = v.period, usage_read_at = v.read_at,
			usage_true_at = v.true_at, lifetime_bytes = p.lifetime_bytes + v.delta
		FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[], $4::timestamptz[], $5::timestamptz[], $6::bigint[])
			AS v (sim_id, counter, period, read_at, true_at, delta)
		WHERE p.sim_id = v.sim_id`, ids, counters, periods, reads, trues, deltas)
	if err != nil {
		return fmt.Errorf("write usage of %d sims: %w", n, err)
	}
	if !grew {
		return nil
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO usage_day AS u (sim_id, day, bytes)
		SELECT sim_id, (read_at AT TIME ZONE 'UTC')::date, delta
		FROM unnest($1::bigint[], $2::timestamptz[], $3::bigint[]) AS v (sim_id, read_at, delta) WHERE delta > 0
		ON CONFLICT (sim_id, day) DO UPDATE SET bytes = u.bytes + excluded.bytes`, ids, reads, deltas)
	if err != nil {
		return fmt.Errorf("write daily usage of %d sims: %w", n, err)
	}
	return nil
}

// SpendLate adds bytes to subscriptions that have ended (U4); their state stays.
func (tx *Tx) SpendLate(ctx context.Context, rows []SpentRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids, used := make([]int64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		ids[i], used[i] = int64(r.ID), r.UsedBytes
	}
	_, err := tx.Exec(ctx, `
		UPDATE subscription b SET used_bytes = b.used_bytes + v.used
		FROM (SELECT id, sum(used)::bigint AS used FROM unnest($1::bigint[], $2::bigint[]) AS u (id, used) GROUP BY id) v
		WHERE b.id = v.id AND b.state IN ('expired', 'refunded')`, ids, used)
	if err != nil {
		return fmt.Errorf("spend late on %d subscriptions: %w", len(rows), err)
	}
	return nil
}

// RaiseNew opens alerts, or counts again those that are open under their keys, and says by key
// which of them were not open before. Keys must differ within one call.
func (tx *Tx) RaiseNew(ctx context.Context, alerts []Alert) (map[string]bool, error) {
	opened := make(map[string]bool, len(alerts))
	if len(alerts) == 0 {
		return opened, nil
	}
	n := len(alerts)
	kinds, keys, messages := make([]string, n), make([]string, n), make([]string, n)
	accounts, sims := make([]*int64, n), make([]*int64, n)
	for i, a := range alerts {
		kinds[i], keys[i], messages[i] = a.Kind, a.Key, a.Message
		accounts[i], sims[i] = nullID(int64(a.AccountID)), nullID(int64(a.SIMID))
	}
	rows, err := tx.Query(ctx, `
		INSERT INTO alert (at, kind, key, account_id, sim_id, message, last_at)
		SELECT $1, kind, key, account_id, sim_id, message, $1
		FROM unnest($2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::text[]) AS v (kind, key, account_id, sim_id, message)
		ORDER BY key
		ON CONFLICT (key) WHERE cleared_at IS NULL
		DO UPDATE SET times = alert.times + 1, last_at = excluded.last_at, message = excluded.message
		RETURNING key, times = 1`, tx.At, kinds, keys, accounts, sims, messages)
	if err != nil {
		return nil, fmt.Errorf("raise %d alerts: %w", n, err)
	}
	defer rows.Close()
	for rows.Next() {
		var key string
		var isNew bool
		if err := rows.Scan(&key, &isNew); err != nil {
			return nil, fmt.Errorf("raise %d alerts: %w", n, err)
		}
		opened[key] = isNew
	}
	return opened, rows.Err()
}

// UsageDay is one UTC day of a SIM's daily series.
type UsageDay struct {
	Day   time.Time `json:"day"` // midnight UTC
	Bytes int64     `json:"bytes"`
}

// UsageDays gives a SIM's daily series from a UTC day on, oldest first; days without usage are
// absent (U5).
func (s *Store) UsageDays(ctx context.Context, id simwarden.SIMID, from time.Time) ([]UsageDay, error) {
	rows, err := s.pool.Query(ctx, `SELECT day, bytes FROM usage_day WHERE sim_id = $1 AND day >= ($2::timestamptz AT TIME ZONE 'UTC')::date ORDER BY day LIMIT 4000`, id, from)
	if err != nil {
		return nil, fmt.Errorf("daily usage of sim %d: %w", id, err)
	}
	defer rows.Close()
	out := []UsageDay{}
	for rows.Next() {
		var d UsageDay
		if err := rows.Scan(&d.Day, &d.Bytes); err != nil {
			return nil, fmt.Errorf("daily usage of sim %d: %w", id, err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}
