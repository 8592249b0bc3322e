package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// BindSIM puts a SIM into a device, both locked before; ErrBound where it is in one. A renewal of the
// SIM's own that waits for money is off: from now on the device's plans count.
func (tx *Tx) BindSIM(ctx context.Context, sim simwarden.SIMID, device simwarden.DeviceID, by, reason string) error {
	tag, err := tx.Exec(ctx, `UPDATE sim SET device_id = $2 WHERE id = $1 AND device_id IS NULL`, sim, device)
	if err == nil && tag.RowsAffected() == 0 {
		return fmt.Errorf("sim %d: %w", sim, ErrBound)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `
			INSERT INTO device_sim_history (sim_id, device_id, bound_at, bound_by, bound_reason) VALUES ($1, $2, $3, $4, $5)`,
			sim, device, tx.At, by, reason)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `DELETE FROM renewal_wait WHERE sim_id = $1`, sim)
	}
	if IsUnique(err, "device_sim_open") {
		return fmt.Errorf("sim %d: %w", sim, ErrBound)
	}
	if err != nil {
		return fmt.Errorf("bind sim %d to device %d: %w", sim, device, err)
	}
	return nil
}

// UnbindSIM takes a SIM out of a device, both locked before; ErrNotBound where it is not in it. A SIM
// that was served by a device's plan has had one: it is not left alone afterwards (E2).
func (tx *Tx) UnbindSIM(ctx context.Context, sim simwarden.SIMID, device simwarden.DeviceID, by, reason string) error {
	tag, err := tx.Exec(ctx, `
		UPDATE sim s SET device_id = NULL, ever_planned = s.ever_planned OR d.ever_planned
		FROM device d WHERE s.id = $1 AND s.device_id = $2 AND d.id = $2`, sim, device)
	if err == nil && tag.RowsAffected() == 0 {
		return fmt.Errorf("sim %d: %w", sim, ErrNotBound)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `
			UPDATE device_sim_history SET unbound_at = greatest($3, bound_at), unbound_by = $4, unbound_reason = $5
			WHERE sim_id = $1 AND device_id = $2 AND unbound_at IS NULL`, sim, device, tx.At, by, reason)
	}
	if err != nil {
		return fmt.Errorf("unbind sim %d from device %d: %w", sim, device, err)
	}
	return nil
}

// HandDownRequests asks of a SIM what is still being asked of the device that it leaves: the end of
// the device's plan must not be lost for it (C1, E6).
func (tx *Tx) HandDownRequests(ctx context.Context, device simwarden.DeviceID, sim simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO evaluation_request (sim_id, scene, cause_kind, cause_id, subscription_id, manual, asked_by, asked_at, run_at)
		SELECT $2, scene, cause_kind, cause_id, subscription_id, manual, asked_by, asked_at, run_at
		FROM evaluation_request WHERE device_id = $1 AND done_at IS NULL ORDER BY id`, device, sim)
	if err != nil {
		return fmt.Errorf("hand requests of device %d down to sim %d: %w", device, sim, err)
	}
	return nil
}

// MoveSubscriptions makes what is live of a SIM's own subscriptions the device's, both locked before,
// and gives their ids.
func (tx *Tx) MoveSubscriptions(ctx context.Context, sim simwarden.SIMID, device simwarden.DeviceID) ([]simwarden.SubscriptionID, error) {
	return scanAll(fmt.Sprintf("move subscriptions of sim %d", sim), scanID[simwarden.SubscriptionID])(tx.Query(ctx, `
		WITH moved AS (
			UPDATE subscription SET sim_id = NULL, device_id = $2
			WHERE sim_id = $1 AND state IN ('active', 'exhausted', 'queued') RETURNING id, kind
		), planned AS (
			UPDATE device SET ever_planned = true WHERE id = $2 AND EXISTS (SELECT FROM moved WHERE kind = 'main')
		)
		SELECT id FROM moved ORDER BY id`, sim, device))
}

// UnsettleSIMs makes the next reading of each SIM go through a full decision, and has its polling looked
// at again at once.
func (tx *Tx) UnsettleSIMs(ctx context.Context, ids []simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `
		WITH p AS (
			UPDATE poll_state SET settled = false, state_due_at = $2, usage_due_at = $2, realname_due_at = $2
			WHERE sim_id = ANY($1) RETURNING sim_id, account_id, shard
		)
		INSERT INTO poll_nudge (sim_id, account_id, shard, due_at) SELECT sim_id, account_id, shard, $2 FROM p ORDER BY sim_id
		ON CONFLICT (sim_id) DO UPDATE SET due_at = excluded.due_at`, ids, tx.At)
	if err != nil {
		return fmt.Errorf("nudge %d sims: %w", len(ids), err)
	}
	return nil
}

// BindingFilter names a SIM or a device. Before is the id of the last one of the page before, 0 for
// the first page.
type BindingFilter struct {
	SIMID    simwarden.SIMID
	DeviceID simwarden.DeviceID
	Before   int64
	Limit    int
}

// Bindings lists the stays of SIMs in devices, the newest first.
func (s *Store) Bindings(ctx context.Context, f BindingFilter) ([]Binding, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT h.id, h.sim_id, s.iccid, h.device_id, coalesce(d.imei, ''), h.bound_at, h.bound_by, h.bound_reason,
			h.unbound_at, h.unbound_by, h.unbound_reason
		FROM device_sim_history h JOIN sim s ON s.id = h.sim_id JOIN device d ON d.id = h.device_id
		WHERE ($1::bigint = 0 OR h.sim_id = $1) AND ($2::bigint = 0 OR h.device_id = $2) AND ($3::bigint = 0 OR h.id < $3)
		ORDER BY h.id DESC LIMIT $4`, f.SIMID, f.DeviceID, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("list bindings: %w", err)
	}
	defer rows.Close()
	out := []Binding{}
	for rows.Next() {
		var b Binding
		var unbound *time.Time
		if err := rows.Scan(&b.ID, &b.SIMID, &b.ICCID, &b.DeviceID, &b.IMEI, &b.BoundAt, &b.BoundBy, &b.BoundReason,
			&unbound, &b.UnboundBy, &b.UnboundReason); err != nil {
			return nil, fmt.Errorf("list bindings: %w", err)
		}
		b.BoundAt, b.UnboundAt = b.BoundAt.UTC(), timeOf(unbound)
		out = append(out, b)
	}
	return out, rows.Err()
}

// SubscriptionsOfDevice gives the latest of a device's subscriptions, ended ones too, newest first.
func (s *Store) SubscriptionsOfDevice(ctx context.Context, device simwarden.DeviceID, limit int) ([]simwarden.Subscription, error) {
	return subscriptions(ctx, s.pool, `WHERE b.device_id = $1 ORDER BY b.id DESC LIMIT $2`, device, limit)
}
