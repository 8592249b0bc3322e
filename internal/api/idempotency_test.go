package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

// keyed sends a POST under an idempotency key as it is.
func (w *world) keyed(key, path, body string) (int, http.Header, string) {
	w.t.Helper()
	status, header, answer := w.send(http.MethodPost, path, w.token, map[string]string{"Idempotency-Key": key}, []byte(body))
	w.holdAgainstDocument(http.MethodPost, path, status, header, answer)
	return status, header, string(answer)
}

func TestF51EachPOSTThatWritesHappensOnceUnderAKey(t *testing.T) {
	w, account, _ := fleet(t)
	w.sims(account, 20, 2)
	w.want(http.StatusCreated, "POST", "/api/v1/devices", map[string]any{"imei": imei})
	for _, row := range []struct {
		path, body, count string // count counts what it makes
	}{
		{"/api/v1/accounts", `{"name": "second", "driver": "soracom", "credentials": {"auth_key_id": "keyId-invented", "auth_key": "secret-invented-0000"}}`, `SELECT count(*) FROM account WHERE name = 'second'`},
		{"/api/v1/limit-groups", `{"name": "shared"}`, `SELECT count(*) FROM limit_group WHERE name = 'shared'`},
		{"/api/v1/plans", `{"code": "gold", "kind": "main", "allowance_bytes": -1, "validity_unit": "days", "validity_count": 30, "reset": "none", "zone": "UTC"}`, `SELECT count(*) FROM plan WHERE code = 'gold'`},
		{"/api/v1/bulk", `{"direction": "suspend", "iccids": ["` + numbered(20).String() + `"], "reason": "line test"}`, `SELECT count(*) FROM bulk_action`},
		{simURL(1, "/subscriptions"), `{"plan": "gold"}`, `SELECT count(*) FROM subscription WHERE plan_id = (SELECT id FROM plan WHERE code = 'gold')`},
		{simURL(1, "/suspend"), `{"reason": "asked by phone"}`, `SELECT count(*) FROM audit WHERE data->>'reason' = 'asked by phone'`},
		{simURL(1, "/polling/pause"), `{"reason": "repair"}`, `SELECT count(*) FROM audit WHERE data->>'reason' = 'repair'`},
		{"/api/v1/devices/" + imei + "/sims", `{"iccid": "` + numbered(21).String() + `", "reason": "fitted"}`, `SELECT count(*) FROM device_sim_history`},
		{"/api/v1/error-rules", `{"driver": "soracom", "name": "night", "code": "X1", "class": "maintenance"}`, `SELECT count(*) FROM error_rule WHERE name = 'night'`},
		{"/api/v1/wallets", `{"name": "anna", "credit_limit": {"amount_minor": 0, "currency": "EUR"}}`, `SELECT count(*) FROM wallet`},
		{"/api/v1/wallets/anna/top-ups", `{"amount": {"amount_minor": 500, "currency": "EUR"}}`, `SELECT count(*) FROM ledger_transaction WHERE kind = 'top_up'`},
	} {
		key := "key of " + row.path
		status, header, first := w.keyed(key, row.path, row.body)
		if status/100 != 2 || header.Get("Idempotent-Replayed") != "" {
			t.Errorf("POST %s: HTTP %d: %s", row.path, status, first)
			continue
		}
		w.clock.Advance(time.Minute) // an answer made anew would tell of another instant
		again, header, second := w.keyed(key, row.path, strings.ReplaceAll(row.body, `": `, "\":\n "))
		if again != status || second != first || header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("POST %s again: HTTP %d, replayed %q\n%s\nfirst\n%s", row.path, again, header.Get("Idempotent-Replayed"), second, first)
		}
		if n := w.rows(row.count); n != 1 {
			t.Errorf("POST %s twice has made %d, want 1", row.path, n)
		}
		other := strings.Replace(row.body, "{", `{"x_other": 1, `, 1)
		if status, header, text := w.send(http.MethodPost, row.path, w.token, map[string]string{"Idempotency-Key": key}, []byte(other)); status != http.StatusUnprocessableEntity {
			t.Errorf("POST %s with a field that is unknown: HTTP %d %v %s", row.path, status, header, text)
		}
	}
	if n := w.rows(`SELECT count(*) FROM idempotency_key`); n != 11 {
		t.Errorf("%d keys are kept, want 11", n)
	}
}

func TestF51AKeyIsOneRequestOfOnePrincipalForAWeek(t *testing.T) {
	w := newWorld(t)
	group := func(name string) string { return fmt.Sprintf(`{"name": %q}`, name) }
	const path = "/api/v1/limit-groups"
	first, _, _ := w.keyed("k", path, group("one"))
	status, header, text := w.keyed("k", path, group("two"))
	w.wantProblem("another body", status, header, []byte(text), http.StatusConflict)
	contains(t, "another body", text, "key_reused")
	status, header, text = w.keyed("k", "/api/v1/wallets", `{"name": "one", "credit_limit": {"amount_minor": 0, "currency": "EUR"}}`)
	w.wantProblem("another path", status, header, []byte(text), http.StatusConflict)
	if first != http.StatusCreated || w.rows(`SELECT count(*) FROM limit_group`)+w.rows(`SELECT count(*) FROM wallet`) != 1 {
		t.Error("the other requests were carried out")
	}
	// A request that was refused has used no key.
	if status, _, _ := w.keyed("r", path, group("one")); status != http.StatusConflict {
		t.Errorf("a second group of the name: HTTP %d", status)
	}
	if status, _, _ := w.keyed("r", path, group("three")); status != http.StatusCreated {
		t.Errorf("the key of a refused request, used again: HTTP %d", status)
	}
	// Another token's key has nothing to do with it.
	made, err := w.service.CreateToken(t.Context(), "ben", "cli:test")
	if err != nil {
		t.Fatal(err)
	}
	mine := w.token
	w.token = made.Text
	if status, _, _ := w.keyed("k", path, group("four")); status != http.StatusCreated {
		t.Errorf("somebody else's key: HTTP %d", status)
	}
	w.token = mine
	w.clock.Advance(api.KeepAnswers + time.Second)
	if status, _, _ := w.keyed("k", path, group("five")); status != http.StatusCreated {
		t.Errorf("the key after its time: HTTP %d", status)
	}
	if n, err := w.store.DropKeptAnswers(t.Context(), w.clock.Now().Add(-api.KeepAnswers), 10); err != nil || n != 2 {
		t.Errorf("dropped %d old answers, %v; want 2", n, err)
	}
}

func TestF51AKeyInFlightIsRefused(t *testing.T) {
	w := newWorld(t)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := tx.TakeKey(ctx, "token:anna", "k", tx.At.Add(-time.Hour)); err == nil {
			t.Error("a key that was never used has an answer")
		}
		status, header, text := w.keyed("k", "/api/v1/limit-groups", `{"name": "one"}`)
		w.wantProblem("while the key is taken", status, header, []byte(text), http.StatusConflict)
		contains(t, "while the key is taken", text, "key_in_flight")
		return nil
	})
	if status, _, _ := w.keyed("k", "/api/v1/limit-groups", `{"name": "one"}`); status != http.StatusCreated {
		t.Errorf("afterwards: HTTP %d, want 201", status)
	}
}

func TestF51ManyAtOnceHaveOneEffect(t *testing.T) {
	w := newWorld(t)
	w.want(http.StatusCreated, "POST", "/api/v1/wallets", map[string]any{"name": "anna", "credit_limit": eur(0)})
	body, _ := json.Marshal(map[string]any{"amount": eur(100)})
	var wait sync.WaitGroup
	answers := make([]string, 8)
	for i := range answers {
		wait.Go(func() {
			for { // a client that is told to wait asks again
				status, _, text := w.send(http.MethodPost, "/api/v1/wallets/anna/top-ups", w.token, map[string]string{"Idempotency-Key": "k"}, body)
				if answers[i] = string(text); status != http.StatusConflict || !strings.Contains(answers[i], "key_in_flight") {
					return
				}
			}
		})
	}
	wait.Wait()
	for _, a := range answers {
		if a != answers[0] {
			t.Errorf("answers differ: %s and %s", a, answers[0])
		}
	}
	w.balance(100)
}
