package check

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// causes is V1: each plan end or refund that was committed has, with its id and scene, a command
// or an evaluation request. Requests worked off are kept for a week, so those ends alone are looked at.
func (c *checker) causes(ctx context.Context) error {
	return c.each(ctx, "V1", `
		SELECT 'subscription ' || b.id, 'it is ' || b.state || ' and neither a command nor an evaluation request speaks of it'
		FROM subscription b
		WHERE b.state IN ('expired', 'refunded') AND b.kind = 'main' AND b.start_at IS NOT NULL
		  AND b.ended_at > $1::timestamptz - interval '7 days'
		  AND NOT EXISTS (SELECT FROM command c WHERE c.subscription_id = b.id
			AND c.scene = CASE b.state WHEN 'expired' THEN 'plan_lapsed' ELSE 'refunded' END)
		  AND NOT EXISTS (SELECT FROM evaluation_request e WHERE e.subscription_id = b.id
			AND e.scene IN ('plan_check', CASE b.state WHEN 'expired' THEN 'plan_lapsed' ELSE 'refunded' END))
		  -- The one that follows speaks for both: another main plan took over, or ended in the same transaction.
		  AND NOT EXISTS (SELECT FROM subscription n JOIN evaluation_request e ON e.subscription_id = n.id AND e.scene IN ('queued_activated', 'topped_up', 'plan_lapsed')
			WHERE n.id > b.id AND n.kind = 'main' AND (n.sim_id = b.sim_id OR n.device_id = b.device_id))`, c.Now)
}

// deviceCauses is V1 for devices: a request for a device is worked off by judging each SIM that was in
// it then, so that none of them runs on as if the plan had not ended.
func (c *checker) deviceCauses(ctx context.Context) error {
	return c.each(ctx, "V1", `
		SELECT s.iccid, 'the ' || e.scene || ' of its device''s subscription ' || e.subscription_id || ' was worked off at ' || e.done_at ||
			' and its last decision is of ' || coalesce(p.decided_at::text, 'never') || ': ' || p.desired
		FROM evaluation_request e JOIN device_sim_history h ON h.device_id = e.device_id AND h.bound_at < e.done_at
			AND coalesce(h.unbound_at, 'infinity') > e.done_at
		JOIN sim s ON s.id = h.sim_id JOIN poll_state p ON p.sim_id = s.id
		WHERE e.scene IN ('plan_lapsed', 'refunded') AND e.subscription_id IS NOT NULL AND e.done_at IS NOT NULL
		  AND p.desired = 'running' AND p.decided_at < e.asked_at
		  AND NOT EXISTS (SELECT FROM subscription n WHERE n.device_id = e.device_id AND n.kind = 'main' AND n.id <> e.subscription_id
			AND n.start_at <= e.done_at AND n.end_at > e.done_at)`)
}

// lapses is V11: a subscription expires once and not before its end; its successor starts once,
// where it ended, without gap or overlap.
func (c *checker) lapses(ctx context.Context) error {
	if err := c.DB.QueryRow(ctx, `SELECT count(*) FROM subscription WHERE state = 'expired'`).Scan(&c.report.Looked.Lapses); err != nil {
		return fmt.Errorf("V11: %w", err)
	}
	if err := c.each(ctx, "V11", `
		SELECT 'subscription ' || id, 'expired at ' || ended_at || ', before its end ' || end_at
		FROM subscription WHERE state = 'expired' AND ended_at < end_at`); err != nil {
		return err
	}
	if err := c.each(ctx, "V11", `
		SELECT 'subscription ' || (data->>'subscription_id'), kind || ' happened ' || count(*) || ' times'
		FROM event WHERE kind IN ('plan_lapsed', 'plan_activated') GROUP BY data->>'subscription_id', kind HAVING count(*) > 1`); err != nil {
		return err
	}
	if err := c.each(ctx, "V11", `
		SELECT 'subscription ' || n.id, 'it was queued and began at ' || n.start_at || ', where no other main plan of the asset ended'
		FROM subscription n JOIN event e ON e.kind = 'plan_activated' AND (e.data->>'subscription_id')::bigint = n.id
		WHERE NOT EXISTS (SELECT FROM event m WHERE m.kind = 'plan_moved' AND (m.data->>'subscription_id')::bigint = n.id)
		  AND NOT (n.activation IN ('first_use', 'realname') AND n.start_at IS NOT DISTINCT FROM least(n.ready_at, n.activate_by))
		  AND NOT EXISTS (SELECT FROM subscription b WHERE b.id <> n.id AND b.kind = 'main' AND (b.sim_id = n.sim_id OR b.device_id = n.device_id)
			AND (b.state = 'expired' AND b.end_at = n.start_at OR b.state = 'refunded' AND b.ended_at = n.start_at))`); err != nil {
		return err
	}
	return c.each(ctx, "V11", `
		WITH main AS ( -- one that came to a device with a SIM counts there from then on
			SELECT b.id, b.sim_id, b.device_id, b.state, greatest(b.start_at, m.at) AS start_at, b.end_at
			FROM subscription b LEFT JOIN (SELECT (data->>'subscription_id')::bigint AS id, max(at) AS at FROM event
				WHERE kind = 'plan_moved' GROUP BY 1) m ON m.id = b.id
			WHERE b.kind = 'main'
		)
		SELECT 'subscription ' || b.id, 'it overlaps subscription ' || a.id || ' of the same asset'
		FROM main a JOIN main b ON b.id > a.id AND (a.sim_id = b.sim_id OR a.device_id = b.device_id)
		WHERE a.state <> 'refunded' AND b.state <> 'refunded' AND a.start_at < b.end_at AND b.start_at < a.end_at`)
}

// span is a stretch of time of one SIM; an open one ends at the check.
type span struct {
	from, until time.Time
}

// spans reads from the events when each SIM was in something that kinds begin and others end.
func (c *checker) spans(ctx context.Context, begin, end []string) (map[int64][]span, error) {
	rows, err := c.DB.Query(ctx, `
		SELECT sim_id, at, kind = ANY($1) FROM event WHERE sim_id IS NOT NULL AND (kind = ANY($1) OR kind = ANY($2)) ORDER BY id`, begin, end)
	if err != nil {
		return nil, err
	}
	out := map[int64][]span{}
	open := map[int64]bool{}
	var sim int64
	var at time.Time
	var begins bool
	_, err = pgx.ForEachRow(rows, []any{&sim, &at, &begins}, func() error {
		switch {
		case begins && !open[sim]:
			out[sim] = append(out[sim], span{from: at, until: c.Now.Add(time.Hour)})
			open[sim] = true
		case !begins && open[sim]:
			list := out[sim]
			list[len(list)-1].until = at
			open[sim] = false
		}
		return nil
	})
	return out, err
}

// racing is how long a transaction may have waited for its SIM: events and claims have the instant at
// which theirs began, and of two so near each other the order is not known.
const racing = 250 * time.Millisecond

func within(spans []span, at time.Time) bool {
	for _, s := range spans {
		if at.After(s.from.Add(racing)) && at.Before(s.until.Add(-racing)) {
			return true
		}
	}
	return false
}

// pausesAreKept is V9: a SIM whose polling is paused or closed gets no automatic request save the
// suspends of ended plans, and of those one command per subscription and scene, for ever: also when
// polling goes on, the lapse has had its turn. A pause may be the SIM's own or its device's.
func (c *checker) pausesAreKept(ctx context.Context) error {
	paused, err := c.spans(ctx, []string{"polling_paused", "polling_closed"}, []string{"polling_resumed", "polling_reopened"})
	if err != nil {
		return fmt.Errorf("V9: %w", err)
	}
	devices, err := c.spans(ctx, []string{"device_polling_paused"}, []string{"device_polling_resumed"})
	if err != nil {
		return fmt.Errorf("V9: %w", err)
	}
	for sim, spans := range devices {
		paused[sim] = append(paused[sim], spans...)
	}
	for _, a := range c.attempts {
		if a.CmdScene == simwarden.SceneManual || !within(paused[a.SIMID], a.ClaimedAt) {
			continue
		}
		if !a.CmdScene.EndsPlan() || a.Direction != simwarden.DirectionSuspend {
			c.found("V9", a.ICCID, "%s of scene %s was sent at %s while its polling was stopped", a.Direction, a.CmdScene, a.ClaimedAt)
		}
	}
	rows, err := c.DB.Query(ctx, `
		SELECT c.sim_id, s.iccid, c.subscription_id, c.scene, c.created_at FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE c.scene IN ('plan_lapsed', 'refunded') AND c.subscription_id IS NOT NULL AND c.state <> 'observed' ORDER BY c.id`)
	if err != nil {
		return fmt.Errorf("V9: %w", err)
	}
	type trigger struct {
		sim, sub int64
		scene    string
	}
	seen, stopped := map[trigger]int{}, map[trigger]bool{}
	var t trigger
	var iccid string
	var at time.Time
	_, err = pgx.ForEachRow(rows, []any{&t.sim, &iccid, &t.sub, &t.scene, &at}, func() error {
		seen[t]++
		stopped[t] = stopped[t] || within(paused[t.sim], at)
		if seen[t] > 1 && stopped[t] {
			c.found("V9", iccid, "subscription %d has triggered %s more than once while polling was stopped", t.sub, t.scene)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("V9: %w", err)
	}
	return nil
}

// holdsAreKept is V14: no automatic resume is sent while a person holds the SIM suspended.
func (c *checker) holdsAreKept(ctx context.Context) error {
	held, err := c.spans(ctx, []string{"manual_hold"}, []string{"manual_hold_lifted"})
	if err != nil {
		return fmt.Errorf("V14: %w", err)
	}
	for _, a := range c.attempts {
		if a.Direction == simwarden.DirectionResume && a.CmdScene != simwarden.SceneManual && within(held[a.SIMID], a.ClaimedAt) {
			c.found("V14", a.ICCID, "a resume of scene %s was sent at %s although a person holds it suspended", a.CmdScene, a.ClaimedAt)
		}
	}
	return nil
}

// recordsAreThere is V18: each command that has ended has left one record, and no other has.
func (c *checker) recordsAreThere(ctx context.Context) error {
	return c.each(ctx, "V18", `
		SELECT 'command ' || c.id, 'it is ' || c.state || ' and has ' || count(r.command_id) || ' records'
		FROM command c LEFT JOIN command_record r ON r.command_id = c.id
		GROUP BY c.id
		HAVING count(r.command_id) <> CASE WHEN c.state IN ('queued', 'sending', 'verifying', 'confirming') THEN 0 ELSE 1 END`)
}

// calm is V12: after the calm phase every SIM is at the carrier as decided, or something named says
// why not, and nothing open is older than its bound.
func (c *checker) calm(ctx context.Context) error {
	if c.OpenBound <= 0 {
		return nil
	}
	before := len(c.report.Violations)
	if err := c.each(ctx, "V12", `
		SELECT 'command ' || c.id, c.direction || ' is ' || c.state || ' since ' || c.created_at || ' and nothing named holds it'
		FROM command c JOIN account a ON a.id = c.account_id
		WHERE c.state IN ('queued', 'sending', 'verifying', 'confirming') AND c.created_at < $1 AND c.held_by = '' AND a.stopped_at IS NULL
		  AND c.run_at < $1`, c.Now.Add(-c.OpenBound)); err != nil {
		return err
	}
	c.report.OpenOverBound = len(c.report.Violations) - before
	if err := c.each(ctx, "V12", `
		SELECT 'evaluation ' || id, 'scene ' || scene || ' is due since ' || run_at FROM evaluation_request
		WHERE done_at IS NULL AND run_at < $1 AND tries < 3`, c.Now.Add(-c.OpenBound)); err != nil {
		return err
	}
	if c.Truth == nil {
		return nil
	}
	return c.drift(ctx)
}

func (c *checker) drift(ctx context.Context) error {
	rows, err := c.DB.Query(ctx, `
		SELECT s.iccid, p.desired, p.reason, p.state
		FROM sim s JOIN poll_state p ON p.sim_id = s.id JOIN account a ON a.id = s.account_id LEFT JOIN device d ON d.id = s.device_id
		WHERE p.desired <> 'leave'
		  -- The named ends: observe, a stopped account, the brake, a failure that waits, a person's or a policy's hold.
		  AND a.mode = 'act' AND a.stopped_at IS NULL
		  AND NOT (a.braked_at IS NOT NULL AND p.desired = 'suspended')
		  AND NOT (s.reopen_at IS NOT NULL AND s.reopen_at > $1)
		  -- A resume that waits for facts fresh enough to rest on (E11), while their reading is to come.
		  AND NOT (p.because = 'facts_too_old' AND greatest(p.state_due_at, p.usage_due_at, p.realname_due_at) > $2)
		  AND s.drifting_at IS NULL AND s.paused_at IS NULL AND d.paused_at IS NULL AND s.closed_at IS NULL
		  AND NOT EXISTS (SELECT FROM command c WHERE c.sim_id = s.id AND c.state IN ('queued', 'sending', 'verifying', 'confirming'))`, c.Now, c.Now.Add(-c.OpenBound))
	if err != nil {
		return fmt.Errorf("V12: %w", err)
	}
	var iccid, desired, reason, seen string
	_, err = pgx.ForEachRow(rows, []any{&iccid, &desired, &reason, &seen}, func() error {
		truth, known := c.Truth[iccid]
		if !known {
			return nil
		}
		c.report.Looked.SIMs++
		wrong := desired == string(simwarden.DesiredRunning) && truth == simwarden.StateSuspended ||
			desired == string(simwarden.DesiredSuspended) && truth == simwarden.StateActive
		if wrong {
			v := Violation{"V12", iccid, fmt.Sprintf("it is %s at the carrier, last read %s, wanted %s (%s), and nothing is under way", truth, seen, desired, reason)}
			c.report.Drift = append(c.report.Drift, v)
			c.report.Violations = append(c.report.Violations, v)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("V12: %w", err)
	}
	return nil
}
