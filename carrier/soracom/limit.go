package soracom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// A data limit is an event handler of one SIM: a rule on its traffic of the calendar month in UTC, and
// an action that suspends it. The threshold is in MiB, a whole number from 1 on. Rules on traffic are
// looked at up to five minutes late.
//
// Source: Soracom's definition, RuleConfigProperty and ActionConfig; developers.soracom.io, "Event
// Handler", read 2026-12-01.
const (
	limitUnitBytes = 1 << 20
	maxLimitUnits  = 1<<31 - 1

	ruleType     = "SimMonthlyTotalTrafficRule"
	actionType   = "SuspendAction"
	statusActive = "active"
	atOnce       = "IMMEDIATELY"
	// lookAgain is when a rule that has acted is looked at again. A rule that waited for the next month
	// might sleep through a limit that was raised meanwhile.
	lookAgain = "BEGINNING_OF_NEXT_DAY"

	// handlerName tells our handlers from those of operators; the simId follows it.
	handlerName = "simwarden data limit "
	handlerHelp = "Kept equal to what the SIM's plan allows. Changes made here are undone."
)

// handler is an event handler as it is sent.
type handler struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Status      string   `json:"status"`
	TargetSIMID string   `json:"targetSimId"`
	Rule        config   `json:"ruleConfig"`
	Actions     []config `json:"actionConfigList"`
}

type config struct {
	Type       string            `json:"type"`
	Properties map[string]string `json:"properties"`
}

func newHandler(key string, units int64) handler {
	return handler{
		Name: handlerName + key, Description: handlerHelp, Status: statusActive, TargetSIMID: key,
		Rule: config{ruleType, map[string]string{
			"limitTotalTrafficMegaByte": strconv.FormatInt(units, 10), "inactiveTimeoutDateConst": lookAgain}},
		Actions: []config{{actionType, map[string]string{"executionDateTimeConst": atOnce}}},
	}
}

var (
	errNoHandlerID = errors.New("the event handler has no handlerId")
	errLimit       = errors.New("the limit is not a whole number of MiB, from 1 MiB on")
)

// Limits reads all event handlers that target a SIM, which is one answer without pages, and gives ours.
func (c *conn) Limits(ctx context.Context) ([]carrier.Limit, error) {
	const op = simwarden.OpSetThreshold
	ans, err := c.read(ctx, op, "/event_handlers", url.Values{"target": {"sim"}})
	if err != nil {
		return nil, err
	}
	limits, err := decodeLimits(ans.Body)
	if err != nil {
		return nil, carrier.BadAnswer(op, ans.Status, err)
	}
	return limits, nil
}

// SetLimit sends PUT /event_handlers/{id}, or POST /event_handlers where there is no id yet.
func (c *conn) SetLimit(ctx context.Context, sim carrier.SIMRef, handle string, limitBytes int64) (carrier.Limit, error) {
	const op = simwarden.OpSetThreshold
	if sim.Key == "" {
		return carrier.Limit{}, carrier.NoKey(op)
	}
	units := limitBytes / limitUnitBytes
	if err := carrier.CheckKey(sim.Key); err != nil {
		return carrier.Limit{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	if limitBytes%limitUnitBytes != 0 || units < 1 || units > maxLimitUnits {
		return carrier.Limit{}, &carrier.Error{Operation: op, NotSent: true, Err: errLimit}
	}
	body, err := json.Marshal(newHandler(sim.Key, units))
	if err != nil {
		return carrier.Limit{}, &carrier.Error{Operation: op, NotSent: true, Err: err}
	}
	set := carrier.Limit{Key: sim.Key, Handle: handle, LimitBytes: limitBytes}
	if handle != "" {
		_, err := c.changeHandler(ctx, http.MethodPut, handle, body)
		return set, err // the answer to a change has no body that is documented
	}
	ans, err := c.changeHandler(ctx, http.MethodPost, "", body)
	if err != nil {
		return carrier.Limit{}, err
	}
	if set.Handle, err = decodeHandlerID(ans.Body); err != nil {
		return carrier.Limit{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return set, nil
}

// RemoveLimit sends DELETE /event_handlers/{id}. 404 says that there is no such handler any more.
func (c *conn) RemoveLimit(ctx context.Context, handle string) error {
	_, err := c.changeHandler(ctx, http.MethodDelete, handle, nil)
	var e *carrier.Error
	if errors.As(err, &e) && e.HTTPStatus == http.StatusNotFound && !e.BadAnswer {
		return nil
	}
	return err
}

// changeHandler sends one request about a handler, once.
func (c *conn) changeHandler(ctx context.Context, method, handle string, body []byte) (*carrier.Answer, error) {
	const op = simwarden.OpSetThreshold
	path := "/event_handlers"
	if handle != "" || method != http.MethodPost {
		if err := carrier.CheckKey(handle); err != nil {
			return nil, &carrier.Error{Operation: op, NotSent: true, Err: err}
		}
		path += "/" + handle
	}
	tok, fresh, err := c.tokens.get(ctx)
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(body)
	}
	ans, err := c.send(ctx, op, method, path, nil, content, tok)
	if err != nil {
		return nil, err
	}
	if !ans.OK() {
		return nil, c.refused(op, ans, tok, fresh)
	}
	return ans, nil
}

// The members of an event handler that are read.
const (
	handlerID = iota
	handlerNamed
	handlerStatus
	handlerTarget
	handlerRule
	handlerActions
	handlerMembers
)

var (
	handlerNames = []string{"handlerId", "name", "status", "targetSimId", "ruleConfig", "actionConfigList"}
	configNames  = []string{"type", "properties"}
	ruleNames    = []string{"limitTotalTrafficMegaByte"}
	actionNames  = []string{"executionDateTimeConst"}
)

// decodeLimits picks ours out of a list of event handlers: those of our name for their own target.
func decodeLimits(body []byte) ([]carrier.Limit, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return nil, err
	}
	var limits []carrier.Limit
	err = doc.Elements(func(v carrier.JSON) error {
		var member [handlerMembers]carrier.JSON
		if err := v.Pick(member[:], handlerNames); err != nil {
			return err
		}
		name, _ := member[handlerNamed].Text()
		key, ok := strings.CutPrefix(name, handlerName)
		if target, _ := member[handlerTarget].Text(); !ok || key == "" || target != key {
			return nil // an operator's
		}
		l := carrier.Limit{Key: key}
		if l.Handle, _ = member[handlerID].Text(); l.Handle == "" {
			return errNoHandlerID
		}
		status, _ := member[handlerStatus].Text()
		units, asMade, err := decodeRule(member[handlerRule])
		if err != nil {
			return err
		}
		suspends, err := decodeActions(member[handlerActions])
		if err != nil {
			return err
		}
		l.LimitBytes, l.Altered = units*limitUnitBytes, status != statusActive || !asMade || !suspends
		limits = append(limits, l)
		return nil
	})
	return limits, err
}

// decodeRule gives the threshold, which the definition has as text and its examples as a number too.
func decodeRule(v carrier.JSON) (units int64, asMade bool, err error) {
	var member [2]carrier.JSON
	if err := v.Pick(member[:], configNames); err != nil {
		return 0, false, err
	}
	var property [1]carrier.JSON
	if err := member[1].Pick(property[:], ruleNames); err != nil {
		return 0, false, err
	}
	kind, _ := member[0].Text()
	units, ok := property[0].Int64()
	if !ok || units < 1 || units > maxLimitUnits {
		return 0, false, nil
	}
	return units, kind == ruleType, nil
}

// decodeActions says that the one action is to suspend the SIM at once.
func decodeActions(v carrier.JSON) (suspends bool, err error) {
	n := 0
	err = v.Elements(func(action carrier.JSON) error {
		n++
		var member [2]carrier.JSON
		if err := action.Pick(member[:], configNames); err != nil {
			return err
		}
		var property [1]carrier.JSON
		if err := member[1].Pick(property[:], actionNames); err != nil {
			return err
		}
		kind, _ := member[0].Text()
		when, _ := property[0].Text()
		suspends = kind == actionType && when == atOnce
		return nil
	})
	return suspends && n == 1, err
}

func decodeHandlerID(body []byte) (string, error) {
	doc, err := carrier.ParseJSON(body)
	if err != nil {
		return "", err
	}
	var member [1]carrier.JSON
	if err := doc.Pick(member[:], []string{"handlerId"}); err != nil {
		return "", err
	}
	id, _ := member[0].Text()
	if id == "" {
		return "", errNoHandlerID
	}
	return id, nil
}
