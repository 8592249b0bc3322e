package commander

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// found is what the calls of a read step gave.
type found struct {
	key     string // looked up by Resolver
	reading simwarden.Reading
	// any says that reading holds something.
	any bool
	// cannot are kinds that this driver does not read one by one: the poller has to.
	cannot []simwarden.CheckKind
	// jobWaits says that the carrier's job is not over; jobFailed is why it went wrong.
	jobWaits  bool
	jobFailed *carrier.Error
	// err is of the call that failed; those after it were not made.
	err *carrier.Error
}

// read makes the calls of a read step, with no transaction open, and writes what they gave.
func (m *Commander) read(ctx contexts, t task) error {
	f := m.ask(ctx.calls, t)
	switch {
	case f.err != nil:
		m.metrics.steps.WithLabelValues("read_failed").Inc()
	default:
		m.metrics.steps.WithLabelValues("read").Inc()
	}
	failures := 0
	if f.err != nil {
		failures = m.row.readFailed(t.cmd.ID)
	} else {
		m.row.readWorked(t.cmd.ID)
	}
	return m.Store.InWorkTx(ctx.records, func(tx *store.Tx) error {
		sim, err := tx.LockSIM(ctx.records, t.cmd.SIMID)
		if err != nil {
			return err
		}
		if t.cmd.State == simwarden.CommandQueued {
			err = m.applyQueued(ctx.records, tx, sim, t, f, failures)
		} else {
			err = m.applyFollow(ctx.records, tx, sim, t, f, failures)
		}
		if err != nil {
			return err
		}
		return m.keep(ctx.records, tx, sim, f)
	})
}

// keep takes the readings in: the key, the usage, the states, and what they lead to. It comes
// after the command has moved or ended, so that a need of the opposite is ordered at once.
func (m *Commander) keep(ctx context.Context, tx *store.Tx, sim store.SIM, f found) error {
	key := f.key
	if key == "" && f.any {
		key = f.reading.Key
	}
	if key != "" && sim.Key == "" {
		if err := tx.LearnKey(ctx, sim.ID, key); err != nil {
			return err
		}
	}
	if !f.any {
		return nil
	}
	obs := []store.Observed{{SIMID: sim.ID, Reading: f.reading}}
	if f.reading.Usage != nil {
		if _, err := usage.Book(ctx, tx, obs); err != nil {
			return err
		}
	}
	_, err := reconcile.Observe(ctx, tx, obs)
	return err
}

// ask makes the calls, one operation each, and stops at the first that fails.
func (m *Commander) ask(ctx context.Context, t task) found {
	var f found
	if t.cmd.Handle != "" {
		m.askJob(ctx, t, &f)
		if f.err != nil || f.jobWaits || f.jobFailed != nil {
			return f
		}
	}
	if t.resolve {
		m.call(ctx, t, simwarden.OpQueryState, &f, func(ctx context.Context, conn carrier.Conn) error {
			r, ok := conn.(carrier.Resolver)
			if !ok {
				return nil
			}
			key, err := r.Resolve(ctx, t.ref.ICCID)
			f.key = key
			return err
		})
		if f.err != nil {
			return f
		}
		if f.key != "" {
			t.ref.Key = f.key
		}
	}
	for _, kind := range t.reads {
		m.askKind(ctx, t, kind, &f)
		if f.err != nil {
			return f
		}
	}
	return f
}

func (m *Commander) askKind(ctx context.Context, t task, kind simwarden.CheckKind, f *found) {
	op := map[simwarden.CheckKind]simwarden.Operation{simwarden.CheckState: simwarden.OpQueryState,
		simwarden.CheckUsage: simwarden.OpQueryUsage, simwarden.CheckRealName: simwarden.OpQueryRealName}[kind]
	m.call(ctx, t, op, f, func(ctx context.Context, conn carrier.Conn) error {
		var reading simwarden.Reading
		var err error
		switch kind {
		case simwarden.CheckState:
			reading, err = conn.State(ctx, t.ref)
		case simwarden.CheckUsage:
			r, ok := conn.(carrier.UsageReader)
			if !ok {
				f.cannot = append(f.cannot, kind)
				return nil
			}
			reading, err = r.Usage(ctx, t.ref)
		case simwarden.CheckRealName:
			r, ok := conn.(carrier.RealNameReader)
			if !ok {
				f.cannot = append(f.cannot, kind)
				return nil
			}
			reading, err = r.RealName(ctx, t.ref)
		}
		if err == nil {
			f.add(reading)
		}
		return err
	})
}

// add joins readings of one SIM into one, as old as the oldest.
func (f *found) add(r simwarden.Reading) {
	if !f.any {
		f.reading, f.any = r, true
		return
	}
	if r.ReadAt.Before(f.reading.ReadAt) {
		f.reading.ReadAt = r.ReadAt
	}
	if f.reading.Key == "" {
		f.reading.Key = r.Key
	}
	if r.State != nil {
		f.reading.State = r.State
	}
	if r.Usage != nil {
		f.reading.Usage = r.Usage
	}
	if r.RealName != nil {
		f.reading.RealName = r.RealName
	}
}

// askJob asks what became of an accepted command, where the carrier gave a handle and its driver
// can. The job's own error comes back through the gateway, so that it is classified like others.
func (m *Commander) askJob(ctx context.Context, t task, f *found) {
	failed := false
	m.call(ctx, t, simwarden.OpQueryJob, f, func(ctx context.Context, conn carrier.Conn) error {
		j, ok := conn.(carrier.JobFollower)
		if !ok {
			return nil
		}
		state, err := j.Job(ctx, t.ref, t.cmd.Handle)
		switch {
		case err != nil:
			return err
		case !state.Finished:
			f.jobWaits = true
		case state.Err != nil:
			failed = true
			return state.Err
		}
		return nil
	})
	if failed {
		f.jobFailed, f.err = f.err, nil
	}
}

// call makes one call of a read step, within the time that its claim leaves.
func (m *Commander) call(ctx context.Context, t task, op simwarden.Operation, f *found, do func(context.Context, carrier.Conn) error) {
	ctx, cancel := context.WithTimeout(ctx, m.CommandTimeout)
	defer cancel()
	err := m.Gateway.Do(ctx, t.cmd.AccountID, gateway.Call{Operation: op, Purpose: purposeOf(t.cmd), Wait: m.SlotWait, Priority: t.priority}, do)
	if err != nil {
		f.err = carrierError(err, op)
	}
}

// applyQueued moves a command that waited for a read: done where the SIM is so already, else
// queued at once for a new judgement, or later where the read failed.
func (m *Commander) applyQueued(ctx context.Context, tx *store.Tx, sim store.SIM, t task, f found, failures int) error {
	next := t.cmd
	next.HeldBy = "" // due since as long as before: reads do not take a long wait away (G5)
	terminal := false
	switch {
	case f.err != nil:
		terminal = m.later(&next, f.err, failures, tx.At)
		// What is held has a cause that somebody is told of; a carrier that just fails has none.
		terminal = terminal || next.HeldBy == "" && tx.At.Sub(next.CreatedAt) >= m.GiveUpAfter
	case len(f.cannot) > 0:
		next.RunAt, next.HeldBy = tx.At.Add(otherReadWait), "a reading of "+string(f.cannot[0])
		if err := tx.NudgeRead(ctx, []simwarden.SIMID{sim.ID}, f.cannot, 0); err != nil {
			return err
		}
	}
	moved, err := tx.MoveCommand(ctx, t.cmd, next)
	if err != nil || !moved {
		return err // moved by somebody else: the readings are kept all the same
	}
	switch {
	case terminal:
		return m.fail(ctx, tx, sim, next, "it cannot be read before sending: "+string(f.err.Class)+": "+words(f.err))
	case f.err == nil && t.wanted && shows(t, f):
		return m.succeed(ctx, tx, next, "already so: the carrier shows "+string(f.reading.State.State)+" without a request of ours")
	}
	return m.throttledLong(ctx, tx, next)
}

// later sets when a command goes on whose read failed: as the error's class says, growing with the
// failures in a row. It says whether asking again cannot help.
func (m *Commander) later(next *store.Command, e *carrier.Error, failures int, at time.Time) (terminal bool) {
	class := classOf(e, e.Operation)
	switch class {
	case carrier.ClassUnknown, carrier.ClassUnknownOutcome, "":
		class = carrier.ClassTemporary // it was a read
	}
	policy := m.Backoff
	policy.MaxAttempts = math.MaxInt // reads are followed by time, not by count
	way := rules.Backoff(policy, class, failures, e.RetryAfter)
	next.HeldBy = way.HeldBy
	next.LastClass, next.LastCode, next.LastMessage = string(class), e.Code, words(e)
	if class == carrier.ClassThrottled && next.ThrottledSinceAt.IsZero() {
		next.ThrottledSinceAt = at
	}
	wait := way.Wait
	if class.Terminal() || way.State != simwarden.CommandQueued {
		wait = m.Backoff.HeldDelay
	}
	next.RunAt = at.Add(m.jittered(wait, *next))
	return class.Terminal()
}

// shows says that the reading has the SIM in the state that the command leads to, with no change
// under way.
func shows(t task, f found) bool {
	if !f.any || f.reading.State == nil || f.reading.State.Pending {
		return false
	}
	state := f.reading.State.State
	if t.cmd.Direction == simwarden.DirectionSuspend {
		return state == simwarden.StateSuspended
	}
	return state == simwarden.StateActive || state != simwarden.StateSuspended && t.info.Traffic(state)
}

var errNoState = errors.New("the answer has no state")
