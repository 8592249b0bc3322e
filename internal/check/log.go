package check

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/simwarden/simwarden"
)

// Line is what the check needs of one line of the carrier's log.
type Line struct {
	ArrivedAt     time.Time           `json:"arrived_at"`
	Seq           uint64              `json:"seq"`
	RequestID     string              `json:"request_id"`
	Account       string              `json:"account"`
	Operation     simwarden.Operation `json:"operation"`
	Kind          string              `json:"kind"` // change, read, list, token, execution
	ICCID         string              `json:"iccid"`
	Direction     simwarden.Direction `json:"direction"`
	Status        int                 `json:"status"`
	Answer        string              `json:"answer"` // ok, error, none, garbage, throttled
	Executed      bool                `json:"executed"`
	ExecutedAt    time.Time           `json:"executed_at"`
	DueAt         time.Time           `json:"due_at"`
	StateAnswered simwarden.State     `json:"state_answered"`
	Fault         string              `json:"fault"` // names of what made the answer false or bad, joined by commas
	// RetryAfterSeconds is the wait that the answer asked for, from AnsweredAt on.
	RetryAfterSeconds int64     `json:"retry_after_seconds"`
	LimitViolation    string    `json:"limit_violation"`
	AnsweredAt        time.Time `json:"answered_at"`
	ClosedAt          time.Time `json:"closed_at"`
}

// maxLine bounds one line of a log.
const maxLine = 1 << 20

// ReadLog reads a log of JSON lines.
func ReadLog(r io.Reader) ([]Line, error) {
	scan := bufio.NewScanner(r)
	scan.Buffer(make([]byte, 64<<10), maxLine)
	var out []Line
	for n := 1; scan.Scan(); n++ {
		if len(scan.Bytes()) == 0 {
			continue
		}
		var l Line
		if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d of the carrier's log: %w", n, err)
		}
		out = append(out, l)
	}
	return out, scan.Err()
}

// endedAt is when the carrier was through with the request.
func (l Line) endedAt() time.Time {
	end := l.ArrivedAt
	for _, at := range []time.Time{l.AnsweredAt, l.ClosedAt} {
		if at.After(end) {
			end = at
		}
	}
	return end
}

// lastExecution is the latest instant at which it was, or may have been, executed.
func (l Line) lastExecution() time.Time {
	last := l.endedAt()
	for _, at := range []time.Time{l.ExecutedAt, l.DueAt} {
		if at.After(last) {
			last = at
		}
	}
	return last
}

// understood says that the answer was the carrier's, whole, though it may have come by the byte or with
// blanks in it.
func (l Line) understood() bool {
	return l.Answer == "ok" || l.Answer == "garbage" && !l.AnsweredAt.IsZero() && distorted(l, "drip", "flood")
}

// unknown says that the sender of a change cannot know what became of it: no answer, one that is
// not the carrier's, or a server error (C5, C6).
func (l Line) unknown() bool {
	switch l.Answer {
	case "none":
		return true
	case "garbage":
		return l.Status != 429 // refused at the door, whatever page says so
	case "error":
		return l.Status >= 500
	}
	return false
}
