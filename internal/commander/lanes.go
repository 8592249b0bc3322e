package commander

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// lanes run steps, each account in its own lane of Workers goroutines at most. fill, wait and
// drain are called from one goroutine.
type lanes struct {
	m    *Commander
	ctx  contexts
	done sync.WaitGroup
	// freed is told when a step has ended.
	freed chan struct{}

	mu    sync.Mutex
	busy  map[simwarden.CommandID]store.DueStep
	count map[simwarden.AccountID]int
	aged  map[simwarden.AccountID]int // of them, those that went first for their long wait
}

func newLanes(m *Commander, ctx contexts) *lanes {
	return &lanes{m: m, ctx: ctx, freed: make(chan struct{}, 1),
		busy: map[simwarden.CommandID]store.DueStep{}, count: map[simwarden.AccountID]int{}, aged: map[simwarden.AccountID]int{}}
}

// fill starts as many due steps as the lanes have room for: no more is claimed than can be sent
// soon, so that a claim does not age in a queue.
func (l *lanes) fill(ctx context.Context) error {
	l.mu.Lock()
	busy := slices.Collect(maps.Keys(l.busy))
	l.mu.Unlock()
	due, err := l.m.Store.DueSteps(ctx, l.m.Workers, busy)
	if err != nil {
		return err
	}
	for _, d := range due {
		if ctx.Err() != nil {
			return nil
		}
		if l.enter(d) {
			l.done.Go(func() {
				defer l.leave(d.ID)
				if _, err := l.m.step(l.ctx, d.ID); err != nil {
					l.m.Log.ErrorContext(l.ctx.records, "carry out command", "command", d.ID, "account", d.AccountID, "error", err)
				}
			})
		}
	}
	return nil
}

// enter takes a place of the account's lane. Those that have waited long get at most a quarter of the places
// before others, and one at least; more of them at once, as of a bulk action, would keep back what comes
// first (G5).
func (l *lanes) enter(d store.DueStep) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, in := l.busy[d.ID]; in || l.count[d.AccountID] >= l.m.Workers || d.Aged && l.aged[d.AccountID] >= max(l.m.Workers/4, 1) {
		return false
	}
	l.busy[d.ID] = d
	l.count[d.AccountID]++
	if d.Aged {
		l.aged[d.AccountID]++
	}
	return true
}

func (l *lanes) leave(id simwarden.CommandID) {
	l.mu.Lock()
	d := l.busy[id]
	delete(l.busy, id)
	if l.count[d.AccountID]--; l.count[d.AccountID] == 0 {
		delete(l.count, d.AccountID)
	}
	if d.Aged {
		if l.aged[d.AccountID]--; l.aged[d.AccountID] == 0 {
			delete(l.aged, d.AccountID)
		}
	}
	l.mu.Unlock()
	select {
	case l.freed <- struct{}{}:
	default:
	}
}

// wait returns when it is time to look again: at PollEvery, or a little after a step has ended.
func (l *lanes) wait(ctx context.Context) {
	timer := l.m.Clock.NewTimer(l.m.PollEvery)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-l.freed:
		_ = l.m.Clock.Sleep(ctx, pollSpacing) // ends early only with the context, which the caller looks at
	case <-ctx.Done():
	}
}

// drain lets the steps under way end, cutting off their calls after Grace and their writing a
// little later.
func (l *lanes) drain(cutCalls, cutRecords context.CancelFunc) {
	ended := make(chan struct{})
	go func() {
		l.done.Wait()
		close(ended)
	}()
	for _, last := range []struct {
		grace time.Duration
		cut   context.CancelFunc
	}{{l.m.Grace, cutCalls}, {recordGrace, cutRecords}} {
		timer := l.m.Clock.NewTimer(last.grace)
		select {
		case <-ended:
			timer.Stop()
			return
		case <-timer.C():
			last.cut()
		}
	}
	<-ended
}
