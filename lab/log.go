package lab

import (
	"time"

	"github.com/simwarden/simwarden"
)

// LogLine is one complete request and what truly became of it, or a change that took place after
// its request (kind "execution"). Instants are UTC; a zero instant and empty text mean "did not
// happen" or "does not apply". It never holds a credential or token.
type LogLine struct {
	ArrivedAt time.Time `json:"arrived_at"`
	Seq       uint64    `json:"seq"`  // order of arrival within the world; an execution line has its request's
	Conn      uint64    `json:"conn"` // the TCP connection; 0 where the server does not tell
	// RequestID is the header X-Request-Id as sent.
	RequestID string              `json:"request_id"`
	Account   string              `json:"account"`
	Operation simwarden.Operation `json:"operation"`
	Kind      Kind                `json:"kind"`
	ICCID     string              `json:"iccid,omitempty"` // empty for lists and SIMs that nobody knows
	Direction simwarden.Direction `json:"direction,omitempty"`
	Status    int                 `json:"status,omitempty"` // 0: no answer
	Answer    AnswerClass         `json:"answer"`
	// Executed says that the change was made within this request, at ExecutedAt. A change that was
	// only taken, to be made at DueAt, has a line of its own (kind execution) when it is made; it is
	// not made when a later one for the same SIM replaces it.
	Executed   bool      `json:"executed"`
	ExecutedAt time.Time `json:"executed_at,omitzero"`
	DueAt      time.Time `json:"due_at,omitzero"`
	// StateBefore and StateAfter are true states, around a change; for a read both are the true
	// state when it was answered.
	StateBefore simwarden.State `json:"state_before,omitempty"`
	StateAfter  simwarden.State `json:"state_after,omitempty"`
	// StateAnswered is what the answer said, RawAnswered in the carrier's word, PendingAnswered
	// that it called it still changing.
	StateAnswered   simwarden.State `json:"state_answered,omitempty"`
	RawAnswered     string          `json:"raw_answered,omitempty"`
	PendingAnswered bool            `json:"pending_answered,omitempty"`
	// UsageAnswered is the usage that a single read said, in bytes; rows is how many SIMs an
	// answer named.
	UsageAnswered int64  `json:"usage_answered_bytes,omitempty"`
	Rows          int    `json:"rows,omitempty"`
	Fault         string `json:"fault,omitempty"` // names, joined by commas
	// RetryAfterSeconds is the wait that the answer asked for in a form that RFC 9110 section 10.2.3
	// knows, counted from AnsweredAt, rounded down; 0: it asked for none.
	RetryAfterSeconds int64 `json:"retry_after_seconds,omitempty"`
	// LimitViolation says which limit this request exceeded.
	LimitViolation string `json:"limit_violation,omitempty"`
	// AnsweredAt is when the answer had been written, ClosedAt when the connection was closed or
	// found closed without one.
	AnsweredAt time.Time `json:"answered_at,omitzero"`
	ClosedAt   time.Time `json:"closed_at,omitzero"`
}

// AnswerClass is how a request was answered, in plain words.
type AnswerClass string

// The classes of answers.
const (
	AnswerOK        AnswerClass = "ok"
	AnswerError     AnswerClass = "error"     // the carrier's own error, understood
	AnswerNone      AnswerClass = "none"      // hung, reset, or the client left
	AnswerGarbage   AnswerClass = "garbage"   // not what the carrier should say
	AnswerThrottled AnswerClass = "throttled" // 429
)
