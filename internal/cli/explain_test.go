package cli_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/cli"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/lab"
)

// house is a terminal with a carrier to practise on.
type house struct {
	terminal
	carriers map[string]*lab.Account
	world    *lab.World
}

// newHouse is a quiet house where serve runs.
func newHouse(t *testing.T) house {
	t.Helper()
	h := quietHouse(t)
	h.serve()
	return h
}

// quietHouse has two accounts that act, one of which wants real names, and plans gold and brief.
func quietHouse(t *testing.T) house {
	t.Helper()
	h := house{terminal: newTerminal(t), carriers: map[string]*lab.Account{}, world: lab.New(lab.Config{Seed: 3})}
	t.Cleanup(h.world.Close)
	for _, name := range []string{"east", "strict"} {
		a, err := h.world.AddAccount(lab.AccountSpec{Name: name, Dialect: "soracom"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Populate(lab.Population{Count: 5, ActiveShare: 1}); err != nil {
			t.Fatal(err)
		}
		h.carriers[name] = a
	}
	server, err := h.world.Serve(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for name, a := range h.carriers {
		add := []string{"account", "add", name, "--driver", "soracom", "--base-url", a.BaseURL(server.URL), "--state-every", "1s", "--usage-every", "1s"}
		for field, value := range a.Credentials() {
			add = append(add, "--credential", field+"="+value)
		}
		if name == "strict" {
			add = append(add, "--realname-required")
		}
		h.does(add...)
		h.does("account", "test", name, "--allow-lab")
		h.does("account", "mode", name, "act")
		var csv strings.Builder
		csv.WriteString("iccid\n")
		for _, sim := range h.sims(name) {
			fmt.Fprintln(&csv, sim)
		}
		if out, code := h.run(t.Context(), strings.NewReader(csv.String()), "import", "sims", "-", "--account", name); code != cli.ExitOK {
			t.Fatal(out)
		}
	}
	h.does("plan", "add", "gold", "--allowance", "1GB", "--validity", "30d")
	h.does("plan", "add", "brief", "--allowance", "unlimited", "--validity", "1s")
	return h
}

// sims are the ICCIDs of an account's SIMs at the carrier.
func (h house) sims(account string) []string {
	var list []string
	for _, sim := range h.world.Truth() {
		if sim.Account == account {
			list = append(list, sim.ICCID)
		}
	}
	return list
}

// does runs a command that has to succeed.
func (h house) does(args ...string) {
	h.t.Helper()
	if out, code := h.run(h.t.Context(), nil, args...); code != cli.ExitOK {
		h.t.Fatalf("%v: exit code %d: %s", args, code, out)
	}
}

// serve runs a node until the test ends.
func (h house) serve() {
	ctx, stop := context.WithCancel(h.t.Context())
	var out storetest.Log
	ended := make(chan int, 1)
	args := append(h.flags[:len(h.flags):len(h.flags)], "serve", "--allow-lab", "--listen", "127.0.0.1:0", "--evaluate-every", "2s",
		"--settle", "100ms", "--timeout", "2s", "--claim-margin", "1s", "--first-delay", "20ms")
	go func() { ended <- cli.Main(ctx, args, strings.NewReader(""), &out, &out) }()
	h.t.Cleanup(func() {
		stop()
		if code := <-ended; code != cli.ExitOK {
			h.t.Errorf("serve ended with %d: %s", code, out.String())
		}
	})
}

// explained waits until explain says so of the SIM, and gives what it says as JSON and as text.
func (h house) explained(iccid, what string, so func(api.Explanation) bool) (api.Explanation, string) {
	h.t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	deadline := time.After(2 * time.Minute)
	for {
		x, err := jsonOf[api.Explanation](h.t.Context(), h.terminal, "explain", iccid)
		if err != nil {
			h.t.Fatal(err)
		}
		if so(x) {
			out, code := h.run(h.t.Context(), nil, "explain", iccid)
			if code != cli.ExitOK {
				h.t.Fatal(out)
			}
			return x, out
		}
		select {
		case <-ticker.C:
		case <-deadline:
			out, _ := h.run(h.t.Context(), nil, "explain", iccid)
			h.t.Fatalf("%s: never so:\n%s", what, out)
		}
	}
}

func mentions(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("it does not say %q:\n%s", part, text)
		}
	}
}

func readAs(state simwarden.State) func(api.Explanation) bool {
	return func(x api.Explanation) bool { return x.SIM.State == state && x.Open == nil }
}

// used buys gold for a SIM that has used it up elsewhere.
func (h house) used(iccid string) {
	h.t.Helper()
	csv := "iccid,plan,used\n" + iccid + ",gold,2000000000\n"
	if out, code := h.run(h.t.Context(), strings.NewReader(csv), "import", "subscriptions", "-"); code != cli.ExitOK {
		h.t.Fatal(out)
	}
}

// TestExplainAnswersAtTheTerminal: what state, what it should be in, why, what is under way, what
// happened, what is next and when (R5).
func TestExplainAnswersAtTheTerminal(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	east, strict := h.sims("east"), h.sims("strict")
	for _, iccid := range east {
		h.explained(iccid, "first reading", readAs(simwarden.StateActive))
	}
	// It takes six attempts to fail: meanwhile the others are looked at.
	if _, err := h.world.SetFault(lab.Fault{Name: lab.Fail5xx, Account: "east", ICCIDs: []string{east[1]}, Probability: 1,
		Operations: []simwarden.Operation{simwarden.OpSuspend}}); err != nil {
		t.Fatal(err)
	}
	h.used(east[1])
	t.Run("lapsed", func(t *testing.T) {
		h.does("subscribe", east[0], "brief")
		x, text := h.explained(east[0], "suspended after its plan", readAs(simwarden.StateSuspended))
		if x.Last == nil || x.Last.Scene != simwarden.ScenePlanLapsed || x.Decision.Reason != simwarden.ReasonNoPlan {
			t.Errorf("last command %+v, decision %+v (L1)", x.Last, x.Decision)
		}
		mentions(t, text, "It is suspended and should be suspended: no plan.", "FAIL  plan in force", "the last one ended at",
			"Last command", "scene plan_lapsed", "1 attempt,", "brief (main) expired", "plan_lapsed", "active -> suspended", "its state is read")
	})
	t.Run("exhausted and unverified at once", func(t *testing.T) {
		h.used(strict[0])
		x, text := h.explained(strict[0], "suspended", readAs(simwarden.StateSuspended))
		if !x.Decision.Holds(simwarden.ReasonDataExhausted) || !x.Decision.Holds(simwarden.ReasonRealNameUnmet) {
			t.Errorf("reasons %+v, want both (E2, E10)", x.Decision.Reasons)
		}
		mentions(t, text, "should be suspended: data exhausted, realname unmet.", "FAIL  data left: 2.00 GB", "FAIL  real name", "gold (main) exhausted", ") ends")
	})
	t.Run("held by a person", func(t *testing.T) {
		h.does("subscribe", east[2], "gold")
		out, code := h.run(t.Context(), nil, "sim", "suspend", east[2], "--reason", "reported stolen")
		if code != cli.ExitOK || !strings.Contains(out, "The suspend of "+east[2]+" is ordered as command") {
			t.Fatalf("exit code %d: %s", code, out)
		}
		_, text := h.explained(east[2], "held", func(x api.Explanation) bool {
			return x.SIM.State == simwarden.StateSuspended && x.Open == nil && x.Decision.Desired == simwarden.DesiredLeave
		})
		mentions(t, text, "It is suspended and is left alone: manual hold.", "suspended by cli:", `reason="reported stolen"`)
		h.does("sim", "resume", east[2], "--reason", "found again")
		_, text = h.explained(east[2], "running again", readAs(simwarden.StateActive))
		mentions(t, text, "should be running: nothing is against it.")
	})
	t.Run("paused and queued behind a plan", func(t *testing.T) {
		h.does("subscribe", east[3], "gold")
		h.does("subscribe", east[3], "gold")
		h.does("polling", "pause", east[3], "--reason", "field test")
		x, text := h.explained(east[3], "paused", func(x api.Explanation) bool { return !x.SIM.PausedAt.IsZero() })
		mentions(t, text, "is left alone: polling paused.", "FAIL  polling on", "simwarden polling resume "+east[3], "which is queued, begins")
		for _, n := range x.Next {
			if strings.Contains(n.What, "which is queued, begins") && n.At.Before(x.At.AddDate(0, 0, 29)) {
				t.Errorf("the queued plan begins at %s, not when the current one ends", n.At)
			}
		}
		if strings.Contains(text, "0001-01-01") {
			t.Errorf("an instant that is not there is shown:\n%s", text)
		}
		h.does("polling", "resume", east[3], "--reason", "over")
	})
	t.Run("drifting", func(t *testing.T) {
		x, text := h.explained(east[1], "a command that failed", func(x api.Explanation) bool {
			return x.Open == nil && x.Last != nil && x.Last.State == simwarden.CommandFailed
		})
		if !x.Drifting || x.SIM.ReopenAt.IsZero() {
			t.Errorf("it is not said to drift, or not until when (C8): %+v", x)
		}
		mentions(t, text, "It is active and should be suspended: data exhausted. It is drifting: nothing is under way; the last suspend failed",
			"suspend, failed", "a suspend that failed may be ordered again", "last answer: ", "Internal server error")
		out, code := h.run(t.Context(), nil, "sims", "--drifting")
		if code != cli.ExitOK || !strings.Contains(out, east[1]) || !strings.Contains(out, "drifting: ") {
			t.Errorf("exit code %d: %s", code, out)
		}
		if out, code := h.run(t.Context(), nil, "diff", "--account", "east", "--exit-code"); code != cli.ExitFindings || !strings.Contains(out, east[1]) {
			t.Errorf("diff: exit code %d: %s", code, out)
		}
		if out, _ := h.run(t.Context(), nil, "alerts"); !strings.Contains(out, "command_failed") || !strings.Contains(out, "simwarden explain "+east[1]) {
			t.Errorf("no alert: %s", out)
		}
	})
}

func TestServeThatIsToldToStopWhileItStartsEndsWell(t *testing.T) {
	c := newTerminal(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if out, code := c.run(ctx, nil, "serve", "--listen", "127.0.0.1:0"); code != cli.ExitOK || strings.Contains(out, "simwarden: ") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestAccountTestSaysOnceWhatIsWrongAndWhatToDo(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	out, code := h.run(t.Context(), nil, "account", "test", "east")
	if code != cli.ExitFailed || !strings.Contains(out, "add --allow-lab") {
		t.Errorf("a lab without --allow-lab: exit code %d: %s", code, out)
	}
	_, err := h.world.SetFault(lab.Fault{Name: lab.Garbage, Account: "east", Variant: "html", Probability: 1})
	if err != nil {
		t.Fatal(err)
	}
	out, code = h.run(t.Context(), nil, "account", "test", "east", "--allow-lab")
	if code != cli.ExitFailed || !strings.Contains(out, "Check the account's base URL") {
		t.Errorf("a carrier that answers HTML: exit code %d: %s", code, out)
	}
	h.world.ClearFaults()
	h.does("account", "credentials", "strict", "--credential", "auth_key_id=keyId-wrong", "--credential", "auth_key=secret-wrong")
	out, code = h.run(t.Context(), nil, "account", "test", "strict", "--allow-lab")
	if code != cli.ExitFailed || !strings.Contains(out, "simwarden account start strict") || strings.Contains(out, "secret-wrong") || strings.Contains(out, "level=WARN") {
		t.Errorf("wrong credentials: exit code %d: %s", code, out)
	}
	if out, code := h.run(t.Context(), nil, "doctor"); code != cli.ExitFindings || !strings.Contains(out, "account start strict") {
		t.Errorf("doctor: exit code %d: %s", code, out)
	}
}
