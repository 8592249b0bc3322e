package check_test

import (
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestV1NoCauseWithoutWhatFollows(t *testing.T) {
	ended := func(state simwarden.SubscriptionState, then func(*books, int64)) func(*books) []check.Line {
		return func(b *books) []check.Line {
			then(b, b.plan(state, noon.Add(-24*time.Hour), noon, noon))
			return nil
		}
	}
	nothing := func(*books, int64) {}
	request := func(scene simwarden.Scene) func(*books, int64) {
		return func(b *books, sub int64) { b.request(scene, sub, noon, noon) }
	}
	command := func(scene simwarden.Scene) func(*books, int64) {
		return func(b *books, sub int64) {
			b.command(simwarden.DirectionSuspend, scene, simwarden.CommandDone, sub, noon)
		}
	}
	expired, refunded := simwarden.SubscriptionExpired, simwarden.SubscriptionRefunded
	judge(t, []row{
		{"V1: an end that nothing speaks of", ended(expired, nothing), "V1", check.Input{}},
		{"V1: an end with its command is clean", ended(expired, command(simwarden.ScenePlanLapsed)), "", check.Input{}},
		{"V1: an end with its request is clean", ended(expired, request(simwarden.ScenePlanLapsed)), "", check.Input{}},
		{"V1: a command of another scene does not speak of it", ended(expired, command(simwarden.ScenePlanActivated)), "V1", check.Input{}},
		{"V1: nor does a request of another scene", ended(expired, request(simwarden.ScenePlanActivated)), "V1", check.Input{}},
		{"V1: a refund that nothing speaks of", ended(refunded, nothing), "V1", check.Input{}},
		{"V1: a refund with its request is clean", ended(refunded, request(simwarden.SceneRefunded)), "", check.Input{}},
		{"V1: a refund is no lapse", ended(refunded, request(simwarden.ScenePlanLapsed)), "V1", check.Input{}},
		{"V1: the start of the queued plan speaks for the end before", ended(expired, func(b *books, _ int64) {
			b.request(simwarden.SceneQueuedActivated, b.plan(simwarden.SubscriptionActive, noon, at(3600), time.Time{}), noon, noon)
		}), "", check.Input{}},
		{"V1: requests of more than a week ago are deleted, so an end then proves nothing", func(b *books) []check.Line {
			b.plan(simwarden.SubscriptionExpired, noon.AddDate(0, 0, -38), noon.AddDate(0, 0, -8), noon.AddDate(0, 0, -8))
			return nil
		}, "", check.Input{}},
		{"V1: a plan that is in force asks for nothing", func(b *books) []check.Line {
			b.plan(simwarden.SubscriptionActive, noon, at(3600), time.Time{})
			return nil
		}, "", check.Input{}},
	})
}

func TestV1EachSIMOfADeviceHearsOfThePlansEnd(t *testing.T) {
	// ended writes the end of a device's plan, worked off a second later, with SIM 1 in it and its last
	// decision as given.
	ended := func(desired string, decided time.Time, then ...func(*books, int64)) func(*books) []check.Line {
		return func(b *books) []check.Line {
			device := b.id(`INSERT INTO device (imei, created_at) VALUES ('490154203237518', $1) RETURNING id`, noon)
			b.exec(`INSERT INTO device_sim_history (sim_id, device_id, bound_at, bound_by) VALUES (1, $1, $2, 'test')`, device, noon.Add(-time.Hour))
			sub := b.plan(simwarden.SubscriptionExpired, noon.Add(-24*time.Hour), noon, noon)
			b.exec(`UPDATE subscription SET sim_id = NULL, device_id = $2 WHERE id = $1`, sub, device)
			b.exec(`INSERT INTO evaluation_request (device_id, scene, cause_kind, cause_id, subscription_id, asked_by, asked_at, run_at, done_at)
				VALUES ($1, 'plan_lapsed', 'subscription', $2, $2, 'system', $3, $3, $4)`, device, sub, noon, at(1))
			b.exec(`UPDATE poll_state SET desired = $1, decided_at = $2 WHERE sim_id = 1`, desired, decided)
			for _, t := range then {
				t(b, device)
			}
			return nil
		}
	}
	judge(t, []row{
		{"V1: the SIM was judged by it", ended("suspended", at(1)), "", check.Input{}},
		{"V1: the SIM runs on as was decided before", ended("running", at(-60)), "V1", check.Input{}},
		{"V1: another plan of the device has begun by then", ended("running", at(-60), func(b *books, device int64) {
			sub := b.plan(simwarden.SubscriptionActive, at(0.5), at(3600), time.Time{})
			b.exec(`UPDATE subscription SET sim_id = NULL, device_id = $2 WHERE id = $1`, sub, device)
		}), "", check.Input{}},
		{"V1: the SIM had left the device by then", ended("running", at(-60), func(b *books, device int64) {
			b.exec(`UPDATE device_sim_history SET unbound_at = $2 WHERE device_id = $1`, device, at(-1))
		}), "", check.Input{}},
	})
}

func TestV9PausesAreKept(t *testing.T) {
	// An attempt 60 seconds after noon; before and after say what happens around it.
	sent := func(scene simwarden.Scene, happens ...func(*books)) func(*books) []check.Line {
		return func(b *books) []check.Line {
			for _, h := range happens {
				h(b)
			}
			c := b.command(simwarden.DirectionSuspend, scene, simwarden.CommandDone, 0, at(59))
			b.attempt(attempted{command: c, number: 1, when: at(60), scene: scene, facts: func(f *rules.Facts) {
				if scene == simwarden.SceneManual {
					f.Manual = simwarden.DirectionSuspend
				}
			}})
			return nil
		}
	}
	event := func(kind string, seconds float64) func(*books) {
		return func(b *books) { b.event(kind, at(seconds), nil) }
	}
	lapsedTwice := func(paused bool, state simwarden.CommandState) func(*books) []check.Line {
		return func(b *books) []check.Line {
			if paused {
				b.event("polling_paused", at(-10), nil)
			}
			sub := b.plan(simwarden.SubscriptionExpired, noon.Add(-24*time.Hour), noon, noon)
			b.command(simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.CommandDone, sub, at(1))
			b.command(simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, state, sub, at(90))
			return nil
		}
	}
	judge(t, []row{
		{"V9: an automatic request while polling is on is clean", sent(simwarden.SceneUsageCheck), "", check.Input{}},
		{"V9: an automatic request while polling is paused", sent(simwarden.SceneUsageCheck, event("polling_paused", 10)), "V9", check.Input{}},
		{"V9: an automatic request while polling is closed", func(b *books) []check.Line {
			return append(sent(simwarden.SceneUsageCheck, event("polling_closed", 10))(b), read(at(9), simwarden.StateTerminated))
		}, "V9", check.Input{}},
		{"V9: after polling was resumed is clean", sent(simwarden.SceneUsageCheck, event("polling_paused", 10), event("polling_resumed", 20)), "", check.Input{}},
		{"V9: before it was paused is clean", sent(simwarden.SceneUsageCheck, event("polling_paused", 90)), "", check.Input{}},
		{"V9: the suspend of an ended plan passes the pause", sent(simwarden.ScenePlanLapsed, event("polling_paused", 10)), "", check.Input{}},
		{"V9: a person's order passes the pause", sent(simwarden.SceneManual, event("polling_paused", 10)), "", check.Input{}},
		{"V9: the same lapse twice under a pause", lapsedTwice(true, simwarden.CommandDone), "V9", check.Input{}},
		{"V9: an automatic request while its device's polling is paused", sent(simwarden.SceneUsageCheck, event("device_polling_paused", 10)), "V9", check.Input{}},
		{"V9: the SIM's own pause outlasts its device's", sent(simwarden.SceneUsageCheck, event("polling_paused", 5), event("device_polling_paused", 10),
			event("device_polling_resumed", 20)), "V9", check.Input{}},
		{"V9: after the device's polling was resumed is clean", sent(simwarden.SceneUsageCheck, event("device_polling_paused", 10), event("device_polling_resumed", 20)), "", check.Input{}},
		{"V9: the same lapse again when polling goes on", func(b *books) []check.Line {
			lines := lapsedTwice(true, simwarden.CommandDone)(b)
			b.event("polling_resumed", at(60), nil)
			return lines
		}, "V9", check.Input{}},
		{"V9: the same lapse twice without a pause is clean", lapsedTwice(false, simwarden.CommandDone), "", check.Input{}},
		{"V9: what was only observed does not count", lapsedTwice(true, simwarden.CommandObserved), "", check.Input{}},
	})
}

func TestV11PlansEndOnceAndFollowWithoutGap(t *testing.T) {
	// follows writes an expired plan and a queued one that begins so many seconds after its end.
	follows := func(gap float64, state simwarden.SubscriptionState) func(*books) []check.Line {
		return func(b *books) []check.Line {
			end := noon
			if state == simwarden.SubscriptionRefunded {
				end = at(3600) // it was taken back at noon
			}
			b.request(simwarden.ScenePlanCheck, b.plan(state, noon.Add(-24*time.Hour), end, noon), noon, noon)
			next := b.plan(simwarden.SubscriptionActive, at(gap), at(7200), time.Time{})
			b.request(simwarden.SceneQueuedActivated, next, noon, noon)
			b.event("plan_activated", at(gap), map[string]any{"subscription_id": next})
			return nil
		}
	}
	// waited is the same with a next one that begins gap seconds after, and was used first use seconds after.
	waited := func(gap, use float64) func(*books) []check.Line {
		return func(b *books) []check.Line {
			lines := follows(gap, simwarden.SubscriptionExpired)(b)
			b.exec(`UPDATE subscription SET activation = 'first_use', ready_at = $1 WHERE state = 'active'`, at(use))
			return lines
		}
	}
	judge(t, []row{
		{"V11: an end at its instant is clean", func(b *books) []check.Line {
			b.request(simwarden.ScenePlanLapsed, b.plan(simwarden.SubscriptionExpired, noon.Add(-time.Hour), noon, at(0.1)), noon, noon)
			return nil
		}, "", check.Input{}},
		{"V11: an end before its instant", func(b *books) []check.Line {
			b.request(simwarden.ScenePlanLapsed, b.plan(simwarden.SubscriptionExpired, noon.Add(-time.Hour), noon, at(-1)), noon, noon)
			return nil
		}, "V11", check.Input{}},
		{"V11: one plan ends twice", func(b *books) []check.Line {
			sub := b.plan(simwarden.SubscriptionExpired, noon.Add(-time.Hour), noon, noon)
			b.request(simwarden.ScenePlanLapsed, sub, noon, noon)
			for range 2 {
				b.event("plan_lapsed", noon, map[string]any{"subscription_id": sub})
			}
			return nil
		}, "V11", check.Input{}},
		{"V11: the next begins where the one before ended", follows(0, simwarden.SubscriptionExpired), "", check.Input{}},
		{"V11: the next begins where the one before was refunded", follows(0, simwarden.SubscriptionRefunded), "", check.Input{}},
		{"V11: a gap before the next", follows(1, simwarden.SubscriptionExpired), "V11", check.Input{}},
		{"V11: a gap that the next waited for its first use", waited(1, 1), "", check.Input{}},
		{"V11: it began after what it waited for", waited(2, 1), "V11", check.Input{}},
		{"V11: an overlap with the next", follows(-1, simwarden.SubscriptionExpired), "V11", check.Input{}},
		{"V11: a plan that came to the asset later counts from then on", func(b *books) []check.Line {
			b.request(simwarden.ScenePlanLapsed, b.plan(simwarden.SubscriptionExpired, noon.Add(-time.Hour), noon, noon), noon, noon)
			moved := b.plan(simwarden.SubscriptionActive, noon.Add(-30*time.Minute), at(3600), time.Time{})
			b.event("plan_moved", at(60), map[string]any{"subscription_id": moved})
			return nil
		}, "", check.Input{}},
		{"V11: two plans of one asset at a time", func(b *books) []check.Line {
			b.request(simwarden.ScenePlanLapsed, b.plan(simwarden.SubscriptionExpired, noon.Add(-time.Hour), noon, noon), noon, noon)
			b.plan(simwarden.SubscriptionActive, noon.Add(-30*time.Minute), at(3600), time.Time{})
			return nil
		}, "V11", check.Input{}},
	})
}

func TestV12AfterTheCalmAllIsAsDecided(t *testing.T) {
	calm := func(truth simwarden.State) check.Input {
		return check.Input{Now: at(600), OpenBound: time.Minute, Truth: map[string]simwarden.State{card: truth}}
	}
	wants := func(desired simwarden.Desired, also string) func(*books) []check.Line {
		return func(b *books) []check.Line {
			b.exec(`UPDATE poll_state SET state = 'active', desired = $1, reason = 'no_plan' WHERE sim_id = 1`, string(desired))
			for _, sql := range strings.Split(also, ";") {
				b.exec(sql)
			}
			return nil
		}
	}
	open := func(age float64, heldBy string) func(*books) []check.Line {
		return func(b *books) []check.Line {
			id := b.command(simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.CommandQueued, 0, at(600-age))
			b.exec(`UPDATE command SET held_by = $2 WHERE id = $1`, id, heldBy)
			return nil
		}
	}
	active, suspended := simwarden.StateActive, simwarden.StateSuspended
	judge(t, []row{
		{"V12: suspended as decided is clean", wants(simwarden.DesiredSuspended, ``), "", calm(suspended)},
		{"V12: it runs and should not", wants(simwarden.DesiredSuspended, ``), "V12", calm(active)},
		{"V12: it does not run and should", wants(simwarden.DesiredRunning, ``), "V12", calm(suspended)},
		{"V12: a SIM that is left alone may be as it is", wants(simwarden.DesiredLeave, ``), "", calm(active)},
		{"V12: an account that observes names the end", wants(simwarden.DesiredSuspended, `UPDATE account SET mode = 'observe'`), "", calm(active)},
		{"V12: so does one that is stopped", wants(simwarden.DesiredSuspended, `UPDATE account SET stopped_at = now()`), "", calm(active)},
		{"V12: so does the brake, for suspends", wants(simwarden.DesiredSuspended, `UPDATE account SET braked_at = now()`), "", calm(active)},
		{"V12: but not for resumes", wants(simwarden.DesiredRunning, `UPDATE account SET braked_at = now()`), "V12", calm(suspended)},
		{"V12: so does a SIM that is shown as drifting", wants(simwarden.DesiredSuspended, `UPDATE sim SET drifting_at = now()`), "", calm(active)},
		{"V12: so does a failure that waits", wants(simwarden.DesiredSuspended, `UPDATE sim SET reopen_at = '2099-01-01'`), "", calm(active)},
		{"V12: so does a pause", wants(simwarden.DesiredSuspended, `UPDATE sim SET paused_at = now()`), "", calm(active)},
		{"V12: a young open command is clean", open(30, ""), "", calm(active)},
		{"V12: an old open command that nothing holds", open(90, ""), "V12", calm(active)},
		{"V12: an old one that something named holds is clean", open(90, "maintenance"), "", calm(active)},
		{"V12: without a calm phase nothing is said", open(90, ""), "", check.Input{Now: at(600)}},
		{"V12: a young request is clean", func(b *books) []check.Line {
			b.request(simwarden.SceneUsageCheck, 0, at(570), time.Time{})
			return nil
		}, "", calm(active)},
		{"V12: an old request", func(b *books) []check.Line {
			b.request(simwarden.SceneUsageCheck, 0, at(500), time.Time{})
			return nil
		}, "V12", calm(active)},
	})
}

func TestV14NoAutomaticResumeLiftsAHold(t *testing.T) {
	resumed := func(scene simwarden.Scene, kinds ...string) func(*books) []check.Line {
		return func(b *books) []check.Line {
			for i, kind := range kinds {
				b.event(kind, at(float64(10+10*i)), nil)
			}
			c := b.command(simwarden.DirectionResume, scene, simwarden.CommandDone, 0, at(59))
			b.attempt(attempted{command: c, number: 1, when: at(60), scene: scene, facts: func(f *rules.Facts) {
				f.State, f.UsageReadAt = simwarden.StateSuspended, at(59)
				f.Subscriptions = []rules.SubscriptionFact{{ID: 1, Kind: simwarden.PlanMain, StartAt: noon.Add(-time.Hour), EndAt: at(3600), AllowanceBytes: simwarden.UnlimitedBytes}}
				if scene == simwarden.SceneManual {
					f.Manual = simwarden.DirectionResume
				}
			}})
			return nil
		}
	}
	judge(t, []row{
		{"V14: a resume without a hold is clean", resumed(simwarden.SceneToppedUp), "", check.Input{}},
		{"V14: an automatic resume under a hold", resumed(simwarden.SceneToppedUp, "manual_hold"), "V14", check.Input{}},
		{"V14: a person's own resume is clean", resumed(simwarden.SceneManual, "manual_hold"), "", check.Input{}},
		{"V14: a resume after the hold was lifted is clean", resumed(simwarden.SceneToppedUp, "manual_hold", "manual_hold_lifted"), "", check.Input{}},
		{"V14: a resume under the next hold", resumed(simwarden.SceneToppedUp, "manual_hold", "manual_hold_lifted", "manual_hold"), "V14", check.Input{}},
	})
}

func TestV18OneRecordForEachEnd(t *testing.T) {
	write := func(state simwarden.CommandState, more int) func(*books) []check.Line {
		return func(b *books) []check.Line {
			id := b.command(simwarden.DirectionSuspend, simwarden.SceneUsageCheck, state, 0, noon)
			if more < 0 {
				b.exec(`DELETE FROM command_record`)
			}
			for i := range more {
				b.record(id, state, at(float64(i+1)))
			}
			return nil
		}
	}
	judge(t, []row{
		{"V18: an end with its record is clean", write(simwarden.CommandDone, 0), "", check.Input{}},
		{"V18: an end without a record", write(simwarden.CommandFailed, -1), "V18", check.Input{}},
		{"V18: an end with two records", write(simwarden.CommandDone, 1), "V18", check.Input{}},
		{"V18: an open command without a record is clean", write(simwarden.CommandQueued, 0), "", check.Input{}},
		{"V18: an open command with a record", write(simwarden.CommandQueued, 1), "V18", check.Input{}},
	})
}
