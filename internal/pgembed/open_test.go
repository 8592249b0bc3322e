package pgembed

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
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
