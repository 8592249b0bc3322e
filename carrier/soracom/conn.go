package soracom

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

type conn struct {
	cfg    carrier.Config
	base   string // without a slash at its end
	tokens *tokens
}

// Capabilities besides those of every connection.
var (
	_ carrier.Resolver    = (*conn)(nil)
	_ carrier.Lister      = (*conn)(nil)
	_ carrier.UsageReader = (*conn)(nil)
	_ carrier.LimitSetter = (*conn)(nil)
)

// State reads a SIM by its simId, or searches it by ICCID where that is not known.
func (c *conn) State(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	const op = simwarden.OpQueryState
	if sim.Key == "" {
		found, err := c.search(ctx, sim.ICCID)
		return found.reading, err
	}
	if err := carrier.CheckKey(sim.Key); err != nil {
		return simwarden.Reading{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	ans, err := c.read(ctx, op, "/sims/"+sim.Key, nil)
	if err != nil {
		return simwarden.Reading{}, err
	}
	reading, err := decodeOne(ans.Body, sim.Key)
	if err != nil {
		return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
	}
	reading.ReadAt = ans.BegunAt
	return reading, nil
}

// Suspend sends POST /sims/{id}/suspend, once.
func (c *conn) Suspend(ctx context.Context, sim carrier.SIMRef) (carrier.Result, error) {
	return c.change(ctx, simwarden.OpSuspend, sim, "/suspend")
}

// Resume sends POST /sims/{id}/activate, once.
func (c *conn) Resume(ctx context.Context, sim carrier.SIMRef) (carrier.Result, error) {
	return c.change(ctx, simwarden.OpResume, sim, "/activate")
}

func (c *conn) change(ctx context.Context, op simwarden.Operation, sim carrier.SIMRef, verb string) (carrier.Result, error) {
	if sim.Key == "" {
		return carrier.Result{}, carrier.NoKey(op)
	}
	if err := carrier.CheckKey(sim.Key); err != nil {
		return carrier.Result{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	tok, fresh, err := c.tokens.get(ctx)
	if err != nil {
		return carrier.Result{}, err
	}
	ans, err := c.send(ctx, op, http.MethodPost, "/sims/"+sim.Key+verb, nil, nil, tok)
	if err != nil {
		return carrier.Result{}, err
	}
	if !ans.OK() {
		return carrier.Result{}, c.refused(op, ans, tok, fresh)
	}
	reading, err := decodeOne(ans.Body, sim.Key)
	if err != nil {
		return carrier.Result{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return carrier.Result{Outcome: carrier.Done, State: reading.State}, nil
}

// refused is the error of a request that is not sent again whatever the answer (C4).
func (c *conn) refused(op simwarden.Operation, ans *carrier.Answer, tok *token, fresh bool) *carrier.Error {
	e := ans.Refusal(op, c.secrets(tok)...)
	if ans.Status == http.StatusUnauthorized {
		c.tokens.drop(tok) // the next attempt logs in anew; this one is over
		e.TokenExpired = !fresh
	}
	return e
}

// Probe lists one SIM: the smallest call that needs a token and the permission for lists.
func (c *conn) Probe(ctx context.Context) error {
	ans, err := c.read(ctx, simwarden.OpListSIMs, "/sims", url.Values{"limit": {"1"}})
	if err != nil {
		return err
	}
	if _, err := decodeList(ans.Body); err != nil {
		return carrier.BadAnswer(simwarden.OpListSIMs, ans.Status, err)
	}
	return nil
}

// Resolve searches the SIM by ICCID and gives its simId.
func (c *conn) Resolve(ctx context.Context, iccid simwarden.ICCID) (string, error) {
	found, err := c.search(ctx, iccid)
	return found.reading.Key, err
}

// search asks GET /query/sims for all forms of the ICCID, with check digit and without. It finds
// parts of numbers too, so what comes back is compared whole.
func (c *conn) search(ctx context.Context, iccid simwarden.ICCID) (match, error) {
	const op = simwarden.OpQueryState
	if iccid.IsZero() {
		return match{}, &carrier.Error{Operation: op, NotSent: true, Err: simwarden.ErrICCIDEmpty}
	}
	text := iccid.String()
	for _, other := range iccid.Alternates() {
		text += "," + other.String()
	}
	ans, err := c.read(ctx, op, "/query/sims", url.Values{"iccid": {text}, "limit": {"100"}})
	if err != nil {
		return match{}, err
	}
	found, err := decodeSearch(ans.Body, iccid)
	switch {
	case errors.Is(err, errNotAmong):
		return match{}, carrier.NoSuchSIM(op, ans.Status)
	case err != nil:
		return match{}, carrier.BadAnswer(op, ans.Status, err)
	}
	found.reading.ReadAt = ans.BegunAt
	return found, nil
}

// List reads one page of GET /sims. The cursor is the last answer's x-soracom-next-key.
func (c *conn) List(ctx context.Context, cursor string) (carrier.Page, error) {
	const op = simwarden.OpListSIMs
	query := url.Values{"limit": {strconv.Itoa(pageSize)}}
	if cursor != "" {
		query.Set("last_evaluated_key", cursor)
	}
	ans, err := c.read(ctx, op, "/sims", query)
	if err != nil {
		return carrier.Page{}, err
	}
	readings, err := decodeList(ans.Body)
	if err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	for i := range readings {
		readings[i].ReadAt = ans.BegunAt
	}
	next := ans.Header.Get("X-Soracom-Next-Key")
	if next != "" && next == cursor || len(next) > maxCursorBytes {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, errCursor)
	}
	return carrier.Page{Readings: readings, Next: next}, nil
}

const maxCursorBytes = 1024

var errCursor = errors.New("the next page's key is this page's, or too long")

// read sends a GET. Where the token is no longer in force it logs in and asks once more.
func (c *conn) read(ctx context.Context, op simwarden.Operation, path string, query url.Values) (*carrier.Answer, error) {
	for again := false; ; again = true {
		tok, fresh, err := c.tokens.get(ctx)
		if err != nil {
			return nil, err
		}
		ans, err := c.send(ctx, op, http.MethodGet, path, query, nil, tok)
		if err != nil {
			return nil, err
		}
		if ans.OK() {
			return ans, nil
		}
		if ans.Status == http.StatusUnauthorized {
			c.tokens.drop(tok)
			if !fresh && !again {
				continue
			}
		}
		return nil, ans.Refusal(op, c.secrets(tok)...)
	}
}

func (c *conn) send(ctx context.Context, op simwarden.Operation, method, path string, query url.Values, body io.Reader, tok *token) (*carrier.Answer, error) {
	req, err := c.request(ctx, method, path, query, body)
	if err != nil {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("X-Soracom-API-Key", tok.apiKey)
	req.Header.Set("X-Soracom-Token", tok.value)
	return c.cfg.Fetch(req, op)
}

func (c *conn) request(ctx context.Context, method, path string, query url.Values, body io.Reader) (*http.Request, error) {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, method, target, body)
	if err != nil {
		return nil, errors.New("the request could not be formed") // net/url's own words repeat the URL
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("X-Soracom-Lang", "en")
	return req, nil
}
