package commander_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// The carriers here are Soracom's with one more habit each that other carriers have.
func init() {
	carrier.Register("test-budget", habit{name: "test-budget", change: func(i *carrier.Info) {
		i.PerSIMGap, i.ChangesPerLineDay = 3*time.Minute, 3
	}})
	carrier.Register("test-change-gap", habit{name: "test-change-gap", change: func(i *carrier.Info) {
		i.PerSIMGap, i.PerSIMGapOn = 3*time.Minute, []simwarden.Operation{simwarden.OpSuspend, simwarden.OpResume}
	}})
	carrier.Register("test-lock", habit{name: "test-lock", change: func(i *carrier.Info) { i.LockAfterSuspend = 2 * time.Hour }})
	carrier.Register("test-listed", habit{name: "test-listed", listed: true, change: func(*carrier.Info) {}})
	carrier.Register("test-jobs", habit{name: "test-jobs", jobs: true, change: func(i *carrier.Info) {
		i.Rules = append([]carrier.Rule{
			{Name: "job refused", Code: "JOB_REFUSED", Class: carrier.ClassRefused, NotExecuted: true},
			{Name: "job busy", Code: "JOB_BUSY", Class: carrier.ClassTemporary, NotExecuted: true},
		}, i.Rules...)
	}})
}

type habit struct {
	soracom.Driver
	name   string
	change func(*carrier.Info)
	jobs   bool
	listed bool // usage comes by lists alone
}

func (h habit) Info() carrier.Info {
	i := h.Driver.Info()
	i.Name = h.name
	h.change(&i)
	return i
}

func (h habit) Open(cfg carrier.Config) (carrier.Conn, error) {
	conn, err := h.Driver.Open(cfg)
	switch {
	case err != nil:
		return nil, err
	case h.listed:
		return struct {
			carrier.Conn
			carrier.Resolver
		}{conn, conn.(carrier.Resolver)}, nil
	case !h.jobs:
		return conn, nil
	}
	return jobConn{conn, conn.(carrier.Resolver)}, nil
}

// jobConn answers changes with a handle; what comes of them is what jobs says.
type jobConn struct {
	carrier.Conn
	carrier.Resolver
}

// jobs is told by the test that runs; those tests are not parallel.
var jobs func(handle string) (carrier.JobState, error)

func (c jobConn) Suspend(context.Context, carrier.SIMRef) (carrier.Result, error) {
	return carrier.Result{Outcome: carrier.Accepted, Handle: "job-1"}, nil
}

func (c jobConn) Resume(context.Context, carrier.SIMRef) (carrier.Result, error) {
	return carrier.Result{Outcome: carrier.Accepted, Handle: "job-2"}, nil
}

func (c jobConn) Job(_ context.Context, _ carrier.SIMRef, handle string) (carrier.JobState, error) {
	return jobs(handle)
}

func onDriver(name string) rigOption {
	return func(s *rigSpec) { s.driver, s.dialect = name, "soracom" }
}

func TestC11ALinesBudgetsAreKeptAndOneChangeADayIsLeftForAResume(t *testing.T) {
	r := newRig(t, onDriver("test-budget"))
	id, iccid := r.sim(simwarden.StateActive)
	order := func(d simwarden.Direction) store.Command {
		r.manual(id, d)
		return r.open(id)
	}
	r.ends(order(simwarden.DirectionSuspend).ID, simwarden.CommandDone)
	r.ends(order(simwarden.DirectionResume).ID, simwarden.CommandDone)
	// Two of three changes are used up: a second suspend would leave none for a resume.
	first := r.changes(iccid)[0].ArrivedAt
	c := order(simwarden.DirectionSuspend)
	c = r.until(c.ID, "held", func(c store.Command) bool { return c.HeldBy == "the carrier's changes a line and day" })
	if len(r.changes(iccid)) != 2 {
		t.Errorf("%d changes, and the last one of the day is kept", len(r.changes(iccid)))
	}
	r.ends(c.ID, simwarden.CommandDone)
	changes := r.changes(iccid)
	if at := changes[len(changes)-1].ArrivedAt; at.Sub(first) < 24*time.Hour {
		t.Errorf("the third change came %s after the first", at.Sub(first))
	}
	var last time.Time
	for _, l := range r.world.LogLines() {
		if l.ICCID != iccid {
			continue
		}
		if gap := l.ArrivedAt.Sub(last); gap < 3*time.Minute {
			t.Errorf("%s came %s after the call before; the carrier asks for 3 min for one SIM", l.Operation, gap)
		}
		last = l.ArrivedAt
	}
}

func TestC11ALockAfterASuspendHoldsAResume(t *testing.T) {
	r := newRig(t, onDriver("test-lock"))
	id, iccid := r.sim(simwarden.StateActive)
	r.manual(id, simwarden.DirectionSuspend)
	r.ends(r.open(id).ID, simwarden.CommandDone)
	r.manual(id, simwarden.DirectionResume)
	c := r.until(r.open(id).ID, "held", func(c store.Command) bool { return c.HeldBy == "the carrier's lock after a suspend" })
	if n := len(r.changes(iccid)); n != 1 {
		t.Errorf("%d changes, and the line is locked after the first", n)
	}
	r.ends(c.ID, simwarden.CommandDone)
	changes := r.changes(iccid)
	if len(changes) != 2 || changes[1].ArrivedAt.Sub(changes[0].ArrivedAt) < 2*time.Hour {
		t.Errorf("changes are %+v, want the resume at least two hours after the suspend", changes)
	}
	r.manual(id, simwarden.DirectionSuspend)
	r.ends(r.open(id).ID, simwarden.CommandDone)
	if changes = r.changes(iccid); len(changes) != 3 || changes[2].ArrivedAt.Sub(changes[1].ArrivedAt) > time.Hour {
		t.Errorf("changes are %+v, want the second suspend at once: the lock is for resumes", changes)
	}
}

func TestF39APauseBetweenChangesAloneHoldsNoReadsUp(t *testing.T) {
	r := newRig(t, onDriver("test-change-gap"))
	id, iccid := r.sim(simwarden.StateActive)
	for _, d := range []simwarden.Direction{simwarden.DirectionSuspend, simwarden.DirectionResume} {
		r.manual(id, d)
		r.ends(r.open(id).ID, simwarden.CommandDone)
	}
	changes := r.changes(iccid)
	if len(changes) != 2 || changes[1].ArrivedAt.Sub(changes[0].ArrivedAt) < 3*time.Minute {
		t.Fatalf("changes are %+v, want two at least 3 min apart", changes)
	}
	for _, l := range r.world.LogLines() {
		if l.ICCID == iccid && l.Kind == lab.KindRead && l.Seq > changes[0].Seq && l.ArrivedAt.Sub(changes[0].ArrivedAt) < 3*time.Minute {
			return
		}
	}
	t.Error("the first change was not read within its pause, which is for changes alone")
}

func TestC7AJobIsFollowedByItsHandle(t *testing.T) {
	r := newRig(t, onDriver("test-jobs"))
	id, iccid := r.lapsing()
	asked := 0
	jobs = func(handle string) (carrier.JobState, error) {
		if asked++; handle != "job-1" {
			t.Errorf("asked about job %q", handle)
		}
		if asked == 3 {
			r.must(r.lab.SetState(iccid, simwarden.StateSuspended))
		}
		return carrier.JobState{Finished: asked >= 3}, nil
	}
	c := r.ends(r.open(id).ID, simwarden.CommandDone)
	if asked != 3 || c.Attempt != 1 {
		t.Errorf("asked %d times in %d attempts, want 3 in 1", asked, c.Attempt)
	}
}

func TestC7AJobThatFailsIsClassifiedLikeAnAnswer(t *testing.T) {
	for _, tc := range []struct {
		says     string
		code     string
		state    simwarden.CommandState
		attempts int
	}{
		{"a refusal is terminal", "JOB_REFUSED", simwarden.CommandFailed, 1},
		{"a temporary failure is tried again", "JOB_BUSY", simwarden.CommandDone, 2},
		{"what nobody knows is verified, found unchanged and tried again", "JOB_ODD", simwarden.CommandDone, 2},
	} {
		t.Run(tc.says, func(t *testing.T) {
			r := newRig(t, onDriver("test-jobs"))
			id, iccid := r.lapsing()
			asked := 0
			jobs = func(string) (carrier.JobState, error) {
				if asked++; asked > 1 {
					r.must(r.lab.SetState(iccid, simwarden.StateSuspended))
					return carrier.JobState{Finished: true}, nil
				}
				return carrier.JobState{Finished: true, Err: &carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 409, Code: tc.code, Message: "the job failed"}}, nil
			}
			c := r.ends(r.open(id).ID, tc.state)
			if c.Attempt != tc.attempts {
				t.Errorf("%d attempts, want %d", c.Attempt, tc.attempts)
			}
		})
	}
}

func TestC1AfterARestoreTheStateIsReadBeforeAnythingIsSent(t *testing.T) {
	r := newRig(t)
	id, _ := r.sim(simwarden.StateActive)
	r.manual(id, simwarden.DirectionSuspend)
	r.ends(r.open(id).ID, simwarden.CommandDone) // the database is known from now on

	second, iccid := r.sim(simwarden.StateActive)
	r.manual(second, simwarden.DirectionSuspend)
	// The backup is older than the suspend, which had been sent.
	r.must(r.lab.SetState(iccid, simwarden.StateSuspended))
	r.exec(`UPDATE setting SET value = value || '{"identity": "another/00000001"}' WHERE key = 'database'`)
	r.clock.Advance(time.Second)
	r.ends(r.open(second).ID, simwarden.CommandDone)
	if n := len(r.changes(iccid)); n != 0 {
		t.Errorf("%d requests for a SIM that was suspended before the restore", n)
	}
}
