package store_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// stocked is a store with two accounts of two SIMs each.
func stocked(t *testing.T) (s *store.Store, accounts []store.Account, sims []simwarden.SIMID) {
	t.Helper()
	s, _ = open(t)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		for i, name := range []string{"acme", "other"} {
			a, err := tx.AddAccount(ctx, store.Account{Name: name, Driver: "soracom"})
			if err != nil {
				return err
			}
			accounts = append(accounts, a)
			var list []store.NewSIM
			for k := range 2 {
				id := simwarden.MustParseICCID(fmt.Sprintf("898600000000%07d", 10*i+k))
				list = append(list, store.NewSIM{ICCID: id, Raw: id.String()})
			}
			ids, err := tx.AddSIMs(ctx, a, list, 0)
			if err != nil {
				return err
			}
			sims = append(sims, ids...)
		}
		return nil
	})
	return s, accounts, sims
}

func openCommand(t *testing.T, s *store.Store, sim simwarden.SIMID, account simwarden.AccountID, d simwarden.Direction) (id simwarden.CommandID) {
	t.Helper()
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, `
			INSERT INTO command (sim_id, account_id, direction, scene, reason, cause_kind, cause_id, asked_by, decision, state, run_at, created_at, updated_at)
			VALUES ($1, $2, $3, 'manual', 'manual_hold', 'person', 1, 'cli:test', '{"desired": "suspended", "reasons": [], "checks": []}', 'queued', $4, $4, $4)
			RETURNING id`, sim, account, string(d), tx.At).Scan(&id)
	})
	return id
}

func endCommand(t *testing.T, s *store.Store, id simwarden.CommandID, as simwarden.CommandState) {
	t.Helper()
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		ok, err := tx.EndCommand(ctx, id, simwarden.CommandQueued, as, "test")
		if err == nil && !ok {
			t.Errorf("command %d was not there to end", id)
		}
		return err
	})
}

func TestARecordKeepsTheAttemptsAsTheyWere(t *testing.T) {
	// R1: the record says with attempts, times, status, code, class and rule what became of a command.
	s, accounts, sims := stocked(t)
	id := openCommand(t, s, sims[0], accounts[0].ID, simwarden.DirectionSuspend)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `
			INSERT INTO attempt (command_id, sim_id, number, request_id, scene, facts, decision, claimed_at, deadline_at, ended_at, outcome, class, http_status, code, message, rule)
			VALUES ($1, $2, 1, 'r1', 'manual', '{}', '{}', $3, $3, $3, 'error', 'temporary', 503, 'E7', 'busy', 'busy-rule'),
			       ($1, $2, 2, 'r2', 'manual', '{}', '{}', $3, $3, NULL, '', '', 0, '', '', '')`, id, sims[0], tx.At)
		return err
	})
	attempts, err := s.Attempts(t.Context(), id)
	if err != nil || len(attempts) != 2 {
		t.Fatalf("%d attempts, want 2: %v", len(attempts), err)
	}
	if a := attempts[0]; a.Number != 1 || a.HTTPStatus != 503 || a.Code != "E7" || a.Class != "temporary" || a.Rule != "busy-rule" || a.EndedAt.IsZero() {
		t.Errorf("the first attempt: %+v", a)
	}
	if !attempts[1].EndedAt.IsZero() {
		t.Errorf("an attempt under way has ended: %+v", attempts[1])
	}
	if list, err := s.Records(t.Context(), store.RecordFilter{CommandID: id, Limit: 2}); err != nil || len(list) != 0 {
		t.Errorf("an open command has %d records: %v", len(list), err)
	}
	endCommand(t, s, id, simwarden.CommandFailed)
	list, err := s.Records(t.Context(), store.RecordFilter{CommandID: id, Limit: 2})
	if err != nil || len(list) != 1 {
		t.Fatalf("%d records, want 1: %v", len(list), err)
	}
	if r := list[0]; r.Status != simwarden.CommandFailed || r.SIMID != sims[0] || r.AskedBy != "cli:test" || r.Decision.Desired != simwarden.DesiredSuspended {
		t.Errorf("the record: %+v", r)
	}
	if !slices.Equal(list[0].Attempts, attempts) {
		t.Errorf("the record's attempts\n%+v\nare not those of the command\n%+v", list[0].Attempts, attempts)
	}
	if none, err := s.Attempts(t.Context(), id+1); err != nil || none == nil || len(none) != 0 {
		t.Errorf("attempts of a command that is not there: %v %v, want an empty list", none, err)
	}
}

func TestRecordsAreFiltered(t *testing.T) {
	s, accounts, sims := stocked(t)
	var ids []simwarden.CommandID
	for i, sim := range sims {
		d, as := simwarden.DirectionSuspend, simwarden.CommandDone
		if i%2 == 1 {
			d, as = simwarden.DirectionResume, simwarden.CommandObsolete
		}
		id := openCommand(t, s, sim, accounts[i/2].ID, d)
		endCommand(t, s, id, as)
		ids = append(ids, id)
	}
	all, err := s.Records(t.Context(), store.RecordFilter{Limit: 10})
	if err != nil || len(all) != 4 {
		t.Fatalf("%d records: %v", len(all), err)
	}
	for _, row := range []struct {
		sentence string
		filter   store.RecordFilter
		want     []int // indexes into ids
	}{
		{"all, the newest command first", store.RecordFilter{}, []int{3, 2, 1, 0}},
		{"of one SIM", store.RecordFilter{SIMID: sims[2]}, []int{2}},
		{"of one account", store.RecordFilter{AccountID: accounts[1].ID}, []int{3, 2}},
		{"of one direction", store.RecordFilter{Direction: simwarden.DirectionResume}, []int{3, 1}},
		{"with one status", store.RecordFilter{Status: simwarden.CommandDone}, []int{2, 0}},
		{"of a scene that none has", store.RecordFilter{Scene: simwarden.ScenePlanLapsed}, nil},
		{"after a page", store.RecordFilter{Before: ids[2]}, []int{1, 0}},
		{"from the instant of the last on", store.RecordFilter{FromAt: all[0].EndedAt}, []int{3}},
		{"until before the instant of the last", store.RecordFilter{UntilAt: all[0].EndedAt}, []int{2, 1, 0}},
	} {
		row.filter.Limit = 10
		list, err := s.Records(t.Context(), row.filter)
		if err != nil {
			t.Fatal(err)
		}
		var got, want []simwarden.CommandID
		for _, r := range list {
			got = append(got, r.CommandID)
		}
		for _, i := range row.want {
			want = append(want, ids[i])
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", row.sentence, got, want)
		}
	}
}

func TestAlertsAreFilteredAndClearedByID(t *testing.T) {
	s, accounts, sims := stocked(t)
	for i, kind := range []string{store.AlertDrift, store.AlertAuth, store.AlertDrift} {
		err := s.Raise(t.Context(), store.Alert{Kind: kind, Key: fmt.Sprint(i), AccountID: accounts[i%2].ID, SIMID: sims[0], Message: "m"})
		if err != nil {
			t.Fatal(err)
		}
	}
	keys := func(f store.AlertFilter) string {
		t.Helper()
		f.Limit = 10
		list, err := s.Alerts(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, a := range list {
			out += a.Key
		}
		return out
	}
	first, err := s.Alerts(t.Context(), store.AlertFilter{Limit: 1})
	if err != nil || len(first) != 1 {
		t.Fatalf("%v %v", first, err)
	}
	for sentence, row := range map[string]struct {
		filter store.AlertFilter
		want   string
	}{
		"all, newest first": {store.AlertFilter{}, "210"},
		"of a kind":         {store.AlertFilter{Kind: store.AlertDrift}, "20"},
		"of an account":     {store.AlertFilter{AccountID: accounts[1].ID}, "1"},
		"after a page":      {store.AlertFilter{Before: first[0].ID}, "10"},
	} {
		if got := keys(row.filter); got != row.want {
			t.Errorf("%s: %s, want %s", sentence, got, row.want)
		}
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.ClearAlertByID(ctx, first[0].ID, "cli:test")
		if err == nil && a != first[0] {
			t.Errorf("cleared %+v, want %+v", a, first[0])
		}
		return err
	})
	if got := keys(store.AlertFilter{}); got != "10" {
		t.Errorf("after clearing the last: %s, want 10", got)
	}
	err = s.InTx(t.Context(), func(tx *store.Tx) error {
		_, err := tx.ClearAlertByID(t.Context(), first[0].ID, "cli:test")
		return err
	})
	if !errors.Is(err, store.ErrNotFound) {
		t.Errorf("cleared twice: %v, want ErrNotFound", err)
	}
	if n, err := s.CountAlerts(t.Context()); err != nil || n != 2 {
		t.Errorf("%d open alerts, want 2: %v", n, err)
	}
}

func TestCountsAddUp(t *testing.T) {
	s, accounts, sims := stocked(t)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE poll_state SET state = 'active', state_read_at = $2, desired = 'suspended', reason = 'no_plan' WHERE sim_id = $1`, sims[0], tx.At)
		return errors.Join(err, tx.SetDrifting(ctx, sims[0], "x"), tx.SetHold(ctx, sims[1], true, "anna", "x"))
	})
	counts, err := s.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []store.Count{
		{AccountID: accounts[0].ID, State: "active", Desired: "suspended", Reason: "no_plan", SIMs: 1},
		{AccountID: accounts[0].ID, State: "unknown", Desired: "leave", SIMs: 1, Unread: 1},
		{AccountID: accounts[1].ID, State: "unknown", Desired: "leave", SIMs: 2, Unread: 2},
	}
	if !slices.Equal(counts, want) {
		t.Errorf("counts %+v, want %+v", counts, want)
	}
	if m, err := s.Marks(t.Context()); err != nil || m != (store.Marks{Drifting: 1, Held: 1}) {
		t.Errorf("marks %+v: %v", m, err)
	}
}

func TestWhatIsOpenIsCounted(t *testing.T) {
	s, accounts, sims := stocked(t)
	if _, err := s.OldestOpenCommand(t.Context()); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("with none open: %v, want ErrNotFound", err)
	}
	first := openCommand(t, s, sims[1], accounts[0].ID, simwarden.DirectionSuspend)
	openCommand(t, s, sims[0], accounts[0].ID, simwarden.DirectionSuspend)
	endCommand(t, s, openCommand(t, s, sims[2], accounts[1].ID, simwarden.DirectionResume), simwarden.CommandDone)
	open, err := s.CountOpenCommands(t.Context())
	if err != nil || len(open) != 1 || open[simwarden.CommandQueued] != 2 {
		t.Errorf("open commands %v: %v", open, err)
	}
	if c, err := s.OldestOpenCommand(t.Context()); err != nil || c.ID != first {
		t.Errorf("the oldest is %d, want %d (V11): %v", c.ID, first, err)
	}
	at := s.Now()
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.RequestEvaluation(ctx, store.Evaluation{SIMID: sims[0], Scene: simwarden.SceneToppedUp, AskedBy: "cli:test",
			Cause: store.Cause{Kind: store.CausePerson, ID: 1}})
		return err
	})
	if b, err := s.EvaluationBacklog(t.Context(), at.Add(time.Minute)); err != nil || b.Due != 1 || b.OldestDueAt.Before(at) {
		t.Errorf("backlog %+v: %v", b, err)
	}
	if b, err := s.EvaluationBacklog(t.Context(), at.Add(-time.Minute)); err != nil || b != (store.Backlog{}) {
		t.Errorf("backlog of before %+v: %v", b, err)
	}
}

func TestShardsCountAsHeldWhileTheirLeaseIsInForce(t *testing.T) {
	s, accounts, _ := stocked(t)
	total := accounts[0].Shards + accounts[1].Shards
	for _, step := range []struct {
		sentence string
		take     time.Duration
		held     int
	}{
		{"at first nobody holds one", 0, 0},
		{"one node holds three", time.Minute, 3},
	} {
		if step.take > 0 {
			if _, err := s.TakeShards(t.Context(), "node-a", step.held, step.take); err != nil {
				t.Fatal(err)
			}
		}
		r, err := s.ShardsHeld(t.Context())
		if err != nil || r.Shards != total || r.Held != step.held || len(r.Holders) != min(step.held, 1) {
			t.Errorf("%s: %+v: %v", step.sentence, r, err)
		}
	}
	server, err := s.Server(t.Context())
	if err != nil || server.Version == "" {
		t.Fatalf("%+v: %v", server, err)
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Exec(ctx, `UPDATE poll_shard SET lease_until = $1`, server.Now.Add(-time.Second))
		return err
	})
	if r, err := s.ShardsHeld(t.Context()); err != nil || r.Held != 0 || r.Holders == nil {
		t.Errorf("after the leases: %+v: %v", r, err)
	}
}
