package cli_test

import (
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

func TestL4PlansAreWithdrawnAndSubscriptionsCancelledAtTheTerminal(t *testing.T) {
	c := newTerminal(t)
	if out, code := c.run(t.Context(), strings.NewReader("iccid\n8986012345678901234\n"), "import", "sims", "-", "--account", "acme"); code != cli.ExitOK {
		t.Fatal(out)
	}
	c.ok("plan", "add", "gold", "--allowance", "1GB", "--validity", "30d")
	for range 2 { // the second waits behind the first
		c.ok("subscribe", "8986012345678901234", "gold")
	}
	for _, k := range []struct {
		args string
		code int
		says string
	}{
		{"plan change gold --price 9.90EUR", cli.ExitOK, "sold for 9.90 EUR"},
		{"plan change gold", cli.ExitUsage, "nothing to change"},
		{"plan change gold --withdrawn", cli.ExitOK, "withdrawn from sale"},
		{"plan list", cli.ExitOK, "withdrawn"},
		{"subscribe 8986012345678901234 gold", cli.ExitUsage, "withdrawn from sale"},
		{"cancel 1 --reason x", cli.ExitUsage, "refund it"},
		{"cancel 2 --reason x", cli.ExitOK, "is cancelled"},
		{"cancel 2 --reason x", cli.ExitUsage, "ended already"},
	} {
		if out, code := c.run(t.Context(), nil, strings.Fields(k.args)...); code != k.code || !strings.Contains(out, k.says) {
			t.Errorf("%s: exit code %d, want %d; it should say %q:\n%s", k.args, code, k.code, k.says, out)
		}
	}
}
