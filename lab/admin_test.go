package lab_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

func TestAdminEndpoint(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	root := r.server.URL + "/lab"
	sim := root + "/sims/first/" + iccid
	set := func(body string) lab.SIMTruth {
		t.Helper()
		var truth lab.SIMTruth
		r.must(http.MethodPost, sim, body, 200).into(&truth)
		return truth
	}
	if truth := set(`{"state":"suspended","usage_bytes":5000,"add_usage_bytes":70}`); truth.State != simwarden.StateSuspended || truth.UsageBytes != 5070 {
		t.Errorf("the sim was made %+v", truth)
	}
	if truth := set(`{"usage_bytes":0}`); truth.UsageBytes != 0 || truth.State != simwarden.StateSuspended {
		t.Errorf("the sim was made %+v", truth)
	}

	var fault lab.Fault
	r.must(http.MethodPost, root+"/faults", `{"name":"mass_state","state":"active","count":1}`, 200).into(&fault)
	if status := r.status(iccid); fault.ID == 0 || status != "active" {
		t.Errorf("under fault %d it reads %s", fault.ID, status)
	}
	r.must(http.MethodPost, root+"/faults", `{"name":"auth_fail"}`, 200).into(&fault)
	var on []lab.Fault
	if r.must(http.MethodGet, root+"/faults", "", 200).into(&on); len(on) != 1 || on[0].Name != lab.AuthFail {
		t.Errorf("on: %+v", on)
	}
	r.must(http.MethodGet, "/sims/"+iccid, "", 401)
	r.must(http.MethodDelete, root+"/faults/2", "", 200)
	r.must(http.MethodGet, "/sims/"+iccid, "", 200)
	r.must(http.MethodPost, root+"/faults", `{"name":"slow"}`, 200)
	r.must(http.MethodDelete, root+"/faults", "", 200)
	r.must(http.MethodGet, "/sims/"+iccid, "", 200)

	var account lab.AccountInfo
	limits, err := json.Marshal(lab.Limits{Windows: []lab.Limit{{Calls: 1, Window: time.Hour}}})
	if err != nil {
		t.Fatal(err)
	}
	r.must(http.MethodPut, root+"/accounts/first/limits", string(limits), 200).into(&account)
	if account.SIMs != 1 || account.States["suspended"] != 1 || len(account.Limits.Windows) != 1 {
		t.Errorf("the account is %+v", account)
	}
	r.must(http.MethodGet, "/sims/"+iccid, "", 200)
	r.must(http.MethodGet, "/sims/"+iccid, "", 429)
	r.must(http.MethodPut, root+"/accounts/first/limits", "{}", 200)

	var counters struct {
		Requests        int
		LimitViolations int            `json:"limit_violations"`
		FaultsInjected  map[string]int `json:"faults_injected"`
		Counters        []lab.Counter
	}
	r.must(http.MethodGet, root+"/counters", "", 200).into(&counters)
	if counters.Requests != 7 || counters.LimitViolations != 1 || counters.FaultsInjected["auth_fail"] != 1 || len(counters.Counters) != 4 {
		t.Errorf("V8: counted %+v", counters)
	}

	var moved struct{ Now time.Time }
	if r.must(http.MethodPost, root+"/clock", `{"seconds":90}`, 200).into(&moved); moved.Now != start.Add(90*time.Second) {
		t.Errorf("the clock stands at %v", moved.Now)
	}
	r.must(http.MethodPost, root+"/accounts/first/expire-tokens", "", 200)
	r.must(http.MethodGet, "/sims/"+iccid, "", 401)

	var truths []lab.SIMTruth
	if r.must(http.MethodGet, root+"/sims", "", 200).into(&truths); len(truths) != 1 || truths[0].ICCID != iccid {
		t.Errorf("all: %+v", truths)
	}
	r.must(http.MethodGet, root+"/sims?account=first", "", 200).into(&truths)
	var lines []lab.LogLine
	if r.must(http.MethodGet, root+"/log?after=3&limit=2", "", 200).into(&lines); len(lines) != 2 || lines[0].Seq != 4 {
		t.Errorf("lines: %+v", lines)
	}
	var accounts []lab.AccountInfo
	if r.must(http.MethodGet, root+"/accounts", "", 200).into(&accounts); len(accounts) != 1 || accounts[0].Path != "/first" {
		t.Errorf("accounts: %+v", accounts)
	}
}

func TestAdminRefuses(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim"})
	iccid := r.add(lab.NewSIM{})
	root := r.server.URL + "/lab"
	for _, test := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/faults", `{"name":"explode"}`, 400},
		{"POST", "/faults", `{"nome":"slow"}`, 400},
		{"POST", "/faults", `<xml/>`, 400},
		{"DELETE", "/faults/99", "", 400},
		{"DELETE", "/faults/x", "", 400},
		{"GET", "/sims?account=nobody", "", 404},
		{"GET", "/sims/first/8999", "", 404},
		{"POST", "/sims/first/8999", `{"state":"active"}`, 404},
		{"POST", "/sims/nobody/" + iccid, `{}`, 404},
		{"POST", "/sims/first/" + iccid, `{"state":"terminated"}`, 400},
		{"POST", "/sims/first/" + iccid, `{"usage_bytes":"many"}`, 400},
		{"PUT", "/accounts/nobody/limits", `{}`, 404},
		{"GET", "/log?after=-1", "", 400},
		{"POST", "/clock", `{"seconds":"x"}`, 400},
	} {
		if a := r.must(test.method, root+test.path, test.body, test.status); a.text("error") == "" {
			t.Errorf("%s %s does not say why", test.method, test.path)
		}
	}
	r.must("GET", r.server.URL+"/nobody/v1/Sims", "", 404)
	if n := r.world.Requests(); n != 0 {
		t.Errorf("%d requests counted that went to no carrier", n)
	}
	machine := lab.New(lab.Config{})
	server, err := machine.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	r.must("POST", server.URL+"/lab/clock", `{"seconds":1}`, 400)
	r.must("DELETE", server.URL+"/lab/faults", `{"id":1}`, 400) // who names one does not mean all
}

func TestBusyPortIsSaid(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "supersim"})
	if _, err := lab.New(lab.Config{}).Serve(t.Context(), r.server.URL[len("http://"):]); err == nil {
		t.Error("two servers on one address")
	}
}
