package api_test

import (
	"net/http"
	"testing"
	"time"
)

func TestM1AWalletIsAdjustedAndMoneyHeldCapturedAndReleased(t *testing.T) {
	w, _ := shop(t)
	adjust := "/api/v1/wallets/anna/adjustments"
	taken := map[string]any{"amount": eur(-150), "note": "counted twice"}
	for range 2 {
		w.once("adjusted", http.StatusCreated, adjust, taken)
	}
	w.balance(1850)
	for _, row := range []struct {
		sentence string
		path     string
		body     map[string]any
		status   int
		code     string
	}{
		{"without a reason", adjust, map[string]any{"amount": eur(1)}, http.StatusUnprocessableEntity, "bad_input"},
		{"of nothing", adjust, map[string]any{"amount": eur(0), "note": "x"}, http.StatusUnprocessableEntity, "amount_invalid"},
		{"in another currency", adjust, map[string]any{"amount": map[string]any{"amount_minor": 1, "currency": "JPY"}, "note": "x"}, http.StatusUnprocessableEntity, "currency_does_not_fit"},
		{"below the credit limit", adjust, map[string]any{"amount": eur(-1851), "note": "x"}, http.StatusPaymentRequired, "insufficient_funds"},
		{"a hold of more than there is", "/api/v1/wallets/anna/holds", map[string]any{"amount": eur(1851), "expires_at": "2026-06-01T00:00:00Z"}, http.StatusPaymentRequired, "insufficient_funds"},
		{"a hold that has ended already", "/api/v1/wallets/anna/holds", map[string]any{"amount": eur(1), "expires_at": "2026-01-01T00:00:00Z"}, http.StatusUnprocessableEntity, "bad_input"},
		{"a hold of a wallet that is not there", "/api/v1/wallets/dora/holds", map[string]any{"amount": eur(1), "expires_at": "2026-06-01T00:00:00Z"}, http.StatusNotFound, "not_found"},
		{"a hold that is not there", "/api/v1/holds/77/release", map[string]any{"reason": "x"}, http.StatusNotFound, "not_found"},
	} {
		if got := w.want(row.status, "POST", row.path, row.body); got["code"] != row.code {
			t.Errorf("%s: %v, want %s", row.sentence, got["code"], row.code)
		}
	}
	w.balance(1850)

	expires := w.clock.Now().Add(24 * time.Hour).Format(time.RFC3339)
	hold := map[string]any{"amount": eur(1000), "expires_at": expires, "note": "order 7"}
	placed := w.once("held", http.StatusCreated, "/api/v1/wallets/anna/holds", hold)
	if again := w.once("held", http.StatusCreated, "/api/v1/wallets/anna/holds", hold); again["id"] != placed["id"] {
		t.Errorf("F51: held twice: %v and %v", placed, again)
	}
	w.balance(850)
	sub := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid"})
	pay := map[string]any{"subscription_id": sub["id"], "amount": eur(990)}
	if got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/holds/1/capture", map[string]any{"subscription_id": sub["id"], "amount": eur(1001)}); got["code"] != "above_hold" {
		t.Errorf("more than is held: %v", got)
	}
	if got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/holds/1/capture", map[string]any{"subscription_id": sub["id"],
		"amount": map[string]any{"amount_minor": 1, "currency": "CNY"}}); got["code"] != "currency_does_not_fit" {
		t.Errorf("another currency: %v", got)
	}
	w.want(http.StatusNotFound, "POST", "/api/v1/holds/1/capture", map[string]any{"subscription_id": 4711})
	for range 2 {
		w.once("captured", http.StatusOK, "/api/v1/holds/1/capture", pay)
	}
	w.balance(860) // 10 cents went back
	if got := w.want(http.StatusConflict, "POST", "/api/v1/holds/1/release", map[string]any{"reason": "too late"}); got["code"] != "hold_ended" {
		t.Errorf("released after it was captured: %v", got)
	}
	w.want(http.StatusCreated, "POST", "/api/v1/wallets/anna/holds", map[string]any{"amount": eur(100), "expires_at": expires})
	w.balance(760)
	w.want(http.StatusOK, "POST", "/api/v1/holds/2/release", map[string]any{"reason": "order cancelled"})
	w.balance(860)
	list := w.want(http.StatusOK, "GET", "/api/v1/wallets/anna/holds", nil)["items"].([]any)
	if len(list) != 2 || list[0].(map[string]any)["state"] != "released" || list[1].(map[string]any)["captured_minor"] != 990.0 {
		t.Errorf("the holds are %v", list)
	}
	for action, want := range map[string]int{"adjustment": 1, "hold": 2, "capture": 1, "release": 1} {
		if n := w.rows(`SELECT count(*) FROM audit WHERE action = $1`, action); n != want {
			t.Errorf("R2: %d audit rows of action %s, want %d", n, action, want)
		}
	}
}
