package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/simwarden/simwarden"
)

// Bounds of the transports.
const (
	connectTimeout       = 10 * time.Second
	maxAnswerHeaderBytes = 64 << 10
	maxIdlePerHost       = 64
	maxConnsPerHost      = 256
	idleTimeout          = 60 * time.Second
)

// clients are the two ways in which requests go out. Both speak HTTP/1.1 alone, so that one
// connection carries one request at a time and its first written byte can be held at the gate;
// neither follows redirects nor takes a proxy from the environment.
type clients struct {
	// reads keeps connections alive. Go's transport re-sends a read when a kept connection turns
	// out to be dead; the gate takes another permit for it and counts it.
	reads http.Client
	// changes makes a connection for each request, on which Go re-sends nothing (C4, reliability 3.3).
	changes http.Client
}

func newClients(o Options) clients {
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	changes := newTransport(o)
	changes.DisableKeepAlives = true
	changes.DisableCompression = true
	return clients{
		reads:   http.Client{Transport: newTransport(o), CheckRedirect: noRedirect},
		changes: http.Client{Transport: changes, CheckRedirect: noRedirect},
	}
}

func (c *clients) of(op simwarden.Operation) *http.Client {
	if op.ChangesState() {
		return &c.changes
	}
	return &c.reads
}

func (c *clients) close() {
	c.reads.CloseIdleConnections()
	c.changes.CloseIdleConnections()
}

func newTransport(o Options) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy: nil,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			conn, err := o.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			return &gatedConn{Conn: conn}, nil
		},
		// The handshake is part of connecting: the gate holds the request, not the handshake.
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, connectTimeout)
			defer cancel()
			host, _, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, fmt.Errorf("connect: %w", err)
			}
			plain, err := o.DialContext(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			conn := tls.Client(plain, &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12, RootCAs: o.RootCAs, NextProtos: []string{"http/1.1"}})
			if err := conn.HandshakeContext(ctx); err != nil {
				_ = plain.Close() // the handshake's error is the one that tells
				return nil, fmt.Errorf("tls: %w", err)
			}
			return &gatedConn{Conn: conn}, nil
		},
		Protocols:              protocols,
		MaxIdleConns:           4 * maxConnsPerHost,
		MaxIdleConnsPerHost:    maxIdlePerHost,
		MaxConnsPerHost:        maxConnsPerHost,
		IdleConnTimeout:        idleTimeout,
		ResponseHeaderTimeout:  o.HeaderTimeout,
		MaxResponseHeaderBytes: maxAnswerHeaderBytes,
	}
}
