package faults_test

import (
	"context"
	"errors"
	"net"
	"sync"
)

// lines are a node's connections to one thing: its database, or its carriers.
type lines struct {
	dial func(ctx context.Context, network, addr string) (net.Conn, error)

	mu   sync.Mutex
	open map[*line]bool
	down bool
}

type line struct {
	net.Conn
	of *lines
}

var errDown = errors.New("the line is down")

func newLines(dial func(ctx context.Context, network, addr string) (net.Conn, error)) *lines {
	return &lines{dial: dial, open: map[*line]bool{}}
}

// Dial connects, unless the lines are down.
func (l *lines) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if down {
		return nil, errDown
	}
	conn, err := l.dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	out := &line{Conn: conn, of: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.Join(errDown, conn.Close())
	}
	l.open[out] = true
	return out, nil
}

func (c *line) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// cut breaks all connections, for good where the lines go down.
func (l *lines) cut(down bool) {
	l.mu.Lock()
	l.down = l.down || down
	open := l.open
	l.open = map[*line]bool{}
	l.mu.Unlock()
	for c := range open {
		_ = c.Conn.Close() // it is to be broken, in whatever way
	}
}

// pipes is a listener whose connections are net.Pipes.
type pipes struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newPipes() *pipes {
	return &pipes{accepted: make(chan net.Conn), closed: make(chan struct{})}
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

// Dial is the carriers' end of the network.
func (p *pipes) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.accepted <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
