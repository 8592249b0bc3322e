package commander

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// maxFollowEvery bounds the growing pause between two looks at a SIM that is followed.
const maxFollowEvery = time.Minute

// applyFollow moves a command that may have a request at the carrier, by what was read: done where
// the state shows, queued again where it surely was not executed, else read again later. It never
// sends (C6, C7).
func (m *Commander) applyFollow(ctx context.Context, tx *store.Tx, sim store.SIM, t task, f found, failures int) error {
	next := t.cmd
	next.HeldBy = ""
	v := m.look(t, f, failures, &next, tx.At)
	moved, err := tx.MoveCommand(ctx, t.cmd, next)
	if err != nil || !moved {
		return err
	}
	if f.jobFailed != nil {
		if err := m.noteAnswer(ctx, tx, t.cmd, settled{err: f.jobFailed}); err != nil {
			return err
		}
	}
	switch v.end {
	case simwarden.CommandDone:
		if err := m.endRest(ctx, tx, t.cmd); err != nil {
			return err
		}
		return m.succeed(ctx, tx, next, v.because)
	case simwarden.CommandFailed:
		if err := m.fail(ctx, tx, sim, next, v.because); err != nil {
			return err
		}
		return m.closePolling(ctx, tx, t, f.jobFailed)
	}
	if err := m.closePolling(ctx, tx, t, f.jobFailed); err != nil {
		return err
	}
	if v.stuck == "" {
		return m.throttledLong(ctx, tx, next)
	}
	if err := tx.SetDrifting(ctx, sim.ID, v.stuck); err != nil {
		return err
	}
	return tx.Raise(ctx, store.Alert{Kind: store.AlertDrift, Key: stuckKey(sim.ID), SIMID: sim.ID, AccountID: t.cmd.AccountID,
		Message: fmt.Sprintf("SIM %s: %s", t.cmd.ICCID, v.stuck)})
}

// view is what a look at the SIM led to: an end, or nothing beyond the next step. stuck says why the
// SIM is to be shown as drifting meanwhile.
type view struct {
	end     simwarden.CommandState
	because string
	stuck   string
}

// look decides on what was read, and writes into next how the command goes on.
func (m *Commander) look(t task, f found, failures int, next *store.Command, at time.Time) view {
	since := t.cmd.MayActUntil
	if at.Sub(since) >= m.GiveUpAfter {
		if shows(t, f) {
			return view{end: simwarden.CommandDone, because: m.doneWords(t)}
		}
		return view{end: simwarden.CommandFailed, because: fmt.Sprintf("what became of it could not be found out in %s", m.GiveUpAfter)}
	}
	switch {
	case f.jobFailed != nil:
		return m.jobFailed(t, f.jobFailed, next, at)
	case f.err != nil:
		m.later(next, f.err, failures, at)
		return view{stuck: m.overdue(t, at, "its state cannot be read: "+words(f.err))}
	case f.jobWaits:
		next.RunAt = at.Add(m.pause(since, at))
		return view{stuck: m.overdue(t, at, "the carrier's job is not over")}
	case shows(t, f):
		return view{end: simwarden.CommandDone, because: m.doneWords(t)}
	case f.reading.State == nil:
		m.later(next, &carrier.Error{Operation: simwarden.OpQueryState, Class: carrier.ClassTemporary, Err: errNoState}, failures+1, at)
		return view{stuck: m.overdue(t, at, errNoState.Error())}
	case f.reading.State.Pending, f.reading.State.State == simwarden.StateUnknown, f.reading.State.State == "":
		next.RunAt = at.Add(m.pause(since, at))
		return view{stuck: m.overdue(t, at, "the carrier is still changing it")}
	}
	return m.unchanged(t, f, next, at)
}

// unchanged is the way on where the state was read and is not the one wanted. That it will not be
// is believed of a read that began after the last possible execution and the time to settle (V4),
// and of a command that the carrier took only after its time to show has passed.
func (m *Commander) unchanged(t task, f found, next *store.Command, at time.Time) view {
	believedFrom := t.cmd.MayActUntil.Add(m.settleOf(t.info))
	if t.cmd.State == simwarden.CommandConfirming {
		if t.cmd.ConfirmUntil.After(believedFrom) {
			believedFrom = t.cmd.ConfirmUntil
		}
		if f.reading.ReadAt.Before(believedFrom) {
			next.RunAt = earliest(at.Add(m.pause(t.cmd.MayActUntil, at)), latest(believedFrom, at.Add(m.ConfirmEvery)))
			return view{}
		}
		next.Failures++
		next.LastClass, next.LastMessage = string(carrier.ClassUnknownOutcome), "the carrier took it, and its state does not show it"
	} else if f.reading.ReadAt.Before(believedFrom) {
		next.RunAt = latest(believedFrom, at)
		return view{}
	}
	next.State, next.Handle, next.ConfirmUntil = simwarden.CommandQueued, "", time.Time{}
	way := rules.Backoff(m.Backoff, carrier.ClassTemporary, next.Failures, 0)
	if way.State == simwarden.CommandFailed {
		next.State = t.cmd.State // it ends from where it is
		return view{end: simwarden.CommandFailed, because: fmt.Sprintf("%d attempts failed; the SIM is still %s: %s",
			next.Failures, f.reading.State.State, next.LastMessage)}
	}
	next.RunAt = at.Add(m.jittered(way.Wait, *next))
	return view{}
}

// jobFailed is the way on where the carrier says that it could not do what it had accepted.
func (m *Commander) jobFailed(t task, e *carrier.Error, next *store.Command, at time.Time) view {
	s := m.refused(t.cmd, e, m.settleOf(t.info), at)
	*next = s.next
	if next.State != simwarden.CommandConfirming || next.Handle != "" {
		next.Handle = ""
	}
	if s.failed {
		next.State = t.cmd.State
		return view{end: simwarden.CommandFailed, because: s.because}
	}
	return view{}
}

func (m *Commander) doneWords(t task) string {
	state := t.cmd.Direction.Target()
	if t.cmd.State == simwarden.CommandVerifying {
		return fmt.Sprintf("the carrier had acted: it shows %s", state)
	}
	return fmt.Sprintf("the carrier shows %s", state)
}

// pause grows with the time since the request, so that a slow carrier is not asked all the time.
func (m *Commander) pause(since, at time.Time) time.Duration {
	return min(max(at.Sub(since)/4, m.ConfirmEvery), maxFollowEvery)
}

// overdue says why a SIM is to be shown as drifting whose command should have been settled by now;
// empty while there is time.
func (m *Commander) overdue(t task, at time.Time, why string) string {
	if at.Sub(t.cmd.MayActUntil) < m.ConfirmFor {
		return ""
	}
	return fmt.Sprintf("%s sent at %s is not settled: %s", t.cmd.Direction, t.cmd.MayActUntil.Format(time.RFC3339), why)
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
