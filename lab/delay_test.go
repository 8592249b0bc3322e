package lab_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

func TestChangesThatTakeTime(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim", ChangeDelay: time.Minute})
	iccid := r.add(lab.NewSIM{})
	path := "/v1/Sims/" + r.truth(iccid).Key
	if a := r.must(http.MethodPost, path, "Status=inactive", http.StatusAccepted); a.text("status") != "scheduled" {
		t.Errorf("C7: accepted with %s", a.body)
	}
	line := r.line(ofKind(lab.KindChange))
	if line.Executed || line.DueAt != start.Add(time.Minute) || !line.PendingAnswered || line.StateAnswered != simwarden.StateActive {
		t.Errorf("the line says %+v", line)
	}
	var busy struct{ Code int }
	if r.must(http.MethodPost, path, "Status=active", http.StatusConflict).into(&busy); busy.Code != 83009 {
		t.Errorf("a second change is refused with %d", busy.Code)
	}
	var page struct{ Sims []struct{ ICCID string } }
	if r.must(http.MethodGet, "/v1/Sims?Status=scheduled", "", 200).into(&page); len(page.Sims) != 1 {
		t.Errorf("%d sims are scheduled", len(page.Sims))
	}
	if r.must(http.MethodGet, "/v1/Sims?Status=active", "", 200).into(&page); len(page.Sims) != 0 {
		t.Errorf("%d sims are active, the one that is scheduled among them", len(page.Sims))
	}
	if truth := r.truth(iccid); truth.State != simwarden.StateActive || truth.PendingRaw != "inactive" {
		t.Errorf("the truth is %+v", truth)
	}
	// Nobody asks: the server itself carries it out when the time comes.
	if err := r.clock.BlockUntil(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Minute)
	done := r.line(ofKind(lab.KindExecution))
	if done.ExecutedAt != line.DueAt || done.StateAfter != simwarden.StateSuspended || done.Seq != line.Seq {
		t.Errorf("the execution's line says %+v", done)
	}
	if status := r.must(http.MethodGet, path, "", 200).text("status"); status != "inactive" {
		t.Errorf("it reads %s", status)
	}
	if truth := r.truth(iccid); truth.Executions != 1 || truth.PendingRaw != "" {
		t.Errorf("the truth is %+v", truth)
	}
}

func TestALaterChangeReplacesTheDelayedOne(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom", ChangeDelay: time.Minute})
	iccid := r.add(lab.NewSIM{})
	r.must(http.MethodPost, "/sims/"+iccid+"/suspend", "", 200)
	r.clock.Advance(30 * time.Second)
	r.must(http.MethodPost, "/sims/"+iccid+"/activate", "", 200)
	r.clock.Advance(2 * time.Minute)
	if truth := r.truth(iccid); truth.State != simwarden.StateActive || truth.Executions != 1 {
		t.Errorf("the truth is %+v", truth)
	}
	for _, change := range r.truth(iccid).Changes {
		if change.State == simwarden.StateSuspended {
			t.Error("the replaced change was made")
		}
	}
}

func TestReadsLag(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom", ReadLag: 10 * time.Second, UsageLag: time.Hour})
	iccid := r.add(lab.NewSIM{Age: 24 * time.Hour})
	r.must(http.MethodPost, "/sims/"+iccid+"/suspend", "", 200)
	if err := r.account.AddUsage(iccid, 900); err != nil {
		t.Fatal(err)
	}
	if status, usage := r.status(iccid), r.usage(iccid); status != "active" || usage != 0 {
		t.Errorf("F31: at once it reads %s, %d", status, usage)
	}
	r.clock.Advance(10 * time.Second)
	if status, usage := r.status(iccid), r.usage(iccid); status != "suspended" || usage != 0 {
		t.Errorf("after the state's lag it reads %s, %d", status, usage)
	}
	r.clock.Advance(time.Hour)
	if usage := r.usage(iccid); usage != 900 {
		t.Errorf("E11: after the usage's lag it reads %d", usage)
	}
}
