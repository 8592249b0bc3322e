package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

func TestF53BulkAtTheTerminal(t *testing.T) {
	c := newTerminal(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "list.csv")
	if err := os.WriteFile(file, []byte("iccid,label\n8986012345678901234,meter\n8986012345678901242,\"meter, two\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(dir, "bad.csv")
	if err := os.WriteFile(bad, []byte("8986012345678901234\n8986012345678909999\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := c.run(t.Context(), nil, "import", "sims", file, "--account", "acme"); code != cli.ExitOK {
		t.Fatal(out)
	}
	for _, k := range []struct {
		name string
		args []string
		in   string
		code int
		says string
	}{
		{"the preview comes first, and no is no", []string{"suspend", "--file", file, "--reason", "tariff"}, "no\n", cli.ExitOK, "To suspend: 2 SIMs."},
		{"it says that nothing was done", []string{"suspend", "--file", file, "--reason", "tariff"}, "", cli.ExitOK, "Nothing was done."},
		{"nothing has begun", []string{"show", "1"}, "", cli.ExitNotFound, "not found"},
		{"a number that no SIM has", []string{"suspend", "--file", bad, "--reason", "x", "--yes"}, "", cli.ExitUsage, "no SIM has this ICCID"},
		{"no SIM is named", []string{"resume", "--reason", "x"}, "", cli.ExitUsage, "--file or --filter"},
		{"a filter that no SIM fits", []string{"resume", "--filter", "account=acme,state=terminated", "--reason", "x", "--yes"}, "", cli.ExitUsage, "no SIM fits the filter"},
		{"an empty list", []string{"resume", "--file", "/dev/null", "--reason", "x", "--yes"}, "", cli.ExitUsage, "the list is empty"},
		{"a filter that is none", []string{"resume", "--filter", "mood=good", "--reason", "x"}, "", cli.ExitUsage, "mood"},
		{"standard input cannot be asked", []string{"suspend", "--file", "-", "--reason", "x"}, "8986012345678901234\n", cli.ExitUsage, "--yes"},
		{"yes begins it", []string{"suspend", "--filter", "account=acme,state=unknown", "--reason", "tariff"}, "yes\n", cli.ExitOK, "Bulk action 1 has begun"},
		{"it is shown", []string{"show", "1"}, "", cli.ExitOK, "running, 0 of 2 SIMs"},
		{"with its SIMs", []string{"show", "1"}, "", cli.ExitOK, "to come"},
		{"it is listed", []string{"list"}, "", cli.ExitOK, "0 of 2"},
		{"it is cancelled", []string{"cancel", "1"}, "", cli.ExitOK, "cancelled"},
		{"once", []string{"cancel", "1"}, "", cli.ExitOK, "had ended before"},
		{"without a question", []string{"resume", "--file", bad, "--skip-bad", "--reason", "x", "--yes"}, "", cli.ExitOK, "Bulk action 2 has begun"},
	} {
		out, code := c.run(t.Context(), strings.NewReader(k.in), append([]string{"bulk"}, k.args...)...)
		if code != k.code || !strings.Contains(out, k.says) {
			t.Errorf("%s: exit code %d, want %d; it should say %q:\n%s", k.name, code, k.code, k.says, out)
		}
	}
}

func TestG6RulesAtTheTerminal(t *testing.T) {
	c := newTerminal(t)
	if out := c.ok("rules", "list", "soracom"); !strings.Contains(out, "driver") {
		t.Errorf("the driver's own rules are there before anything ran: %s", out)
	}
	added := c.ok("rules", "add", "soracom", "stopped", "--class", "refused", "--contains", "stopped by", "--status", "4")
	_, rest, _ := strings.Cut(added, "Rule ")
	id, _, _ := strings.Cut(rest, ",")
	for _, k := range []struct {
		name string
		args []string
		in   string
		code int
		says string
	}{
		{"it says what it would have changed", []string{"add", "soracom", "other", "--class", "refused", "--code", "X2", "--dry-run"}, "", cli.ExitOK, "Of 0 suspends and resumes that failed"},
		{"a costly pattern (F47)", []string{"add", "soracom", "slow", "--class", "refused", "--pattern", "((a{0,100}){0,10})*b"}, "", cli.ExitUsage, "at most 1000"},
		{"its name again", []string{"add", "soracom", "stopped", "--class", "auth", "--code", "X3"}, "", cli.ExitUsage, "exists already"},
		{"it is met", []string{"test", "soracom", "suspend", "--status", "403", "--message", "Stopped by operator"}, "", cli.ExitOK, `rule "stopped" matches`},
		{"everything at the top warns and asks", []string{"add", "soracom", "all", "--class", "temporary", "--position", "1"}, "no\n", cli.ExitOK, "every error there is"},
		{"no was no", []string{"test", "soracom", "suspend", "--status", "403", "--message", "Stopped by operator"}, "", cli.ExitOK, `rule "stopped" matches`},
		{"it is moved", []string{"move", id, "20"}, "", cli.ExitOK, "is moved"},
		{"it is listed", []string{"list", "soracom"}, "", cli.ExitOK, `HTTP 4 "stopped by"`},
		{"it is changed, and what is not given stays", []string{"change", id, "--class", "maintenance", "--wait", "10m"}, "", cli.ExitOK, "is changed"},
		{"as it says", []string{"list", "soracom"}, "", cli.ExitOK, `HTTP 4 "stopped by"  maintenance`},
		{"to nothing", []string{"change", id}, "", cli.ExitUsage, "nothing to change"},
		{"to a class that is none", []string{"change", id, "--class", "mood"}, "", cli.ExitUsage, "mood"},
		{"it is deleted", []string{"delete", id}, "", cli.ExitOK, "is deleted"},
		{"once", []string{"delete", id}, "", cli.ExitNotFound, "not found"},
	} {
		out, code := c.run(t.Context(), strings.NewReader(k.in), append([]string{"rules"}, k.args...)...)
		if code != k.code || !strings.Contains(out, k.says) {
			t.Errorf("%s: exit code %d, want %d; it should say %q:\n%s", k.name, code, k.code, k.says, out)
		}
	}
}
