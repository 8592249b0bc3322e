package pgembed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

func TestSecondProcessAttachesAndIsWaitedFor(t *testing.T) {
	dir := withCluster(t)
	p := startHelper(t, dir)
	h, err := Open(t.Context(), options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	if h.Owner() {
		t.Fatal("the second process runs the server that the first one runs")
	}
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	p.awaitLine("waiting for others to close the database")
	if got := ask(t, h.URL(), "SELECT 'still here'"); got != "still here" {
		t.Errorf("while its owner waits the database says %q", got)
	}
	if err := h.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the owner ended with %v", err)
	}
	if _, err := Attach(t.Context(), dir); !errors.Is(err, ErrNotRunning) {
		t.Errorf("after all have closed, Attach says %v, want ErrNotRunning", err)
	}
}

func TestOfManyOpensAtOnceOneRunsTheServer(t *testing.T) {
	dir := withCluster(t)
	var (
		wg      sync.WaitGroup
		handles [4]*Handle
		errs    [4]error
	)
	for i := range handles {
		wg.Go(func() { handles[i], errs[i] = Open(t.Context(), options(dir)) })
	}
	wg.Wait()
	owners := 0
	for i, h := range handles {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		if h.Owner() {
			owners++
		}
		if got := ask(t, h.URL(), "SELECT 'yes'"); got != "yes" {
			t.Errorf("handle %d says %q", i, got)
		}
	}
	if owners != 1 {
		t.Errorf("%d handles run the server, want 1", owners)
	}
	for i, h := range handles {
		wg.Go(func() { errs[i] = h.Close(context.Background()) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}
}

func TestOwnWaitsForTheOneThatRunsIt(t *testing.T) {
	dir := withCluster(t)
	p := startHelper(t, dir)
	own := options(dir)
	own.Own, own.Wait = true, 50*time.Millisecond
	if _, err := Open(t.Context(), own); !errors.Is(err, ErrInUse) {
		t.Fatalf("while another process stays, Open says %v, want ErrInUse", err)
	}
	if _, err := Start(t.Context(), own); !errors.Is(err, ErrInUse) {
		t.Fatalf("while another process stays, Start says %v, want ErrInUse", err)
	}
	own.Wait = time.Minute
	opened := make(chan struct{})
	var (
		h   *Handle
		err error
	)
	go func() {
		defer close(opened)
		h, err = Open(context.Background(), own)
	}()
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	soon(t, opened, "the take-over")
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	if !h.Owner() {
		t.Error("the one that asked to run the server is attached")
	}
}

func TestAnOwnerThatGivesUpWaitingStopsTheServer(t *testing.T) {
	dir := withCluster(t)
	opts := options(dir)
	opts.Wait = 30 * time.Millisecond
	first, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.Wait = time.Minute
	second, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close(context.Background())
	if err := first.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	soon(t, second.Done(), "word to the attached that the server is gone")
}

func TestServerOfOneWhoStaysComesBack(t *testing.T) {
	dir := withCluster(t)
	opts := options(dir)
	opts.Own = true
	h, err := Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close(context.Background())
	run(t, h.URL(), "CREATE TABLE kept AS SELECT 'yes' AS word")
	kill := func() {
		t.Helper()
		p, err := readPIDFile(filepath.Join(dir, "postgres"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone := func() (bool, error) { return !isServerOf(p.pid, filepath.Join(dir, "postgres")), nil }
		if err := poll(t.Context(), gone); err != nil {
			t.Fatal(err)
		}
	}
	kill()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var conn *pgx.Conn
	if err := poll(ctx, func() (bool, error) {
		var err error
		conn, err = pgx.Connect(ctx, h.URL())
		return err == nil, nil
	}); err != nil {
		t.Fatalf("the server was not back within 10 s (F9): %v", err)
	}
	if err := conn.Close(ctx); err != nil {
		t.Error(err)
	}
	if got := ask(t, h.URL(), "SELECT word FROM kept"); got != "yes" {
		t.Errorf("after the server came back the table says %q, want yes", got)
	}
	if err := os.Remove(filepath.Join(dir, "postgres/global/pg_control")); err != nil {
		t.Fatal(err)
	}
	kill()
	soon(t, h.Done(), "the end of the trials with a damaged cluster")
	if err := h.Close(t.Context()); err != nil {
		t.Errorf("closing after the server's end: %v", err)
	}
}
