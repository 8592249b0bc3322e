package gateway

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/simwarden/simwarden/carrier"
)

// BreakerPolicy says when a carrier account that keeps failing is given a rest (G8). Failures are
// calls without an answer, with a 5xx, or with one that was not understood; what a carrier refuses
// for a reason, throttling among it, is none.
type BreakerPolicy struct {
	// InARow failures open it, and so do SharePercent of at least AtLeast calls within Window.
	InARow       uint32
	SharePercent uint32
	AtLeast      uint32
	Window       time.Duration
	// Rest is how long it stays open; then single calls probe, and after Probes good ones in a row
	// it closes. A bad one opens it again.
	Rest   time.Duration
	Probes uint32
}

// DefaultBreaker opens after 20 failures in a row, or 60 % of 50 and more in 30 s; it rests for
// 15 s and closes after three good probes.
func DefaultBreaker() BreakerPolicy {
	return BreakerPolicy{InARow: 20, SharePercent: 60, AtLeast: 50, Window: 30 * time.Second, Rest: 15 * time.Second, Probes: 3}
}

func (p BreakerPolicy) orDefaults() BreakerPolicy {
	d := DefaultBreaker()
	if p.InARow == 0 {
		p.InARow = d.InARow
	}
	if p.SharePercent == 0 {
		p.SharePercent = d.SharePercent
	}
	if p.AtLeast == 0 {
		p.AtLeast = d.AtLeast
	}
	if p.Probes == 0 {
		p.Probes = d.Probes
	}
	p.Window, p.Rest = orDefault(p.Window, d.Window), orDefault(p.Rest, d.Rest)
	return p
}

// result is what a call says about its carrier.
type result error

var (
	resultGood     result
	resultBad      result = errors.New("the carrier failed")                   //nolint:revive,staticcheck // a verdict; gobreaker wants an error
	resultExcluded result = errors.New("nothing was learnt about the carrier") //nolint:revive,staticcheck // as above
)

// breaker is one account's circuit breaker.
type breaker struct {
	policy   BreakerPolicy
	settings gobreaker.Settings
	probing  atomic.Bool // one probe at a time

	mu       sync.Mutex
	two      *gobreaker.TwoStepCircuitBreaker[struct{}]
	openedAt time.Time
	since    time.Time // since when it is not closed, on the clock of now
	because  string    // what the latest call failed with
	now      func() time.Time
}

// probeWait is when to ask again while a probe is under way.
const probeWait = 2 * time.Second

func newBreaker(p BreakerPolicy, name string, log *slog.Logger) *breaker {
	b := &breaker{policy: p, now: contextNow}
	b.settings = gobreaker.Settings{
		Name: name, MaxRequests: p.Probes, Interval: p.Window, Timeout: p.Rest,
		ReadyToTrip: func(c gobreaker.Counts) bool {
			judged := c.TotalSuccesses + c.TotalFailures
			return c.ConsecutiveFailures >= p.InARow || judged >= p.AtLeast && c.TotalFailures*100 >= judged*p.SharePercent
		},
		OnStateChange: func(name string, from, to gobreaker.State) {
			b.turned(to)
			log.Warn("gateway: circuit breaker", "account", name, "from", from.String(), "to", to.String())
		},
		IsExcluded: func(err error) bool { return errors.Is(err, resultExcluded) },
	}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](b.settings)
	return b
}

func (b *breaker) current() *gobreaker.TwoStepCircuitBreaker[struct{}] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.two
}

// reset closes the breaker, for an account that a person has started again.
func (b *breaker) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.since = time.Time{}
	b.two = gobreaker.NewTwoStepCircuitBreaker[struct{}](b.settings)
}

// allow says whether a call may go, and if not, when to ask again. settle is called once with what
// became of it.
func (b *breaker) allow() (settle func(result), wait time.Duration, ok bool) {
	two := b.current()
	probe := two.State() == gobreaker.StateHalfOpen
	if probe && !b.probing.CompareAndSwap(false, true) {
		return nil, probeWait, false
	}
	done, err := two.Allow()
	if err != nil {
		if probe {
			b.probing.Store(false)
		}
		return nil, b.rest(two), false
	}
	return func(r result) {
		done(r)
		if probe {
			b.probing.Store(false)
		}
		if two.State() == gobreaker.StateOpen {
			b.mark()
		}
	}, 0, true
}

// mark notes when the breaker opened, to tell how long it still rests.
func (b *breaker) mark() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if now := contextNow(); now.Sub(b.openedAt) > b.policy.Rest {
		b.openedAt = now
	}
}

func (b *breaker) rest(two *gobreaker.TwoStepCircuitBreaker[struct{}]) time.Duration {
	if two.State() != gobreaker.StateOpen {
		return probeWait
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return max(b.policy.Rest-contextNow().Sub(b.openedAt), 100*time.Millisecond)
}

// resultOf is what a call that ended so says about its carrier.
func resultOf(ctx context.Context, r *running, e *carrier.Error) result {
	_, sent := r.sent("")
	switch {
	case e == nil && sent == 0:
		return resultExcluded
	case e == nil:
		return resultGood
	case e.Class == carrier.ClassLimited || e.Class == carrier.ClassStopped:
		return resultExcluded
	case sent == 0 && !r.triedToConnect():
		return resultExcluded // it never came to the carrier
	case e.Class == carrier.ClassThrottled || e.Class == carrier.ClassMaintenance || e.Class == carrier.ClassQuotaExhausted:
		return resultExcluded
	case e.HTTPStatus == 0 && ctx.Err() != nil && errors.Is(ctx.Err(), context.Canceled):
		return resultExcluded // the caller gave up
	case e.HTTPStatus == 0 || e.HTTPStatus >= 500 || e.BadAnswer:
		return resultBad
	}
	return resultGood
}
