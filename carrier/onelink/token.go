package onelink

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// tokenLife is how long a token is taken to live where the answer does not say; about two hours.
const tokenLife = 2 * time.Hour

// tokens keeps at hand the one token of the account, which all connections and nodes share by the
// store. Those of this connection who need another wait for one of them to get it, and share what
// came of it, good or bad: a carrier locks accounts that fail to log in again and again (F34, F35).
type tokens struct {
	now   func() time.Time
	store carrier.TokenStore
	login func(context.Context) (carrier.Token, error)
	turn  chan struct{} // holds one: the right to ask the store

	mu      sync.Mutex
	current carrier.Token
	bad     carrier.Token  // the last one that was refused
	asked   uint64         // how often the store has answered
	failed  *carrier.Error // its last answer, where it was a failure
}

func newTokens(now func() time.Time, store carrier.TokenStore, login func(context.Context) (carrier.Token, error)) *tokens {
	return &tokens{now: now, store: store, login: login, turn: make(chan struct{}, 1)}
}

// get gives a live token. fresh says that it was made, or first heard of, during this call.
func (t *tokens) get(ctx context.Context) (tok carrier.Token, fresh bool, err error) {
	tok, _, seen, _ := t.look()
	if tok.Value != "" {
		return tok, false, nil
	}
	select {
	case t.turn <- struct{}{}:
	case <-ctx.Done():
		return tok, false, &carrier.Error{Operation: simwarden.OpToken, NotSent: true, Err: ctx.Err()}
	}
	defer func() { <-t.turn }()
	tok, bad, asked, failed := t.look()
	switch {
	case tok.Value != "":
		return tok, true, nil
	case asked != seen && failed != nil:
		shared := *failed // the gateway writes its class into it
		return tok, false, &shared
	}
	tok, made, err := t.store.Renew(ctx, bad, t.login)
	if err != nil && ctx.Err() != nil {
		return carrier.Token{}, false, tokenError(err) // this caller's end says nothing to the others
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	t.current, t.failed = tok, nil
	if err != nil {
		e := tokenError(err)
		kept := *e
		t.failed = &kept
		return carrier.Token{}, false, e
	}
	return tok, made, nil
}

// tokenError makes an error of getting a token one of operation token: the call's own request was
// not sent.
func tokenError(err error) *carrier.Error {
	var e *carrier.Error
	if errors.As(err, &e) {
		return e
	}
	return &carrier.Error{Operation: simwarden.OpToken, NotSent: true, Message: "the account's shared login cannot be had", Err: err}
}

// look gives the live token, the zero one for none, the last refused one, and how the store last
// answered.
func (t *tokens) look() (tok, bad carrier.Token, asked uint64, failed *carrier.Error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.Live(t.now()) {
		tok = t.current
	}
	return tok, t.bad, t.asked, t.failed
}

// drop forgets a token that was refused.
func (t *tokens) drop(tok carrier.Token) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current.Value == tok.Value {
		t.current, t.bad = carrier.Token{}, tok
	}
}

var errNoLogin = errors.New("the login's answer has no token")

var loginNames = []string{"token", "ttl"}

// login asks for a token by get/token. Whichever was in force ends by it.
func (c *conn) login(ctx context.Context) (carrier.Token, error) {
	const op = simwarden.OpToken
	ans, err := c.post(ctx, op, "get/token", []param{{"appid", c.cfg.Credentials[fieldAppID]}, {"password", c.cfg.Credentials[fieldPassword]}})
	if err != nil {
		return carrier.Token{}, err
	}
	result, err := c.open(ans, op, carrier.Token{})
	if err != nil {
		return carrier.Token{}, err
	}
	tok, err := decodeLogin(result, ans.BegunAt)
	if err != nil {
		return carrier.Token{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return tok, nil
}

// decodeLogin reads the token and what is left of its life, in seconds.
func decodeLogin(result carrier.JSON, begunAt time.Time) (carrier.Token, error) {
	row, err := only(result)
	if err != nil {
		return carrier.Token{}, err
	}
	var member [2]carrier.JSON
	if err := row.Pick(member[:], loginNames); err != nil {
		return carrier.Token{}, err
	}
	text, _ := member[0].Text()
	if !member[0].IsText() || text == "" || len(text) > maxTokenBytes || !visible(text) {
		return carrier.Token{}, errNoLogin
	}
	life := tokenLife
	if ttl, _ := member[1].Text(); ttl != "" {
		if n, err := strconv.ParseInt(ttl, 10, 32); err == nil && n > 0 {
			life = min(life, time.Duration(n)*time.Second)
		}
	}
	return carrier.Token{Value: text, EndsAt: begunAt.Add(life)}, nil
}

const maxTokenBytes = 4096

func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
