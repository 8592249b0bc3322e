package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// SIMFacts is what a decision and the order that follows need of one SIM. Facts lacks the instant,
// the scene and what the account and its driver say: reconcile adds them.
type SIMFacts struct {
	ID          simwarden.SIMID
	AccountID   simwarden.AccountID
	DeviceID    simwarden.DeviceID
	ICCID       string
	Facts       rules.Facts
	Open        *rules.OpenCommand
	FailedDir   simwarden.Direction
	ReopenAt    time.Time
	DriftingAt  time.Time
	LifetimeB   int64
	CounterB    *int64
	PeriodStart time.Time
	// The decision before.
	Settled bool
	Desired simwarden.Desired
	Reason  simwarden.Reason
	Because string
	// The limit that the carrier should hold for it, and holds (P8); 0: none.
	LimitDesiredB, LimitHeldB int64
	LimitKnown                bool // there is a row of it

	queued bool // a queued main plan was seen
}

// Facts locks the SIMs in the order of their ids and gives their facts in the same order; ids
// that do not exist are left out. Whoever decides or orders for a SIM goes through here, so that
// no two do so at the same time.
func (tx *Tx) Facts(ctx context.Context, ids []simwarden.SIMID) ([]SIMFacts, error) {
	// The lock is a statement of its own: one that waits for a lock still sees other tables as they
	// were when it began, and would miss the command that the holder of the lock has just opened.
	if err := tx.lockSIMs(ctx, ids); err != nil {
		return nil, err
	}
	rows, err := tx.Query(ctx, `
		SELECT s.id, s.account_id, coalesce(s.device_id, 0), s.iccid,
			p.state, p.pending, p.extended, p.raw_state, p.state_read_at,
			p.realname, p.realname_odd, p.realname_read_at, p.usage_read_at, p.usage_true_at,
			s.hold_at, s.hold_by, s.paused_at IS NOT NULL, d.paused_at IS NOT NULL, s.closed_at IS NOT NULL,
			CASE WHEN s.device_id IS NULL THEN s.ever_planned ELSE d.ever_planned END,
			s.failed_direction, s.reopen_at, s.drifting_at, p.lifetime_bytes, p.usage_counter_bytes, p.usage_period_start_at,
			p.settled, p.desired, p.reason, p.because, p.reasons,
			coalesce(c.id, 0), coalesce(c.direction, ''), coalesce(c.state, ''), coalesce(c.scene, ''), coalesce(c.held_by IN ($2, $3), false),
			p.state_since_at, l.sim_id IS NOT NULL, coalesce(l.desired_bytes, 0), coalesce(l.held_bytes, 0)
		FROM poll_state p
		JOIN sim s ON s.id = p.sim_id
		LEFT JOIN device d ON d.id = s.device_id
		LEFT JOIN command c ON c.sim_id = s.id AND c.state IN ('queued', 'sending', 'verifying', 'confirming')
		LEFT JOIN carrier_limit l ON l.sim_id = s.id
		WHERE p.sim_id = ANY($1)
		ORDER BY s.id`, ids, HeldByFlap, HeldByDwell)
	if err != nil {
		return nil, fmt.Errorf("facts of %d sims: %w", len(ids), err)
	}
	defer rows.Close()
	out := make([]SIMFacts, 0, len(ids))
	for rows.Next() {
		var f SIMFacts
		var stateRead, realRead, usageRead, usageTrue, hold, reopen, drifting, period, since *time.Time
		var open rules.OpenCommand
		err := rows.Scan(&f.ID, &f.AccountID, &f.DeviceID, &f.ICCID,
			&f.Facts.State, &f.Facts.Pending, &f.Facts.Extended, &f.Facts.RawState, &stateRead,
			&f.Facts.RealName, &f.Facts.RealNameOdd, &realRead, &usageRead, &usageTrue,
			&hold, &f.Facts.ManualHoldBy, &f.Facts.SIMPaused, &f.Facts.DevicePaused, &f.Facts.Closed,
			&f.Facts.EverPlanned,
			&f.FailedDir, &reopen, &drifting, &f.LifetimeB, &f.CounterB, &period,
			&f.Settled, &f.Desired, &f.Reason, &f.Because, &f.Facts.Held,
			&open.ID, &open.Direction, &open.State, &open.Scene, &open.HeldForFlap,
			&since, &f.LimitKnown, &f.LimitDesiredB, &f.LimitHeldB)
		if err != nil {
			return nil, fmt.Errorf("facts of %d sims: %w", len(ids), err)
		}
		f.Facts.StateReadAt, f.Facts.RealNameAt, f.Facts.UsageReadAt, f.Facts.UsageTrueAt = timeOf(stateRead), timeOf(realRead), timeOf(usageRead), timeOf(usageTrue)
		f.Facts.ManualHold, f.Facts.ManualHoldAt = hold != nil, timeOf(hold)
		f.ReopenAt, f.DriftingAt, f.PeriodStart = timeOf(reopen), timeOf(drifting), timeOf(period)
		if open.ID != 0 {
			f.Open = &open
		}
		if f.LimitHeldB > 0 && f.Facts.State == simwarden.StateSuspended {
			f.Facts.LimitMayStopAt = timeOf(since)
		}
		out = append(out, f)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("facts of %d sims: %w", len(ids), err)
	}
	if err := tx.addSubscriptions(ctx, out); err != nil {
		return nil, err
	}
	return out, tx.addPools(ctx, out)
}

// addSubscriptions fills in what each SIM's asset has bought: the device's where it is in one,
// its own otherwise (E8).
func (tx *Tx) addSubscriptions(ctx context.Context, sims []SIMFacts) error {
	var simIDs []simwarden.SIMID
	var deviceIDs []simwarden.DeviceID
	bySIM := map[simwarden.SIMID][]int{}
	byDevice := map[simwarden.DeviceID][]int{}
	for i := range sims {
		if !sims[i].Facts.EverPlanned {
			continue
		}
		if d := sims[i].DeviceID; d != 0 {
			if byDevice[d] == nil {
				deviceIDs = append(deviceIDs, d)
			}
			byDevice[d] = append(byDevice[d], i)
		} else {
			simIDs = append(simIDs, sims[i].ID)
			bySIM[sims[i].ID] = append(bySIM[sims[i].ID], i)
		}
	}
	if len(simIDs)+len(deviceIDs) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT b.id, coalesce(b.sim_id, 0), coalesce(b.device_id, 0), b.kind, p.code, b.start_at, b.end_at, b.allowance_bytes, b.used_bytes, b.guard_id IS NOT NULL,
			CASE WHEN b.state <> 'queued' THEN '' WHEN least(b.ready_at, b.activate_by) <= $3 THEN 'after_current' ELSE b.activation END,
			coalesce(p.guard_band_bytes, 0), CASE WHEN p.guard_band_bytes IS NULL THEN 0 ELSE p.guard_band_probability END
		FROM subscription b JOIN plan p ON p.id = b.plan_id
		WHERE b.sim_id = ANY($1) AND (b.state IN ('active', 'exhausted') OR b.state = 'queued' AND b.kind = 'main')
		UNION ALL
		SELECT b.id, coalesce(b.sim_id, 0), coalesce(b.device_id, 0), b.kind, p.code, b.start_at, b.end_at, b.allowance_bytes, b.used_bytes, b.guard_id IS NOT NULL,
			CASE WHEN b.state <> 'queued' THEN '' WHEN least(b.ready_at, b.activate_by) <= $3 THEN 'after_current' ELSE b.activation END,
			coalesce(p.guard_band_bytes, 0), CASE WHEN p.guard_band_bytes IS NULL THEN 0 ELSE p.guard_band_probability END
		FROM subscription b JOIN plan p ON p.id = b.plan_id
		WHERE b.device_id = ANY($2) AND (b.state IN ('active', 'exhausted') OR b.state = 'queued' AND b.kind = 'main')
		ORDER BY 7, 1`, simIDs, deviceIDs, tx.At) // what is queued comes last, in its order
	if err != nil {
		return fmt.Errorf("subscriptions of %d sims: %w", len(sims), err)
	}
	defer rows.Close()
	for rows.Next() {
		var b rules.SubscriptionFact
		var sim simwarden.SIMID
		var device simwarden.DeviceID
		var start, end *time.Time
		var held bool
		var waits simwarden.Activation
		if err := rows.Scan(&b.ID, &sim, &device, &b.Kind, &b.PlanCode, &start, &end, &b.AllowanceBytes, &b.UsedBytes, &held, &waits,
			&b.GuardBandBytes, &b.GuardBandProbability); err != nil {
			return fmt.Errorf("subscriptions of %d sims: %w", len(sims), err)
		}
		b.StartAt, b.EndAt = timeOf(start), timeOf(end)
		of := bySIM[sim]
		if device != 0 {
			of = byDevice[device]
		}
		for _, i := range of {
			if waits != "" {
				sims[i].queue(waits)
				continue
			}
			sims[i].Facts.LapseHeld = sims[i].Facts.LapseHeld || held && b.Kind == simwarden.PlanMain
			sims[i].Facts.Subscriptions = append(sims[i].Facts.Subscriptions, b)
		}
	}
	if err := rows.Err(); err != nil {
		return fmt.Errorf("subscriptions of %d sims: %w", len(sims), err)
	}
	if err := tx.addGuardBands(ctx, sims); err != nil {
		return fmt.Errorf("guard bands of %d sims: %w", len(sims), err)
	}
	return tx.addLastEnds(ctx, sims)
}

// addLastEnds fills in when the last main plan ended, for SIMs that have none now: the evidence
// and age of no_plan.
func (tx *Tx) addLastEnds(ctx context.Context, sims []SIMFacts) error {
	var simIDs []simwarden.SIMID
	var deviceIDs []simwarden.DeviceID
	for _, s := range sims {
		if !s.Facts.EverPlanned || hasMain(s.Facts.Subscriptions) {
			continue
		}
		if s.DeviceID != 0 {
			deviceIDs = append(deviceIDs, s.DeviceID)
		} else {
			simIDs = append(simIDs, s.ID)
		}
	}
	if len(simIDs)+len(deviceIDs) == 0 {
		return nil
	}
	rows, err := tx.Query(ctx, `
		SELECT sim_id, 0, max(CASE WHEN state = 'expired' THEN end_at ELSE ended_at END) FROM subscription
		WHERE sim_id = ANY($1) AND kind = 'main' AND ended_at IS NOT NULL AND start_at IS NOT NULL GROUP BY sim_id
		UNION ALL
		SELECT 0, device_id, max(CASE WHEN state = 'expired' THEN end_at ELSE ended_at END) FROM subscription
		WHERE device_id = ANY($2) AND kind = 'main' AND ended_at IS NOT NULL AND start_at IS NOT NULL GROUP BY device_id`, simIDs, deviceIDs)
	if err != nil {
		return fmt.Errorf("last plans of %d sims: %w", len(sims), err)
	}
	defer rows.Close()
	ends := map[[2]int64]time.Time{}
	for rows.Next() {
		var sim, device int64
		var at *time.Time
		if err := rows.Scan(&sim, &device, &at); err != nil {
			return fmt.Errorf("last plans of %d sims: %w", len(sims), err)
		}
		ends[[2]int64{sim, device}] = timeOf(at)
	}
	for i, s := range sims {
		key := [2]int64{int64(s.ID), 0}
		if s.DeviceID != 0 {
			key = [2]int64{0, int64(s.DeviceID)}
		}
		sims[i].Facts.LastPlanEndedAt = ends[key]
	}
	return rows.Err()
}

// queue takes in the asset's queued main plans, in their order: of the first is said what it waits
// for, since those behind it wait for that too (L4).
func (f *SIMFacts) queue(waits simwarden.Activation) {
	if f.queued {
		return
	}
	f.queued = true
	switch waits {
	case simwarden.ActivateFirstUse:
		f.Facts.AwaitsUse = true
	case simwarden.ActivateRealName: // no plan until then
	default:
		f.Facts.MainQueued = true
	}
}

func hasMain(subs []rules.SubscriptionFact) bool {
	for _, s := range subs {
		if s.Kind == simwarden.PlanMain {
			return true
		}
	}
	return false
}

// DecisionRow is one SIM's decision to keep.
type DecisionRow struct {
	SIMID    simwarden.SIMID
	Decision simwarden.Decision
	Settled  bool
}

// WriteDecisions keeps what was decided last for each SIM.
func (tx *Tx) WriteDecisions(ctx context.Context, rows []DecisionRow) error {
	if len(rows) == 0 {
		return nil
	}
	n := len(rows)
	ids, settled := make([]int64, n), make([]bool, n)
	desired, reason, because, reasons, scenes := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, r := range rows {
		ids[i], settled[i] = int64(r.SIMID), r.Settled
		desired[i], reason[i], because[i], scenes[i] = string(r.Decision.Desired), string(r.Decision.Reason), r.Decision.Because, string(r.Decision.Scene)
		b, err := marshalText(r.Decision.Reasons)
		if err != nil {
			return err
		}
		reasons[i] = b
	}
	_, err := tx.Exec(ctx, `
		UPDATE poll_state p SET desired = v.desired, reason = v.reason, because = v.because, reasons = v.reasons::jsonb,
			settled = v.settled, decided_at = $1, decided_scene = v.scene
		FROM unnest($2::bigint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::bool[], $8::text[])
			AS v (sim_id, desired, reason, because, reasons, settled, scene)
		WHERE p.sim_id = v.sim_id`,
		tx.At, ids, desired, reason, because, reasons, settled, scenes)
	if err != nil {
		return fmt.Errorf("write %d decisions: %w", n, err)
	}
	return nil
}

// SetDrifting marks or clears that a SIM is not in its wanted state and nothing is under way.
func (tx *Tx) SetDrifting(ctx context.Context, id simwarden.SIMID, because string) error {
	var err error
	if because == "" {
		_, err = tx.Exec(ctx, `UPDATE sim SET drifting_at = NULL, drifting_because = '' WHERE id = $1 AND drifting_at IS NOT NULL`, id)
	} else {
		_, err = tx.Exec(ctx, `UPDATE sim SET drifting_at = coalesce(drifting_at, $2), drifting_because = $3 WHERE id = $1`, id, tx.At, because)
	}
	if err != nil {
		return fmt.Errorf("drift of sim %d: %w", id, err)
	}
	return nil
}
