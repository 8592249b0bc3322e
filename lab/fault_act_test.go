package lab_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

func TestActedWithoutAnAnswer(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault lab.Fault
		acted bool
	}{
		{"F20: acted, then the connection was reset", lab.Fault{Name: lab.ActThenReset}, true},
		{"reset before anything was done", lab.Fault{Name: lab.ResetBefore}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
			iccid := r.add(lab.NewSIM{})
			r.fault(test.fault)
			_ = r.fails(http.MethodPost, "/sims/"+iccid+"/suspend")
			line := r.line(ofKind(lab.KindChange))
			if line.Executed != test.acted || line.Answer != lab.AnswerNone || line.Status != 0 || line.ClosedAt.IsZero() {
				t.Errorf("the line says %+v", line)
			}
			if suspended := r.truth(iccid).State == simwarden.StateSuspended; suspended != test.acted {
				t.Errorf("the sim is suspended: %v, want %v", suspended, test.acted)
			}
			if n := r.world.FaultsInjected()[test.fault.Name]; n != 1 {
				t.Errorf("the fault struck %d times", n)
			}
		})
	}
}

func TestActThenHangWaitsForTheClientToLeave(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.ActThenHang})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := r.do(ctx, http.MethodPost, "/sims/"+iccid+"/suspend", "")
		ended <- err
	}()
	if err := r.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if state := r.truth(iccid).State; state != simwarden.StateSuspended {
		t.Errorf("F20: the sim is %s while the request hangs, want suspended", state)
	}
	leave()
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}
	if line := r.line(ofKind(lab.KindChange)); !line.Executed || line.Answer != lab.AnswerNone || line.StateAfter != simwarden.StateSuspended {
		t.Errorf("the line says %+v", line)
	}
}

func TestActThenHangEndsByItself(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.ActThenHang, Seconds: 30})
	ended := make(chan error)
	go func() {
		_, err := r.do(t.Context(), http.MethodPost, "/sims/"+iccid+"/suspend", "")
		ended <- err
	}()
	if err := r.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(30 * time.Second)
	if err := <-ended; err == nil {
		t.Error("the request was answered")
	}
	line := r.line(ofKind(lab.KindChange))
	if took := line.ClosedAt.Sub(line.ArrivedAt); took != 30*time.Second {
		t.Errorf("it hung for %v", took)
	}
}

func TestActLateExecutesAfterItsTime(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.ActLate, Seconds: 90})
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		_, err := r.do(ctx, http.MethodPost, "/sims/"+iccid+"/suspend", "")
		ended <- err
	}()
	// Two wait: the request itself, and the server for the execution.
	if err := r.clock.BlockUntil(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	leave()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the client left, and was told %v", err)
	}
	line := r.line(ofKind(lab.KindChange))
	if line.Executed || line.DueAt != start.Add(90*time.Second) || line.Answer != lab.AnswerNone {
		t.Errorf("F21: the request's line says %+v", line)
	}
	r.clock.Advance(89 * time.Second)
	if truth := r.truth(iccid); truth.State != simwarden.StateActive || truth.PendingRaw != "" {
		t.Errorf("after 89 s the sim is %+v, want active with nothing to see", truth)
	}
	r.clock.Advance(time.Second)
	late := r.line(ofKind(lab.KindExecution))
	if !late.Executed || late.ExecutedAt != line.DueAt || late.Seq != line.Seq || late.StateBefore != simwarden.StateActive ||
		late.StateAfter != simwarden.StateSuspended {
		t.Errorf("F21: the execution's line says %+v", late)
	}
	if state := r.truth(iccid).State; state != simwarden.StateSuspended {
		t.Errorf("the sim is %s after the late execution", state)
	}
}

func TestActLateAnswersWhoWaits(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.ActLate, Seconds: 5})
	answered := make(chan answer)
	go func() {
		a, _ := r.do(t.Context(), http.MethodPost, "/sims/"+iccid+"/suspend", "")
		answered <- a
	}()
	if err := r.clock.BlockUntil(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(5 * time.Second)
	if a := <-answered; a.status != http.StatusOK || a.text("status") != "suspended" {
		t.Errorf("the late answer is %d %s", a.status, a.body)
	}
}

func TestChangesAnsweredWrongly(t *testing.T) {
	for _, test := range []struct {
		name       string
		fault      lab.Fault
		status     int
		said       string
		state      simwarden.State
		executions int
	}{
		{"F20: acts and answers 502", lab.Fault{Name: lab.ActThen5xx}, 502, "", simwarden.StateSuspended, 1},
		{"F20: acts and answers the status asked for", lab.Fault{Name: lab.ActThen5xx, Status: 504}, 504, "", simwarden.StateSuspended, 1},
		{"F22: says ok and has not acted", lab.Fault{Name: lab.LieOK}, 200, "suspended", simwarden.StateActive, 0},
		{"F22: acts twice on one request", lab.Fault{Name: lab.ActTwice}, 200, "suspended", simwarden.StateSuspended, 2},
		{"fails without having acted", lab.Fault{Name: lab.Fail5xx}, 500, "", simwarden.StateActive, 0},
		{"F23: 200 with an error, and nothing done", lab.Fault{Name: lab.OKWithError}, 200, "", simwarden.StateActive, 0},
		{"F36: maintenance", lab.Fault{Name: lab.Maintenance}, 503, "", simwarden.StateActive, 0},
		{"F35: credentials refused", lab.Fault{Name: lab.AuthFail}, 401, "", simwarden.StateActive, 0},
		{"F34: the token was good until just now", lab.Fault{Name: lab.TokenExpire}, 401, "", simwarden.StateActive, 0},
		{"F26: throttled", lab.Fault{Name: lab.Throttle}, 429, "", simwarden.StateActive, 0},
		{"F24: acts, and the answer is a page", lab.Fault{Name: lab.Garbage}, 200, "html", simwarden.StateSuspended, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
			iccid := r.add(lab.NewSIM{})
			r.header.Set("X-Request-Id", "attempt-17")
			r.fault(test.fault)
			a := r.must(http.MethodPost, "/sims/"+iccid+"/suspend", "", test.status)
			switch test.said {
			case "html":
				if !strings.Contains(string(a.body), "<html>") {
					t.Errorf("the answer is %s", a.body)
				}
			case "":
				if a.text("code") == "" || a.text("message") == "" {
					t.Errorf("the error is %s", a.body)
				}
			default:
				if got := a.text("status"); got != test.said {
					t.Errorf("the answer says %q, want %q", got, test.said)
				}
			}
			truth := r.truth(iccid)
			if truth.State != test.state || truth.Executions != test.executions {
				t.Errorf("the sim is %s after %d executions, want %s after %d", truth.State, truth.Executions, test.state, test.executions)
			}
			executed := 0
			for _, line := range r.world.LogLines() {
				if line.Executed {
					executed++
				}
			}
			line := r.line(ofKind(lab.KindChange))
			if executed != test.executions || line.RequestID != "attempt-17" || line.Fault != test.fault.Name || line.Status != test.status ||
				line.Direction != simwarden.DirectionSuspend || line.Operation != simwarden.OpSuspend || line.ICCID != iccid {
				t.Errorf("%d lines say executed, the request's says %+v", executed, line)
			}
		})
	}
}

func TestSlowActsLater(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.Slow, Seconds: 3})
	answered := make(chan answer)
	go func() {
		a, _ := r.do(t.Context(), http.MethodPost, "/sims/"+iccid+"/suspend", "")
		answered <- a
	}()
	if err := r.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if state := r.truth(iccid).State; state != simwarden.StateActive {
		t.Errorf("it acted before its time: %s", state)
	}
	r.clock.Advance(3 * time.Second)
	if a := <-answered; a.status != http.StatusOK {
		t.Errorf("answered %d", a.status)
	}
	line := r.line(ofKind(lab.KindChange))
	if line.ExecutedAt.Sub(line.ArrivedAt) != 3*time.Second {
		t.Errorf("arrived %v, executed %v", line.ArrivedAt, line.ExecutedAt)
	}
}

func TestDropNextReplyDropsOne(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.world.DropNextReply()
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	_ = r.fails(http.MethodPost, "/sims/"+iccid+"/suspend")
	r.must(http.MethodPost, "/sims/"+iccid+"/activate", "", http.StatusOK)
	if left := r.world.Faults(); len(left) != 0 {
		t.Errorf("still on: %+v", left)
	}
}

func TestAReadHangsWhereItsOperationIsNamed(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.ActThenReset})
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	r.fault(lab.Fault{Name: lab.ActThenReset, Operations: []simwarden.Operation{simwarden.OpQueryState}})
	_ = r.fails(http.MethodGet, "/sims/"+iccid)
	line := r.line(func(l lab.LogLine) bool { return l.Answer == lab.AnswerNone })
	if line.Kind != lab.KindRead || line.StateAnswered != "" || line.StateAfter != simwarden.StateActive {
		t.Errorf("the line says %+v", line)
	}
}
