package gateway

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
)

// gatedConn is a connection whose requests must ask before their first byte is written: connect
// first, then take the grant, then look at deadline and grant, then write (reliability 3.2). The
// transport says with arm that the next bytes are a new request.
type gatedConn struct {
	net.Conn
	mu    sync.Mutex
	armed *try
	open  bool // the request that is being written has passed
}

// errNoGate says that the transport wrote without a request of ours, which must not be.
var errNoGate = errors.New("nothing may be written without a permit")

// arm sets the request that the next Write belongs to.
func (c *gatedConn) arm(t *try) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed, c.open = t, false
}

// Write asks the gate at the first byte of a request. A refusal fails it before anything is
// written. It is called by one goroutine at a time.
func (c *gatedConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	t, open := c.armed, c.open
	c.mu.Unlock()
	if !open {
		if t == nil {
			return 0, errNoGate
		}
		if err := t.pass(); err != nil {
			return 0, err
		}
		c.mu.Lock()
		c.open = c.armed == t
		open = c.open
		c.mu.Unlock()
		if !open {
			return 0, errNoGate
		}
		n, err := c.Conn.Write(p)
		if err == nil && t.attempt.op.ChangesState() {
			// Not in httptrace's WroteRequest: that comes when the request is in a buffer.
			pointAfterWrite.Hit()
		}
		return n, err
	}
	return c.Conn.Write(p)
}

// The states of a try.
const (
	tryWaiting int32 = iota
	tryPassed        // its bytes may have left
	tryRefused       // they never will
)

// try is one writing of a request on one connection: a request has several where Go re-sends it.
type try struct {
	attempt *attempt
	state   atomic.Int32
}

// pass lets the request out, or says why not. It may wait for a permit.
func (t *try) pass() error {
	if err := t.ask(); err != nil {
		t.state.CompareAndSwap(tryWaiting, tryRefused)
		t.attempt.refuse(err)
		return err
	}
	if !t.state.CompareAndSwap(tryWaiting, tryPassed) {
		return errGivenUp
	}
	t.attempt.passed()
	return nil
}

// ask gets a permit and looks at it once more at the last moment: the process may have stood
// still since (F3).
func (t *try) ask() error {
	a := t.attempt
	for {
		g, err := a.permit()
		if err != nil {
			return err
		}
		if a.op.ChangesState() {
			pointBeforeWrite.Hit()
		}
		if err := a.mayWrite(); err != nil {
			g.back()
			return err
		}
		if g.usable(a.running.account.gateway.clock.Now()) {
			return nil
		}
		g.back()
	}
}

// errGivenUp says that nobody waits for the answer any more.
var errGivenUp = errors.New("the call was given up before it was sent")

// giveUp keeps the try from passing, and says whether it has not.
func (t *try) giveUp() bool {
	t.state.CompareAndSwap(tryWaiting, tryRefused)
	return t.state.Load() == tryRefused
}
