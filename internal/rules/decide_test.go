package rules_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

var noon = time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)

// main is a main plan of 1 GB for March.
func mainPlan(used int64) rules.SubscriptionFact {
	return rules.SubscriptionFact{
		ID: 1, Kind: simwarden.PlanMain, PlanCode: "m1g",
		StartAt: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC), EndAt: time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC),
		AllowanceBytes: 1_000_000_000, UsedBytes: used,
	}
}

func addon(id simwarden.SubscriptionID, allowance, used int64, end time.Time) rules.SubscriptionFact {
	return rules.SubscriptionFact{
		ID: id, Kind: simwarden.PlanAddon, PlanCode: "a", StartAt: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
		EndAt: end, AllowanceBytes: allowance, UsedBytes: used,
	}
}

var april = time.Date(2026, 4, 1, 0, 0, 0, 0, time.UTC)

// healthy is an active SIM, read a minute ago, that nothing speaks against.
func healthy(change ...func(*rules.Facts)) rules.Facts {
	f := rules.Facts{
		NowAt: noon, Scene: simwarden.ScenePeriodic,
		State: simwarden.StateActive, Extended: simwarden.ExtendedNone, StateReadAt: noon.Add(-time.Minute),
		TrafficStates: []simwarden.State{simwarden.StateActive},
		RealName:      simwarden.RealNameUnknown, UsageReadAt: noon.Add(-time.Minute),
		Subscriptions: []rules.SubscriptionFact{mainPlan(1000)}, EverPlanned: true,
		Unplanned: simwarden.UnplannedLeave, FreshFor: time.Hour, HasUsage: true,
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

type change = func(*rules.Facts)

func scene(s simwarden.Scene) change { return func(f *rules.Facts) { f.Scene = s } }
func state(s simwarden.State) change { return func(f *rules.Facts) { f.State = s } }
func manual(d simwarden.Direction) change {
	return func(f *rules.Facts) { f.Scene, f.Manual = simwarden.SceneManual, d }
}
func used(n int64) change {
	return func(f *rules.Facts) { f.Subscriptions = []rules.SubscriptionFact{mainPlan(n)} }
}
func plans(s ...rules.SubscriptionFact) change {
	return func(f *rules.Facts) { f.Subscriptions = s }
}
func lapsed(f *rules.Facts) {
	f.Subscriptions = nil
	f.LastPlanEndedAt = noon.Add(-time.Hour)
}
func never(f *rules.Facts)        { f.Subscriptions, f.EverPlanned = nil, false }
func paused(f *rules.Facts)       { f.SIMPaused = true }
func devicePaused(f *rules.Facts) { f.DevicePaused = true }
func closed(f *rules.Facts)       { f.Closed = true }
func pending(f *rules.Facts)      { f.Pending = true }
func hold(f *rules.Facts) {
	f.ManualHold, f.ManualHoldAt, f.ManualHoldBy = true, noon.Add(-2*time.Hour), "cli:ann"
}
func realName(status simwarden.RealName) change {
	return func(f *rules.Facts) {
		f.RealNameRequired, f.HasReal, f.RealName, f.RealNameAt = true, true, status, noon.Add(-time.Minute)
	}
}
func unread(f *rules.Facts) { f.State, f.StateReadAt = simwarden.StateUnknown, time.Time{} }
func stateAge(d time.Duration) change {
	return func(f *rules.Facts) { f.StateReadAt = noon.Add(-d) }
}
func usageAge(d time.Duration) change {
	return func(f *rules.Facts) { f.UsageReadAt = noon.Add(-d) }
}
func also(c ...change) change {
	return func(f *rules.Facts) {
		for _, c := range c {
			c(f)
		}
	}
}

func TestDecide(t *testing.T) {
	const (
		leave     = simwarden.DesiredLeave
		running   = simwarden.DesiredRunning
		suspended = simwarden.DesiredSuspended
	)
	unlimited := mainPlan(5_000_000_000)
	unlimited.AllowanceBytes = simwarden.UnlimitedBytes
	empty := mainPlan(0)
	empty.AllowanceBytes = 0
	tests := []struct {
		name    string
		facts   change
		desired simwarden.Desired
		reason  simwarden.Reason
		because string
		command bool
	}{
		// E2
		{"E2: a SIM with a plan, data and no real-name duty runs on", also(), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: one that is suspended without a reason is resumed", state("suspended"), running, "", "", true},
		{"E2: no main plan in force suspends", lapsed, suspended, "no_plan", "", true},
		{"E2: an add-on alone does not keep a SIM running", also(lapsed, func(f *rules.Facts) {
			f.Subscriptions = []rules.SubscriptionFact{addon(2, 1000, 0, april)}
		}), suspended, "no_plan", "", true},
		{"E2: usage at the allowance is exhausted", used(1_000_000_000), suspended, "data_exhausted", "", true},
		{"E2: one byte below it is not", used(999_999_999), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: an add-on's allowance counts with the main plan's", plans(mainPlan(1_000_000_000), addon(2, 500, 499, april)), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: both used up are exhausted", plans(mainPlan(1_000_000_000), addon(2, 500, 500, april)), suspended, "data_exhausted", "", true},
		{"E2: an add-on that has ended counts no more", plans(mainPlan(1_000_000_000), addon(2, 500, 0, noon)), suspended, "data_exhausted", "", true},
		{"E2: a plan without limit is never exhausted", plans(unlimited), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: an add-on without limit frees a used-up main plan", plans(mainPlan(1_000_000_000), addon(2, simwarden.UnlimitedBytes, 0, april)), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: a plan of zero bytes has no data", plans(empty), suspended, "data_exhausted", "", true},
		{"E2: unless an add-on gives some", plans(empty, addon(2, 500, 0, april)), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: a plan that ends now is over (end exclusive)", also(func(f *rules.Facts) { f.Subscriptions[0].EndAt = noon }, scene(simwarden.ScenePlanLapsed)), suspended, "no_plan", "", true},
		{"L1: within the minute after its end, the end's own handling has the say", func(f *rules.Facts) { f.Subscriptions[0].EndAt = noon.Add(-59 * time.Second) }, leave, "", rules.BecausePlanChangeDue, false},
		{"L1: an end that nobody handled for a minute is concluded by whoever looks", func(f *rules.Facts) { f.Subscriptions[0].EndAt = noon.Add(-time.Minute) }, suspended, "no_plan", "", true},
		{"E2: one that begins now counts (start inclusive)", func(f *rules.Facts) { f.Subscriptions[0].StartAt = noon }, running, "", rules.BecauseAlreadyRunning, false},
		{"E2: required and unverified suspends", realName("unverified"), suspended, "realname_unmet", "", true},
		{"E2: required and exempt runs", realName("exempt"), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: required and exempt is resumed", also(realName("exempt"), state("suspended")), running, "", "", true},
		{"E11: an answer that is not understood proves nothing: no suspend", realName("unknown"), leave, "", rules.BecauseRealNameUnclear, false},
		{"E11: an answer that is not understood proves nothing: no resume", also(realName("unknown"), state("suspended")), leave, "", rules.BecauseRealNameUnclear, false},
		{"E2: required and verified runs", realName("verified"), running, "", rules.BecauseAlreadyRunning, false},
		{"E2: unverified without duty runs", func(f *rules.Facts) { f.RealName = "unverified" }, running, "", rules.BecauseAlreadyRunning, false},
		{"E2: required, and no driver can read it: what is on file counts", func(f *rules.Facts) { f.RealNameRequired, f.RealName = true, "" }, suspended, "realname_unmet", "", true},
		{"E2: required and never read is read before anything is concluded", also(realName(""), func(f *rules.Facts) { f.RealNameAt = time.Time{} }), leave, "", rules.BecauseRealNameUnread, false},
		{"E2: the first reason in order names the decision", also(realName("unverified"), used(2_000_000_000)), suspended, "data_exhausted", "", true},
		{"E2: an asset that never had a plan is left alone", never, leave, "", rules.BecauseNeverPlanned, false},
		{"E2: unless the account says suspend", also(never, func(f *rules.Facts) { f.Unplanned = "suspend" }), suspended, "no_plan", "", true},
		{"S10: between a plan's end and the start of the queued one nothing is concluded", also(lapsed, func(f *rules.Facts) { f.MainQueued = true }), leave, "", rules.BecausePlanChangeDue, false},

		// E3
		{"E3: a hold stops the automatic resume", also(hold, state("suspended")), leave, "", rules.BecauseManualHold, false},
		{"E13: what a person holds suspended and runs is suspended again", hold, suspended, "manual_hold", "", true},
		{"E13: so is one that never had a plan", also(hold, never), suspended, "manual_hold", "", true},
		{"E13: and is left so for that", also(hold, never, state("suspended")), leave, "", rules.BecauseManualHold, false},
		{"E13: also while the end of its plan waits for a release", also(hold, lapsed, func(f *rules.Facts) { f.LapseHeld = true }), suspended, "manual_hold", "", true},
		{"E13: and before its real name has been read", also(hold, realName(""), func(f *rules.Facts) { f.RealNameAt = time.Time{} }), suspended, "manual_hold", "", true},
		{"E5: not under pause", also(hold, paused), leave, "", rules.BecausePollingPaused, false},
		{"E13: nor where the state is not known", also(hold, unread), leave, "", rules.BecauseManualHold, false},
		{"E13: a plan's end, with another in force, is not about a hold", also(hold, scene("plan_lapsed")), leave, "", rules.BecauseManualHold, false},
		{"E3: a hold stops not the automatic suspend", also(hold, lapsed), suspended, "no_plan", "", true},
		{"E3: a person's suspend goes through though all is well", manual("suspend"), suspended, "manual_hold", "", true},
		{"E3: a person's resume goes through though no plan is left", also(lapsed, state("suspended"), manual("resume")), running, "manual_resume", "", true},
		{"E3: a person's resume lifts the hold", also(hold, state("suspended"), manual("resume")), running, "manual_resume", "", true},
		{"E3: a person's suspend of a suspended SIM sends nothing", also(state("suspended"), manual("suspend")), suspended, "manual_hold", rules.BecauseAlreadySuspended, false},
		{"E3: a person's order trusts no old state", also(state("suspended"), stateAge(2*time.Hour), manual("suspend")), suspended, "manual_hold", rules.BecauseAlreadySuspended, true},
		{"E3: a person's order goes out on an unknown state, which is read first", also(unread, manual("suspend")), suspended, "manual_hold", rules.BecauseStateUnknown, true},
		{"E3: a person's order on a terminated SIM has nothing to do", also(state("terminated"), manual("resume")), leave, "", "state terminated", false},
		{"E3: a manual scene without an order does nothing", manual(""), leave, "", rules.BecauseNoDirection, false},
		{"S1: a person resumes a paused SIM", also(paused, state("suspended"), manual("resume")), running, "manual_resume", "", true},
		{"E3: inventory is left alone", also(state("inventory"), lapsed), leave, "", "state inventory", false},
		{"E3: test_ready is not activated", state("test_ready"), leave, "", "state test_ready", false},
		{"E3: test_ready that carries traffic is suspended", also(state("test_ready"), lapsed, func(f *rules.Facts) {
			f.TrafficStates = []simwarden.State{"active", "test_ready"}
		}), suspended, "no_plan", "", true},
		{"E3: test_ready that carries traffic and may run is left", also(state("test_ready"), func(f *rules.Facts) {
			f.TrafficStates = []simwarden.State{"active", "test_ready"}
		}), leave, "", "state test_ready", false},
		{"E3: terminated is left alone, plan or not", also(state("terminated"), lapsed), leave, "", "state terminated", false},
		{"E3: an unknown state is read first", unread, leave, "", rules.BecauseStateUnknown, false},
		{"E3: an unknown state with a reason to suspend is read first too", also(used(2_000_000_000), unread), leave, "", rules.BecauseStateUnknown, false},
		{"E3: a SIM already suspended gets no command", also(state("suspended"), lapsed), suspended, "no_plan", rules.BecauseAlreadySuspended, false},
		{"E3: suspended is suspended, also where it carries traffic", also(state("suspended"), func(f *rules.Facts) {
			f.TrafficStates = []simwarden.State{"active", "suspended"}
		}), running, "", "", true},
		{"P1: a SIM that the carrier is changing gets no automatic command", also(pending, lapsed), suspended, "no_plan", rules.BecauseChanging, false},
		{"E3: a person does not wait for the carrier", also(pending, manual("suspend")), suspended, "manual_hold", "", true},

		// E5, E6
		{"S1: paused, topped up: no automatic resume", also(paused, state("suspended"), scene("topped_up")), leave, "", rules.BecausePollingPaused, false},
		{"S4: paused, exhausted: no command", also(paused, used(2_000_000_000), scene("usage_check")), leave, "", rules.BecausePollingPaused, false},
		{"S5: taken up again, exhausted: suspended", also(used(2_000_000_000), scene("polling_resumed")), suspended, "data_exhausted", "", true},
		{"S20: device paused: no command", also(devicePaused, used(2_000_000_000)), leave, "", rules.BecauseDevicePollingPaused, false},
		{"E5: closed: no command", also(closed, lapsed), leave, "", rules.BecausePollingClosed, false},
		{"E5: closed: no resume either", also(closed, state("suspended")), leave, "", rules.BecausePollingClosed, false},
		{"S2: paused, plan lapsed: suspended", also(paused, lapsed, scene("plan_lapsed")), suspended, "no_plan", "", true},
		{"S3: paused, refunded: suspended", also(paused, lapsed, scene("refunded")), suspended, "no_plan", "", true},
		{"S20: device paused, plan lapsed: suspended", also(devicePaused, lapsed, scene("plan_lapsed")), suspended, "no_plan", "", true},
		{"E6: closed, plan lapsed: suspended", also(closed, lapsed, scene("plan_lapsed")), suspended, "no_plan", "", true},
		{"E6: paused, lapsed, another main plan in force: left", also(paused, scene("plan_lapsed")), leave, "", rules.BecausePollingPaused, false},
		{"E6: paused, lapsed, the other one exhausted: left", also(paused, used(2_000_000_000), scene("plan_lapsed")), leave, "", rules.BecausePollingPaused, false},
		{"E6: paused, refunded, suspended with another plan: not resumed", also(paused, state("suspended"), scene("refunded")), leave, "", rules.BecausePollingPaused, false},
		{"E6: not paused, lapsed, another plan in force: decided as usual", scene("plan_lapsed"), running, "", rules.BecauseAlreadyRunning, false},
		{"S13: not paused, lapsed, a new plan used up: decided as usual", also(used(2_000_000_000), scene("plan_lapsed")), suspended, "data_exhausted", "", true},
		{"E6: a lapse is not lost to an unknown state", also(paused, lapsed, unread, scene("plan_lapsed")), suspended, "no_plan", rules.BecauseStateUnknown, true},
		{"E6: a lapse is not lost to a change that is under way", also(paused, lapsed, pending, scene("plan_lapsed")), suspended, "no_plan", rules.BecauseChanging, true},
		{"E6: a lapse does not resume on an unknown state", also(unread, scene("plan_lapsed")), leave, "", rules.BecauseStateUnknown, false},

		// E7
		{"S6: device separated and exhausted: suspended as usual", also(used(2_000_000_000), func(f *rules.Facts) { f.Extended = "device_separated" }), suspended, "data_exhausted", "", true},
		{"S6: device separated and paid for: resumed as usual", also(state("suspended"), func(f *rules.Facts) { f.Extended = "device_separated" }), running, "", "", true},

		// E11
		{"E11: no resume on an old state", also(state("suspended"), stateAge(2*time.Hour)), running, "", rules.BecauseFactsTooOld, false},
		{"E11: no resume on old usage", also(state("suspended"), usageAge(2*time.Hour)), running, "", rules.BecauseFactsTooOld, false},
		{"E11: no resume on usage that was never read", also(state("suspended"), func(f *rules.Facts) { f.UsageReadAt = time.Time{} }), running, "", rules.BecauseFactsTooOld, false},
		{"E11: old usage does not matter to a plan without limit", also(state("suspended"), usageAge(2*time.Hour), plans(unlimited)), running, "", "", true},
		{"E11: nor where the driver reads none", also(state("suspended"), usageAge(2*time.Hour), func(f *rules.Facts) { f.HasUsage = false }), running, "", "", true},
		{"E11: exactly as old as the bound is fresh", also(state("suspended"), usageAge(time.Hour)), running, "", "", true},
		{"E11: no bound, no age", also(state("suspended"), usageAge(2000*time.Hour), func(f *rules.Facts) { f.FreshFor = 0 }), running, "", "", true},
		{"E11: old usage proves exhaustion", also(used(2_000_000_000), usageAge(200*time.Hour)), suspended, "data_exhausted", "", true},
		{"E11: no resume on an old real-name status", also(state("suspended"), realName("verified"), func(f *rules.Facts) { f.RealNameAt = noon.Add(-2 * time.Hour) }), running, "", rules.BecauseFactsTooOld, false},
		{"E11: a person's resume rests on no facts", also(state("suspended"), usageAge(2*time.Hour), manual("resume")), running, "manual_resume", "", true},

		// S19
		{"S19: real-name no longer required: resumed", also(realName("unverified"), state("suspended"), scene("realname_policy_changed"), func(f *rules.Facts) { f.RealNameRequired = false }), running, "", "", true},
		{"S19: paused ones are not", also(paused, state("suspended"), scene("realname_policy_changed")), leave, "", rules.BecausePollingPaused, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy(tt.facts)
			d := rules.Decide(f)
			if d.Desired != tt.desired || d.Reason != tt.reason || d.Because != tt.because {
				t.Errorf("decided %s, reason %q, because %q; want %s, %q, %q", d.Desired, d.Reason, d.Because, tt.desired, tt.reason, tt.because)
			}
			if _, command := rules.NeedsCommand(d, f); command != tt.command {
				t.Errorf("needs a command: %t, want %t", command, tt.command)
			}
			if d.Scene != f.Scene || !d.DecidedAt.Equal(noon) {
				t.Errorf("scene %s at %s, want %s at %s", d.Scene, d.DecidedAt, f.Scene, noon)
			}
			if len(d.Checks) != 8 {
				t.Errorf("%d checks, want all 8 (E1): %+v", len(d.Checks), d.Checks)
			}
			if again := rules.Decide(f); again.Desired != d.Desired || again.Because != d.Because {
				t.Errorf("the same facts gave another decision (V5)")
			}
		})
	}
}

func TestDecideKeepsAllReasons(t *testing.T) {
	f := healthy(lapsed, hold, paused, realName("unverified"), func(f *rules.Facts) {
		f.Subscriptions = []rules.SubscriptionFact{addon(2, 500, 1500, april)}
		f.Extended, f.RawState = simwarden.ExtendedDeviceSeparated, "DEV_SEP"
		f.Held = []simwarden.ReasonHeld{
			{Reason: simwarden.ReasonRealNameUnmet, SinceAt: noon.Add(-72 * time.Hour)},
			{Reason: simwarden.ReasonNoPlan, SinceAt: noon.Add(-96 * time.Hour)},
			{Reason: simwarden.ReasonDataExhausted},
		}
	})
	d := rules.Decide(f)
	want := []simwarden.ReasonHeld{
		{Reason: "no_plan", Owner: "platform", SinceAt: noon.Add(-time.Hour)}, // a plan that ended later is a new reason
		{Reason: "data_exhausted", Owner: "platform", SinceAt: noon},
		{Reason: "realname_unmet", Owner: "platform", SinceAt: noon.Add(-72 * time.Hour)},
		{Reason: "manual_hold", Owner: "person", SinceAt: noon.Add(-2 * time.Hour)},
		{Reason: "carrier_stop", Owner: "carrier", SinceAt: noon.Add(-time.Minute)},
	}
	if len(d.Reasons) != len(want) {
		t.Fatalf("E10: %d reasons, want %d: %+v", len(d.Reasons), len(want), d.Reasons)
	}
	for i, w := range want {
		got := d.Reasons[i]
		if got.Reason != w.Reason || got.Owner != w.Owner || !got.SinceAt.Equal(w.SinceAt) {
			t.Errorf("E10: reason %d is %s of %s since %s, want %s of %s since %s", i, got.Reason, got.Owner, got.SinceAt, w.Reason, w.Owner, w.SinceAt)
		}
		if got.Evidence == "" {
			t.Errorf("E10: %s has no evidence", got.Reason)
		}
	}
	if d.Desired != simwarden.DesiredLeave || d.Because != rules.BecausePollingPaused {
		t.Errorf("E5: paused is %s because %q, though all is shown", d.Desired, d.Because)
	}
}

func TestDecideShowsWhatItSaw(t *testing.T) {
	tests := []struct {
		name  string
		facts change
		check string
		saw   string
		pass  bool
		asOf  time.Time
	}{
		{"E1: bytes are shown for people and exactly", used(1_500_000_000), rules.CheckDataLeft, "1.50 GB (1500000000 B) used of 1.00 GB (1000000000 B)", false, noon.Add(-time.Minute)},
		{"E1: small counts as they are", plans(addon(2, 900, 12, april)), rules.CheckDataLeft, "12 B used of 900 B", true, noon.Add(-time.Minute)},
		{"E1: no limit", plans(rules.SubscriptionFact{Kind: "main", StartAt: noon, EndAt: april, AllowanceBytes: -1, UsedBytes: 7}), rules.CheckDataLeft, "7 B used, no limit", true, noon.Add(-time.Minute)},
		{"E1: no subscription", lapsed, rules.CheckDataLeft, "no subscription in force, so no allowance to use up", true, noon.Add(-time.Minute)},
		{"E1: the plan's instants", also(), rules.CheckPlanInForce, "plan m1g in force from 2026-03-01T00:00:00Z until 2026-04-01T00:00:00Z", true, time.Time{}},
		{"E1: when the last plan ended", lapsed, rules.CheckPlanInForce, "no main plan in force; the last one ended at 2026-03-10T11:00:00Z", false, time.Time{}},
		{"E1: who holds it", hold, rules.CheckNoManualHold, "suspended by cli:ann at 2026-03-10T10:00:00Z", false, time.Time{}},
		{"E1: a hold of nobody known", func(f *rules.Facts) { f.ManualHold = true }, rules.CheckNoManualHold, "suspended by a person", false, time.Time{}},
		{"E1: a closed polling", closed, rules.CheckPollingOn, "the SIM's polling is closed", false, time.Time{}},
		{"E1: the device's pause", devicePaused, rules.CheckPollingOn, "the device's polling is paused by a person", false, time.Time{}},
		{"E7: the carrier's own word", func(f *rules.Facts) { f.Extended, f.RawState = "arrears", "欠费" }, rules.CheckNoCarrierStop, `arrears (the carrier says "欠费")`, false, noon.Add(-time.Minute)},
		{"E7: a stop whose reading has no time", func(f *rules.Facts) { f.Extended, f.StateReadAt = "other", time.Time{} }, rules.CheckNoCarrierStop, "other", false, time.Time{}},
		{"E3: never read", unread, rules.CheckStateKnown, "the state has never been read", false, time.Time{}},
		{"E3: read and not understood", state("unknown"), rules.CheckStateKnown, "the carrier's state is not known", false, noon.Add(-time.Minute)},
		{"E3: being changed", pending, rules.CheckStateKnown, "active, the carrier is changing it", true, noon.Add(-time.Minute)},
		{"E11: what is too old", also(stateAge(2*time.Hour), usageAge(2*time.Hour)), rules.CheckFactsFresh, "older than 1h0m0s: state, usage", false, time.Time{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := rules.Decide(healthy(tt.facts))
			i := slices.IndexFunc(d.Checks, func(c simwarden.Check) bool { return c.Name == tt.check })
			if i < 0 {
				t.Fatalf("no check %q in %+v", tt.check, d.Checks)
			}
			if c := d.Checks[i]; c.Saw != tt.saw || c.Passed != tt.pass || !c.AsOf.Equal(tt.asOf) {
				t.Errorf("saw %q, passed %t, as of %s; want %q, %t, %s", c.Saw, c.Passed, c.AsOf, tt.saw, tt.pass, tt.asOf)
			}
		})
	}
}

func TestManualResumeWarns(t *testing.T) {
	d := rules.Decide(healthy(also(lapsed, hold, state("suspended"), realName("unverified"), manual("resume"))))
	if len(d.Warnings) != 2 || !strings.HasPrefix(d.Warnings[0], "no_plan: ") || !strings.HasPrefix(d.Warnings[1], "realname_unmet: ") {
		t.Errorf("E3: warnings %q, want one for the plan and one for the real name", d.Warnings)
	}
	if d.Holds(simwarden.ReasonManualHold) {
		t.Error("E3: a manual resume lifts the hold, so the hold is no reason any more")
	}
	d = rules.Decide(healthy(manual("suspend")))
	if len(d.Warnings) != 0 || !d.Holds(simwarden.ReasonManualHold) {
		t.Errorf("E3: a manual suspend gave warnings %q, reasons %+v; want none and a hold", d.Warnings, d.Reasons)
	}
}

func TestNoPlanSince(t *testing.T) {
	since := func(f rules.Facts) time.Time {
		d := rules.Decide(f)
		for _, r := range d.Reasons {
			if r.Reason == simwarden.ReasonNoPlan {
				return r.SinceAt
			}
		}
		t.Fatalf("no_plan does not hold: %+v", d.Reasons)
		return time.Time{}
	}
	if got := since(healthy(func(f *rules.Facts) { f.Subscriptions[0].EndAt = noon.Add(-time.Hour) })); !got.Equal(noon.Add(-time.Hour)) {
		t.Errorf("E10: since %s, want the end of the plan that nobody has swept yet", got)
	}
	if got := since(healthy(never, func(f *rules.Facts) { f.Unplanned = simwarden.UnplannedSuspend })); !got.Equal(noon) {
		t.Errorf("E10: since %s, want the decision's instant where no plan ever ended", got)
	}
	held := []simwarden.ReasonHeld{{Reason: simwarden.ReasonNoPlan, SinceAt: noon.Add(-48 * time.Hour)}}
	if got := since(healthy(never, func(f *rules.Facts) { f.Unplanned, f.Held = simwarden.UnplannedSuspend, held })); !got.Equal(noon.Add(-48 * time.Hour)) {
		t.Errorf("E10: since %s, want what the decision before said", got)
	}
}

func TestReadFirstAndBeforeSending(t *testing.T) {
	kinds := func(k ...simwarden.CheckKind) []simwarden.CheckKind { return k }
	tests := []struct {
		name      string
		facts     change
		readFirst []simwarden.CheckKind
		before    []simwarden.CheckKind
	}{
		{"E11: fresh facts are sent on", lapsed, nil, nil},
		{"E11: an old state is read before a suspend", also(lapsed, stateAge(2*time.Hour)), nil, kinds("state")},
		{"E11: a suspend needs no fresh usage", also(used(2_000_000_000), usageAge(2*time.Hour)), nil, nil},
		{"E11: a resume needs all of it", also(state("suspended"), realName("verified"), func(f *rules.Facts) {
			f.StateReadAt, f.UsageReadAt, f.RealNameAt = noon.Add(-2*time.Hour), noon.Add(-2*time.Hour), noon.Add(-2*time.Hour)
		}), kinds("state", "usage", "realname"), kinds("state", "usage", "realname")},
		{"E3: an unknown state is read", unread, kinds("state"), kinds("state")},
		{"E3: but not again where it was read just now", state("unknown"), kinds("state"), nil},
		{"E6: also for the command that a lapse has written", also(paused, lapsed, unread, scene("plan_lapsed")), kinds("state"), kinds("state")},
		{"E6: and once read, though still unknown, the command is sent", also(paused, lapsed, state("unknown"), scene("plan_lapsed")), kinds("state"), nil},
		{"E3: a person's resume waits for the state alone", also(state("suspended"), stateAge(2*time.Hour), usageAge(2*time.Hour), manual("resume")), nil, kinds("state")},
		{"E2: real-name that was never read", also(realName(""), func(f *rules.Facts) { f.RealNameAt = time.Time{} }), kinds("realname"), kinds("realname")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := healthy(tt.facts)
			d := rules.Decide(f)
			if !slices.Equal(d.ReadFirst, tt.readFirst) {
				t.Errorf("read first %v, want %v", d.ReadFirst, tt.readFirst)
			}
			if got := rules.ReadBeforeSending(d, f); !slices.Equal(got, tt.before) {
				t.Errorf("before sending %v, want %v", got, tt.before)
			}
		})
	}
}
