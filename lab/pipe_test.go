package lab_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/lab"
	"github.com/simwarden/simwarden/lab/supersim"
)

// pipes is a listener whose connections are net.Pipes.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.accepted:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// TestHandlerRunsInABubble is what seeded schedules need: the handler over net.Pipe, all of it in
// virtual time, and nothing of the lab left running at the end.
func TestHandlerRunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := lab.New(lab.Config{Clock: clock.System(), Seed: 1})
		a, err := w.AddAccount(lab.AccountSpec{Name: "one", Dialect: "supersim", ChangeDelay: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		truth, err := a.AddSIM(lab.NewSIM{})
		if err != nil {
			t.Fatal(err)
		}
		listener := &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: w.Handler(), ConnContext: w.ConnContext}
		go func() { _ = server.Serve(listener) }()
		client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(context.Context, string, string) (net.Conn, error) {
				ours, theirs := net.Pipe()
				listener.accepted <- theirs
				return ours, nil
			}}}
		ask := func(method, body string) (*http.Response, error) {
			request, err := http.NewRequestWithContext(t.Context(), method, "http://lab"+a.Path()+"/v1/Sims/"+truth.Key, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			request.SetBasicAuth(a.Credential(supersim.CredentialAccountSID), a.Credential(supersim.CredentialAuthToken))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			response, err := client.Do(request)
			if err == nil {
				response.Body.Close()
			}
			return response, err
		}
		if _, err := w.SetFault(lab.Fault{Name: lab.ActThenHang, Count: 1}); err != nil {
			t.Fatal(err)
		}
		sent := time.Now()
		if _, err := ask(http.MethodPost, "Status=inactive"); err == nil || time.Since(sent) != 20*time.Second {
			t.Errorf("the hung request ended after %v with %v", time.Since(sent), err)
		}
		// Virtual time: after this the minute that the change takes is over.
		if err := clock.System().Sleep(t.Context(), 40*time.Second); err != nil {
			t.Fatal(err)
		}
		if now, _ := a.SIM(truth.ICCID); now.State != simwarden.StateSuspended {
			t.Errorf("the sim is %s", now.State)
		}
		if response, err := ask(http.MethodGet, ""); err != nil || response.StatusCode != http.StatusOK {
			t.Errorf("the read: %v", err)
		}
		server.Close()
		synctest.Wait()
		if n := len(w.LogLines()); n != 3 {
			t.Errorf("%d lines, want a change, its execution and a read", n)
		}
	})
}
