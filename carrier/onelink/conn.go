package onelink

import (
	"context"
	"errors"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

type conn struct {
	cfg       carrier.Config
	base      string // with version and group, and a slash at its end
	transids  *transids
	tokens    *tokens
	platforms platforms
}

// Capabilities besides those of every connection.
var (
	_ carrier.Resolver         = (*conn)(nil)
	_ carrier.Lister           = (*conn)(nil)
	_ carrier.BatchReader      = (*conn)(nil)
	_ carrier.UsageReader      = (*conn)(nil)
	_ carrier.UsageBatchReader = (*conn)(nil)
	_ carrier.RealNameReader   = (*conn)(nil)
	_ carrier.JobFollower      = (*conn)(nil)
	_ carrier.BatchChanger     = (*conn)(nil)
)

// The codes that say that there is no such SIM here.
const (
	codeNotOnPlatform = "11011"
	codeNotInSystem   = "12010"
	// codeNotOrdered says that the customer's contract lacks the call.
	codeNotOrdered = "12199"
)

// maxForms is how many forms of an ICCID are asked for: as it stands, and with or without its check
// digit. The carrier compares whole numbers.
const maxForms = 3

// ask makes a read about one SIM, which is named by its ICCID: the one that the carrier is known to
// take, which is its key, or the forms of the one that we have. It gives the one that was taken.
func (c *conn) ask(ctx context.Context, op simwarden.Operation, call string, sim carrier.SIMRef) (result carrier.JSON, ans *carrier.Answer, iccid string, err error) {
	var forms []string
	switch {
	case sim.Key != "":
		if err := carrier.CheckKey(sim.Key); err != nil {
			return nil, nil, "", &carrier.Error{Operation: op, NotSent: true, Err: err}
		}
		forms = []string{sim.Key}
	case sim.ICCID.IsZero():
		return nil, nil, "", &carrier.Error{Operation: op, NotSent: true, Err: simwarden.ErrICCIDEmpty}
	default:
		forms = append(forms, sim.ICCID.String())
		for _, other := range sim.ICCID.Alternates() {
			forms = append(forms, other.String())
		}
	}
	for _, iccid = range forms[:min(len(forms), maxForms)] {
		result, ans, err = c.read(ctx, op, call, []param{{"iccid", iccid}})
		if !unknownSIM(err) {
			break
		}
	}
	return result, ans, iccid, err
}

func unknownSIM(err error) bool {
	var e *carrier.Error
	return errors.As(err, &e) && (e.Code == codeNotOnPlatform || e.Code == codeNotInSystem)
}

// State reads a SIM's status by query/sim-status and, of one that is stopped, why it is by
// query/sim-stop-reason: two requests. A customer whose contract lacks the second call gets stopped
// SIMs without a reason.
func (c *conn) State(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	const op = simwarden.OpQueryState
	result, ans, iccid, err := c.ask(ctx, op, "query/sim-status", sim)
	if err != nil {
		return simwarden.Reading{}, err
	}
	code, changedAt, err := decodeStatus(result)
	if err != nil {
		return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
	}
	c.platforms.learn(iccid, platformOf(code))
	state, stopped := stateOf(code)
	state.ChangedAt = changedAt
	if stopped {
		if err := c.addReason(ctx, iccid, &state); err != nil {
			return simwarden.Reading{}, err
		}
	}
	return simwarden.Reading{Key: iccid, ICCID: parse(iccid), ReadAt: ans.BegunAt, State: &state}, nil
}

func (c *conn) addReason(ctx context.Context, iccid string, state *simwarden.StateReading) error {
	const op = simwarden.OpQueryState
	result, ans, err := c.read(ctx, op, "query/sim-stop-reason", []param{{"iccid", iccid}})
	var e *carrier.Error
	switch {
	case errors.As(err, &e) && e.Code == codeNotOrdered:
		return nil
	case err != nil:
		return err
	}
	reason, description, err := decodeReason(result)
	if err != nil {
		return carrier.BadAnswer(op, ans.Status, err)
	}
	state.Extended = whyStopped(reason, description)
	state.Raw = carrier.Plain(state.Raw+" "+reason+" "+description, maxRawBytes)
	return nil
}

// maxRawBytes bounds the carrier's own words that are kept.
const maxRawBytes = 128

// parse gives the ICCID of a text, the zero one where it is none: the key still names the SIM.
func parse(text string) simwarden.ICCID {
	iccid, err := simwarden.ParseICCID(text)
	if err != nil {
		return simwarden.ICCID{}
	}
	return iccid
}

// Resolve asks query/sim-basic-info for the ICCID as the carrier writes it.
func (c *conn) Resolve(ctx context.Context, iccid simwarden.ICCID) (string, error) {
	const op = simwarden.OpQueryState
	result, ans, _, err := c.ask(ctx, op, "query/sim-basic-info", carrier.SIMRef{ICCID: iccid})
	if err != nil {
		return "", err
	}
	key, err := decodeIdentity(result)
	if err == nil && !parse(key).SameCard(iccid) {
		err = errOtherSIM
	}
	if err != nil {
		return "", carrier.BadAnswer(op, ans.Status, err)
	}
	return key, nil
}

// RealName reads query/sim-real-name-status.
func (c *conn) RealName(ctx context.Context, sim carrier.SIMRef) (simwarden.Reading, error) {
	const op = simwarden.OpQueryRealName
	result, ans, iccid, err := c.ask(ctx, op, "query/sim-real-name-status", sim)
	if err != nil {
		return simwarden.Reading{}, err
	}
	name, err := decodeRealName(result)
	if err != nil {
		return simwarden.Reading{}, carrier.BadAnswer(op, ans.Status, err)
	}
	return simwarden.Reading{Key: iccid, ICCID: parse(iccid), ReadAt: ans.BegunAt, RealName: &name}, nil
}

// Probe lists one group: the smallest call that needs a token.
func (c *conn) Probe(ctx context.Context) error {
	const op = simwarden.OpListSIMs
	result, ans, err := c.read(ctx, op, "query/group-info", []param{{"pageSize", "1"}, {"startNum", "1"}})
	if err != nil {
		return err
	}
	if _, err := decodeGroups(result); err != nil {
		return carrier.BadAnswer(op, ans.Status, err)
	}
	return nil
}
