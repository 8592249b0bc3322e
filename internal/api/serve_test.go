package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/api"
)

func TestOnlyLoopbackIsListenedOn(t *testing.T) {
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "192.0.2.1:0", "example.com:0"} {
		ln, err := api.Listen(t.Context(), address)
		if err == nil {
			_ = ln.Close()
		}
		if !errors.Is(err, api.ErrNotLoopback) {
			t.Errorf("%s: %v, want ErrNotLoopback (B1)", address, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "localhost:0"} {
		ln, err := api.Listen(t.Context(), address)
		if err != nil {
			t.Errorf("%s: %v", address, err)
			continue
		}
		_ = ln.Close()
	}
	for _, address := range []string{"8470", "127.0.0.1", ""} {
		if _, err := api.Listen(t.Context(), address); err == nil || !strings.Contains(err.Error(), "host:port") {
			t.Errorf("%q: %v, want an error that says the form", address, err)
		}
	}
}

func TestABusyPortSaysWhatToDo(t *testing.T) {
	first, err := api.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	_, err = api.Listen(t.Context(), first.Addr().String())
	if err == nil {
		t.Fatal("two listen on one port")
	}
	_, port, _ := net.SplitHostPort(first.Addr().String())
	contains(t, "the error", err.Error(), port, "another program", "choose another port")
}

func TestAShutdownLetsRequestsFinish(t *testing.T) {
	ln, err := api.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	arrived, finish := make(chan struct{}), make(chan struct{})
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-finish
		if r.Context().Err() == nil {
			_, _ = io.WriteString(w, "whole")
		}
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, ln, handler) }()
	answer := make(chan string, 1)
	go func() {
		req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), "GET", "http://"+ln.Addr().String(), nil)
		if err != nil {
			answer <- err.Error()
			return
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			answer <- err.Error()
			return
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		answer <- string(text)
	}()
	<-arrived
	stop()
	waitUntil(t, "the listener is closed", func() bool {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("ended with a request under way: %v", err)
	default:
	}
	close(finish)
	if got := <-answer; got != "whole" {
		t.Errorf("the request under way got %q", got)
	}
	if err := <-ended; err != nil {
		t.Errorf("a shutdown that was asked for: %v", err)
	}
}

// waitUntil looks again and again, for ten seconds at most.
func waitUntil(t *testing.T, what string, so func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !so(); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come to be that %s", what)
		}
		runtime.Gosched()
	}
}

func TestHeadersAreBounded(t *testing.T) {
	w := newWorld(t)
	ln, err := api.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- api.Serve(ctx, ln, w.server.Config.Handler) }()
	req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+ln.Addr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("64 KiB of headers: HTTP %d, want 431 (B17)", res.StatusCode)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
