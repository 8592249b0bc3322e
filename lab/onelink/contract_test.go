package onelink_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/lab"
	"github.com/simwarden/simwarden/lab/onelink"
)

var start = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC) // 20:00 in UTC+8

type rig struct {
	t       *testing.T
	clock   *clock.Manual
	world   *lab.World
	account *lab.Account
	base    string
	n       int
	token   string
}

type answer struct {
	Status, Message string
	Result          []map[string]any
}

func (a answer) one(t *testing.T) map[string]any {
	t.Helper()
	if a.Status != "0" || len(a.Result) != 1 {
		t.Fatalf("the answer is %+v", a)
	}
	return a.Result[0]
}

func newRig(t *testing.T, spec lab.AccountSpec) *rig {
	t.Helper()
	r := &rig{t: t, clock: clock.NewManual(start)}
	r.world = lab.New(lab.Config{Clock: r.clock, Seed: 5})
	spec.Name, spec.Dialect = "cmcc", "onelink"
	var err error
	if r.account, err = r.world.AddAccount(spec); err != nil {
		t.Fatal(err)
	}
	server, err := r.world.Serve(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		r.world.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	r.base = r.account.BaseURL(server.URL)
	return r
}

func (r *rig) transid() string {
	r.n++
	return fmt.Sprintf("%s%s%08d", r.account.Credential(onelink.CredentialAppID), r.clock.Now().Add(8*time.Hour).Format("20060102150405"), r.n)
}

// post calls with a new transid and the token in hand, unless the pairs say otherwise.
func (r *rig) post(call string, pairs ...string) (answer, int) {
	r.t.Helper()
	members := map[string]string{"transid": r.transid(), "token": r.token}
	for i := 0; i < len(pairs); i += 2 {
		members[pairs[i]] = pairs[i+1]
	}
	body, err := json.Marshal(members)
	if err != nil {
		r.t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.base+"/v5/ec/"+call, bytes.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	var out answer
	if err := json.Unmarshal(text, &out); err != nil {
		r.t.Fatalf("%s answered %s: %v", call, text, err)
	}
	return out, response.StatusCode
}

// call is post for what the carrier itself answers.
func (r *rig) call(name string, pairs ...string) answer {
	r.t.Helper()
	out, status := r.post(name, pairs...)
	if status != http.StatusOK {
		r.t.Fatalf("%s answered HTTP %d: %+v", name, status, out)
	}
	return out
}

func (r *rig) refused(code, name string, pairs ...string) {
	r.t.Helper()
	if got := r.call(name, pairs...); got.Status != code || got.Message == "" || len(got.Result) != 0 {
		r.t.Errorf("%s %v answered %+v, want %s", name, pairs, got, code)
	}
}

func (r *rig) login() string {
	r.t.Helper()
	row := r.call("get/token", "appid", r.account.Credential(onelink.CredentialAppID), "password", r.account.Credential(onelink.CredentialPassword)).one(r.t)
	r.token, _ = row["token"].(string)
	if r.token == "" || row["ttl"] != "7200" {
		r.t.Fatalf("the login gave %v", row)
	}
	return r.token
}

func (r *rig) sim(raw simwarden.State) lab.SIMTruth {
	r.t.Helper()
	truth, err := r.account.AddSIM(lab.NewSIM{State: raw})
	if err != nil {
		r.t.Fatal(err)
	}
	return truth
}

func TestF34ALoginEndsTheOneBefore(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	sim := r.sim("2")
	r.refused("12021", "query/sim-status", "iccid", sim.ICCID)
	r.refused("12004", "get/token", "appid", r.account.Credential(onelink.CredentialAppID), "password", "wrong")
	first := r.login()
	r.call("query/sim-status", "iccid", sim.ICCID).one(t)
	r.login()
	r.call("query/sim-status", "iccid", sim.ICCID).one(t)
	r.refused("12021", "query/sim-status", "iccid", sim.ICCID, "token", first)
	r.clock.Advance(2 * time.Hour)
	r.refused("12021", "query/sim-status", "iccid", sim.ICCID)
	r.login()
	r.account.ExpireTokens()
	r.refused("12021", "query/sim-status", "iccid", sim.ICCID)
}

func TestTransidsAreNewAndOfTheirForm(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	sim := r.sim("2")
	r.login()
	good := r.transid()
	r.call("query/sim-status", "iccid", sim.ICCID, "transid", good).one(t)
	appid := r.account.Credential(onelink.CredentialAppID)
	for sentence, transid := range map[string]string{
		"used already":     good,
		"absent":           "",
		"another's":        "9" + good[1:],
		"with no sequence": good[:len(good)-8],
		"too long":         good + "0",
		"of no time":       appid + "20261340999999" + "00000001",
		"of another year":  appid + "20200310200000" + "00000001",
	} {
		if got := r.call("query/sim-status", "iccid", sim.ICCID, "transid", transid); got.Status != "12022" {
			t.Errorf("a transid that is %s answered %+v", sentence, got)
		}
	}
}

func TestF39TwoChangesOfOneSIMWithinThreeMinutesAreRefusedAndLogged(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	sim, other := r.sim("2"), r.sim("2")
	r.login()
	change := func(iccid, operType string) (string, int) {
		got, status := r.post("change/sim-status", "iccid", iccid, "operType", operType)
		return got.Status, status
	}
	if code, status := change(sim.ICCID, "0"); code != "0" || status != 200 {
		t.Fatalf("a suspend is answered %s, HTTP %d", code, status)
	}
	r.call("query/sim-status", "iccid", sim.ICCID).one(t) // reads are free
	if _, status := change(other.ICCID, "0"); status != 200 {
		t.Errorf("another SIM is held up by this one's pause: HTTP %d", status)
	}
	r.clock.Advance(3*time.Minute - time.Second)
	if _, status := change(sim.ICCID, "1"); status != http.StatusTooManyRequests {
		t.Errorf("a second change within 3 min is HTTP %d", status)
	}
	if n := r.world.LimitViolations(); n != 1 {
		t.Errorf("%d limit violations are counted, want the one", n)
	}
	lines := r.world.LogLines()
	if last := lines[len(lines)-1]; last.LimitViolation == "" || last.ICCID != sim.ICCID || last.Executed {
		t.Errorf("the line says %+v", last)
	}
	r.clock.Advance(3 * time.Minute)
	if code, status := change(sim.ICCID, "1"); code != "0" || status != 200 {
		t.Errorf("after the pause a resume is answered %s, HTTP %d", code, status)
	}
}

func TestOrdersTakeTheirTimeAndAreToldOf(t *testing.T) {
	r := newRig(t, lab.AccountSpec{ChangeDelay: time.Minute})
	sim := r.sim("2")
	r.login()
	number, _ := r.call("change/sim-status", "msisdn", sim.MSISDN, "operType", "0").one(t)["orderNum"].(string)
	if got := r.call("query/order-info", "orderNum", number).one(t); got["status"] != "inProgress" {
		t.Errorf("at once the order is %v", got)
	}
	if got := r.call("query/sim-status", "imsi", sim.IMSI).one(t); got["cardStatus"] != "2" {
		t.Errorf("before its order is worked off the SIM reads %v", got)
	}
	r.clock.Advance(time.Minute)
	if got := r.call("query/order-info", "orderNum", number).one(t); got["status"] != "completed" {
		t.Errorf("after a minute the order is %v", got)
	}
	if got := r.call("query/sim-status", "iccid", sim.ICCID).one(t); got["cardStatus"] != "4" {
		t.Errorf("after its order the SIM reads %v", got)
	}
	if got := r.call("query/sim-stop-reason", "iccid", sim.ICCID).one(t); got["stopReason"] != "000000002000" || got["platformType"] != "CT" {
		t.Errorf("why it is stopped reads %v", got)
	}
	r.refused("11000", "query/order-info", "orderNum", "1")

	r.clock.Advance(3 * time.Minute)
	number, _ = r.call("change/sim-status", "iccid", sim.ICCID, "operType", "1").one(t)["orderNum"].(string)
	if err := r.account.SetState(sim.ICCID, onelink.StoppedByForce); err != nil {
		t.Fatal(err)
	}
	r.clock.Advance(time.Minute)
	if got := r.call("query/order-info", "orderNum", number).one(t); got["status"] != "cancelled" {
		t.Errorf("an order that the portal has overtaken is %v", got)
	}
}

func TestOnlyOwnStopsAreResumed(t *testing.T) {
	for raw, code := range map[simwarden.State]string{
		onelink.StoppedByRequest: "0", onelink.StoppedPBByRequest: "0", "7": "0", "1": "0", "6": "0", "06": "0",
		onelink.StoppedByRisk: "12141", onelink.StoppedByForce: "12098", onelink.StoppedByExpiry: "12099",
		onelink.StoppedByCredit: "12100", "8": "12089", "9": "12089", "04": "12089", "05": "12089", "2": "12048", "00": "12048",
	} {
		r := newRig(t, lab.AccountSpec{})
		sim := r.sim(raw)
		r.login()
		if got := r.call("change/sim-status", "iccid", sim.ICCID, "operType", "1"); got.Status != code {
			t.Errorf("S8: a resume from %q answered %+v, want %s", raw, got, code)
		}
	}
	for raw, code := range map[simwarden.State]string{
		"2": "0", "00": "0", onelink.StoppedByRequest: "12047", onelink.StoppedByRisk: "12047", "7": "12089", "9": "12089",
	} {
		r := newRig(t, lab.AccountSpec{})
		sim := r.sim(raw)
		r.login()
		if got := r.call("change/sim-status", "iccid", sim.ICCID, "operType", "0"); got.Status != code {
			t.Errorf("a suspend from %q answered %+v, want %s", raw, got, code)
		}
	}
}

func TestBatchesHaveNumbersOfTheirOwn(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	a, b, risk := r.sim("2"), r.sim("00"), r.sim(onelink.StoppedByRisk)
	r.login()
	all := strings.Join([]string{a.MSISDN, b.MSISDN, risk.MSISDN, "123"}, "_")
	r.refused("11000", "change/sim-status/batch", "msisdns", all, "operType", "0", "reason", "01")
	r.refused("11000", "change/sim-status/batch", "msisdns", all, "operType", "9")
	number, _ := r.call("change/sim-status/batch", "msisdns", all, "operType", "9", "reason", "01").one(t)["jobId"].(string)
	got := r.call("query/sim-batch-result", "jobId", number).one(t)
	rows, _ := got["resultList"].([]any)
	if got["jobStatus"] != "3" || len(rows) != 4 {
		t.Fatalf("the job is %v", got)
	}
	for i, code := range []string{"0", "0", "12047", "11011"} {
		if row, _ := rows[i].(map[string]any); row["status"] != code {
			t.Errorf("row %d of the job is %v, want %s", i, row, code)
		}
	}
	for _, sim := range []lab.SIMTruth{a, b} {
		if truth, _ := r.account.SIM(sim.ICCID); truth.State != simwarden.StateSuspended || truth.Executions != 1 {
			t.Errorf("SIM %s is %s after %d executions", sim.ICCID, truth.Raw, truth.Executions)
		}
	}
	r.refused("11000", "query/sim-batch-result", "jobId", "1")
	many := strings.TrimSuffix(strings.Repeat("1_", 101), "_")
	r.refused("11000", "change/sim-status/batch", "msisdns", many, "operType", "9", "reason", "01")
}

func TestGroupsAreTheOnlyList(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	if _, err := r.account.Populate(lab.Population{Count: 300, ActiveShare: 1}); err != nil {
		t.Fatal(err)
	}
	r.login()
	list := func(answer map[string]any, name string) []any {
		rows, _ := answer[name].([]any)
		return rows
	}
	groups := list(r.call("query/group-info", "pageSize", "50", "startNum", "1").one(t), "groupList")
	if len(groups) < 3 {
		t.Fatalf("%d groups: a driver would not see that it must walk them", len(groups))
	}
	seen := map[string]bool{}
	for _, group := range groups {
		row, _ := group.(map[string]any)
		id, _ := row["groupId"].(string)
		for page := 1; ; page++ {
			members := list(r.call("query/group-member", "groupId", id, "pageSize", "50", "startNum", fmt.Sprint(page)).one(t), "memberInfoList")
			if len(members) == 0 {
				break
			}
			for _, member := range members {
				row, _ := member.(map[string]any)
				iccid, _ := row["iccid"].(string)
				if seen[iccid] || row["cardStatus"] != nil {
					t.Errorf("member %v, twice: %v", row, seen[iccid])
				}
				seen[iccid] = true
			}
		}
	}
	if len(seen) != 300 {
		t.Errorf("the groups have %d SIMs", len(seen))
	}
	if rest := list(r.call("query/group-info", "pageSize", "50", "startNum", "2").one(t), "groupList"); len(rest) != 0 {
		t.Errorf("a second page of groups has %v", rest)
	}
	r.refused("11000", "query/group-info", "pageSize", "51", "startNum", "1")
	r.refused("11000", "query/group-info", "pageSize", "50", "startNum", "0")
	r.refused("11000", "query/group-member", "groupId", "7", "pageSize", "50", "startNum", "1")
}

func TestU1UsageIsKilobytesOfAMonthInUTC8(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	ct, pb := r.sim("2"), r.sim("00")
	r.login()
	use := func(bytes int64) {
		t.Helper()
		for _, sim := range []lab.SIMTruth{ct, pb} {
			if err := r.account.AddUsage(sim.ICCID, bytes); err != nil {
				t.Fatal(err)
			}
		}
		r.clock.Advance(time.Second)
	}
	amount := func(sim lab.SIMTruth) any {
		t.Helper()
		return r.call("query/sim-data-usage", "iccid", sim.ICCID).one(t)["dataAmount"]
	}
	use(10*1024 + 1023)
	if got := amount(ct); got != "10" {
		t.Errorf("CT has used %v KB, want 10 whole ones", got)
	}
	if got := amount(pb); got != "0" {
		t.Errorf("PB has used %v KB, want those up to last midnight alone", got)
	}
	r.clock.Set(time.Date(2026, 3, 10, 16, 0, 1, 0, time.UTC)) // past midnight in UTC+8
	r.login()
	if got := amount(pb); got != "10" {
		t.Errorf("past midnight PB has used %v KB, want 10", got)
	}
	use(1 << 20)
	monthly := func(call, date string) map[string]any {
		t.Helper()
		return r.call(call, "msisdns", ct.MSISDN+"_"+pb.MSISDN, "queryDate", date).one(t)
	}
	got := monthly("query/sim-data-usage-monthly/batch", "202603")
	rows, _ := got["dataAmountList"].([]any)
	if got["deadLine"] != "20260310" || len(rows) != 2 {
		t.Fatalf("the month reads %v", got)
	}
	for _, row := range rows {
		if row, _ := row.(map[string]any); row["dataAmount"] != "10" {
			t.Errorf("the month's row is %v: today is not in it", row)
		}
	}
	if got := monthly("query/sim-data-usage-daily/batch", "20260310"); got["deadLine"] != "20260310" {
		t.Errorf("yesterday reads %v", got)
	}
	r.refused("11000", "query/sim-data-usage-daily/batch", "msisdns", ct.MSISDN, "queryDate", "20260301")
	r.refused("11000", "query/sim-data-usage-monthly/batch", "msisdns", ct.MSISDN, "queryDate", "202508")
	r.refused("11000", "query/sim-data-usage-monthly/batch", "msisdns", ct.MSISDN, "queryDate", "202604")

	r.clock.Set(time.Date(2026, 3, 31, 16, 0, 1, 0, time.UTC)) // 1 April in UTC+8
	r.login()
	if got := amount(ct); got != "0" {
		t.Errorf("in the new month CT has used %v KB", got)
	}
	if truth, _ := r.account.SIM(ct.ICCID); truth.UsageBytes != 0 {
		t.Errorf("the truth of the new month is %d bytes", truth.UsageBytes)
	}
	if rows, _ := monthly("query/sim-data-usage-monthly/batch", "202604")["dataAmountList"].([]any); len(rows) != 0 {
		t.Errorf("on the month's first day the batch has %v: there is nothing yet", rows)
	}
}

func TestBadRequests(t *testing.T) {
	r := newRig(t, lab.AccountSpec{})
	sim := r.sim("2")
	r.login()
	r.refused("11011", "query/sim-status", "iccid", "89860000000000000000")
	r.refused("11011", "query/sim-status", "msisdn", "123")
	r.refused("11000", "query/sim-status", "iccid", sim.ICCID, "msisdn", sim.MSISDN)
	r.refused("11000", "query/sim-status")
	r.refused("11000", "change/sim-status", "iccid", sim.ICCID, "operType", "9")
	r.refused("12199", "query/something-else", "iccid", sim.ICCID)
	if err := r.account.SetRealName(sim.ICCID, "0 05"); err != nil {
		t.Fatal(err)
	}
	if got := r.call("query/sim-real-name-status", "iccid", sim.ICCID).one(t); got["realNameStatus"] != "0" || got["reason"] != "05" {
		t.Errorf("the real-name status reads %v", got)
	}
	if _, err := r.world.SetFault(lab.Fault{Name: lab.OKWithError}); err != nil {
		t.Fatal(err)
	}
	r.refused("99999", "query/sim-status", "iccid", sim.ICCID)
}
