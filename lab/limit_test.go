package lab_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

func (r *rig) violations() int {
	n := 0
	for _, line := range r.world.LogLines() {
		if line.LimitViolation != "" {
			n++
		}
	}
	return n
}

func TestWindowsSlide(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim",
		Limits: lab.Limits{Windows: []lab.Limit{lab.PerSecond(3, simwarden.OpListSIMs), {Calls: 5, Window: time.Minute}}}})
	ask := func(status int) {
		t.Helper()
		r.must(http.MethodGet, "/v1/Sims", "", status)
	}
	ask(200)
	r.clock.Advance(600 * time.Millisecond)
	ask(200)
	ask(200)
	r.clock.Advance(399 * time.Millisecond)
	ask(429) // the fourth within 999 ms, though a new second of the clock has nearly begun
	r.clock.Advance(time.Millisecond)
	ask(429) // V7: the refused one counts
	r.clock.Advance(2 * time.Second)
	ask(429) // the sixth within a minute
	r.clock.Advance(time.Minute)
	ask(200)
	if n := r.violations(); n != 3 || r.world.LimitViolations() != 3 {
		t.Errorf("%d violations logged, %d counted, want 3", n, r.world.LimitViolations())
	}
	line := r.line(func(l lab.LogLine) bool { return l.LimitViolation != "" })
	if line.Answer != lab.AnswerThrottled || line.Status != 429 || !strings.Contains(line.LimitViolation, "more than 3") {
		t.Errorf("the line says %+v", line)
	}
}

func TestLimitsSwitchAtRunTime(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim"})
	r.account.SetLimits(lab.Limits{Windows: []lab.Limit{lab.PerSecond(1)}, OnlyLog: true})
	r.must(http.MethodGet, "/v1/Sims", "", 200)
	r.must(http.MethodGet, "/v1/Sims", "", 200)
	if n := r.violations(); n != 1 {
		t.Errorf("%d violations logged while they are let through, want 1", n)
	}
	r.account.SetLimits(lab.Limits{})
	r.must(http.MethodGet, "/v1/Sims", "", 200)
	r.must(http.MethodGet, "/v1/Sims", "", 200)
	if n := r.violations(); n != 1 {
		t.Errorf("%d violations logged without a limit", n)
	}
}

func TestCallsAtATime(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim", Limits: lab.Limits{MaxConcurrent: 1}})
	r.fault(lab.Fault{Name: lab.Slow, Seconds: 5, Count: 1})
	ended := make(chan int)
	go func() {
		a, _ := r.do(t.Context(), http.MethodGet, "/v1/Sims", "")
		ended <- a.status
	}()
	if err := r.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	a := r.must(http.MethodGet, "/v1/Sims", "", http.StatusTooManyRequests)
	var body struct{ Code int }
	if a.into(&body); body.Code != 20429 {
		t.Errorf("G4: the second call at a time is answered %s", a.body)
	}
	r.clock.Advance(5 * time.Second)
	if status := <-ended; status != 200 {
		t.Errorf("the first was answered %d", status)
	}
	r.line(func(l lab.LogLine) bool { return l.Status == 200 })
	r.must(http.MethodGet, "/v1/Sims", "", 200)
}

func TestGapBetweenCallsForOneSIM(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom", Limits: lab.Limits{PerSIMGap: 3 * time.Minute}})
	one, two := r.add(lab.NewSIM{}), r.add(lab.NewSIM{})
	r.must(http.MethodGet, "/sims/"+one, "", 200)
	r.must(http.MethodGet, "/sims/"+two, "", 200)
	r.clock.Advance(3*time.Minute - 1)
	r.must(http.MethodPost, "/sims/"+one+"/suspend", "", 429)
	r.clock.Advance(3 * time.Minute)
	r.must(http.MethodPost, "/sims/"+one+"/suspend", "", 200)
	if line := r.line(ofKind(lab.KindChange)); line.Executed || line.LimitViolation == "" {
		t.Errorf("F39: a refused change was made: %+v", line)
	}
}

func TestAccountsOfOneGroupShareTheirLimits(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim", LimitGroup: "contract", Limits: lab.Limits{Windows: []lab.Limit{lab.PerSecond(2)}}})
	second, err := r.world.AddAccount(lab.AccountSpec{Name: "second", Dialect: "supersim", LimitGroup: "contract",
		Credentials: r.account.Credentials()})
	if err != nil {
		t.Fatal(err)
	}
	other := second.BaseURL(r.server.URL) + "/v1/Sims"
	r.must(http.MethodGet, "/v1/Sims", "", 200)
	r.must(http.MethodGet, other, "", 200)
	r.must(http.MethodGet, other, "", 429)
}
