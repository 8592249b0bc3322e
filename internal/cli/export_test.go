package cli_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
)

func TestI4ExportAtTheTerminalIsReadByImport(t *testing.T) {
	c := newTerminal(t)
	file := filepath.Join(t.TempDir(), "sims.csv")
	if err := os.WriteFile(file, []byte("iccid,label,imei\n8986012345678901234,=cmd,490154203237518\n8986012345678901242,二,\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c.ok("import", "sims", file, "--account", "acme")
	c.ok("plan", "add", "gold", "--allowance", "1GB", "--validity", "30d", "--zone", "UTC")
	c.ok("subscribe", "8986012345678901242", "gold")
	// What goes to the file is standard output alone.
	var out, log bytes.Buffer
	if code := cli.Main(t.Context(), append(c.flags, "export", "sims", "--account", "acme"), strings.NewReader(""), &out, &log); code != cli.ExitOK || log.String() != "2 rows\n" {
		t.Fatalf("exit code %d: %s", code, log.String())
	}
	text := out.String()
	if !strings.HasPrefix(text, "\ufefficcid,") || !strings.Contains(text, `"'=cmd","490154203237518","acme"`) {
		t.Errorf("the export: %s", text)
	}
	if got, code := c.run(t.Context(), strings.NewReader(text), "import", "sims", "-", "--account", "acme", "--skip-bad"); code != cli.ExitFindings || !strings.Contains(got, "0 added, 2 there already, 0 bad") {
		t.Errorf("exit code %d: %s", code, got)
	}
	for kind, has := range map[string]string{"devices": `"490154203237518"`, "subscriptions": `"gold"`, "records": `command_id`, "usage-days": `bytes`} {
		if got := c.ok("export", kind); !strings.Contains(got, has) {
			t.Errorf("export %s lacks %s: %s", kind, has, got)
		}
	}
	devices, _ := c.run(t.Context(), nil, "export", "devices")
	if got, code := c.run(t.Context(), strings.NewReader(strings.TrimSuffix(devices, "1 rows\n")), "import", "devices", "-"); code != cli.ExitOK || !strings.Contains(got, "0 added, 1 there already") {
		t.Errorf("exit code %d: %s", code, got)
	}
	for _, k := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"an account that is not there", []string{"sims", "--account", "nobody"}, cli.ExitNotFound, "nobody"},
		{"a day that is none", []string{"records", "--from", "May"}, cli.ExitUsage, "2026-05-31"},
		{"JSON", []string{"sims", "--json"}, cli.ExitUsage, "CSV"},
		{"a SIM that is not there", []string{"records", "--sim", "8986012345678909999"}, cli.ExitNotFound, "not found"},
	} {
		if got, code := c.run(t.Context(), nil, append([]string{"export"}, k.args...)...); code != k.code || !strings.Contains(got, k.says) {
			t.Errorf("%s: exit code %d, want %d; it should say %q:\n%s", k.name, code, k.code, k.says, got)
		}
	}
}

// ok runs a command that must go well, and gives what it says.
func (c terminal) ok(args ...string) string {
	c.t.Helper()
	out, code := c.run(c.t.Context(), nil, args...)
	if code != cli.ExitOK {
		c.t.Fatalf("%s: exit code %d: %s", strings.Join(args, " "), code, out)
	}
	return out
}
