package commander

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
)

func TestC11ChangesALineAndDay(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	at := func(hours ...int) []time.Time {
		var out []time.Time
		for _, h := range hours {
			out = append(out, now.Add(-time.Duration(h)*time.Hour))
		}
		return out
	}
	for _, tc := range []struct {
		says string
		sent []time.Time
		d    simwarden.Direction
		most int
		wait time.Duration // 0: at once
	}{
		{"a carrier without a budget waits for nothing", at(3, 2, 1), simwarden.DirectionSuspend, 0, 0},
		{"a suspend may use all but the last change", at(3, 2), simwarden.DirectionSuspend, 4, 0},
		{"the last change of a day is kept for a resume", at(5, 3, 2), simwarden.DirectionSuspend, 4, 19 * time.Hour},
		{"a resume may use it", at(5, 3, 2), simwarden.DirectionResume, 4, 0},
		{"then a resume waits as well", at(5, 4, 3, 2), simwarden.DirectionResume, 4, 19 * time.Hour},
		{"changes of more than a day ago do not count", at(30, 25, 24), simwarden.DirectionSuspend, 2, 0},
		{"a suspend waits until enough have passed out of the day", at(20, 10, 5), simwarden.DirectionSuspend, 3, 14 * time.Hour},
		{"a carrier with one change a day lets a suspend have it", nil, simwarden.DirectionSuspend, 1, 0},
		{"and makes the next one wait", at(1), simwarden.DirectionResume, 1, 23 * time.Hour},
	} {
		t.Run(tc.says, func(t *testing.T) {
			got := changeAllowedAt(tc.sent, tc.d, tc.most, now)
			if tc.wait == 0 {
				if got.After(now) {
					t.Errorf("waits until %s", got)
				}
				return
			}
			if got.Sub(now) != tc.wait {
				t.Errorf("waits for %s, want %s", got.Sub(now), tc.wait)
			}
		})
	}
}
