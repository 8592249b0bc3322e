package cli_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

// TestWhatIsTypedWrong: each wrong input gets one message that says what to do, and an exit code.
func TestWhatIsTypedWrong(t *testing.T) {
	c := newTerminal(t)
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "mine"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	const unknown, present = "8986012345678901234", "8986012345678901242"
	if out, code := c.run(t.Context(), strings.NewReader("iccid\n"+present+"\n"), "import", "sims", "-", "--account", "acme"); code != cli.ExitOK {
		t.Fatal(out)
	}
	soracom := []string{"account", "add", "second", "--driver", "soracom", "--credential", "auth_key_id=keyId-x", "--credential", "auth_key=secret-y"}
	with := func(args ...string) []string { return append(slices.Clone(soracom), args...) }
	cases := []struct {
		name string
		args []string
		code int
		says string
	}{
		{"no command", nil, cli.ExitUsage, "See: simwarden --help"},
		{"a missing flag names the command's own help", []string{"import", "sims", "x.csv"}, cli.ExitUsage, "See: simwarden import sims --help"},
		{"a zone that does not exist", with("--zone", "Mars/Olympus"), cli.ExitUsage, "use an IANA name"},
		{"a driver that does not exist", []string{"account", "add", "second", "--driver", "nope"}, cli.ExitUsage, "there are: "},
		{"a credential that is missing", []string{"account", "add", "second", "--driver", "soracom", "--credential", "auth_key=y"}, cli.ExitUsage, "auth_key_id"},
		{"a credential's file that is not there", []string{"account", "add", "second", "--driver", "soracom", "--credential", "auth_key=@" + full + "/none"}, cli.ExitUsage, "no such file"},
		{"an account that is there already", []string{"account", "add", "acme", "--driver", "soracom", "--credential", "auth_key_id=a", "--credential", "auth_key=b"}, cli.ExitUsage, "exists already"},
		{"a base URL that is none", with("--base-url", "carrier"), cli.ExitUsage, "https://host/path"},
		{"a limit group that is not there", with("--group", "none"), cli.ExitNotFound, `limit group "none"`},
		{"a change that changes nothing", []string{"account", "set", "acme"}, cli.ExitUsage, "nothing to change"},
		{"new credentials that are none", []string{"account", "credentials", "acme"}, cli.ExitUsage, "no credential was given"},
		{"an unknown account", []string{"account", "test", "nobody"}, cli.ExitNotFound, `"nobody"`},
		{"an unknown reason", []string{"sims", "--reason", "because"}, cli.ExitUsage, "data_exhausted"},
		{"an unknown plan", []string{"subscribe", present, "platin"}, cli.ExitNotFound, `plan "platin"`},
		{"an unknown SIM", []string{"explain", unknown}, cli.ExitNotFound, unknown},
		{"something that is no ICCID (I6)", []string{"explain", "123"}, cli.ExitUsage, "18 to 20 characters"},
		{"an unknown token", []string{"token", "revoke", "abc"}, cli.ExitNotFound, `"abc"`},
		{"an unknown alert", []string{"alerts", "clear", "999"}, cli.ExitNotFound, "999"},
		{"an allowance in an unknown unit", []string{"plan", "add", "gold", "--allowance", "1XB", "--validity", "1mo"}, cli.ExitUsage, "GiB"},
		{"a plan in a zone that does not exist", []string{"plan", "add", "gold", "--allowance", "1GB", "--validity", "1mo", "--zone", "Nowhere/X"}, cli.ExitUsage, "use an IANA name"},
		{"a limit of an unknown operation", []string{"group", "rate", "acme", "fly", "3"}, cli.ExitUsage, "query_state"},
		{"an address that others can reach", []string{"serve", "--listen", "0.0.0.0:0"}, cli.ExitFailed, "TLS proxy"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			out, code := c.run(t.Context(), nil, k.args...)
			if code != k.code || !strings.Contains(out, k.says) {
				t.Errorf("exit code %d, want %d; it should say %q:\n%s", code, k.code, k.says, out)
			}
			if n := strings.Count(out, "simwarden: "); n != 1 {
				t.Errorf("%d messages, want one:\n%s", n, out)
			}
		})
	}
	out, _ := c.run(t.Context(), nil, "account", "list", "--json")
	var accounts []struct{ Name string }
	if err := json.Unmarshal([]byte(out), &accounts); err != nil || len(accounts) != 1 {
		t.Errorf("something was written: %s, %v", out, err)
	}
}

// bare runs a command with these flags alone.
func bare(t *testing.T, args ...string) (string, int) {
	t.Helper()
	return terminal{t: t}.run(t.Context(), nil, args...)
}

// TestTheDemoKeepsAwayFromAnInstallation: it would fill it with simulated SIMs and act on the real ones.
func TestTheDemoKeepsAwayFromAnInstallation(t *testing.T) {
	c := newTerminal(t)
	used := t.TempDir()
	if err := os.WriteFile(filepath.Join(used, "keys"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"--data-dir of an installation": {"--data-dir", used, "demo"},
		"--database-url":                append(slices.Clone(c.flags), "demo"),
		"too few SIMs":                  {"demo", "--sims", "3"},
		"too short":                     {"demo", "--for", "1s"},
	} {
		if out, code := bare(t, args...); code != cli.ExitUsage {
			t.Errorf("%s: exit code %d:\n%s", name, code, out)
		}
	}
}

func TestADatabaseThatCannotBeReachedSaysWhatToLookAt(t *testing.T) {
	out, code := bare(t, "--data-dir", t.TempDir(), "--database-url", "postgres://nobody:hunter2@127.0.0.1:1/none", "sims")
	if code != cli.ExitFailed || !strings.Contains(out, "Check that it runs") || strings.Contains(out, "hunter2") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if slices.Sort(lines); len(slices.Compact(lines)) != len(strings.Split(strings.TrimSpace(out), "\n")) {
		t.Errorf("a line is there twice:\n%s", out)
	}
}

func TestRealNameThatCannotBeReadIsSaidAtOnce(t *testing.T) {
	c := newTerminal(t)
	out, code := c.run(t.Context(), nil, "account", "add", "strict", "--driver", "soracom", "--realname-required",
		"--credential", "auth_key_id=keyId-x", "--credential", "auth_key=secret-y")
	if code != cli.ExitOK || !strings.Contains(out, "Warning:") || !strings.Contains(out, "cannot read real-name status") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

// TestEveryListIsJSONWhereItIsAskedFor: one value, also where there is nothing to list.
func TestEveryListIsJSONWhereItIsAskedFor(t *testing.T) {
	c := newTerminal(t)
	for _, args := range [][]string{
		{"version"}, {"account", "list"}, {"account", "drivers"}, {"group", "list"}, {"plan", "list"}, {"sims"}, {"diff"},
		{"token", "list"}, {"alerts"}, {"alerts", "list"}, {"migrate"},
	} {
		out, code := c.run(t.Context(), nil, append(args, "--json")...)
		var v any
		if err := json.Unmarshal([]byte(out), &v); code != cli.ExitOK || err != nil || v == nil {
			t.Errorf("%v: exit code %d, %v:\n%s", args, code, err, out)
		}
	}
}

func TestEveryCommandHasHelpThatFitsATerminal(t *testing.T) {
	for _, args := range []string{
		"", "serve", "demo", "explain", "sims", "diff", "sim suspend", "sim resume", "polling pause", "polling resume",
		"account add", "account list", "account test", "account mode", "account set", "account credentials", "account release",
		"account start", "account drivers", "group list", "group mode", "group rate", "plan add", "plan list", "subscribe", "refund",
		"import sims", "import subscriptions", "token create", "token list", "token revoke", "alerts list", "alerts clear",
		"doctor", "migrate", "lab", "bench poll", "version",
	} {
		out, code := bare(t, append(strings.Fields(args), "--help")...)
		if code != cli.ExitOK || !strings.HasPrefix(out, "Usage: simwarden "+args) {
			t.Errorf("%s: exit code %d:\n%s", args, code, out)
		}
		for line := range strings.Lines(out) {
			if len([]rune(line)) > 101 {
				t.Errorf("%s: a line of %d characters: %s", args, len(line), line)
			}
		}
	}
}

// jsonOf runs a command with --json and reads its answer.
func jsonOf[T any](ctx context.Context, c terminal, args ...string) (v T, err error) {
	out, code := c.run(ctx, nil, append(args, "--json")...)
	if code != cli.ExitOK {
		return v, fmt.Errorf("%v: exit code %d: %s", args, code, out)
	}
	return v, json.Unmarshal([]byte(out), &v)
}
