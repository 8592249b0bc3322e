package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

// limiter gives permits for requests, by limit group and operation (G2-G5).
//
// What is free is known from Postgres alone: slots of time, leased a few at a time, so that all
// nodes together keep the limit (reliability 3.7).
type limiter struct {
	store *store.Store
	clock clock.Clock
	log   *slog.Logger
	slack time.Duration

	mu     sync.Mutex
	groups map[simwarden.LimitGroupID]store.LimitGroup
	lines  map[lineKey]*line
}

// lineKey names one limit: a group and an operation, "" for those without a limit of their own.
type lineKey struct {
	group     simwarden.LimitGroupID
	operation simwarden.Operation
}

func newLimiter(s *store.Store, c clock.Clock, log *slog.Logger, slack time.Duration) *limiter {
	return &limiter{store: s, clock: c, log: log, slack: slack,
		groups: map[simwarden.LimitGroupID]store.LimitGroup{}, lines: map[lineKey]*line{}}
}

// set takes the groups as they are now. A changed limit counts from the next lease on, which
// reads it itself.
func (l *limiter) set(groups []store.LimitGroup) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.groups = make(map[simwarden.LimitGroupID]store.LimitGroup, len(groups))
	for _, g := range groups {
		l.groups[g.ID] = g
	}
	for key, ln := range l.lines {
		if n, ok := l.groups[key.group].PerSecond[key.operation]; !ok {
			ln.free() // no limit any more: those who wait may go
			delete(l.lines, key)
		} else {
			ln.changed(n)
		}
	}
}

// find gives the limit that an operation of a group falls under, nil for none; known is false for
// a group that has not been read yet.
func (l *limiter) find(id simwarden.LimitGroupID, op simwarden.Operation) (ln *line, mode simwarden.GroupMode, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	g, known := l.groups[id]
	if !known {
		return nil, "", false
	}
	key := lineKey{id, op}
	n, limited := g.PerSecond[key.operation]
	if !limited {
		key.operation = ""
		if n, limited = g.PerSecond[""]; !limited {
			return nil, g.Mode, true
		}
	}
	ln = l.lines[key]
	if ln == nil {
		ln = newLine(l, key, n)
		l.lines[key] = ln
	}
	return ln, g.Mode, true
}

// grant is the right to send one request now. It holds for a moment only.
type grant struct {
	until time.Time // by the injected clock's monotonic reading; zero: it does not run out
}

func (g *grant) usable(now time.Time) bool { return g.until.IsZero() || now.Before(g.until) }

// take waits for a permit until end, or until the context ends. Exempt purposes and groups in
// monitor do not wait; a limit that cannot be asked holds all others (B20). The error is a
// *carrier.Error of ClassLimited, or the context's.
func (l *limiter) take(ctx context.Context, r *running, op simwarden.Operation, end time.Time) (*grant, error) {
	ln, mode, known := l.find(r.account.row.Load().LimitGroupID, op)
	switch {
	case !known:
		return nil, limited(r.account.id, op, verdict{retryAfter: unknownGroupWait, err: errUnknownGroup})
	case ln == nil:
		return &grant{}, nil
	case r.call.Purpose.Exempt():
		ln.spend()
		return &grant{}, nil
	case mode == simwarden.GroupMonitor:
		if !ln.reserve(ctx, end) {
			r.account.gateway.meter.add(r.account, op, r.call.Purpose, OutcomeWouldBlock, 0)
		}
		return &grant{}, nil
	}
	w := &waiter{rank: r.call.rank(), priority: r.call.Priority, end: end, answer: make(chan verdict, 1)}
	ln.join(w)
	timer := l.clock.NewTimer(end.Sub(l.clock.Now()))
	defer timer.Stop()
	var v verdict
	select {
	case v = <-w.answer:
	case <-timer.C():
		v = ln.leave(w)
	case <-ctx.Done():
		if v = ln.leave(w); v.grant == nil {
			return nil, ctx.Err()
		}
	}
	if v.grant != nil {
		return v.grant, nil
	}
	return nil, limited(r.account.id, op, v)
}

// limited is the typed "try after d" of G5.
func limited(id simwarden.AccountID, op simwarden.Operation, v verdict) *carrier.Error {
	message := "the limit group has no free slot"
	if v.err != nil {
		message = "the limit cannot be asked, so nothing is sent"
	}
	return &carrier.Error{Account: id, Operation: op, Class: carrier.ClassLimited, NotSent: true, RetryAfter: max(v.retryAfter, minRetryAfter), Message: message}
}

const (
	minRetryAfter = 50 * time.Millisecond
	// unknownGroupWait is when the settings have been read again.
	unknownGroupWait = 2 * time.Second
)

var errUnknownGroup = errors.New("the account's limit group has not been read yet")
