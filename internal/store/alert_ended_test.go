package store_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

func TestAlertsAreClearedWhenTheirCauseHasEnded(t *testing.T) {
	q := newQueue(t)
	raisedAt := q.clock.Now()
	command := q.add(q.account, simwarden.SceneStateCheck, 0)
	var sim simwarden.SIMID
	var request simwarden.EvaluationID
	inTx(t, q.store, func(ctx context.Context, tx *store.Tx) (err error) {
		if err := tx.QueryRow(ctx, `SELECT sim_id FROM command WHERE id = $1`, command).Scan(&sim); err != nil {
			return err
		}
		request, err = tx.RequestEvaluation(ctx, store.Evaluation{SIMID: sim, Scene: simwarden.ScenePlanCheck, AskedBy: "test"})
		return err
	})
	q.exec(`INSERT INTO plan (id, code, name, kind, allowance_bytes, validity_unit, validity_count, reset, zone, created_at) VALUES (1, 'a', 'a', 'main', 1, 'days', 1, 'none', 'UTC', $1)`, raisedAt)
	q.exec(`INSERT INTO subscription (id, sim_id, plan_id, kind, state, start_at, end_at, allowance_bytes, bought_at, bought_by)
		VALUES (7, $1, 1, 'main', 'active', $2::timestamptz - interval '1 day', $2, 1, $2, 'test')`, sim, raisedAt)
	alerts := []store.Alert{
		{Kind: store.AlertUsage, Key: "usage_anomaly:1:fell:0", SIMID: sim},
		{Kind: store.AlertRowSetAside, Key: fmt.Sprint("row_set_aside:poll:", sim), SIMID: sim},
		{Kind: store.AlertRowSetAside, Key: fmt.Sprint("command_set_aside:", command)},
		{Kind: store.AlertRowSetAside, Key: fmt.Sprint("evaluation:", request), SIMID: sim},
		{Kind: store.AlertRowSetAside, Key: "subscription:7", SIMID: sim},
		{Kind: store.AlertRowSetAside, Key: fmt.Sprint("periodic:", sim), SIMID: sim},
		{Kind: store.AlertRowSetAside, Key: fmt.Sprint("account_evaluation:", sim), SIMID: sim},
		{Kind: store.AlertRowSetAside, Key: fmt.Sprint("two_commands:", sim), SIMID: sim},
		{Kind: store.AlertDrift, Key: "drift:1", SIMID: sim},
	}
	raise := func(list ...store.Alert) {
		inTx(t, q.store, func(ctx context.Context, tx *store.Tx) error {
			for _, a := range list {
				if err := tx.Raise(ctx, a); err != nil {
					return err
				}
			}
			return nil
		})
	}
	raise(alerts...)
	const quiet = time.Hour
	cleared := func(why string, want ...store.Alert) {
		t.Helper()
		before, err := q.store.OpenAlerts(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		n, err := q.store.ClearEndedAlerts(t.Context(), quiet)
		if err != nil {
			t.Fatal(err)
		}
		after, err := q.store.OpenAlerts(t.Context(), 100)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, a := range before {
			if !slices.ContainsFunc(after, func(b store.Alert) bool { return a.ID == b.ID }) {
				got = append(got, a.Key)
			}
		}
		var keys []string
		for _, a := range want {
			keys = append(keys, a.Key)
		}
		slices.Sort(got)
		slices.Sort(keys)
		if !slices.Equal(got, keys) || n != int64(len(want)) {
			t.Errorf("%s: cleared are %v (%d), want %v", why, got, n, keys)
		}
	}
	cleared("all causes go on")
	q.clock.Advance(time.Minute)
	q.exec(`UPDATE poll_state SET usage_read_at = $2 WHERE sim_id = $1`, sim, raisedAt)
	cleared("the reading that raised them is no later one")
	q.exec(`UPDATE poll_state SET state_read_at = $2 WHERE sim_id = $1`, sim, raisedAt.Add(time.Second))
	cleared("a state was taken in, and says nothing of the counter", alerts[1])
	q.exec(`UPDATE poll_state SET usage_read_at = $2 WHERE sim_id = $1`, sim, raisedAt.Add(time.Second))
	cleared("a later counter was believed", alerts[0])
	q.exec(`UPDATE subscription SET state = 'expired', ended_at = $1 WHERE id = 7`, raisedAt)
	cleared("the plan's end was handled", alerts[4])
	q.exec(`UPDATE evaluation_request SET done_at = $1 WHERE id = $2`, raisedAt, request)
	cleared("the request was worked off", alerts[3])
	q.exec(`UPDATE command SET state = 'done', ended_at = $1 WHERE id = $2`, raisedAt, command)
	cleared("the command has ended", alerts[2])
	q.clock.Advance(quiet)
	raise(alerts[5])
	cleared("the periodic evaluation still fails for the SIM")
	q.clock.Advance(quiet)
	cleared("nobody has complained for long enough", alerts[5], alerts[6])
	q.clock.Advance(1000 * quiet)
	cleared("two commands under way are for a person (V3), and drift for whoever raised it")
}
