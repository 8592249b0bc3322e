package supersim

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

type conn struct {
	cfg  carrier.Config
	base string // with version, without a slash at its end
	auth authorizer
}

// Capabilities besides those of every connection.
var (
	_ carrier.Resolver    = (*conn)(nil)
	_ carrier.Lister      = (*conn)(nil)
	_ carrier.UsageReader = (*conn)(nil)
	_ carrier.UsageLister = (*conn)(nil)
)

// State reads a SIM by its SID, or through the list's ICCID filter where that is not known.
func (c *conn) State(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	const op = simwarden.OpQueryState
	if sim.Key == "" {
		return c.find(ctx, sim.ICCID)
	}
	if err := carrier.CheckKey(sim.Key); err != nil {
		return simwarden.Reading{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	ans, err := c.read(ctx, op, "/Sims/"+sim.Key, nil)
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

// Suspend posts Status=inactive, once.
func (c *conn) Suspend(ctx context.Context, sim carrier.SIMRef) (carrier.Result, error) {
	return c.change(ctx, simwarden.OpSuspend, sim, wordInactive)
}

// Resume posts Status=active, once.
func (c *conn) Resume(ctx context.Context, sim carrier.SIMRef) (carrier.Result, error) {
	return c.change(ctx, simwarden.OpResume, sim, wordActive)
}

// change is done by 200, and only accepted by 202 or by an answer that is still scheduled: there
// is no handle to ask about, the SIM's own state tells.
func (c *conn) change(ctx context.Context, op simwarden.Operation, sim carrier.SIMRef, word string) (carrier.Result, error) {
	if sim.Key == "" {
		return carrier.Result{}, carrier.NoKey(op)
	}
	if err := carrier.CheckKey(sim.Key); err != nil {
		return carrier.Result{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	ans, err := c.send(ctx, op, http.MethodPost, "/Sims/"+sim.Key, url.Values{"Status": {word}})
	if err != nil {
		return carrier.Result{}, err
	}
	reading, err := decodeOne(ans.Body, sim.Key)
	if err != nil {
		return carrier.Result{}, carrier.BadAnswer(op, ans.Status, err)
	}
	out := carrier.Result{Outcome: carrier.Done, State: reading.State}
	if ans.Status != http.StatusOK || reading.State.Pending {
		out.Outcome = carrier.Accepted
	}
	return out, nil
}

// Probe lists one SIM.
func (c *conn) Probe(ctx context.Context) error {
	ans, err := c.read(ctx, simwarden.OpListSIMs, "/Sims", url.Values{"PageSize": {"1"}})
	if err != nil {
		return err
	}
	if _, _, err := decodeList(ans.Body); err != nil {
		return carrier.BadAnswer(simwarden.OpListSIMs, ans.Status, err)
	}
	return nil
}

// Resolve gives the SID of the SIM.
func (c *conn) Resolve(ctx context.Context, iccid simwarden.ICCID) (string, error) {
	reading, err := c.find(ctx, iccid)
	return reading.Key, err
}

// maxForms is how many forms of an ICCID are asked for: as it stands, and with or without its
// check digit. The filter compares whole numbers.
const maxForms = 3

// find asks the list for one ICCID.
func (c *conn) find(ctx context.Context, iccid simwarden.ICCID) (simwarden.Reading, error) {
	const op = simwarden.OpQueryState
	if iccid.IsZero() {
		return simwarden.Reading{}, &carrier.Error{Operation: op, NotSent: true, Err: simwarden.ErrICCIDEmpty}
	}
	forms := append([]simwarden.ICCID{iccid}, iccid.Alternates()...)
	status := 0
	for _, form := range forms[:min(len(forms), maxForms)] {
		ans, err := c.read(ctx, op, "/Sims", url.Values{"Iccid": {form.String()}})
		if err != nil {
			return simwarden.Reading{}, err
		}
		status = ans.Status
		readings, _, err := decodeList(ans.Body)
		if err == nil {
			var one simwarden.Reading
			if one, err = only(readings, iccid); err == nil {
				one.ReadAt = ans.BegunAt
				return one, nil
			}
		}
		if !errors.Is(err, errNotAmong) {
			return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
		}
	}
	return simwarden.Reading{}, carrier.NoSuchSIM(op, status)
}

// List reads one page of GET /v1/Sims.
func (c *conn) List(ctx context.Context, cursor string) (carrier.Page, error) {
	const op = simwarden.OpListSIMs
	query, err := pageQuery(cursor, url.Values{"PageSize": {strconv.Itoa(listPageSize)}})
	if err != nil {
		return carrier.Page{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	ans, err := c.read(ctx, op, "/Sims", query)
	if err != nil {
		return carrier.Page{}, err
	}
	readings, nextURL, err := decodeList(ans.Body)
	if err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	for i := range readings {
		readings[i].ReadAt = ans.BegunAt
	}
	next, err := nextCursor(nextURL, cursor, query)
	if err != nil {
		return carrier.Page{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return carrier.Page{Readings: readings, Next: next}, nil
}

func (c *conn) read(ctx context.Context, op simwarden.Operation, path string, query url.Values) (*carrier.Answer, error) {
	return c.send(ctx, op, http.MethodGet, path, query)
}

// send sends one request: the values as a query of a GET or as a form of a POST.
func (c *conn) send(ctx context.Context, op simwarden.Operation, method, path string, values url.Values) (*carrier.Answer, error) {
	req, err := c.request(ctx, method, path, values)
	if err != nil {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	if err := c.auth.authorize(req); err != nil {
		return nil, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	ans, err := c.cfg.Fetch(req, op)
	if err != nil {
		return nil, err
	}
	if !ans.OK() {
		return nil, ans.Refusal(op, c.auth.secrets()...)
	}
	return ans, nil
}

var errRequest = errors.New("the request could not be formed") // net/url's own words repeat the URL

func (c *conn) request(ctx context.Context, method, path string, values url.Values) (*http.Request, error) {
	var req *http.Request
	var err error
	if method == http.MethodPost {
		req, err = http.NewRequestWithContext(ctx, method, c.base+path, strings.NewReader(values.Encode()))
	} else {
		target := c.base + path
		if len(values) > 0 {
			target += "?" + values.Encode()
		}
		req, err = http.NewRequestWithContext(ctx, method, target, nil)
	}
	if err != nil {
		return nil, errRequest
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	req.Header.Set("Accept", "application/json")
	return req, nil
}
