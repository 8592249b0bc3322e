package acceptance

import (
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

func TestS24ADaysBooks(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run(rarely)
		automatic, manual := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
		w.reads(automatic, simwarden.StateActive)
		w.reads(manual, simwarden.StateActive)
		w.buy(automatic, w.plan(4*time.Second, simwarden.UnlimitedBytes))
		byHand := w.orders(manual, simwarden.DirectionSuspend)
		bySystem := w.only(automatic, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)

		for _, cmd := range []store.Command{byHand, bySystem} {
			if n := w.count(`SELECT count(*) FROM command_record WHERE command_id = $1`, cmd.ID); n != 1 {
				t.Errorf("the %s of scene %s has %d records, want one (R1)", cmd.Direction, cmd.Scene, n)
			}
		}
		if n := w.count(`SELECT count(*) FROM command_record`); n != 2 {
			t.Errorf("%d records, want one for each command: polls leave none", n)
		}
		if n := w.count(`SELECT count(*) FROM audit WHERE action = 'sim_suspend' AND actor = $1 AND sim_id = $2`, anna, manual.id); n != 1 {
			t.Errorf("the suspend by hand has %d rows of audit, want one (R2)", n)
		}
		if n := w.count(`SELECT count(*) FROM audit WHERE actor = 'system' OR sim_id = $1`, automatic.id); n != 0 {
			t.Errorf("%d rows of audit are of what no person did: automatic ones write records only, polls nothing", n)
		}
		w.counted()
	})
}

// counted checks that every request that the carrier saw is counted in the statistics: per account,
// operation and minute (G9).
func (w *world) counted() {
	w.t.Helper()
	var saw, counted map[string]int
	eventually(w.t, "the carrier's log and the statistics agree", func() bool {
		counted = w.byOperation(`SELECT operation, sum(calls)::bigint FROM call_stat WHERE account_id = $1 GROUP BY operation`)
		saw = map[string]int{}
		for _, l := range w.lab.LogLines() {
			if l.Kind != "execution" {
				saw[string(l.Operation)]++
			}
		}
		return maps.Equal(saw, counted)
	})
	if saw[string(simwarden.OpSuspend)] == 0 || len(saw) < 3 {
		w.t.Errorf("the carrier saw %v: there was too little to count", saw)
	}
	if n := w.count(`SELECT count(*) FROM call_stat WHERE minute_at <> date_trunc('minute', minute_at)`); n != 0 {
		w.t.Errorf("%d rows of statistics are of no whole minute", n)
	}
	if n := w.count(`SELECT count(*) FROM call_stat WHERE operation = 'suspend' AND purpose = 'manual' AND calls = 1`); n != 1 {
		w.t.Errorf("the suspend by hand is counted in %d rows of purpose manual, want one", n)
	}
}

func (w *world) byOperation(sql string) map[string]int {
	w.t.Helper()
	rows, err := w.pool.Query(w.ctx, sql, w.account.ID)
	w.must(err)
	out := map[string]int{}
	var name string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&name, &n}, func() error {
		out[name] = n
		return nil
	})
	w.must(err)
	return out
}

// served is the API over HTTP, with a token.
type served struct {
	t      *testing.T
	server *httptest.Server
	token  string
}

func (w *world) serveAPI() *served {
	w.t.Helper()
	service := w.person()
	handler, err := api.NewHandler(api.Options{Service: service, Log: slog.New(slog.DiscardHandler)})
	w.must(err)
	s := &served{t: w.t, server: httptest.NewServer(handler)}
	w.t.Cleanup(s.server.Close)
	token, err := service.CreateToken(w.ctx, "anna", anna)
	w.must(err)
	s.token = token.Text
	return s
}

func (s *served) get(path string) map[string]any {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, s.server.URL+api.Prefix+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.token)
	res, err := s.server.Client().Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 8<<20))
	if err != nil || res.StatusCode != http.StatusOK {
		s.t.Fatalf("GET %s: HTTP %d (%v): %.500s", path, res.StatusCode, err, text)
	}
	out := map[string]any{}
	if err := json.Unmarshal(text, &out); err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
	return out
}

// list is the items of a list, of which there must be some.
func (s *served) list(path string) []any {
	s.t.Helper()
	items, _ := s.get(path)["items"].([]any)
	if len(items) == 0 {
		s.t.Errorf("GET %s has nothing to show", path)
	}
	return items
}

func TestS25AnErrorRuleIsChangedWhileRunning(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	w.run(rarely)
	w.served()
	// What the tester says, and what came of the error where it happened.
	asked := func() api.ErrorVerdict {
		v, err := w.person().TestError(w.ctx, api.ErrorTest{Driver: "soracom", Operation: simwarden.OpSuspend, HTTPStatus: http.StatusBadRequest,
			Code: "SEM0003", Message: "The SIM cannot change to this status."})
		w.must(err)
		return v
	}
	happened := func() (card, attemptRow) {
		c := w.sim(simwarden.StateActive)
		w.reads(c, simwarden.StateActive)
		w.must(w.carrier.SetState(c.iccid, simwarden.StateTerminated)) // from which this carrier lets nothing change
		o, err := w.person().Manual(w.ctx, c.iccid, simwarden.DirectionSuspend, anna, "to see what is made of the answer")
		w.must(err)
		w.ends(c, simwarden.CommandFailed)
		return c, w.attempts(o.CommandID)[0]
	}
	before := asked()
	if c, got := happened(); got.Class != string(before.Class) || before.ClosePolling || w.closed(c) {
		t.Fatalf("before the change the tester says %s, the gateway %s, polling closed: %v", before.Class, got.Class, w.closed(c))
	}
	w.rule(carrier.Rule{Name: "wrong state: the SIM is no more", ChangesOnly: true, Code: "SEM0003", Class: carrier.ClassTerminated,
		Extended: simwarden.ExtendedTerminated, ClosePolling: true})
	after := asked()
	if after.Class != carrier.ClassTerminated || !after.ClosePolling || after.Extended != simwarden.ExtendedTerminated {
		t.Fatalf("after the change the tester says %+v", after)
	}
	// The node reads the table once a second, without a restart: until then the old rule counts, then
	// the new one and no other.
	eventually(t, "the gateway goes by the new rule", func() bool {
		c, got := happened()
		switch got.Class {
		case string(after.Class):
			if !w.closed(c) {
				t.Error("the rule closes polling, and that of the SIM is open (P5)")
			}
			return true
		case string(before.Class):
			return false
		}
		t.Fatalf("the gateway says %s: neither what the tester said before nor what it says now", got.Class)
		return false
	})
}

// served checks that the API serves every enumeration, limit group, rule, record and statistic, by
// what is in the database.
func (w *world) served() {
	w.t.Helper()
	c, _ := w.running(time.Hour, simwarden.UnlimitedBytes)
	w.orders(c, simwarden.DirectionSuspend)
	eventually(w.t, "the statistics are written", func() bool { return w.count(`SELECT count(*) FROM call_stat WHERE operation = 'suspend'`) > 0 })
	s := w.serveAPI()
	words := s.get("/enumerations")
	for _, name := range []string{"scene", "reason", "state", "extended_state", "realname", "command_state", "operation", "purpose", "error_class", "limit_group_mode", "driver"} {
		if list, _ := words[name].([]any); len(list) == 0 {
			w.t.Errorf("the enumeration %s has no words (I2)", name)
		}
	}
	if list, _ := words["scene"].([]any); len(list) != len(simwarden.Scenes()) {
		w.t.Errorf("%d scenes are served, want %d (E4)", len(list), len(simwarden.Scenes()))
	}
	for path, table := range map[string]string{"/limit-groups": "limit_group", "/records": "command_record", "/accounts": "account"} {
		if got, want := len(s.list(path)), w.count(`SELECT count(*) FROM `+table); got != want {
			w.t.Errorf("GET %s has %d rows, the table %s %d", path, got, table, want)
		}
	}
	if got, want := len(s.list("/error-rules?driver=soracom")), w.count(`SELECT count(*) FROM error_rule WHERE driver = 'soracom'`); got != want {
		w.t.Errorf("%d error rules are served, want %d", got, want)
	}
	var calls float64
	for _, row := range s.list("/statistics?account=acme") {
		if stat := row.(map[string]any); stat["operation"] == "suspend" {
			calls += stat["calls"].(float64)
		}
	}
	if calls != 1 {
		w.t.Errorf("the statistics tell of %v suspends, want one (G9)", calls)
	}
}
