package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
)

// failedChange writes an attempt that ended in an error.
func (w *world) failedChange(sim simwarden.SIMID, d simwarden.Direction, status int, code, message, class string, ago time.Duration) {
	w.t.Helper()
	at := noon.Add(-ago)
	w.rows(`WITH c AS (INSERT INTO command (sim_id, account_id, direction, scene, reason, cause_kind, cause_id, asked_by, decision, state, run_at, created_at, updated_at)
			SELECT id, account_id, $2, 'manual', 'manual_hold', 'person', id, 'cli:test', '{}', 'failed', $7, $7, $7 FROM sim WHERE id = $1 RETURNING id),
		a AS (INSERT INTO attempt (command_id, sim_id, number, request_id, scene, facts, decision, claimed_at, deadline_at, ended_at, outcome, class, http_status, code, message)
			SELECT id, $1, 1, gen_random_uuid()::text, 'manual', '{}', '{}', $7, $7, $7, 'error', $6, $3, $4, $5 FROM c RETURNING 1)
		SELECT count(*) FROM a`, sim, string(d), status, code, message, class, at)
}

func TestG7ARuleThatMatchesEverythingIsToldWithWhatItWouldHaveChanged(t *testing.T) {
	w, _, id := fleet(t)
	w.failedChange(id, simwarden.DirectionSuspend, 403, "X9", "denied by policy", "refused", time.Hour)
	w.failedChange(id, simwarden.DirectionSuspend, 403, "X9", "denied by policy", "refused", 2*time.Hour)
	w.failedChange(id, simwarden.DirectionResume, 503, "", "busy", "unknown_outcome", 3*time.Hour)
	w.failedChange(id, simwarden.DirectionSuspend, 403, "X9", "denied by policy", "refused", 25*time.Hour)
	w.want(http.StatusOK, "POST", "/api/v1/error-rules", map[string]any{"driver": "soracom", "name": "narrow", "position": 600, "code": "X1", "class": "invalid"})
	all := map[string]any{"driver": "soracom", "name": "all", "position": 1, "class": "throttled", "dry_run": true}
	got := w.want(http.StatusOK, "POST", "/api/v1/error-rules", all)
	warnings := texts(got["warnings"])
	if !strings.Contains(warnings, "it matches every error there is") || !strings.Contains(warnings, `never asked any more, since it matches all that they do: "narrow"`) {
		t.Errorf("the warnings are %v", warnings)
	}
	effect := got["last_day"].(map[string]any)
	if effect["failed_changes"] != 3.0 || effect["classified_otherwise"] != 2.0 || at(t, effect, "shifts", 0, "from") != "refused" || at(t, effect, "shifts", 0, "to") != "throttled" ||
		at(t, effect, "shifts", 0, "times") != 2.0 || !strings.Contains(texts(at(t, effect, "shifts", 0, "example")), "denied by policy") {
		t.Errorf("of the last day it would have changed %v; a 503 after a resume stays unknown whatever a rule says (C6)", effect)
	}
	if n := w.rows(`SELECT (SELECT count(*) FROM error_rule WHERE name = 'all') + (SELECT count(*) FROM audit WHERE action LIKE 'error\_rule%')`); n != 1 {
		t.Errorf("a dry run wrote something: %d rows", n)
	}
	all["dry_run"] = false
	got = w.want(http.StatusOK, "POST", "/api/v1/error-rules", all)
	if at(t, got, "rule", "origin") != "operator" || at(t, got, "rule", "id") == 0.0 {
		t.Errorf("it was not saved: %v", got)
	}
	test := w.want(http.StatusOK, "POST", "/api/v1/error-rules/test", map[string]any{"driver": "soracom", "operation": "suspend", "http_status": 403})
	if test["rule"] != "all" {
		t.Errorf("the tester says %v", test)
	}
}

// failedReads counts calls of the account with the SIM that ended in a class an hour ago.
func (w *world) failedReads(sim simwarden.SIMID, op simwarden.Operation, class string, calls int) {
	w.t.Helper()
	w.rows(`WITH c AS (INSERT INTO call_stat (minute_at, account_id, operation, purpose, outcome, calls, latency_ms)
		SELECT $5, account_id, $2, 'poll', $3, $4, 0 FROM sim WHERE id = $1 RETURNING 1) SELECT count(*) FROM c`, sim, string(op), class, calls, noon.Add(-time.Hour))
}

func TestG7ARuleThatWouldStopTheAccountAtItsFirstFailedReadSaysSo(t *testing.T) {
	w, _, id := fleet(t)
	w.failedReads(id, simwarden.OpQueryState, "temporary", 5)
	w.failedReads(id, simwarden.OpQueryUsage, "throttled", 3)
	w.failedReads(id, simwarden.OpQueryUsage, "auth", 2)
	w.failedReads(id, simwarden.OpQueryUsage, "ok", 100)
	w.failedReads(id, simwarden.OpSuspend, "temporary", 7) // a change: its attempts tell of it
	for _, row := range []struct {
		sentence string
		rule     map[string]any
		most     float64
		stops    bool
	}{
		{"of everything: all that are not auth already", map[string]any{"class": "auth"}, 8, true},
		{"of one operation", map[string]any{"class": "auth", "operation": "query_state"}, 5, true},
		{"another class stops nothing", map[string]any{"class": "throttled"}, 7, false},
		{"of changes alone: no read", map[string]any{"class": "auth", "applies_to": "changes"}, 0, false},
	} {
		row.rule["driver"], row.rule["name"], row.rule["position"], row.rule["dry_run"] = "soracom", "all", 1, true
		got := w.want(http.StatusOK, "POST", "/api/v1/error-rules", row.rule)
		effect := got["last_day"].(map[string]any)
		if effect["failed_reads"] != 10.0 || effect["reads_classified_otherwise_at_most"] != row.most {
			t.Errorf("%s: %v, want at most %v of 10 reads", row.sentence, effect, row.most)
		}
		if stops := strings.Contains(texts(got["warnings"]), fmt.Sprintf("stops all calls of its account, until a person starts it; up to %.0f", row.most)); stops != row.stops {
			t.Errorf("%s: the warnings are %v", row.sentence, got["warnings"])
		}
	}
}

func TestG6ARuleIsAddedChangedMovedAndDeleted(t *testing.T) {
	w, _, _ := fleet(t)
	added := w.want(http.StatusOK, "POST", "/api/v1/error-rules", map[string]any{"driver": "soracom", "name": "risk", "operation": "resume", "http_status": 4,
		"contains": "risk", "class": "risk_suspended", "extended_state": "risk_suspended", "close_polling": true})
	if at(t, added, "rule", "position") != 500.0 || len(added["warnings"].([]any)) != 0 {
		t.Errorf("added as %v", added)
	}
	path := fmt.Sprintf("/api/v1/error-rules/%.0f", at(t, added, "rule", "id"))
	if got := w.want(http.StatusConflict, "POST", "/api/v1/error-rules", map[string]any{"driver": "soracom", "name": "risk", "class": "auth"}); got["code"] != "error_rule_exists" {
		t.Errorf("a second of its name: %v", got)
	}
	changed := w.want(http.StatusOK, "PUT", path, map[string]any{"name": "risk", "pattern": "(?i)risk (stop|hold)", "class": "refused", "applies_to": "changes"})
	if at(t, changed, "rule", "position") != 500.0 || at(t, changed, "rule", "class") != "refused" || at(t, changed, "rule", "operation") != nil || at(t, changed, "rule", "applies_to") != "changes" {
		t.Errorf("changed to %v", changed)
	}
	if moved := w.want(http.StatusOK, "POST", path+"/move", map[string]any{"position": 7}); at(t, moved, "rule", "position") != 7.0 {
		t.Errorf("moved to %v", moved)
	}
	list := w.want(http.StatusOK, "GET", "/api/v1/error-rules?driver=soracom", nil)
	if at(t, list, "items", 0, "name") != "risk" || at(t, list, "items", 0, "position") != 7.0 {
		t.Errorf("it is not first: %v", list)
	}
	w.want(http.StatusOK, "DELETE", path+"?dry_run=true", nil)
	w.want(http.StatusOK, "DELETE", path, nil)
	w.want(http.StatusNotFound, "DELETE", path, nil)
	w.want(http.StatusNotFound, "PUT", path, map[string]any{"name": "risk", "class": "auth"})
	w.want(http.StatusNotFound, "POST", path+"/move", map[string]any{"position": 7})
	for _, action := range []string{"add", "change", "move", "delete"} {
		if n := w.rows(`SELECT count(*) FROM audit WHERE actor = 'token:anna' AND action = 'error_rule_' || $1`, action); n != 1 {
			t.Errorf("%d audit rows of %s, want 1 (R2)", n, action)
		}
	}
}

func TestG7ARuleSaysWhatItHidesAndWhatHidesIt(t *testing.T) {
	w, _, _ := fleet(t)
	add := func(words map[string]any) string {
		t.Helper()
		words["driver"] = "supersim"
		return texts(w.want(http.StatusOK, "POST", "/api/v1/error-rules", words)["warnings"])
	}
	for _, row := range []struct {
		sentence string
		words    map[string]any
		says     []string // none: no warning
	}{
		{"a rule of its own", map[string]any{"name": "a", "position": 50, "http_status": 404, "contains": "gone for good", "class": "not_found"}, nil},
		{"another code hides nothing", map[string]any{"name": "b", "position": 40, "code": "9404", "class": "not_found"}, nil},
		{"a part of its text hides the first", map[string]any{"name": "c", "position": 45, "http_status": 4, "contains": "GONE", "class": "not_found"}, []string{`matches all that they do: "a"`}},
		{"one behind it is hidden", map[string]any{"name": "d", "position": 60, "http_status": 410, "contains": "gone", "class": "not_found"}, []string{`never asked: "c" at position 45`}},
		{"a pattern that takes every text", map[string]any{"name": "e", "position": 70, "pattern": "(?s).*", "operation": "suspend", "class": "auth"}, []string{"every error of suspend"}},
		{"for reads alone", map[string]any{"name": "f", "position": 80, "applies_to": "reads", "class": "temporary"}, []string{"everything but suspend and resume"}},
		{"one for resume is not hidden by those", map[string]any{"name": "g", "position": 90, "operation": "resume", "code": "77", "class": "refused"}, nil},
	} {
		got := add(row.words)
		if len(row.says) == 0 && got != "[]" {
			t.Errorf("%s: %s", row.sentence, got)
		}
		for _, want := range row.says {
			if !strings.Contains(got, want) {
				t.Errorf("%s: %s, want %q", row.sentence, got, want)
			}
		}
	}
}

func TestF47ARuleBeyondTheBoundsIsRefusedInWords(t *testing.T) {
	w, _, _ := fleet(t)
	for _, row := range []struct {
		sentence string
		words    map[string]any
		says     string
	}{
		{"a costly pattern", map[string]any{"pattern": `((a{0,100}){0,10})*b`}, "at most 1000 are allowed"},
		{"a pattern that is none", map[string]any{"pattern": `(`}, "read the pattern"},
		{"a long pattern", map[string]any{"pattern": strings.Repeat("a", 257)}, "validation"},
		{"no such class", map[string]any{"class": "flaky"}, "flaky"},
		{"no such operation", map[string]any{"operation": "reboot"}, "reboot"},
		{"no such driver", map[string]any{"driver": "none"}, "soracom"},
		{"no such status", map[string]any{"http_status": 42}, "42"},
		{"a name of blanks", map[string]any{"name": "  "}, "name"},
	} {
		words := map[string]any{"driver": "soracom", "name": "r", "class": "temporary"}
		for k, v := range row.words {
			words[k] = v
		}
		got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/error-rules", words)
		if !strings.Contains(texts(got["detail"]), row.says) {
			t.Errorf("%s: %v, want %q", row.sentence, got["detail"], row.says)
		}
	}
	if n := w.rows(`SELECT count(*) FROM error_rule WHERE origin = 'operator'`); n != 0 {
		t.Errorf("%d rules were saved", n)
	}
}
