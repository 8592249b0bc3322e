package pgembed

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// helperEnv makes this test binary a process of its own that opens the data directory it names,
// says its address, and closes it when its standard input ends.
const helperEnv = "PGEMBED_TEST_HELPER_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		if err := helper(dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	if made.dir != "" {
		if err := os.RemoveAll(made.dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

func helper(dir string) error {
	h, err := Open(context.Background(), Options{DataDir: dir, RunDir: dir + "/r", Fast: true,
		Log: slog.New(slog.NewTextHandler(os.Stdout, nil))})
	if err != nil {
		return err
	}
	fmt.Println("open", h.URL())
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	return h.Close(context.Background())
}

// process is a running helper.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Scanner
}

func startHelper(t *testing.T, dir string) process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	p := process{t, cmd, in, bufio.NewScanner(out)}
	p.awaitLine("open postgres:///")
	return p
}

// awaitLine reads what the helper says until a line has text in it.
func (p process) awaitLine(text string) {
	p.t.Helper()
	for p.out.Scan() {
		if strings.Contains(p.out.Text(), text) {
			return
		}
	}
	p.t.Fatalf("the helper ended without saying %q", text)
}

// folder is a new folder that the server's account can reach, unlike t.TempDir when we are root.
func folder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "swpg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	return dir
}

var made struct {
	once sync.Once
	dir  string
	err  error
}

// withCluster is a folder with a cluster in it that was stopped. initdb runs once.
func withCluster(t *testing.T) string {
	t.Helper()
	made.once.Do(func() {
		if made.dir, made.err = os.MkdirTemp("", "swpg"); made.err != nil {
			return
		}
		if made.err = os.Chmod(made.dir, 0o711); made.err != nil {
			return
		}
		var s *Server
		if s, made.err = Start(context.Background(), options(made.dir)); made.err == nil {
			made.err = s.Stop(context.Background())
		}
	})
	if made.err != nil {
		t.Fatal(made.err)
	}
	dir := folder(t)
	cluster := filepath.Join(dir, "postgres")
	if err := os.CopyFS(cluster, os.DirFS(filepath.Join(made.dir, "postgres"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cluster, 0o700); err != nil {
		t.Fatal(err)
	}
	return dir
}

func options(dir string) Options {
	return Options{DataDir: dir, RunDir: filepath.Join(dir, "r"), Fast: true}
}

func begin(t *testing.T, dir string) *Server {
	t.Helper()
	s, err := Start(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return s
}

// ask runs one statement that returns one text.
func ask(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var text string
	if err := conn.QueryRow(t.Context(), sql).Scan(&text); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return text
}

func run(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// soon fails the test when the channel is not closed within ten seconds.
func soon(t *testing.T, c <-chan struct{}, what string) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(10 * time.Second):
		t.Fatalf("%s did not happen within 10 s", what)
	}
}
