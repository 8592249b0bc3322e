package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Call says what a call is and on whose behalf it is made.
type Call struct {
	// Operation is what the caller is about; each HTTP request's own is what its driver says.
	Operation simwarden.Operation
	Purpose   simwarden.Purpose
	// RequestID goes into the header X-Request-Id of the state-changing request (V2); reads and
	// logins get one of their own. Empty: a random one.
	RequestID string
	// Wait is the longest wait for a permit of the limit group, and for one of the carrier's calls
	// at a time. 0: 300 ms for polls, 5 s for all others.
	Wait time.Duration
	// Priority orders those who wait, higher first, among calls of one rank: commands go before
	// polls whatever it says (G5).
	Priority int
}

const (
	pollWait    = 300 * time.Millisecond
	commandWait = 5 * time.Second
)

func (c Call) wait() time.Duration {
	switch {
	case c.Wait > 0:
		return c.Wait
	case c.Purpose == simwarden.PurposePoll:
		return pollWait
	}
	return commandWait
}

// The ranks of the purposes (G5).
const (
	rankPoll = iota
	rankCommand
	rankPerson
)

// rank orders the purposes: a person's clicks, commands, polls.
func (c Call) rank() int {
	switch {
	case c.Purpose.Exempt():
		return rankPerson
	case c.Purpose == simwarden.PurposeCommand:
		return rankCommand
	}
	return rankPoll
}

// running is one Do under way. Its driver's requests find it by their context.
type running struct {
	account *account
	opened  *opened
	call    Call
	renewed bool // see account.renewed, as the call began

	mu       sync.Mutex
	attempts []*attempt
	changes  int // state-changing requests begun
}

type runningKey struct{}

func runningFrom(ctx context.Context) *running {
	r, _ := ctx.Value(runningKey{}).(*running)
	return r
}

// maxAttemptsPerCall bounds what one Do may send: the pages and logins of one driver's call.
const maxAttemptsPerCall = 64

var (
	errOutside      = errors.New("a request outside of a call of the gateway")
	errSecondChange = errors.New("a second state-changing request in one attempt is not allowed")
	errTooMany      = errors.New("too many requests in one call")
)

// begin books an attempt. One attempt of a command is one state-changing request (C4): a second
// one in the same Do is refused here.
func (r *running) begin(a *attempt) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.op.ChangesState() {
		if r.changes++; r.changes > 1 {
			return errSecondChange
		}
	}
	if len(r.attempts) == maxAttemptsPerCall {
		return errTooMany
	}
	r.attempts = append(r.attempts, a)
	return nil
}

// sent counts the requests that may have left this machine: of one operation, and in all.
func (r *running) sent(op simwarden.Operation) (ofOp, all int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		n := a.sent()
		all += n
		if a.op == op {
			ofOp += n
		}
	}
	return ofOp, all
}

// requestID is the header's value for a request of the operation. Where the caller gives none it begins
// with the purpose, so that the carrier's log tells which requests were exempt (V7).
func (r *running) requestID(op simwarden.Operation) string {
	if op.ChangesState() && r.call.RequestID != "" {
		return r.call.RequestID
	}
	return string(r.call.Purpose) + "-" + rand.Text()
}

// Do runs fn with the open connection of an account. fn makes the driver's calls with the context
// that it is given; each of their HTTP requests is limited, metered and bounded. Callers
// type-assert the connection for what only some drivers can, or ask Can before.
//
// It returns nil, or an error that errors.As finds to be a *carrier.Error with its Class set (G6):
// the driver's, classified by the error rules; or ClassLimited and ClassStopped, with NotSent, for
// what the gateway itself held back. An error of fn's own comes back within such a one.
func (g *Gateway) Do(ctx context.Context, id simwarden.AccountID, call Call, fn func(ctx context.Context, conn carrier.Conn) error) error {
	a, err := g.account(ctx, id)
	if err != nil {
		return notReady(id, call.Operation, err)
	}
	o, err := a.open(ctx)
	if err != nil {
		return notReady(id, call.Operation, err)
	}
	r := &running{account: a, opened: o, call: call, renewed: a.renewed()}
	settle, held := a.admit(call)
	if held != nil {
		g.meter.add(a, call.Operation, call.Purpose, OutcomeStopped, 0)
		return held
	}
	var e *carrier.Error
	ended := false
	defer func() {
		if !ended { // fn panicked: nothing is known
			settle(resultExcluded)
			g.measure(r, nil)
		}
	}()
	err = fn(context.WithValue(ctx, runningKey{}, r), o.conn)
	ended = true
	if err != nil {
		e = g.finish(r, err)
	}
	g.measure(r, e)
	result := resultOf(ctx, r, e)
	if result == resultBad {
		a.breaker.failed(e.Error())
	}
	settle(result)
	if e == nil {
		if call.Operation.ChangesState() {
			a.tokenRefusedAt.Store(0)
		}
		return nil
	}
	if e.Class == carrier.ClassAuth {
		g.stop(ctx, a, e)
	}
	return e
}

// notReady is the error of a call that cannot be begun: no such account, no database, credentials
// that do not open.
func notReady(id simwarden.AccountID, op simwarden.Operation, err error) *carrier.Error {
	var e *carrier.Error
	if errors.As(err, &e) {
		return e
	}
	e = &carrier.Error{Account: id, Operation: op, Class: carrier.ClassStopped, NotSent: true,
		Message: "the account cannot be called now", RetryAfter: notReadyWait, Err: err}
	var own setupError
	if errors.As(err, &own) {
		e.Message, e.Err = e.Message+": "+own.Error(), nil
	}
	return e
}

// notReadyWait is when to ask again after notReady.
const notReadyWait = 5 * time.Second
