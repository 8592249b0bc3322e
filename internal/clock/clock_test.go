package clock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
)

var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

func TestSystemNowIsUTC(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := clock.System()
		before := c.Now()
		if before.Location() != time.UTC {
			t.Errorf("the system clock answers in %v, want UTC (L4)", before.Location())
		}
		if err := c.Sleep(t.Context(), time.Hour); err != nil {
			t.Fatal(err)
		}
		if got := c.Now().Sub(before); got != time.Hour {
			t.Errorf("slept %v, want 1h", got)
		}
	})
}

func TestBothClocksSleepAlike(t *testing.T) {
	for name, c := range map[string]clock.Clock{"system": clock.System(), "manual": clock.NewManual(start)} {
		t.Run(name, func(t *testing.T) {
			if err := c.Sleep(t.Context(), 0); err != nil {
				t.Errorf("a sleep of nothing returned %v", err)
			}
			if err := c.Sleep(t.Context(), -time.Hour); err != nil {
				t.Errorf("a negative sleep returned %v", err)
			}
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			if err := c.Sleep(ended, 0); !errors.Is(err, context.Canceled) {
				t.Errorf("a sleep under an ended context returned %v", err)
			}
			soon, cancel := context.WithCancel(t.Context())
			time.AfterFunc(time.Millisecond, cancel)
			if err := c.Sleep(soon, 1000*time.Hour); !errors.Is(err, context.Canceled) {
				t.Errorf("a sleep whose context ends returned %v", err)
			}
		})
	}
}

func TestBothClocksTimersAlike(t *testing.T) {
	for name, c := range map[string]clock.Clock{"system": clock.System(), "manual": clock.NewManual(start)} {
		t.Run(name, func(t *testing.T) {
			timer := c.NewTimer(0)
			<-timer.C()
			if timer.Stop() {
				t.Error("a timer that fired says that it was still to fire")
			}
			if timer.Reset(time.Hour) {
				t.Error("Reset of a fired timer says that it was still to fire")
			}
			if !timer.Reset(-1) {
				t.Error("Reset of a waiting timer says that it was not to fire")
			}
			<-timer.C()
			timer.Reset(0)
			timer.Reset(time.Hour)
			select {
			case at := <-timer.C():
				t.Errorf("Reset left the old instant %v to be received", at)
			default:
			}
			if !timer.Stop() {
				t.Error("Stop of a waiting timer says that it was not to fire")
			}
		})
	}
}

func TestManualFiresEarliestFirst(t *testing.T) {
	c := clock.NewManual(start.In(time.FixedZone("east", 8*3600)))
	if got := c.Now(); got != start {
		t.Fatalf("the clock stands at %v, want %v in UTC", got, start)
	}
	late, early := c.NewTimer(2*time.Minute), c.NewTimer(time.Minute)
	if at, ok := c.NextAt(); !ok || at != start.Add(time.Minute) {
		t.Errorf("the next timer is at %v, %v", at, ok)
	}
	c.Advance(time.Minute - 1)
	select {
	case <-early.C():
		t.Error("a timer fired a nanosecond early")
	default:
	}
	c.Advance(1)
	if at := <-early.C(); at != start.Add(time.Minute) {
		t.Errorf("the timer fired at %v", at)
	}
	c.Set(start.Add(time.Hour))
	if at := <-late.C(); at != start.Add(2*time.Minute) {
		t.Errorf("a timer that was jumped over fired at %v, want its own instant", at)
	}
	if at, ok := c.NextAt(); ok {
		t.Errorf("no timer is armed, but the next is at %v", at)
	}
	if got := c.Now(); got != start.Add(time.Hour) {
		t.Errorf("the clock stands at %v after Set", got)
	}
}

func TestManualSetBackFiresNothing(t *testing.T) {
	c := clock.NewManual(start)
	timer := c.NewTimer(time.Minute)
	c.Advance(-24 * time.Hour)
	c.Advance(24 * time.Hour)
	select {
	case <-timer.C():
		t.Error("F68: a clock that went back and came again fired a timer early")
	default:
	}
	c.Advance(time.Minute)
	<-timer.C()
}

func TestManualDrivesALoop(t *testing.T) {
	c := clock.NewManual(start)
	ctx, cancel := context.WithCancel(t.Context())
	ticks, done := make(chan time.Time), make(chan error, 1)
	go func() {
		for {
			if err := c.Sleep(ctx, time.Second); err != nil {
				done <- err
				return
			}
			ticks <- c.Now()
		}
	}()
	for i := 1; i <= 3; i++ {
		if err := c.BlockUntil(ctx, 1); err != nil {
			t.Fatal(err)
		}
		c.Advance(time.Second)
		if at := <-ticks; at != start.Add(time.Duration(i)*time.Second) {
			t.Errorf("turn %d ran at %v", i, at)
		}
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the loop ended with %v", err)
	}
	if err := c.BlockUntil(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("BlockUntil under an ended context returned %v, want its error", err)
	}
}
