// Package clock gives every part of the product one injected time, so that a test or the lab can
// drive loops, deadlines and plan ends without waiting (reliability rule 8).
//
// It is the only package that asks the machine for the time of day. Everything that decides takes
// an instant as an argument or a Clock at construction.
package clock

import (
	"context"
	"time"
)

// Clock tells the time and waits. All its methods may be called from any number of goroutines.
type Clock interface {
	// Now is the current instant in UTC. The system's clock keeps Go's monotonic reading, so that
	// differences of two of its instants survive a step of the machine's clock.
	Now() time.Time

	// Sleep returns nil once d has passed on this clock, at once when d <= 0. It returns the
	// context's error as soon as the context ends, also when it had ended before the call.
	Sleep(ctx context.Context, d time.Duration) error

	// NewTimer makes a timer that fires once, d from now on this clock; d <= 0 fires at once.
	// Whoever makes it stops it.
	NewTimer(d time.Duration) Timer
}

// Timer fires once on its clock. C is the same channel for the timer's whole life.
type Timer interface {
	// C receives the instant at which the timer fired, in whatever zone the clock has it: ask Now
	// for an instant to keep. At most one instant waits in it; a timer never blocks its clock.
	C() <-chan time.Time
	// Stop keeps the timer from firing and says whether it was still to fire. After it returns,
	// C holds no instant of before the call.
	Stop() bool
	// Reset sets the timer to fire d from now, and says whether it was still to fire. An instant
	// of before the call that nobody received is dropped.
	Reset(d time.Duration) bool
}

// System is the machine's clock. Within a testing/synctest bubble it follows the bubble's time.
func System() Clock { return system{} }

type system struct{}

func (system) Now() time.Time { return time.Now().UTC() }

func (system) Sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	return wait(ctx, timer.C)
}

func (system) NewTimer(d time.Duration) Timer { return systemTimer{time.NewTimer(d)} }

// systemTimer leans on Go 1.23's timers: Stop and Reset drop an instant that nobody received.
type systemTimer struct{ timer *time.Timer }

func (t systemTimer) C() <-chan time.Time        { return t.timer.C }
func (t systemTimer) Stop() bool                 { return t.timer.Stop() }
func (t systemTimer) Reset(d time.Duration) bool { return t.timer.Reset(d) }

func wait(ctx context.Context, fired <-chan time.Time) error {
	select {
	case <-fired:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
