package gateway

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
		g := l.groups[key.group]
		now, limited := lineOf(g, key.operation)
		if limited && now == key.operation {
			ln.changed(limitsOf(g, now))
			continue
		}
		ln.free(limited) // no limit any more: those who wait may go
		delete(l.lines, key)
	}
}

// bringBack gives unused slots back to the longer windows.
func (l *limiter) bringBack() {
	l.mu.Lock()
	lines := slices.Collect(maps.Values(l.lines))
	l.mu.Unlock()
	for _, ln := range lines {
		ln.bringBack()
	}
}

// lineOf says under which limit of a group an operation falls: its own, where it has a rate or a
// window of its own, or that of the others; limited is false where there is neither.
func lineOf(g store.LimitGroup, op simwarden.Operation) (line simwarden.Operation, limited bool) {
	_, limited = g.PerSecond[""]
	if _, own := g.PerSecond[op]; own {
		return op, true
	}
	for _, w := range g.Windows {
		switch w.Operation {
		case op:
			line, limited = op, true
		case "":
			limited = true
		}
	}
	return line, limited
}

// limitsOf gives what holds for a line.
func limitsOf(g store.LimitGroup, line simwarden.Operation) lineLimits {
	limits := lineLimits{perSecond: store.MaxPerSecond}
	if n, ok := g.PerSecond[line]; ok {
		limits.perSecond = n
	} else if n, ok := g.PerSecond[""]; ok {
		limits.perSecond = n
	}
	for _, w := range g.Windows {
		if w.Operation == line || w.Operation == "" {
			limits.windows += fmt.Sprintf("%s %d/%d s, %d %% kept; ", w.Operation, w.Calls, w.Seconds, g.CommandSharePercent)
		}
	}
	return limits
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
	name, limited := lineOf(g, op)
	if !limited {
		return nil, g.Mode, true
	}
	key := lineKey{id, name}
	ln = l.lines[key]
	if ln == nil {
		ln = newLine(l, key, limitsOf(g, name))
		l.lines[key] = ln
	}
	return ln, g.Mode, true
}

// mode is the mode of a group; empty for one that has not been read yet.
func (l *limiter) mode(id simwarden.LimitGroupID) simwarden.GroupMode {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.groups[id].Mode
}

// grant is the right to send one request now. It holds for a moment only.
type grant struct {
	until time.Time // by the injected clock's monotonic reading; zero: it does not run out
	line  *line     // nil: it took no slot
	slot  slot
}

func (g *grant) usable(now time.Time) bool { return g.until.IsZero() || now.Before(g.until) }

// back gives a grant back that was not used.
func (g *grant) back() {
	if g.line != nil {
		g.line.mu.Lock()
		g.line.back(g.slot)
		g.line.mu.Unlock()
	}
}

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
		if !ln.reserve(ctx, r.call.rank() == rankPoll, end) {
			r.account.gateway.meter.add(r.account, op, r.call.Purpose, OutcomeWouldBlock, 0)
		}
		return &grant{}, nil
	}
	v, err := await(ctx, l.clock, ln, newWaiter(r.call, end))
	switch {
	case err != nil:
		return nil, err
	case v.grant != nil:
		return v.grant, nil
	}
	return nil, limited(r.account.id, op, v)
}

// limited is the typed "try after d" of G5.
func limited(id simwarden.AccountID, op simwarden.Operation, v verdict) *carrier.Error {
	message := "the limit group has no free slot"
	switch {
	case v.because != "":
		message = v.because
	case v.err != nil:
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
