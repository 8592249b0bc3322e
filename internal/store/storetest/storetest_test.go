package storetest_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var migrations atomic.Int32

func migrate(ctx context.Context, url string) error {
	migrations.Add(1)
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `CREATE TABLE note (word text)`)
	return err
}

func TestEachTestHasItsOwnMigratedDatabase(t *testing.T) {
	t.Run("tests", func(t *testing.T) {
		for i := range 6 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				pool := storetest.Pool(t, migrate)
				if _, err := pool.Exec(t.Context(), `INSERT INTO note VALUES ('mine')`); err != nil {
					t.Fatal(err)
				}
				var n int
				if err := pool.QueryRow(t.Context(), `SELECT count(*) FROM note`).Scan(&n); err != nil || n != 1 {
					t.Errorf("the test sees %d rows (%v), want its own one", n, err)
				}
			})
		}
	})
	if n := migrations.Load(); n != 1 {
		t.Errorf("the migrations ran %d times, want once", n)
	}
	var left int
	err := storetest.Pool(t, nil).QueryRow(t.Context(),
		`SELECT count(*) FROM pg_database WHERE datname LIKE 'simwarden\_test\_%' AND datname <> current_database()`).Scan(&left)
	if err != nil || left != 0 {
		t.Errorf("%d databases of ended tests are left (%v)", left, err)
	}
}

func TestOpenConnectionsDoNotKeepADatabase(t *testing.T) {
	var conn *pgx.Conn
	t.Run("a test that forgets to close", func(t *testing.T) {
		var err error
		if conn, err = pgx.Connect(t.Context(), storetest.URL(t, migrate)); err != nil {
			t.Fatal(err)
		}
	})
	if err := conn.Ping(t.Context()); err == nil {
		t.Error("the database of the ended test still answers")
	}
}

func TestAnotherServerIsLeftAsItWas(t *testing.T) {
	url := storetest.URL(t, nil)
	pool := storetest.Pool(t, nil)
	databases := func() (names []string) {
		t.Helper()
		err := pool.QueryRow(t.Context(), `SELECT array_agg(datname::text ORDER BY datname) FROM pg_database`).Scan(&names)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	before := databases()
	cmd := exec.Command(os.Args[0], "-test.run=^TestOpenConnectionsDoNotKeepADatabase$", "-test.v")
	cmd.Env = append(os.Environ(), storetest.EnvURL+"="+url)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestOpenConnectionsDoNotKeepADatabase") {
		t.Fatalf("the tests on another server ended with %v:\n%s", err, out)
	}
	if after := databases(); !slices.Equal(after, before) {
		t.Errorf("the server has the databases %v, before it had %v", after, before)
	}
}

// childEnv makes TestChild print where its server's files are and wait to be killed.
const childEnv = "STORETEST_CHILD"

func TestChild(t *testing.T) {
	var dir string
	if err := storetest.Pool(t, nil).QueryRow(t.Context(), `SHOW data_directory`).Scan(&dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); os.Getenv(storetest.EnvURL) == "" && err != nil {
		t.Error(err)
	}
	if os.Getenv(childEnv) == "" {
		return
	}
	fmt.Println("data in", dir)
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
}

func child(t *testing.T) (cmd *exec.Cmd, finish func() error, dir string) {
	t.Helper()
	cmd = exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childEnv+"=1", storetest.EnvURL+"=")
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
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if d, ok := strings.CutPrefix(lines.Text(), "data in "); ok {
			return cmd, func() error {
				_, err := in.Write([]byte("\n"))
				for lines.Scan() { // until it ends: Wait may not be called before
				}
				if e := cmd.Wait(); err == nil {
					err = e
				}
				return err
			}, filepath.Dir(d)
		}
	}
	t.Fatalf("the test process said nothing: %v", cmd.Wait())
	return nil, nil, ""
}

func TestNothingStaysOfATestProcess(t *testing.T) {
	killed, _, first := child(t)
	if err := killed.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := killed.Wait(); err == nil {
		t.Fatal("the killed process ended well")
	}
	gone(t, filepath.Join(first, "postgres", "postmaster.pid")) // the server ended with its process
	_, finish, second := child(t)
	gone(t, first) // and the next process swept its files away
	if err := finish(); err != nil {
		t.Fatal(err)
	}
	gone(t, second)
}

// gone waits until there is no such file, ten seconds at most.
func gone(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); os.IsNotExist(err) {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s is still there", path)
		case <-tick.C:
		}
	}
}
