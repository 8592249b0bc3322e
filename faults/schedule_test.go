package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/secret"
)

// outcome is what became of a schedule.
type outcome struct {
	report  check.Report
	trace   string
	took    time.Duration // of the bubble's time
	classes map[string]int
	struck  []struck
	log     []byte            // of the carriers
	kept    map[string]string // what the database has of the subject of a violation
}

// linesOf are the lines of the carriers' log that name the subject of a violation.
func (o outcome) linesOf(subject string) string {
	var b strings.Builder
	for line := range bytes.Lines(o.log) {
		if subject != "" && bytes.Contains(line, []byte(subject)) {
			b.Write(line)
		}
	}
	return b.String()
}

// struck is one request that a fault of the carrier struck.
type struck struct{ fault, operation string }

// run runs one schedule in a bubble of its own and has the checker look at it.
func run(t *testing.T, p plan, b *database, ring *secret.Keyring, c *coverage) (out outcome) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p, b, ring)
		defer func() { out.trace = w.trace.String() }()
		defer w.close()
		begun := time.Now()
		for range 2 + w.random.IntN(4)/3 {
			w.start()
		}
		w.sleep(8 * time.Second)
		list := p.episodes()
		for _, e := range list {
			w.play(e, c)
		}
		w.calm()
		w.bury()
		for _, n := range w.living() {
			w.leave(n)
		}
		out.report, out.classes = w.check()
		out.kept = w.keptOf(out.report.Violations)
		out.struck, out.log = w.struck(), w.log.Bytes()
		out.took = time.Since(begun)
	})
	return out
}

// play runs one episode: the carrier's fault is on, the point is armed, people do as they like.
func (w *world) play(e episode, c *coverage) {
	w.trace.note("episode of %s: %s at hit %d of %s, carriers: %+v", e.lasts, e.How, e.nth, e.Point, e.carrier)
	before := w.lab.FaultsInjected()[e.Fault]
	a := &arming{episode: e, left: e.nth}
	w.arm(a)
	_, err := w.lab.SetFault(e.carrier)
	w.must(err)
	people, rest := context.WithCancel(w.ctx)
	defer rest()
	gone := make(chan struct{})
	w.stir(e.Point)
	go func() {
		defer close(gone)
		w.interfere(people)
	}()
	w.sleep(e.lasts / 2)
	w.bury()
	if living := w.living(); e.rolls && len(living) > 1 {
		w.start()
		w.leave(living[0])
	}
	w.replace()
	w.sleep(e.lasts / 2)
	rest()
	<-gone
	w.replace()
	w.lab.ClearFaults()
	w.arm(nil)
	w.mu.Lock()
	taken := a.taken
	w.mu.Unlock()
	c.reached(e, taken, w.lab.FaultsInjected()[e.Fault]-before)
}

func (w *world) arm(a *arming) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.armed = a
}

// replace starts nodes in the place of those that were killed, once that is due. One always runs.
func (w *world) replace() {
	w.bury()
	w.mu.Lock()
	due := 0
	for len(w.killed) > 0 && (!w.killed[0].After(time.Now()) || len(w.living())+due == 0) {
		w.killed = w.killed[1:]
		due++
	}
	w.mu.Unlock()
	for range due {
		w.start()
	}
}

const (
	calmAtLeast = 60 * time.Second
	calmAtMost  = 20 * time.Minute
	// lostCounts is how long before its end what a node had counted was counted that went with it.
	lostCounts = lookEvery + 40*time.Second
	// openBound is how old something open may be after the calm.
	openBound = 90 * time.Second
)

// calm lets everything come to its end: carriers answer, nodes run, people release what waits for
// them and do nothing else.
func (w *world) calm() {
	w.trace.note("calm")
	w.mu.Lock()
	for i := range w.killed {
		w.killed[i] = time.Now()
	}
	w.mu.Unlock()
	w.replace()
	from := time.Now()
	for quiet := 0; quiet < 2; {
		w.must(w.release())
		w.sleep(12 * time.Second)
		w.replace()
		switch since := time.Since(from); {
		case since > calmAtMost:
			w.trace.note("it does not become quiet")
			return
		case since < calmAtLeast || !w.quiet():
			quiet = 0
		default:
			quiet++
		}
	}
}

// quiet says that nothing is under way, nor can come of a node that stands still.
func (w *world) quiet() bool {
	now := time.Now().UTC()
	return w.allMove() && w.count(`SELECT count(*) FROM command WHERE state IN ('queued', 'sending', 'verifying', 'confirming')`) == 0 &&
		w.count(`SELECT count(*) FROM evaluation_request WHERE done_at IS NULL AND run_at < $1`, now) == 0 &&
		w.count(`SELECT count(*) FROM account_evaluation WHERE finished_at IS NULL`) == 0 &&
		w.count(`SELECT count(*) FROM account WHERE braked_at IS NOT NULL OR stopped_at IS NOT NULL`) == 0
}

// keptOf gives what the database has of the SIMs that violations name, to find out how they came about.
func (w *world) keptOf(violations []check.Violation) map[string]string {
	w.t.Helper()
	if len(violations) == 0 {
		return nil
	}
	conn, err := w.database.connect(w.ctx)
	w.must(err)
	defer func() { w.must(conn.Close(w.ctx)) }()
	kept := map[string]string{}
	for _, v := range violations {
		rows, err := conn.Query(w.ctx, `
			WITH s AS (SELECT * FROM sim WHERE iccid = $1)
			SELECT 'sim ' || to_jsonb(s)::text FROM s
			UNION ALL SELECT 'poll_state ' || to_jsonb(p)::text FROM s JOIN poll_state p ON p.sim_id = s.id
			UNION ALL (SELECT 'command ' || to_jsonb(c)::text FROM s JOIN command c ON c.sim_id = s.id ORDER BY c.id)
			UNION ALL (SELECT 'event ' || to_jsonb(e)::text FROM s JOIN event e ON e.sim_id = s.id ORDER BY e.id)
			UNION ALL (SELECT 'evaluation ' || to_jsonb(r)::text FROM s JOIN evaluation_request r ON r.sim_id = s.id ORDER BY r.id)
			UNION ALL SELECT 'account ' || to_jsonb(a)::text FROM s JOIN account a ON a.id = s.account_id`, v.Subject)
		w.must(err)
		lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
		w.must(err)
		kept[v.Subject] = strings.Join(lines, "\n")
	}
	return kept
}

// check has the checker look at the carriers' log, the truth and the database.
func (w *world) check() (report check.Report, classes map[string]int) {
	w.t.Helper()
	w.lab.LogLines() // has what is due by now take place
	w.must(w.lab.LogError())
	lines, err := check.ReadLog(bytes.NewReader(w.log.Bytes()))
	w.must(err)
	truth, history := map[string]simwarden.State{}, map[string][]check.Moment{}
	for _, s := range w.lab.Truth() {
		truth[s.ICCID] = s.State
		for _, c := range s.Changes {
			history[s.ICCID] = append(history[s.ICCID], check.Moment{At: c.At, State: c.State})
		}
	}
	used := func(iccid string, at time.Time) (int64, bool) {
		for _, a := range w.lab.Accounts() {
			if n, ok := a.UsedBytes(iccid, at); ok {
				return n, true
			}
		}
		return 0, false
	}
	conn, err := w.database.connect(w.ctx)
	w.must(err)
	defer func() { w.must(conn.Close(w.ctx)) }()
	// The shortest settle time of the drivers, less the moment by which a carrier sees the end of a
	// request later than its sender.
	report, err = check.Run(w.ctx, check.Input{DB: conn, Lines: lines, Truth: truth, History: history, UsedBytes: used, Now: w.store.Now(),
		CountsWritten: true, LostAt: w.lost, LostCounts: lostCounts, // all nodes have ended
		Settle: 4 * time.Second, OpenBound: openBound, RetryAfterMax: retryAfterMax, MaxAttempts: backoff().MaxAttempts})
	w.must(err)
	w.must(conn.QueryRow(w.ctx, `SELECT coalesce(jsonb_object_agg(what, n), '{}') FROM (SELECT CASE class WHEN '' THEN outcome ELSE class END AS what, count(*) AS n
		FROM attempt GROUP BY 1) x`).Scan(&classes))
	return report, classes
}

// struck are the requests that faults struck, by the carriers' log.
func (w *world) struck() (list []struck) {
	for text := range bytes.Lines(w.log.Bytes()) {
		var l struct{ Fault, Operation string }
		w.must(json.Unmarshal(text, &l))
		if l.Fault == "" {
			continue
		}
		for name := range strings.SplitSeq(l.Fault, ",") {
			list = append(list, struck{name, l.Operation})
		}
	}
	return list
}
