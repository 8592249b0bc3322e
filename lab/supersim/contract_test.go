package supersim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/lab"
	"github.com/simwarden/simwarden/lab/supersim"
)

var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// rig checks each request and each answer against the carrier's own definition.
type rig struct {
	t              *testing.T
	clock          *clock.Manual
	world          *lab.World
	account        *lab.Account
	base           string
	user, password string
	router         routers.Router
}

func newRig(t *testing.T, sims int, spec lab.AccountSpec) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(start)}
	r.world = lab.New(lab.Config{Clock: r.clock, Seed: 5})
	spec.Name, spec.Dialect = "america", "supersim"
	var err error
	if r.account, err = r.world.AddAccount(spec); err != nil {
		t.Fatal(err)
	}
	if _, err := r.account.Populate(lab.Population{Count: sims, ActiveShare: 1, Age: 40 * 24 * time.Hour,
		Profiles: map[lab.UsageProfile]float64{lab.ProfileMeter: 1}}); err != nil {
		t.Fatal(err)
	}
	server, err := r.world.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	r.base = r.account.BaseURL(server.URL)
	doc, err := openapi3.NewLoader().LoadFromFile("../../carrier/supersim/testdata/twilio-supersim-v1.json")
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: r.base}}
	for _, item := range doc.Paths.Map() {
		item.Servers = nil
	}
	if r.router, err = gorillamux.NewRouter(doc); err != nil {
		t.Fatal(err)
	}
	r.user, r.password = r.account.Credential(supersim.CredentialAccountSID), r.account.Credential(supersim.CredentialAuthToken)
	return r
}

// call sends a request; form is a change's body. It gives the error code of a bad answer.
func (r *rig) call(path, form string, status int, into any) (code int) {
	r.t.Helper()
	method := http.MethodGet
	if form != "" {
		method = http.MethodPost
	}
	address := path
	if !strings.HasPrefix(path, "http") {
		address = r.base + path
	}
	request, err := http.NewRequestWithContext(r.t.Context(), method, address, strings.NewReader(form))
	if err != nil {
		r.t.Fatal(err)
	}
	request.SetBasicAuth(r.user, r.password)
	if form != "" {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	route, params, err := r.router.FindRoute(request)
	if err != nil {
		r.t.Fatalf("%s %s is not in the definition: %v", method, path, err)
	}
	options := &openapi3filter.Options{
		AuthenticationFunc: func(context.Context, *openapi3filter.AuthenticationInput) error { return nil },
	}
	in := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route, Options: options}
	if status < 400 {
		if err := openapi3filter.ValidateRequest(r.t.Context(), in); err != nil {
			r.t.Fatalf("%s %s: the request: %v", method, path, err)
		}
		request.Body = io.NopCloser(strings.NewReader(form))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if response.StatusCode != status {
		r.t.Fatalf("%s %s answered %d, want %d: %.300s", method, path, response.StatusCode, status, got)
	}
	err = openapi3filter.ValidateResponse(r.t.Context(), &openapi3filter.ResponseValidationInput{RequestValidationInput: in,
		Status: response.StatusCode, Header: response.Header, Body: io.NopCloser(bytes.NewReader(got)), Options: options})
	if err != nil {
		r.t.Fatalf("%s %s: the answer: %v", method, path, err)
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			r.t.Fatal(err)
		}
	}
	if status >= 400 {
		var problem struct {
			Status, Code int
			Message      string
			MoreInfo     string `json:"more_info"`
		}
		if err := json.Unmarshal(got, &problem); err != nil || problem.Status != status || problem.Message == "" || problem.MoreInfo == "" {
			r.t.Fatalf("%s %s: the error is %s", method, path, got)
		}
		code = problem.Code
	}
	return code
}

type sim struct {
	SID, ICCID, Status, URL string
	AccountSID              string `json:"account_sid"`
}

type meta struct {
	NextPageURL *string `json:"next_page_url"`
	Page        int
	Key         string
}

func TestCallsKeepToTheDefinition(t *testing.T) {
	r := newRig(t, 120, lab.AccountSpec{})
	truth := r.account.SIMs()[7]
	path := "/v1/Sims/" + truth.Key
	var one sim
	r.call(path, "", 200, &one)
	if one.SID != truth.Key || one.ICCID != truth.ICCID || one.Status != "active" || one.AccountSID != r.user || one.URL != r.base+path {
		t.Errorf("the sim reads %+v, the truth is %+v", one, truth)
	}
	for _, step := range []struct {
		status string
		state  simwarden.State
	}{
		{"inactive", simwarden.StateSuspended}, {"active", simwarden.StateActive}, {"active", simwarden.StateActive},
		{"inactive", simwarden.StateSuspended}, {"ready", simwarden.StateTestReady}, {"active", simwarden.StateActive},
	} {
		r.call(path, "Status="+step.status, 200, &one)
		if now, _ := r.account.SIM(truth.ICCID); one.Status != step.status || now.State != step.state {
			t.Errorf("after %s: answered %s, truly %s", step.status, one.Status, now.State)
		}
	}

	var page struct {
		Sims []sim
		Meta meta
	}
	seen := map[string]bool{}
	next := "/v1/Sims?PageSize=50"
	for pages := range 10 {
		page.Sims = nil
		r.call(next, "", 200, &page)
		if page.Meta.Page != pages || page.Meta.Key != "sims" {
			t.Errorf("the meta of page %d is %+v", pages, page.Meta)
		}
		for _, sim := range page.Sims {
			seen[sim.SID] = true
		}
		if page.Meta.NextPageURL == nil {
			break
		}
		next = *page.Meta.NextPageURL
	}
	if len(seen) != 120 {
		t.Errorf("the list has %d sims", len(seen))
	}
	page.Sims = nil
	if r.call("/v1/Sims?Iccid="+truth.ICCID, "", 200, &page); len(page.Sims) != 1 || page.Sims[0].SID != truth.Key {
		t.Errorf("by ICCID: %+v", page.Sims)
	}
	lines := r.world.LogLines()
	if line := lines[len(lines)-1]; line.Kind != lab.KindRead || line.ICCID != truth.ICCID || line.StateAnswered != simwarden.StateActive ||
		line.StateAfter != simwarden.StateActive {
		t.Errorf("a lookup by ICCID is a read of that sim; its line says %+v", line)
	}
	page.Sims = nil
	if r.call("/v1/Sims?Iccid=89999000000000000000", "", 200, &page); len(page.Sims) != 0 {
		t.Errorf("by an ICCID that nobody has: %+v", page.Sims)
	}
	for _, iccid := range r.account.ICCIDs()[10:20] {
		if err := r.account.SetState(iccid, simwarden.StateInventory); err != nil {
			t.Fatal(err)
		}
	}
	page.Sims = nil
	if r.call("/v1/Sims?Status=new&PageSize=10", "", 200, &page); len(page.Sims) != 10 || page.Meta.NextPageURL != nil {
		t.Errorf("by status: %d sims, next %v", len(page.Sims), page.Meta.NextPageURL)
	}
}

func TestUsageRecordsAreBytes(t *testing.T) {
	r := newRig(t, 70, lab.AccountSpec{})
	iccids := r.account.ICCIDs()
	silent, err := r.account.AddSIM(lab.NewSIM{})
	if err != nil {
		t.Fatal(err)
	}
	type records struct {
		UsageRecords []struct {
			SimSID    string `json:"sim_sid"`
			DataTotal int64  `json:"data_total"`
			Up        int64  `json:"data_upload"`
			Down      int64  `json:"data_download"`
			Period    struct {
				StartTime time.Time `json:"start_time"`
			}
		} `json:"usage_records"`
		Meta meta
	}
	walk := func(query url.Values) (sum map[string]int64, rows int) {
		t.Helper()
		sum = map[string]int64{}
		next := "/v1/UsageRecords?" + query.Encode()
		for range 20 {
			var page records
			r.call(next, "", 200, &page)
			for _, row := range page.UsageRecords {
				if row.DataTotal == 0 || row.Up+row.Down != row.DataTotal {
					t.Errorf("a row of %+v", row)
				}
				sum[row.SimSID] += row.DataTotal
				rows++
			}
			if page.Meta.NextPageURL == nil {
				return sum, rows
			}
			next = *page.Meta.NextPageURL
		}
		t.Fatal("the pages do not end")
		return nil, 0
	}
	month := url.Values{"StartTime": {"2026-03-01T00:00:00Z"}, "EndTime": {"2026-04-01T00:00:00Z"}, "PageSize": {"20"}}
	with := func(pairs ...string) url.Values {
		q := url.Values{}
		for name, values := range month {
			q[name] = values
		}
		for i := 0; i < len(pairs); i += 2 {
			q.Set(pairs[i], pairs[i+1])
		}
		return q
	}
	all, rows := walk(with("Group", "sim", "Granularity", "all"))
	if rows != 70 || all[silent.Key] != 0 {
		t.Errorf("%d rows, want 70: a sim without usage has none", rows)
	}
	for _, iccid := range iccids {
		if truth, _ := r.account.SIM(iccid); all[truth.Key] != truth.UsageBytes {
			t.Errorf("U1: %s reads %d bytes, truly %d", iccid, all[truth.Key], truth.UsageBytes)
		}
	}
	truth, _ := r.account.SIM(iccids[0])
	for granularity, want := range map[string]int{"all": 1, "day": 10, "hour": 228} {
		sum, rows := walk(with("Sim", truth.Key, "Granularity", granularity))
		if sum[truth.Key] != truth.UsageBytes || rows > want || rows < want/2 {
			t.Errorf("by %s: %d bytes in %d rows, want %d in about %d", granularity, sum[truth.Key], rows, truth.UsageBytes, want)
		}
	}
	if _, rows := walk(with("Sim", silent.Key)); rows != 0 {
		t.Errorf("a sim without usage has %d rows", rows)
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, 1, lab.AccountSpec{})
	path := "/v1/Sims/" + r.account.SIMs()[0].Key
	for _, test := range []struct {
		path, form   string
		status, code int
	}{
		{"/v1/Sims/HS00000000000000000000000000000000", "", 404, 20404},
		{"/v1/Sims/HS00000000000000000000000000000000", "Status=active", 404, 20404},
		{path, "Status=suspended", 400, 20001},
		{path, "Status=ready", 400, 83010},
		{"/v1/Sims?PageSize=0", "", 400, 20002},
		{"/v1/Sims?PageToken=7", "", 400, 20001},
		{"/v1/Sims?Status=asleep", "", 400, 20001},
		{"/v1/UsageRecords?Group=sim&StartTime=2026-01-01T00:00:00Z", "", 400, 83605},
		{"/v1/UsageRecords?Group=sim&StartTime=2026-03-11T00:00:00Z", "", 400, 83601},
		{"/v1/UsageRecords?Group=sim&StartTime=2024-01-01T00:00:00Z&EndTime=2024-01-02T00:00:00Z", "", 400, 83602},
		{"/v1/UsageRecords?Sim=" + path[9:] + "&Granularity=day&StartTime=2026-03-01T01:00:00Z", "", 400, 83603},
		{"/v1/UsageRecords?Group=sim&StartTime=March", "", 400, 83600},
	} {
		if code := r.call(test.path, test.form, test.status, nil); code != test.code {
			t.Errorf("%s %s: code %d, want %d", test.path, test.form, code, test.code)
		}
	}
	r.password = "guessed"
	if code := r.call(path, "", 401, nil); code != 20003 {
		t.Errorf("code %d of wrong credentials", code)
	}
}

func TestAPIKeyOpensTheAccount(t *testing.T) {
	r := newRig(t, 1, lab.AccountSpec{Credentials: map[string]string{"api_key_sid": "SK00000000000000000000000000000001", "api_key_secret": "invented"}})
	r.user, r.password = "SK00000000000000000000000000000001", "invented"
	r.call("/v1/Sims", "", 200, nil)
	r.user, r.password = r.account.Credential(supersim.CredentialAccountSID), ""
	r.call("/v1/Sims", "", 401, nil)
}

func TestScheduledChangesKeepToTheDefinition(t *testing.T) {
	r := newRig(t, 1, lab.AccountSpec{ChangeDelay: time.Minute})
	path := "/v1/Sims/" + r.account.SIMs()[0].Key
	var one sim
	if r.call(path, "Status=inactive", 202, &one); one.Status != "scheduled" {
		t.Errorf("accepted as %s", one.Status)
	}
	if code := r.call(path, "Status=active", 409, nil); code != 83009 {
		t.Errorf("a second change: code %d", code)
	}
	r.call(path, "", 200, &one)
	if one.Status != "scheduled" {
		t.Errorf("it reads %s", one.Status)
	}
	r.clock.Advance(time.Minute)
	if r.call(path, "", 200, &one); one.Status != "inactive" {
		t.Errorf("it reads %s", one.Status)
	}
}
