package cli_test

import (
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
	"github.com/simwarden/simwarden/lab"
)

func TestG2ARefreshAtTheTerminal(t *testing.T) {
	h := quietHouse(t)
	sim := h.sims("east")[0]
	for _, k := range []struct {
		name string
		args string
		code int
		says string
	}{
		{"a carrier on this machine is asked for by name", "sim refresh " + sim, cli.ExitFindings, "State      not read: stopped: the account cannot be called now: the carrier must be reached by https"},
		{"so it is for a test of the account", "account test east", cli.ExitFailed, "account east: query_state stopped: the account cannot be called now: the carrier must be reached by https"},
		{"what the carrier says, and when it was asked", "sim refresh " + sim + " --allow-lab", cli.ExitOK, "State      active (the carrier says \"active\"), asked 20"},
		{"its usage", "sim refresh " + sim + " --allow-lab", cli.ExitOK, "Usage "},
		{"it is in the books", "sims --account east --state active", cli.ExitOK, sim},
		{"a SIM that is not there", "sim refresh 8986012345678909997", cli.ExitNotFound, "8986012345678909997"},
		{"who did it", "audit", cli.ExitOK, "sim_refresh"},
	} {
		if out, code := h.run(t.Context(), nil, strings.Fields(k.args)...); code != k.code || !strings.Contains(out, k.says) {
			t.Errorf("%s: simwarden %s: exit code %d, want %d; it should say %q:\n%s", k.name, k.args, code, k.code, k.says, out)
		}
	}
	if _, err := h.world.SetFault(lab.Fault{Name: lab.Throttle, Variant: "seconds", Seconds: 9, Count: 1}); err != nil {
		t.Fatal(err)
	}
	out, code := h.run(t.Context(), nil, "sim", "refresh", sim, "--allow-lab")
	if code != cli.ExitFindings || !strings.Contains(out, "not read: throttled") || !strings.Contains(out, "ask again in 9s") {
		t.Errorf("the carrier's own limit: exit code %d: %s", code, out)
	}
}
