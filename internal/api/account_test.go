package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

const canary = "canary-credential-0815"

func TestAnAccountIsAddedWithItsCredentialsSealed(t *testing.T) {
	w := newWorld(t)
	status, _, text := w.send("POST", "/api/v1/accounts", w.token, nil, []byte(`{"name": "acme", "driver": "soracom", "zone": "Asia/Tokyo",
		"settings": {"region": "global"}, "realname_required": true, "state_every_seconds": 60,
		"credentials": {"auth_key_id": "keyId-x", "auth_key": "`+canary+`"}}`))
	if status != http.StatusCreated {
		t.Fatalf("HTTP %d: %s", status, text)
	}
	if strings.Contains(string(text), canary) {
		t.Error("the answer shows a credential (B10)")
	}
	got := w.want(http.StatusOK, "GET", "/api/v1/accounts/acme", nil)
	if got["mode"] != "observe" || got["state_every_seconds"] != 60.0 || got["realname_required"] != true || at(t, got, "settings", "region") != "global" {
		t.Errorf("not as asked, in observe mode (C9): %v", got)
	}
	a, err := w.service.Account(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := w.store.AccountCredential(t.Context(), a.ID)
	if err != nil || strings.Contains(string(sealed), canary) {
		t.Fatalf("the credential is not sealed: %v", err)
	}
	plain, err := w.service.Keyring.Open("account", strconv.FormatInt(int64(a.ID), 10), sealed)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	if err := json.Unmarshal(plain, &values); err != nil || values["auth_key"] != canary || values["auth_key_id"] != "keyId-x" {
		t.Errorf("not the object of names and values: %v, %d names", err, len(values))
	}
	if n := w.rows(`SELECT count(*) FROM (SELECT x::text FROM audit x UNION ALL SELECT x::text FROM event x UNION ALL SELECT x::text FROM account x) all_text (x)
		WHERE x LIKE '%' || $1 || '%'`, canary); n != 0 {
		t.Errorf("the credential is in the database in clear %d times (B10)", n)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'account_add' AND actor = 'token:anna' AND data->'credentials' = '["auth_key", "auth_key_id"]'`); n != 1 {
		t.Error("the audit row does not name who added it and which credentials (R2)")
	}
	if got := w.want(http.StatusConflict, "POST", "/api/v1/accounts", map[string]any{"name": "acme", "driver": "soracom",
		"credentials": map[string]string{"auth_key_id": "a", "auth_key": "b"}}); got["code"] != "account_exists" {
		t.Errorf("a name twice: %v", got)
	}
}

func TestAnAccountThatCannotWorkIsRefused(t *testing.T) {
	w := newWorld(t)
	good := func() map[string]any {
		return map[string]any{"name": "acme", "driver": "soracom", "credentials": map[string]any{"auth_key_id": "keyId-x", "auth_key": canary}}
	}
	for _, row := range []struct {
		sentence string
		field    string
		value    any
		says     string
	}{
		{"a driver that is not there", "driver", "pigeon", "there are: soracom, supersim"},
		{"a credential that is missing", "credentials", map[string]any{"auth_key_id": "keyId-x"}, `"auth_key" is missing`},
		{"a credential that is empty", "credentials", map[string]any{"auth_key_id": "keyId-x", "auth_key": ""}, `"auth_key" is missing`},
		{"a credential of another carrier", "credentials", map[string]any{"auth_key_id": "x", "auth_key": canary, "password": canary}, "takes: auth_key_id, auth_key"},
		{"a credential that is a number", "credentials", map[string]any{"auth_key_id": 7, "auth_key": canary}, "validation"},
		{"a credential that is what we print for one", "credentials", map[string]any{"auth_key_id": "x", "auth_key": secret.Redacted}, "validation"},
		{"a setting that the driver has not", "settings", map[string]any{"colour": "red"}, "takes: region"},
		{"a setting that the driver refuses", "settings", map[string]any{"region": "mars"}, "japan or global"},
		{"a zone that does not exist", "zone", "Mars/Olympus", "Asia/Shanghai"},
		{"plain HTTP to another machine", "base_url", "http://carrier.example/v1", "https"},
		{"a URL with a password in it", "base_url", "https://user:" + canary + "@carrier.example/v1", "neither user nor query"},
		{"a URL that is none", "base_url", "carrier", "https://host/path"},
		{"a name with a slash", "name", "a/b", "letters, digits"},
		{"a name that is empty", "name", "", "validation"},
		{"a policy that does not exist", "unplanned", "burn", "leave, suspend"},
		{"a drift policy that does not exist", "drift_policy", "burn", "enforce, alert, adopt"},
		{"a limit group that is not there", "limit_group", "nobody", `"nobody"`},
		{"an interval of 31 days", "state_every_seconds", 31 * 86400, "validation"},
		{"a field that does not exist (F56)", "colour", "red", "validation"},
	} {
		body := good()
		body[row.field] = row.value
		status, got := w.call("POST", "/api/v1/accounts", body)
		text := fmt.Sprint(got)
		if status < 400 || status >= 500 || !strings.Contains(fmt.Sprint(got["detail"]), row.says) {
			t.Errorf("%s: HTTP %d %v, want a refusal with %q", row.sentence, status, got["detail"], row.says)
		}
		if strings.Contains(text, canary) {
			t.Errorf("%s: the answer has a credential in it: %s", row.sentence, text)
		}
	}
	if n := w.rows(`SELECT count(*) FROM account`) + w.rows(`SELECT count(*) FROM limit_group`); n != 0 {
		t.Errorf("refused accounts left %d rows behind", n)
	}
	if strings.Contains(w.log.String(), canary) {
		t.Error("a credential is in the log (B13)")
	}
	w.want(http.StatusCreated, "POST", "/api/v1/accounts", good())
	lab := good()
	lab["name"], lab["base_url"] = "lab", "http://127.0.0.1:9/soracom"
	w.want(http.StatusCreated, "POST", "/api/v1/accounts", lab)
}

func TestAnAccountIsChangedInPart(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	before, err := w.store.AccountCredential(t.Context(), a.ID)
	if err != nil {
		t.Fatal(err)
	}
	got := w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"mode": "act", "usage_every_seconds": 120, "brake_count": 7})
	if got["mode"] != "act" || got["usage_every_seconds"] != 120.0 || got["state_every_seconds"] != 3600.0 || got["brake_count"] != 7.0 ||
		got["brake_percent"] != 5.0 || got["brake_window_seconds"] != 600.0 {
		t.Errorf("what was asked for and no more: %v", got)
	}
	if same, err := w.store.AccountCredential(t.Context(), a.ID); err != nil || string(same) != string(before) {
		t.Errorf("the credentials were changed too: %v", err)
	}
	w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"fresh_for_seconds": 30, "credentials": map[string]string{"auth_key_id": "keyId-y", "auth_key": canary}})
	if other, err := w.store.AccountCredential(t.Context(), a.ID); err != nil || string(other) == string(before) {
		t.Errorf("the credentials are as before: %v", err)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'account_change' AND actor = 'token:anna'`); n != 2 {
		t.Errorf("%d audit rows for two changes (R2)", n)
	}
	if got := w.want(http.StatusUnprocessableEntity, "PATCH", "/api/v1/accounts/acme", map[string]any{"credentials": map[string]string{"auth_key": canary}}); !strings.Contains(fmt.Sprint(got["detail"]), "auth_key_id") {
		t.Errorf("credentials replace all that are there: %v", got)
	}
	w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{})
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'account_change'`); n != 2 {
		t.Error("a change of nothing was audited")
	}
	list := w.want(http.StatusOK, "GET", "/api/v1/accounts", nil)
	if at(t, list, "items", 0, "fresh_for_seconds") != 30.0 {
		t.Errorf("accounts: %v", list)
	}
}

func TestABrakeIsReleasedAndAStoppedAccountStarted(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.BrakeAccount(ctx, a.ID, "60 suspends")
		_, err2 := tx.StopAccount(ctx, a.ID, "HTTP 401")
		return errors.Join(err, err2,
			tx.Raise(ctx, store.Alert{Kind: store.AlertBrake, Key: fmt.Sprintf("brake:%d", a.ID), AccountID: a.ID, Message: "brake"}),
			tx.Raise(ctx, store.Alert{Kind: store.AlertAuth, Key: fmt.Sprintf("%s:%d", store.AlertAuth, a.ID), AccountID: a.ID, Message: "auth"}))
	})
	for _, row := range []struct{ path, field, action, alert string }{
		{"release-brake", "braked_at", "brake_release", "safety_brake"},
		{"start", "stopped_at", "account_start", "account_auth"},
	} {
		if at(t, w.want(http.StatusOK, "GET", "/api/v1/accounts/acme", nil), row.field) == nil {
			t.Fatalf("%s is not set to begin with", row.field)
		}
		got := w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/"+row.path, map[string]any{"reason": "looked into it"})
		if got["changed"] != true || at(t, got, "account", row.field) != nil {
			t.Errorf("%s: %v", row.path, got)
		}
		if n := w.rows(`SELECT count(*) FROM alert WHERE kind = $1 AND cleared_by = 'token:anna'`, row.alert); n != 1 {
			t.Errorf("%s: the alert is not cleared", row.path)
		}
		if got := w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/"+row.path, nil); got["changed"] != false {
			t.Errorf("%s twice says that it changed something: %v", row.path, got)
		}
		if n := w.rows(`SELECT count(*) FROM audit WHERE action = $1 AND actor = 'token:anna' AND account_id = $2 AND data->>'reason' = 'looked into it'`, row.action, a.ID); n != 1 {
			t.Errorf("%s: %d audit rows, want 1 (R2, C10)", row.path, n)
		}
	}
}

func TestCredentialsNeedAKeyring(t *testing.T) {
	w := newWorld(t)
	without := &api.Service{Store: w.store, Clock: w.clock}
	_, err := without.AddAccount(t.Context(), api.NewAccount{Name: "acme", Driver: "soracom", Credentials: map[string]secret.Secret{
		"auth_key_id": secret.New("x"), "auth_key": secret.New(canary)}}, "cli:test")
	if err == nil || strings.Contains(err.Error(), canary) {
		t.Errorf("without a keyring: %v", err)
	}
	if n := w.rows(`SELECT count(*) FROM account`); n != 0 {
		t.Error("an account without its credentials stayed behind")
	}
}
