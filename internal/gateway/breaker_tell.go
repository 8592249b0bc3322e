package gateway

import (
	"context"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/simwarden/simwarden/internal/store"
)

const (
	// breakerAlertAfter is how long a breaker is open before a person is told.
	breakerAlertAfter = 5 * time.Minute
	// breakerTellEvery is how often a node says again that one of its breakers is open.
	breakerTellEvery = 15 * time.Second
)

// resting is since when the breaker is not closed, zero where it is, when it next lets a call through, and what
// failed last.
func (b *breaker) resting() (since, probe time.Time, because string) {
	two := b.current()
	state := two.State()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.since.IsZero() || state == gobreaker.StateClosed {
		return time.Time{}, time.Time{}, ""
	}
	probe = b.now()
	if rest := b.policy.Rest - contextNow().Sub(b.openedAt); state == gobreaker.StateOpen && rest > 0 {
		probe = probe.Add(rest)
	}
	return b.since, probe, b.because
}

// failed notes what a call failed with.
func (b *breaker) failed(because string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.because = because
}

// turned notes that the breaker has opened or closed. It is called under gobreaker's own lock.
func (b *breaker) turned(to gobreaker.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case to == gobreaker.StateClosed:
		b.since = time.Time{}
	case b.since.IsZero():
		b.since = b.now()
	}
}

// tellBreakers writes which breakers of this node are open, for people and other nodes to see, and that they have
// closed. It is called by whoever reads the settings.
func (g *Gateway) tellBreakers(ctx context.Context) {
	now := g.clock.Now()
	for _, a := range g.all() {
		since, probe, because := a.breaker.resting()
		name := a.row.Load().Name
		var err error
		switch {
		case since.IsZero() && !a.told.IsZero():
			if err = g.store.CloseBreaker(ctx, a.id, g.opts.Holder); err == nil {
				a.told = time.Time{}
			}
		case !since.IsZero() && now.Sub(a.told).Abs() >= breakerTellEvery:
			b := store.AccountBreaker{AccountID: a.id, Node: g.opts.Holder, SinceAt: since, ProbeAt: probe, Because: because}
			if err = g.store.TellBreaker(ctx, b, name, g.opts.BreakerAlertAfter); err == nil {
				a.told = now
			}
		}
		if err != nil && ctx.Err() == nil {
			g.log.Error("gateway: the state of a circuit breaker could not be written", "account", name, "error", err)
		}
	}
	if now.Sub(g.forgotAt).Abs() >= store.BreakerStale {
		if err := g.store.ForgetBreakers(ctx); err != nil {
			if ctx.Err() == nil {
				g.log.Error("gateway: old circuit breakers could not be forgotten", "error", err)
			}
			return
		}
		g.forgotAt = now
	}
}
