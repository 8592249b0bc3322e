package store

import (
	"time"

	"github.com/simwarden/simwarden"
)

// The two fences as a condition on p.shard. set_config makes the commit of this one statement not
// wait for the disk: what it writes is read again at the next check, were it lost.
const (
	fenceByEpochs = `
		WITH fence AS MATERIALIZED (
			SELECT h.shard, set_config('synchronous_commit', 'off', true) FROM poll_shard h
			JOIN unnest($3::smallint[], $4::bigint[]) AS v (shard, epoch) ON h.shard = v.shard AND h.epoch = v.epoch
			WHERE h.account_id = $1 AND h.holder = $2 AND h.lease_until > app_now()
		), t AS (`
	fenceByLease = `
		WITH fence AS MATERIALIZED (
			SELECT 0::smallint AS shard, set_config('synchronous_commit', 'off', true) FROM lease
			WHERE name = $3 AND holder = $2 AND epoch = $4 AND lease_until > app_now() AND $1::bigint > 0
		), t AS (`
	// "+ 0" keeps the planner from the index on account and shard: each SIM is found by its id.
	inEpochs = ` AND p.account_id + 0 = $1 AND p.shard = ANY (ARRAY(SELECT shard FROM fence)) RETURNING p.sim_id)`
	inLease  = ` AND p.account_id + 0 = $1 AND EXISTS (SELECT FROM fence) RETURNING p.sim_id)`
	// Nearly always all rows are written: then they are not named.
	touched = ` SELECT ARRAY(SELECT shard FROM fence), CASE WHEN (SELECT count(*) FROM t) < $5::bigint THEN ARRAY(SELECT sim_id FROM t) END`

	// The hot path: one statement, and nothing but instants changes.
	touchState = `
		UPDATE poll_state p SET state_read_at = v.read_at, state_due_at = v.due_at
		FROM unnest($6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::text[], $10::text[], $11::bool[])
			AS v (sim_id, read_at, due_at, state, extended, pending)
		WHERE p.sim_id = v.sim_id AND p.settled AND p.state = v.state AND p.extended = v.extended AND p.pending = v.pending
		  AND p.state_read_at <= v.read_at`
	// The same for rows that all say the same of the state, as nearly all of a list do.
	touchSameState = `
		UPDATE poll_state p SET state_read_at = $8, state_due_at = v.due_at
		FROM unnest($6::bigint[], $7::timestamptz[]) AS v (sim_id, due_at)
		WHERE p.sim_id = v.sim_id AND p.settled AND p.state = $9 AND p.extended = $10 AND p.pending = $11 AND p.state_read_at <= $8`
	// And where their ids lie close together, as those of SIMs that were added and are listed in one
	// order do: a walk along the ids from $11 to $12 costs a third less than to find one after the
	// other. The due times stand at their SIMs' places; time's zero value is at the others.
	touchRange = `
		UPDATE poll_state p SET state_read_at = $7, state_due_at = ($6::timestamptz[])[p.sim_id - $11 + 1]
		WHERE p.sim_id BETWEEN $11 AND $12 AND ($6::timestamptz[])[p.sim_id - $11 + 1] > '0001-01-01 00:00:00+00'
		  AND p.settled AND p.state = $8 AND p.extended = $9 AND p.pending = $10 AND p.state_read_at <= $7`
	touchUsage = `
		UPDATE poll_state p SET usage_read_at = v.read_at, usage_true_at = v.true_at, usage_due_at = v.due_at
		FROM unnest($6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::timestamptz[], $10::bigint[], $11::timestamptz[])
			AS v (sim_id, read_at, due_at, true_at, counter, period)
		WHERE p.sim_id = v.sim_id AND p.settled AND p.usage_counter_bytes = v.counter
		  AND p.usage_period_start_at IS NOT DISTINCT FROM v.period AND p.usage_read_at <= v.read_at`
	touchRealName = `
		UPDATE poll_state p SET realname_read_at = v.read_at, realname_due_at = v.due_at
		FROM unnest($6::bigint[], $7::timestamptz[], $8::timestamptz[], $9::text[]) AS v (sim_id, read_at, due_at, realname)
		WHERE p.sim_id = v.sim_id AND p.settled AND p.realname = v.realname AND p.realname_odd = '' AND p.realname_read_at <= v.read_at`
)

func sameState(rows []PollRow) bool {
	first := rows[0].Reading.State
	for _, r := range rows[1:] {
		if s := r.Reading.State; s.State != first.State || s.Extended != first.Extended || s.Pending != first.Pending {
			return false
		}
	}
	return true
}

// rangeFactor is how many places a range of ids may have for each row that is written.
const rangeFactor = 2

// stateUpdate chooses the statement for readings of the state, and adds what it is given.
func stateUpdate(args []any, rows []PollRow) (string, []any) {
	if !sameState(rows) {
		return touchState, stateArgs(args, rows)
	}
	first, last := rows[0].SIMID, rows[0].SIMID
	for _, r := range rows[1:] {
		first, last = min(first, r.SIMID), max(last, r.SIMID)
	}
	if int64(last-first) < int64(rangeFactor*len(rows)) {
		return touchRange, rangeArgs(args, rows, first, last)
	}
	return touchSameState, sameStateArgs(args, rows)
}

// rangeArgs gives each SIM's due time at its place in the range; time's zero value stands where no
// row is.
func rangeArgs(args []any, rows []PollRow, first, last simwarden.SIMID) []any {
	dues := make([]time.Time, last-first+1)
	for _, r := range rows {
		dues[r.SIMID-first] = r.DueAt
	}
	state := rows[0].Reading.State
	return append(args, dues, earliest(rows), string(state.State), string(state.Extended), state.Pending, first, last)
}

// earliest is an instant that all rows may be given: a reading is never made out to be fresher than
// it is.
func earliest(rows []PollRow) time.Time {
	readAt := rows[0].Reading.ReadAt
	for _, r := range rows[1:] {
		if r.Reading.ReadAt.Before(readAt) {
			readAt = r.Reading.ReadAt
		}
	}
	return readAt
}

func sameStateArgs(args []any, rows []PollRow) []any {
	ids, dues := make([]int64, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		ids[i], dues[i] = int64(r.SIMID), r.DueAt
	}
	state := rows[0].Reading.State
	return append(args, ids, dues, earliest(rows), string(state.State), string(state.Extended), state.Pending)
}

func stateArgs(args []any, rows []PollRow) []any {
	n := len(rows)
	ids, reads, dues := make([]int64, n), make([]time.Time, n), make([]time.Time, n)
	states, extended, pending := make([]string, n), make([]string, n), make([]bool, n)
	for i, r := range rows {
		ids[i], reads[i], dues[i] = int64(r.SIMID), r.Reading.ReadAt, r.DueAt
		states[i], extended[i], pending[i] = string(r.Reading.State.State), string(r.Reading.State.Extended), r.Reading.State.Pending
	}
	return append(args, ids, reads, dues, states, extended, pending)
}

func usageArgs(args []any, rows []PollRow) []any {
	n := len(rows)
	ids, reads, dues := make([]int64, n), make([]time.Time, n), make([]time.Time, n)
	trues, counters, periods := make([]time.Time, n), make([]int64, n), make([]*time.Time, n)
	for i, r := range rows {
		ids[i], reads[i], dues[i] = int64(r.SIMID), r.Reading.ReadAt, r.DueAt
		trues[i], counters[i], periods[i] = r.Reading.Usage.TrueAt, r.Reading.Usage.CounterBytes, nullTime(r.Reading.Usage.PeriodStartAt)
		if trues[i].IsZero() {
			trues[i] = r.Reading.ReadAt
		}
	}
	return append(args, ids, reads, dues, trues, counters, periods)
}

func realNameArgs(args []any, rows []PollRow) []any {
	n := len(rows)
	ids, reads, dues, status := make([]int64, n), make([]time.Time, n), make([]time.Time, n), make([]string, n)
	for i, r := range rows {
		ids[i], reads[i], dues[i], status[i] = int64(r.SIMID), r.Reading.ReadAt, r.DueAt, string(r.Reading.RealName.Status)
	}
	return append(args, ids, reads, dues, status)
}
