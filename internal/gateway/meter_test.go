package gateway

import (
	"bytes"
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// deafConn loses the answer to what its side has written with the word in it, once, and breaks.
type deafConn struct {
	net.Conn
	word  []byte
	armed *atomic.Bool
	deaf  atomic.Bool
}

func (c *deafConn) Write(b []byte) (int, error) {
	if bytes.Contains(b, c.word) && c.armed.CompareAndSwap(true, false) {
		c.deaf.Store(true)
	}
	return c.Conn.Write(b)
}

func (c *deafConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b) // the database answers what it has committed
	if err == nil && c.deaf.Load() {
		_ = c.Close() // it is to be broken
		return 0, net.ErrClosed
	}
	return n, err
}

func TestStatisticsAreAddedOnceAlsoWhenTheAnswerIsLost(t *testing.T) {
	// G9, V8, F10: the flush is committed, and the node does not hear of it.
	var armed atomic.Bool
	s, err := store.Open(t.Context(), store.Options{URL: storetest.URL(t, store.Migrate), Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
		return &deafConn{Conn: conn, word: []byte(simwarden.OpQueryState), armed: &armed}, err
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	r := &rig{t: t, store: s, keyring: testKeyring(t), logs: &storetest.Log{}}
	a := r.account("one", "gatewaytest", "https://carrier.invalid")
	g := r.gateway(Options{})
	must(g.Reload(t.Context()))
	acc, err := g.account(t.Context(), a.ID)
	must(err)
	count := func(n int) {
		for range n {
			g.meter.add(acc, simwarden.OpQueryState, simwarden.PurposePoll, OutcomeOK, time.Millisecond)
		}
	}
	count(1)
	must(g.Flush(t.Context())) // the statement is prepared now: from here on its values alone are sent
	count(3)
	armed.Store(true)
	if err := g.Flush(t.Context()); err == nil {
		t.Fatal("the flush whose answer was lost says that it was written")
	}
	count(5)
	must(g.Flush(t.Context()))
	stats, err := s.CallStats(t.Context(), store.CallStatFilter{AccountID: a.ID, UntilAt: time.Now().Add(time.Hour), Limit: 10})
	must(err)
	n := int64(0)
	for _, c := range stats { // a minute may have ended meanwhile
		n += c.Calls
	}
	if n != 9 {
		t.Errorf("%d calls are counted of 9: a flush whose answer is lost is added once", n)
	}
}
