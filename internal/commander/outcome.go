package commander

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// throttledTooLong is how long a carrier may throttle a command before its SIM is shown as
// drifting (C5).
const throttledTooLong = time.Hour

// settled is how a command goes on after an attempt.
type settled struct {
	next    store.Command // to move to; its state is the command's own where it ends
	attempt store.AttemptEnd
	failed  bool // ends as failed, for because
	because string
	err     *carrier.Error // nil: the carrier took it
}

// carrierError finds the structured error in what a call gave. An error from elsewhere says
// nothing of what the carrier did.
func carrierError(err error, op simwarden.Operation) *carrier.Error {
	if e, ok := errors.AsType[*carrier.Error](err); ok {
		return e
	}
	return &carrier.Error{Operation: op, Class: carrier.ClassUnknownOutcome, Message: "the call broke", Err: err}
}

// classOf is an error's class for a command. What happened to a login happened before the
// command's own request, which was not sent: it is never terminal for the SIM, and never unknown.
// A token that ran out says nothing against the credentials: the next attempt logs in anew.
func classOf(e *carrier.Error, op simwarden.Operation) carrier.Class {
	switch {
	case e.TokenExpired:
		return carrier.ClassTemporary
	case e.Operation == op || e.Operation == "":
		return e.Class
	case e.Class.Terminal():
		return carrier.ClassAuth
	case e.Class == carrier.ClassUnknown || e.Class == carrier.ClassUnknownOutcome:
		return carrier.ClassTemporary
	}
	return e.Class
}

// took is the way on after the carrier answered without an error: whatever it says, the state is
// read until it shows (C7).
func (m *Commander) took(c store.Command, r carrier.Result, settle time.Duration, at time.Time) settled {
	s := settled{next: c, attempt: store.AttemptEnd{Outcome: store.AttemptDone}}
	s.next.MayActUntil = at
	s.next.RunAt = at
	if r.Outcome == carrier.Accepted {
		s.attempt.Outcome = store.AttemptAccepted
		s.next.RunAt = at.Add(m.ConfirmEvery)
	}
	m.confirm(&s.next, r.Handle, settle, at)
	s.next.LastClass, s.next.LastCode, s.next.LastMessage = "", "", ""
	return s
}

func (m *Commander) confirm(next *store.Command, handle string, settle time.Duration, at time.Time) {
	next.State, next.HeldBy, next.Handle = simwarden.CommandConfirming, "", handle
	next.ThrottledSinceAt = time.Time{}
	next.ConfirmUntil = at.Add(max(m.ConfirmFor, settle))
}

// refused is the way on after an attempt that gave an error at the instant at (C5).
func (m *Commander) refused(c store.Command, e *carrier.Error, settle time.Duration, at time.Time) settled {
	op := simwarden.OperationOf(c.Direction)
	class := classOf(e, op)
	s := settled{next: c, err: e, attempt: store.AttemptEnd{Outcome: store.AttemptError, Class: string(class),
		HTTPStatus: e.HTTPStatus, Code: e.Code, Message: words(e), Rule: e.Rule}}
	s.next.LastClass, s.next.LastCode, s.next.LastMessage = string(class), e.Code, words(e)
	s.next.HeldBy = ""
	if class == carrier.ClassLimited || class == carrier.ClassStopped {
		s.attempt.Outcome = store.AttemptNotSent // our own doing is no attempt (C5)
	}
	way := plantedWay(rules.Backoff(m.Backoff, class, c.Failures+1, e.RetryAfter))
	if way.CountsAsFailure {
		s.next.Failures++
	}
	switch class {
	case carrier.ClassThrottled:
		if s.next.ThrottledSinceAt.IsZero() {
			s.next.ThrottledSinceAt = at
		}
	case carrier.ClassLimited, carrier.ClassStopped: // nothing new is known of the carrier
	default:
		s.next.ThrottledSinceAt = time.Time{}
	}
	switch way.State {
	case simwarden.CommandFailed:
		s.failed, s.because = true, fmt.Sprintf("%s: %s", class, words(e))
		if !class.Terminal() {
			s.because = fmt.Sprintf("%d attempts failed, the last with %s", s.next.Failures, s.because)
		}
	case simwarden.CommandConfirming: // already in that state, says the carrier: it is read before it is believed
		s.next.MayActUntil, s.next.RunAt = at, at
		m.confirm(&s.next, "", settle, at)
	case simwarden.CommandVerifying:
		s.next.State = simwarden.CommandVerifying
		if answered(e) {
			s.next.MayActUntil = at
		}
		// A first look soon: "changed" counts at once. "Not changed" counts only from
		// may_act_until + settle on (V4).
		s.next.RunAt = at.Add(settle)
	default:
		s.next.State = simwarden.CommandQueued
		s.next.RunAt = at.Add(m.jittered(way.Wait, c))
		s.next.HeldBy = way.HeldBy
	}
	return s
}

// answered says that the carrier's whole answer came, so that the request is over there. What a
// proxy says for want of an answer (502, 504) is none.
func answered(e *carrier.Error) bool {
	whole := e.BadAnswer || e.Err == nil
	return whole && e.HTTPStatus != 0 && e.HTTPStatus != http.StatusBadGateway && e.HTTPStatus != http.StatusGatewayTimeout
}

// words are an error's own, short, for people.
func words(e *carrier.Error) string {
	switch {
	case e.Message != "":
		return e.Message
	case e.Err != nil:
		return short(e.Err.Error())
	case e.HTTPStatus != 0:
		return fmt.Sprintf("HTTP %d", e.HTTPStatus)
	}
	return "no answer"
}

func short(text string) string {
	const most = 300
	if len(text) > most {
		return text[:most]
	}
	return text
}

// jittered spreads waits by up to a tenth, so that what failed together does not come back so. It
// never shortens what a carrier asked for.
func (m *Commander) jittered(d time.Duration, c store.Command) time.Duration {
	spread := rules.Jitter(d, uint64(c.ID)<<16^uint64(c.Attempt)) - d
	if spread < 0 {
		spread = -spread
	}
	return d + spread
}
