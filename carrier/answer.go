package carrier

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
)

// MaxAnswerBytes is how much of an answer's body a driver reads; the gateway has its own bound
// besides. The largest honest answer known is a list page of 1,000 SIMs, about 2 MB (F25).
const MaxAnswerBytes = 8 << 20

// maxMessageBytes bounds Error.Message, maxCodeBytes Error.Code.
const (
	maxMessageBytes = 500
	maxCodeBytes    = 64
)

// The codes of our own, for what a carrier tells without an error: drivers name them in their
// rules.
const (
	// CodeNoSuchSIM: the carrier answered well, and the SIM asked for is not in the answer.
	CodeNoSuchSIM = "no_such_sim"
	// CodeNoKey: the carrier's key of the SIM is needed and not known; see Resolver. Not sent.
	CodeNoKey = "no_key"
)

// Answer is a carrier's whole answer to one request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
	// BegunAt is when the request was begun, UTC (Reading.ReadAt).
	BegunAt time.Time
}

// OK says that the status is one of 200 to 299.
func (a *Answer) OK() bool { return a.Status >= 200 && a.Status <= 299 }

// Fetch sends the request once as part of the operation, and reads the whole answer, whatever
// its status. It is the only way in which drivers send. The error is an *Error: the Doer's own;
// or, where the answer broke off or was larger than MaxAnswerBytes, one with its HTTP status.
func (c Config) Fetch(req *http.Request, op simwarden.Operation) (*Answer, error) {
	req = req.WithContext(WithOperation(req.Context(), op))
	begun := c.Now().UTC()
	resp, err := c.HTTP.Do(req)
	if err != nil {
		return nil, asError(op, err)
	}
	defer func() { _ = resp.Body.Close() }() // a body that was read to its end has nothing more to say
	body, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswerBytes+1))
	if err != nil {
		// A body cut short is an answer not understood; one that our own deadline cut short is
		// not the carrier's doing.
		cut := req.Context().Err() == nil
		return nil, &Error{Operation: op, HTTPStatus: resp.StatusCode, BadAnswer: cut, Err: withoutURL(err)}
	}
	if len(body) > MaxAnswerBytes {
		return nil, BadAnswer(op, resp.StatusCode, fmt.Errorf("answer is larger than %d bytes", MaxAnswerBytes))
	}
	return &Answer{Status: resp.StatusCode, Header: resp.Header, Body: body, BegunAt: begun}, nil
}

// Refusal makes the *Error of an answer whose status is not of the 200s. The body is read as a
// JSON object with the members code (text or number) and message, as many carriers send. An
// empty body is fine; one in another format is the word of some proxy, not of the carrier: then
// BadAnswer is set, save where the status alone says enough (401, 429, 5xx). The secrets are cut
// out of the message.
func (a *Answer) Refusal(op simwarden.Operation, secrets ...string) *Error {
	e := &Error{Operation: op, HTTPStatus: a.Status, RetryAfter: RetryAfter(a.Header, a.BegunAt)}
	switch code, message, err := refusalText(a.Body); {
	case len(a.Body) == 0:
		e.BadAnswer = a.Status < 400
	case err != nil:
		e.BadAnswer = a.Status < 500 && a.Status != http.StatusUnauthorized && a.Status != http.StatusTooManyRequests
		e.Message = strings.TrimSpace("the answer is not the carrier's JSON " + plain(a.Header.Get("Content-Type"), 80))
	default:
		e.BadAnswer = a.Status < 400
		e.Code = plain(Redact(code, secrets...), maxCodeBytes)
		e.Message = plain(Redact(message, secrets...), maxMessageBytes)
	}
	return e
}

var refusalNames = []string{"code", "message"}

func refusalText(body []byte) (code, message string, err error) {
	doc, err := ParseJSON(body)
	if err != nil {
		return "", "", err
	}
	var member [2]JSON
	if err := doc.Pick(member[:], refusalNames); err != nil {
		return "", "", err
	}
	code, _ = member[0].Text() // absent or odd: the status remains
	message, _ = member[1].Text()
	return code, message, nil
}

// BadAnswer makes the *Error of an answer that was not understood (F24).
func BadAnswer(op simwarden.Operation, status int, why error) *Error {
	return &Error{Operation: op, HTTPStatus: status, BadAnswer: true, Err: why}
}

// NoSuchSIM makes the *Error of a good answer without the SIM that was asked for.
func NoSuchSIM(op simwarden.Operation, status int) *Error {
	return &Error{Operation: op, HTTPStatus: status, Code: CodeNoSuchSIM, Message: "the account has no SIM of this ICCID"}
}

// NoKey makes the *Error of a call that needs the carrier's key of a SIM and has none; nothing
// was sent.
func NoKey(op simwarden.Operation) *Error {
	return &Error{Operation: op, Code: CodeNoKey, NotSent: true, Message: "the carrier's key of the SIM is not known: resolve it first"}
}

// asError gives a Doer's error as an *Error without a URL in it.
func asError(op simwarden.Operation, err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Operation: op, Err: withoutURL(err)}
}

// withoutURL takes off the layer with which net/http tells the whole URL.
func withoutURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// Redact replaces each secret in the text, also in its URL-escaped form (V20). Secrets of fewer
// than four bytes are left: they would be found everywhere.
func Redact(text string, secrets ...string) string {
	for _, s := range secrets {
		if len(s) < 4 {
			continue
		}
		text = strings.ReplaceAll(text, s, "[redacted]")
		if esc := url.QueryEscape(s); esc != s {
			text = strings.ReplaceAll(text, esc, "[redacted]")
		}
	}
	return text
}

// Plain makes a carrier's text fit for logs and terminals: one line, valid UTF-8, at most n bytes. It
// is for drivers of carriers whose errors do not come as Refusal reads them.
func Plain(text string, n int) string { return plain(text, n) }

// plain makes a carrier's text fit for logs and terminals: one line, valid UTF-8, at most n bytes.
func plain(text string, n int) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
	if len(text) > n {
		text = text[:n]
	}
	for len(text) > 0 && !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "")
	}
	return strings.TrimSpace(text)
}
