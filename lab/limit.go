package lab

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
)

// Limit is one quota: at most Calls arrivals in any sliding Window. Refused requests count too.
type Limit struct {
	// Operations that it counts together; empty: all.
	Operations []simwarden.Operation `json:"operations,omitempty"`
	Calls      int                   `json:"calls"`
	Window     time.Duration         `json:"window_ns"` // 0: a second
}

// PerSecond is a limit of n calls of these operations, counted together, in any second.
func PerSecond(n int, operations ...simwarden.Operation) Limit {
	return Limit{Operations: operations, Calls: n, Window: time.Second}
}

// Limits is all that an account (or a group of accounts) enforces. The zero value has no limit.
type Limits struct {
	Windows []Limit `json:"windows,omitempty"`
	// MaxConcurrent is how many requests may be under way at a time; 0: any number.
	MaxConcurrent int `json:"max_concurrent,omitempty"`
	// PerSIMGap is the least time between two requests for one SIM; 0: the dialect's own, where it has
	// one, else none; negative: none. PerSIMGapOn are the operations that it lies between, counted
	// together; empty: all.
	PerSIMGap   time.Duration         `json:"per_sim_gap_ns,omitempty"`
	PerSIMGapOn []simwarden.Operation `json:"per_sim_gap_on,omitempty"`
	// OnlyLog logs violations without refusing the request.
	OnlyLog bool `json:"only_log,omitempty"`
}

// inherit takes what is the carrier's own rule where the account has none.
func (l *Limits) inherit(dialect Dialect) {
	d, ok := dialect.(limited)
	if !ok {
		return
	}
	own := d.Limits()
	if l.PerSIMGap == 0 {
		l.PerSIMGap, l.PerSIMGapOn = own.PerSIMGap, own.PerSIMGapOn
	}
	if l.MaxConcurrent == 0 {
		l.MaxConcurrent = own.MaxConcurrent
	}
}

// limiter is shared by the accounts of one limit group.
type limiter struct {
	mu       sync.Mutex
	limits   Limits
	rings    []ring
	underWay int
}

// ring keeps the last Calls arrivals.
type ring struct {
	arrivals []time.Time
	next     int
}

func (l *limiter) set(limits Limits) {
	limits.Windows = slices.Clone(limits.Windows)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = limits
	l.rings = make([]ring, len(limits.Windows))
}

func (l *limiter) get() Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	limits := l.limits
	limits.Windows = slices.Clone(limits.Windows)
	return limits
}

// arrive counts a request and says when it arrived, which limit it exceeds, if any, and whether it
// is to be refused. The clock is read under the lock, so that the log's instants are in the order in
// which the limits were counted. The caller calls leave when the request has ended.
func (l *limiter) arrive(op simwarden.Operation, s *sim, c clock.Clock) (now time.Time, violation string, refuse bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now = c.Now().UTC()
	l.underWay++
	if l.limits.MaxConcurrent > 0 && l.underWay > l.limits.MaxConcurrent {
		violation = fmt.Sprintf("%d requests at a time, at most %d", l.underWay, l.limits.MaxConcurrent)
	}
	for i, limit := range l.limits.Windows {
		if len(limit.Operations) > 0 && !slices.Contains(limit.Operations, op) {
			continue
		}
		window := limit.Window
		if window == 0 {
			window = time.Second
		}
		if l.rings[i].full(limit.Calls, now, window) && violation == "" {
			violation = fmt.Sprintf("more than %d %s in %v", limit.Calls, name(limit.Operations), window)
		}
	}
	if s != nil && (len(l.limits.PerSIMGapOn) == 0 || slices.Contains(l.limits.PerSIMGapOn, op)) {
		if gap := l.limits.PerSIMGap; gap > 0 && !s.lastCallAt.IsZero() && now.Sub(s.lastCallAt) < gap && violation == "" {
			violation = fmt.Sprintf("%v after the last call for this SIM, at least %v", now.Sub(s.lastCallAt), gap)
		}
		s.lastCallAt = now
	}
	return now, violation, violation != "" && !l.limits.OnlyLog
}

func (l *limiter) leave() {
	l.mu.Lock()
	l.underWay--
	l.mu.Unlock()
}

// full adds an arrival and says whether the window already held as many as are allowed.
func (r *ring) full(calls int, now time.Time, window time.Duration) bool {
	if calls <= 0 {
		return true
	}
	if len(r.arrivals) < calls {
		r.arrivals = append(r.arrivals, now)
		return false
	}
	oldest := r.arrivals[r.next]
	r.arrivals[r.next] = now
	r.next = (r.next + 1) % calls
	return now.Sub(oldest) < window
}

func name(operations []simwarden.Operation) string {
	if len(operations) == 0 {
		return "requests"
	}
	return fmt.Sprint(operations)
}
