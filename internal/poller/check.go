package poller

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

var operationAt = [kinds]simwarden.Operation{simwarden.OpQueryState, simwarden.OpQueryUsage, simwarden.OpQueryRealName}

// dispatch makes the single checks as they come due, so many at a time as the carrier takes: they
// wait at the gateway for their permits, so that none is left unused. When the context has ended it
// lets those under way end and closes what the writer reads from.
func (a *account) dispatch(ctx context.Context) {
	var under sync.WaitGroup
	defer func() {
		under.Wait()
		close(a.read)
	}()
	n := a.info.MaxConcurrent
	if n <= 0 {
		n = a.p.o.Concurrency
	}
	free := make(chan struct{}, n)
	for {
		tasks, ok := a.dueTasks(ctx, n)
		if !ok {
			return
		}
		refs, err := a.refs(ctx, tasks)
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			a.p.o.Log.Error("poller: references", "account", a.name, "error", err)
			a.putBack(tasks, a.p.o.Clock.Now().Add(a.p.pace.LimitedRetry))
			continue
		}
		for i, t := range tasks {
			ref, ok := refs[t.id]
			if !ok || !a.still(t, ref) {
				continue
			}
			select {
			case free <- struct{}{}:
			case <-ctx.Done():
				a.putBack(tasks[i:], a.p.o.Clock.Now())
				return
			}
			under.Go(func() {
				defer func() { <-free }()
				a.check(ctx, t, ref)
			})
		}
	}
}

// dueTasks waits until checks are due and takes up to n; false once the context has ended.
func (a *account) dueTasks(ctx context.Context, n int) ([]task, bool) {
	for ctx.Err() == nil {
		a.mu.Lock()
		now := a.p.o.Clock.Now()
		wait := a.restUntil.Sub(now)
		var tasks []task
		if wait <= 0 {
			next := int32(never)
			for len(tasks) < n {
				t, later, ok := a.sched.take(a.sched.floor(now))
				if !ok {
					next = later
					break
				}
				tasks = append(tasks, t)
			}
			wait = a.sched.at(next).Sub(now)
		}
		a.mu.Unlock()
		if len(tasks) > 0 {
			return tasks, true
		}
		timer := a.p.o.Clock.NewTimer(max(wait, time.Millisecond))
		select {
		case <-timer.C():
		case <-a.wake:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil, false
}

func (a *account) refs(ctx context.Context, tasks []task) (map[simwarden.SIMID]store.PollRef, error) {
	ids := make([]simwarden.SIMID, len(tasks))
	for i, t := range tasks {
		ids[i] = t.id
	}
	rows, err := a.p.o.Store.PollRefs(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[simwarden.SIMID]store.PollRef, len(rows))
	for _, r := range rows {
		out[r.SIMID] = r
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, id := range ids {
		if _, ok := out[id]; !ok {
			a.sched.remove(id)
		}
	}
	return out, nil
}

// still says whether the check is due where lists serve it. It is not where the list's owner,
// perhaps another node, has read the SIM meanwhile, nor before two complete passes have left it out
// (F32): on a large list a pass takes long. Whoever asked for a reading gets it.
func (a *account) still(t task, ref store.PollRef) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	due := [kinds]time.Time{ref.StateAt, ref.UsageAt, ref.RealAt}[t.kind]
	now := a.p.o.Clock.Now()
	if !a.list[t.kind] || t.asked {
		return true
	}
	if !due.After(now.Add(tick)) {
		read := [kinds]time.Time{ref.StateReadAt, ref.UsageReadAt}[t.kind]
		if !a.swept[t.kind].mayName(read, now) {
			return true
		}
		due = now.Add(a.every(t.kind))
	}
	// Where the interval has become shorter, what the database has is too late.
	if latest := now.Add(a.every(t.kind)); due.After(latest) {
		due = latest
	}
	a.sched.finish(t, a.sched.ticks(due))
	a.poke(a.wake)
	return false
}

// putBack makes tasks that were not begun wait again.
func (a *account) putBack(tasks []task, until time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range tasks {
		a.sched.finish(t, a.sched.ticks(until))
	}
}

// errNoPart says that an answer does not speak of what was asked.
var errNoPart = errors.New("the reading lacks what was asked for")

// check makes one single check and hands in what it says.
func (a *account) check(ctx context.Context, t task, ref store.PollRef) {
	begun := a.p.o.Clock.Now()
	a.p.metrics.lateness.WithLabelValues(string(kindAt[t.kind])).Observe(max(begun.Sub(a.sched.at(t.due)), 0).Seconds())
	reading, err := a.ask(ctx, t.kind, ref)
	a.p.counters.http.Add(int64(a.p.o.Clock.Now().Sub(begun)))
	if err == nil && !speaksOf(reading, t.kind) {
		err = errNoPart
	}
	out, retry := outcomeOf(kindAt[t.kind], err, ctx.Err() != nil)
	a.p.count(kindAt[t.kind], out, 1)

	a.mu.Lock()
	now := a.p.o.Clock.Now()
	in := rules.PaceInput{State: t.state, Now: now, LastDue: a.sched.at(t.due), Seed: seedOf(t.id), RetryAfter: retry}
	var missing, found int
	e, known := a.sched.lookup(t.id)
	switch out {
	case outRead:
		in.Outcome = rules.PaceRead
		if reading.State != nil {
			in.State = reading.State.State
		}
		if known {
			found = int(e.missing)
			if t.kind == 0 {
				a.sched.known(t.id, in.State)
			}
		}
	case outNotFound:
		in.Outcome = rules.PaceRead
		if known && t.kind == 0 {
			e.missing = min(e.missing+1, 200)
			missing = int(e.missing)
		}
	case outLimited:
		in.Outcome = rules.PaceLimited
	case outStopped:
		in.Outcome = rules.PaceLimited
		a.rest(now.Add(retry))
	case outClosed:
		in.Outcome = rules.PaceRead
	default:
		in.Outcome = rules.PaceTransientError
	}
	due := a.nextDue(t.kind, in)
	a.sched.finish(t, a.sched.ticks(due))
	a.poke(a.wake)
	a.mu.Unlock()

	switch {
	case out == outRead:
		if ref.Key == "" && reading.Key != "" {
			a.learn(ctx, []store.LearnedKey{{SIMID: t.id, Key: reading.Key}})
		}
		a.read <- store.PollRow{SIMID: t.id, Shard: t.shard, Kind: kindAt[t.kind], Reading: reading, DueAt: due}
		if found > 1 && t.kind == 0 {
			a.tell(a.p.o.Sink.Found(ctx, t.id), t.id)
		}
	case missing == 2:
		a.tell(a.p.o.Sink.Missing(ctx, a.id, t.id), t.id)
	case out == outClosed:
		var e *carrier.Error
		if errors.As(err, &e) {
			a.tell(a.p.o.Sink.Close(ctx, t.id, e), t.id)
		}
	case out == outPanicked:
		a.strike(ctx, t, err)
	case out == outFailed:
		a.p.o.Log.Debug("poller: check failed", "account", a.name, "sim", t.id, "kind", kindAt[t.kind], "error", err)
	}
}

// ask makes the driver's call for a poll.
func (a *account) ask(ctx context.Context, kind int, ref store.PollRef) (simwarden.Reading, error) {
	call := gateway.Call{Operation: operationAt[kind], Purpose: simwarden.PurposePoll, Wait: a.p.o.Wait}
	return askOne(ctx, a.p.o.Gateway, a.id, call, kind, ref)
}

// askOne makes the driver's call. A panic of a driver is that SIM's misfortune alone (F5).
func askOne(ctx context.Context, g Gateway, account simwarden.AccountID, call gateway.Call, kind int, ref store.PollRef) (reading simwarden.Reading, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = panicked{r}
		}
	}()
	sim := carrier.SIMRef{ICCID: ref.ICCID, Key: ref.Key}
	if v, err := simwarden.ParseMSISDN(ref.MSISDN); err == nil {
		sim.MSISDN = v
	}
	if v, err := simwarden.ParseIMSI(ref.IMSI); err == nil {
		sim.IMSI = v
	}
	err = g.Do(ctx, account, call, func(ctx context.Context, conn carrier.Conn) (err error) {
		switch kindAt[kind] {
		case simwarden.CheckState:
			reading, err = conn.State(ctx, sim)
		case simwarden.CheckUsage:
			reader, ok := conn.(carrier.UsageReader)
			if !ok {
				return errNoPart
			}
			if sim.Key == "" {
				if sim.Key, err = resolve(ctx, conn, sim.ICCID); err != nil {
					return err
				}
			}
			reading, err = reader.Usage(ctx, sim)
		default:
			reader, ok := conn.(carrier.RealNameReader)
			if !ok {
				return errNoPart
			}
			reading, err = reader.RealName(ctx, sim)
		}
		return err
	})
	return reading, err
}

// resolve asks for the carrier's key where the driver goes by one.
func resolve(ctx context.Context, conn carrier.Conn, iccid simwarden.ICCID) (string, error) {
	if r, ok := conn.(carrier.Resolver); ok {
		return r.Resolve(ctx, iccid)
	}
	return "", nil
}

func speaksOf(r simwarden.Reading, kind int) bool {
	switch kind {
	case 0:
		return r.State != nil
	case 1:
		return r.Usage != nil
	}
	return r.RealName != nil
}

// rest lets no check begin before the instant. Call it with mu held.
func (a *account) rest(until time.Time) {
	if until.After(a.restUntil) {
		a.restUntil = until
	}
}

// strike counts a panic of a SIM's check, and sets it aside at the third (F5).
func (a *account) strike(ctx context.Context, t task, why error) {
	a.mu.Lock()
	a.faults[t.id]++
	n := a.faults[t.id]
	if n >= strikes {
		until := a.p.o.Clock.Now().Add(setAsideFor)
		delete(a.faults, t.id)
		a.aside[t.id] = until
		a.sched.set(t.id, t.kind, a.sched.ticks(until))
	}
	a.mu.Unlock()
	a.p.o.Log.Error("poller: a SIM cannot be taken in", "account", a.name, "sim", t.id, "kind", kindAt[t.kind], "times", n, "error", why)
	if n >= strikes {
		a.p.counters.setAside.Add(1)
		a.p.metrics.rows.WithLabelValues("set_aside").Inc()
		a.tell(a.p.o.Sink.SetAside(ctx, a.id, t.id, why), t.id)
	}
}

// tell logs what could not be told.
func (a *account) tell(err error, id simwarden.SIMID) {
	if err != nil {
		a.p.o.Log.Error("poller: could not be written", "account", a.name, "sim", id, "error", err)
	}
}

// learn keeps carriers' names for SIMs, in memory once they are in the database.
func (a *account) learn(ctx context.Context, keys []store.LearnedKey) {
	if len(keys) == 0 {
		return
	}
	if err := a.p.o.Sink.Learn(ctx, a.id, keys); err != nil {
		if ctx.Err() == nil {
			a.tell(err, keys[0].SIMID)
		}
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, k := range keys {
		a.sched.rename(k.SIMID, k.Key)
	}
}
