package pgembed

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

func TestServerKeepsItsDataOverAStop(t *testing.T) {
	t.Setenv("PGPORT", "1")
	t.Setenv("PGSSLMODE", "verify-full")
	dir := folder(t)
	s := begin(t, dir)
	for _, row := range []struct{ says, sql, want string }{
		{"times are in UTC", "SHOW timezone", "UTC"},
		{"the log may grow to 4 GB", "SHOW max_wal_size", "4GB"},
		{"a checkpoint comes every 15 minutes", "SHOW checkpoint_timeout", "15min"},
		{"the log is packed with lz4 where the build has it",
			"SELECT coalesce((SELECT 'ok' FROM pg_settings WHERE name = 'wal_compression' AND (setting = 'lz4' OR NOT 'lz4' = ANY (enumvals))), 'no')", "ok"},
		{"no port is open", "SHOW listen_addresses", ""},
		{"text is UTF-8", "SHOW server_encoding", "UTF8"},
		{"the order of text does not hang on the system", "SELECT datcollate FROM pg_database WHERE datname = 'simwarden'", "C"},
		{"we are the database's user", "SELECT current_user::text", "simwarden"},
	} {
		if got := ask(t, s.URL(), row.sql); got != row.want {
			t.Errorf("%s: %s says %q, want %q", row.says, row.sql, got, row.want)
		}
	}
	st, err := os.Stat(filepath.Join(dir, "r"))
	if err != nil {
		t.Fatal(err)
	}
	if st.Mode().Perm() != 0o700 {
		t.Errorf("the socket's folder has mode %v, want 0700", st.Mode().Perm())
	}
	run(t, s.URL(), "CREATE TABLE kept AS SELECT 'yes' AS word")
	if err := s.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
		t.Error("Done is closed after a stop that was asked for")
	default:
	}
	s = begin(t, dir)
	if got := ask(t, s.URL(), "SELECT word FROM kept"); got != "yes" {
		t.Errorf("after a restart the table says %q, want yes", got)
	}
}

func TestServerDiesWithItsParent(t *testing.T) {
	dir := withCluster(t)
	p := startHelper(t, dir)
	h, err := Attach(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	run(t, h.URL(), "CREATE TABLE kept AS SELECT 'yes' AS word")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, h.Done(), "the end of the server after kill -9 of its parent (F1)")
	s := begin(t, dir)
	if got := ask(t, s.URL(), "SELECT word FROM kept"); got != "yes" {
		t.Errorf("after kill -9 of the parent the table says %q, want yes", got)
	}
}

func TestLeftoverIsStoppedAndStartedAgain(t *testing.T) {
	dir := withCluster(t)
	left := begin(t, dir)
	run(t, left.URL(), "CREATE TABLE kept AS SELECT 'yes' AS word")
	left.owner.release() // as if its parent were gone
	s := begin(t, dir)
	soon(t, left.Done(), "the end of the server that was left over")
	if s.cmd.Process.Pid == left.cmd.Process.Pid {
		t.Error("the server is still the one left over")
	}
	if got := ask(t, s.URL(), "SELECT word FROM kept"); got != "yes" {
		t.Errorf("after the left-over was replaced the table says %q, want yes", got)
	}
}

func TestServerKilledIsNoticedAndStartsAgain(t *testing.T) {
	dir := withCluster(t)
	s := begin(t, dir)
	run(t, s.URL(), "CREATE TABLE kept AS SELECT 'yes' AS word")
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	soon(t, s.Done(), "word of the server's end (F9)")
	if err := s.Stop(t.Context()); err != nil {
		t.Errorf("stopping a server that is gone: %v", err)
	}
	again := begin(t, dir)
	if got := ask(t, again.URL(), "SELECT word FROM kept"); got != "yes" {
		t.Errorf("after kill -9 of the server the table says %q, want yes", got)
	}
}

func TestStaleMarkOfAnUnrelatedProcessIsNoObstacle(t *testing.T) {
	dir := withCluster(t)
	mark := filepath.Join(dir, "postgres", "postmaster.pid")
	if err := os.WriteFile(mark, []byte(strconv.Itoa(os.Getpid())+"\n"+filepath.Join(dir, "postgres")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s, err := Start(ctx, options(dir))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
