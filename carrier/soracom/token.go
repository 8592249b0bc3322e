package soracom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// tokenLife is the life asked for at login: the API's default, half of its most.
const tokenLife = 24 * time.Hour

// tokenMargin is how long before its end a token is no longer used, so that no request meets
// the end on its way, nor a clock that is a little off.
const tokenMargin = 5 * time.Minute

// token is the pair of headers that a login gives. The answer does not say when it ends.
type token struct {
	apiKey, value string
	endsAt        time.Time
}

// tokens keeps one connection's token. Logins happen one at a time, and those who wait for one
// share what came of it, good or bad: a carrier locks accounts that fail to log in again and
// again (F34).
type tokens struct {
	now   func() time.Time
	login func(context.Context) (*token, error)
	turn  chan struct{} // holds one: the right to log in

	mu      sync.Mutex
	current *token
	logins  uint64         // finished ones
	failed  *carrier.Error // of the last finished one
}

func newTokens(now func() time.Time, login func(context.Context) (*token, error)) *tokens {
	return &tokens{now: now, login: login, turn: make(chan struct{}, 1)}
}

// get gives a token in force, logging in where there is none. fresh says that it was made during
// this call, so that a refusal of it is no matter of age.
func (t *tokens) get(ctx context.Context) (tok *token, fresh bool, err error) {
	tok, seen, _ := t.look()
	if tok != nil {
		return tok, false, nil
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, false, &carrier.Error{Operation: simwarden.OpToken, NotSent: true, Err: ctx.Err()}
	}
	defer func() { <-t.turn }()
	tok, logins, failed := t.look()
	switch {
	case tok != nil:
		return tok, true, nil
	case logins != seen && failed != nil:
		shared := *failed // the gateway writes its class into it
		return nil, false, &shared
	}
	tok, err = t.login(ctx)
	if err != nil && ctx.Err() != nil {
		return nil, false, err // this caller's end says nothing to the others
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.logins++
	t.current, t.failed = tok, nil
	var e *carrier.Error
	if errors.As(err, &e) {
		kept := *e
		t.failed = &kept
	}
	return tok, true, err
}

// look gives the token in force, nil for none, and how the last login ended.
func (t *tokens) look() (tok *token, logins uint64, failed *carrier.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current != nil && t.now().Add(tokenMargin).Before(t.current.endsAt) {
		tok = t.current
	}
	return tok, t.logins, t.failed
}

// drop forgets the token, where it is still the one in use.
func (t *tokens) drop(tok *token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == tok {
		t.current = nil
	}
}

// login asks for a token: POST /auth.
func (c *conn) login(ctx context.Context) (*token, error) {
	body, err := json.Marshal(struct { //nolint:gosec // G117: this is how the key is shown to the carrier
		AuthKeyID           string `json:"authKeyId"`
		AuthKey             string `json:"authKey"`
		TokenTimeoutSeconds int    `json:"tokenTimeoutSeconds"`
	}{c.cfg.Credentials["auth_key_id"], c.cfg.Credentials["auth_key"], int(tokenLife.Seconds())})
	if err != nil {
		return nil, &carrier.Error{Operation: simwarden.OpToken, NotSent: true, Err: err}
	}
	req, err := c.request(ctx, http.MethodPost, "/auth", nil, bytes.NewReader(body))
	if err != nil {
		return nil, &carrier.Error{Operation: simwarden.OpToken, NotSent: true, Err: err}
	}
	req.Header.Set("Content-Type", "application/json")
	ans, err := c.cfg.Fetch(req, simwarden.OpToken)
	if err != nil {
		return nil, err
	}
	if !ans.OK() {
		return nil, ans.Refusal(simwarden.OpToken, c.secrets(nil)...)
	}
	tok, err := decodeLogin(ans.Body)
	if err != nil {
		return nil, carrier.BadAnswer(simwarden.OpToken, ans.Status, err)
	}
	tok.endsAt = ans.BegunAt.Add(tokenLife)
	return tok, nil
}

// secrets lists what must not be in a message.
func (c *conn) secrets(tok *token) []string {
	s := []string{c.cfg.Credentials["auth_key"], c.cfg.Credentials["auth_key_id"]}
	if tok != nil {
		s = append(s, tok.value, tok.apiKey)
	}
	return s
}
