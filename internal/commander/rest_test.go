package commander_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// payers gives suspended SIMs that have a plan in force: a resume is queued for each.
func (r *rig) payers(n int) (ids []simwarden.SIMID, iccids []string) {
	r.t.Helper()
	for range n {
		id, iccid := r.sim(simwarden.StateSuspended)
		r.subscribe(id)
		ids, iccids = append(ids, id), append(iccids, iccid)
	}
	return ids, iccids
}

func (r *rig) resumes() int { return len(r.lines("", lab.KindChange)) }

func TestG8AnAccountThatRefusesEverybodyComesToRest(t *testing.T) {
	r := newRig(t)
	ids, iccids := r.payers(30)
	r.lab.Bar(simwarden.DirectionResume)
	r.run()
	if n := r.resumes(); n != 10 {
		t.Errorf("%d requests until the account came to rest, want 10", n)
	}
	r.must(r.store.HoldWaiting(t.Context(), 100))
	if n := r.count(`SELECT count(*) FROM command WHERE state = 'queued' AND held_by = $1`, store.HeldByRest); n != 20 {
		t.Errorf("%d commands wait, and say for what; want 20", n)
	}
	if alerts, folded := r.alerts(store.AlertRest), r.alerts(store.AlertCommandFailed); len(alerts) != 1 || len(folded) != 0 {
		t.Errorf("alerts %v and of single SIMs %v, want one of the account", alerts, folded)
	}

	// One SIM is tried at a time, ever more seldom.
	for _, pause := range []time.Duration{30 * time.Second, time.Minute, 2 * time.Minute} {
		before := r.resumes()
		r.clock.Advance(pause - time.Second)
		r.run()
		if n := r.resumes() - before; n != 0 {
			t.Errorf("%d requests before the pause of %s was over", n, pause)
		}
		r.clock.Advance(time.Second)
		r.run()
		if n := r.resumes() - before; n != 1 {
			t.Errorf("%d SIMs were tried after %s, want one", n, pause)
		}
	}
	if alerts, folded := r.alerts(store.AlertRest), r.alerts(store.AlertCommandFailed); len(alerts) != 1 || len(folded) != 0 {
		t.Errorf("alerts %v and of single SIMs %v, want one of the account", alerts, folded)
	}

	// The carrier lifts the block: the next that is tried works, then all go, those refused too.
	r.lab.Bar("")
	for range 40 {
		r.clock.Advance(15 * time.Second)
		r.run()
		r.work()
	}
	for i, iccid := range iccids {
		if s := r.atCarrier(iccid).State; s != simwarden.StateActive {
			t.Errorf("SIM %d is %s: %+v", ids[i], s, r.commands(ids[i]))
		}
	}
	if list := append(r.alerts(store.AlertRest), r.alerts(store.AlertCommandFailed)...); len(list) != 0 {
		t.Errorf("alerts are open: %v", list)
	}
	if n := r.count(`SELECT count(*) FROM account_rest WHERE since_at IS NOT NULL OR reopen_from IS NOT NULL`); n != 0 {
		t.Error("the account still rests")
	}
	r.eachAttemptOnce()
}

func TestG8OneRefusedSIMAmongGoodOnesRestsNobody(t *testing.T) {
	r := newRig(t)
	_, iccids := r.payers(14)
	r.must(r.lab.SetState(iccids[3], simwarden.StateTerminated)) // which nobody has read: its resume is refused
	r.run()
	r.clock.Advance(time.Minute)
	r.run()
	if n := r.count(`SELECT count(*) FROM command WHERE state = 'done'`); n != 13 {
		t.Errorf("%d SIMs were resumed, want 13", n)
	}
	if rest, failed := r.alerts(store.AlertRest), r.alerts(store.AlertCommandFailed); len(rest) != 0 || len(failed) != 1 {
		t.Errorf("alerts of the account %v, of single SIMs %v; want one of the SIM", rest, failed)
	}
}

func TestG8OnlyTheRefusedDirectionRests(t *testing.T) {
	r := newRig(t)
	r.payers(11)
	r.lab.Bar(simwarden.DirectionResume)
	r.run()
	if len(r.alerts(store.AlertRest)) != 1 {
		t.Fatal("the account does not rest")
	}
	id, iccid := r.sim(simwarden.StateActive)
	r.manual(id, simwarden.DirectionSuspend)
	r.run()
	if s := r.atCarrier(iccid).State; s != simwarden.StateSuspended {
		t.Errorf("the suspend of a SIM waits: it is %s", s)
	}
}

func TestG8APersonsClickGoesOutWhileTheAccountRests(t *testing.T) {
	r := newRig(t)
	r.payers(11)
	r.lab.Bar(simwarden.DirectionResume)
	r.run()
	id, iccid := r.sim(simwarden.StateSuspended)
	r.lab.Bar("") // the person has just spoken to the carrier
	r.manual(id, simwarden.DirectionResume)
	r.run()
	if s := r.atCarrier(iccid).State; s != simwarden.StateActive {
		t.Fatalf("the SIM is %s", s)
	}
	if len(r.alerts(store.AlertRest)) != 0 {
		t.Error("the account rests on after a resume that worked")
	}
}
