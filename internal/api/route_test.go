package api_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// fleet is a world with an account that acts, one plan, and one running SIM, number 1.
func fleet(t *testing.T) (*world, store.Account, simwarden.SIMID) {
	t.Helper()
	w := newWorld(t)
	a := w.account("acme", nil)
	w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct) })
	w.plan("basic-30", 1_000_000_000, 30)
	id := w.sim(a, 1, simwarden.StateActive)
	return w, a, id
}

var ruleOfOurs = carrier.Rule{Name: "ours", Operation: simwarden.OpResume, ChangesOnly: true, HTTPStatus: 4, Contains: "risk suspended",
	Class: carrier.ClassRiskSuspended, Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true}

func simURL(n int, rest string) string { return "/api/v1/sims/" + numbered(n).String() + rest }

func TestC10WhatABrakeHeldIsJudgedWhenItIsReleased(t *testing.T) {
	w, a, _ := fleet(t)
	release := func() map[string]any {
		return w.want(http.StatusOK, "POST", "/api/v1/accounts/"+a.Name+"/release-brake", map[string]any{"reason": "looked into"})
	}
	asked := func() int { return w.rows(`SELECT count(*) FROM account_evaluation WHERE account_id = $1`, a.ID) }
	if release(); asked() != 0 {
		t.Error("no brake was on, and the account is judged")
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.BrakeAccount(ctx, a.ID, "as a test")
		return err
	})
	if release(); asked() != 1 {
		t.Errorf("%d evaluations of the account are asked for, want one: what was held has no command", asked())
	}
}

func TestSIMsAreListedAndFiltered(t *testing.T) {
	w, a, _ := fleet(t)
	other := w.account("other", nil)
	blocked := w.sim(a, 2, simwarden.StateSuspended)
	w.sim(other, 3, simwarden.StateActive)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return reconcile.ClosePolling(ctx, tx, blocked, simwarden.ExtendedRiskSuspended, "the carrier said so")
	})
	for _, row := range []struct {
		sentence, query string
		want            []int
	}{
		{"without a filter all are there, in order", "", []int{1, 2, 3}},
		{"an account has its own", "?account=other", []int{3}},
		{"a state has its own", "?state=active", []int{1, 3}},
		{"two filters hold together", "?state=active&account=acme", []int{1}},
		{"the beginning of an ICCID finds one", "?search=" + numbered(2).String(), []int{2}},
		{"nothing has ended: none is drifting", "?drifting=true", nil},
		{"nobody has paused one", "?paused=true", nil},
		{"P5: one is closed", "?closed=true", []int{2}},
		{"one is blocked for risk", "?extended_state=risk_suspended", []int{2}},
		{"none has ended", "?extended_state=terminated&closed=true", nil},
		{"left alone is what all are that never had a plan (E2)", "?desired=leave&limit=500", []int{1, 2, 3}},
	} {
		got := w.want(http.StatusOK, "GET", "/api/v1/sims"+row.query, nil)["items"].([]any)
		var names []string
		for _, item := range got {
			names = append(names, item.(map[string]any)["iccid"].(string))
		}
		var want []string
		for _, n := range row.want {
			want = append(want, numbered(n).String())
		}
		if strings.Join(names, " ") != strings.Join(want, " ") {
			t.Errorf("%s: %v, want %v", row.sentence, names, want)
		}
	}
}

func TestASIMIsFoundAsPeopleWriteIt(t *testing.T) {
	w, _, _ := fleet(t)
	bare := numbered(1).String()
	for _, form := range append([]string{bare, bare + "F", bare[:4] + "%20" + bare[4:]}, alternates(1)...) {
		got := w.want(http.StatusOK, "GET", "/api/v1/sims/"+form, nil)
		if got["iccid"] != bare {
			t.Errorf("%s found %v (I6)", form, got["iccid"])
		}
	}
}

func alternates(n int) []string {
	var out []string
	for _, id := range numbered(n).Alternates() {
		if len(id.String()) > len(numbered(n).String()) {
			out = append(out, id.String())
		}
	}
	return out
}

func TestANumberThatFitsTwoCardsIsRefused(t *testing.T) {
	w, a, _ := fleet(t)
	const bare = "898604A400000000001" // with letters no check digit can be told apart from a number
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddSIMs(ctx, a, []store.NewSIM{{ICCID: simwarden.MustParseICCID(bare + "1")}, {ICCID: simwarden.MustParseICCID(bare + "2")}}, 0)
		return err
	})
	if got := w.want(http.StatusConflict, "GET", "/api/v1/sims/"+bare, nil); got["code"] != "ambiguous_iccid" {
		t.Errorf("which of the two is meant? (I6): %v", got)
	}
	w.want(http.StatusOK, "GET", "/api/v1/sims/"+bare+"2", nil)
}

func TestPollingIsPausedAndTakenUpAgain(t *testing.T) {
	w, _, id := fleet(t)
	got := w.want(http.StatusOK, "POST", simURL(1, "/polling/pause"), map[string]any{"reason": "customer asked"})
	if got["changed"] != true || at(t, got, "sim", "paused_by") != "token:anna" || at(t, got, "sim", "paused_reason") != "customer asked" {
		t.Errorf("the pause is not kept with who and why (P4): %v", got)
	}
	if got := w.want(http.StatusOK, "POST", simURL(1, "/polling/pause"), map[string]any{"reason": "again"}); got["changed"] != false {
		t.Errorf("a second pause says that it changed something: %v", got)
	}
	if got := w.want(http.StatusOK, "POST", simURL(1, "/polling/resume"), nil); got["changed"] != true || at(t, got, "sim", "paused_by") != nil {
		t.Errorf("not taken up again: %v", got)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE sim_id = $1 AND actor = 'token:anna' AND action IN ('polling_pause', 'polling_resume')`, id); n != 2 {
		t.Errorf("%d audit rows for a pause and a resume, want 2 (R2)", n)
	}
	if n := w.rows(`SELECT count(*) FROM evaluation_request WHERE sim_id = $1 AND scene = 'polling_resumed' AND done_at IS NULL`, id); n != 1 {
		t.Errorf("%d evaluations asked for, want one at once (E9)", n)
	}
}

func TestAPersonSuspendsAndResumes(t *testing.T) {
	w, _, id := fleet(t)
	got := w.want(http.StatusOK, "POST", simURL(1, "/suspend"), map[string]any{"reason": "stolen"})
	if got["action"] != "open" || at(t, got, "sim", "hold_by") != "token:anna" {
		t.Fatalf("no command and hold (E3): %v", got)
	}
	commandID := got["command_id"].(float64)
	list := w.want(http.StatusOK, "GET", simURL(1, "/commands?open=true"), nil)
	if at(t, list, "items", 0, "id") != commandID || at(t, list, "items", 0, "direction") != "suspend" || at(t, list, "items", 0, "asked_by") != "token:anna" {
		t.Errorf("the command is not listed: %v", list)
	}
	one := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/commands/%.0f", commandID), nil)
	if at(t, one, "command", "scene") != "manual" || len(at(t, one, "attempts").([]any)) != 0 {
		t.Errorf("not the command without attempts: %v", one)
	}
	all := w.want(http.StatusOK, "GET", "/api/v1/commands?account=acme&state=queued&iccid="+numbered(1).String(), nil)
	if len(at(t, all, "items").([]any)) != 1 {
		t.Errorf("the command is not in the list of all: %v", all)
	}
	w.want(http.StatusOK, "POST", simURL(1, "/resume"), map[string]any{"reason": strings.Repeat("找", 500)}) // characters, not bytes
	records := w.want(http.StatusOK, "GET", "/api/v1/records?iccid="+numbered(1).String(), nil)
	if at(t, records, "items", 0, "status") == nil || at(t, records, "items", 0, "command_id") != commandID {
		t.Errorf("the replaced suspend left no record (R1): %v", records)
	}
	w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/records/%.0f", commandID), nil)
	if n := w.rows(`SELECT count(*) FROM audit WHERE sim_id = $1 AND actor = 'token:anna' AND action LIKE 'sim\_%'`, id); n != 2 {
		t.Errorf("%d audit rows for a suspend and a resume, want 2 (R2, S21)", n)
	}
}

func TestAPlanIsSoldAndTakenBack(t *testing.T) {
	w, _, id := fleet(t)
	plan := w.want(http.StatusCreated, "POST", "/api/v1/plans", map[string]any{"code": "month", "kind": "main", "allowance_bytes": -1,
		"validity_unit": "months", "validity_count": 1, "reset": "calendar_month", "zone": "Asia/Shanghai"})
	if plan["name"] != "month" {
		t.Errorf("a plan without a name is called %v", plan["name"])
	}
	if list := w.want(http.StatusOK, "GET", "/api/v1/plans", nil); len(list["items"].([]any)) != 2 {
		t.Errorf("plans: %v", list)
	}
	first := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"})
	if first["state"] != "active" || first["end_at"] != noon.AddDate(0, 0, 30).Format(time.RFC3339) {
		t.Errorf("a first plan begins now: %v", first)
	}
	second := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "month"})
	if second["state"] != "queued" {
		t.Errorf("a second plan waits: %v", second)
	}
	if list := w.want(http.StatusOK, "GET", simURL(1, "/subscriptions"), nil); len(list["items"].([]any)) != 2 {
		t.Errorf("subscriptions: %v", list)
	}
	path := fmt.Sprintf("/api/v1/subscriptions/%.0f/refund", first["id"])
	if got := w.want(http.StatusOK, "POST", path, map[string]any{"reason": "wrong plan"}); got["state"] != "refunded" {
		t.Errorf("not refunded: %v", got)
	}
	if got := w.want(http.StatusConflict, "POST", path, map[string]any{"reason": "twice"}); got["code"] != "ended_already" {
		t.Errorf("a second refund: %v", got)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE sim_id = $1 AND actor = 'token:anna' AND action IN ('subscribe', 'refund')`, id); n != 3 {
		t.Errorf("%d audit rows for two purchases and a refund, want 3 (R2)", n)
	}
	if n := w.rows(`SELECT count(*) FROM subscription WHERE sim_id = $1 AND state = 'active'`, id); n != 1 {
		t.Errorf("%d plans in force after the refund, want the queued one (L3)", n)
	}
}

func TestLimitGroupsAreChanged(t *testing.T) {
	w, _, _ := fleet(t)
	got := w.want(http.StatusOK, "PATCH", "/api/v1/limit-groups/acme", map[string]any{"mode": "enforce", "per_second": map[string]int{"*": 5, "suspend": 2}})
	if got["mode"] != "enforce" || at(t, got, "per_second", "*") != 5.0 || at(t, got, "per_second", "suspend") != 2.0 {
		t.Errorf("not changed: %v", got)
	}
	w.want(http.StatusOK, "PATCH", "/api/v1/limit-groups/acme", map[string]any{"per_second": map[string]any{"suspend": nil}})
	list := w.want(http.StatusOK, "GET", "/api/v1/limit-groups", nil)
	if per := at(t, list, "items", 0, "per_second").(map[string]any); len(per) != 1 || per["*"] != 5.0 {
		t.Errorf("one limit was to be taken away, the other to stay: %v", per)
	}
	w.want(http.StatusOK, "PATCH", "/api/v1/limit-groups/acme", map[string]any{}) // changes nothing, tells nothing
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'limit_group_change' AND actor = 'token:anna'`); n != 2 {
		t.Errorf("%d audit rows, want 2", n)
	}
}

func TestErrorRulesAreListedAndTried(t *testing.T) {
	w, _, _ := fleet(t)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.PutErrorRule(ctx, store.ErrorRule{Driver: "soracom", Position: 1, Rule: ruleOfOurs})
		return err
	})
	list := w.want(http.StatusOK, "GET", "/api/v1/error-rules?driver=soracom", nil)
	if at(t, list, "items", 0, "name") != "ours" || at(t, list, "items", 0, "applies_to") != "changes" {
		t.Errorf("the operator's rule is not first: %v", list)
	}
	got := w.want(http.StatusOK, "POST", "/api/v1/error-rules/test", map[string]any{"driver": "soracom", "operation": "resume", "http_status": 400,
		"code": "X1", "message": "the SIM is RISK suspended"})
	if got["rule"] != "ours" || got["class"] != "risk_suspended" || got["close_polling"] != true || got["extended_state"] != "risk_suspended" {
		t.Errorf("the tester does not find the rule (G7, S25): %v", got)
	}
	got = w.want(http.StatusOK, "POST", "/api/v1/error-rules/test", map[string]any{"driver": "supersim", "operation": "suspend", "http_status": 500})
	if got["class"] != "unknown_outcome" {
		t.Errorf("a 500 after a suspend leaves the outcome unknown (C5, G7): %v", got)
	}
}

func TestAlertsAreListedAndCleared(t *testing.T) {
	w, a, id := fleet(t)
	for _, key := range []string{"one", "two"} {
		if err := w.store.Raise(t.Context(), store.Alert{Kind: store.AlertDrift, Key: key, AccountID: a.ID, SIMID: id, Message: key}); err != nil {
			t.Fatal(err)
		}
	}
	list := w.want(http.StatusOK, "GET", "/api/v1/alerts?account=acme&kind=drift", nil)
	if len(list["items"].([]any)) != 2 || at(t, list, "items", 0, "key") != "two" {
		t.Fatalf("not both, newest first: %v", list)
	}
	path := fmt.Sprintf("/api/v1/alerts/%.0f/clear", at(t, list, "items", 0, "id"))
	w.want(http.StatusOK, "POST", path, nil)
	w.want(http.StatusNotFound, "POST", path, nil)
	if list := w.want(http.StatusOK, "GET", "/api/v1/alerts", nil); len(list["items"].([]any)) != 1 {
		t.Errorf("the cleared alert is still there: %v", list)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'alert_clear' AND sim_id = $1`, id); n != 1 {
		t.Errorf("%d audit rows, want 1 (R2)", n)
	}
}

func TestStatisticsAreOfTheAskedMinutes(t *testing.T) {
	w, a, _ := fleet(t)
	stat := store.CallStat{AccountID: a.ID, Operation: simwarden.OpListSIMs, Purpose: simwarden.PurposePoll, Outcome: "ok", Calls: 3, LatencyMS: 90}
	var stats []store.CallStat
	for _, ago := range []time.Duration{2 * time.Hour, 30 * time.Minute, 0} {
		stat.MinuteAt = noon.Add(-ago)
		stats = append(stats, stat)
	}
	if err := w.store.AddCallStats(t.Context(), store.CallStatFlush{Writer: "node", Number: 1, Stats: stats}); err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]int{
		"": 1, // an hour, now excluded
		"?account=acme&from=2026-05-04T09:00:00Z&until=2026-05-04T12:01:00Z": 3,
		"?from=2026-05-04T09:00:00Z&limit=1":                                 1,
	} {
		if got := w.want(http.StatusOK, "GET", "/api/v1/statistics"+query, nil)["items"].([]any); len(got) != want {
			t.Errorf("statistics%s: %d rows, want %d (G9, S24)", query, len(got), want)
		}
	}
}

func TestEnumerationsHoldEveryWord(t *testing.T) {
	w := newWorld(t)
	got := w.want(http.StatusOK, "GET", "/api/v1/enumerations", nil)
	for name, word := range map[string]string{"state": "suspended", "scene": "plan_lapsed", "reason": "realname_unmet", "error_class": "risk_suspended",
		"extended_state": "device_separated", "driver": "soracom", "purpose": "manual_refresh", "limit_group_mode": "monitor"} {
		list, _ := got[name].([]any)
		found := false
		for _, v := range list {
			found = found || v == word
		}
		if !found {
			t.Errorf("the enumeration %s lacks %s (I2): %v", name, word, list)
		}
	}
}

func TestBadInputIsRefusedInWords(t *testing.T) {
	w, _, _ := fleet(t)
	plan := map[string]any{"code": "x", "kind": "main", "allowance_bytes": 1, "validity_unit": "days", "validity_count": 1, "reset": "none", "zone": "UTC"}
	with := func(name string, v any) map[string]any {
		out := map[string]any{}
		for k, old := range plan {
			out[k] = old
		}
		out[name] = v
		return out
	}
	const cursorOfCommands = "Y29tbWFuZDo1" // command:5
	for _, row := range []struct {
		sentence, method, path string
		body                   any
		status                 int
		code, says             string
	}{
		{"a damaged ICCID is never repaired (I6)", "GET", "/api/v1/sims/8.98604E+18", nil, 422, "bad_input", "spreadsheet"},
		{"an ICCID is not three digits", "GET", "/api/v1/sims/123", nil, 422, "bad_input", "18 to 20"},
		{"a SIM that is not there", "GET", simURL(99, ""), nil, 404, "not_found", "not found"},
		{"explain of one that is not there", "GET", simURL(99, "/explain"), nil, 404, "not_found", "not found"},
		{"commands of one that is not there", "GET", simURL(99, "/commands"), nil, 404, "not_found", "not found"},
		{"subscriptions of one that is not there", "GET", simURL(99, "/subscriptions"), nil, 404, "not_found", "not found"},
		{"a suspend of one that is not there", "POST", simURL(99, "/suspend"), map[string]any{"reason": "x"}, 404, "not_found", "not found"},
		{"a pause of one that is not there", "POST", simURL(99, "/polling/pause"), map[string]any{"reason": "x"}, 404, "not_found", "not found"},
		{"a suspend without a reason", "POST", simURL(1, "/suspend"), map[string]any{}, 422, "bad_input", "validation"},
		{"a suspend without a body", "POST", simURL(1, "/suspend"), nil, 400, "bad_request", "required"},
		{"a reason with a NUL", "POST", simURL(1, "/suspend"), map[string]any{"reason": "a\x00b"}, 400, "bad_request", "validation"},
		{"a reason of 501 characters", "POST", simURL(1, "/suspend"), map[string]any{"reason": strings.Repeat("x", 501)}, 422, "bad_input", "validation"},
		{"an unknown plan", "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "gold"}, 404, "not_found", `plan "gold"`},
		{"a refund of what was never bought", "POST", "/api/v1/subscriptions/77/refund", map[string]any{"reason": "x"}, 404, "not_found", "subscription 77"},
		{"a zone that does not exist", "POST", "/api/v1/plans", with("zone", "Mars/Olympus"), 422, "plan_invalid", "Asia/Shanghai"},
		{"a plan without length", "POST", "/api/v1/plans", with("validity_count", 0), 422, "plan_invalid", "no length"},
		{"a kind that does not exist", "POST", "/api/v1/plans", with("kind", "gold"), 422, "plan_invalid", "main or addon"},
		{"a code twice", "POST", "/api/v1/plans", with("code", "basic-30"), 409, "plan_exists", "exists already"},
		{"an account that is not there", "GET", "/api/v1/accounts/nobody", nil, 404, "not_found", `"nobody"`},
		{"a change of one that is not there", "PATCH", "/api/v1/accounts/nobody", map[string]any{"mode": "act"}, 404, "not_found", `"nobody"`},
		{"a mode that does not exist", "PATCH", "/api/v1/accounts/acme", map[string]any{"mode": "delete"}, 422, "bad_input", "observe, act"},
		{"a brake of 101 percent", "PATCH", "/api/v1/accounts/acme", map[string]any{"brake_percent": 101}, 422, "bad_input", "validation"},
		{"an interval of nothing", "PATCH", "/api/v1/accounts/acme", map[string]any{"state_every_seconds": 0}, 422, "bad_input", "validation"},
		{"a release of one that is not there", "POST", "/api/v1/accounts/nobody/release-brake", nil, 404, "not_found", `"nobody"`},
		{"a start of one that is not there", "POST", "/api/v1/accounts/nobody/start", nil, 404, "not_found", `"nobody"`},
		{"a limit group that is not there", "PATCH", "/api/v1/limit-groups/nobody", map[string]any{"mode": "enforce"}, 404, "not_found", `"nobody"`},
		{"a limit for no operation", "PATCH", "/api/v1/limit-groups/acme", map[string]any{"per_second": map[string]int{"fly": 1}}, 422, "bad_input", "query_state"},
		{"a limit below zero", "PATCH", "/api/v1/limit-groups/acme", map[string]any{"per_second": map[string]int{"*": -1}}, 422, "bad_input", "give 1 to 100000"},
		{"a limit without an operation", "PATCH", "/api/v1/limit-groups/acme", map[string]any{"per_second": map[string]int{"": 1}}, 422, "bad_input", "without a name"},
		{"a command that is not there", "GET", "/api/v1/commands/77", nil, 404, "not_found", "command 77"},
		{"a command's id that is none", "GET", "/api/v1/commands/abc", nil, 422, "bad_input", "validation"},
		{"a record that is not there", "GET", "/api/v1/records/77", nil, 404, "not_found", "record of command 77"},
		{"an alert that is not there", "POST", "/api/v1/alerts/77/clear", nil, 404, "not_found", "alert 77"},
		{"a driver that is not there", "GET", "/api/v1/error-rules?driver=none", nil, 422, "bad_input", "soracom"},
		{"a test for no driver", "POST", "/api/v1/error-rules/test", map[string]any{"driver": "none", "operation": "suspend"}, 422, "bad_input", "soracom"},
		{"a test of no operation", "POST", "/api/v1/error-rules/test", map[string]any{"driver": "soracom", "operation": "fly"}, 422, "bad_input", "suspend"},
		{"a test of status 7", "POST", "/api/v1/error-rules/test", map[string]any{"driver": "soracom", "operation": "suspend", "http_status": 7}, 422, "bad_input", "100 to 599"},
		{"a page of 501", "GET", "/api/v1/sims?limit=501", nil, 422, "bad_input", "validation"},
		{"a page of none", "GET", "/api/v1/sims?limit=0", nil, 422, "bad_input", "validation"},
		{"a cursor that was made up", "GET", "/api/v1/sims?cursor=abc", nil, 422, "bad_input", "begin without one"},
		{"the cursor of another list", "GET", "/api/v1/sims?cursor=" + cursorOfCommands, nil, 422, "bad_input", "begin without one"},
		{"an unknown state", "GET", "/api/v1/sims?state=flying", nil, 422, "bad_input", "suspended"},
		{"an unknown reason", "GET", "/api/v1/sims?reason=mood", nil, 422, "bad_input", "no_plan"},
		{"an unknown account in a list", "GET", "/api/v1/sims?account=nobody", nil, 404, "not_found", `"nobody"`},
		{"an unknown state of a command", "GET", "/api/v1/commands?state=flying", nil, 422, "bad_input", "queued"},
		{"an unknown scene of a record", "GET", "/api/v1/records?scene=opera", nil, 422, "bad_input", "plan_lapsed"},
		{"an instant that is none", "GET", "/api/v1/records?from=yesterday", nil, 422, "bad_input", "validation"},
		{"a range that ends before it begins", "GET", "/api/v1/statistics?from=2026-05-05T00:00:00Z&until=2026-05-04T00:00:00Z", nil, 422, "bad_input", "before it begins"},
		{"a NUL in the query", "GET", "/api/v1/sims?search=%00", nil, 400, "bad_request", "control characters"},
		{"a query that is not UTF-8", "GET", "/api/v1/sims?search=%ff", nil, 400, "bad_request", "UTF-8"},
	} {
		status, got := w.call(row.method, row.path, row.body)
		if status != row.status || got["code"] != row.code || !strings.Contains(fmt.Sprint(got["detail"]), row.says) {
			t.Errorf("%s: HTTP %d %v %q, want %d %s with %q", row.sentence, status, got["code"], got["detail"], row.status, row.code, row.says)
		}
	}
	if strings.Contains(w.log.String(), "request failed") {
		t.Errorf("bad input was taken for a failure of ours: %s", w.log)
	}
}
