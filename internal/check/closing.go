package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Moment is one in a SIM's true history at the carrier: it came to be in this state then.
type Moment struct {
	At    time.Time
	State simwarden.State
}

// closing is one closed polling, as the history has it.
type closing struct {
	ID       int64
	ICCID    string
	Account  string
	At       time.Time
	Actor    string
	Extended string
}

// toldWithin is how long before its polling was closed the carrier may have told what closed it:
// readings wait for a database that is away.
const toldWithin = 5 * time.Minute

// ofDistortion are the carrier's faults by which a list may say of a SIM what is not so.
var ofDistortion = []string{"mass_state", "flap", "stale_read"}

// closedForGoodReason is V10: polling is closed only where the carrier had said of that SIM, at a state
// check, that it has ended or is blocked, or had answered its check or its command with an error whose
// rule is marked so; only a person reopens it, and the system stops no device's polling.
func (c *checker) closedForGoodReason(ctx context.Context) error {
	for _, sql := range []string{`
		SELECT 'event ' || e.id, 'the system did ' || e.kind || ' (SIM ' || coalesce(s.iccid, 'none') || '), which is a person''s to do'
		FROM event e LEFT JOIN sim s ON s.id = e.sim_id
		WHERE e.kind IN ('polling_reopened', 'polling_resumed', 'polling_paused', 'device_polling_paused', 'device_polling_resumed') AND e.actor = 'system'`, `
		SELECT s.iccid, 'its polling is closed since ' || s.closed_at || ' and its history does not say why'
		FROM sim s WHERE s.closed_at IS NOT NULL AND NOT EXISTS (SELECT FROM event e WHERE e.sim_id = s.id AND e.kind = 'polling_closed')`,
	} {
		if err := c.each(ctx, "V10", sql); err != nil {
			return err
		}
	}
	var marked []string
	if err := c.DB.QueryRow(ctx, `SELECT coalesce(array_agg(DISTINCT extended), '{}') FROM error_rule WHERE close_polling`).Scan(&marked); err != nil {
		return fmt.Errorf("V10: %w", err)
	}
	rows, err := c.DB.Query(ctx, `
		SELECT e.id, s.iccid, a.name, e.at, e.actor, coalesce(e.data->>'extended_state', '')
		FROM event e JOIN sim s ON s.id = e.sim_id JOIN account a ON a.id = s.account_id WHERE e.kind = 'polling_closed' ORDER BY e.id`)
	if err != nil {
		return fmt.Errorf("V10: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[closing])
	if err != nil {
		return fmt.Errorf("V10: %w", err)
	}
	for _, e := range list {
		c.report.Looked.Closings++
		if !c.told(e, slices.Contains(marked, e.Extended)) {
			c.found("V10", e.ICCID, "its polling was closed at %s as %q, and nothing that the carrier had answered about it says so", e.At, e.Extended)
		}
	}
	return nil
}

// told says that an answer of the carrier about the very SIM allows to close its polling. marked says
// that a rule of that extended state closes polling.
func (c *checker) told(e closing, marked bool) bool {
	return slices.ContainsFunc(c.Lines, func(l Line) bool {
		// The database keeps microseconds.
		if l.Account != e.Account || l.Kind == "execution" || l.ArrivedAt.Truncate(time.Microsecond).After(e.At) || e.At.Sub(l.endedAt()) > toldWithin {
			return false
		}
		switch {
		case l.Kind == "list" && l.ICCID == "":
			return l.Answer == "ok" && (distorted(l, ofDistortion...) || c.wasStopped(e, l))
		case l.ICCID != e.ICCID:
			return false
		case l.Kind == "read" && l.understood() && l.StateAnswered != "":
			return stopped(e.Extended, l.StateAnswered)
		case l.Kind == "read":
			return marked && l.Answer != "ok"
		case l.Kind == "change":
			a := c.byReq[l.RequestID]
			return a != nil && a.Outcome == "error" && c.closers[a.Rule] && l.Answer != "ok"
		}
		return false
	})
}

// stopped says that a state which the carrier tells is one in which the extended state may be so.
func stopped(extended string, told simwarden.State) bool {
	if extended == string(simwarden.ExtendedTerminated) {
		return told == simwarden.StateTerminated
	}
	return told != simwarden.StateActive
}

// wasStopped says that a list may have shown the SIM in a state that closes polling: it truly was in one
// then or a while before, or there is no history to know it by.
func (c *checker) wasStopped(e closing, l Line) bool {
	moments, known := c.History[e.ICCID]
	if !known {
		return true
	}
	since := l.endedAt().Add(-toldWithin)
	for i, m := range moments {
		over := i+1 < len(moments) && moments[i+1].At.Before(since)
		if !over && !m.At.After(l.endedAt()) && stopped(e.Extended, m.State) {
			return true
		}
	}
	return false
}

// distorted says that one of the faults has struck the request.
func distorted(l Line, faults ...string) bool {
	for name := range strings.SplitSeq(l.Fault, ",") {
		if slices.Contains(faults, name) {
			return true
		}
	}
	return false
}
