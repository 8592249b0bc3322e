package check_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/rules"
)

// counted writes statistics of the account.
func (b *books) counted(op simwarden.Operation, purpose simwarden.Purpose, outcome string, calls int) {
	b.t.Helper()
	b.exec(`INSERT INTO call_stat (minute_at, account_id, operation, purpose, outcome, calls, latency_ms) VALUES ($1, 1, $2, $3, $4, $5, 0)`,
		noon, string(op), string(purpose), outcome, calls)
}

func TestV8CountersAreTheCarriers(t *testing.T) {
	const poll, command, manual = simwarden.PurposePoll, simwarden.PurposeCommand, simwarden.PurposeManual
	const state, suspend = simwarden.OpQueryState, simwarden.OpSuspend
	written := check.Input{CountsWritten: true}
	lost := check.Input{CountsWritten: true, LostAt: []time.Time{at(10)}, LostCounts: 6 * time.Second}
	// arrived gives so many polls of the state, a second apart, and counts them as told.
	arrived := func(n int, count func(*books)) func(*books) []check.Line {
		return func(b *books) []check.Line {
			count(b)
			return polls(poll, 1, time.Second, n)
		}
	}
	ok := func(n int) func(*books) { return func(b *books) { b.counted(state, poll, "ok", n) } }
	// sent gives one suspend of a command with a cause.
	sent := func(scene simwarden.Scene, cause string, count func(*books)) func(*books) []check.Line {
		return func(b *books) []check.Line {
			count(b)
			c := b.command(simwarden.DirectionSuspend, scene, simwarden.CommandDone, 0, noon)
			b.exec(`UPDATE command SET cause_kind = $1 WHERE id = $2`, cause, c)
			facts := func(f *rules.Facts) {
				if scene == simwarden.SceneManual {
					f.Manual = simwarden.DirectionSuspend
				}
			}
			return []check.Line{change(b.attempt(attempted{command: c, number: 1, when: at(1), scene: scene, facts: facts}), at(1.2), "ok", 200)}
		}
	}
	judge(t, []row{
		{"V8: as many counted as arrived", arrived(3, ok(3)), "", written},
		{"V8: one was not counted", arrived(3, ok(2)), "V8", written},
		{"V8: none of a kind was counted", arrived(3, func(*books) {}), "V8", written},
		{"V8: one was counted twice", arrived(3, ok(4)), "V8", written},
		{"V8: one failed before it arrived", arrived(3, func(b *books) { ok(3)(b); b.counted(state, poll, "temporary", 1) }), "", written},
		{"V8: one that had an answer did not arrive", arrived(3, func(b *books) { ok(3)(b); b.counted(state, poll, "throttled", 1) }), "V8", written},
		{"V8: what was held back did not leave", arrived(3, func(b *books) { ok(3)(b); b.counted(state, poll, "blocked", 5); b.counted(state, poll, "not_sent", 5) }), "", written},
		{"V8: counted for another purpose", arrived(3, func(b *books) { b.counted(state, manual, "ok", 3) }), "V8", written},
		{"V8: counted for another operation", arrived(3, func(b *books) { b.counted(simwarden.OpQueryUsage, poll, "ok", 3) }), "V8", written},
		{"V8: a refusal counted as an answer that was good", func(b *books) []check.Line {
			ok(3)(b)
			lines := polls(poll, 1, time.Second, 3)
			lines[1].Status, lines[1].Answer = 429, "throttled"
			return lines
		}, "V8", written},
		{"V8: while counts are in memory nothing is said", arrived(3, ok(0)), "", check.Input{}},
		{"V8: counts may have gone with the node that was lost just after", arrived(9, ok(5)), "", lost},
		{"V8: but not those of before", arrived(9, ok(2)), "V8", lost},
		{"V8: nor those of after", arrived(20, ok(10)), "V8", lost},
		{"V8: a node that was killed counts nothing twice", arrived(9, ok(10)), "V8", lost},
		{"V8: a command's request", sent(simwarden.SceneUsageCheck, "reading", func(b *books) { b.counted(suspend, command, "ok", 1) }), "", written},
		{"V8: a person's click", sent(simwarden.SceneManual, "person", func(b *books) { b.counted(suspend, manual, "ok", 1) }), "", written},
		{"V8: a bulk action is no person's click", sent(simwarden.SceneManual, "bulk", func(b *books) { b.counted(suspend, manual, "ok", 1) }), "V8", written},
	})
}
