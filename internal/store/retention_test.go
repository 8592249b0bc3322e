package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

func (q *queue) exec(sql string, args ...any) {
	q.t.Helper()
	if _, err := q.pool.Exec(q.t.Context(), sql, args...); err != nil {
		q.t.Fatal(err)
	}
}

func (q *queue) count(sql string, args ...any) (n int64) {
	q.t.Helper()
	if err := q.pool.QueryRow(q.t.Context(), sql, args...).Scan(&n); err != nil {
		q.t.Fatal(err)
	}
	return n
}

func (q *queue) keep(table string, days int) {
	q.t.Helper()
	inTx(q.t, q.store, func(ctx context.Context, tx *store.Tx) error { return tx.SetKeepDays(ctx, table, days) })
}

// retain runs the retention as of the clock's instant.
func (q *queue) retain() store.RetentionRun {
	q.t.Helper()
	run, err := q.store.Retain(q.t.Context(), q.store.Now(), 100, func() bool { return true })
	if err != nil {
		q.t.Fatal(err)
	}
	return run
}

// used books a byte of a SIM's usage, and ends a command of another, at the clock's instant.
func (q *queue) used() {
	q.t.Helper()
	id := q.add(q.account, simwarden.SceneStateCheck, 0)
	inTx(q.t, q.store, func(ctx context.Context, tx *store.Tx) error {
		if ended, err := tx.EndCommand(ctx, id, simwarden.CommandQueued, simwarden.CommandObsolete, "test"); err != nil || !ended {
			return fmt.Errorf("ended %v: %w", ended, err)
		}
		var sim simwarden.SIMID
		if err := tx.QueryRow(ctx, `SELECT sim_id FROM command WHERE id = $1`, id).Scan(&sim); err != nil {
			return err
		}
		return tx.WriteUsage(ctx, []store.UsageRow{{SIMID: sim, CounterBytes: 1, ReadAt: tx.At, TrueAt: tx.At, DeltaBytes: 1}})
	})
}

func (q *queue) partitions() []string {
	q.t.Helper()
	made, err := q.store.EnsurePartitions(q.t.Context(), q.store.Now())
	if err != nil {
		q.t.Fatal(err)
	}
	return made
}

func TestR1WholeMonthsAreDroppedAsSoonAsTheirLastRowIsOldEnough(t *testing.T) {
	q := newQueue(t)
	for _, at := range []string{"2027-01-31T23:59:59.999999Z", "2027-02-01T00:00:00Z", "2027-02-28T23:59:59.999999Z"} {
		at, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		q.clock.Set(at)
		q.partitions()
		q.used()
	}
	q.keep("command_record", 31)
	q.keep("usage_day", 62)
	left := func(at string, records, days int64, why string) {
		t.Helper()
		instant, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			t.Fatal(err)
		}
		q.clock.Set(instant)
		q.retain()
		if n := q.count(`SELECT count(*) FROM command_record`); n != records {
			t.Errorf("at %s %d records are left, want %d: %s", at, n, records, why)
		}
		if n := q.count(`SELECT count(*) FROM usage_day`); n != days {
			t.Errorf("at %s %d days are left, want %d: %s", at, n, days, why)
		}
	}
	left("2027-03-03T23:59:59.999999Z", 3, 3, "the last of January is not yet 31 days ago")
	left("2027-03-04T00:00:00Z", 2, 3, "January ended 31 days ago")
	left("2027-04-01T00:00:00Z", 0, 3, "February of the records ended 31 days ago; of the daily usage nothing 62 days ago")
	left("2027-04-04T00:00:00Z", 0, 2, "January of the daily usage ended 62 days ago")
	if made := q.partitions(); len(made) == 0 {
		t.Error("no months are made after months were dropped")
	}
	q.keep("usage_day", store.KeepForGood)
	left("2037-01-01T00:00:00Z", 0, 2, "what is kept for good stays")
}

func TestF18RowsOutsideAnyMonthMoveToTheirMonthOnceItIsThere(t *testing.T) {
	q := newQueue(t)
	q.clock.Set(time.Date(2027, 1, 31, 12, 0, 0, 0, time.UTC))
	q.partitions()
	// Nobody makes partitions for three months and more.
	for _, at := range []time.Time{time.Date(2027, 4, 30, 23, 59, 59, 0, time.UTC), time.Date(2027, 5, 1, 0, 0, 0, 0, time.UTC), time.Date(2027, 6, 3, 0, 0, 0, 0, time.UTC)} {
		q.clock.Set(at)
		q.used()
	}
	report := func(ahead int, stray int64) {
		t.Helper()
		list, err := q.store.Partitions(t.Context(), q.store.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list {
			if r.MonthsAhead != ahead || r.DefaultRows != stray {
				t.Errorf("%s: %d months ahead and %d rows outside any, want %d and %d", r.Table, r.MonthsAhead, r.DefaultRows, ahead, stray)
			}
		}
		if len(list) != 2 {
			t.Errorf("%d tables are reported, want the records and the daily usage", len(list))
		}
	}
	report(0, 2)
	q.partitions()
	report(store.PartitionsAhead, 0)
	for _, table := range []string{"command_record", "usage_day"} {
		for month, want := range map[string]int64{"2027_04": 1, "2027_05": 1, "2027_06": 1} {
			if n := q.count(`SELECT count(*) FROM ` + table + `_` + month); n != want {
				t.Errorf("%s of %s has %d rows, want %d", table, month, n, want)
			}
		}
	}
	if made := q.partitions(); len(made) != 0 {
		t.Errorf("made again: %v", made)
	}
	q.used() // what was attached takes rows, and finds those of the same day
	if n := q.count(`SELECT count(*) FROM usage_day_2027_06`); n != 2 {
		t.Errorf("the month has %d rows, want 2", n)
	}
}

func TestRetentionTakesNothingThatIsNeeded(t *testing.T) {
	q := newQueue(t)
	begun := q.clock.Now()
	command := func(sim simwarden.SIMID, end simwarden.CommandState) (id simwarden.CommandID) {
		id = openCommand(t, q.store, sim, q.account.ID, simwarden.DirectionSuspend)
		q.exec(`INSERT INTO attempt (command_id, sim_id, number, request_id, scene, facts, decision, claimed_at, deadline_at) VALUES ($1, $2, 1, $3, '', '{}', '{}', $4, $4)`,
			id, sim, fmt.Sprint("request-", id), begun)
		if end != "" {
			q.exec(`UPDATE command SET state = $2, ended_at = $3 WHERE id = $1`, id, string(end), begun)
		}
		return id
	}
	var sims []simwarden.SIMID
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) (err error) {
		var list []store.NewSIM
		for i := range 3 {
			iccid := simwarden.MustParseICCID(fmt.Sprintf("8986000001%09d", i))
			list = append(list, store.NewSIM{ICCID: iccid, Raw: iccid.String()})
		}
		sims, err = tx.AddSIMs(ctx, q.account, list, 0)
		return err
	})
	command(sims[0], simwarden.CommandDone)
	command(sims[0], simwarden.CommandObserved)
	open := command(sims[0], "")
	command(sims[1], simwarden.CommandFailed)
	latest := command(sims[1], simwarden.CommandDone)
	first := command(sims[2], "")
	q.exec(`UPDATE command SET state = 'verifying' WHERE id = $1`, first)

	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
		for range 2 {
			if _, err := tx.RequestEvaluation(ctx, store.Evaluation{SIMID: sims[0], Scene: simwarden.ScenePlanCheck, AskedBy: "test"}); err != nil {
				return err
			}
		}
		for _, key := range []string{"open", "cleared"} {
			if err := tx.Raise(ctx, store.Alert{Kind: store.AlertDrift, Key: key, Message: key}); err != nil {
				return err
			}
		}
		return tx.ClearAlert(ctx, "cleared", "test")
	})
	q.exec(`UPDATE evaluation_request SET done_at = $1 WHERE id = (SELECT min(id) FROM evaluation_request)`, begun)
	q.exec(`INSERT INTO bulk_action (direction, reason, actor, total, state, created_at, finished_at) VALUES ('suspend', '', '', 1, 'running', $1, NULL), ('suspend', '', '', 1, 'done', $1, $1)`, begun)
	q.exec(`INSERT INTO bulk_item (bulk_id, sim_id) SELECT id, $1 FROM bulk_action`, sims[0])
	q.exec(`INSERT INTO account_evaluation (account_id, scene, until_id, total, asked_by, asked_at, finished_at) VALUES ($1, 'x', 1, 1, '', $2, NULL), ($1, 'y', 1, 1, '', $2, $2)`, q.account.ID, begun)
	q.exec(`INSERT INTO audit (at, actor, action) VALUES ($1, 'test', 'test')`, begun)
	if err := q.store.AddCallStats(t.Context(), store.CallStatFlush{Writer: "node", Number: 1, Stats: []store.CallStat{{MinuteAt: begun, AccountID: 1, Operation: simwarden.OpQueryState, Purpose: simwarden.PurposePoll, Outcome: "ok", Calls: 1}}}); err != nil {
		t.Fatal(err)
	}

	q.clock.Set(begun.AddDate(3, 0, 0))
	if run, err := q.store.Retain(t.Context(), q.store.Now(), 100, func() bool { return false }); err != nil || len(run.Dropped) != 0 {
		t.Fatalf("without its lease it deleted %v, %v", run.Dropped, err)
	}
	if due, err := q.store.RetentionDue(t.Context(), q.store.Now()); err != nil || !due {
		t.Fatalf("a run that was cut off counts as one: %v, %v", due, err)
	}
	events := q.count(`SELECT count(*) FROM event`)
	run := q.retain()
	want := map[string]int64{"command": 3, "event": events, "evaluation_request": 1, "call_stat": 1, "account_evaluation": 1, "bulk_action": 1, "alert": 1}
	for table, n := range want {
		if run.Dropped[table] != n {
			t.Errorf("of %s %d rows were deleted, want %d", table, run.Dropped[table], n)
		}
	}
	if len(run.Dropped) != len(want) {
		t.Errorf("deleted were %v", run.Dropped)
	}
	for sql, n := range map[string]int64{
		fmt.Sprintf(`SELECT count(*) FROM command WHERE id IN (%d, %d, %d)`, open, latest, first): 3,
		`SELECT count(*) FROM command`: 3, `SELECT count(*) FROM attempt`: 3,
		`SELECT count(*) FROM evaluation_request WHERE done_at IS NULL`:     1,
		`SELECT count(*) FROM alert WHERE cleared_at IS NULL`:               1,
		`SELECT count(*) FROM bulk_action WHERE finished_at IS NULL`:        1,
		`SELECT count(*) FROM bulk_item`:                                    1,
		`SELECT count(*) FROM account_evaluation WHERE finished_at IS NULL`: 1,
		`SELECT count(*) FROM audit`:                                        1,
	} {
		if got := q.count(sql); got != n {
			t.Errorf("%s: %d, want %d", sql, got, n)
		}
	}
	if due, err := q.store.RetentionDue(t.Context(), q.store.Now().Add(24*time.Hour-time.Microsecond)); err != nil || due {
		t.Errorf("due again before a day is over: %v, %v", due, err)
	}
	if due, err := q.store.RetentionDue(t.Context(), q.store.Now().Add(24*time.Hour)); err != nil || !due {
		t.Errorf("not due after a day: %v, %v", due, err)
	}
	list, last, err := q.store.Retentions(t.Context(), q.store.Now())
	if err != nil || last.Dropped["command"] != 3 || !last.At.Equal(q.store.Now()) {
		t.Errorf("the report says %v of %s, %v", last.Dropped, last.At, err)
	}
	for _, r := range list {
		if r.Bytes <= 0 || (r.KeepDays == store.KeepForGood) != r.DropsBefore.IsZero() {
			t.Errorf("the report is not whole: %+v", r)
		}
		if r.Table == "command" && !r.OldestAt.Equal(begun) {
			t.Errorf("the oldest command is of %s, want %s", r.OldestAt, begun)
		}
	}
}

func TestHowLongATableIsKeptHasBounds(t *testing.T) {
	q := newQueue(t)
	for _, row := range []struct {
		sentence string
		table    string
		days     int
		want     error
	}{
		{"the least", "command", 35, nil},
		{"for good", "command", store.KeepForGood, nil},
		{"a day less than others look back", "command", 34, store.ErrKeepTime},
		{"less than nothing", "command", -1, store.ErrKeepTime},
		{"the audit log has no such time (R3)", "audit", 4000, store.ErrNotFound},
	} {
		err := q.store.InTx(t.Context(), func(tx *store.Tx) error { return tx.SetKeepDays(t.Context(), row.table, row.days) })
		if !errors.Is(err, row.want) {
			t.Errorf("%s: %v, want %v", row.sentence, err, row.want)
		}
	}
}
