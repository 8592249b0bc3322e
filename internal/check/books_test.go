package check_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// at is so many seconds after noon.
func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

const (
	card    = "8999900100000000004" // the one SIM of most rows
	another = "8999900100000000012"
)

// books are rows written by hand, in a transaction that is rolled back at the row's end.
type books struct {
	t    *testing.T
	conn *pgx.Conn
}

// open gives one connection to a migrated database with an account and two SIMs, 1 and 2.
func open(t *testing.T) *books {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), storetest.URL(t, store.Migrate))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	b := &books{t, conn}
	if err := check.Watch(t.Context(), conn.Config().ConnString()); err != nil {
		t.Fatal(err)
	}
	b.exec(`INSERT INTO limit_group (id, name, created_at) VALUES (1, 'acme', $1)`, noon)
	b.exec(`INSERT INTO account (id, name, driver, mode, limit_group_id, created_at, updated_at) VALUES (1, 'acme', 'soracom', 'act', 1, $1, $1)`, noon)
	b.exec(`INSERT INTO plan (id, code, name, kind, allowance_bytes, validity_unit, validity_count, reset, zone, created_at)
		VALUES (1, 'day', 'day', 'main', -1, 'days', 1, 'none', 'UTC', $1)`, noon)
	for i, iccid := range []string{card, another} {
		b.exec(`INSERT INTO sim (id, account_id, iccid, iccid_raw, ever_planned, created_at) VALUES ($1, 1, $2, $2, true, $3)`, i+1, iccid, noon)
		b.exec(`INSERT INTO poll_state (sim_id, account_id, shard, state_due_at, usage_due_at, realname_due_at) VALUES ($1, 1, 0, $2, $2, $2)`, i+1, noon)
	}
	return b
}

func (b *books) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.conn.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatalf("%v\n%s", err, sql)
	}
}

func (b *books) id(sql string, args ...any) int64 {
	b.t.Helper()
	var id int64
	if err := b.conn.QueryRow(b.t.Context(), sql, args...).Scan(&id); err != nil {
		b.t.Fatalf("%v\n%s", err, sql)
	}
	return id
}

// plan writes a main subscription of SIM 1; end and ended may be zero.
func (b *books) plan(state simwarden.SubscriptionState, start, end, ended time.Time) int64 {
	b.t.Helper()
	return b.id(`INSERT INTO subscription (sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by, ended_at)
		VALUES (1, 1, 'main', $1, $2, $3, -1, $4, 'test', $5) RETURNING id`, string(state), null(start), null(end), noon, null(ended))
}

func null(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// request writes an evaluation request of SIM 1.
func (b *books) request(scene simwarden.Scene, sub int64, due, done time.Time) {
	b.t.Helper()
	b.exec(`INSERT INTO evaluation_request (sim_id, scene, cause_kind, cause_id, subscription_id, asked_by, asked_at, run_at, done_at)
		VALUES (1, $1, 'subscription', $2::bigint, nullif($2::bigint, 0), 'system', $3, $3, $4)`, string(scene), sub, due, null(done))
}

// event writes an event of SIM 1.
func (b *books) event(kind string, when time.Time, data any) {
	b.t.Helper()
	text, err := json.Marshal(data)
	if err != nil {
		b.t.Fatal(err)
	}
	b.exec(`INSERT INTO event (at, kind, sim_id, actor, data) VALUES ($1, $2, 1, 'test', $3)`, when, kind, string(text))
}

// command writes a command of SIM 1 with, where it has ended, its record.
func (b *books) command(d simwarden.Direction, scene simwarden.Scene, state simwarden.CommandState, sub int64, when time.Time) int64 {
	b.t.Helper()
	id := b.id(`INSERT INTO command (sim_id, account_id, direction, scene, reason, subscription_id, cause_kind, cause_id, asked_by, decision, state, run_at, created_at, updated_at)
		VALUES (1, 1, $1, $2, 'no_plan', nullif($3::bigint, 0), 'subscription', $3::bigint, 'system', '{}', $4, $5, $5, $5) RETURNING id`,
		string(d), string(scene), sub, string(state), when)
	if !state.Open() {
		b.record(id, state, when)
	}
	return id
}

func (b *books) record(id int64, state simwarden.CommandState, when time.Time) {
	b.t.Helper()
	b.exec(`INSERT INTO command_record (command_id, ended_at, sim_id, iccid, account_id, direction, scene, reason, status, end_because, asked_by,
			class, code, message, rule, decision, attempts, created_at)
		VALUES ($1, $2, 1, $3, 1, 'suspend', 'plan_lapsed', 'no_plan', $4, '', 'system', '', '', '', '', '{}', '[]', $2)`, id, when, card, string(state))
}

// attempted is one attempt to write; zero fields take what a good one has.
type attempted struct {
	command int64
	number  int
	sim     int
	scene   simwarden.Scene // plan_lapsed
	when    time.Time
	class   string
	outcome string // done, or error where there is a class
	rule    string
	// facts changes what was judged before the decision is made, after changes it behind its back.
	facts, after func(*rules.Facts)
}

// attempt writes an attempt that was judged afresh, and gives its request id.
func (b *books) attempt(a attempted) string {
	b.t.Helper()
	if a.scene == "" {
		a.scene = simwarden.ScenePlanLapsed
	}
	if a.outcome == "" {
		a.outcome = "done"
		if a.class != "" {
			a.outcome = "error"
		}
	}
	f := rules.Facts{NowAt: a.when, Scene: a.scene, State: simwarden.StateActive, Extended: simwarden.ExtendedNone, StateReadAt: a.when.Add(-time.Minute),
		TrafficStates: []simwarden.State{simwarden.StateActive}, EverPlanned: true, LastPlanEndedAt: noon.Add(-time.Minute),
		Unplanned: simwarden.UnplannedLeave, FreshFor: 15 * time.Minute, HasUsage: true, Subscriptions: []rules.SubscriptionFact{}}
	if a.facts != nil {
		a.facts(&f)
	}
	d := rules.Decide(f)
	if a.after != nil {
		a.after(&f)
	}
	facts, err := json.Marshal(f)
	if err != nil {
		b.t.Fatal(err)
	}
	decision, err := json.Marshal(d)
	if err != nil {
		b.t.Fatal(err)
	}
	if a.sim == 0 {
		a.sim = 1
	}
	request := fmt.Sprintf("c%d-%d", a.command, a.number)
	b.exec(`INSERT INTO attempt (command_id, sim_id, number, request_id, scene, facts, decision, claimed_at, deadline_at, ended_at, outcome, class, rule)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9, $10, $11, $12)`,
		a.command, a.sim, a.number, request, string(a.scene), string(facts), string(decision), a.when, a.when.Add(2*time.Second), a.outcome, a.class, a.rule)
	return request
}

// The lines of a carrier's log.

func change(request string, when time.Time, answer string, status int) check.Line {
	return check.Line{ArrivedAt: when, Seq: uint64(when.UnixMilli()), RequestID: request, Account: "acme", Operation: simwarden.OpSuspend, Kind: "change", ICCID: card,
		Direction: simwarden.DirectionSuspend, Status: status, Answer: answer, AnsweredAt: when.Add(100 * time.Millisecond)}
}

// lost is a change that had no answer: its connection was closed.
func lost(request string, when time.Time) check.Line {
	l := change(request, when, "none", 0)
	l.ClosedAt, l.AnsweredAt = l.AnsweredAt, time.Time{}
	return l
}

func read(when time.Time, state simwarden.State) check.Line {
	return check.Line{ArrivedAt: when, Account: "acme", Operation: simwarden.OpQueryState, Kind: "read", ICCID: card, Status: 200, Answer: "ok",
		StateAnswered: state, AnsweredAt: when.Add(50 * time.Millisecond)}
}

// row is one sentence about what the checker finds. want is the invariant that is broken, empty for
// none.
type row struct {
	says  string
	write func(*books) []check.Line
	want  string
	input check.Input
}

func judge(t *testing.T, rows []row) {
	t.Helper()
	b := open(t)
	for _, r := range rows {
		t.Run(r.says, func(t *testing.T) {
			b := &books{t, b.conn}
			b.exec(`BEGIN`)
			defer func() {
				if _, err := b.conn.Exec(context.Background(), `ROLLBACK`); err != nil {
					t.Error(err)
				}
			}()
			in := r.input
			in.DB, in.Lines = b.conn, r.write(b)
			if in.Now.IsZero() {
				in.Now = at(600)
			}
			if in.Settle == 0 {
				in.Settle = 5 * time.Second
			}
			report, err := check.Run(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, v := range report.Violations {
				found = found || v.Invariant == r.want
				if v.Invariant != r.want {
					t.Errorf("found %s", v)
				}
			}
			if r.want != "" && !found {
				t.Errorf("found nothing, want %s; looked at %+v", r.want, report.Looked)
			}
		})
	}
}
