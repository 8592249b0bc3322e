package api_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
)

const imei = "490154203237518"

func TestADeviceFromItsFirstSIMToItsPlansEnd(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	mode := simwarden.ModeAct
	if _, err := w.service.ChangeAccount(t.Context(), "acme", api.AccountChange{Mode: &mode}, "cli:test"); err != nil {
		t.Fatal(err)
	}
	w.sim(a, 1, simwarden.StateActive)
	w.sim(a, 2, simwarden.StateActive)
	w.plan("month", simwarden.UnlimitedBytes, 30)
	card, other := numbered(1).String(), numbered(2).String()

	w.want(http.StatusCreated, "POST", "/api/v1/devices", map[string]any{"imei": imei, "name": "pump 7"})
	if got := w.want(http.StatusConflict, "POST", "/api/v1/devices", map[string]any{"imei": imei[:14] + "01"}); got["code"] != "device_exists" {
		t.Errorf("one device twice, by its IMEISV: %v", got)
	}
	for _, iccid := range []string{card, other} {
		w.want(http.StatusOK, "POST", "/api/v1/devices/"+imei+"/sims", map[string]any{"iccid": iccid, "reason": "fitted"})
	}
	if got := w.want(http.StatusConflict, "POST", "/api/v1/devices/"+imei+"/sims", map[string]any{"iccid": card, "reason": "again"}); got["code"] != "bound_already" {
		t.Errorf("a SIM bound twice: %v", got)
	}
	w.want(http.StatusCreated, "POST", "/api/v1/devices/"+imei+"/subscriptions", map[string]any{"plan": "month"})
	w.want(http.StatusOK, "POST", "/api/v1/devices/"+imei+"/polling/pause", map[string]any{"reason": "workshop"})
	w.settle()
	got := w.want(http.StatusOK, "GET", "/api/v1/sims/"+card+"/explain", nil)
	if at(t, got, "device", "imei") != imei || at(t, got, "device", "paused_by") != "token:anna" || at(t, got, "decision", "because") != "device_polling_paused" {
		t.Errorf("R5: explain does not show the device and its pause: %v", got["device"])
	}
	w.clock.Advance(30 * 24 * time.Hour)
	w.settle()
	if n := w.rows(`SELECT count(*) FROM command WHERE scene = 'plan_lapsed' AND direction = 'suspend'`); n != 2 {
		t.Errorf("S11, S20: %d suspends at the device's plan's end, want one for each SIM", n)
	}
	w.want(http.StatusOK, "POST", "/api/v1/devices/"+imei+"/polling/resume", map[string]any{"reason": "back"})
	w.want(http.StatusOK, "POST", "/api/v1/devices/"+imei+"/sims/"+card+"/unbind", map[string]any{"reason": "taken out"})
	if got := w.want(http.StatusConflict, "POST", "/api/v1/devices/"+imei+"/sims/"+card+"/unbind", map[string]any{"reason": "again"}); got["code"] != "not_bound" {
		t.Errorf("a SIM taken out twice: %v", got)
	}
	got = w.want(http.StatusOK, "GET", "/api/v1/devices/"+imei, nil)
	if cards := got["cards"].([]any); len(cards) != 1 || got["sims"] != 1.0 || len(got["subscriptions"].([]any)) != 1 {
		t.Errorf("the device is %v", got)
	}
	for path, want := range map[string]int{"/api/v1/devices/" + imei + "/bindings": 2, "/api/v1/sims/" + card + "/bindings": 1, "/api/v1/devices?search=49": 1, "/api/v1/devices?paused=true": 0} {
		if list := w.want(http.StatusOK, "GET", path, nil)["items"].([]any); len(list) != want {
			t.Errorf("%s has %d rows, want %d", path, len(list), want)
		}
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE actor = 'token:anna' AND action IN ('device_add', 'device_bind', 'device_unbind', 'device_polling_pause', 'device_polling_resume')`); n != 6 {
		t.Errorf("%d rows of audit, want six (R2)", n)
	}
}

func TestE2ARealNameIsSetByHandAndThePolicyChanged(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	w.sim(a, 1, simwarden.StateActive)
	card := numbered(1).String()
	for _, row := range []struct {
		status string
		want   int
	}{{"verified", http.StatusOK}, {"unknown", http.StatusUnprocessableEntity}, {"", http.StatusUnprocessableEntity}} {
		w.want(row.want, "POST", "/api/v1/sims/"+card+"/realname", map[string]any{"realname": row.status, "reason": "passport seen"})
	}
	if got := w.want(http.StatusOK, "POST", "/api/v1/sims/"+card+"/realname", map[string]any{"realname": "verified", "reason": "again"}); got["changed"] != false || at(t, got, "sim", "realname") != "verified" {
		t.Errorf("the same again: %v", got)
	}
	if n := w.rows(`SELECT count(*) FROM evaluation_request WHERE scene = 'realname_activated'`); n != 1 {
		t.Errorf("%d evaluations were asked for, want one", n)
	}
	w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"realname_required": true})
	w.want(http.StatusOK, "PATCH", "/api/v1/accounts/acme", map[string]any{"realname_required": true}) // the same again asks for nothing
	for range 2 {
		if _, err := w.eval.StepAccount(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	list := w.want(http.StatusOK, "GET", "/api/v1/accounts/acme/evaluations", nil)["items"].([]any)
	if len(list) != 1 {
		t.Fatalf("%d evaluations of the account, want one", len(list))
	}
	if v := list[0].(map[string]any); v["total"] != 1.0 || v["done"] != 1.0 || v["finished_at"] == nil || v["scene"] != "realname_policy_changed" {
		t.Errorf("S19: the progress is %v", v)
	}
}
