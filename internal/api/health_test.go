package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"
)

func TestG8AnAccountAtRestIsShownAndExplained(t *testing.T) {
	w, _, _ := fleet(t)
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"})
	w.settle()
	w.clock.Set(noon.AddDate(0, 0, 30))
	w.settle()
	w.rows(`WITH c AS (UPDATE command SET held_by = 'account at rest' WHERE state = 'queued' RETURNING account_id), r AS (
		INSERT INTO account_rest (account_id, direction, since_at, because, probe_at) SELECT account_id, 'suspend', $1::timestamptz, 'account barred', $1 + interval '1 hour' FROM c)
		SELECT count(*) FROM c`, w.clock.Now())
	w.rows(`WITH b AS (INSERT INTO account_breaker (account_id, holder, since_at, probe_at, because, seen_at)
		SELECT account_id, 'node-b', $1::timestamptz, $1 + interval '9 seconds', 'HTTP 503 for all', $1 FROM account_rest RETURNING 1) SELECT count(*) FROM b`, w.clock.Now())
	w.clock.Advance(time.Second)

	got := w.want(http.StatusOK, "GET", simURL(1, "/explain"), nil)
	contains(t, "the summary", fmt.Sprint(got["summary"]), "waiting for: account at rest", "keeps failing since", "HTTP 503 for all")
	contains(t, "what is next", fmt.Sprint(got["next"]), "a suspend of one SIM of account", "account barred", "asked by a single call of node node-b")

	account := at(t, got, "account", "name").(string)
	list := w.want(http.StatusOK, "GET", "/api/v1/accounts", nil)
	one := w.want(http.StatusOK, "GET", "/api/v1/accounts/"+account, nil)
	for _, a := range []any{at(t, list, "items", 0), one} {
		m := a.(map[string]any)
		if at(t, m, "rests", 0, "direction") != "suspend" || at(t, m, "rests", 0, "probe_at") != noon.AddDate(0, 0, 30).Add(time.Hour).Format(time.RFC3339) {
			t.Errorf("rests %v", m["rests"])
		}
		if at(t, m, "breakers", 0, "node") != "node-b" || at(t, m, "breakers", 0, "because") != "HTTP 503 for all" {
			t.Errorf("breakers %v", m["breakers"])
		}
	}
}
