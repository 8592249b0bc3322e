package carrier

import (
	"fmt"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
)

// Class is what an upstream error means (G6).
type Class string

// The classes. The zero Class is "not classified yet": drivers leave it, the gateway sets it.
const (
	ClassThrottled      Class = "throttled"
	ClassQuotaExhausted Class = "quota_exhausted"
	ClassAuth           Class = "auth"
	ClassNotFound       Class = "not_found"
	ClassInvalid        Class = "invalid"
	ClassAlreadyInState Class = "already_in_state"
	ClassInProgress     Class = "in_progress"
	ClassRiskSuspended  Class = "risk_suspended"
	ClassTerminated     Class = "terminated"
	ClassRefused        Class = "refused"
	ClassMaintenance    Class = "maintenance"
	ClassTemporary      Class = "temporary"
	ClassUnknownOutcome Class = "unknown_outcome"
	ClassUnknown        Class = "unknown"
	// ClassLimited is our own limit, not the carrier's: no attempt was made (C5, G5).
	ClassLimited Class = "limited"
	// ClassStopped is our own stop of an account's calls (auth failure, breaker): not sent (G8).
	ClassStopped Class = "stopped"
)

// Classes lists the classes that an error rule can give.
func Classes() []Class {
	return []Class{ClassThrottled, ClassQuotaExhausted, ClassAuth, ClassNotFound, ClassInvalid,
		ClassAlreadyInState, ClassInProgress, ClassRiskSuspended, ClassTerminated, ClassRefused,
		ClassMaintenance, ClassTemporary, ClassUnknownOutcome, ClassUnknown}
}

// Terminal says that a command that ended in this class is not tried again (C5).
func (c Class) Terminal() bool {
	switch c {
	case ClassNotFound, ClassInvalid, ClassRiskSuspended, ClassTerminated, ClassRefused:
		return true
	}
	return false
}

// Error is a failed call with the carrier's own facts; the gateway adds the class. It never
// holds a credential, a token or a full URL.
type Error struct {
	Account    simwarden.AccountID
	Operation  simwarden.Operation
	HTTPStatus int    // 0: no answer
	Code       string // the carrier's, as text
	Message    string // the carrier's or ours, redacted, at most 500 bytes
	// Class and what follows from the matched rule; set by the gateway.
	Class        Class
	Rule         string // the matched rule's name, empty for none
	Extended     simwarden.ExtendedState
	ClosePolling bool
	NotExecuted  bool
	// RetryAfter is how long to wait, from the carrier or from our limiter; 0: not said.
	RetryAfter time.Duration
	// NotSent is true only when nothing left this machine. The zero value says what is safe to
	// assume: the carrier may have acted.
	NotSent bool
	// BadAnswer says that an answer came but was not understood (HTML, truncated, wrong JSON).
	BadAnswer bool
	// TokenExpired says that the carrier refused a change for a token that it had given out earlier. The
	// driver has dropped it and logs in anew at the next call, so that the credentials are not to blame
	// yet: an account need not be stopped for it (G8). A read never says so: it has repeated itself with
	// another token before it gives up.
	TokenExpired bool
	// Err is the cause, where it was not an answer.
	Err error
}

// Error tells the facts in one line.
func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s", e.Operation)
	if e.Class != "" {
		fmt.Fprintf(&b, " %s", e.Class)
	}
	if e.HTTPStatus != 0 {
		fmt.Fprintf(&b, ", HTTP %d", e.HTTPStatus)
	}
	if e.Code != "" {
		fmt.Fprintf(&b, ", code %s", e.Code)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %s", e.Message)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Retryable says whether asking again may help at all.
func (e *Error) Retryable() bool { return !e.Class.Terminal() && e.Class != ClassAuth }
