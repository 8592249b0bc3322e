package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
)

func eur(minor int) map[string]any { return map[string]any{"amount_minor": minor, "currency": "EUR"} }

// once makes a request under an idempotency key, fails unless the status is the wanted one, and gives
// the decoded body.
func (w *world) once(key string, status int, path string, body any) map[string]any {
	w.t.Helper()
	text, err := json.Marshal(body)
	if err != nil {
		w.t.Fatal(err)
	}
	got, header, answer := w.send(http.MethodPost, path, w.token, map[string]string{"Idempotency-Key": key}, text)
	w.holdAgainstDocument(http.MethodPost, path, got, header, answer)
	if got != status {
		w.t.Fatalf("POST %s with key %s: HTTP %d, want %d: %s", path, key, got, status, answer)
	}
	out := map[string]any{}
	if err := json.Unmarshal(answer, &out); err != nil {
		w.t.Fatal(err)
	}
	return out
}

// shop is a fleet whose SIM 1 is paid by wallet anna, with 20.00 EUR in it, and a plan of 9.90 EUR.
func shop(t *testing.T) (*world, simwarden.SIMID) {
	t.Helper()
	w, _, id := fleet(t)
	w.want(http.StatusCreated, "POST", "/api/v1/plans", map[string]any{"code": "paid", "kind": "main", "allowance_bytes": -1,
		"validity_unit": "days", "validity_count": 30, "reset": "none", "zone": "UTC", "price": eur(990)})
	w.want(http.StatusCreated, "POST", "/api/v1/wallets", map[string]any{"name": "anna", "credit_limit": eur(0)})
	w.want(http.StatusCreated, "POST", "/api/v1/wallets/anna/top-ups", map[string]any{"amount": eur(2000), "note": "payment 7"})
	if got := w.want(http.StatusOK, "POST", simURL(1, "/wallet"), map[string]any{"wallet": "anna"}); got["sim_id"] != float64(id) || got["wallet"] != "anna" {
		t.Fatalf("not assigned: %v", got)
	}
	return w, id
}

func (w *world) balance(want int) {
	w.t.Helper()
	if got := w.want(http.StatusOK, "GET", "/api/v1/wallets/anna", nil); got["balance_minor"] != float64(want) {
		w.t.Errorf("the wallet has %v, want %d", got["balance_minor"], want)
	}
}

func TestM1WalletsAreAddedListedAndLimited(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"ben", "anna", "carl"} {
		got := w.want(http.StatusCreated, "POST", "/api/v1/wallets", map[string]any{"name": name, "credit_limit": eur(500)})
		if got["currency"] != "EUR" || got["balance_minor"] != 0.0 || got["available_minor"] != 500.0 {
			t.Errorf("a new wallet: %v", got)
		}
	}
	first := w.want(http.StatusOK, "GET", "/api/v1/wallets?limit=2", nil)
	if at(t, first, "items", 0, "name") != "anna" || at(t, first, "items", 1, "name") != "ben" || len(first["items"].([]any)) != 2 {
		t.Errorf("the first page: %v", first)
	}
	second := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/wallets?limit=2&cursor=%v", first["next_cursor"]), nil)
	if at(t, second, "items", 0, "name") != "carl" || second["next_cursor"] != nil {
		t.Errorf("the second page: %v", second)
	}
	if got := w.want(http.StatusOK, "PATCH", "/api/v1/wallets/anna", map[string]any{"credit_limit": eur(900)}); got["available_minor"] != 900.0 {
		t.Errorf("the limit was to be 900: %v", got)
	}
	for _, row := range []struct {
		name         string
		status       int
		method, path string
		body         any
		code         string
	}{
		{"a second wallet of the name", http.StatusConflict, "POST", "", map[string]any{"name": "anna", "credit_limit": eur(0)}, "wallet_exists"},
		{"a name that no path can hold", http.StatusUnprocessableEntity, "POST", "", map[string]any{"name": "a/b", "credit_limit": eur(0)}, "bad_input"},
		{"a currency that is none", http.StatusUnprocessableEntity, "POST", "", map[string]any{"name": "d", "credit_limit": map[string]any{"amount_minor": 0, "currency": "ZZZ"}}, "currency_does_not_fit"},
		{"a limit below zero", http.StatusUnprocessableEntity, "POST", "", map[string]any{"name": "d", "credit_limit": eur(-1)}, "amount_invalid"},
		{"a limit in another currency", http.StatusUnprocessableEntity, "PATCH", "/anna", map[string]any{"credit_limit": map[string]any{"amount_minor": 0, "currency": "JPY"}}, "currency_does_not_fit"},
		{"a top-up in another currency", http.StatusUnprocessableEntity, "POST", "/anna/top-ups", map[string]any{"amount": map[string]any{"amount_minor": 5, "currency": "JPY"}}, "currency_does_not_fit"},
		{"a top-up of nothing", http.StatusUnprocessableEntity, "POST", "/anna/top-ups", map[string]any{"amount": eur(0)}, "amount_invalid"},
		{"a fraction of a minor unit", http.StatusUnprocessableEntity, "POST", "/anna/top-ups", map[string]any{"amount": map[string]any{"amount_minor": 1.5, "currency": "EUR"}}, "bad_input"},
		{"a wallet that is not there", http.StatusNotFound, "POST", "/dora/top-ups", map[string]any{"amount": eur(5)}, "not_found"},
		{"a cursor that is none", http.StatusUnprocessableEntity, "GET", "?cursor=!", nil, "bad_input"},
	} {
		if got := w.want(row.status, row.method, "/api/v1/wallets"+row.path, row.body); got["code"] != row.code {
			t.Errorf("%s: %v, want %s", row.name, got, row.code)
		}
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE actor = 'token:anna' AND action IN ('wallet_add', 'credit_limit')`); n != 4 {
		t.Errorf("%d audit rows, want 4 (R2)", n)
	}
}

func TestF51ARepeatedTopUpIsBookedOnce(t *testing.T) {
	w, _ := shop(t)
	first := w.once("k", http.StatusCreated, "/api/v1/wallets/anna/top-ups", map[string]any{"amount": eur(100)})
	again := w.once("k", http.StatusCreated, "/api/v1/wallets/anna/top-ups", map[string]any{"amount": eur(100)})
	if again["id"] != first["id"] || first["replayed"] != nil {
		t.Errorf("first %v, then %v", first, again)
	}
	if got := w.once("k", http.StatusConflict, "/api/v1/wallets/anna/top-ups", map[string]any{"amount": eur(101)}); got["code"] != "key_reused" {
		t.Errorf("another request with the key: %v", got)
	}
	made, err := w.service.CreateToken(t.Context(), "ben", "cli:test")
	if err != nil {
		t.Fatal(err)
	}
	w.token = made.Text
	if other := w.once("k", http.StatusCreated, "/api/v1/wallets/anna/top-ups", map[string]any{"amount": eur(5)}); other["replayed"] != nil {
		t.Errorf("somebody else's key: %v", other)
	}
	w.balance(2105)
	// The book keeps keys for good: also when the answer is no more kept.
	w.clock.Advance(api.KeepAnswers + time.Second)
	if again := w.once("k", http.StatusCreated, "/api/v1/wallets/anna/top-ups", map[string]any{"amount": eur(5)}); again["replayed"] != true {
		t.Errorf("the key after a week: %v", again)
	}
	w.balance(2105)
	text, _ := json.Marshal(map[string]any{"amount": eur(5)})
	for name, key := range map[string]string{"is too long": strings.Repeat("k", 256), "is not UTF-8": "\xff"} {
		status, header, answer := w.send(http.MethodPost, "/api/v1/wallets/anna/top-ups", w.token, map[string]string{"Idempotency-Key": key}, text)
		w.wantProblem("a key that "+name, status, header, answer, http.StatusUnprocessableEntity)
	}
	w.balance(2105)
	page := w.want(http.StatusOK, "GET", "/api/v1/wallets/anna/entries?limit=2", nil)
	if at(t, page, "items", 0, "change_minor") != 5.0 || at(t, page, "items", 1, "balance_after_minor") != 2100.0 {
		t.Errorf("the latest entries: %v", page)
	}
	rest := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/wallets/anna/entries?limit=2&cursor=%v", page["next_cursor"]), nil)
	if at(t, rest, "items", 0, "note") != "payment 7" || rest["next_cursor"] != nil {
		t.Errorf("the entries before: %v", rest)
	}
}

func TestF51ARepeatedPurchaseGivesTheFirstAndWritesNoSecondAuditRow(t *testing.T) {
	w, id := shop(t)
	order := map[string]any{"plan": "paid", "pay": true}
	first := w.once("buy", http.StatusCreated, simURL(1, "/subscriptions"), order)
	again := w.once("buy", http.StatusCreated, simURL(1, "/subscriptions"), order)
	if first["state"] != "active" || again["id"] != first["id"] {
		t.Errorf("first %v, then %v", first, again)
	}
	w.balance(1010)
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'subscribe' AND sim_id = $1`, id); n != 1 {
		t.Errorf("%d audit rows, want one (R2)", n)
	}
	if n := w.rows(`SELECT count(*) FROM subscription WHERE sim_id = $1`, id); n != 1 {
		t.Errorf("%d subscriptions, want one", n)
	}
	if got := w.once("buy", http.StatusConflict, simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"}); got["code"] != "key_reused" {
		t.Errorf("another order with the key: %v", got)
	}
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), order) // 0.20 are left
	short := w.want(http.StatusPaymentRequired, "POST", simURL(1, "/subscriptions"), order)
	if short["code"] != "insufficient_funds" || at(t, short, "funds", "balance", "amount_minor") != 20.0 || at(t, short, "funds", "price", "amount_minor") != 990.0 ||
		at(t, short, "funds", "price", "currency") != "EUR" || at(t, short, "funds", "wallet") != "anna" {
		t.Errorf("a wallet that cannot pay: %v", short)
	}
	w.balance(20)
	w.want(http.StatusOK, "POST", simURL(1, "/wallet"), map[string]any{"wallet": ""})
	if got := w.want(http.StatusUnprocessableEntity, "POST", simURL(1, "/subscriptions"), order); got["code"] != "no_wallet" {
		t.Errorf("without a wallet: %v", got)
	}
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid"}) // unpaid, as before there were wallets
}

func TestL3RefundsInPartAndWhole(t *testing.T) {
	w, id := shop(t)
	buy := func() (path string) {
		got := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid", "pay": true})
		return fmt.Sprintf("/api/v1/subscriptions/%.0f/refund", got["id"])
	}
	part := buy()
	if got := w.want(http.StatusUnprocessableEntity, "POST", part, map[string]any{"reason": "x", "amount": eur(991)}); got["code"] != "above_purchase" {
		t.Errorf("more than was paid: %v", got)
	}
	if got := w.want(http.StatusUnprocessableEntity, "POST", part, map[string]any{"reason": "x", "amount": map[string]any{"amount_minor": 5, "currency": "JPY"}}); got["code"] != "currency_does_not_fit" {
		t.Errorf("in another currency: %v", got)
	}
	if got := w.want(http.StatusUnprocessableEntity, "POST", part, map[string]any{"reason": "x", "amount": eur(5), "keep_money": true}); got["code"] != "bad_input" {
		t.Errorf("an amount, and no money: %v", got)
	}
	body := map[string]any{"reason": "half of it", "amount": eur(495)}
	first := w.once("back", http.StatusOK, part, body)
	again := w.once("back", http.StatusOK, part, body)
	if first["state"] != "refunded" || at(t, first, "refund", "amount_minor") != 495.0 || at(t, again, "refund", "id") != at(t, first, "refund", "id") {
		t.Errorf("first %v, then %v", first, again)
	}
	whole := buy()
	if got := w.once("back", http.StatusConflict, whole, body); got["code"] != "key_reused" {
		t.Errorf("another refund with the key: %v", got)
	}
	if got := w.want(http.StatusOK, "POST", whole, map[string]any{"reason": "all of it"}); at(t, got, "refund", "amount_minor") != 990.0 {
		t.Errorf("the whole: %v", got)
	}
	w.balance(2000 - 2*990 + 495 + 990)
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'refund' AND sim_id = $1`, id); n != 2 {
		t.Errorf("%d audit rows of two refunds and a repeated one, want 2 (R2)", n)
	}
	kept := buy()
	if got := w.want(http.StatusOK, "POST", kept, map[string]any{"reason": "abuse", "keep_money": true}); got["state"] != "refunded" || got["refund"] != nil {
		t.Errorf("nothing was to be given back: %v", got)
	}
	unpaid := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"})
	path := fmt.Sprintf("/api/v1/subscriptions/%.0f/refund", unpaid["id"])
	if got := w.want(http.StatusUnprocessableEntity, "POST", path, map[string]any{"reason": "x", "amount": eur(5)}); got["code"] != "not_paid" {
		t.Errorf("what was not paid: %v", got)
	}
	w.balance(2000 - 3*990 + 495 + 990)
}

func TestM2RenewalIsSwitched(t *testing.T) {
	w, id := shop(t)
	first := w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid", "pay": true, "renew": true})
	if first["renew"] != true {
		t.Errorf("bought to be renewed: %v", first)
	}
	path := fmt.Sprintf("/api/v1/subscriptions/%.0f/renewal", first["id"])
	if got := w.want(http.StatusOK, "POST", path, map[string]any{"renew": false}); got["renew"] != nil {
		t.Errorf("switched off: %v", got)
	}
	got := w.want(http.StatusOK, "POST", path, map[string]any{"renew": true, "plan": "basic-30"})
	if got["renew"] != true || got["renew_plan_id"] == nil {
		t.Errorf("switched on, as another plan: %v", got)
	}
	w.want(http.StatusNotFound, "POST", path, map[string]any{"renew": true, "plan": "nobody's"})
	w.want(http.StatusNotFound, "POST", "/api/v1/subscriptions/99/renewal", map[string]any{"renew": true})
	w.want(http.StatusCreated, "POST", "/api/v1/plans", map[string]any{"code": "more", "kind": "addon", "allowance_bytes": 1, "validity_unit": "days",
		"validity_count": 1, "reset": "none", "zone": "UTC"})
	w.want(http.StatusUnprocessableEntity, "POST", path, map[string]any{"renew": true, "plan": "more"})
	w.want(http.StatusUnprocessableEntity, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "more", "renew": true})
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'set_renewal' AND sim_id = $1`, id); n != 2 {
		t.Errorf("%d audit rows, want 2 (R2)", n)
	}
}

func TestE8ADevicesWalletPaysForItsPlans(t *testing.T) {
	w, _ := shop(t)
	w.want(http.StatusCreated, "POST", "/api/v1/devices", map[string]any{"imei": imei})
	w.want(http.StatusOK, "POST", "/api/v1/devices/"+imei+"/sims", map[string]any{"iccid": numbered(1).String(), "reason": "built in"})
	order := map[string]any{"plan": "paid", "pay": true}
	if got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/devices/"+imei+"/subscriptions", order); got["code"] != "no_wallet" {
		t.Errorf("the SIM's own wallet does not pay for the device: %v", got)
	}
	// By its SIM the device gets the wallet: its plans are the ones that count.
	if got := w.want(http.StatusOK, "POST", simURL(1, "/wallet"), map[string]any{"wallet": "anna"}); got["device_id"] == nil || got["sim_id"] != nil {
		t.Errorf("not the device's: %v", got)
	}
	first := w.once("d", http.StatusCreated, "/api/v1/devices/"+imei+"/subscriptions", order)
	if again := w.once("d", http.StatusCreated, "/api/v1/devices/"+imei+"/subscriptions", order); again["id"] != first["id"] {
		t.Errorf("first %v, then %v", first, again)
	}
	w.balance(1010)
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'subscribe'`); n != 1 {
		t.Errorf("%d audit rows, want one (R2)", n)
	}
	w.want(http.StatusOK, "POST", "/api/v1/devices/"+imei+"/wallet", map[string]any{"wallet": ""})
	if n := w.rows(`SELECT count(*) FROM wallet_asset WHERE device_id IS NOT NULL`); n != 0 {
		t.Error("the device still has its wallet")
	}
}

func TestM3StatementDifferencesAndMargins(t *testing.T) {
	w, _ := shop(t)
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "paid", "pay": true})
	row := func(n, cost int) map[string]any {
		return map[string]any{"iccid": numbered(n).String(), "period": "2026-05", "cost": eur(cost)}
	}
	statement := map[string]any{"statement": "may", "rows": []any{row(1, 310), row(8, 300), row(9, 300)}}
	if got := w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/statements", statement); got["added"] != 3.0 || got["unmatched"] != 2.0 {
		t.Errorf("the first import: %v", got)
	}
	if got := w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/statements", statement); got["same"] != 3.0 || got["added"] != 0.0 {
		t.Errorf("the same again: %v", got)
	}
	if got := w.want(http.StatusUnprocessableEntity, "POST", "/api/v1/accounts/acme/statements", map[string]any{"statement": "may", "rows": []any{row(1, 1), row(1, 2)}}); got["code"] != "statement_invalid" {
		t.Errorf("two rows of one SIM: %v", got)
	}
	w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/rates", map[string]any{"from": "2026-01", "rate": eur(300)})
	page := w.want(http.StatusOK, "GET", "/api/v1/accounts/acme/differences?period=2026-05&limit=2", nil)
	rest := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/accounts/acme/differences?period=2026-05&limit=2&cursor=%v", page["next_cursor"]), nil)
	kinds := map[string]int{}
	for _, p := range []map[string]any{page, rest} {
		for _, d := range p["items"].([]any) {
			kinds[d.(map[string]any)["kind"].(string)]++
		}
	}
	if len(kinds) != 2 || kinds["unknown_sim"] != 2 || kinds["amount"] != 1 {
		t.Errorf("differences: %v, then %v", page, rest)
	}
	got := w.want(http.StatusOK, "GET", "/api/v1/accounts/acme/margins?period=2026-05&limit=1", nil)
	if at(t, got, "items", 0, "revenue_minor") != 990.0 || at(t, got, "items", 0, "cost_minor") != 310.0 || at(t, got, "items", 0, "margin_minor") != 680.0 || got["next_cursor"] != nil {
		t.Errorf("margins: %v", got)
	}
	usd := row(1, 50)
	usd["item"], usd["cost"] = "roaming", map[string]any{"amount_minor": 50, "currency": "USD"}
	w.want(http.StatusOK, "POST", "/api/v1/accounts/acme/statements", map[string]any{"statement": "may", "rows": []any{usd}})
	first := w.want(http.StatusOK, "GET", "/api/v1/accounts/acme/margins?period=2026-05&limit=1", nil)
	second := w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/accounts/acme/margins?period=2026-05&limit=1&cursor=%v", first["next_cursor"]), nil)
	if at(t, first, "items", 0, "currency") != "EUR" || at(t, second, "items", 0, "currency") != "USD" || at(t, second, "items", 0, "margin_minor") != -50.0 {
		t.Errorf("a SIM with two currencies: %v, then %v", first, second)
	}
	for _, query := range []string{"", "?period=2026-13", "?period=2026-05&cursor=zz"} {
		w.want(http.StatusUnprocessableEntity, "GET", "/api/v1/accounts/acme/margins"+query, nil)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/accounts/nobody/margins?period=2026-05", nil)
}
