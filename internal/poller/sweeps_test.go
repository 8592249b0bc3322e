package poller

import (
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

func TestASIMIsAskedForOnceTwoPassesLeftItOut(t *testing.T) {
	now := base.Add(time.Hour)
	under := sweeps{last: now.Add(-10 * time.Minute), before: now.Add(-20 * time.Minute), pageAt: now.Add(-time.Second)}
	tests := []struct {
		name string
		of   sweeps
		read time.Time
		want bool
	}{
		{"F32: two complete passes left it out", under, now.Add(-21 * time.Minute), false},
		{"one complete pass left it out", under, now.Add(-15 * time.Minute), true},
		{"it was never read, and two passes are complete", under, time.Time{}, false},
		{"the first pass is under way", sweeps{pageAt: now}, time.Time{}, true},
		{"passes keep breaking off", sweeps{pageAt: now, broken: 2}, now.Add(-time.Minute), false},
		{"this node does not sweep", sweeps{}, now.Add(-time.Minute), false},
		{"no page has come for long", sweeps{last: under.last, before: under.before, pageAt: now.Add(-2 * time.Minute)}, now.Add(-time.Minute), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.of.mayName(tt.read, now); got != tt.want {
				t.Errorf("the pass under way may still name it: %v, want %v", got, tt.want)
			}
		})
	}
}

func TestOutcomeOfAnError(t *testing.T) {
	tests := []struct {
		name   string
		err    error
		ending bool
		want   outcome
		after  time.Duration
	}{
		{"an answer is a reading", nil, false, outRead, 0},
		{"P2: our own limit is no failure", &carrier.Error{Class: carrier.ClassLimited, RetryAfter: time.Second}, false, outLimited, time.Second},
		{"P2: the carrier's limit is no failure", &carrier.Error{Class: carrier.ClassThrottled, RetryAfter: time.Minute}, false, outLimited, time.Minute},
		{"G8: a stopped account rests", &carrier.Error{Class: carrier.ClassStopped}, false, outStopped, restWhenStopped},
		{"F26: a rest is bounded", &carrier.Error{Class: carrier.ClassStopped, RetryAfter: 8760 * time.Hour}, false, outStopped, time.Hour},
		{"F35: refused credentials rest the account", &carrier.Error{Class: carrier.ClassAuth}, false, outStopped, restWhenStopped},
		{"F32: not found is never terminated", &carrier.Error{Class: carrier.ClassNotFound}, false, outNotFound, 0},
		{"P5: a rule may close polling", &carrier.Error{Class: carrier.ClassRiskSuspended, ClosePolling: true}, false, outClosed, 0},
		{"F36: maintenance is waited for", &carrier.Error{Class: carrier.ClassMaintenance, RetryAfter: time.Minute}, false, outFailed, time.Minute},
		{"a broken connection is a failure", &carrier.Error{Class: carrier.ClassTemporary}, false, outFailed, 0},
		{"F8: what a shutdown breaks is no failure", &carrier.Error{Class: carrier.ClassTemporary}, true, outEnded, 0},
		{"an error of another kind is a failure", errors.New("what"), false, outFailed, 0},
		{"F5: a panic is told apart", panicked{"what"}, false, outPanicked, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, after := outcomeOf(simwarden.CheckState, tt.err, tt.ending)
			if got != tt.want || after != tt.after {
				t.Errorf("got %s after %v, want %s after %v", got, after, tt.want, tt.after)
			}
		})
	}
	for _, kind := range []simwarden.CheckKind{simwarden.CheckUsage, simwarden.CheckRealName} {
		got, after := outcomeOf(kind, &carrier.Error{Class: carrier.ClassRiskSuspended, ClosePolling: true}, false)
		if got != outFailed || after != 0 {
			t.Errorf("P5: a reading of %s that is refused is %s after %v", kind, got, after)
		}
	}
}
