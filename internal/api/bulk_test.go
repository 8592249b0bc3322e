package api_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

func (w *world) workBulk() {
	w.t.Helper()
	for {
		n, err := w.eval.StepBulk(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func texts(v any) string { return fmt.Sprint(v) }

func TestF53ABulkActionIsPreviewedBegunAndShown(t *testing.T) {
	w, a, _ := fleet(t)
	w.sim(a, 2, simwarden.StateActive)
	w.sim(a, 3, simwarden.StateSuspended)
	other := w.account("watched", nil)
	w.sim(other, 4, simwarden.StateActive)
	one, mode := 2, simwarden.GroupEnforce
	if _, err := w.service.ChangeLimitGroup(t.Context(), "acme", api.LimitGroupChange{Mode: &mode, PerSecond: map[simwarden.Operation]*int{simwarden.OpSuspend: &one},
		Windows: []api.WindowChange{{Operation: simwarden.OpSuspend, Seconds: 60, Calls: &one}}}, "cli:test"); err != nil {
		t.Fatal(err)
	}
	list := []string{numbered(1).String() + "F", numbered(2).String(), numbered(2).String(), numbered(3).String(), numbered(4).String(), "8.98604E+18", numbered(99).String()}
	p := w.want(http.StatusOK, "POST", "/api/v1/bulk/preview", map[string]any{"direction": "suspend", "iccids": list})
	if p["sims"] != 4.0 || p["named_twice"] != 1.0 || p["bad_rows"] != 2.0 || at(t, p, "bad", 0, "row") != 6.0 || at(t, p, "bad", 1, "text") != numbered(99).String() {
		t.Errorf("not what the list says: %v", p)
	}
	if counts := texts(p["counts"]); !strings.Contains(counts, "account:acme sims:2 state:active") || !strings.Contains(counts, "account:watched sims:1 state:active") {
		t.Errorf("the counts by account and state are %v", counts)
	}
	for _, want := range []string{"observe, where nothing is sent: watched", "1 are so already", "held from then on"} {
		if !strings.Contains(texts(p["warnings"]), want) {
			t.Errorf("the warnings lack %q: %v", want, p["warnings"])
		}
	}
	if p["least_seconds"] != 1.0 { // of two, the second half a second later; two fit a minute
		t.Errorf("at the limits known it takes %v s, want 1", p["least_seconds"])
	}
	if n := w.rows(`SELECT (SELECT count(*) FROM bulk_action) + (SELECT count(*) FROM command)`); n != 0 {
		t.Error("the preview has written something")
	}
	refused := map[string]any{"direction": "suspend", "iccids": list, "reason": "tariff"}
	if got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/bulk", refused); !strings.Contains(texts(got["detail"]), "row 6") {
		t.Errorf("a bad number does not refuse it in words: %v", got)
	}
	refused["skip_bad"], refused["at_most"] = true, 3
	if got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/bulk", refused); !strings.Contains(texts(got["detail"]), "4 SIMs now") {
		t.Errorf("more SIMs than wanted do not refuse it: %v", got)
	}
	refused["at_most"] = 4
	b := w.want(http.StatusCreated, "POST", "/api/v1/bulk", refused)
	if b["state"] != "running" || b["total"] != 4.0 || b["actor"] != "token:anna" {
		t.Errorf("it begins as %v", b)
	}
	path := fmt.Sprintf("/api/v1/bulk/%.0f", b["id"])
	w.workBulk()
	got := w.want(http.StatusOK, "GET", path+"?limit=3", nil)
	if got["state"] != "done" || got["done"] != 4.0 || texts(got["outcomes"]) != "[map[outcome:none sims:1] map[outcome:observed sims:1] map[outcome:ordered sims:2]]" {
		t.Errorf("it ended as %v", got)
	}
	if at(t, got, "results", "items", 0, "command_state") != "queued" || at(t, got, "results", "items", 2, "outcome") != "none" {
		t.Errorf("the results of the SIMs are %v", got["results"])
	}
	rest := w.want(http.StatusOK, "GET", path+"?limit=3&cursor="+texts(at(t, got, "results", "next_cursor")), nil)
	if items := at(t, rest, "results", "items").([]any); len(items) != 1 || at(t, rest, "results", "items", 0, "iccid") != numbered(4).String() {
		t.Errorf("the second page is %v", items)
	}
	if only := w.want(http.StatusOK, "GET", path+"?outcome=ordered", nil); len(at(t, only, "results", "items").([]any)) != 2 {
		t.Errorf("those that were ordered are %v", only["results"])
	}
	if c := w.want(http.StatusOK, "POST", path+"/cancel", nil); c["changed"] != false {
		t.Errorf("it was cancelled after its end: %v", c)
	}
	if all := w.want(http.StatusOK, "GET", "/api/v1/bulk", nil); len(all["items"].([]any)) != 1 {
		t.Errorf("the list of all is %v", all)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE actor = 'token:anna' AND action IN ('bulk_suspend', 'sim_suspend')`); n != 5 {
		t.Errorf("%d audit rows, want one for the action and one for each SIM (R2)", n)
	}
}

func TestF53ABulkActionIsCancelled(t *testing.T) {
	w, _, _ := fleet(t)
	b := w.want(http.StatusCreated, "POST", "/api/v1/bulk", map[string]any{"direction": "resume", "filter": map[string]any{"account": "acme"}, "reason": "paid"})
	path := fmt.Sprintf("/api/v1/bulk/%.0f", b["id"])
	got := w.want(http.StatusOK, "POST", path+"/cancel", nil)
	if got["changed"] != true || at(t, got, "bulk", "state") != "cancelled" || at(t, got, "bulk", "cancelled_by") != "token:anna" {
		t.Errorf("not cancelled: %v", got)
	}
	w.workBulk()
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'sim_resume'`); n != 0 {
		t.Error("a cancelled action was worked off")
	}
}

func TestBulkRefusesInWords(t *testing.T) {
	w, _, _ := fleet(t)
	for _, row := range []struct {
		sentence string
		body     map[string]any
		status   int
		says     string
	}{
		{"no SIM is named", map[string]any{}, 422, "which SIMs"},
		{"an empty filter would be the whole fleet", map[string]any{"filter": map[string]any{}}, 422, "which SIMs"},
		{"a list and a filter together", map[string]any{"iccids": []string{numbered(1).String()}, "filter": map[string]any{"account": "acme"}}, 422, "not both"},
		{"a filter that fits none", map[string]any{"filter": map[string]any{"state": "terminated"}}, 422, "no SIM fits this"},
		{"an account that is not there", map[string]any{"filter": map[string]any{"account": "nobody"}}, 404, "nobody"},
		{"a state that is none", map[string]any{"filter": map[string]any{"state": "flying"}}, 422, "suspended"},
		{"more than 100,000", map[string]any{"iccids": slices.Repeat([]string{numbered(1).String()}, store.MaxBulk+1)}, 422, "validation"},
	} {
		body := map[string]any{"direction": "suspend", "reason": "x"}
		for k, v := range row.body {
			body[k] = v
		}
		if status, got := w.call("POST", "/api/v1/bulk", body); status != row.status || !strings.Contains(texts(got["detail"]), row.says) {
			t.Errorf("%s: HTTP %d %v, want %d with %q", row.sentence, status, got["detail"], row.status, row.says)
		}
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/bulk/77", nil)
	w.want(http.StatusNotFound, "POST", "/api/v1/bulk/77/cancel", nil)
	if strings.Contains(w.log.String(), "request failed") {
		t.Errorf("bad input was taken for a failure of ours: %s", w.log)
	}
}

func TestF53AHundredThousandNumbersFitOneRequest(t *testing.T) {
	w, _, _ := fleet(t)
	list := make([]string, store.MaxBulk)
	for i := range list {
		list[i] = numbered(i + 1).String()
	}
	p := w.want(http.StatusOK, "POST", "/api/v1/bulk/preview", map[string]any{"direction": "suspend", "iccids": list})
	if p["sims"] != 1.0 || p["bad_rows"] != float64(store.MaxBulk-1) || len(p["bad"].([]any)) != 100 {
		t.Errorf("%v SIMs, %v bad rows", p["sims"], p["bad_rows"])
	}
}

func TestI6ABulkListTakesNumbersWithoutCheckDigit(t *testing.T) {
	w, a, _ := fleet(t)
	const bare = "898604A400000000001" // with letters no check digit can be told apart from a number
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddSIMs(ctx, a, []store.NewSIM{{ICCID: simwarden.MustParseICCID(bare + "1")}, {ICCID: simwarden.MustParseICCID(bare + "2")}}, 0)
		return err
	})
	p := w.want(http.StatusOK, "POST", "/api/v1/bulk/preview", map[string]any{"direction": "suspend", "iccids": append([]string{bare, bare + "2"}, alternates(1)...)})
	if p["sims"] != 2.0 || p["bad_rows"] != 1.0 || !strings.Contains(texts(at(t, p, "bad", 0, "error")), "more than one card") {
		t.Errorf("one fits two cards, one is exact, one lacks its check digit: %v", p)
	}
}
