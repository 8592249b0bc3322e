package acceptance

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	_ "github.com/simwarden/simwarden/internal/cli" // what the program is made of: a change of it makes old results void
	"github.com/simwarden/simwarden/internal/fault"
)

// binaries are the programs that the tests have built, by build tags; they go with the tests' own
// directory.
var binaries struct {
	mu  sync.Mutex
	dir string
	of  map[string]string
}

// binary builds simwarden once for a set of build tags and gives its path.
func binary(t *testing.T, tags string) string {
	t.Helper()
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if path, ok := binaries.of[tags]; ok {
		return path
	}
	if binaries.dir == "" {
		dir, err := os.MkdirTemp("", "simwarden-acceptance-")
		if err != nil {
			t.Fatal(err)
		}
		binaries.dir, binaries.of = dir, map[string]string{}
	}
	path := filepath.Join(binaries.dir, "simwarden"+tags)
	build := exec.Command("go", "build", "-tags", tags, "-o", path, "../cmd/simwarden")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build simwarden: %v\n%s", err, out)
	}
	binaries.of[tags] = path
	return path
}

func removeBinaries() {
	binaries.mu.Lock()
	defer binaries.mu.Unlock()
	if binaries.dir != "" {
		os.RemoveAll(binaries.dir)
	}
}

// process is a running "simwarden serve".
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // of its end
	mu    sync.Mutex
	text  bytes.Buffer // what it said on both outputs
}

// serve starts the program on the world's database, with environment variables of its own. It is
// killed when the test ends, if it still runs.
func (w *world) serve(path string, env ...string) *process {
	w.t.Helper()
	p := &process{t: w.t, ended: make(chan struct{})}
	p.cmd = exec.Command(path, "serve", "--database-url", w.url, "--data-dir", w.dataDir, "--listen", "127.0.0.1:0", "--allow-lab",
		"--evaluate-every", "3s", "--settle", settle.String(), "--timeout", commandTimeout.String(),
		"--claim-margin", "1s", "--first-delay", "200ms")
	p.cmd.Env = append(os.Environ(), fault.EnvName+"=")
	p.cmd.Env = append(p.cmd.Env, env...)
	out, err := p.cmd.StdoutPipe()
	w.must(err)
	p.cmd.Stderr = p
	w.must(p.cmd.Start())
	w.counting.Add(1)
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			fmt.Fprintln(p, lines.Text())
		}
		p.err = p.cmd.Wait()
		if p.err != nil {
			w.mu.Lock()
			w.killed = append(w.killed, time.Now().UTC())
			w.mu.Unlock()
		}
		w.counting.Add(-1)
		close(p.ended)
	}()
	w.t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // it may have ended
		<-p.ended
		if w.t.Failed() {
			w.t.Logf("simwarden serve, %v:\n%s", env, p.said())
		}
	})
	return p
}

// Write keeps what the program says.
func (p *process) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.Write(b)
}

func (p *process) said() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.text.String()
}

// hasEnded says whether the program has ended.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// diesByKill waits until the program has killed itself at an armed point.
func (p *process) diesByKill(what string) {
	p.t.Helper()
	eventually(p.t, "the program dies at "+what, p.hasEnded)
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL {
		p.t.Fatalf("the program ended with %v, want SIGKILL at %s", p.err, what)
	}
}

// stop ends the program in good order.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	eventually(p.t, "the program ends when told to", p.hasEnded)
	if p.err != nil {
		p.t.Errorf("the program ended with %v", p.err)
	}
}

// faultPoints lists the crash points of the program.
func faultPoints(t *testing.T, path string) []string {
	t.Helper()
	out, err := exec.CommandContext(context.WithoutCancel(t.Context()), path, "fault-points").Output()
	if err != nil {
		t.Fatalf("list the crash points: %v", err)
	}
	return strings.Fields(string(out))
}
