package cli_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

// What a newcomer mistypes is answered with what to do, and with the exit code that the README says.
func TestWhatANewcomerMistypesIsAnsweredWithWhatToDo(t *testing.T) {
	c := newTerminal(t)
	const nobody = "8986012345678909999"
	for _, k := range []struct {
		args string
		code int
		says string
	}{
		{"explain 898", cli.ExitUsage, "18 to 20 characters"},
		{"explain " + nobody, cli.ExitNotFound, "simwarden sims --search"},
		{"sims --account nobody", cli.ExitNotFound, "simwarden account list"},
		{"account test nobody", cli.ExitNotFound, "simwarden account list"},
		{"account mode nobody act", cli.ExitNotFound, "simwarden account list"},
		{"account add x --driver nobody", cli.ExitUsage, "soracom"},
		{"account add x --driver soracom", cli.ExitUsage, "auth_key_id"},
		{"account set acme", cli.ExitUsage, "--help"},
		{"import sims --account acme nofile.csv", cli.ExitUsage, "nofile.csv"},
		{"export sims --account nobody", cli.ExitNotFound, "simwarden account list"},
		{"bulk show 3", cli.ExitNotFound, "simwarden bulk list"},
		{"plan add gold --allowance 1XB --validity 1mo", cli.ExitUsage, "GiB"},
		{"subscribe " + nobody + " gold", cli.ExitNotFound, "simwarden sims --search"},
		{"refund 4 --reason x", cli.ExitNotFound, "simwarden explain"},
		{"wallet show shop", cli.ExitNotFound, "simwarden wallet list"},
		{"device show 490154203237518", cli.ExitNotFound, "simwarden device list"},
		{"group rate nobody any 5", cli.ExitNotFound, "simwarden group list"},
		{"alerts clear 5", cli.ExitNotFound, "simwarden alerts"},
		{"guard release 3 --reason x", cli.ExitNotFound, "simwarden guard list"},
		{"rules change 99999 --class auth", cli.ExitNotFound, "simwarden rules list"},
		{"rules test nobody suspend", cli.ExitUsage, "soracom"},
		{"token revoke abc", cli.ExitNotFound, "simwarden token list"},
		{"pool show x", cli.ExitNotFound, "simwarden pool list"},
		{"sim suspend " + nobody, cli.ExitUsage, "--reason"},
		{"nonsense", cli.ExitUsage, "simwarden --help"},
		{"sims --database-url postgres:zz", cli.ExitUsage, "postgres://user@host/database"},
		{"sims --database-url postgres://nobody@127.0.0.1:1/x", cli.ExitFailed, "Check that it runs"},
		{"sims --database-url= --data-dir " + filepath.Join("/proc", "nowhere"), cli.ExitFailed, "--data-dir"},
	} {
		out, code := c.run(t.Context(), nil, strings.Fields(k.args)...)
		if code != k.code || !strings.Contains(out, k.says) {
			t.Errorf("%s: exit code %d, want %d; it should say %q:\n%s", k.args, code, k.code, k.says, out)
		}
		if strings.Contains(out, "bad input") {
			t.Errorf("%s: that the input is bad says nothing to a person: %s", k.args, out)
		}
	}
}
