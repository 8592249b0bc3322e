package api_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
)

func TestI4ExportsOverTheAPI(t *testing.T) {
	w, a, _ := fleet(t)
	other := w.account("other", nil)
	w.sims(other, 100, 2500) // more than two pages
	w.sim(a, 2, simwarden.StateSuspended)
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"})
	w.want(http.StatusCreated, "POST", "/api/v1/devices", map[string]any{"imei": imei, "name": "=1+1"})
	w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"mode": "observe"})
	w.want(http.StatusOK, "POST", simURL(1, "/suspend"), map[string]any{"reason": "line test"}) // ends at once, as observed
	for _, row := range []struct {
		path  string
		lines int
		has   string
	}{
		{"sims", 1 + 2502, `"'` + numbered(1).String() + `"`},
		{"sims?account=acme", 1 + 2, `"suspended"`},
		{"sims?account=acme&state=active", 1 + 1, `"active"`},
		{"devices", 1 + 1, `"'=1+1"`},
		{"subscriptions?account=acme", 1 + 1, `"basic-30","2026-05-04T12:00:00Z","0","simwarden:1"`},
		{"subscriptions?account=other", 1, `iccid,plan`},
		{"subscriptions?ended=true", 1 + 1, `"active"`},
		{"records?account=acme&iccid=" + numbered(1).String(), 1 + 1, `"observed"`},
		{"records?from=2026-05-05T00:00:00Z", 1, `command_id,`},
		{"usage-days", 1, `iccid,account,day,bytes`},
	} {
		path := "/api/v1/exports/" + row.path
		status, header, text := w.send(http.MethodGet, path, w.token, nil, nil)
		w.holdAgainstDocument(http.MethodGet, path, status, header, text)
		if status != http.StatusOK || strings.Count(string(text), "\r\n") != row.lines || !strings.Contains(string(text), row.has) {
			t.Errorf("%s: HTTP %d, %d lines, want %d and %s:\n%.600s", path, status, strings.Count(string(text), "\r\n"), row.lines, row.has, text)
		}
		if d := header.Get("Content-Disposition"); !strings.HasPrefix(d, "attachment; filename=") || header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v: a browser must keep the file, not show it", path, header)
		}
	}
	for path, want := range map[string]int{
		"sims?account=nobody":      http.StatusNotFound,
		"sims?state=asleep":        http.StatusUnprocessableEntity,
		"sims?ended=true":          http.StatusUnprocessableEntity, // an export knows its own filters alone
		"records?from=yesterday":   http.StatusUnprocessableEntity,
		"records?iccid=89000000":   http.StatusUnprocessableEntity,
		"usage-days?iccid=" + imei: http.StatusUnprocessableEntity,
		"secrets":                  http.StatusNotFound,
		"records?from=2026-05-05T00:00:00Z&until=2026-05-04T00:00:00Z": http.StatusUnprocessableEntity,
	} {
		status, header, text := w.send(http.MethodGet, "/api/v1/exports/"+path, w.token, nil, nil)
		w.wantProblem(path, status, header, text, want)
	}
}
