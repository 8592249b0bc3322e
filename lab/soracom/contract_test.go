package soracom_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	"github.com/simwarden/simwarden/lab/soracom"
)

var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// rig checks each request and each answer against the carrier's own definition.
type rig struct {
	t       *testing.T
	clock   *clock.Manual
	world   *lab.World
	account *lab.Account
	base    string
	header  http.Header
	router  routers.Router
}

func newRig(t *testing.T, sims int) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(start), header: http.Header{}}
	r.world = lab.New(lab.Config{Clock: r.clock, Seed: 5})
	var err error
	if r.account, err = r.world.AddAccount(lab.AccountSpec{Name: "japan", Dialect: "soracom"}); err != nil {
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
	doc, err := openapi3.NewLoader().LoadFromFile("../../carrier/soracom/testdata/soracom-sim.json")
	if err != nil {
		t.Fatal(err)
	}
	doc.Servers = openapi3.Servers{{URL: r.base}}
	if r.router, err = gorillamux.NewRouter(doc); err != nil {
		t.Fatal(err)
	}
	r.header.Set("Content-Type", "application/json")
	return r
}

func (r *rig) login() {
	r.t.Helper()
	var in map[string]string
	body, _ := json.Marshal(map[string]any{"authKeyId": r.account.Credential(soracom.CredentialKeyID),
		"authKey": r.account.Credential(soracom.CredentialKey), "tokenTimeoutSeconds": 3600})
	r.call(http.MethodPost, "/auth", string(body), 200, &in)
	if !strings.HasPrefix(in["operatorId"], "OP") {
		r.t.Errorf("the operator is %q", in["operatorId"])
	}
	r.header.Set("X-Soracom-API-Key", in["apiKey"])
	r.header.Set("X-Soracom-Token", in["token"])
}

func (r *rig) call(method, path, body string, status int, into any) http.Header {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.base+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header = r.header.Clone()
	route, params, err := r.router.FindRoute(request)
	if err != nil {
		r.t.Fatalf("%s %s is not in the definition: %v", method, path, err)
	}
	options := &openapi3filter.Options{
		AuthenticationFunc: func(context.Context, *openapi3filter.AuthenticationInput) error { return nil },
	}
	in := &openapi3filter.RequestValidationInput{Request: request, PathParams: params, Route: route, Options: options}
	if status < 400 {
		if body == "" {
			request.Header.Del("Content-Type")
		}
		if err := openapi3filter.ValidateRequest(r.t.Context(), in); err != nil {
			r.t.Fatalf("%s %s: the request: %v", method, path, err)
		}
		request.Body = io.NopCloser(strings.NewReader(body))
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
	if status >= 400 {
		var problem struct{ Code, Message string }
		if err := json.Unmarshal(got, &problem); err != nil || problem.Code == "" || problem.Message == "" {
			r.t.Fatalf("%s %s: the error is %s", method, path, got)
		}
	}
	if into != nil {
		if err := json.Unmarshal(got, into); err != nil {
			r.t.Fatal(err)
		}
	}
	return response.Header
}

type sim struct {
	SimID, Status, ActiveProfileID string
	SessionStatus                  struct{ Online bool }
	Profiles                       map[string]struct {
		ICCID       string
		Subscribers map[string]struct{ IMSI, MSISDN string }
	}
}

func TestCallsKeepToTheDefinition(t *testing.T) {
	r := newRig(t, 120)
	r.login()
	truth := r.account.SIMs()[7]

	var one sim
	r.call("GET", "/sims/"+truth.ICCID, "", 200, &one)
	subscriber := one.Profiles[one.ActiveProfileID].Subscribers[truth.IMSI]
	if one.SimID != truth.ICCID || one.Status != "active" || !one.SessionStatus.Online || subscriber.MSISDN != truth.MSISDN {
		t.Errorf("the sim reads %+v, the truth is %+v", one, truth)
	}
	for _, step := range []struct {
		call, status string
		state        simwarden.State
	}{
		{"suspend", "suspended", simwarden.StateSuspended},
		{"activate", "active", simwarden.StateActive},
		{"deactivate", "inactive", simwarden.StateSuspended},
		{"set_to_standby", "standby", simwarden.StateSuspended},
		{"activate", "active", simwarden.StateActive},
		{"activate", "active", simwarden.StateActive},
	} {
		r.call("POST", "/sims/"+truth.ICCID+"/"+step.call, "", 200, &one)
		now, _ := r.account.SIM(truth.ICCID)
		if one.Status != step.status || now.State != step.state {
			t.Errorf("after %s: answered %s, truly %s", step.call, one.Status, now.State)
		}
	}

	var page []sim
	seen, key := map[string]bool{}, ""
	for range 10 {
		header := r.call("GET", "/sims?limit=50&last_evaluated_key="+url.QueryEscape(key), "", 200, &page)
		for _, sim := range page {
			seen[sim.SimID] = true
		}
		if key = header.Get("X-Soracom-Next-Key"); key == "" {
			break
		}
		if !strings.Contains(header.Get("Link"), key) {
			t.Errorf("the link is %q", header.Get("Link"))
		}
	}
	if len(seen) != 120 {
		t.Errorf("the list has %d sims", len(seen))
	}
	all := r.account.ICCIDs()
	r.call("GET", "/query/sims?sim_id="+strings.Join(all[:30], ",")+"&limit=100", "", 200, &page)
	if len(page) != 30 || page[29].SimID != all[29] {
		t.Errorf("the search for 30 found %d", len(page))
	}
	if err := r.account.SetState(all[3], "standby"); err != nil {
		t.Fatal(err)
	}
	r.call("GET", "/query/sims?status=standby", "", 200, &page)
	if len(page) != 1 || page[0].SimID != all[3] {
		t.Errorf("the search for a status found %d", len(page))
	}
}

func TestStatsAreBytesPerMonthDayAndMinutes(t *testing.T) {
	r := newRig(t, 1)
	r.login()
	truth := r.account.SIMs()[0]
	type row struct {
		Date                string
		Unixtime            int64
		DataTrafficStatsMap map[string]struct{ UploadByteSizeTotal, DownloadByteSizeTotal int64 }
	}
	sum := func(rows []row) (bytes int64) {
		for _, row := range rows {
			for _, class := range row.DataTrafficStatsMap {
				bytes += class.UploadByteSizeTotal + class.DownloadByteSizeTotal
			}
		}
		return bytes
	}
	ask := func(from time.Time, period string) (rows []row) {
		r.call("GET", fmt.Sprintf("/stats/air/sims/%s?from=%d&to=%d&period=%s", truth.ICCID, from.Unix(), start.Unix(), period), "", 200, &rows)
		return rows
	}
	months := ask(start.AddDate(0, -1, 0), "month")
	if len(months) != 2 || months[0].Date != "2026-02-01T00:00:00Z" || months[1].Unixtime != 1772323200 {
		t.Fatalf("months: %+v", months)
	}
	if got := sum(months[1:]); got != truth.UsageBytes || got == 0 {
		t.Errorf("U1: March is %d bytes, truly %d", got, truth.UsageBytes)
	}
	days := ask(time.Date(2026, 3, 1, 5, 0, 0, 0, time.UTC), "day")
	if len(days) != 10 || sum(days) != truth.UsageBytes {
		t.Errorf("%d days sum up to %d, the month is %d", len(days), sum(days), truth.UsageBytes)
	}
	minutes := ask(start.Add(-6*time.Hour), "minutes")
	if len(minutes) == 0 || sum(minutes) >= sum(days) {
		t.Errorf("%d rows of minutes, %d bytes", len(minutes), sum(minutes))
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, 1)
	iccid := r.account.ICCIDs()[0]
	r.call("POST", "/auth", `{"authKeyId":"keyId-x","authKey":"secret-x"}`, 401, nil)
	r.login()
	r.call("GET", "/sims/8999", "", 404, nil)
	r.call("POST", "/sims/8999/suspend", "", 404, nil)
	for _, path := range []string{
		"/sims?limit=0", "/sims?last_evaluated_key=7", "/query/sims?limit=101", "/query/sims?iccid=8",
		"/stats/air/sims/" + iccid + "?from=1&to=2",
		"/stats/air/sims/" + iccid + "?from=1&to=2&period=month",
		"/stats/air/sims/" + iccid + "?from=1773100800&to=1772323200&period=month",
		"/stats/air/sims/" + iccid + "?from=1772323200&to=1773100800&period=year",
	} {
		r.call("GET", path, "", 400, nil)
	}
	if err := r.account.SetState(iccid, simwarden.StateTerminated); err != nil {
		t.Fatal(err)
	}
	r.call("POST", "/sims/"+iccid+"/activate", "", 400, nil)
}

func TestTokens(t *testing.T) {
	r := newRig(t, 1)
	r.call("GET", "/sims", "", 401, nil)
	r.login()
	first := r.header.Clone()
	r.login()
	r.call("GET", "/sims", "", 200, nil)
	r.header = first
	r.call("GET", "/sims", "", 200, nil)
	r.call("POST", "/auth/logout", "", 204, nil)
	r.call("GET", "/sims", "", 401, nil)
	r.login()
	r.clock.Advance(time.Hour)
	r.call("GET", "/sims", "", 401, nil)
	r.login()
	r.account.ExpireTokens()
	r.call("GET", "/sims", "", 401, nil)
}
