package clock

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Manual is a clock that stands still until it is told otherwise: for tests, and for the lab's
// virtual time. Make it with NewManual.
//
// Timers fire within the call to Set or Advance that reaches them, earliest first, and Now is the
// timer's own instant while it fires. A goroutine that was waiting runs some time after that call
// has returned: use BlockUntil to know that it waits again.
type Manual struct {
	mu      sync.Mutex
	now     time.Time
	timers  []*manualTimer // armed, in no order
	changed chan struct{}  // closed and replaced when the number of armed timers changes
}

// NewManual is a clock that stands at the instant given, kept in UTC.
func NewManual(at time.Time) *Manual {
	return &Manual{now: at.UTC().Round(0), changed: make(chan struct{})}
}

// Now is the instant at which the clock stands, in UTC.
func (m *Manual) Now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// Advance moves the clock by d and fires the timers that come due. A negative d is a clock that is
// set back: nothing fires, and a waiting timer waits for the same instant as before.
func (m *Manual) Advance(d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moveTo(m.now.Add(d))
}

// Set moves the clock to the instant given, forwards or back, as Advance does.
func (m *Manual) Set(at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.moveTo(at.UTC().Round(0))
}

// moveTo fires what is due up to the instant and leaves the clock there. Call it with mu held.
func (m *Manual) moveTo(at time.Time) {
	slices.SortStableFunc(m.timers, func(a, b *manualTimer) int { return a.at.Compare(b.at) })
	for len(m.timers) > 0 && !m.timers[0].at.After(at) {
		timer := m.timers[0]
		m.timers = slices.Delete(m.timers, 0, 1)
		m.now = timer.at
		timer.send(timer.at)
		m.tell()
	}
	m.now = at
}

// NextAt is the instant at which the earliest armed timer fires; ok is false when none is armed.
// A virtual-time driver advances to it in a loop.
func (m *Manual) NextAt() (at time.Time, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, timer := range m.timers {
		if !ok || timer.at.Before(at) {
			at, ok = timer.at, true
		}
	}
	return at, ok
}

// BlockUntil returns nil as soon as at least n timers (sleeps included) are armed, or the
// context's error. It is how a test knows that the loop under test waits, without waiting for a
// while.
func (m *Manual) BlockUntil(ctx context.Context, n int) error {
	for {
		m.mu.Lock()
		armed, changed := len(m.timers), m.changed
		m.mu.Unlock()
		if armed >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Sleep waits until the clock has been moved by d in all.
func (m *Manual) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := m.NewTimer(d)
	defer timer.Stop()
	return wait(ctx, timer.C())
}

// NewTimer makes a timer that fires when the clock has been moved by d in all.
func (m *Manual) NewTimer(d time.Duration) Timer {
	timer := &manualTimer{clock: m, c: make(chan time.Time, 1)}
	timer.Reset(d)
	return timer
}

// tell wakes those in BlockUntil. Call it with mu held.
func (m *Manual) tell() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// manualTimer's fields but c are guarded by the clock's mu.
type manualTimer struct {
	clock *Manual
	at    time.Time
	c     chan time.Time
}

func (t *manualTimer) C() <-chan time.Time { return t.c }

func (t *manualTimer) Stop() bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	return t.disarm()
}

func (t *manualTimer) Reset(d time.Duration) bool {
	t.clock.mu.Lock()
	defer t.clock.mu.Unlock()
	armed := t.disarm()
	t.at = t.clock.now.Add(d)
	if d <= 0 {
		t.send(t.clock.now)
	} else {
		t.clock.timers = append(t.clock.timers, t)
		t.clock.tell()
	}
	return armed
}

func (t *manualTimer) disarm() bool {
	select {
	case <-t.c:
	default:
	}
	i := slices.Index(t.clock.timers, t)
	if i < 0 {
		return false
	}
	t.clock.timers = slices.Delete(t.clock.timers, i, i+1)
	t.clock.tell()
	return true
}

// send never blocks: the buffer is empty, since a timer is armed or fired but never both.
func (t *manualTimer) send(at time.Time) { t.c <- at }
