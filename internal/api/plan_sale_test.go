package api_test

import (
	"fmt"
	"net/http"
	"testing"
)

func TestL4APlanIsRenamedPricedAndWithdrawn(t *testing.T) {
	w, _ := shop(t)
	got := w.want(http.StatusOK, "PATCH", "/api/v1/plans/paid", map[string]any{"name": "Paid well", "price": eur(1500)})
	if got["name"] != "Paid well" || got["price_minor"] != 1500.0 || got["allowance_bytes"] != -1.0 {
		t.Errorf("the plan: %v", got)
	}
	first := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid", "pay": true})
	w.balance(500)
	if got := w.want(http.StatusOK, "PATCH", "/api/v1/plans/paid", map[string]any{"withdrawn": true}); got["withdrawn_at"] != "2026-05-04T12:00:00Z" {
		t.Errorf("withdrawn: %v", got)
	}
	if got := w.want(http.StatusConflict, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid"}); got["code"] != "plan_withdrawn" {
		t.Errorf("sold all the same: %v", got)
	}
	if got := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/subscriptions/%v", first["id"]), nil); got["state"] != "active" {
		t.Errorf("what was bought runs on: %v", got)
	}
	w.want(http.StatusOK, "PATCH", "/api/v1/plans/paid", map[string]any{"withdrawn": false})
	if got := w.want(http.StatusOK, "GET", "/api/v1/plans/paid", nil); got["withdrawn_at"] != nil {
		t.Errorf("sold again: %v", got)
	}
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid"})
	w.want(http.StatusNotFound, "PATCH", "/api/v1/plans/nothing", map[string]any{"withdrawn": true})
	if got := w.want(http.StatusUnprocessableEntity, "PATCH", "/api/v1/plans/paid", map[string]any{"price": eur(-1)}); got["code"] != "plan_invalid" {
		t.Errorf("a price below zero: %v", got)
	}
	w.want(http.StatusUnprocessableEntity, "PATCH", "/api/v1/plans/paid", map[string]any{"allowance_bytes": 5}) // another plan
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'plan_change'`); n != 3 {
		t.Errorf("%d audit rows, want 3 (R2)", n)
	}
}

func TestL4AQueuedSubscriptionIsCancelledAndItsMoneyGoesBack(t *testing.T) {
	w, id := shop(t)
	running := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid", "pay": true})
	queued := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid", "pay": true})
	w.balance(2000 - 2*990)
	path := func(b map[string]any) string { return fmt.Sprintf("/api/v1/subscriptions/%v/cancel", b["id"]) }
	if got := w.want(http.StatusConflict, "POST", path(running), map[string]any{"reason": "x"}); got["code"] != "begun_already" {
		t.Errorf("one that runs: %v", got)
	}
	body := map[string]any{"reason": "changed their mind"}
	first := w.once("c", http.StatusOK, path(queued), body)
	if first["state"] != "cancelled" || at(t, first, "refund", "amount_minor") != 990.0 {
		t.Errorf("cancelled: %v", first)
	}
	w.once("c", http.StatusOK, path(queued), body)
	w.balance(2000 - 990)
	if got := w.want(http.StatusConflict, "POST", path(queued), body); got["code"] != "ended_already" {
		t.Errorf("once more without a key: %v", got)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'cancel_subscription' AND sim_id = $1`, id); n != 1 {
		t.Errorf("%d audit rows, want 1 (R2)", n)
	}
	w.settle()
	if got := w.want(http.StatusOK, "GET", simURL(1, ""), nil); got["desired"] != "running" {
		t.Errorf("its SIM runs on with the plan that runs: %v", got)
	}
}
