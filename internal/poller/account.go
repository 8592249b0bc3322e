package poller

import (
	"context"
	"hash/fnv"
	"math"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// fewNew is how many SIMs that come at once are checked singly although there is a list.
	fewNew = 20
	// listedFactor is how many intervals a SIM may be missing in lists before it is asked for by
	// itself: two passes, and half of one for their length (F32).
	listedFactor = 2.5
	// overdueEvery is how far apart the checks are set that were overdue when a shard was loaded, and
	// overdueMost the longest span that they are spread over, within their interval (P1).
	overdueEvery = 20 * time.Millisecond
	overdueMost  = 5 * time.Minute
	// strikes is how many times a SIM's reading may fail to be taken in before it is set aside (F5).
	strikes = 3
	// pageAhead is how many list pages are read ahead of their writing.
	pageAhead = 10
	// most is how many readings are written at a time.
	most = touchBatch
)

// account is one carrier account in this node: its schedule and the goroutines that work on it. No
// other account waits for it (P6).
type account struct {
	p      *Poller
	id     simwarden.AccountID
	name   string
	info   carrier.Info
	cancel context.CancelFunc
	wake   chan struct{} // the schedule has changed
	sweep  chan struct{} // many new SIMs: the next pass over the list at once
	read   chan store.PollRow

	mu        sync.Mutex
	row       store.Account
	pace      rules.PaceProfile
	sched     *schedule
	epochs    map[int16]int64
	list      [kinds]bool // a list serves this kind of check
	swept     [kinds]sweeps
	restUntil time.Time
	faults    map[simwarden.SIMID]int       // times in a row, by SIM
	aside     map[simwarden.SIMID]time.Time // until when its readings are left out
}

// start makes an account and its goroutines. The error is that of an unknown driver, or the
// database's. Which lists there are is asked for as soon as the account can be opened.
func (p *Poller) start(ctx context.Context, row store.Account) (*account, error) {
	info, err := p.o.Gateway.Info(row.ID)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	a := &account{
		p: p, id: row.ID, name: row.Name, info: info, cancel: cancel,
		wake: make(chan struct{}, 1), sweep: make(chan struct{}, 1), read: make(chan store.PollRow, most),
		sched: newSchedule(p.o.Clock.Now()), epochs: map[int16]int64{}, faults: map[simwarden.SIMID]int{}, aside: map[simwarden.SIMID]time.Time{},
	}
	a.set(row)
	lists := map[int]gateway.Capability{0: gateway.CanList, 1: gateway.CanListUsage}
	if info.ListNamesOnly {
		delete(lists, 0) // SIMs that such a list names would never have their state read
	}
	for kind, what := range lists {
		if can, err := p.o.Gateway.Can(ctx, row.ID, what); err == nil && can {
			a.list[kind] = true
		} else if err != nil {
			p.o.Log.Warn("poller: account cannot be opened; it is tried again", "account", row.Name, "error", err)
			delete(lists, kind)
			p.running.Go(func() { a.sweepOnceOpen(ctx, kind, what) })
		}
	}
	p.mu.Lock()
	p.accounts[row.ID] = a
	p.mu.Unlock()
	p.running.Go(func() { a.write(ctx) })
	p.running.Go(func() { a.dispatch(ctx) })
	for kind := range lists {
		if a.list[kind] {
			p.running.Go(func() { a.sweepForever(ctx, kind) })
		}
	}
	return a, nil
}

// sweepOnceOpen waits until the account can be opened, and sweeps the list where there is one.
func (a *account) sweepOnceOpen(ctx context.Context, kind int, what gateway.Capability) {
	for {
		if a.p.o.Clock.Sleep(ctx, restWhenStopped) != nil {
			return
		}
		can, err := a.p.o.Gateway.Can(ctx, a.id, what)
		if err != nil {
			continue
		}
		if can {
			a.mu.Lock()
			a.list[kind] = true
			a.mu.Unlock()
			a.sweepForever(ctx, kind)
		}
		return
	}
}

// set takes the account's settings. Where an interval became shorter, what is due later than one of
// the new ones comes forward.
func (a *account) set(row store.Account) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.row
	a.row = row
	a.pace = a.p.pace
	a.pace.StateEvery, a.pace.UsageEvery, a.pace.RealNameEvery = row.StateEvery, row.UsageEvery, row.RealNameEvery
	if before.ID == 0 {
		return
	}
	now := a.p.o.Clock.Now()
	for kind, pair := range [kinds][2]time.Duration{{before.StateEvery, row.StateEvery}, {before.UsageEvery, row.UsageEvery}, {before.RealNameEvery, row.RealNameEvery}} {
		if pair[1] >= pair[0] {
			continue
		}
		for i := range a.sched.entries {
			e := &a.sched.entries[i]
			if !e.is(flagUsed) || e.is(flagBusy) || e.due[kind] == never {
				continue
			}
			latest := now.Add(time.Duration(fraction(e.id) * float64(a.every(kind))))
			if due := a.sched.ticks(latest); due < e.due[kind] {
				a.sched.set(e.id, kind, due)
			}
		}
		a.poke(a.wake)
	}
}

// every is how long a kind of single check waits: longer where a list serves it.
func (a *account) every(kind int) time.Duration {
	d := [kinds]time.Duration{a.pace.StateEvery, a.pace.UsageEvery, a.pace.RealNameEvery}[kind]
	if a.list[kind] {
		return time.Duration(float64(d) * listedFactor)
	}
	return d
}

// nextDue asks rules.Pace. Call it with mu held.
func (a *account) nextDue(kind int, in rules.PaceInput) time.Time {
	profile := a.pace
	switch kind {
	case 0:
		profile.StateEvery = a.every(0)
	case 1:
		profile.UsageEvery = a.every(1)
	}
	in.Kind = kindAt[kind]
	return rules.Pace(profile, in)
}

func (a *account) poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (a *account) shards() []store.PollShard {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make([]store.PollShard, 0, len(a.epochs))
	for shard, epoch := range a.epochs {
		out = append(out, store.PollShard{AccountID: a.id, Shard: shard, Epoch: epoch})
	}
	return out
}

// load takes a shard into the schedule. What was due before now is spread out, so that a restart or
// a recovery makes no burst (P1, F69).
func (a *account) load(ctx context.Context, shard store.PollShard) error {
	now := a.p.o.Clock.Now()
	var rows []store.ScheduleRow
	var overdue [kinds]int
	err := a.p.o.Store.Schedule(ctx, a.id, shard.Shard, func(r store.ScheduleRow) {
		rows = append(rows, r)
		for kind, at := range dues(r) {
			if !r.Off && at.Before(now) {
				overdue[kind]++
			}
		}
	})
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.epochs[shard.Shard] = shard.Epoch
	for _, r := range rows {
		var due [kinds]int32
		for kind, at := range dues(r) {
			due[kind] = a.dueAtLoad(kind, r, at, now, overdue[kind])
		}
		a.sched.put(r, due)
	}
	a.poke(a.wake)
	return nil
}

func (a *account) dueAtLoad(kind int, r store.ScheduleRow, at, now time.Time, overdue int) int32 {
	switch {
	case !a.info.CanRead(kindAt[kind]):
		return never
	case a.list[kind] && (!r.New || overdue > fewNew):
		// The first pass comes before that.
		every := float64(a.every(kind)) / listedFactor
		return max(a.sched.ticks(at), a.sched.ticks(now.Add(time.Duration(every*(1.5+fraction(r.SIMID))))))
	case at.Before(now):
		span := min(a.every(kind), overdueMost, time.Duration(overdue)*overdueEvery)
		return a.sched.ticks(now.Add(time.Duration(fraction(r.SIMID) * float64(span))))
	}
	return a.sched.ticks(at)
}

func dues(r store.ScheduleRow) [kinds]time.Time {
	return [kinds]time.Time{r.StateAt, r.UsageAt, r.RealAt}
}

// nudged takes in what was changed from outside: new SIMs, paused and resumed ones, and those that
// somebody wants a reading of.
func (a *account) nudged(rows []store.ScheduleRow) {
	a.mu.Lock()
	defer a.mu.Unlock()
	fresh := 0
	for _, r := range rows {
		if _, known := a.sched.lookup(r.SIMID); !known && r.New {
			fresh++
		}
	}
	now := a.p.o.Clock.Now()
	for _, r := range rows {
		if _, ours := a.epochs[r.Shard]; !ours {
			continue
		}
		_, known := a.sched.lookup(r.SIMID)
		var due [kinds]int32
		for kind, at := range dues(r) {
			switch {
			case !a.info.CanRead(kindAt[kind]):
				due[kind] = never
			case a.list[kind] && !known && fresh > fewNew:
				due[kind] = a.sched.ticks(now.Add(a.every(kind)))
			default:
				due[kind] = a.sched.ticks(at)
			}
		}
		a.sched.put(r, due)
		if known || fresh <= fewNew {
			a.sched.ask(r.SIMID)
		}
	}
	if fresh > fewNew && a.list[0] {
		a.poke(a.sweep)
	}
	a.poke(a.wake)
}

// drop forgets a shard and gives how many are left.
func (a *account) drop(shard int16) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.epochs, shard)
	a.sched.dropShard(shard)
	return len(a.epochs)
}

func (a *account) fence() store.PollFence {
	a.mu.Lock()
	defer a.mu.Unlock()
	f := store.PollFence{AccountID: a.id, Holder: a.p.o.Holder, Epochs: make(map[int16]int64, len(a.epochs))}
	for shard, epoch := range a.epochs {
		f.Epochs[shard] = epoch
	}
	return f
}

// seedOf spreads SIMs evenly.
func seedOf(id simwarden.SIMID) uint64 {
	h := fnv.New64a()
	var b [8]byte
	for i := range b {
		b[i] = byte(id >> (8 * i))
	}
	h.Write(b[:])
	return h.Sum64()
}

func fraction(id simwarden.SIMID) float64 {
	x := seedOf(id)
	x = (x ^ x>>32) * 0x9e3779b97f4a7c15
	return float64(x>>11) / math.Exp2(53)
}
