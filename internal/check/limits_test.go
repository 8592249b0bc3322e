package check_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/rules"
)

// polls are arrivals of reads made for a purpose, apart in time from the first on.
func polls(purpose simwarden.Purpose, first float64, apart time.Duration, n int) []check.Line {
	var out []check.Line
	for i := range n {
		l := read(at(first).Add(time.Duration(i)*apart), simwarden.StateActive)
		l.RequestID = fmt.Sprintf("%s-%d", purpose, i)
		out = append(out, l)
	}
	return out
}

// limited puts the account's group in a mode, with limits.
func limited(mode string, sql ...string) func(*books) {
	return func(b *books) {
		b.exec(`UPDATE limit_group SET mode = $1`, mode)
		for _, s := range sql {
			b.exec(s)
		}
	}
}

func TestV7NoSlidingWindowIsOverItsLimit(t *testing.T) {
	const (
		five     = `INSERT INTO limit_rate (limit_group_id, operation, per_second) VALUES (1, '', 5)`
		hundred  = `INSERT INTO limit_rate (limit_group_id, operation, per_second) VALUES (1, 'query_state', 100)`
		minute   = `INSERT INTO limit_window (limit_group_id, operation, window_seconds, calls) VALUES (1, '', 60, 10)`
		day      = `INSERT INTO limit_window (limit_group_id, operation, window_seconds, calls) VALUES (1, 'query_state', 86400, 3)`
		atATime  = `UPDATE limit_group SET max_concurrent = 2`
		poll     = simwarden.PurposePoll
		refresh  = simwarden.PurposeManualRefresh
		interval = 200 * time.Millisecond
	)
	with := func(set func(*books), lines ...[]check.Line) func(*books) []check.Line {
		return func(b *books) []check.Line {
			set(b)
			var all []check.Line
			for _, l := range lines {
				all = append(all, l...)
			}
			return all
		}
	}
	slow := func(n int, apart time.Duration) []check.Line {
		lines := polls(poll, 1, apart, n)
		for i := range lines {
			lines[i].AnsweredAt = lines[i].ArrivedAt.Add(time.Second)
		}
		return lines
	}
	judge(t, []row{
		{"V7: five in every second are clean", with(limited("enforce", five), polls(poll, 1, interval, 20)), "", check.Input{}},
		{"V7: a sixth within a second, across two clock seconds", with(limited("enforce", five), polls(poll, 1.5, 199*time.Millisecond, 6)), "V7", check.Input{}},
		{"V7: in monitor nothing is held back", with(limited("monitor", five), polls(poll, 1, 0, 20)), "", check.Input{}},
		{"V7: exempt requests may go beyond", with(limited("enforce", five), polls(poll, 1, interval, 5), polls(refresh, 1, 0, 20)), "", check.Input{}},
		{"V7: commands' reads may not", with(limited("enforce", five), polls(poll, 1, interval, 5), polls(simwarden.PurposeCommand, 1.1, 0, 1)), "V7", check.Input{}},
		{"V7: an operation with a limit of its own is not counted with the others", with(limited("enforce", five, hundred), polls(poll, 1, time.Millisecond, 50)), "", check.Input{}},
		{"V7: its own limit holds", with(limited("enforce", five, hundred), polls(poll, 1, time.Millisecond, 101)), "V7", check.Input{}},
		{"V7: eleven in a minute of ten", with(limited("enforce", minute), polls(poll, 1, 5900*time.Millisecond, 11)), "V7", check.Input{}},
		{"V7: ten in a minute of ten", with(limited("enforce", minute), polls(poll, 1, 6*time.Second, 30)), "", check.Input{}},
		{"V7: all windows hold together", with(limited("enforce", minute, day), polls(poll, 1, time.Hour, 4)), "V7", check.Input{}},
		{"V7: two at a time are clean", with(limited("enforce", atATime), slow(6, 500*time.Millisecond)), "", check.Input{}},
		{"V7: three at a time", with(limited("enforce", atATime), slow(6, 400*time.Millisecond)), "V7", check.Input{}},
		{"V7: what arrived before the limits were set is not held against them", with(limited("enforce", five), polls(poll, 1, 0, 20), polls(poll, 10, interval, 5)), "",
			check.Input{LimitsSince: at(5)}},
		{"V7: a change that a person asked for is exempt", func(b *books) []check.Line {
			limited("enforce", `INSERT INTO limit_rate (limit_group_id, operation, per_second) VALUES (1, '', 1)`)(b)
			c := b.command(simwarden.DirectionSuspend, simwarden.SceneManual, simwarden.CommandDone, 0, noon)
			r := b.attempt(attempted{command: c, number: 1, when: at(1), scene: simwarden.SceneManual, facts: func(f *rules.Facts) { f.Manual = simwarden.DirectionSuspend }})
			return append(polls(poll, 1, time.Second, 3), change(r, at(1.2), "ok", 200))
		}, "", check.Input{}},
	})
}
