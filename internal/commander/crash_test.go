package commander_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/commander"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// again steps although steps fail, moving the clock as until does, until the SIM's command ends.
func (r *rig) again(id simwarden.CommandID) store.Command {
	r.t.Helper()
	for range 400 {
		if c := r.command(id); !c.State.Open() {
			return c
		}
		if did, err := r.m.Step(r.t.Context()); did || err != nil {
			continue
		}
		if next := r.nextAt(); !next.IsZero() {
			r.clock.Set(next)
		}
	}
	r.t.Fatalf("command %d did not end: %+v", id, r.command(id))
	return store.Command{}
}

func TestS18AWorkerThatDiesAnywhereLeavesNoSecondRequest(t *testing.T) {
	for _, point := range []string{"cmd.claim.before_commit", "cmd.claim.committed", "cmd.answer.before_record",
		"cmd.record.before", "cmd.record.before_commit", "cmd.record.committed"} {
		t.Run(point, func(t *testing.T) {
			r := newRig(t)
			id, iccid := r.lapsing()
			r.observe(id, simwarden.StateActive)
			hits := 0
			// The first hit is the claim of the look-up of the key; the second the send's.
			at := 1
			if strings.HasPrefix(point, "cmd.claim.") {
				at = 2
			}
			t.Cleanup(fault.Set(point, func() {
				if hits++; hits == at {
					panic("the worker dies here")
				}
			}))
			c := r.again(r.open(id).ID)
			if hits < at {
				t.Fatalf("the point was not reached")
			}
			if c.State != simwarden.CommandDone || r.atCarrier(iccid).State != simwarden.StateSuspended {
				t.Errorf("%s (%s), the SIM is %s", c.State, c.EndBecause, r.atCarrier(iccid).State)
			}
			if n := len(r.changes(iccid)); n != 1 {
				t.Errorf("the carrier saw %d requests, want 1 (S18)", n)
			}
			r.record(c.ID)
			r.eachAttemptOnce()
		})
	}
}

func TestAnExpiredSendIsVerifiedAndNeverQueuedAgain(t *testing.T) {
	r := newRig(t)
	id, _ := r.lapsing()
	r.observe(id, simwarden.StateActive)
	t.Cleanup(fault.Set("cmd.record.before", func() { panic("the worker dies here") }))
	c := r.open(id)
	for range 5 {
		_, _ = r.m.Step(t.Context()) // the last one panics
	}
	if c = r.command(c.ID); c.State != simwarden.CommandSending {
		t.Fatalf("%s, want sending: nobody knows what became of it", c.State)
	}
	r.clock.Set(c.ClaimUntil.Add(time.Millisecond))
	r.step()
	c = r.command(c.ID)
	if c.State != simwarden.CommandVerifying && c.State != simwarden.CommandDone {
		t.Errorf("%s after the claim ran out, want verifying", c.State)
	}
	if n := r.count(`SELECT count(*) FROM attempt WHERE command_id = $1 AND outcome = 'lost'`, c.ID); n != 1 {
		t.Errorf("%d attempts are marked lost, want 1", n)
	}
}

func TestALateAnswerIsNotedAndJudgedAfresh(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.observe(id, simwarden.StateActive)
	other, err := commander.New(r.options)
	r.must(err)
	late := false
	t.Cleanup(fault.Set("cmd.answer.before_record", func() {
		if late {
			return
		}
		late = true // this worker was stopped for a while; another one settles what it left
		r.clock.Advance(time.Minute)
		for range 5 {
			if did, err := other.Step(t.Context()); err != nil || !did {
				return
			}
			r.clock.Advance(10 * time.Second)
		}
	}))
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if n := r.count(`SELECT count(*) FROM event WHERE kind = 'late_answer' AND sim_id = $1`, id); n != 1 {
		t.Errorf("%d late answers noted, want 1", n)
	}
	if n := r.count(`SELECT count(*) FROM evaluation_request WHERE sim_id = $1 AND cause_kind = 'command' AND cause_id = $2`, id, c.ID); n != 1 {
		t.Errorf("%d evaluations asked for, want 1", n)
	}
	if n := len(r.changes(iccid)); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	r.record(c.ID)
}

func TestManyWorkersNeverSendTwice(t *testing.T) {
	r := newRig(t)
	var iccids []string
	for range 12 {
		id, iccid := r.sim(simwarden.StateActive)
		r.subscribe(id)
		iccids = append(iccids, iccid)
	}
	r.lapse()
	r.fault(lab.Fault{Name: lab.ActThenReset, Operations: []simwarden.Operation{simwarden.OpSuspend}, Probability: 0.3})
	for range 6 {
		var workers sync.WaitGroup
		for n := range 8 {
			o := r.options
			o.Holder = fmt.Sprintf("node-%d", n)
			m, err := commander.New(o)
			r.must(err)
			workers.Go(func() {
				for {
					did, err := m.Step(t.Context())
					if err != nil {
						t.Errorf("%s: %v", o.Holder, err)
					}
					if !did {
						return
					}
				}
			})
		}
		workers.Wait()
		if next := r.nextAt(); !next.IsZero() {
			r.clock.Set(next)
		}
	}
	for _, iccid := range iccids {
		if n := len(r.changes(iccid)); n != 1 {
			t.Errorf("SIM %s: %d requests, want 1", iccid, n)
		}
		if got := r.atCarrier(iccid).State; got != simwarden.StateSuspended {
			t.Errorf("SIM %s is %s", iccid, got)
		}
	}
	if n := r.count(`SELECT count(*) FROM command_record WHERE status = 'done'`); n != len(iccids) {
		t.Errorf("%d records of done commands, want %d (V18)", n, len(iccids))
	}
	r.eachAttemptOnce()
}

func TestF16OneBrokenRowIsSetAsideAndOthersGoOn(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	other, _ := r.lapsing()
	r.exec(`CREATE FUNCTION broken() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''broken row''; END'`)
	r.exec(fmt.Sprintf(`CREATE TRIGGER broken BEFORE INSERT ON attempt FOR EACH ROW WHEN (NEW.sim_id = %d) EXECUTE FUNCTION broken()`, id))
	if c := r.again(r.open(other).ID); c.State != simwarden.CommandDone {
		t.Errorf("the other SIM's command: %s (%s)", c.State, c.EndBecause)
	}
	c := r.open(id)
	eventuallyAside := func() bool {
		_, _ = r.m.Step(t.Context())
		if next := r.nextAt(); !next.IsZero() && len(r.alerts(store.AlertRowSetAside)) == 0 {
			r.clock.Set(next)
		}
		return len(r.alerts(store.AlertRowSetAside)) == 1
	}
	eventually(t, "an alert about the broken row", eventuallyAside)
	if c = r.command(c.ID); c.RunAt.Sub(r.clock.Now()) < 50*time.Minute {
		t.Errorf("looked at again at %s, now %s: want an hour's rest (F5)", c.RunAt, r.clock.Now())
	}
	if n := len(r.changes(iccid)); n != 0 {
		t.Errorf("%d requests without an attempt's row (V2)", n)
	}
}

func TestV3TwoCommandsUnderWayStopTheWorkOnTheSIM(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	c := r.open(id)
	r.exec(`DROP INDEX command_open`)
	r.exec(`INSERT INTO command (sim_id, account_id, direction, scene, reason, cause_kind, cause_id, asked_by, decision, state, run_at, created_at, updated_at)
		SELECT sim_id, account_id, 'resume', scene, '', cause_kind, cause_id, asked_by, decision, 'sending', run_at, created_at, updated_at FROM command WHERE id = $1`, c.ID)
	for range 3 {
		r.step()
	}
	if n := len(r.changes(iccid)); n != 0 {
		t.Errorf("%d requests while another is under way (V3)", n)
	}
	if len(r.alerts(store.AlertRowSetAside)) != 1 {
		t.Error("nobody was told")
	}
}

func TestF8AtTheEndNothingNewIsClaimedAndWhatHangsBecomesUnknown(t *testing.T) {
	r := newRig(t)
	id, iccid := r.lapsing()
	r.observe(id, simwarden.StateActive)
	r.fault(lab.Fault{Name: lab.ActThenHang, Operations: []simwarden.Operation{simwarden.OpSuspend}})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- r.m.Run(ctx) }()
	// Time stands still unless it is moved; the loop looks again every 250 ms.
	eventually(t, "the carrier has acted", func() bool {
		r.clock.Advance(10 * time.Millisecond)
		return r.atCarrier(iccid).State == simwarden.StateSuspended
	})
	c := r.open(id)
	if c.State != simwarden.CommandSending {
		t.Fatalf("%s, want sending", c.State)
	}
	second, secondICCID := r.sim(simwarden.StateActive)
	stop()
	r.manual(second, simwarden.DirectionSuspend)
	eventually(t, "Run has returned", func() bool {
		r.clock.Advance(100 * time.Millisecond)
		select {
		case err := <-ended:
			r.must(err)
			return true
		default:
			return false
		}
	})
	if c = r.command(c.ID); c.State != simwarden.CommandVerifying {
		t.Errorf("%s at the end, want verifying: it is not known what became of it", c.State)
	}
	if n := len(r.changes(secondICCID)); n != 0 {
		t.Errorf("a command was taken in hand after the end had begun")
	}
	if r.open(second).State != simwarden.CommandQueued {
		t.Errorf("the second command is %s", r.open(second).State)
	}
}

func TestRunCarriesOutWithoutBeingStepped(t *testing.T) {
	r := newRig(t)
	var iccids []string
	for range 20 {
		id, iccid := r.sim(simwarden.StateActive)
		r.subscribe(id)
		iccids = append(iccids, iccid)
	}
	r.lapse()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.m.Run(ctx) }()
	eventually(t, "all SIMs are suspended and confirmed", func() bool {
		r.clock.Advance(50 * time.Millisecond)
		return r.count(`SELECT count(*) FROM command WHERE state = 'done'`) == len(iccids)
	})
	stop()
	eventually(t, "Run has returned", func() bool {
		r.clock.Advance(100 * time.Millisecond)
		select {
		case err := <-ended:
			r.must(err)
			return true
		default:
			return false
		}
	})
	for _, iccid := range iccids {
		if r.atCarrier(iccid).State != simwarden.StateSuspended || len(r.changes(iccid)) != 1 {
			t.Errorf("SIM %s is %s after %d requests", iccid, r.atCarrier(iccid).State, len(r.changes(iccid)))
		}
	}
}
