package commander

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

var (
	pointAnswered           = fault.Register("cmd.answer.before_record")
	pointRecordBefore       = fault.Register("cmd.record.before")
	pointRecordBeforeCommit = fault.Register("cmd.record.before_commit")
	pointRecordCommitted    = fault.Register("cmd.record.committed")
)

// send makes the attempt's one request (C4), with no transaction open, and writes what came of it.
func (m *Commander) send(ctx contexts, t task) error {
	op := simwarden.OperationOf(t.cmd.Direction)
	// The deadline was set when the claim was written, on our clock; what of it is left is what the
	// request may take.
	call, cancel := context.WithTimeout(ctx.calls, t.cmd.MayActUntil.Sub(m.Clock.Now()))
	defer cancel()
	var result carrier.Result
	begun := false
	what := gateway.Call{
		Operation: op, Purpose: purposeOf(t.cmd), RequestID: store.AttemptID(t.cmd.ID, t.cmd.Attempt),
		Wait: m.SlotWait, Priority: t.priority,
	}
	change := func(ctx context.Context, conn carrier.Conn) error {
		begun = true
		var err error
		if t.cmd.Direction == simwarden.DirectionSuspend {
			result, err = conn.Suspend(ctx, t.ref)
		} else {
			result, err = conn.Resume(ctx, t.ref)
		}
		return err
	}
	if err := m.plantedRelease(ctx.records, t); err != nil {
		return err
	}
	err := m.Gateway.Do(call, t.cmd.AccountID, what, change)
	if fault.Planted("V2") { // one attempt sends twice
		err = m.Gateway.Do(call, t.cmd.AccountID, what, change)
	}
	at := m.Store.Now()
	pointAnswered.Hit()
	var s settled
	if err == nil {
		s = m.took(t.cmd, result, m.settleOf(t.info), at)
	} else {
		e := carrierError(err, op)
		if !begun && e.Class == carrier.ClassUnknownOutcome {
			e.NotSent, e.Class = true, carrier.ClassTemporary
		}
		s = m.refused(t.cmd, e, m.settleOf(t.info), at)
	}
	return m.record(ctx.records, t, s)
}

// purposeOf tells one person's click on one SIM, which passes limits, from everything else, bulk
// actions among it (G2).
func purposeOf(c store.Command) simwarden.Purpose {
	if c.Scene == simwarden.SceneManual && c.Cause.Kind == store.CausePerson {
		return simwarden.PurposeManual
	}
	return simwarden.PurposeCommand
}

// settleOf is how long after the last possible execution a read may still show the state before.
func (m *Commander) settleOf(info carrier.Info) time.Duration { return max(m.Settle, info.SettleTime) }

// record writes what came of an attempt, only while it is still ours (C6). An error leaves the
// command sending: its claim runs out, and its outcome counts as unknown.
func (m *Commander) record(ctx context.Context, t task, s settled) error {
	pointRecordBefore.Hit()
	late := false
	err := m.Store.InWorkTx(ctx, func(tx *store.Tx) error {
		late = false
		sim, err := tx.LockSIM(ctx, t.cmd.SIMID)
		if err != nil {
			return err
		}
		moved, err := tx.MoveCommand(ctx, t.cmd, s.next)
		if err != nil {
			return err
		}
		if moved {
			err = m.settle(ctx, tx, sim, t, s)
		} else {
			late = true
			err = m.lateAnswer(ctx, tx, t, s)
		}
		if err != nil {
			return err
		}
		pointRecordBeforeCommit.Hit()
		return nil
	})
	if err != nil {
		return fmt.Errorf("record attempt %d of command %d: %w", t.cmd.Attempt, t.cmd.ID, err)
	}
	pointRecordCommitted.Hit()
	m.metrics.steps.WithLabelValues("sent_" + s.attempt.Outcome).Inc()
	if late {
		m.metrics.late.Inc()
	}
	return nil
}

// settle writes what follows from an attempt besides the command's own row.
func (m *Commander) settle(ctx context.Context, tx *store.Tx, sim store.SIM, t task, s settled) error {
	if err := tx.EndAttempt(ctx, t.cmd, s.attempt); err != nil {
		return err
	}
	if err := m.noteAnswer(ctx, tx, t.cmd, s); err != nil {
		return err
	}
	if s.failed {
		if err := m.fail(ctx, tx, sim, s.next, s.because); err != nil {
			return err
		}
	}
	if err := m.closePolling(ctx, tx, t, s.err); err != nil {
		return err
	}
	return m.throttledLong(ctx, tx, s.next)
}

// closePolling does what a rule marked close_polling says of the SIM (P5); e may be nil.
func (m *Commander) closePolling(ctx context.Context, tx *store.Tx, t task, e *carrier.Error) error {
	if e == nil || !e.ClosePolling {
		return nil
	}
	return reconcile.ClosePolling(ctx, tx, t.cmd.SIMID, e.Extended, fmt.Sprintf("%s was answered: %s", t.cmd.Direction, words(e)))
}

// throttledLong shows a SIM as drifting whose command the carrier has throttled for too long; the
// command goes on (C5).
func (m *Commander) throttledLong(ctx context.Context, tx *store.Tx, c store.Command) error {
	if c.ThrottledSinceAt.IsZero() || tx.At.Sub(c.ThrottledSinceAt) < throttledTooLong {
		return nil
	}
	because := fmt.Sprintf("%s throttled by the carrier since %s", c.Direction, c.ThrottledSinceAt.Format(time.RFC3339))
	if err := tx.SetDrifting(ctx, c.SIMID, because); err != nil {
		return err
	}
	return tx.Raise(ctx, store.Alert{Kind: store.AlertThrottled, Key: throttledKey(c.SIMID), SIMID: c.SIMID, AccountID: c.AccountID,
		Message: "SIM " + c.ICCID + ": " + because})
}

// lateAnswer notes an answer to an attempt that somebody else has settled, and asks for a
// judgement: the SIM may not be as was found then.
func (m *Commander) lateAnswer(ctx context.Context, tx *store.Tx, t task, s settled) error {
	err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventLateAnswer, SIMID: t.cmd.SIMID, AccountID: t.cmd.AccountID, Actor: "carrier",
		Data: map[string]any{"command_id": t.cmd.ID, "attempt": t.cmd.Attempt, "direction": t.cmd.Direction,
			"outcome": s.attempt.Outcome, "class": s.attempt.Class, "http_status": s.attempt.HTTPStatus, "code": s.attempt.Code}}})
	if err != nil {
		return err
	}
	if err := tx.Unsettle(ctx, t.cmd.SIMID); err != nil {
		return err
	}
	if err := tx.NudgeRead(ctx, []simwarden.SIMID{t.cmd.SIMID}, []simwarden.CheckKind{simwarden.CheckState}, 0); err != nil {
		return err
	}
	_, err = tx.RequestEvaluation(ctx, store.Evaluation{SIMID: t.cmd.SIMID, Scene: simwarden.SceneStateCheck,
		Cause: store.Cause{Kind: store.CauseCommand, ID: int64(t.cmd.ID)}, AskedBy: reconcile.System})
	return err
}

// expire takes back sends whose worker has not come back in time: their outcome is unknown, never
// "not sent" (C6). It gives how many.
func (m *Commander) expire(ctx context.Context) (int, error) {
	if fault.Planted("V12") { // a claim that has run out is never taken back
		return 0, nil
	}
	expired, err := m.Store.ExpiredSends(ctx, sweepBatch)
	if err != nil {
		return 0, err
	}
	var errs []error // one row that cannot be moved keeps no other back (F16)
	n := 0
	for _, c := range expired {
		moved, err := m.expireOne(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("take back command %d: %w", c.ID, err))
		}
		if moved {
			m.metrics.steps.WithLabelValues("expired").Inc()
			n++
		}
	}
	return n, errors.Join(errs...)
}

func (m *Commander) expireOne(ctx context.Context, c store.Command) (moved bool, err error) {
	err = m.Store.InWorkTx(ctx, func(tx *store.Tx) error {
		sim, err := tx.LockSIM(ctx, c.SIMID)
		if err != nil {
			return err
		}
		accounts, err := tx.AccountsByID(ctx, []simwarden.AccountID{sim.AccountID})
		if err != nil {
			return err
		}
		var info carrier.Info // of a driver that is not built in: the read is another program's anyway
		if driver, err := carrier.Lookup(accounts[sim.AccountID].Driver); err == nil {
			info = driver.Info()
		}
		next := c
		next.State, next.HeldBy = simwarden.CommandVerifying, ""
		next.Failures++
		next.RunAt = c.MayActUntil.Add(m.settleOf(info))
		next.LastClass, next.LastCode, next.LastMessage = string(carrier.ClassUnknownOutcome), "", "the worker that sent it did not come back"
		if moved, err = tx.MoveCommand(ctx, c, next); err != nil || !moved {
			return err
		}
		return tx.EndAttempt(ctx, c, store.AttemptEnd{Outcome: store.AttemptLost,
			Class: string(carrier.ClassUnknownOutcome), Message: next.LastMessage})
	})
	return moved && err == nil, err
}
