package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"syscall"
	"time"
)

// ErrNotLoopback says that an address would be reachable from other machines (B1).
var ErrNotLoopback = errors.New("this address can be reached from other machines, and the API speaks plain HTTP")

const (
	headerTimeout  = 5 * time.Second
	maxHeaderBytes = 32 << 10
	idleTimeout    = 2 * time.Minute
	shutdownWait   = 10 * time.Second
)

// Listen opens the address host:port for Serve; port 0 takes any that is free. Another host than
// this machine's loopback is ErrNotLoopback. A busy port is an error that says what to do.
func Listen(ctx context.Context, address string) (net.Listener, error) {
	host, _, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	notLoopback := fmt.Errorf("listen on %s: %w; use 127.0.0.1, with a TLS proxy before it", address, ErrNotLoopback)
	if !isLoopbackHost(host) {
		return nil, notLoopback
	}
	ln, err := ListenAnywhere(ctx, address)
	if err == nil && !isLoopbackAddress(ln.Addr().String()) { // localhost may resolve to anything
		_ = ln.Close()
		return nil, notLoopback
	}
	return ln, err
}

// ListenAnywhere is Listen for whoever means other machines to reach the API: behind a TLS proxy.
func ListenAnywhere(ctx context.Context, address string) (net.Listener, error) {
	_, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: another program uses port %s, perhaps another simwarden; stop that one or choose another port: %w", address, port, syscall.EADDRINUSE)
	case errors.Is(err, syscall.EACCES):
		return nil, fmt.Errorf("listen on %s: this user may not use port %s; choose one above 1023: %w", address, port, syscall.EACCES)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return ln, nil
}

func splitAddress(address string) (host, port string, err error) {
	if host, port, err = net.SplitHostPort(address); err != nil {
		return "", "", fmt.Errorf("listen: address %.100q is not of the form host:port, such as 127.0.0.1:8470", address)
	}
	return host, port, nil
}

// Serve serves the listener until ctx ends, then lets what is under way finish for ten seconds. It
// closes the listener and returns nil after a shutdown that was asked for.
func Serve(ctx context.Context, ln net.Listener, handler http.Handler) error {
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: headerTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		// Both longer than a request may take: a read deadline that passes cancels the request.
		ReadTimeout:  2 * requestTimeout,
		WriteTimeout: 2 * requestTimeout,
		IdleTimeout:  idleTimeout,
		ErrorLog:     slog.NewLogLogger(slog.Default().Handler(), slog.LevelWarn),
		BaseContext:  func(net.Listener) context.Context { return context.WithoutCancel(ctx) },
	}
	stopped := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownWait)
		defer cancel()
		err := server.Shutdown(wait)
		if err != nil {
			err = errors.Join(err, server.Close())
		}
		stopped <- err
	})
	err := server.Serve(ln)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the API on %s: %w", ln.Addr(), err)
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("stop the API: requests were cut off: %w", err)
	}
	return nil
}
