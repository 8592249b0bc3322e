package rules_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestBackoff(t *testing.T) {
	p := rules.DefaultBackoff()
	tests := []struct {
		name       string
		class      carrier.Class
		failures   int
		retryAfter time.Duration
		want       rules.Next
	}{
		{"C5: temporary waits a little", "temporary", 1, 0, rules.Next{State: "queued", Wait: 15 * time.Second, CountsAsFailure: true}},
		{"C5: then longer", "temporary", 4, 0, rules.Next{State: "queued", Wait: 2 * time.Minute, CountsAsFailure: true}},
		{"C5: up to a limit", "temporary", 6, 0, rules.Next{State: "failed", CountsAsFailure: true}},
		{"C5: at least as long as the carrier asks", "temporary", 1, time.Minute, rules.Next{State: "queued", Wait: time.Minute, CountsAsFailure: true}},
		{"F26: but not a year", "temporary", 1, 9000 * time.Hour, rules.Next{State: "queued", Wait: time.Hour, CountsAsFailure: true}},
		{"C6: an unknown outcome is read first", "unknown_outcome", 1, 0, rules.Next{State: "verifying", CountsAsFailure: true}},
		{"C6: also at the limit: the carrier may have acted", "unknown_outcome", 60, 0, rules.Next{State: "verifying", CountsAsFailure: true}},
		{"C5: so is an unknown error", "unknown", 1, 0, rules.Next{State: "verifying", CountsAsFailure: true}},
		{"C6: and what nobody classified", "", 1, 0, rules.Next{State: "verifying", CountsAsFailure: true}},
		{"C5: throttled waits as the carrier says, and is no failure", "throttled", 0, 20 * time.Second, rules.Next{State: "queued", Wait: 20 * time.Second, HeldBy: "throttled"}},
		{"C5: or a short fixed time", "throttled", 100, 0, rules.Next{State: "queued", Wait: 2 * time.Second, HeldBy: "throttled"}},
		{"F26: at most an hour", "throttled", 0, 9000 * time.Hour, rules.Next{State: "queued", Wait: time.Hour, HeldBy: "throttled"}},
		{"C5: our own limit is no attempt", "limited", 0, 300 * time.Millisecond, rules.Next{State: "queued", Wait: 300 * time.Millisecond, HeldBy: "limited"}},
		{"G8: auth waits until the account is released", "auth", 0, 0, rules.Next{State: "queued", Wait: 5 * time.Minute, HeldBy: "auth"}},
		{"G8: so does a stopped account", "stopped", 0, 0, rules.Next{State: "queued", Wait: 5 * time.Minute, HeldBy: "stopped"}},
		{"C5: maintenance ends when it is said to", "maintenance", 0, 2 * time.Hour, rules.Next{State: "queued", Wait: 2 * time.Hour, HeldBy: "maintenance"}},
		{"C5: a used-up quota is looked at again within a day", "quota_exhausted", 0, 700 * time.Hour, rules.Next{State: "queued", Wait: 24 * time.Hour, HeldBy: "quota_exhausted"}},
		{"C5: a change in progress is waited for", "in_progress", 0, 0, rules.Next{State: "queued", Wait: 15 * time.Second, HeldBy: "in_progress"}},
		{"C7: already so is success, once read", "already_in_state", 0, 0, rules.Next{State: "confirming"}},
		{"S8: risk-suspended is never retried", "risk_suspended", 1, time.Minute, rules.Next{State: "failed", CountsAsFailure: true}},
		{"S23: nor terminated", "terminated", 1, 0, rules.Next{State: "failed", CountsAsFailure: true}},
		{"C5: nor not found", "not_found", 1, 0, rules.Next{State: "failed", CountsAsFailure: true}},
		{"C5: nor invalid", "invalid", 1, 0, rules.Next{State: "failed", CountsAsFailure: true}},
		{"C5: nor refused", "refused", 1, 0, rules.Next{State: "failed", CountsAsFailure: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := rules.Backoff(p, tt.class, tt.failures, tt.retryAfter); got != tt.want {
				t.Errorf("goes on as %+v, want %+v", got, tt.want)
			}
		})
	}
	for _, class := range carrier.Classes() {
		if next := rules.Backoff(p, class, 1, 0); next.State == "" {
			t.Errorf("C5: class %s leads nowhere", class)
		}
	}
}

func TestReopenWait(t *testing.T) {
	p := rules.DefaultBackoff()
	tests := []struct {
		name   string
		failed int
		want   time.Duration
	}{
		{"C8: nothing has failed", 0, 0},
		{"C8: a pause after the first", 1, 15 * time.Minute},
		{"C8: that grows", 3, time.Hour},
		{"C8: up to a day", 1000, 24 * time.Hour},
	}
	for _, tt := range tests {
		if got := rules.ReopenWait(p, tt.failed); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
	p.Factor = 1
	if got := rules.Backoff(p, carrier.ClassTemporary, 5, 0).Wait; got != p.FirstDelay {
		t.Errorf("a factor of 1 waits %s, want ever the same %s", got, p.FirstDelay)
	}
}

func TestJitterStaysNear(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := time.Duration(rapid.Int64Range(0, int64(1000*time.Hour)).Draw(t, "d"))
		seed := rapid.Uint64().Draw(t, "seed")
		got := rules.Jitter(d, seed)
		if got < d-d/10-1 || got > d+d/10+1 {
			t.Fatalf("%s became %s: more than 10 %%", d, got)
		}
		if got != rules.Jitter(d, seed) {
			t.Fatal("the same seed gave another wait")
		}
	})
}

func TestBrake(t *testing.T) {
	b := rules.DefaultBrake()
	tests := []struct {
		name             string
		suspends, active int
		want             bool
	}{
		{"C10: the tenth of a small fleet passes", 9, 99, false},
		{"C10: the eleventh waits", 10, 99, true},
		{"C10: from 100 SIMs it is 50", 49, 100, false},
		{"C10: and no more", 50, 100, true},
		{"C10: also where 5 % are fewer", 50, 999, true},
		{"C10: of 10,000 it is 5 %", 499, 10_000, false},
		{"C10: and no more of them", 500, 10_000, true},
	}
	for _, tt := range tests {
		if got := rules.Brake(b, tt.suspends, tt.active); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	if !rules.Brake(rules.BrakePolicy{}, 0, 1000) {
		t.Error("B20: a brake without figures let a suspend pass")
	}
}

func TestOddLimitIsAFifthOfTheAccountAndAtLeastTen(t *testing.T) {
	for active, want := range map[int]int{0: 10, 12: 10, 54: 10, 55: 11, 1000: 200} {
		if got := rules.OddLimit(active); got != want {
			t.Errorf("F29, F30: of %d active SIMs %d may read odd, want %d", active, got, want)
		}
	}
}
