package onelink

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

const timeLayout = "20060102150405"

const (
	codeOK           = "0"
	codeTokenExpired = "12021"
	maxCodeBytes     = 64
	maxMessageBytes  = 500
)

// param is one member of a request.
type param struct{ name, value string }

// post sends one request as a JSON object of texts. All calls go by POST: the API takes reads by GET
// too, but then token and numbers would stand in URLs.
func (c *conn) post(ctx context.Context, op simwarden.Operation, call string, params []param) (*carrier.Answer, error) {
	members := make(map[string]string, len(params)+1)
	for _, p := range params {
		members[p.name] = p.value
	}
	members["transid"] = c.transids.at(c.cfg.Now())
	body, err := json.Marshal(members)
	if err != nil {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+call, bytes.NewReader(body))
	if err != nil {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: errRequest}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	return c.cfg.Fetch(req, op)
}

var errRequest = errors.New("the request could not be formed") // net/url's own words repeat the URL

// read makes a call that changes nothing and gives its result. Where the token is no longer in force
// it gets another and asks once more.
func (c *conn) read(ctx context.Context, op simwarden.Operation, call string, params []param) (carrier.JSON, *carrier.Answer, error) {
	for again := false; ; again = true {
		tok, fresh, err := c.tokens.get(ctx)
		if err != nil {
			return nil, nil, err
		}
		ans, err := c.post(ctx, op, call, append([]param{{"token", tok.Value}}, params...))
		if err != nil {
			return nil, nil, err
		}
		result, err := c.open(ans, op, tok)
		if refused(err) != nil {
			c.tokens.drop(tok)
			if !fresh && !again {
				continue
			}
		}
		return result, ans, err
	}
}

// write makes a call that changes something, once.
func (c *conn) write(ctx context.Context, op simwarden.Operation, call string, params []param) (carrier.JSON, *carrier.Answer, error) {
	tok, fresh, err := c.tokens.get(ctx)
	if err != nil {
		return nil, nil, err
	}
	ans, err := c.post(ctx, op, call, append([]param{{"token", tok.Value}}, params...))
	if err != nil {
		return nil, nil, err
	}
	result, err := c.open(ans, op, tok)
	if e := refused(err); e != nil {
		c.tokens.drop(tok) // the next attempt gets another; this one is over (C4)
		e.TokenExpired = !fresh
	}
	return result, ans, err
}

// refused gives the error of an answer that refuses the token, nil for another or none.
func refused(err error) *carrier.Error {
	var e *carrier.Error
	if errors.As(err, &e) && (e.Code == codeTokenExpired || e.HTTPStatus == http.StatusUnauthorized) {
		return e
	}
	return nil
}

var envelopeNames = []string{"status", "message", "result"}

var (
	errEnvelope = errors.New("the answer has no status")
	errResult   = errors.New("the answer has no result")
)

// open takes the result out of an answer whose status is "0". Else the error has the carrier's code
// and message. A status of another type than text is not understood, save that one of the carrier's
// codes may come as a number (F23): success never does.
func (c *conn) open(ans *carrier.Answer, op simwarden.Operation, tok carrier.Token) (carrier.JSON, error) {
	secrets := []string{c.cfg.Credentials[fieldPassword], tok.Value}
	if !ans.OK() {
		return nil, ans.Refusal(op, secrets...)
	}
	doc, err := carrier.ParseJSON(ans.Body)
	if err != nil {
		return nil, carrier.BadAnswer(op, ans.Status, err)
	}
	var member [3]carrier.JSON
	if err := doc.Pick(member[:], envelopeNames); err != nil {
		return nil, carrier.BadAnswer(op, ans.Status, err)
	}
	code, ok := member[0].Text()
	if !ok || code == "" || !member[0].IsText() && len(code) != 5 {
		return nil, carrier.BadAnswer(op, ans.Status, errEnvelope)
	}
	if code != codeOK {
		message, _ := member[1].Text()
		return nil, &carrier.Error{
			Operation: op, HTTPStatus: ans.Status, RetryAfter: carrier.RetryAfter(ans.Header, ans.BegunAt),
			Code:    carrier.Plain(carrier.Redact(code, secrets...), maxCodeBytes),
			Message: carrier.Plain(carrier.Redact(message, secrets...), maxMessageBytes),
		}
	}
	if member[2].Null() {
		return nil, carrier.BadAnswer(op, ans.Status, errResult)
	}
	return member[2], nil
}

// names forms a batch's list of numbers.
func names(numbers []string) string { return strings.Join(numbers, "_") }
