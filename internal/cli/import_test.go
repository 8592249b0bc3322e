package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/internal/transfer"
)

// terminal runs commands on a database of the test's own.
type terminal struct {
	t     *testing.T
	flags []string
}

func newTerminal(t *testing.T) terminal {
	t.Helper()
	c := terminal{t: t, flags: []string{"--database-url", storetest.URL(t, store.Migrate), "--data-dir", t.TempDir()}}
	if out, code := c.run(t.Context(), nil, "account", "add", "acme", "--driver", "soracom", "--credential", "auth_key_id=keyId-x", "--credential", "auth_key=secret-y"); code != cli.ExitOK {
		t.Fatal(out)
	}
	return c
}

// run gives both outputs together and the exit code.
func (c terminal) run(ctx context.Context, in io.Reader, args ...string) (string, int) {
	c.t.Helper()
	if in == nil {
		in = strings.NewReader("")
	}
	var out bytes.Buffer
	code := cli.Main(ctx, append(c.flags, args...), in, &out, &out)
	return out.String(), code
}

func TestImportExitCodes(t *testing.T) {
	c := newTerminal(t)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.csv", "iccid,label\n8986012345678901234,meter\n")
	damaged := write("damaged.csv", "iccid\n8.98604E+18\n8986012345678901242\n")
	rename := write("rename.csv", "number\n8986012345678901234\n")
	plan := write("plan.csv", "iccid,plan\n8986012345678901234,gold\n")
	cases := []struct {
		name string
		args []string
		in   string
		code int
		says string
	}{
		{"a dry run writes nothing", []string{"sims", good, "--account", "acme", "--dry-run"}, "", cli.ExitOK, "1 would be added"},
		{"an unknown account", []string{"sims", good, "--account", "nobody"}, "", cli.ExitNotFound, "nobody"},
		{"a file that is not there", []string{"sims", good + "x", "--account", "acme"}, "", cli.ExitUsage, "no such file"},
		{"a directory", []string{"sims", dir, "--account", "acme"}, "", cli.ExitUsage, "directory"},
		{"no column for the ICCID", []string{"sims", rename, "--account", "acme"}, "", cli.ExitUsage, `"number"`},
		{"the file of bad rows is the file itself", []string{"sims", damaged, "--account", "acme", "--errors", damaged}, "", cli.ExitUsage, "another name"},
		{"a damaged number refuses the file (I4, I6)", []string{"sims", damaged, "--account", "acme"}, "", cli.ExitFindings, "Nothing was written"},
		{"good rows of standard input", []string{"sims", "-", "--account", "acme"}, "iccid\n8986012345678901234\n", cli.ExitOK, "1 added"},
		{"the same again", []string{"sims", good, "--account", "acme"}, "", cli.ExitFindings, "there already"},
		{"the good rows alone", []string{"sims", damaged, "--account", "acme", "--skip-bad"}, "", cli.ExitFindings, "1 added"},
		{"an unknown plan", []string{"subscriptions", plan}, "", cli.ExitFindings, `plan "gold"`},
		{"a spread of months", []string{"sims", good, "--account", "acme", "--spread", "900h"}, "", cli.ExitUsage, "--spread"},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			out, code := c.run(t.Context(), strings.NewReader(k.in), append([]string{"import"}, k.args...)...)
			if code != k.code || !strings.Contains(out, k.says) {
				t.Errorf("exit code %d, want %d; it should say %q:\n%s", code, k.code, k.says, out)
			}
		})
	}
	if b, err := os.ReadFile(damaged); err != nil || len(b) == 0 {
		t.Errorf("the file itself is lost: %v", err)
	}
	out, _ := c.run(t.Context(), nil, "import", "sims", damaged, "--account", "acme", "--dry-run", "--json")
	var rep transfer.Report
	if err := json.Unmarshal([]byte(out), &rep); err != nil || rep.Rows != 2 || len(rep.Errors) != 2 || !rep.DryRun || !rep.Refused {
		t.Errorf("the report as JSON is %s, %v", out, err)
	}
}

func TestImportIsStoppedWhileATerminalSaysNothing(t *testing.T) {
	c := newTerminal(t)
	silent, writer := io.Pipe()
	defer func() { _ = writer.Close() }()
	ctx, stop := context.WithCancel(t.Context())
	read := make(chan struct{})
	go func() {
		<-read
		stop()
	}()
	out, code := c.run(ctx, io.MultiReader(tells{read}, silent), "import", "sims", "-", "--account", "acme")
	if code != cli.ExitFailed || !strings.Contains(out, "nothing was written") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// tells closes a channel when it is read, and is empty.
type tells struct{ read chan struct{} }

func (t tells) Read([]byte) (int, error) {
	close(t.read)
	return 0, io.EOF
}
