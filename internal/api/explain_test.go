package api_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// reasons are the names in a decision's reason set.
func reasons(t *testing.T, explained map[string]any) []string {
	t.Helper()
	out := []string{}
	for _, r := range at(t, explained, "decision", "reasons").([]any) {
		out = append(out, r.(map[string]any)["reason"].(string))
	}
	return out
}

func TestExplainALapsedSIM(t *testing.T) {
	w, _, id := fleet(t)
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"})
	w.settle()
	w.clock.Set(noon.AddDate(0, 0, 30))
	w.observe(id, simwarden.StateActive)
	w.settle()
	w.clock.Advance(2 * time.Minute)
	got := w.want(http.StatusOK, "GET", simURL(1, "/explain"), nil)
	contains(t, "the summary", fmt.Sprint(got["summary"]), "active", "should be suspended", "no plan", "A suspend is queued")
	if at(t, got, "decision", "desired") != "suspended" || at(t, got, "decision", "reason") != "no_plan" || got["drifting"] != false {
		t.Errorf("decision: %v", got["decision"])
	}
	if at(t, got, "decision", "reasons", 0, "since_at") != noon.AddDate(0, 0, 30).Format(time.RFC3339) || at(t, got, "decision", "reasons", 0, "owner") != "platform" {
		t.Errorf("the reason lacks its age or owner (E10): %v", at(t, got, "decision", "reasons", 0))
	}
	if at(t, got, "open_command", "scene") != "plan_lapsed" || at(t, got, "open_command", "asked_by") != "system" {
		t.Errorf("the command is not the lapse's (L1): %v", got["open_command"])
	}
	if at(t, got, "subscriptions", 0, "state") != "expired" {
		t.Errorf("subscriptions: %v", got["subscriptions"])
	}
	kinds := fmt.Sprint(timeline(t, got))
	contains(t, "the timeline", kinds, "sim_added", "subscribed", "plan_lapsed", "command_opened", "decision_changed")
	contains(t, "what is next", fmt.Sprint(got["next"]), "the suspend goes on", "its state is read")
	if len(at(t, got, "decision", "checks").([]any)) == 0 {
		t.Error("no checks with what they saw (R5)")
	}
}

func timeline(t *testing.T, explained map[string]any) []string {
	t.Helper()
	var out []string
	for _, e := range explained["timeline"].([]any) {
		out = append(out, e.(map[string]any)["kind"].(string))
	}
	return out
}

func TestExplainASIMThatIsExhaustedAndUnverifiedAtOnce(t *testing.T) {
	w := newWorld(t)
	a := w.account("strict", func(n *api.NewAccount) { n.RealNameRequired = true })
	w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct) })
	p := w.plan("small", 1_000_000, 30)
	id := w.sim(a, 1, simwarden.StateActive)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: p, By: "cli:test", UsedBytes: 1_000_001})
		return err
	})
	w.settle()
	got := w.want(http.StatusOK, "GET", simURL(1, "/explain"), nil)
	if held := reasons(t, got); fmt.Sprint(held) != "[data_exhausted realname_unmet]" {
		t.Errorf("reasons are %v, want both, the first naming it (E2, E10)", held)
	}
	contains(t, "the summary", fmt.Sprint(got["summary"]), "should be suspended", "data exhausted", "realname unmet")
	contains(t, "the evidence", fmt.Sprint(at(t, got, "decision", "reasons", 0, "evidence")), "1.00 MB")
	if at(t, got, "open_command", "reason") != "data_exhausted" || at(t, got, "subscriptions", 0, "state") != "exhausted" {
		t.Errorf("command %v, subscription %v", got["open_command"], at(t, got, "subscriptions", 0))
	}
	list := w.want(http.StatusOK, "GET", "/api/v1/sims?reason=realname_unmet", nil)
	if len(list["items"].([]any)) != 1 {
		t.Errorf("the list by a reason that is not the first: %v", list)
	}
}

func TestExplainADriftingSIM(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil) // observes: nothing is sent
	w.plan("basic-30", 1_000_000_000, 30)
	id := w.sim(a, 1, simwarden.StateActive)
	w.want(http.StatusCreated, "POST", simURL(1, "/subscriptions"), map[string]any{"plan": "basic-30"})
	w.settle()
	w.clock.Set(noon.AddDate(0, 0, 31))
	w.observe(id, simwarden.StateActive)
	w.settle()
	got := w.want(http.StatusOK, "GET", simURL(1, "/explain"), nil)
	if got["drifting"] != true || got["open_command"] != nil {
		t.Fatalf("not drifting, or with a command in observe mode (C9): %v", got)
	}
	contains(t, "the summary", fmt.Sprint(got["summary"]), "drifting", "observe mode")
	if at(t, got, "last_command", "state") != "observed" {
		t.Errorf("what would have been sent is not shown: %v", got["last_command"])
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.SetDrifting(ctx, id, "test") })
	list := w.want(http.StatusOK, "GET", "/api/v1/sims?drifting=true", nil)
	if at(t, list, "items", 0, "iccid") != numbered(1).String() {
		t.Errorf("the list of drifting SIMs: %v", list)
	}
}

func TestExplainASIMThatWasNeverReadNorSoldAPlan(t *testing.T) {
	w := newWorld(t)
	w.sims(w.account("acme", nil), 1, 1)
	got := w.want(http.StatusOK, "GET", simURL(1, "/explain"), nil)
	contains(t, "the summary", fmt.Sprint(got["summary"]), "never read", "left alone")
	if len(got["subscriptions"].([]any)) != 0 || fmt.Sprint(timeline(t, got)) != "[sim_added]" {
		t.Errorf("subscriptions %v, timeline %v", got["subscriptions"], got["timeline"])
	}
}

func TestDiffTellsWhatWouldChangeAndChangesNothing(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	other := w.account("other", nil)
	p := w.plan("basic-30", 1_000_000_000, 30)
	for n, account := range []store.Account{a, a, other} {
		id := w.sim(account, n+1, simwarden.StateActive)
		if n != 1 { // the second never had a plan: left alone (E2)
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: p, By: "cli:test", UsedBytes: 2_000_000_000})
				return err
			})
		}
	}
	commands := w.rows(`SELECT count(*) FROM command`)
	for _, row := range []struct {
		account simwarden.AccountID
		want    string
	}{{0, numbered(1).String() + " acme suspend " + numbered(3).String() + " other suspend "}, {a.ID, numbered(1).String() + " acme suspend "}} {
		got := ""
		err := w.service.Diff(t.Context(), row.account, func(d api.SIMDifference) error {
			got += fmt.Sprintf("%s %s %s ", d.ICCID, d.Account, d.Direction)
			return nil
		})
		if err != nil || got != row.want {
			t.Errorf("account %d: %q, want %q (C9): %v", row.account, got, row.want, err)
		}
	}
	page := w.want(http.StatusOK, "GET", "/api/v1/diff?limit=1", nil)
	if items := page["items"].([]any); len(items) != 1 || at(t, page, "items", 0, "iccid") != numbered(1).String() || at(t, page, "items", 0, "direction") != "suspend" {
		t.Errorf("the first page is %v, want the first SIM alone", page)
	}
	page = w.want(http.StatusOK, "GET", fmt.Sprintf("/api/v1/diff?cursor=%v", page["next_cursor"]), nil)
	if items := page["items"].([]any); len(items) != 1 || at(t, page, "items", 0, "iccid") != numbered(3).String() || page["next_cursor"] != nil {
		t.Errorf("the second page is %v, want the third SIM, and the end", page)
	}
	if page = w.want(http.StatusOK, "GET", "/api/v1/diff?account=other", nil); len(page["items"].([]any)) != 1 || at(t, page, "items", 0, "account") != "other" {
		t.Errorf("of the other account: %v", page)
	}
	w.want(http.StatusNotFound, "GET", "/api/v1/diff?account=nobody", nil)
	if n := w.rows(`SELECT count(*) FROM command`); n != commands {
		t.Errorf("diff wrote %d commands", n-commands)
	}
}
