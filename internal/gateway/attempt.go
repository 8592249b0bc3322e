package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/fault"
)

// The places on a command's way at which a test may kill or stop the process (F1, F3).
var (
	pointBeforeConnect = fault.Register("cmd.before_connect")
	pointConnected     = fault.Register("cmd.connected")
	pointBeforeWrite   = fault.Register("cmd.before_write")
	pointAfterWrite    = fault.Register("cmd.after_write")
	pointHeadersRead   = fault.Register("cmd.headers_read")
	pointBodyRead      = fault.Register("cmd.body_read")
)

// contextNow is the time by which contexts end: the machine's, whatever clock is injected.
func contextNow() time.Time { return clock.System().Now() }

// attempt is one HTTP request of a driver.
type attempt struct {
	running *running
	op      simwarden.Operation
	ctx     context.Context // ends with the attempt
	parent  context.Context // the driver's

	mu      sync.Mutex
	grant   *grant // taken and not used yet
	tries   []*try
	refused error // why the gate did not let it out
	status  int
	err     *carrier.Error // how it ended without an answer
	network bool           // err came of the network or the carrier, not of us or the caller
	sentAt  time.Time      // when the latest writing began
	endedAt time.Time
}

// sent counts the writings that may have left this machine.
func (a *attempt) sent() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := 0
	for _, t := range a.tries {
		if t.state.Load() != tryRefused {
			n++
		}
	}
	return n
}

func (a *attempt) refuse(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = err
}

func (a *attempt) passed() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sentAt = a.running.account.gateway.clock.Now()
}

// permit gets a grant: the one in hand where it may still be used, or another.
func (a *attempt) permit() (*grant, error) {
	g := a.running.account.gateway
	a.mu.Lock()
	have, refused := a.grant, a.refused
	a.grant = nil
	a.mu.Unlock()
	now := g.clock.Now()
	switch {
	case refused != nil:
		return nil, refused // Go tries other connections after a refusal
	case have != nil && have.usable(now):
		return have, nil
	case have != nil:
		have.back()
	}
	return g.limiter.take(a.ctx, a.running, a.op, now.Add(a.running.call.wait()))
}

// mayWrite looks at what ends a request before it is sent: its deadline, by the clock and not by
// a timer that may be late, and a stop of the account meanwhile.
func (a *attempt) mayWrite() error {
	if err := a.ctx.Err(); err != nil {
		return err
	}
	if end, ok := a.ctx.Deadline(); ok && !contextNow().Before(end) {
		return context.DeadlineExceeded
	}
	if held := a.running.account.held(a.op); held != nil {
		return held
	}
	return nil
}

// trace takes part in the transport's work: a connection in hand is armed for this request.
func (a *attempt) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if a.op.ChangesState() {
				pointConnected.Hit()
			}
			t := &try{attempt: a}
			a.mu.Lock()
			a.tries = append(a.tries, t)
			a.mu.Unlock()
			if conn, ok := info.Conn.(*gatedConn); ok {
				conn.arm(t)
			} else {
				t.giveUp()
				_ = info.Conn.Close() // not ours: nothing may be written to it
			}
		},
	}
}

// doer is what a driver of one account sends with.
type doer struct {
	gateway *Gateway
	account simwarden.AccountID
}

// Do sends one request, once. Errors are *carrier.Error, not classified yet.
func (d *doer) Do(req *http.Request) (*http.Response, error) {
	r := runningFrom(req.Context())
	op, marked := carrier.OperationFrom(req.Context())
	switch {
	case r == nil || r.account.id != d.account || !marked:
		return nil, &carrier.Error{Account: d.account, Operation: op, NotSent: true, Err: errOutside}
	case !r.opened.allows(req.URL):
		return nil, &carrier.Error{Account: d.account, Operation: op, NotSent: true, Message: "the request would go to a host that is not the account's"}
	}
	if err := d.gateway.allowed(req.URL); err != nil {
		return nil, &carrier.Error{Account: d.account, Operation: op, NotSent: true, Err: err}
	}
	a := &attempt{running: r, op: op, ctx: req.Context(), parent: req.Context()}
	if err := r.begin(a); err != nil {
		return nil, &carrier.Error{Account: d.account, Operation: op, NotSent: true, Err: err}
	}
	return d.send(req, a)
}

// send waits for a place among the carrier's calls at a time and, for reads, for a permit; then
// it sends. The place is given back when the body is closed.
func (d *doer) send(req *http.Request, a *attempt) (*http.Response, error) {
	leave, err := a.enter(req.Context())
	if err != nil {
		return nil, a.fail(err)
	}
	if !a.op.ChangesState() {
		// Before connecting, so that a poll that must wait holds no connection. It is looked at
		// again before it is used.
		grant, err := d.gateway.limiter.take(req.Context(), a.running, a.op, d.gateway.clock.Now().Add(a.running.call.wait()))
		if err != nil {
			leave()
			return nil, a.fail(err)
		}
		a.grant = grant
	}
	limit := d.gateway.opts.ReadTimeout
	if a.op.ChangesState() {
		limit = d.gateway.opts.CommandTimeout
	}
	ctx, cancel := context.WithTimeout(req.Context(), limit)
	a.ctx = ctx
	out := req.Clone(httptrace.WithClientTrace(ctx, a.trace()))
	out.Header.Set("X-Request-Id", a.running.requestID(a.op))
	if a.op.ChangesState() {
		pointBeforeConnect.Hit()
	}
	resp, err := d.gateway.clients.of(a.op).Do(out)
	if err != nil {
		failed := a.fail(err)
		cancel()
		leave()
		return nil, failed
	}
	if a.op.ChangesState() {
		pointHeadersRead.Hit()
	}
	a.answered(resp.StatusCode)
	resp.Body = &answerBody{body: resp.Body, attempt: a, left: carrier.MaxAnswerBytes + 1, done: func() {
		cancel()
		leave()
	}}
	return resp, nil
}

func (a *attempt) answered(status int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.status = status
	a.endedAt = a.running.account.gateway.clock.Now()
}

// fail makes the *carrier.Error of a request without an answer. NotSent is said only where the
// gate has let no byte of it out, and never will.
func (a *attempt) fail(err error) *carrier.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.grant != nil { // no connection came about to use it on
		a.grant.back()
		a.grant = nil
	}
	notSent := true
	for _, t := range a.tries {
		notSent = t.giveUp() && notSent
	}
	a.endedAt = a.running.account.gateway.clock.Now()
	a.network = a.refused == nil && a.parent.Err() == nil
	e := &carrier.Error{Account: a.running.account.id, Operation: a.op, NotSent: notSent}
	cause := err
	if a.refused != nil && notSent {
		cause = a.refused
	}
	var own *carrier.Error
	switch {
	case errors.As(cause, &own):
		e.Class, e.RetryAfter, e.Message, e.Err = own.Class, own.RetryAfter, own.Message, own.Err
	default:
		e.Message, e.Err = say(cause, notSent)
	}
	a.err = e
	return e
}

// say puts the usual failures into words, and gives the cause without a URL.
func say(err error, notSent bool) (string, error) {
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	var dns *net.DNSError
	var certificate *tls.CertificateVerificationError
	var timeout net.Error
	switch {
	case errors.As(err, &dns):
		return "the carrier's name could not be resolved", err
	case errors.As(err, &certificate):
		return "the carrier's certificate is not trusted", err
	case errors.Is(err, context.Canceled):
		return "the call was cancelled", err
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		if notSent {
			return "no time was left to send", err
		}
		return "no answer came in time", err
	case notSent:
		return "the carrier could not be reached", err
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "the connection ended without an answer", err
	}
	return "the connection broke without an answer", err
}

// triedToConnect says that some request of the call got as far as the network.
func (r *running) triedToConnect() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, a := range r.attempts {
		a.mu.Lock()
		network := a.err != nil && a.err.Class == "" && a.network
		a.mu.Unlock()
		if network {
			return true
		}
	}
	return false
}

// answerBody bounds a body in size; the attempt's context bounds it in time (F25).
type answerBody struct {
	body    io.ReadCloser
	attempt *attempt
	left    int64
	once    sync.Once
	done    func()
}

// Read gives the body, at most one byte more than a driver takes, so that it sees the excess.
func (b *answerBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("the answer is larger than %d bytes", carrier.MaxAnswerBytes)
	}
	if int64(len(p)) > b.left {
		p = p[:b.left]
	}
	n, err := b.body.Read(p)
	b.left -= int64(n)
	if errors.Is(err, io.EOF) {
		b.end()
	}
	return n, err
}

// Close ends the attempt.
func (b *answerBody) Close() error {
	err := b.body.Close()
	b.end()
	return err
}

func (b *answerBody) end() {
	b.once.Do(func() {
		if b.attempt.op.ChangesState() {
			pointBodyRead.Hit()
		}
		b.attempt.answered(b.attempt.status)
		b.done()
	})
}
