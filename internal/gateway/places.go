package gateway

import (
	"container/heap"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// placeKeep is how long places are held without need, so that a steady trickle of calls asks the
	// database seldom.
	placeKeep = 2 * time.Second
	// placeRenew is how often places in hand are asked for again: another node may wait for one.
	placeRenew = time.Second
	// placeAgain is how often a node asks that has too few, placeApart the least time between two asks.
	placeAgain = 50 * time.Millisecond
	placeApart = 5 * time.Millisecond
	// placeSpare is how much longer than the longest call a lease of places is.
	placeSpare = 15 * time.Second
)

// placer gives places among the calls at a time of limit groups and of accounts whose carrier
// declares a number, over all nodes together (G2, V7).
type placer struct {
	store  *store.Store
	clock  clock.Clock
	log    *slog.Logger
	holder string        // unique among all processes
	call   time.Duration // how long a call may hold its place

	mu  sync.Mutex
	all map[string]*places
}

func newPlacer(s *store.Store, c clock.Clock, log *slog.Logger, longest time.Duration) *placer {
	// While it has its place a call may wait for its slot, too.
	return &placer{store: s, clock: c, log: log, holder: rand.Text(), call: longest + 2*commandWait, all: map[string]*places{}}
}

// set takes the groups' caps as they are now. A group without one is left by all.
func (p *placer) set(groups []store.LimitGroup) {
	for _, g := range groups {
		p.of(groupPlaces(g.ID)).cap(g.MaxConcurrent)
	}
}

func (p *placer) of(key string) *places {
	p.mu.Lock()
	defer p.mu.Unlock()
	pl := p.all[key]
	if pl == nil {
		pl = &places{placer: p, key: key, wake: make(chan struct{}, 1)}
		p.all[key] = pl
	}
	return pl
}

func groupPlaces(id simwarden.LimitGroupID) string { return fmt.Sprintf("group:%d", id) }

func accountPlaces(id simwarden.AccountID) string { return fmt.Sprintf("account:%d", id) }

// places are those of one group or account: what this node holds of them, and those who wait for one.
type places struct {
	placer *placer
	key    string

	mu       sync.Mutex
	most     int // over all nodes; 0: any number
	held     int
	allowed  int
	inUse    int
	until    time.Time // before it a call may begin
	peak     int       // the most in use since peakAt
	peakAt   time.Time
	waiting  waiterHeap
	order    uint64
	renewing bool // renew runs
	wake     chan struct{}
}

// cap sets how many there are over all nodes.
func (p *places) cap(most int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.most = most
	p.admit(p.placer.clock.Now())
}

// free says whether one more call may begin; mu is held.
func (p *places) free(now time.Time) bool {
	return p.most == 0 || p.inUse < min(p.held, p.allowed) && now.Before(p.until)
}

// admit gives places to those who wait, best first; mu is held.
func (p *places) admit(now time.Time) {
	for p.waiting.Len() > 0 && p.free(now) {
		p.use(now)
		heap.Pop(&p.waiting).(*waiter).answer <- verdict{grant: &grant{}}
	}
}

func (p *places) use(now time.Time) {
	p.inUse++
	if p.inUse > p.peak {
		p.peak, p.peakAt = p.inUse, now
	}
}

// join takes a place, or queues for one.
func (p *places) join(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.placer.clock.Now()
	if p.waiting.Len() == 0 && p.free(now) {
		p.use(now)
		w.index = -1
		w.answer <- verdict{grant: &grant{}}
		return
	}
	p.order++
	w.order = p.order
	heap.Push(&p.waiting, w)
	if !p.renewing {
		p.renewing = true
		go p.renew()
		return
	}
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// leave takes a waiter out. A place that crossed its going is its own, to be given back.
func (p *places) leave(w *waiter) verdict {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.index < 0 {
		return <-w.answer
	}
	heap.Remove(&p.waiting, w.index)
	return verdict{}
}

// done gives a place back.
func (p *places) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.inUse--
	p.admit(p.placer.clock.Now())
	if p.inUse >= p.allowed && p.allowed < p.held {
		select { // another node waits for it
		case p.wake <- struct{}{}:
		default:
		}
	}
}

// renew asks the database again and again, for as long as places are held or wanted.
func (p *places) renew() {
	timer := p.placer.clock.NewTimer(0)
	defer timer.Stop()
	var last time.Time
	for {
		select {
		case <-timer.C():
		case <-p.wake:
			if soon := placeApart - p.placer.clock.Now().Sub(last); soon > 0 {
				timer.Reset(soon)
				<-timer.C()
			}
		}
		last = p.placer.clock.Now()
		next, ok := p.ask()
		if !ok {
			return
		}
		timer.Reset(next)
	}
}

// ask takes a lease, and says when to take the next; ok is false when none is needed any more.
func (p *places) ask() (next time.Duration, ok bool) {
	p.mu.Lock()
	before := p.placer.clock.Now()
	if p.most == 0 {
		p.admit(before)
		if p.inUse == 0 {
			p.held, p.allowed, p.renewing = 0, 0, false
			p.mu.Unlock()
			return 0, false
		}
	}
	if before.Sub(p.peakAt) > placeKeep {
		p.peak, p.peakAt = p.inUse, before
	}
	want := store.PlaceAsk{Key: p.key, Holder: p.placer.holder, Cap: p.most, InUse: p.inUse,
		Wanted: max(p.waiting.Len(), p.peak-p.inUse), For: p.placer.call + placeSpare}
	if p.allowed < p.held { // others wait: only what somebody waits for here
		want.Wanted = p.waiting.Len()
	}
	// Until the answer, and where it does not come, no more is held for sure than is reported here.
	p.held, p.allowed = p.inUse, min(p.allowed, p.inUse)
	p.mu.Unlock()

	ctx, cancel := context.WithTimeout(context.Background(), leaseBound)
	defer cancel()
	got, err := p.placer.store.TakePlaces(ctx, want)

	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.placer.clock.Now()
	if err != nil {
		p.placer.log.Error("gateway: calls at a time could not be asked for", "of", p.key, "error", err)
		return leasePause, true
	}
	p.held, p.allowed, p.until = got.Held, got.Allowed, before.Add(placeSpare)
	p.admit(now)
	switch {
	case p.held == 0 && p.waiting.Len() == 0 && p.inUse == 0:
		p.renewing = false
		return 0, false
	case p.waiting.Len() > 0 && p.inUse >= min(p.held, p.allowed):
		return placeAgain, true
	}
	return placeRenew, true
}

// enter waits until one of the account's and of its group's calls at a time may be made. leave ends
// the call. A group in monitor holds nothing back.
func (a *attempt) enter(ctx context.Context) (leave func(), err error) {
	acc := a.running.account
	leave = func() {}
	for _, p := range []struct {
		places  *places
		monitor bool
	}{
		{acc.declared, false},
		{acc.gateway.placer.of(groupPlaces(acc.row.Load().LimitGroupID)), acc.gateway.limiter.mode(acc.row.Load().LimitGroupID) == simwarden.GroupMonitor},
	} {
		if p.places == nil || p.places.unlimited() {
			continue
		}
		one, err := a.enterOne(ctx, p.places, p.monitor)
		if err != nil {
			leave()
			return nil, err
		}
		before := leave
		leave = func() {
			one()
			before()
		}
	}
	return leave, nil
}

func (p *places) unlimited() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.most == 0
}

func (a *attempt) enterOne(ctx context.Context, p *places, monitor bool) (leave func(), err error) {
	acc := a.running.account
	wait := a.running.call.wait()
	if monitor {
		wait = reserveBound
	}
	now := acc.gateway.clock.Now()
	v, err := await(ctx, acc.gateway.clock, p, newWaiter(a.running.call, now.Add(wait)))
	switch {
	case err != nil:
		return nil, err
	case v.grant != nil:
		return p.done, nil
	case monitor:
		acc.gateway.meter.add(acc, a.op, a.running.call.Purpose, OutcomeWouldBlock, 0)
		return func() {}, nil
	}
	return nil, &carrier.Error{Class: carrier.ClassLimited, NotSent: true, RetryAfter: wait, Message: "the carrier takes no more calls at a time"}
}
