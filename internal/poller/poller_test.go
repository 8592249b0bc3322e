package poller_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestReadsStatesFromListsAndUsageOneByOne(t *testing.T) {
	r := newRig(t)
	at, row, _ := r.account(lab.AccountSpec{Name: "first", Dialect: "soracom", PageSize: 25}, 60, time.Second)
	reg := prometheus.NewRegistry()
	p, _ := r.poller(poller.Options{Registerer: reg})
	r.until("every SIM's state and usage are read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_counter_bytes IS NULL`) == 0
	})
	if n := r.differ(at, row); n != 0 {
		t.Errorf("%d SIMs are kept in another state than they have", n)
	}
	if n := r.one(`SELECT count(*) FROM sim WHERE key = ''`); n != 0 {
		t.Errorf("the carrier's key of %d SIMs was not learnt", n)
	}
	r.until("unchanged readings are written by the short way", func() bool { return p.Stats().Touched > 200 })
	changed := at.ICCIDs()[0]
	if err := at.SetState(changed, simwarden.StateTerminated); err != nil {
		t.Fatal(err)
	}
	r.until("a change outside is noticed", func() bool { return r.differ(at, row) == 0 })
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range families {
		seen[f.GetName()] = true
	}
	for _, name := range []string{"simwarden_polls_total", "simwarden_poll_lateness_seconds", "simwarden_poll_shards", "simwarden_poll_queue", "simwarden_poll_sims"} {
		if !seen[name] {
			t.Errorf("the metric %s is not exported", name)
		}
	}
	lists, singles := 0, 0
	for _, line := range r.world.LogLines() {
		switch line.Operation {
		case simwarden.OpListSIMs:
			lists++
		case simwarden.OpQueryState:
			singles++
		}
	}
	if lists < 6 || singles > 60 {
		t.Errorf("P7: %d list pages and %d single state checks", lists, singles)
	}
}

func TestReadsUsageFromLists(t *testing.T) {
	r := newRig(t)
	at, row, _ := r.account(lab.AccountSpec{Name: "first", Dialect: "supersim", PageSize: 20}, 50, time.Second)
	used := at.ICCIDs()[3]
	if err := at.AddUsage(used, 5000); err != nil {
		t.Fatal(err)
	}
	p, _ := r.poller(poller.Options{})
	r.until("every SIM's state and usage are known, those that no page names too", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_counter_bytes IS NULL`) == 0
	})
	r.until("more passes", func() bool { return p.Stats().Passes > 6 })
	if n := r.differ(at, row); n != 0 {
		t.Errorf("%d SIMs are kept in another state than they have", n)
	}
	if err := at.AddUsage(used, 70_000); err != nil {
		t.Fatal(err)
	}
	r.until("what was used since is booked (U3)", func() bool {
		return r.one(`SELECT p.lifetime_bytes FROM poll_state p JOIN sim s ON s.id = p.sim_id WHERE s.iccid = $1`, used) >= 70_000
	})
}

func TestListsThatLie(t *testing.T) {
	for _, fault := range []lab.Fault{
		{Name: lab.ListEmpty}, {Name: lab.ListShort}, {Name: lab.ListMissing},
		{Name: lab.ListRepeat, Variant: "page"}, {Name: lab.ListRepeat, Variant: "cursor"},
	} {
		t.Run(fault.Name+fault.Variant, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			at, row, _ := r.account(lab.AccountSpec{Name: "first", Dialect: "soracom", PageSize: 10}, 40, time.Second)
			p, _ := r.poller(poller.Options{Pace: quick()})
			r.until("every SIM's state is read", func() bool {
				return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL`) == 0
			})
			r.fault(fault)
			since := r.store.Now().Add(time.Second)
			before := p.Stats()
			r.until("SIMs that lists leave out are asked for by themselves (F32)", func() bool {
				return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at < $1`, since) == 0
			})
			if fault.Name == lab.ListEmpty && p.Stats().Single == before.Single {
				t.Error("F32: an empty list led to no single check")
			}
			if n := r.differ(at, row); n != 0 {
				t.Errorf("F32: %d SIMs are kept in another state than they have: missing is not terminated", n)
			}
			if n := r.one(`SELECT count(*) FROM sim WHERE closed_at IS NOT NULL`); n != 0 {
				t.Errorf("F32: the polling of %d SIMs was closed", n)
			}
		})
	}
}

func TestADeadAccountDelaysNoOther(t *testing.T) {
	r := newRig(t)
	r.account(lab.AccountSpec{Name: "dead", Dialect: "soracom"}, 30, time.Second)
	_, alive, _ := r.account(lab.AccountSpec{Name: "alive", Dialect: "soracom"}, 30, time.Second)
	r.fault(lab.Fault{Name: lab.Slow, Seconds: 600, Account: "dead"})
	r.poller(poller.Options{})
	r.until("the other account's SIMs are read (P6, F38)", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE account_id = $1 AND (state_read_at IS NULL OR usage_read_at IS NULL)`, alive.ID) == 0
	})
	if n := r.one(`SELECT count(*) FROM poll_state WHERE account_id <> $1 AND state_read_at IS NOT NULL`, alive.ID); n != 0 {
		t.Errorf("%d SIMs of the dead account were read: it was not dead", n)
	}
}

func TestLimitedPollsAreNoFailures(t *testing.T) {
	r := newRig(t)
	at, row, _ := r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 80, time.Second)
	at.SetLimits(lab.Limits{Windows: []lab.Limit{lab.PerSecond(20, simwarden.OpQueryUsage)}})
	r.tx(func(tx *store.Tx) error {
		if err := tx.SetLimitRate(r.ctx, row.LimitGroupID, simwarden.OpQueryUsage, 20); err != nil {
			return err
		}
		return tx.SetGroupMode(r.ctx, row.LimitGroupID, simwarden.GroupEnforce)
	})
	if err := r.gateway.Reload(r.ctx); err != nil {
		t.Fatal(err)
	}
	p, _ := r.poller(poller.Options{Pace: quick(), Wait: 600 * time.Millisecond})
	r.until("calls were held back", func() bool { return p.Stats().Limited > 0 })
	count := func() (n int, first, last time.Time) {
		for _, line := range r.world.LogLines() {
			if line.Operation == simwarden.OpQueryUsage {
				if line.LimitViolation != "" {
					t.Fatalf("V7: the carrier's limit was passed: %s", line.LimitViolation)
				}
				if n == 0 {
					first = line.ArrivedAt
				}
				n, last = n+1, line.ArrivedAt
			}
		}
		return n, first, last
	}
	r.until("a hundred and twenty usage reads", func() bool { n, _, _ := count(); return n >= 120 })
	n, first, last := count()
	if rate := float64(n-1) / last.Sub(first).Seconds(); rate < 0.6*20 { // the gateway's own test is stricter; this finds a poller that idles
		t.Errorf("G4: %.1f reads a second with work waiting, of 20 allowed", rate)
	}
	if failed := p.Stats().Failed; failed != 0 {
		t.Errorf("P2: %d limited polls count as failures", failed)
	}
}

func TestPausedSIMsAreNotRead(t *testing.T) {
	r := newRig(t)
	_, _, ids := r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 10, time.Second)
	p, _ := r.poller(poller.Options{})
	r.until("every SIM is read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_read_at IS NULL`) == 0
	})
	r.tx(func(tx *store.Tx) error {
		_, err := tx.PausePolling(r.ctx, ids[0], "cli:anna", "in the workshop")
		return err
	})
	r.until("the schedule knows", func() bool { return r.one(`SELECT count(*) FROM poll_nudge`) == 0 && p.Queued() <= 9 })
	seen := func(id simwarden.SIMID) time.Time {
		sim, err := r.store.SIM(r.ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return sim.StateReadAt
	}
	paused := seen(ids[0])
	r.until("another is read twice more", func() bool { return seen(ids[1]).After(paused.Add(2500 * time.Millisecond)) })
	// A reading that was under way may still have been written; none began later.
	if at := seen(ids[0]); at.After(paused.Add(1500 * time.Millisecond)) {
		t.Errorf("P4: a paused SIM was read at %v, after %v", at, paused)
	}
	r.tx(func(tx *store.Tx) error {
		_, err := tx.ResumePolling(r.ctx, ids[0])
		return err
	})
	r.until("it is read again", func() bool { return seen(ids[0]).After(paused.Add(2 * time.Second)) })
}

func TestOneBadRowIsSetAside(t *testing.T) {
	r := newRig(t)
	_, _, ids := r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 30, time.Second)
	if _, err := r.pool.Exec(r.ctx, `
		CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'a bad row'; END $$`); err != nil {
		t.Fatal(err)
	}
	if _, err := r.pool.Exec(r.ctx, `CREATE TRIGGER refuse BEFORE UPDATE ON poll_state FOR EACH ROW WHEN (old.sim_id = `+
		itoa(ids[7])+`) EXECUTE FUNCTION refuse()`); err != nil {
		t.Fatal(err)
	}
	p, _ := r.poller(poller.Options{Pace: quick()})
	r.until("the row is set aside with an alert (F5)", func() bool {
		return p.Stats().SetAside > 0 && r.one(`SELECT count(*) FROM alert WHERE kind = 'row_set_aside' AND sim_id = $1`, ids[7]) == 1
	})
	r.until("all others are read (F16)", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_read_at IS NULL`) == 1
	})
}

func TestNodesShareShardsAndTakeOver(t *testing.T) {
	r := newRig(t)
	r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 20, time.Second)
	r.account(lab.AccountSpec{Name: "second", Dialect: "supersim"}, 20, time.Second)
	a, stopA := r.poller(poller.Options{Holder: "node-a", LeaseFor: 2 * time.Second})
	r.until("the first node takes all shards", func() bool { return a.Shards() == 8 })
	b, _ := r.poller(poller.Options{Holder: "node-b", LeaseFor: 2 * time.Second})
	r.until("the second gets its share", func() bool { return a.Shards() == 4 && b.Shards() == 4 })
	r.until("both nodes' SIMs are read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_read_at IS NULL`) == 0
	})
	stopA()
	if n := r.one(`SELECT count(*) FROM poll_shard WHERE holder = 'node-a' AND lease_until > app_now()`); n != 0 {
		t.Errorf("a node that stopped still holds %d shards", n)
	}
	r.until("the second takes over", func() bool { return b.Shards() == 8 && b.SIMs() == 40 })
	since := r.store.Now()
	r.until("all are read on", func() bool { return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at < $1`, since) == 0 })
}

func TestP6AnAccountThatCannotBeStartedKeepsNoOthersShardsFromBeingTaken(t *testing.T) {
	r := newRig(t)
	r.tx(func(tx *store.Tx) error {
		_, err := tx.AddAccount(r.ctx, store.Account{Name: "new", Driver: "of a newer version"})
		return err
	})
	_, good, _ := r.account(lab.AccountSpec{Name: "good", Dialect: "soracom"}, 40, time.Second)
	if _, _, err := r.store.TakeLease(r.ctx, "poller:another", "another", time.Hour); err != nil { // half is its share
		t.Fatal(err)
	}
	r.poller(poller.Options{LeaseFor: time.Second})
	r.until("all SIMs of the other account are read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE account_id = $1 AND state_read_at IS NULL`, good.ID) == 0
	})
	r.until("all its shards are held", func() bool {
		return r.one(`SELECT count(*) FROM poll_shard WHERE account_id = $1 AND lease_until > app_now()`, good.ID) == 4
	})
}

func TestF16SettingsThatAreNoTextsHarmTheirAccountAlone(t *testing.T) {
	r := newRig(t)
	_, bad, _ := r.account(lab.AccountSpec{Name: "bad", Dialect: "soracom"}, 10, time.Second)
	_, good, _ := r.account(lab.AccountSpec{Name: "good", Dialect: "soracom"}, 10, time.Second)
	if _, err := r.pool.Exec(r.ctx, `UPDATE account SET settings = '{"a": {"b": 1}}' WHERE id = $1`, bad.ID); err != nil {
		t.Fatal(err)
	}
	r.poller(poller.Options{})
	r.until("the other account's SIMs are read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE account_id = $1 AND state_read_at IS NULL`, good.ID) == 0
	})
	if n := r.one(`SELECT count(*) FROM poll_state WHERE account_id = $1 AND state_read_at IS NOT NULL`, bad.ID); n != 0 {
		t.Errorf("%d SIMs were read with settings that nobody understands", n)
	}
}

func TestReadingsWaitForTheDatabase(t *testing.T) {
	r := newRig(t)
	r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 20, time.Second)
	p, _ := r.poller(poller.Options{Pace: quick()})
	r.until("every SIM is read", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at IS NULL OR usage_read_at IS NULL`) == 0
	})
	if _, err := r.pool.Exec(r.ctx, `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'simwarden'`); err != nil {
		t.Fatal(err)
	}
	since := r.store.Now()
	r.until("polling goes on over new connections (F9)", func() bool {
		return r.one(`SELECT count(*) FROM poll_state WHERE state_read_at < $1 OR usage_read_at < $1`, since) == 0
	})
	if n := p.Stats().SetAside; n != 0 {
		t.Errorf("F9: %d SIMs were blamed for a lost connection", n)
	}
}

func TestF9ListsAreReadAgainSoonAfterTheDatabaseWasAway(t *testing.T) {
	r := newRig(t)
	r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 20, time.Second)
	p, _ := r.poller(poller.Options{})
	r.until("a pass is complete", func() bool { return p.Stats().Passes > 0 })
	for _, sql := range []string{
		`CREATE SEQUENCE tries`,
		`CREATE FUNCTION away() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
			PERFORM nextval('tries'); RAISE EXCEPTION 'starting up' USING ERRCODE = '57P03'; END $$`,
		`CREATE TRIGGER away BEFORE UPDATE ON lease FOR EACH ROW WHEN (starts_with(OLD.name, 'list:')) EXECUTE FUNCTION away()`,
	} {
		if _, err := r.pool.Exec(r.ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	r.until("the list's lease is asked for in vain", func() bool {
		return r.one(`SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM tries`) > 0
	})
	if _, err := r.pool.Exec(r.ctx, `DROP TRIGGER away ON lease`); err != nil {
		t.Fatal(err)
	}
	back, before := time.Now(), p.Stats().Passes
	r.until("passes go on", func() bool { return p.Stats().Passes > before })
	if took := time.Since(back); took > 10*time.Second {
		t.Errorf("the next pass came %s after the database was back, want it within 10 s", took)
	}
}

func TestASIMThatTheCarrierDoesNotKnowIsTold(t *testing.T) {
	r := newRig(t)
	_, row, _ := r.account(lab.AccountSpec{Name: "first", Dialect: "soracom"}, 3, time.Second)
	var stranger simwarden.SIMID
	const text = "8999900000000000001A"
	r.tx(func(tx *store.Tx) error {
		ids, err := tx.AddSIMs(r.ctx, row, []store.NewSIM{{ICCID: simwarden.MustParseICCID(text), Raw: text}}, 0)
		if err == nil {
			stranger = ids[0]
		}
		return err
	})
	r.poller(poller.Options{Pace: quick()})
	r.until("an alert tells of it", func() bool {
		return r.one(`SELECT count(*) FROM alert WHERE kind = 'sim_not_found' AND sim_id = $1 AND message LIKE '%' || $2 || '%'`, stranger, text) == 1
	})
	sim, err := r.store.SIM(r.ctx, stranger)
	if err != nil {
		t.Fatal(err)
	}
	if sim.State != simwarden.StateUnknown || !sim.ClosedAt.IsZero() {
		t.Errorf("F32: a SIM that was not found is kept as %s, polling closed at %v", sim.State, sim.ClosedAt)
	}
}
