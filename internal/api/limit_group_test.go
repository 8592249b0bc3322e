package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestLimitGroupsHoldWindowsAndAreShared(t *testing.T) {
	// G2: several windows, calls at a time, a share for commands; accounts of one group share them.
	w, _, _ := fleet(t)
	w.want(http.StatusCreated, "POST", "/api/v1/limit-groups", map[string]any{"name": "upstream"})
	if got := w.want(http.StatusConflict, "POST", "/api/v1/limit-groups", map[string]any{"name": "upstream"}); got["code"] != "limit_group_exists" {
		t.Errorf("a second group of the name: %v", got)
	}
	got := w.want(http.StatusOK, "PATCH", "/api/v1/limit-groups/upstream", map[string]any{
		"windows":        []map[string]any{{"operation": "all", "seconds": 86400, "calls": 1000}, {"operation": "suspend", "seconds": 60, "calls": 5}},
		"max_concurrent": 4, "command_share_percent": 20})
	if len(got["windows"].([]any)) != 2 || at(t, got, "windows", 0, "operation") != "all" || at(t, got, "windows", 1, "calls") != 5.0 ||
		got["max_concurrent"] != 4.0 || got["command_share_percent"] != 20.0 {
		t.Errorf("not changed: %v", got)
	}
	got = w.want(http.StatusOK, "PATCH", "/api/v1/limit-groups/upstream", map[string]any{
		"windows": []map[string]any{{"operation": "suspend", "seconds": 60, "calls": nil}}, "max_concurrent": -1})
	if len(got["windows"].([]any)) != 1 || got["max_concurrent"] != 0.0 || got["command_share_percent"] != 20.0 {
		t.Errorf("a window and the calls at a time were to be taken away, the rest to stay: %v", got)
	}
	before := w.want(http.StatusOK, "GET", "/api/v1/accounts/acme", nil)
	after := w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"limit_group": "upstream"})
	if after["limit_group_id"] == before["limit_group_id"] || after["limit_group_id"] != got["id"] {
		t.Errorf("the account was not moved: %v, then %v", before["limit_group_id"], after["limit_group_id"])
	}
	w.want(http.StatusNotFound, "PATCH", "/api/v1/accounts/acme", map[string]any{"limit_group": "nobody"})
	if n := w.rows(`SELECT count(*) FROM audit WHERE action IN ('limit_group_add', 'limit_group_change', 'account_change')`); n != 4 {
		t.Errorf("%d audit rows, want 4 (R2)", n)
	}
}

func TestBadLimitsAreRefused(t *testing.T) {
	w, _, _ := fleet(t)
	window := func(op string, seconds int, calls any) map[string]any {
		return map[string]any{"windows": []map[string]any{{"operation": op, "seconds": seconds, "calls": calls}}}
	}
	for _, row := range []struct {
		what string
		body map[string]any
		says string
	}{
		{"a rate of 0 does not take the limit away", map[string]any{"per_second": map[string]any{"suspend": 0}}, "a limit of 0"},
		{"a window of 0 calls", window("all", 60, 0), "a limit of 0"},
		{"0 calls at a time", map[string]any{"max_concurrent": 0}, "a limit of 0"},
		{"a rate below 0", map[string]any{"per_second": map[string]any{"*": -5}}, "give 1 to"},
		{"a window of one second", window("all", 1, 5), "per_second"},
		{"a window without an operation", window("", 60, 5), "all together"},
		{"a window of an operation that is none", window("fly", 60, 5), "operation"},
		{"a window of more calls than are counted", window("all", 60, 1_000_000_000), "within"},
		{"a rate of an operation that is none", map[string]any{"per_second": map[string]any{"fly": 5}}, "operation"},
	} {
		if got := w.want(http.StatusUnprocessableEntity, "PATCH", "/api/v1/limit-groups/acme", row.body); !strings.Contains(got["detail"].(string), row.says) {
			t.Errorf("%s: got %q, want it to say %q", row.what, got["detail"], row.says)
		}
	}
	if n := w.rows(`SELECT count(*) FROM limit_window`) + w.rows(`SELECT count(*) FROM limit_rate`); n != 0 {
		t.Errorf("%d limits were written", n)
	}
}
