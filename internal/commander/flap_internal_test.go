package commander

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

func TestF30HowOftenChecksMayChangeASIM(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	change := func(ago time.Duration, d simwarden.Direction, s simwarden.Scene) store.Change {
		return store.Change{At: now.Add(-ago), Direction: d, Scene: s}
	}
	suspend, resume := simwarden.DirectionSuspend, simwarden.DirectionResume
	check := simwarden.SceneStateCheck
	three := []store.Change{change(9*time.Hour, resume, check), change(8*time.Hour, resume, check), change(7*time.Hour, resume, check)}
	stops := []store.Change{change(9*time.Hour, suspend, check), change(8*time.Hour, suspend, check)}
	for _, tc := range []struct {
		says    string
		changes []store.Change
		d       simwarden.Direction
		wait    time.Duration
		why     string
	}{
		{"the first change goes out", nil, suspend, 0, ""},
		{"as many as a day may have", three, resume, 15 * time.Hour, store.HeldByFlap},
		{"one fewer", three[1:], resume, 0, ""},
		{"one is kept for a resume", stops, suspend, 15 * time.Hour, store.HeldByFlap},
		{"which never waits after a suspend", stops, resume, 0, ""},
		{"what a top-up asked for starts the count anew", append(three[:3:3], change(time.Hour, resume, simwarden.SceneToppedUp)), resume, 0, ""},
		{"so does a person's order", append(three[:3:3], change(time.Minute, resume, simwarden.SceneManual)), resume, 0, ""},
		{"and a change the other way: the SIM's wish has changed", append(three[:3:3], change(time.Hour, suspend, check)), resume, 0, ""},
		{"a suspend so soon after a resume waits", []store.Change{change(time.Minute, resume, check)}, suspend, 9 * time.Minute, store.HeldByDwell},
		{"but not after a top-up's resume", []store.Change{change(time.Minute, resume, simwarden.SceneToppedUp)}, suspend, 0, ""},
		{"nor later", []store.Change{change(10*time.Minute, resume, check)}, suspend, 0, ""},
		{"a resume does not wait at all", []store.Change{change(time.Minute, suspend, check)}, resume, 0, ""},
	} {
		until, why := flapWait(tc.changes, store.Command{Direction: tc.d, Scene: check}, 3, 10*time.Minute, now)
		if why != tc.why || tc.wait != 0 && until.Sub(now) != tc.wait {
			t.Errorf("%s: waits %s for %q, want %s for %q", tc.says, until.Sub(now), why, tc.wait, tc.why)
		}
	}
	if _, why := flapWait(three, store.Command{Direction: resume, Scene: check}, 0, 0, now); why != "" {
		t.Errorf("without bounds it waits for %s", why)
	}
}
