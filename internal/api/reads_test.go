package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

func TestC9AnAccountsPoliciesAndProfileAreChanged(t *testing.T) {
	w, _, _ := fleet(t)
	got := w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"unplanned": "suspend", "drift_policy": "adopt", "realname_every_seconds": 7200})
	if got["unplanned"] != "suspend" || got["drift_policy"] != "adopt" || got["realname_every_seconds"] != 7200.0 || got["state_every_seconds"] != 3600.0 {
		t.Errorf("the account: %v", got)
	}
	if got := w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"drift_policy": "alert"}); got["unplanned"] != "suspend" || got["drift_policy"] != "alert" {
		t.Errorf("what is not given stays: %v", got)
	}
	bad := w.want(http.StatusUnprocessableEntity, "PATCH", "/api/v1/accounts/acme", map[string]any{"unplanned": "burn"})
	contains(t, "the refusal", fmt.Sprint(bad["detail"]), "leave, suspend")
}

func TestR5ASIMsTimelineNamesWhoDidIt(t *testing.T) {
	w, _, _ := fleet(t)
	for _, reason := range []string{"one", "two"} {
		w.want(http.StatusOK, "POST", simURL(1, "/polling/pause"), map[string]any{"reason": reason})
		w.want(http.StatusOK, "POST", simURL(1, "/polling/resume"), map[string]any{"reason": reason})
	}
	seen, path := []string{}, simURL(1, "/events?limit=2")
	for range 20 {
		page := w.want(http.StatusOK, "GET", path, nil)
		for _, e := range page["items"].([]any) {
			seen = append(seen, fmt.Sprint(at(t, e, "kind")))
		}
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		path = simURL(1, "/events?limit=2&cursor="+next)
	}
	if n := len(seen); n < 5 || seen[n-1] != "sim_added" {
		t.Errorf("from the latest to the first: %v", seen)
	}
	w.want(http.StatusCreated, "POST", "/api/v1/accounts", map[string]any{"name": "second", "driver": "soracom",
		"credentials": map[string]any{"auth_key_id": "keyId-invented", "auth_key": "secret-invented-0000"}})
	if n := w.rows(`SELECT count(*) FROM event e JOIN account a ON a.id = e.account_id WHERE a.name = 'second' AND e.actor = 'token:anna'`); n != 1 {
		t.Errorf("%d events name who added the account, want 1", n)
	}
}

func TestU5ASIMsDailyUsage(t *testing.T) {
	w, _, id := fleet(t)
	if got := w.want(http.StatusOK, "GET", simURL(1, "/usage-days"), nil); len(got["items"].([]any)) != 0 {
		t.Errorf("unused: %v", got)
	}
	w.rows(`WITH d AS (INSERT INTO usage_day (sim_id, day, bytes) VALUES ($1, '2026-05-03', 7), ($1, '2026-01-03', 9) RETURNING 1) SELECT count(*) FROM d`, id)
	if got := w.want(http.StatusOK, "GET", simURL(1, "/usage-days"), nil); len(got["items"].([]any)) != 1 || at(t, got, "items", 0, "bytes") != 7.0 {
		t.Errorf("of 90 days: %v", got)
	}
	if got := w.want(http.StatusOK, "GET", simURL(1, "/usage-days?from=2026-01-01T00:00:00Z"), nil); len(got["items"].([]any)) != 2 {
		t.Errorf("of the year: %v", got)
	}
}

func TestL1SubscriptionsAreListedOverAllSIMs(t *testing.T) {
	w, a, _ := fleet(t)
	other := w.account("other", nil)
	w.sims(a, 2, 2)
	w.sims(other, 10, 1)
	for _, n := range []int{1, 1, 2, 3, 10} {
		w.want(http.StatusCreated, "POST", simURL(n, "/subscriptions"), map[string]any{"plan": "basic-30"})
	}
	for query, want := range map[string]int{"": 5, "?account=acme": 4, "?account=other": 1, "?state=queued": 1, "?plan=basic-30&live=true": 5, "?plan=other": 0} {
		if got := w.want(http.StatusOK, "GET", "/api/v1/subscriptions"+query, nil); len(got["items"].([]any)) != want {
			t.Errorf("subscriptions%s: %v, want %d", query, got, want)
		}
	}
	first := w.want(http.StatusOK, "GET", "/api/v1/subscriptions?limit=3", nil)
	rest := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/subscriptions?limit=3&cursor=%v", first["next_cursor"]), nil)
	if len(first["items"].([]any)) != 3 || len(rest["items"].([]any)) != 2 || rest["next_cursor"] != nil {
		t.Errorf("two pages: %v and %v", first, rest)
	}
	one := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/subscriptions/%v", at(t, first, "items", 0, "id")), nil)
	if one["iccid"] != numbered(1).String() || one["bought_by"] != "token:anna" || one["account"] != "acme" {
		t.Errorf("one: %v", one)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/subscriptions/4711", nil)
	w.want(http.StatusUnprocessableEntity, "GET", "/api/v1/subscriptions?state=asleep", nil)
}

func TestG9StatisticsGoOnFromACursor(t *testing.T) {
	w, a, _ := fleet(t)
	var stats []store.CallStat
	for i := range 7 {
		for _, op := range []string{"query_state", "suspend"} {
			stats = append(stats, store.CallStat{MinuteAt: noon.Add(time.Duration(i-10) * time.Minute), AccountID: a.ID, Operation: "query_state", Purpose: "poll", Outcome: op, Calls: int64(i + 1)})
		}
	}
	if err := w.store.AddCallStats(t.Context(), store.CallStatFlush{Writer: "node", Number: 1, Stats: stats}); err != nil {
		t.Fatal(err)
	}
	rows, path := 0, "/api/v1/statistics?limit=4"
	for range 10 {
		page := w.want(http.StatusOK, "GET", path, nil)
		rows += len(page["items"].([]any))
		next, more := page["next_cursor"].(string)
		if !more {
			break
		}
		path = "/api/v1/statistics?limit=4&cursor=" + next
	}
	if rows != len(stats) {
		t.Errorf("%d rows over all pages, want %d", rows, len(stats))
	}
	if got := w.want(http.StatusOK, "GET", "/api/v1/statistics?operation=suspend", nil); len(got["items"].([]any)) != 0 {
		t.Errorf("of another operation: %v", got)
	}
	for _, bad := range []string{"operation=fly", "cursor=e30", "cursor=!"} {
		w.want(http.StatusUnprocessableEntity, "GET", "/api/v1/statistics?"+bad, nil)
	}
}

func TestOneLimitGroupOneRuleAndTheAuditLogAreRead(t *testing.T) {
	w, _, _ := fleet(t)
	if got := w.want(http.StatusOK, "GET", "/api/v1/limit-groups/acme", nil); got["mode"] != "monitor" {
		t.Errorf("the group: %v", got)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/limit-groups/nobody", nil)
	list := w.want(http.StatusOK, "GET", "/api/v1/error-rules?driver=soracom", nil) // no node has run: the driver's are there
	if len(list["items"].([]any)) == 0 {
		t.Fatal("the driver's own rules are not listed before a node has run (G6)")
	}
	id := at(t, list, "items", 0, "id")
	if got := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/error-rules/%v", id), nil); got["id"] != id || got["origin"] != "driver" {
		t.Errorf("the rule: %v", got)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/error-rules/4711", nil)
	if got := w.want(http.StatusOK, "GET", "/api/v1/audit/verification", nil); got["ok"] != true || got["unsealed"].(float64) < 1 {
		t.Errorf("the audit log: %v", got)
	}
	if got := w.want(http.StatusOK, "GET", "/api/v1/commands?held=true", nil); len(got["items"].([]any)) != 0 {
		t.Errorf("nothing is held: %v", got)
	}
	w.want(http.StatusOK, "POST", simURL(1, "/suspend"), map[string]any{"reason": "x"})
	w.rows(`WITH c AS (UPDATE command SET held_by = 'safety brake' RETURNING 1) SELECT count(*) FROM c`)
	if got := w.want(http.StatusOK, "GET", "/api/v1/commands?held=true", nil); len(got["items"].([]any)) != 1 || at(t, got, "items", 0, "held_by") != "safety brake" {
		t.Errorf("one is held: %v", got)
	}
}
