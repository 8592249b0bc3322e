package api_test

import (
	"fmt"
	"net/http"
	"testing"
)

func TestL6PoolsOverTheAPI(t *testing.T) {
	w, a, _ := fleet(t)
	const n = 3
	iccids := []string{numbered(1).String()}
	for i := 2; i <= n; i++ {
		w.sim(a, i, "active")
		iccids = append(iccids, numbered(i).String())
	}
	made := w.want(http.StatusCreated, "POST", "/api/v1/pools", map[string]any{"name": "meters", "allowance_bytes": 1000, "policy": "over_cap", "cap_bytes": 10})
	if made["reset"] != "none" || made["zone"] != "UTC" || made["period"] != 1.0 {
		t.Errorf("made %v", made)
	}
	for _, row := range []struct {
		sentence string
		body     map[string]any
		status   int
		code     string
	}{
		{"a name that is taken", map[string]any{"name": "meters", "allowance_bytes": 1}, http.StatusConflict, "pool_exists"},
		{"an allowance of 0", map[string]any{"name": "x", "allowance_bytes": 0}, http.StatusUnprocessableEntity, "bad_input"},
		{"a policy that is none", map[string]any{"name": "x", "allowance_bytes": 1, "policy": "some"}, http.StatusUnprocessableEntity, "pool_invalid"},
		{"a cycle without a length", map[string]any{"name": "x", "allowance_bytes": 1, "reset": "cycle"}, http.StatusUnprocessableEntity, "pool_invalid"},
		{"a day without a billing month", map[string]any{"name": "x", "allowance_bytes": 1, "anchor_day": 31}, http.StatusUnprocessableEntity, "pool_invalid"},
	} {
		if got := w.want(row.status, "POST", "/api/v1/pools", row.body); got["code"] != row.code {
			t.Errorf("%s: %v, want %s", row.sentence, got["code"], row.code)
		}
	}
	moved := func(path string, body map[string]any) (yes, no int) {
		for _, item := range w.want(http.StatusOK, "POST", path, body)["items"].([]any) {
			if m := item.(map[string]any); m["moved"] == true {
				yes++
			} else if m["problem"] != "" {
				no++
			}
		}
		return yes, no
	}
	if yes, no := moved("/api/v1/pools/meters/members", map[string]any{"sims": append(iccids, iccids[0], "8986099999999999999"), "cap_bytes": 20}); yes != n || no != 2 {
		t.Errorf("%d joined and %d did not, want %d and 2", yes, no, n)
	}
	if yes, no := moved("/api/v1/pools/meters/members/remove", map[string]any{"sims": iccids[:1]}); yes != 1 || no != 0 {
		t.Errorf("%d left and %d did not", yes, no)
	}
	w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/pools/meters/members", map[string]any{})
	page := w.want(http.StatusOK, "GET", "/api/v1/pools/meters/members?limit=1", nil)
	rest := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/pools/meters/members?limit=1&cursor=%s", page["next_cursor"]), nil)
	if first, last := page["items"].([]any)[0].(map[string]any), rest["items"].([]any)[0].(map[string]any); first["name"] != iccids[1] || last["name"] != iccids[2] || rest["next_cursor"] != nil || first["cap_bytes"] != 20.0 {
		t.Errorf("pages %v and %v", page, rest)
	}

	top := map[string]any{"bytes": 500, "note": "promised"}
	if got := w.once("k", http.StatusCreated, "/api/v1/pools/meters/top-ups", top); got["replayed"] != nil {
		t.Errorf("the first top-up: %v", got)
	}
	if got := w.once("k", http.StatusCreated, "/api/v1/pools/meters/top-ups", top); got["pool"].(map[string]any)["extra_bytes"] != 500.0 {
		t.Errorf("F51: the same top-up again: %v", got)
	}
	if got := w.once("k", http.StatusConflict, "/api/v1/pools/meters/top-ups", map[string]any{"bytes": 501}); got["code"] != "key_reused" {
		t.Errorf("F51: another top-up with its key: %v", got)
	}
	if got := w.want(http.StatusOK, "PATCH", "/api/v1/pools/meters", map[string]any{"policy": "all", "allowance_bytes": 2000}); got["policy"] != "all" || got["allowance_bytes"] != 2000.0 || got["cap_bytes"] != 10.0 {
		t.Errorf("changed: %v", got)
	}
	v := w.want(http.StatusOK, "GET", "/api/v1/pools/meters", nil)
	if v["members"] != 2.0 || len(v["top_ups"].([]any)) != 1 || len(v["evaluations"].([]any)) != 2 {
		t.Errorf("the pool: %v", v)
	}
	if got := w.want(http.StatusOK, "GET", "/api/v1/pools", nil)["items"].([]any); len(got) != 1 {
		t.Errorf("listed: %v", got)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/pools/nowhere", nil)
	if got := w.want(http.StatusOK, "GET", simURL(2, "/explain"), nil); got["pool"].(map[string]any)["name"] != "meters" {
		t.Errorf("explained: %v", got["pool"])
	}
}
