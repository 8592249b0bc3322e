package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// MarkPlanned keeps that an asset has had a main plan (E2).
func (tx *Tx) MarkPlanned(ctx context.Context, a Asset) error {
	var err error
	if a.DeviceID != 0 {
		_, err = tx.Exec(ctx, `UPDATE device SET ever_planned = true WHERE id = $1 AND NOT ever_planned`, a.DeviceID)
	} else {
		_, err = tx.Exec(ctx, `UPDATE sim SET ever_planned = true WHERE id = $1 AND NOT ever_planned`, a.SIMID)
	}
	if err != nil {
		return fmt.Errorf("mark an asset as planned: %w", err)
	}
	return nil
}

// Verified says whether a SIM of the asset is verified by its real name, or exempt from it, and keeps that so for the
// rest of the transaction: a reading that says otherwise comes before or after. The asset's lock is
// the caller's.
func (tx *Tx) Verified(ctx context.Context, a Asset) (bool, error) {
	var verified bool
	err := tx.QueryRow(ctx, `
		WITH locked AS MATERIALIZED (
			SELECT realname FROM poll_state
			WHERE sim_id = ANY(ARRAY(SELECT id FROM sim WHERE id = $1 OR device_id = $2)) ORDER BY sim_id FOR SHARE)
		SELECT coalesce(bool_or(realname IN ('verified', 'exempt')), false) FROM locked`,
		nullID(int64(a.SIMID)), nullID(int64(a.DeviceID))).Scan(&verified)
	if err != nil {
		return false, fmt.Errorf("real names of sim %d, device %d: %w", a.SIMID, a.DeviceID, err)
	}
	return verified, nil
}

// wakeVerified lets what was bought to begin on real-name verification begin now, for those of the
// SIMs, and their devices, that are verified or exempt (L4).
func (tx *Tx) wakeVerified(ctx context.Context, sims []int64) error {
	if len(sims) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		WITH verified AS MATERIALIZED (
			SELECT s.id, s.device_id FROM poll_state p JOIN sim s ON s.id = p.sim_id WHERE p.sim_id = ANY($1) AND p.realname IN ('verified', 'exempt')),
		waiting AS MATERIALIZED (
			SELECT b.id FROM verified v JOIN subscription b ON b.sim_id = v.id
			WHERE b.state = 'queued' AND b.activation = 'realname' AND b.ready_at IS NULL
			UNION
			SELECT b.id FROM verified v JOIN subscription b ON b.device_id = v.device_id
			WHERE b.state = 'queued' AND b.activation = 'realname' AND b.ready_at IS NULL)
		UPDATE subscription SET ready_at = $2, wake_at = $2 WHERE id IN (SELECT id FROM waiting) AND state = 'queued' AND ready_at IS NULL`,
		sims, tx.At)
	if err != nil {
		return fmt.Errorf("wake what waits for the real names of %d sims: %w", len(sims), err)
	}
	return nil
}

// FirstUse is usage that a queued subscription bears, since it is what it begins with.
type FirstUse struct {
	ID        simwarden.SubscriptionID
	UsedBytes int64
	// UsedAt is the instant to which the usage belongs. UTC.
	UsedAt time.Time
}

// BookFirstUse adds usage to queued subscriptions, and lets those that wait for their first use begin
// at it (L4).
func (tx *Tx) BookFirstUse(ctx context.Context, rows []FirstUse) error {
	if len(rows) == 0 {
		return nil
	}
	ids, used, at := make([]int64, len(rows)), make([]int64, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		ids[i], used[i], at[i] = int64(r.ID), r.UsedBytes, r.UsedAt
	}
	_, err := tx.Exec(ctx, `
		UPDATE subscription b SET used_bytes = b.used_bytes + v.used,
			ready_at = CASE WHEN b.activation = 'first_use' THEN least(b.ready_at, v.used_at) ELSE b.ready_at END,
			wake_at = least(b.wake_at, v.used_at)
		FROM (SELECT id, sum(used)::bigint AS used, min(used_at) AS used_at
		      FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) AS u (id, used, used_at) GROUP BY id) v
		WHERE b.id = v.id AND b.state = 'queued'`, ids, used, at)
	if err != nil {
		return fmt.Errorf("first use of %d subscriptions: %w", len(rows), err)
	}
	return nil
}

// TakeWoken locks up to limit queued subscriptions that have something to begin with now, for the
// rest of the transaction; others pass over them. Those in except are left out.
func (tx *Tx) TakeWoken(ctx context.Context, limit int, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
	return subscriptions(ctx, tx, `
		WHERE `+startDue+` AND b.id <> ALL($3)
		ORDER BY b.wake_at, b.id LIMIT $2 FOR UPDATE OF b SKIP LOCKED`, tx.At, limit, subscriptionIDs(except))
}

// Rest lets queued subscriptions that were looked at, and that others have to end before, wait for
// that; those that begin by themselves later are looked at again then.
func (tx *Tx) Rest(ctx context.Context, ids []simwarden.SubscriptionID) error {
	_, err := tx.Exec(ctx, `
		UPDATE subscription SET wake_at = CASE WHEN activate_by > $2 THEN activate_by END
		WHERE id = ANY($1) AND state = 'queued'`, subscriptionIDs(ids), tx.At)
	if err != nil {
		return fmt.Errorf("rest %d subscriptions: %w", len(ids), err)
	}
	return nil
}
