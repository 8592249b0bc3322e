package faults_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// databaseClock keeps app_now() at the bubble's time: before anything is sent to the database, on
// whatever connection, it is told the time, where that has changed since. A clock that were set at
// intervals would differ between two nodes by up to one of them, and limits would not hold.
type databaseClock struct {
	mu   sync.Mutex
	conn *pgx.Conn
	warm *warm
	at   time.Time
}

func newDatabaseClock(ctx context.Context, b *database) (*databaseClock, error) {
	conn, err := b.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &databaseClock{conn: conn, warm: b.warm}, nil
}

func (c *databaseClock) tell() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now().UTC()
	if now.Equal(c.at) {
		return nil
	}
	if _, err := c.conn.Exec(context.Background(), `SELECT setval('public.app_clock', $1)`, now.UnixMicro()); err != nil {
		return fmt.Errorf("tell the database the time: %w", err)
	}
	c.at = now
	return nil
}

// Dial connects to the database.
func (c *databaseClock) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.warm.Dial(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	return &timedConn{conn, c}, nil
}

type timedConn struct {
	net.Conn
	clock *databaseClock
}

func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.clock.tell(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
