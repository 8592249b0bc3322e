package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a world that listens.
type Server struct {
	// URL is the root, as Account.BaseURL takes it: "http://127.0.0.1:49213".
	URL    string
	world  *World
	http   *http.Server
	cancel context.CancelFunc
	wait   sync.WaitGroup
	// underWay is held for reading by each request, so that Close can wait for them all.
	underWay sync.RWMutex
	err      error
}

// Serve listens on addr, or on an ephemeral loopback port where it is empty, until the context
// ends or Close is called. It also carries out changes that take time as they come due.
func (w *World) Serve(ctx context.Context, addr string) (*Server, error) {
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("start the lab on %s: %w", addr, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Server{
		URL: "http://" + listener.Addr().String(), world: w, cancel: cancel,
		http: &http.Server{
			ConnContext:       w.ConnContext,
			ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 60 * time.Second, MaxHeaderBytes: 32 << 10,
		},
	}
	handler := w.Handler()
	s.http.Handler = http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		s.underWay.RLock()
		defer s.underWay.RUnlock()
		handler.ServeHTTP(rw, r)
	})
	s.wait.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			s.err = fmt.Errorf("serve the lab: %w", err)
		}
	})
	s.wait.Go(func() { w.settleAsDue(ctx) })
	context.AfterFunc(ctx, func() { s.http.Close() })
	return s, nil
}

// Close breaks the connections, hung ones too, and waits for the requests to end. It returns why
// the server had stopped before, if it had.
func (s *Server) Close() error {
	s.cancel()
	s.http.Close()
	s.wait.Wait()
	s.underWay.Lock()
	defer s.underWay.Unlock()
	return s.err
}

// settleAsDue carries out changes at their instants, so that the log tells of them in time.
func (w *World) settleAsDue(ctx context.Context) {
	for {
		w.settle()
		var due <-chan time.Time
		if next := w.later.next.Load(); next != 0 {
			timer := w.clock.NewTimer(time.Unix(0, next).Sub(w.clock.Now()))
			due = timer.C()
			select {
			case <-due:
			case <-w.later.wake:
			case <-ctx.Done():
			}
			timer.Stop()
		} else {
			select {
			case <-w.later.wake:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

type connKey struct{}

// ConnContext numbers connections for the log; give it to an http.Server of one's own.
func (w *World) ConnContext(ctx context.Context, _ net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, w.conns.Add(1))
}
