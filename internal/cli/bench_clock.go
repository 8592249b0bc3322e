package cli

import (
	"context"
	"sync"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
)

// skipClock runs with the machine's and can be set ahead, so that the time in which the poller waits
// for the next pass over a list is left out: one pass follows the other, whatever the interval. It
// stands still while it is held. Timers fire when follow or skip is called.
type skipClock struct {
	timers *clock.Manual

	mu    sync.Mutex
	ahead time.Duration
	held  time.Time // zero: it runs
}

func newSkipClock() *skipClock { return &skipClock{timers: clock.NewManual(time.Now())} }

// Now is the machine's time and all that was skipped, UTC, with Go's monotonic reading.
func (c *skipClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now()
}

func (c *skipClock) now() time.Time {
	if !c.held.IsZero() {
		return c.held
	}
	return time.Now().UTC().Add(c.ahead)
}

// hold lets the clock stand still until time is skipped.
func (c *skipClock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = c.now()
}

// Sleep waits on this clock.
func (c *skipClock) Sleep(ctx context.Context, d time.Duration) error { return c.timers.Sleep(ctx, d) }

// NewTimer makes a timer on this clock.
func (c *skipClock) NewTimer(d time.Duration) clock.Timer { return c.timers.NewTimer(d) }

// follow fires the timers that have come due.
func (c *skipClock) follow() { c.timers.Set(c.Now()) }

// skip leaves d out, and lets the clock run if it was held.
func (c *skipClock) skip(d time.Duration) {
	c.mu.Lock()
	c.ahead = time.Until(c.now().Add(d))
	c.held = time.Time{}
	c.mu.Unlock()
	c.follow()
}

// idle waits until so many loops wait for a timer, for up to ten seconds.
func (c *skipClock) idle(ctx context.Context, loops int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	return c.timers.BlockUntil(ctx, loops)
}
