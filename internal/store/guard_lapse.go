package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// HastyLapse is how many SIMs of an account lose their main plan by ends that one import or edit wrote
// shortly ahead (C10). What was written within a day is one: a typing error comes in slices too.
type HastyLapse struct {
	AccountID simwarden.AccountID
	SIMs      int   // that may carry traffic: due now, and lapsed within the window of the account's brake
	Active    int   // of the account, those that may carry traffic
	GuardID   int64 // the account's open guard, 0 where there is none
}

// hastySIMs are the SIMs of the assets whose main plan ends in haste.
const hastySIMs = `
	FROM subscription b JOIN sim s ON s.id = b.sim_id OR b.sim_id IS NULL AND s.device_id = b.device_id JOIN poll_state p ON p.sim_id = s.id
	WHERE b.hasty_at IS NOT NULL`

// LapsesInQuestion says of due plan ends whether one of them is hasty, and whether any guard keeps
// plans of an account from lapsing.
func (tx *Tx) LapsesInQuestion(ctx context.Context, due []simwarden.SubscriptionID) (hasty, guarded bool, err error) {
	err = tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM subscription WHERE id = ANY($1) AND hasty_at IS NOT NULL),
			EXISTS (SELECT FROM guard WHERE kind = 'mass_lapse' AND released_at IS NULL)`, subscriptionIDs(due)).Scan(&hasty, &guarded)
	if err != nil {
		err = fmt.Errorf("look at %d plan ends: %w", len(due), err)
	}
	return hasty, guarded, err
}

// HastyLapses tells what lapses in haste at the accounts of those of the due subscriptions that do.
func (tx *Tx) HastyLapses(ctx context.Context, due []simwarden.SubscriptionID) ([]HastyLapse, error) {
	rows, err := tx.Query(ctx, `
		WITH touched AS (SELECT DISTINCT s.account_id `+hastySIMs+` AND b.id = ANY($2)),
		coming AS (
			SELECT s.account_id, s.id, b.hasty_at `+hastySIMs+` AND b.state IN ('active', 'exhausted') AND b.guard_id IS NULL AND b.end_at <= $1
				AND p.state NOT IN ('suspended', 'terminated')
			UNION
			SELECT s.account_id, s.id, b.hasty_at `+hastySIMs+` AND b.state = 'expired' AND b.ended_at > $1 - interval '1 day'
				AND b.ended_at > $1 - (SELECT a.brake_window_seconds FROM account a WHERE a.id = s.account_id) * interval '1 second'),
		written AS (
			SELECT account_id, count(*) OVER (PARTITION BY account_id ORDER BY hasty_at RANGE BETWEEN interval '1 day' PRECEDING AND CURRENT ROW) AS sims
			FROM coming)
		SELECT t.account_id, (SELECT coalesce(max(w.sims), 0) FROM written w WHERE w.account_id = t.account_id),
			(SELECT count(*) FROM poll_state p WHERE p.account_id = t.account_id AND p.state NOT IN ('suspended', 'terminated')),
			coalesce((SELECT g.id FROM guard g WHERE g.kind = 'mass_lapse' AND g.account_id = t.account_id AND g.released_at IS NULL), 0)
		FROM touched t ORDER BY t.account_id`, tx.At, subscriptionIDs(due))
	if err != nil {
		return nil, fmt.Errorf("hasty plan ends: %w", err)
	}
	defer rows.Close()
	var out []HastyLapse
	for rows.Next() {
		var h HastyLapse
		if err := rows.Scan(&h.AccountID, &h.SIMs, &h.Active, &h.GuardID); err != nil {
			return nil, fmt.Errorf("hasty plan ends: %w", err)
		}
		out = append(out, h)
	}
	return out, rows.Err()
}

// HoldLapses opens a guard for an account's hasty plan ends, where none is open, and puts under it
// those that are due, with whatever else of their assets is. Those that another node has locked it
// passes over: that node finds the guard. It gives the guard's id and how many it holds now.
func (tx *Tx) HoldLapses(ctx context.Context, account simwarden.AccountID, because string) (id int64, held int64, err error) {
	id, err = tx.openGuard(ctx, GuardMassLapse, account, because, "these plan ends wait, and so does what they lead to,")
	if err != nil {
		return 0, 0, err
	}
	tag, err := tx.Exec(ctx, `
		WITH hasty AS (
			SELECT b.sim_id, b.device_id `+hastySIMs+` AND b.state IN ('active', 'exhausted') AND b.guard_id IS NULL AND b.end_at <= $1 AND s.account_id = $2),
		due AS (
			SELECT b.id FROM subscription b
			WHERE b.state IN ('active', 'exhausted') AND b.guard_id IS NULL AND b.end_at <= $1
				AND (b.sim_id IN (SELECT sim_id FROM hasty) OR b.device_id IN (SELECT device_id FROM hasty))
			FOR UPDATE OF b SKIP LOCKED)
		UPDATE subscription b SET guard_id = $3 FROM due WHERE b.id = due.id`, tx.At, account, id)
	if err != nil {
		return 0, 0, fmt.Errorf("hold plan ends of account %d: %w", account, err)
	}
	return id, tag.RowsAffected(), nil
}

// HoldBeside puts those of the due subscriptions under a guard whose asset has another one under it:
// nothing of such an asset lapses. Held gives, of the due ones, all that a guard holds now.
func (tx *Tx) HoldBeside(ctx context.Context, due []simwarden.SubscriptionID) error {
	_, err := tx.Exec(ctx, `
		UPDATE subscription b SET guard_id = o.guard_id
		FROM subscription o
		WHERE b.id = ANY($1) AND b.guard_id IS NULL AND o.guard_id IS NOT NULL AND o.state IN ('active', 'exhausted')
			AND (o.sim_id = b.sim_id OR o.device_id = b.device_id)`, subscriptionIDs(due))
	if err != nil {
		return fmt.Errorf("hold plan ends: %w", err)
	}
	return nil
}

// Held gives those of the subscriptions that a guard holds.
func (tx *Tx) Held(ctx context.Context, ids []simwarden.SubscriptionID) (map[simwarden.SubscriptionID]bool, error) {
	rows, err := tx.Query(ctx, `SELECT id FROM subscription WHERE id = ANY($1) AND guard_id IS NOT NULL`, subscriptionIDs(ids))
	if err != nil {
		return nil, fmt.Errorf("held plan ends: %w", err)
	}
	defer rows.Close()
	out := map[simwarden.SubscriptionID]bool{}
	for rows.Next() {
		var id simwarden.SubscriptionID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("held plan ends: %w", err)
		}
		out[id] = true
	}
	return out, rows.Err()
}

// MassEnd is when most main plans of an account end at once by what the transaction wrote.
type MassEnd struct {
	AccountID simwarden.AccountID
	EndAt     time.Time // the first of them; the transaction's instant where they are over already
	SIMs      int       // that may carry traffic, within ten minutes from EndAt
	Active    int       // of the account, those that may carry traffic
}

// MassEnds tells, for each account that has some, of the ends that this transaction has written in haste.
func (tx *Tx) MassEnds(ctx context.Context) ([]MassEnd, error) {
	rows, err := tx.Query(ctx, `
		WITH ends AS (
			SELECT s.account_id, s.id, greatest(b.end_at, $1) AS end_at `+hastySIMs+` AND b.hasty_at = $1
				AND b.state IN ('active', 'exhausted') AND b.guard_id IS NULL AND p.state NOT IN ('suspended', 'terminated')),
		counted AS (
			SELECT account_id, end_at, count(*) OVER (PARTITION BY account_id ORDER BY end_at RANGE BETWEEN CURRENT ROW AND interval '10 minutes' FOLLOWING) AS sims
			FROM ends)
		SELECT DISTINCT ON (account_id) account_id, end_at, sims,
			(SELECT count(*) FROM poll_state p WHERE p.account_id = c.account_id AND p.state NOT IN ('suspended', 'terminated'))
		FROM counted c ORDER BY account_id, sims DESC, end_at`, tx.At)
	if err != nil {
		return nil, fmt.Errorf("plan ends written in haste: %w", err)
	}
	defer rows.Close()
	var out []MassEnd
	for rows.Next() {
		var m MassEnd
		if err := rows.Scan(&m.AccountID, &m.EndAt, &m.SIMs, &m.Active); err != nil {
			return nil, fmt.Errorf("plan ends written in haste: %w", err)
		}
		out = append(out, m)
	}
	return out, rows.Err()
}

// ConfirmEnds keeps that a person stands for the ends of subscriptions, so that no guard will hold them.
// What a guard holds already stays until that is released.
func (tx *Tx) ConfirmEnds(ctx context.Context, ids []simwarden.SubscriptionID) error {
	_, err := tx.Exec(ctx, `UPDATE subscription SET hasty_at = NULL WHERE id = ANY($1) AND hasty_at IS NOT NULL AND guard_id IS NULL`, subscriptionIDs(ids))
	if err != nil {
		return fmt.Errorf("confirm %d plan ends: %w", len(ids), err)
	}
	return nil
}

// How soon after its writing an end comes in haste: where the plan began in the past, and so by a date that
// somebody typed, HastyWithin; else an hour. The trigger subscription_end_written has the same bounds.
const (
	HastyWithin = 7 * 24 * time.Hour
	hastyFor    = time.Hour
)

// hastyAt is what is kept of a main plan whose end is written in haste.
func hastyAt(b simwarden.Subscription, imported bool, at time.Time) *time.Time {
	within := HastyWithin
	if b.StartAt.IsZero() || !b.StartAt.Before(at) {
		within = hastyFor
		if !imported {
			return nil
		}
	}
	if b.Kind != simwarden.PlanMain || b.EndAt.IsZero() || b.EndAt.Sub(at) > within {
		return nil
	}
	return &at
}
