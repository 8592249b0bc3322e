package check_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/rules"
)

// suspending writes a lapsed plan with the command that follows from it.
func suspending(b *books, state simwarden.CommandState) int64 {
	b.t.Helper()
	sub := b.plan(simwarden.SubscriptionExpired, noon.Add(-24*time.Hour), noon, noon)
	return b.command(simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, state, sub, noon)
}

// twice writes two attempts of one suspend, the first of which ended with a class, and gives their
// request ids.
func twice(b *books, class, outcome string) (first, second string) {
	b.t.Helper()
	c := suspending(b, simwarden.CommandDone)
	return b.attempt(attempted{command: c, number: 1, when: at(1), class: class, outcome: outcome}), b.attempt(attempted{command: c, number: 2, when: at(60)})
}

func TestV2OneAttemptIsOneRequest(t *testing.T) {
	judge(t, []row{
		{"V2: one request after its row is clean", func(b *books) []check.Line {
			return []check.Line{change(b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)}), at(1.2), "ok", 200)}
		}, "", check.Input{}},
		{"V2: two requests of one attempt", func(b *books) []check.Line {
			r := b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)})
			return []check.Line{change(r, at(1.2), "ok", 200), change(r, at(3), "ok", 200)}
		}, "V2", check.Input{}},
		{"V2: a request that no attempt speaks of", func(b *books) []check.Line { return []check.Line{change("c9-9", at(1), "ok", 200)} }, "V2", check.Input{}},
		{"V2: a request without an id", func(b *books) []check.Line { return []check.Line{change("", at(1), "ok", 200)} }, "V2", check.Input{}},
		{"V2: a request before its row", func(b *books) []check.Line {
			return []check.Line{change(b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)}), at(0.9), "ok", 200)}
		}, "V2", check.Input{}},
		{"V2: a request for another SIM than its row's", func(b *books) []check.Line {
			l := change(b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)}), at(1.2), "ok", 200)
			l.ICCID = another
			return []check.Line{l}
		}, "V2", check.Input{}},
		{"V2: an attempt without a request is none", func(b *books) []check.Line {
			b.attempt(attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1), class: "temporary"})
			return nil
		}, "", check.Input{}},
	})
}

func TestV3OneAtATime(t *testing.T) {
	judge(t, []row{
		{"V3: a request after the end of the one before is clean", func(b *books) []check.Line {
			first, second := twice(b, "temporary", "")
			return []check.Line{change(first, at(1.2), "error", 400), change(second, at(61), "ok", 200)}
		}, "", check.Input{}},
		{"V3: a request while the one before is under way", func(b *books) []check.Line {
			c := suspending(b, simwarden.CommandDone)
			first := b.attempt(attempted{command: c, number: 1, when: at(1), class: "temporary"})
			slow := change(first, at(1.2), "error", 400)
			slow.AnsweredAt = at(5)
			return []check.Line{slow, change(b.attempt(attempted{command: c, number: 2, when: at(3)}), at(4), "ok", 200)}
		}, "V3", check.Input{}},
		{"V3: two open commands of a SIM", func(b *books) []check.Line {
			b.exec(`DROP INDEX command_open`)
			for range 2 {
				b.command(simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.CommandQueued, 0, noon)
			}
			return nil
		}, "V3", check.Input{}},
	})
}

func TestV4NothingIsSentIntoTheDark(t *testing.T) {
	bad := func(fault string) func(*books) []check.Line {
		return func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			told := read(at(7), simwarden.StateActive)
			told.Answer, told.Fault = "garbage", fault
			return []check.Line{lost(first, at(1.2)), told, change(second, at(61), "ok", 200)}
		}
	}
	judge(t, []row{
		{"V4: a read whose right answer had many blanks in it tells", bad("flood"), "", check.Input{}},
		{"V4: a read that was answered with nonsense does not", bad("garbage"), "V4", check.Input{}},
		{"V4: a read that says not changed, after the time to settle, allows another", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			return []check.Line{lost(first, at(1.2)), read(at(7), simwarden.StateActive), change(second, at(61), "ok", 200)}
		}, "", check.Input{}},
		{"V4: no read at all", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			return []check.Line{lost(first, at(1.2)), change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a read within the time to settle proves nothing", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			return []check.Line{lost(first, at(1.2)), read(at(4), simwarden.StateActive), change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a read that says changed counts at once", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			return []check.Line{lost(first, at(1.2)), read(at(1.4), simwarden.StateSuspended), change(second, at(61), "ok", 200)}
		}, "", check.Input{}},
		{"V4: a read before the last possible execution proves nothing", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			late := lost(first, at(1.2))
			late.DueAt = at(30)
			return []check.Line{late, read(at(20), simwarden.StateActive), change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a read before an execution that nobody announced proves nothing", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			l := lost(first, at(1.2))
			late := l
			late.Kind, late.Executed, late.ExecutedAt = "execution", true, at(30)
			return []check.Line{l, read(at(20), simwarden.StateActive), late, change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a read that failed proves nothing", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			failed := read(at(20), "")
			failed.Answer, failed.Status = "error", 500
			return []check.Line{lost(first, at(1.2)), failed, change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: garbage is no answer", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			return []check.Line{change(first, at(1.2), "garbage", 200), change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a server error tells nothing, whatever the attempt says", func(b *books) []check.Line {
			first, second := twice(b, "temporary", "")
			return []check.Line{change(first, at(1.2), "error", 503), change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a documented code for not executed tells all", func(b *books) []check.Line {
			b.exec(`INSERT INTO error_rule (driver, position, name, class, not_executed) VALUES ('soracom', 1, 'busy', 'temporary', true)`)
			c := suspending(b, simwarden.CommandDone)
			first := b.attempt(attempted{command: c, number: 1, when: at(1), class: "temporary", rule: "busy"})
			return []check.Line{change(first, at(1.2), "error", 503), change(b.attempt(attempted{command: c, number: 2, when: at(60)}), at(61), "ok", 200)}
		}, "", check.Input{}},
		{"V4: a refusal tells all", func(b *books) []check.Line {
			first, second := twice(b, "throttled", "")
			return []check.Line{change(first, at(1.2), "throttled", 429), change(second, at(61), "ok", 200)}
		}, "", check.Input{}},
		{"V4: an answer that nobody was there to take is none", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "lost")
			return []check.Line{change(first, at(1.2), "ok", 200), change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
		{"V4: a read of another SIM proves nothing", func(b *books) []check.Line {
			first, second := twice(b, "unknown_outcome", "")
			other := read(at(20), simwarden.StateActive)
			other.ICCID = another
			return []check.Line{lost(first, at(1.2)), other, change(second, at(61), "ok", 200)}
		}, "V4", check.Input{}},
	})
}

func TestV5JudgedAfresh(t *testing.T) {
	one := func(change func(*attempted)) func(*books) []check.Line {
		return func(b *books) []check.Line {
			a := attempted{command: suspending(b, simwarden.CommandDone), number: 1, when: at(1)}
			change(&a)
			b.attempt(a)
			return nil
		}
	}
	resume := func(readAt time.Time, allowance int64) func(*books) []check.Line {
		return func(b *books) []check.Line {
			c := b.command(simwarden.DirectionResume, simwarden.ScenePlanActivated, simwarden.CommandDone, 0, noon)
			b.attempt(attempted{command: c, number: 1, when: at(1), scene: simwarden.ScenePlanActivated,
				facts: func(f *rules.Facts) {
					f.State, f.UsageReadAt = simwarden.StateSuspended, at(0)
					f.Subscriptions = []rules.SubscriptionFact{{ID: 1, Kind: simwarden.PlanMain, PlanCode: "day", StartAt: noon.Add(-time.Hour), EndAt: noon.Add(time.Hour), AllowanceBytes: allowance}}
				},
				after: func(f *rules.Facts) { f.UsageReadAt = readAt }})
			return nil
		}
	}
	judge(t, []row{
		{"V5: facts that give the decision again are clean", one(func(*attempted) {}), "", check.Input{}},
		{"V5: facts that give another decision", one(func(a *attempted) {
			a.after = func(f *rules.Facts) { f.EverPlanned, f.LastPlanEndedAt = false, time.Time{} }
		}), "V5", check.Input{}},
		{"V5: a decision for the opposite", one(func(a *attempted) {
			a.facts = func(f *rules.Facts) {
				f.Subscriptions = []rules.SubscriptionFact{{ID: 1, Kind: simwarden.PlanMain, StartAt: noon.Add(-time.Hour), EndAt: noon.Add(time.Hour), AllowanceBytes: -1}}
			}
		}), "V5", check.Input{}},
		{"V5: judged in another scene than the command's", one(func(a *attempted) { a.scene = simwarden.SceneUsageCheck }), "V5", check.Input{}},
		{"V5: a state older than the bound", one(func(a *attempted) { a.facts = func(f *rules.Facts) { f.StateReadAt = at(-1000) } }), "V5", check.Input{}},
		{"V5: judged long before it was claimed", one(func(a *attempted) { a.after = func(f *rules.Facts) { f.NowAt = at(-20) } }), "V5", check.Input{}},
		{"V5: a resume on fresh usage is clean", resume(at(0), 1000), "", check.Input{}},
		{"V5: a resume on usage older than the bound", resume(at(-1000), 1000), "V5", check.Input{}},
		{"V5: a resume without an allowance rests on no usage", resume(at(-1000), simwarden.UnlimitedBytes), "", check.Input{}},
	})
}

func TestV6WhatFailedForGoodEndsAndWaitsAreKept(t *testing.T) {
	throttled := func(asks int64, again float64) func(*books) []check.Line {
		return func(b *books) []check.Line {
			first, second := twice(b, "throttled", "")
			l := change(first, at(1), "throttled", 429)
			l.RetryAfterSeconds, l.AnsweredAt = asks, at(1)
			return []check.Line{l, change(second, at(again), "ok", 200)}
		}
	}
	tries := func(class, outcome string, n int) func(*books) []check.Line {
		return func(b *books) []check.Line {
			c := suspending(b, simwarden.CommandFailed)
			for i := range n {
				b.attempt(attempted{command: c, number: i + 1, when: at(float64(i)), class: class, outcome: outcome})
			}
			return nil
		}
	}
	most := check.Input{MaxAttempts: 3}
	judge(t, []row{
		{"V6: a terminal class at the end is clean", tries("refused", "", 1), "", most},
		{"V6: an attempt after a terminal class", tries("refused", "", 2), "V6", most},
		{"V6: as many attempts as there may be are clean", tries("temporary", "", 3), "", most},
		{"V6: one attempt too many", tries("temporary", "", 4), "V6", most},
		{"V6: throttled attempts do not count", tries("throttled", "", 9), "", most},
		{"V6: what our own limit held back is no attempt", tries("temporary", "not_sent", 9), "", most},
		{"V6: after Retry-After is clean", throttled(60, 61), "", check.Input{}},
		{"V6: before Retry-After", throttled(60, 60.5), "V6", check.Input{}},
		{"V6: without Retry-After nothing is asked", throttled(0, 60.5), "", check.Input{}},
		{"V6: an answer that nobody lived to write down is clean", func(b *books) []check.Line {
			first, second := twice(b, "", "lost")
			l := change(first, at(1), "throttled", 429)
			l.RetryAfterSeconds = 60
			return []check.Line{l, read(at(30), simwarden.StateActive), change(second, at(60.5), "ok", 200)}
		}, "", check.Input{}},
		{"V6: a year is cut to the longest wait", throttled(365*24*3600, 61.5), "", check.Input{RetryAfterMax: time.Minute}},
		{"V6: and that is kept", throttled(365*24*3600, 60.5), "V6", check.Input{RetryAfterMax: time.Minute}},
	})
}
