package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// demands are what the specification wants readable and changeable over the API (I2, S25): the
// operations, and of each the parameters or fields of its body without which it would not do.
var demands = []struct {
	id, sentence string
	operation    string // method and path below the prefix
	has          string // parameters and fields of the body, with blanks between
}{
	{"G2", "limit groups are listed", "GET /limit-groups", ""},
	{"G2", "a limit group is read", "GET /limit-groups/{name}", ""},
	{"G2", "a limit group is added", "POST /limit-groups", "name"},
	{"G2 G3", "limits, mode and the commands' share are changed", "PATCH /limit-groups/{name}", "mode per_second windows max_concurrent command_share_percent"},
	{"G6", "error rules are listed in their order", "GET /error-rules", "driver"},
	{"G6", "an error rule is read", "GET /error-rules/{id}", ""},
	{"G6", "an error rule is added, and tried first", "POST /error-rules", "driver name class operation http_status code contains pattern position extended_state close_polling dry_run"},
	{"G6", "an error rule is changed", "PUT /error-rules/{id}", "class position dry_run"},
	{"G6", "error rules are reordered", "POST /error-rules/{id}/move", "position"},
	{"G6", "an error rule is deleted", "DELETE /error-rules/{id}", "dry_run"},
	{"G7", "an error is tried on the rules", "POST /error-rules/test", "driver operation http_status code message"},
	{"G9", "calls are counted by account, operation and minute, in a range", "GET /statistics", "account operation from until cursor limit"},
	{"R1", "records are listed by SIM, account, scene, status and time", "GET /records", "iccid account direction scene status from until cursor limit"},
	{"R1", "a record is read", "GET /records/{id}", ""},
	{"I2", "every enumeration is served", "GET /enumerations", ""},
	{"C9", "what would change now is listed, for an account or the fleet", "GET /diff", "account cursor limit"},
	{"C2", "commands are listed", "GET /commands", "iccid account state open held cursor"},
	{"C10", "what the brake and guards hold back is listed", "GET /commands", "held"},
	{"R1", "a command is read with its attempts", "GET /commands/{id}", ""},
	{"C10", "the brake is released", "POST /accounts/{name}/release-brake", "reason"},
	{"V13", "guards are listed", "GET /guards", "all"},
	{"V13", "a guard is released", "POST /guards/{id}/release", "reason"},
	{"L4", "plans are listed", "GET /plans", ""},
	{"L4", "a plan is added", "POST /plans", "code kind allowance_bytes validity_unit validity_count reset zone price activation"},
	{"L4", "a plan is read", "GET /plans/{code}", ""},
	{"L4", "a plan is edited and withdrawn", "PATCH /plans/{code}", "name price withdrawn"},
	{"L4", "a queued subscription is cancelled", "POST /subscriptions/{id}/cancel", "reason keep_money Idempotency-Key"},
	{"L1", "subscriptions are listed", "GET /subscriptions", "account state plan live cursor"},
	{"L1", "a subscription is read", "GET /subscriptions/{id}", ""},
	{"L4", "a plan is bought for a SIM", "POST /sims/{iccid}/subscriptions", "plan pay renew Idempotency-Key"},
	{"E8", "a plan is bought for a device", "POST /devices/{imei}/subscriptions", "plan pay renew Idempotency-Key"},
	{"L3", "a subscription is refunded", "POST /subscriptions/{id}/refund", "reason amount keep_money Idempotency-Key"},
	{"M2", "a renewal is chosen", "POST /subscriptions/{id}/renewal", "renew plan"},
	{"M1", "wallets are listed", "GET /wallets", "cursor"},
	{"M1", "a wallet is added", "POST /wallets", "name credit_limit"},
	{"M1", "a wallet's credit limit is changed", "PATCH /wallets/{name}", "credit_limit"},
	{"M1", "a wallet is topped up", "POST /wallets/{name}/top-ups", "amount note Idempotency-Key"},
	{"M1", "a wallet's statement is read", "GET /wallets/{name}/entries", "cursor limit"},
	{"M3", "carriers' statements come in, and margins come out", "POST /accounts/{name}/statements", "statement rows"},
	{"M3", "margins are listed", "GET /accounts/{name}/margins", "period cursor"},
	{"M3", "mismatches are listed", "GET /accounts/{name}/differences", "period cursor"},
	{"E8", "devices are listed", "GET /devices", "paused search cursor"},
	{"E8", "a device is read", "GET /devices/{imei}", ""},
	{"E8", "a device is added", "POST /devices", "imei name"},
	{"E8", "a SIM is bound", "POST /devices/{imei}/sims", "iccid move_plans reason"},
	{"E8", "a SIM is unbound", "POST /devices/{imei}/sims/{iccid}/unbind", "reason"},
	{"E8", "a device's history is read", "GET /devices/{imei}/bindings", "cursor"},
	{"P4", "a device's polling is paused", "POST /devices/{imei}/polling/pause", "reason"},
	{"P4", "a device's polling is taken up again", "POST /devices/{imei}/polling/resume", "reason"},
	{"L6", "pools are listed", "GET /pools", "cursor"},
	{"L6", "a pool is added", "POST /pools", "name Idempotency-Key"},
	{"L6", "a pool is read", "GET /pools/{name}", ""},
	{"L6", "a pool is changed", "PATCH /pools/{name}", ""},
	{"L6", "data is added to a pool", "POST /pools/{name}/top-ups", "Idempotency-Key"},
	{"L6", "members join a pool", "POST /pools/{name}/members", "Idempotency-Key"},
	{"L6", "members leave a pool", "POST /pools/{name}/members/remove", "Idempotency-Key"},
	{"R4", "alerts are listed", "GET /alerts", "account kind cursor"},
	{"R4", "an alert is acknowledged", "POST /alerts/{id}/clear", ""},
	{"R3", "the audit log is listed", "GET /audit", "iccid account actor action cursor"},
	{"R3", "the audit log is verified", "GET /audit/verification", ""},
	{"F53", "a bulk action is looked at first", "POST /bulk/preview", "direction iccids filter"},
	{"F53", "a bulk action is begun", "POST /bulk", "direction iccids filter reason at_most skip_bad Idempotency-Key"},
	{"F53", "bulk actions are listed", "GET /bulk", "cursor"},
	{"F53", "a bulk action's results are read by SIM", "GET /bulk/{id}", "outcome cursor"},
	{"F53", "a bulk action is cancelled", "POST /bulk/{id}/cancel", ""},
	{"I4", "SIMs are exported", "GET /exports/sims", "account state"},
	{"I4", "devices are exported", "GET /exports/devices", ""},
	{"I4", "subscriptions are exported", "GET /exports/subscriptions", "account ended"},
	{"I4", "records are exported", "GET /exports/records", "account iccid from until"},
	{"I4 U5", "daily usage is exported", "GET /exports/usage-days", "account iccid from until"},
	{"C9", "accounts are listed", "GET /accounts", ""},
	{"C9", "an account is read", "GET /accounts/{name}", ""},
	{"C9", "an account is added", "POST /accounts", "name driver credentials zone limit_group settings unplanned drift_policy"},
	{"C9 P1 E2 E11 E13", "mode, polling profile, real names, unplanned, drift and freshness are changed", "PATCH /accounts/{name}",
		"mode state_every_seconds usage_every_seconds realname_every_seconds realname_required unplanned drift_policy fresh_for_seconds brake_percent brake_count brake_window_seconds limit_group credentials"},
	{"S19", "the progress of a changed policy is read", "GET /accounts/{name}/evaluations", ""},
	{"G8", "a stopped account is started", "POST /accounts/{name}/start", "reason"},
	{"R5", "SIMs are listed", "GET /sims", "account state desired reason drifting paused closed extended_state search cursor limit"},
	{"R5", "a SIM is explained", "GET /sims/{iccid}/explain", ""},
	{"R5", "a SIM's timeline is read to its beginning", "GET /sims/{iccid}/events", "cursor limit"},
	{"U5", "a SIM's daily usage is read", "GET /sims/{iccid}/usage-days", "from"},
	{"E3", "a SIM is suspended by hand", "POST /sims/{iccid}/suspend", "reason Idempotency-Key"},
	{"E3", "a SIM is resumed by hand", "POST /sims/{iccid}/resume", "reason Idempotency-Key"},
	{"P4", "a SIM's polling is paused", "POST /sims/{iccid}/polling/pause", "reason"},
	{"P5", "a SIM's closed polling is reopened", "POST /sims/{iccid}/polling/resume", "reason"},
	{"E2", "a SIM's real name is set by hand", "POST /sims/{iccid}/realname", "realname reason"},
}

func TestI2TheAPIHasWhatTheSpecificationDemands(t *testing.T) {
	w := newWorld(t)
	for _, d := range demands {
		method, path, _ := strings.Cut(d.operation, " ")
		var op *openapi3.Operation
		if item := w.doc.Paths.Find("/api/v1" + path); item != nil {
			op = item.GetOperation(method)
		}
		if op == nil {
			t.Errorf("%s, %s: there is no %s", d.id, d.sentence, d.operation)
			continue
		}
		names := fieldsOf(op)
		for _, want := range strings.Fields(d.has) {
			if !slices.Contains(names, want) {
				t.Errorf("%s, %s: %s has no %s, but %v", d.id, d.sentence, d.operation, want, names)
			}
		}
	}
}

// fieldsOf names an operation's parameters and the fields of its body.
func fieldsOf(op *openapi3.Operation) []string {
	var names []string
	for _, p := range op.Parameters {
		names = append(names, p.Value.Name)
	}
	if op.RequestBody != nil {
		for name := range op.RequestBody.Value.Content["application/json"].Schema.Value.Properties {
			names = append(names, name)
		}
	}
	return names
}

func TestF51EveryPOSTThatWritesTakesAKey(t *testing.T) {
	w := newWorld(t)
	looks := []string{"preview-bulk", "test-error", "refresh-sim", "test-account"}
	posts := 0
	for path, item := range w.doc.Paths.Map() {
		if item.Post == nil {
			continue
		}
		posts++
		takes := slices.Contains(fieldsOf(item.Post), "Idempotency-Key")
		if only := slices.Contains(looks, item.Post.OperationID); takes == only {
			t.Errorf("POST %s: that it takes a key is %v, that it only looks is %v", path, takes, only)
		}
	}
	if posts < 25 {
		t.Errorf("only %d POST operations", posts)
	}
}

// Lists are pages with a cursor, or short by their nature.
func TestI2ListsGoOnFromACursor(t *testing.T) {
	w := newWorld(t)
	short := []string{"list-accounts", "list-limit-groups", "list-plans", "list-error-rules", "list-guards", "list-enumerations", "list-account-evaluations",
		"list-sim-subscriptions", "list-sim-usage-days"}
	for path, item := range w.doc.Paths.Map() {
		if item.Get == nil || !strings.HasPrefix(item.Get.OperationID, "list-") {
			continue
		}
		if cursor := slices.Contains(fieldsOf(item.Get), "cursor"); cursor == slices.Contains(short, item.Get.OperationID) {
			t.Errorf("GET %s (%s): a cursor is %v", path, item.Get.OperationID, cursor)
		}
	}
}
