package gateway

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/secret"
)

// maxMessageBytes bounds what is kept of a carrier's words.
const maxMessageBytes = 500

// finish makes the error that Do returns of the one that fn returned: whose it is, whether
// anything was sent, what it means, and nothing secret in it.
func (g *Gateway) finish(r *running, err error) *carrier.Error {
	var e carrier.Error
	var theirs *carrier.Error
	if errors.As(err, &theirs) {
		e = *theirs
	} else {
		e = carrier.Error{Operation: r.call.Operation, Err: err}
	}
	e.Account = r.account.id
	if e.Operation == "" {
		e.Operation = r.call.Operation
	}
	if e.Class != carrier.ClassLimited && e.Class != carrier.ClassStopped {
		e.Class = "" // the gateway's to say
	}
	// The gate knows what left this machine; a driver may be mistaken.
	switch ofOp, all := r.sent(e.Operation); {
	case e.Operation.ChangesState():
		e.NotSent = ofOp == 0
	default:
		e.NotSent = e.NotSent || all == 0
	}
	g.classify(r.opened.driver, &e)
	if e.TokenExpired && e.Class == carrier.ClassAuth {
		// A login that has run out is no wrong credential: the next attempt logs in anew, and the
		// answer says that nothing was done. What is refused again after that is one.
		if e.TokenExpired = !r.renewed; e.TokenExpired {
			e.Class = carrier.ClassTemporary
			r.account.tokenRefusedAt.Store(g.clock.Now().UnixNano())
		}
	}
	e.Message = clean(r.opened.redactor, e.Message)
	e.Code = clean(r.opened.redactor, e.Code)
	if e.Err != nil {
		e.Err = &cause{text: clean(r.opened.redactor, e.Err.Error()), err: e.Err}
	}
	return &e
}

// classify sets the class and what follows from it by the driver's error rules (G6).
func (g *Gateway) classify(driver string, e *carrier.Error) {
	c := g.ruleSet(driver).Classify(e)
	e.Class, e.RetryAfter = c.Class, c.RetryAfter
	e.Extended, e.ClosePolling, e.NotExecuted = c.Extended, c.ClosePolling, c.NotExecuted
	if c.Rule != nil {
		e.Rule = c.Rule.Name
	}
}

// cause is an error's cause with a text that may be shown. errors.Is looks at the cause itself;
// the cause itself is not given away.
type cause struct {
	text string
	err  error
}

// Error is the text without secrets.
func (c *cause) Error() string { return c.text }

// Is says whether the cause is the target.
func (c *cause) Is(target error) bool { return errors.Is(c.err, target) }

var fullURL = regexp.MustCompile(`(?i)\b(https?)://([^\s/"'?#<>]+)[^\s"'<>]*`)

// clean takes secrets, numbers that belong to people, and URLs but for their host out of a text,
// and makes one bounded line of it (V20, B12, B13).
func clean(redactor *secret.Redactor, text string) string {
	if text == "" {
		return ""
	}
	text = redactor.Text(text)
	text = fullURL.ReplaceAllString(text, "$1://$2")
	text = secret.MaskNumbers(text)
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || c >= 0x80 && c < 0xa0 {
			return ' '
		}
		return c
	}, text)
	if len(text) > maxMessageBytes {
		text = text[:maxMessageBytes]
		for len(text) > 0 && !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	return text
}

// measure counts the call's attempts, each by its own outcome (G1).
func (g *Gateway) measure(r *running, e *carrier.Error) {
	r.mu.Lock()
	attempts := r.attempts
	r.mu.Unlock()
	last := -1 // the attempt that the call's error is about
	if e != nil {
		for i, a := range attempts {
			if a.op == e.Operation {
				last = i
			}
		}
	}
	for i, a := range attempts {
		outcome := ""
		switch {
		case e != nil && i == last:
			outcome = string(e.Class)
		default:
			outcome = g.outcome(r, a)
		}
		a.count(g.meter, outcome)
	}
	if e != nil && last < 0 && len(attempts) == 0 {
		// Nothing came as far as a request: a missing key, a request that could not be formed.
		g.meter.add(r.account, e.Operation, r.call.Purpose, OutcomeNotSent, 0)
	}
}

// outcome classifies an attempt by what is known of it without its driver: that it was answered,
// and with which status.
func (g *Gateway) outcome(r *running, a *attempt) string {
	a.mu.Lock()
	status, failed := a.status, a.err
	a.mu.Unlock()
	e := carrier.Error{Operation: a.op, HTTPStatus: status}
	switch {
	case failed != nil:
		e = *failed
	case status >= 200 && status <= 299:
		return OutcomeOK
	}
	g.classify(r.opened.driver, &e)
	return string(e.Class)
}

// count adds the attempt to the statistics: its last writing with the outcome, those that Go
// re-sent as failed reads, one that never left as not sent or blocked.
func (a *attempt) count(m *meter, outcome string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.running
	passed := 0
	for _, t := range a.tries {
		if t.state.Load() != tryRefused {
			passed++
		}
	}
	took := time.Duration(0)
	if !a.sentAt.IsZero() {
		took = max(a.endedAt.Sub(a.sentAt), 0)
	}
	for range passed - 1 {
		m.add(r.account, a.op, r.call.Purpose, string(carrier.ClassTemporary), 0)
	}
	switch {
	case passed > 0 && a.refused != nil:
		// Written, lost on a dead connection, and not let out again.
		m.add(r.account, a.op, r.call.Purpose, string(carrier.ClassTemporary), took)
	case passed > 0:
		m.add(r.account, a.op, r.call.Purpose, outcome, took)
	}
	switch held := (*carrier.Error)(nil); {
	case a.refused == nil && passed > 0:
	case errors.As(a.refused, &held) && held.Class == carrier.ClassLimited, a.err != nil && a.err.Class == carrier.ClassLimited:
		m.add(r.account, a.op, r.call.Purpose, OutcomeBlocked, 0)
	case errors.As(a.refused, &held) && held.Class == carrier.ClassStopped, a.err != nil && a.err.Class == carrier.ClassStopped:
		m.add(r.account, a.op, r.call.Purpose, OutcomeStopped, 0)
	default:
		m.add(r.account, a.op, r.call.Purpose, OutcomeNotSent, 0)
	}
}

// Test is what the rule tester answers (G7).
type Test struct {
	rules.Classification
	// Follows says in one sentence which rule matches and what comes of it.
	Follows string
}

// TestRule says what an error with these facts would mean: with the rules as they are in the table
// now, and by the same code as a true one.
func (g *Gateway) TestRule(ctx context.Context, driver string, op simwarden.Operation, status int, code, message string) (Test, error) {
	if _, err := carrier.Lookup(driver); err != nil {
		return Test{}, err
	}
	if err := g.reload(ctx); err != nil {
		return Test{}, err
	}
	c, follows := g.ruleSet(driver).Explain(&carrier.Error{Operation: op, HTTPStatus: status, Code: code, Message: message})
	return Test{Classification: c, Follows: follows}, nil
}
