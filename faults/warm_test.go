package faults_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// warm keeps a database's sessions that nobody uses any more for the next who asks for one like
// them: a session that has planned its statements already costs a fraction of a new one. What the
// client of before did leaves no trace in it: only a session that is idle, outside a transaction and
// without an error so far is kept. Any other is closed as its client closed it.
//
// It speaks just as much of the protocol as that takes: where messages begin and end, which
// statements a session has prepared, and whether it waits for an answer.
type warm struct {
	mu    sync.Mutex
	idle  map[string][]*backend // by what they were started with
	count int                   // of them
	used  map[*client]bool
	gone  bool
}

// maxIdle bounds what waits for a client, since the server bounds its sessions.
const maxIdle = 36

// backend is a session at the server.
type backend struct {
	net.Conn
	startup  string
	greeting []byte            // what the server said at the session's start
	pid      int32             // of the server's process
	prepared map[string]string // its statements by name
}

// client is the end of it that one client has.
type client struct {
	warm *warm
	dial func() (net.Conn, error)

	begun    chan struct{} // closed by the first message, and by the end
	mu       sync.Mutex
	backend  *backend // nil before the first message, and after the end
	closed   bool
	unread   []byte // of the greeting of a session that is used again
	greeted  bool
	awaits   int  // answers that the server owes
	reads    int  // readers that wait for it
	spoilt   bool // not to be used again
	idle     bool // and outside a transaction, as the last answer said
	head     [5]byte
	inHead   int
	left     int     // bytes of the message that follow
	body     [4]byte // its first bytes
	inBody   int
	deadline time.Time
}

// realLimits are in the world's time, which goes on where a bubble's stands still: a client that
// sleeps in the bubble while it holds a lock that others wait for would stop the bubble's time for
// ever. Such a client loses its session, as one loses it that stands still for long (F15).
var realLimits = [][2]string{{"idle_in_transaction_session_timeout", "1500"}, {"plan_cache_mode", "force_generic_plan"}, {"synchronous_commit", "off"}}

func newWarm() *warm { return &warm{idle: map[string][]*backend{}, used: map[*client]bool{}} }

// Dial gives a session.
func (w *warm) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil, net.ErrClosed
	}
	c := &client{warm: w, begun: make(chan struct{}), dial: func() (net.Conn, error) { return (&net.Dialer{}).DialContext(ctx, network, addr) }}
	w.used[c] = true
	return c, nil
}

// breakAll ends all sessions, and there will be no other.
func (w *warm) breakAll() {
	w.mu.Lock()
	list := slices.Collect(maps.Keys(w.used))
	w.mu.Unlock()
	w.close()
	for _, c := range list {
		c.mu.Lock()
		if c.backend != nil && !c.closed {
			c.spoilt = true
			_ = c.backend.Close() // that is what it is for
		}
		c.mu.Unlock()
	}
}

func (w *warm) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, list := range w.idle {
		for _, b := range list {
			_ = b.Close() // the server sees it go
		}
	}
	clear(w.idle)
}

// pids are the processes of the sessions that wait for a client.
func (w *warm) pids() []int32 {
	w.mu.Lock()
	defer w.mu.Unlock()
	pids := []int32{}
	for _, list := range w.idle {
		for _, b := range list {
			pids = append(pids, b.pid)
		}
	}
	return pids
}

func (w *warm) take(startup string) *backend {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.idle[startup]
	if len(list) == 0 {
		return nil
	}
	b := list[len(list)-1]
	w.idle[startup] = list[:len(list)-1]
	w.count--
	return b
}

func (w *warm) left(c *client) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.used, c)
}

func (w *warm) give(b *backend) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || w.count >= maxIdle {
		return b.Close()
	}
	w.count++
	w.idle[b.startup] = append(w.idle[b.startup], b)
	return nil
}

// start opens the session that the first message asks for; mu is held.
func (c *client) start(first []byte) error {
	const protocol3 = 3 << 16
	if len(first) < 9 || int(binary.BigEndian.Uint32(first)) != len(first) || binary.BigEndian.Uint32(first[4:])>>16<<16 != protocol3 {
		c.spoilt = true // it asks for TLS, or for a statement to be cancelled
		conn, err := c.dial()
		if err != nil {
			return err
		}
		c.backend = &backend{Conn: conn}
		_, err = conn.Write(first)
		return err
	}
	parameters := startupWith(first)
	if b := c.warm.take(string(parameters)); b != nil {
		c.backend, c.unread, c.greeted, c.idle = b, b.greeting, true, true
		return nil
	}
	conn, err := c.dial()
	if err != nil {
		return err
	}
	c.backend = &backend{Conn: conn, startup: string(parameters), prepared: map[string]string{}}
	c.awaits = 1
	_, err = conn.Write(parameters)
	return err
}

// startupWith is the startup message with our own limits in place of those in it, and in one order: a
// client's parameters come in any.
func startupWith(first []byte) []byte {
	parameters := map[string]string{}
	fields := strings.Split(strings.TrimRight(string(first[8:]), "\x00"), "\x00")
	for i := 0; i+1 < len(fields); i += 2 {
		parameters[fields[i]] = fields[i+1]
	}
	for _, limit := range realLimits {
		parameters[limit[0]] = limit[1]
	}
	out := bytes.Clone(first[:8])
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		out = append(append(append(append(out, name...), 0), parameters[name]...), 0)
	}
	out = append(out, 0)
	binary.BigEndian.PutUint32(out, uint32(len(out)))
	return out
}

func (c *client) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, net.ErrClosed
	}
	if c.backend == nil {
		defer close(c.begun)
		if err := c.start(p); err != nil {
			c.closed, c.spoilt = true, true
			return 0, err
		}
		if !c.deadline.IsZero() {
			_ = c.backend.SetDeadline(c.deadline)
		}
		return len(p), nil
	}
	out := p
	if bytes.Equal(out, ping) && c.idle && c.awaits == 0 && len(c.unread) == 0 {
		c.unread = pong // the session is there, or this end of it would have been closed
		return len(p), nil
	}
	if !c.spoilt {
		out = c.forServer(p)
	}
	if len(out) == 0 {
		return len(p), nil
	}
	if _, err := c.backend.Write(out); err != nil {
		c.spoilt = true
		return 0, err
	}
	return len(p), nil
}

// nothing prepares an empty statement without a name: its answer is that of any statement prepared.
var nothing = []byte{'P', 0, 0, 0, 8, 0, 0, 0, 0}

// A pool asks so whether a session that was idle is there still, and is answered so.
var ping, pong = []byte("Q\x00\x00\x00\x0c-- ping\x00"), []byte("I\x00\x00\x00\x04Z\x00\x00\x00\x05I")

// forServer is what the server gets to see of whole messages: statements that the session knows
// already are not prepared again, and the end is kept from it.
func (c *client) forServer(p []byte) []byte {
	out := make([]byte, 0, len(p))
	for rest := p; len(rest) > 0; {
		if len(rest) < 5 || len(rest) < 1+int(binary.BigEndian.Uint32(rest[1:])) {
			c.spoilt = true
			return append(out, rest...)
		}
		n := 1 + int(binary.BigEndian.Uint32(rest[1:]))
		message := rest[:n]
		rest = rest[n:]
		switch message[0] {
		case 'P':
			name, statement, _ := bytes.Cut(message[5:], []byte{0})
			if known, ok := c.backend.prepared[string(name)]; ok && known == string(statement) {
				message = nothing
			} else if len(name) > 0 {
				c.backend.prepared[string(name)] = string(statement)
			}
		case 'C':
			if message[5] == 'S' {
				delete(c.backend.prepared, string(bytes.TrimRight(message[6:], "\x00")))
			}
		case 'S', 'Q', 'F':
			c.awaits++
		case 'p': // a password: the server's questions could not be answered again
			c.spoilt = true
		case 'X':
			message = nil
		}
		out = append(out, message...)
	}
	return out
}

func (c *client) Read(p []byte) (int, error) {
	<-c.begun
	c.mu.Lock()
	if c.closed || c.backend == nil {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	if len(c.unread) > 0 {
		n := copy(p, c.unread)
		c.unread = c.unread[n:]
		c.mu.Unlock()
		return n, nil
	}
	conn := c.backend.Conn
	c.reads++
	c.mu.Unlock()
	n, err := conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reads--
	c.spoilt = c.spoilt || err != nil
	c.heard(p[:n])
	return n, err
}

// heard follows what the server says; mu is held.
func (c *client) heard(p []byte) {
	if c.spoilt || c.backend == nil {
		return
	}
	if !c.greeted {
		c.backend.greeting = append(c.backend.greeting, p...)
	}
	for len(p) > 0 {
		if c.inHead < 5 {
			n := copy(c.head[c.inHead:], p)
			c.inHead += n
			p = p[n:]
			if c.inHead == 5 {
				c.left = int(binary.BigEndian.Uint32(c.head[1:])) - 4
			}
		} else {
			n := min(c.left, len(p))
			if room := len(c.body) - c.inBody; room > 0 {
				c.inBody += copy(c.body[c.inBody:], p[:n])
			}
			c.left -= n
			p = p[n:]
		}
		if c.inHead == 5 && c.left == 0 {
			c.message(c.head[0])
			c.inHead, c.inBody = 0, 0
		}
	}
}

func (c *client) message(kind byte) {
	switch kind {
	case 'Z':
		c.awaits--
		c.idle = c.body[0] == 'I'
		c.greeted = true
	case 'K':
		c.backend.pid = int32(binary.BigEndian.Uint32(c.body[:]))
	case 'E':
		c.spoilt = true
	}
}

// Close ends the client's use of the session.
func (c *client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.warm.left(c)
	b := c.backend
	if b == nil {
		close(c.begun)
		return nil
	}
	if c.spoilt || !c.greeted || !c.idle || c.awaits != 0 || c.reads != 0 || c.inHead != 0 || b.SetDeadline(time.Time{}) != nil {
		return b.Close()
	}
	return c.warm.give(b)
}

func (c *client) setDeadline(at time.Time, set func(net.Conn) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return net.ErrClosed
	}
	if c.backend == nil {
		c.deadline = at
		return nil
	}
	return set(c.backend.Conn)
}

func (c *client) SetDeadline(t time.Time) error {
	return c.setDeadline(t, func(conn net.Conn) error { return conn.SetDeadline(t) })
}

func (c *client) SetReadDeadline(t time.Time) error {
	return c.setDeadline(t, func(conn net.Conn) error { return conn.SetReadDeadline(t) })
}

func (c *client) SetWriteDeadline(t time.Time) error {
	return c.setDeadline(t, func(conn net.Conn) error { return conn.SetWriteDeadline(t) })
}

func (c *client) LocalAddr() net.Addr  { return &net.UnixAddr{Name: "warm", Net: "unix"} }
func (c *client) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "warm", Net: "unix"} }
