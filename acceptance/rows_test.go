package acceptance

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/store"
)

// text runs a query that gives one text.
func (w *world) text(sql string, args ...any) string {
	w.t.Helper()
	var s string
	w.must(w.pool.QueryRow(w.ctx, sql, args...).Scan(&s))
	return s
}

// count runs a query that gives one number.
func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	var n int
	w.must(w.pool.QueryRow(w.ctx, sql, args...).Scan(&n))
	return n
}

// instant runs a query that gives one instant; the zero time for NULL.
func (w *world) instant(sql string, args ...any) time.Time {
	w.t.Helper()
	var at *time.Time
	w.must(w.pool.QueryRow(w.ctx, sql, args...).Scan(&at))
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}

// commands are all commands of the SIM, oldest first.
func (w *world) commands(c card) []store.Command {
	w.t.Helper()
	list, err := w.store.Commands(w.ctx, store.CommandFilter{SIMID: c.id, Limit: 100})
	w.must(err)
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

// attemptRow is one attempt as written.
type attemptRow struct {
	Number      int
	RequestID   string
	Scene       simwarden.Scene
	Outcome     string
	Class       string
	HTTPStatus  int
	ClaimedAt   time.Time
	Desired     simwarden.Desired
	Reason      simwarden.Reason
	JudgedAt    time.Time
	StateReadAt time.Time
}

func (w *world) attempts(id simwarden.CommandID) []attemptRow {
	w.t.Helper()
	rows, err := w.pool.Query(w.ctx, `
		SELECT number, request_id, scene, outcome, class, http_status, claimed_at, decision->>'desired', coalesce(decision->>'reason', ''),
			(facts->>'now_at')::timestamptz, (facts->>'state_read_at')::timestamptz
		FROM attempt WHERE command_id = $1 ORDER BY number`, id)
	w.must(err)
	out, err := pgx.CollectRows(rows, pgx.RowToStructByPos[attemptRow])
	w.must(err)
	return out
}

// ends waits until the SIM's one command has ended and gives it.
func (w *world) ends(c card, state simwarden.CommandState) store.Command {
	w.t.Helper()
	var last []store.Command
	eventually(w.t, fmt.Sprintf("SIM %s has a command that has ended", c.iccid), func() bool {
		last = w.commands(c)
		return len(last) > 0 && !last[len(last)-1].State.Open()
	})
	if len(last) != 1 {
		w.t.Fatalf("SIM %s has %d commands, want one: %s", c.iccid, len(last), describe(last))
	}
	if last[0].State != state {
		w.t.Fatalf("the command of SIM %s ended as %s, want %s: %s", c.iccid, last[0].State, state, describe(last))
	}
	return last[0]
}

// only checks the one command of a SIM: what it is for, that it succeeded, and that it left one
// record (V18).
func (w *world) only(c card, d simwarden.Direction, scene simwarden.Scene, reason simwarden.Reason) store.Command {
	w.t.Helper()
	cmd := w.ends(c, simwarden.CommandDone)
	if cmd.Direction != d || cmd.Scene != scene || cmd.Reason != reason {
		w.t.Errorf("the command is %s for %s in scene %s, want %s for %s in scene %s", cmd.Direction, cmd.Reason, cmd.Scene, d, reason, scene)
	}
	if n := w.count(`SELECT count(*) FROM command_record WHERE command_id = $1 AND status = 'done'`, cmd.ID); n != 1 {
		w.t.Errorf("command %d has %d records of success, want one", cmd.ID, n)
	}
	return cmd
}

func describe(list []store.Command) string {
	var b bytes.Buffer
	for _, c := range list {
		fmt.Fprintf(&b, "\n%d: %s, scene %s, reason %s, %s, %d attempts, held by %q, last %s %s, ended: %s",
			c.ID, c.Direction, c.Scene, c.Reason, c.State, c.Attempt, c.HeldBy, c.LastClass, c.LastMessage, c.EndBecause)
	}
	return b.String()
}

// evaluated asks for an evaluation of the SIM with a scene and waits until it has been worked off:
// what was there before has then had its say. It is how tests find out that nothing happens.
func (w *world) evaluated(c card, scene simwarden.Scene, sub simwarden.SubscriptionID) {
	w.t.Helper()
	var id simwarden.EvaluationID
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		id, err = tx.RequestEvaluation(ctx, store.Evaluation{SIMID: c.id, Scene: scene, SubscriptionID: sub, AskedBy: "test",
			Cause: store.Cause{Kind: store.CauseEvaluation, ID: int64(c.id)}})
		return err
	})
	eventually(w.t, fmt.Sprintf("the evaluation with scene %s is worked off", scene), func() bool {
		return w.count(`SELECT count(*) FROM evaluation_request WHERE id = $1 AND done_at IS NOT NULL`, id) == 1
	})
}

// periodic waits until a periodic pass has gone past the SIM after now: each begins at the fleet's
// first SIM and notes how far it has come.
func (w *world) periodic(c card) {
	w.t.Helper()
	cursor := func() int {
		return w.count(`SELECT coalesce(max(nullif(cursor, '')::bigint), 0) FROM lease WHERE name = 'periodic'`)
	}
	eventually(w.t, "a periodic pass begins", func() bool { return cursor() < int(c.id) })
	eventually(w.t, "a periodic pass has judged the SIM", func() bool { return cursor() >= int(c.id) })
}

// openBound is how old something open may be at the end of a test, when the carrier has been
// without faults for a while.
const openBound = 20 * time.Second

// calm lets everything come to its end, without faults.
func (w *world) calm() {
	w.t.Helper()
	w.lab.ClearFaults()
	eventually(w.t, "nothing is under way", func() bool {
		return w.count(`SELECT count(*) FROM command WHERE state IN ('queued', 'sending', 'verifying', 'confirming') AND held_by NOT LIKE 'account%'`) == 0 &&
			w.count(`SELECT count(*) FROM evaluation_request WHERE done_at IS NULL AND run_at < $1`, w.store.Now()) == 0
	})
}

// check ends a test: no invariant was broken.
func (w *world) check() {
	w.t.Helper()
	report := w.report(w.t)
	for _, v := range report.Violations {
		w.t.Errorf("%s", v)
	}
	judged := w.count(`SELECT count(*) FROM sim s JOIN poll_state p ON p.sim_id = s.id LEFT JOIN device d ON d.id = s.device_id
		WHERE s.paused_at IS NULL AND s.closed_at IS NULL AND d.paused_at IS NULL AND s.drifting_at IS NULL AND p.desired <> 'leave'`)
	if report.Looked.Lines == 0 || report.Looked.SIMs == 0 && judged > 0 {
		w.t.Errorf("the checker had nothing to look at: %+v", report.Looked)
	}
	if w.counting.Load() == 0 && report.Looked.Counters == 0 {
		w.t.Errorf("the checker had no counters to look at: %+v", report.Looked)
	}
	if taken := w.count(`SELECT count(*) FROM attempt WHERE outcome IN ('done', 'accepted')`); taken > report.Looked.Changes {
		w.t.Errorf("the checker saw %d state-changing requests, the carrier took %d", report.Looked.Changes, taken)
	}
}

// lostCounts is how long before its end the counts were made that are lost with a killed program: since
// it wrote them last, and of requests under way then.
const (
	lostCounts = 15 * time.Second
	onTheWire  = 5 * time.Second
)

// report has the checker look at the carrier's log, the truth and the database.
func (w *world) report(t *testing.T) check.Report {
	t.Helper()
	return w.reportWithin(t, openBound)
}

// reportWithin is report with a bound of its own on how old something open may be (V12).
func (w *world) reportWithin(t *testing.T, bound time.Duration) check.Report {
	t.Helper()
	lines, err := check.ReadLog(bytes.NewReader(w.log.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	truth, history := map[string]simwarden.State{}, map[string][]check.Moment{}
	for _, s := range w.lab.Truth() {
		truth[s.ICCID] = s.State
		for _, c := range s.Changes {
			history[s.ICCID] = append(history[s.ICCID], check.Moment{At: c.At, State: c.State})
		}
	}
	conn, err := pgx.Connect(w.ctx, w.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(w.ctx)
	driver, err := carrier.Lookup(w.account.Driver)
	if err != nil {
		t.Fatal(err)
	}
	// The carrier sees a request's end a moment after its sender has given up.
	const moment = time.Second
	w.mu.Lock()
	killed := slices.Clone(w.killed)
	w.mu.Unlock()
	for i := range killed { // what was on the wire then arrives later, on a busy machine by much
		killed[i] = killed[i].Add(onTheWire)
	}
	report, err := check.Run(w.ctx, check.Input{DB: conn, Lines: lines, Truth: truth, History: history, UsedBytes: w.carrier.UsedBytes, Now: w.store.Now(),
		CountsWritten: w.counting.Load() == 0, LostAt: killed, LostCounts: lostCounts + onTheWire,
		Settle: max(settle, driver.Info().SettleTime-moment), OpenBound: bound, MaxAttempts: fastBackoff().MaxAttempts})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
