package poller

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// againFirst and againMost bound the pause before readings are given again to a database that
	// is away.
	againFirst = 200 * time.Millisecond
	againMost  = 15 * time.Second
)

// write hands in the readings of single checks, as many at a time as have come while the batch
// before was written, until there are no more.
func (a *account) write(ctx context.Context) {
	rows := make([]store.PollRow, 0, most)
	for first := range a.read {
		rows = append(rows[:0], first)
		for open := true; open && len(rows) < most; {
			select {
			case r, ok := <-a.read:
				if open = ok; ok {
					rows = append(rows, r)
				}
			default:
				open = false
			}
		}
		a.keep(ctx, a.fence(), rows)
	}
}

// keep hands readings in until they are taken: while the database is away the polling of this
// account stands still. Once the context has ended there is one last try.
func (a *account) keep(ctx context.Context, fence store.PollFence, rows []store.PollRow) Kept {
	p := a.p
	for pause := againFirst; ; pause = min(2*pause, againMost) {
		try, cancel := ctx, func() {}
		last := ctx.Err() != nil
		if last {
			try, cancel = context.WithTimeout(context.WithoutCancel(ctx), givingBack)
		}
		kept, err := a.keepOnce(try, fence, rows)
		cancel()
		if err == nil {
			p.countKept(kept)
			a.failed(ctx, kept.Failed)
			a.pardon(rows, kept.Failed)
			return kept
		}
		if last {
			p.o.Log.Error("poller: readings are lost in the shutdown; they are made again", "account", a.name, "readings", len(rows), "error", err)
			return Kept{}
		}
		if ctx.Err() == nil {
			p.o.Log.Error("poller: readings wait for the database", "account", a.name, "readings", len(rows), "error", err)
			_ = p.o.Clock.Sleep(ctx, pause) // ended: the last try follows
		}
	}
}

func (a *account) keepOnce(ctx context.Context, fence store.PollFence, rows []store.PollRow) (Kept, error) {
	a.p.writing <- struct{}{}
	defer func() { <-a.p.writing }()
	begun := a.p.o.Clock.Now()
	defer func() { a.p.counters.sink.Add(int64(a.p.o.Clock.Now().Sub(begun))) }()
	return a.p.o.Sink.Keep(ctx, fence, rows)
}

// failed lets the SIMs whose readings could not be taken in be asked again soon, or sets them aside.
func (a *account) failed(ctx context.Context, failures []Failure) {
	for _, f := range failures {
		t := task{id: f.Row.SIMID, kind: indexOf(f.Row.Kind), shard: f.Row.Shard}
		a.mu.Lock()
		a.sched.set(t.id, t.kind, a.sched.ticks(a.p.o.Clock.Now().Add(a.p.pace.RetryAfterError)))
		a.mu.Unlock()
		a.strike(ctx, t, f.Err)
	}
}

// pardon forgets the faults of SIMs whose readings were taken in.
func (a *account) pardon(rows []store.PollRow, failures []Failure) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.faults)+len(a.aside) == 0 {
		return
	}
	bad := make(map[simwarden.SIMID]bool, len(failures))
	for _, f := range failures {
		bad[f.Row.SIMID] = true
	}
	for _, r := range rows {
		if !bad[r.SIMID] {
			delete(a.faults, r.SIMID)
			delete(a.aside, r.SIMID)
		}
	}
}
