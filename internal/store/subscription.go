package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Asset is what a plan is bought for: a standalone SIM or a device. Exactly one is set.
type Asset struct {
	SIMID    simwarden.SIMID
	DeviceID simwarden.DeviceID
}

// AssetOf is what plans for a SIM are bought for: its device where it is in one.
func AssetOf(sim simwarden.SIMID, device simwarden.DeviceID) Asset {
	if device != 0 {
		return Asset{DeviceID: device}
	}
	return Asset{SIMID: sim}
}

// ErrImportedBefore says that a subscription with this import reference is there already.
var ErrImportedBefore = errors.New("imported before")

const subscriptionColumns = `b.id, coalesce(b.sim_id, 0), coalesce(b.device_id, 0), b.plan_id, p.code, b.kind, b.state,
	b.start_at, b.end_at, b.next_reset_at, b.allowance_bytes, b.used_bytes, b.renew, coalesce(b.renew_plan_id, 0),
	b.anchor_day, b.activation, b.ready_at, b.activate_by`

func scanSubscription(row pgx.Row) (simwarden.Subscription, error) {
	var b simwarden.Subscription
	var start, end, reset, ready, by *time.Time
	err := one(row, &b.ID, &b.SIMID, &b.DeviceID, &b.PlanID, &b.PlanCode, &b.Kind, &b.State, &start, &end, &reset, &b.AllowanceBytes, &b.UsedBytes,
		&b.Renew, &b.RenewPlanID, &b.AnchorDay, &b.Activation, &ready, &by)
	b.ReadyAt, b.ActivateBy = timeOf(ready), timeOf(by)
	b.StartAt, b.EndAt, b.NextResetAt = timeOf(start), timeOf(end), timeOf(reset)
	return b, err
}

func subscriptions(ctx context.Context, db execer, rest string, args ...any) ([]simwarden.Subscription, error) {
	rows, err := db.Query(ctx, `SELECT `+subscriptionColumns+` FROM subscription b JOIN plan p ON p.id = b.plan_id `+rest, args...)
	if err != nil {
		return nil, fmt.Errorf("subscriptions: %w", err)
	}
	defer rows.Close()
	out := []simwarden.Subscription{}
	for rows.Next() {
		b, err := scanSubscription(rows)
		if err != nil {
			return nil, fmt.Errorf("subscriptions: %w", err)
		}
		out = append(out, b)
	}
	return out, rows.Err()
}

// AssetOfSIM is AssetOf for a SIM as it is stored.
func (tx *Tx) AssetOfSIM(ctx context.Context, id simwarden.SIMID) (Asset, error) {
	var device simwarden.DeviceID
	if err := one(tx.QueryRow(ctx, `SELECT coalesce(device_id, 0) FROM sim WHERE id = $1`, id), &device); err != nil {
		return Asset{}, fmt.Errorf("sim %d: %w", id, err)
	}
	return AssetOf(id, device), nil
}

// LockAsset locks an asset and what is live of what it has bought, so that purchases, lapses and resets of
// one asset happen one after another. It comes before the locks of its SIMs, and of wallets.
func (tx *Tx) LockAsset(ctx context.Context, a Asset) error {
	return tx.LockAssets(ctx, []Asset{a})
}

// LiveSubscriptions gives an asset's active, exhausted and queued subscriptions in the order in
// which they were bought.
func (tx *Tx) LiveSubscriptions(ctx context.Context, a Asset) ([]simwarden.Subscription, error) {
	return subscriptions(ctx, tx, `
		WHERE (b.sim_id = $1 OR b.device_id = $2) AND b.state IN ('active', 'exhausted', 'queued') ORDER BY b.id`,
		nullID(int64(a.SIMID)), nullID(int64(a.DeviceID)))
}

// SubscriptionsOf gives the latest of a SIM's asset's subscriptions, ended ones too, newest first.
func (s *Store) SubscriptionsOf(ctx context.Context, sim simwarden.SIMID, limit int) ([]simwarden.Subscription, error) {
	return subscriptions(ctx, s.pool, `
		WHERE b.sim_id = $1 OR b.device_id = (SELECT device_id FROM sim WHERE id = $1) ORDER BY b.id DESC LIMIT $2`, sim, limit)
}

// MainBetween gives a main plan of an asset, the latest, that was in force for some of the time from start to
// end; ErrNotFound where none was. Its EndAt is when it stopped counting: that of a refunded one is its refund.
func (tx *Tx) MainBetween(ctx context.Context, a Asset, start, end time.Time) (simwarden.Subscription, error) {
	list, err := subscriptions(ctx, tx, `
		WHERE (b.sim_id = $1 OR b.device_id = $2) AND b.kind = 'main' AND b.start_at < $4
		  AND CASE WHEN b.state = 'refunded' THEN least(b.end_at, b.ended_at) ELSE b.end_at END > $3
		ORDER BY b.end_at DESC, b.id DESC LIMIT 1`, nullID(int64(a.SIMID)), nullID(int64(a.DeviceID)), start, end)
	if err != nil {
		return simwarden.Subscription{}, err
	}
	if len(list) == 0 {
		return simwarden.Subscription{}, ErrNotFound
	}
	b := list[0]
	if b.State != simwarden.SubscriptionRefunded {
		return b, nil
	}
	var stopped time.Time
	if err := tx.QueryRow(ctx, `SELECT least(end_at, ended_at) FROM subscription WHERE id = $1`, b.ID).Scan(&stopped); err != nil {
		return b, fmt.Errorf("end of subscription %d: %w", b.ID, err)
	}
	b.EndAt = stopped.UTC()
	return b, nil
}

// SubscriptionByID gives one subscription.
func (tx *Tx) SubscriptionByID(ctx context.Context, id simwarden.SubscriptionID) (simwarden.Subscription, error) {
	b, err := scanSubscription(tx.QueryRow(ctx, `SELECT `+subscriptionColumns+` FROM subscription b JOIN plan p ON p.id = b.plan_id WHERE b.id = $1`, id))
	if err != nil {
		return b, fmt.Errorf("subscription %d: %w", id, err)
	}
	return b, nil
}

// AddSubscription writes a bought plan as it stands in b (queued, or active with its bounds) and
// marks the asset as planned, unless it waits for a real name, which is no plan yet (E2). importRef, where not empty, makes a second import of the same row
// ErrImportedBefore. A plan of a SIM's own is refused with ErrBound where the SIM has come into a device
// since its asset was looked up: nothing would use it. The asset's lock is the caller's.
func (tx *Tx) AddSubscription(ctx context.Context, b simwarden.Subscription, by, importRef string) (simwarden.SubscriptionID, error) {
	var ref *string
	if importRef != "" {
		ref = &importRef
	}
	if b.SIMID != 0 {
		if a, err := tx.AssetOfSIM(ctx, b.SIMID); err != nil {
			return 0, fmt.Errorf("add subscription: %w", err)
		} else if a.SIMID == 0 {
			return 0, fmt.Errorf("add subscription to sim %d: %w", b.SIMID, ErrBound)
		}
	}
	if b.Activation == "" {
		b.Activation = simwarden.ActivateAfterCurrent
	}
	var id simwarden.SubscriptionID
	err := tx.QueryRow(ctx, `
		INSERT INTO subscription (sim_id, device_id, plan_id, kind, state, start_at, end_at, next_reset_at, allowance_bytes, used_bytes, bought_at, bought_by, import_ref, renew, renew_plan_id, hasty_at, anchor_day, activation, ready_at, activate_by, wake_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $20)
		ON CONFLICT (import_ref) WHERE import_ref IS NOT NULL DO NOTHING RETURNING id`,
		nullID(int64(b.SIMID)), nullID(int64(b.DeviceID)), b.PlanID, string(b.Kind), string(b.State),
		nullTime(b.StartAt), nullTime(b.EndAt), nullTime(b.NextResetAt), b.AllowanceBytes, b.UsedBytes, tx.At, by, ref,
		b.Renew, nullID(int64(b.RenewPlanID)), hastyAt(b, ref != nil, tx.At),
		b.AnchorDay, string(b.Activation), nullTime(b.ReadyAt), nullTime(b.ActivateBy)).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("subscription %q: %w", importRef, ErrImportedBefore)
	}
	if err != nil {
		return 0, fmt.Errorf("add subscription: %w", err)
	}
	if b.Kind != simwarden.PlanMain || b.State == simwarden.SubscriptionQueued && b.Activation == simwarden.ActivateRealName {
		return id, nil
	}
	return id, tx.MarkPlanned(ctx, Asset{SIMID: b.SIMID, DeviceID: b.DeviceID})
}

// Share is one of several equal parts of all assets, number Part of 0 to Of-1; the zero Share is all.
// What belongs to one asset is in one share, so that those who work on two shares at a time never wait
// for each other.
type Share struct{ Part, Of int }

// TakeLapsed locks up to limit subscriptions of a share whose end has come, the earliest first, for the
// rest of the transaction; others pass over them. Those in except, and those that a guard holds, are
// left out.
func (tx *Tx) TakeLapsed(ctx context.Context, limit int, share Share, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
	others := []int64{}
	for part := range share.Of {
		if part != share.Part {
			others = append(others, int64(part))
		}
	}
	// Said by what it is not: the planner takes an equation for one that few rows meet, and would read
	// and sort all that are due for each batch.
	return subscriptions(ctx, tx, `
		WHERE b.state IN ('active', 'exhausted') AND b.guard_id IS NULL AND b.end_at <= $1 AND b.id <> ALL($3)
		  AND coalesce(b.sim_id, b.device_id) % $4 <> ALL($5)
		ORDER BY b.end_at, b.id LIMIT $2 FOR UPDATE OF b SKIP LOCKED`, tx.At, limit, subscriptionIDs(except), int64(max(share.Of, 1)), others)
}

// TakeResets locks up to limit subscriptions whose allowance is due to be full again. Those in except
// are left out.
func (tx *Tx) TakeResets(ctx context.Context, limit int, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
	return subscriptions(ctx, tx, `
		WHERE `+resetDue+` AND b.id <> ALL($3)
		ORDER BY b.next_reset_at, b.id LIMIT $2 FOR UPDATE OF b SKIP LOCKED`, tx.At, limit, subscriptionIDs(except))
}

func subscriptionIDs(list []simwarden.SubscriptionID) []int64 {
	out := make([]int64, len(list))
	for i, id := range list {
		out[i] = int64(id)
	}
	return out
}

// EndSubscription ends one that is still active, exhausted or queued; false where it had ended.
func (tx *Tx) EndSubscription(ctx context.Context, id simwarden.SubscriptionID, state simwarden.SubscriptionState) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE subscription SET state = $2, ended_at = $3 WHERE id = $1 AND state IN ('active', 'exhausted', 'queued')`, id, string(state), tx.At)
	if err != nil {
		return false, fmt.Errorf("end subscription %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// StartSubscription makes a queued one active with its bounds, exhausted where what was used since
// its start has used it up already; false where it was not queued. anchorDay is the day of the month
// that its months keep, 0 for other units.
func (tx *Tx) StartSubscription(ctx context.Context, id simwarden.SubscriptionID, start, end, nextReset time.Time, anchorDay int) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE subscription SET state = CASE WHEN allowance_bytes >= 0 AND used_bytes > 0 AND used_bytes >= allowance_bytes THEN 'exhausted' ELSE 'active' END,
			start_at = $2, end_at = $3, next_reset_at = $4, anchor_day = $5, wake_at = NULL
		WHERE id = $1 AND state = 'queued'`,
		id, start, end, nullTime(nextReset), anchorDay)
	if err != nil {
		return false, fmt.Errorf("start subscription %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ResetSubscription makes the allowance full again (L5) as of the last reset, and sets the next; zero for none.
func (tx *Tx) ResetSubscription(ctx context.Context, id simwarden.SubscriptionID, lastReset, nextReset time.Time) error {
	_, err := tx.Exec(ctx, `
		UPDATE subscription SET used_bytes = 0, state = 'active', next_reset_at = $3, last_reset_at = $2 WHERE id = $1 AND state IN ('active', 'exhausted')`,
		id, nullTime(lastReset), nullTime(nextReset))
	if err != nil {
		return fmt.Errorf("reset subscription %d: %w", id, err)
	}
	return nil
}

// SpentRow is bytes to add to one subscription.
type SpentRow struct {
	ID        simwarden.SubscriptionID
	UsedBytes int64
	Exhausted bool
}

// Spend adds used bytes to subscriptions and marks the exhausted ones.
func (tx *Tx) Spend(ctx context.Context, rows []SpentRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids, used, exhausted := make([]int64, len(rows)), make([]int64, len(rows)), make([]bool, len(rows))
	for i, r := range rows {
		ids[i], used[i], exhausted[i] = int64(r.ID), r.UsedBytes, r.Exhausted
	}
	_, err := tx.Exec(ctx, `
		UPDATE subscription b SET used_bytes = b.used_bytes + v.used,
			state = CASE WHEN v.exhausted THEN 'exhausted' ELSE b.state END
		FROM (SELECT id, sum(used)::bigint AS used, bool_or(exhausted) AS exhausted
		      FROM unnest($1::bigint[], $2::bigint[], $3::bool[]) AS u (id, used, exhausted) GROUP BY id) v
		WHERE b.id = v.id AND b.state IN ('active', 'exhausted')`, ids, used, exhausted)
	if err != nil {
		return fmt.Errorf("spend on %d subscriptions: %w", len(rows), err)
	}
	return nil
}

// LockAssets is LockAsset for several, in one order for all callers.
func (tx *Tx) LockAssets(ctx context.Context, assets []Asset) error {
	sims, devices := assetIDs(assets)
	if _, err := tx.Exec(ctx, `SELECT FROM device WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, devices); err != nil {
		return fmt.Errorf("lock %d assets: %w", len(assets), err)
	}
	if _, err := tx.Exec(ctx, `SELECT FROM sim WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, sims); err != nil {
		return fmt.Errorf("lock %d assets: %w", len(assets), err)
	}
	// Readings lock what they are booked to in this order too, without the assets.
	if _, err := tx.Exec(ctx, `
		SELECT FROM subscription WHERE (sim_id = ANY($1) OR device_id = ANY($2)) AND state IN ('active', 'exhausted', 'queued')
		ORDER BY id FOR UPDATE`, sims, devices); err != nil {
		return fmt.Errorf("lock the subscriptions of %d assets: %w", len(assets), err)
	}
	return nil
}

// OwnAssets locks the assets of subscriptions that were taken, and all that is live of each, and gives those
// of the subscriptions whose asset is wholly ours now. It passes over what others hold and waits for nobody:
// subscriptions are taken before their asset, against the order in which all others lock, and who waited
// here could wait in a ring (F14). What is left out is due still, and found at the next look.
func (tx *Tx) OwnAssets(ctx context.Context, taken []simwarden.Subscription) ([]simwarden.Subscription, error) {
	assets := make([]Asset, len(taken))
	for i, b := range taken {
		assets[i] = Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}
	}
	sims, devices := assetIDs(assets)
	rows, err := tx.Query(ctx, `
		WITH devices AS (SELECT id FROM device WHERE id = ANY($2) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
		sims AS (SELECT id FROM sim WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE SKIP LOCKED),
		live AS MATERIALIZED (SELECT id, sim_id, device_id FROM subscription
			WHERE (sim_id = ANY($1) OR device_id = ANY($2)) AND state IN ('active', 'exhausted', 'queued')),
		ours AS (SELECT id FROM subscription WHERE id IN (SELECT id FROM live) ORDER BY id FOR UPDATE SKIP LOCKED),
		others AS (SELECT sim_id, device_id FROM live WHERE id NOT IN (SELECT id FROM ours))
		SELECT id, 0 FROM sims WHERE id NOT IN (SELECT sim_id FROM others WHERE sim_id IS NOT NULL)
		UNION ALL
		SELECT 0, id FROM devices WHERE id NOT IN (SELECT device_id FROM others WHERE device_id IS NOT NULL)`, sims, devices)
	if err != nil {
		return nil, fmt.Errorf("lock %d assets: %w", len(assets), err)
	}
	var a Asset
	own := map[Asset]bool{}
	if _, err := pgx.ForEachRow(rows, []any{&a.SIMID, &a.DeviceID}, func() error { own[a] = true; return nil }); err != nil {
		return nil, fmt.Errorf("lock %d assets: %w", len(assets), err)
	}
	var out []simwarden.Subscription
	for i, b := range taken {
		if own[assets[i]] {
			out = append(out, b)
		}
	}
	return out, nil
}

// LiveByAsset gives the assets' active, exhausted and queued subscriptions, each asset's in the
// order in which they were bought.
func (tx *Tx) LiveByAsset(ctx context.Context, assets []Asset) (map[Asset][]simwarden.Subscription, error) {
	sims, devices := assetIDs(assets)
	list, err := subscriptions(ctx, tx, `
		WHERE (b.sim_id = ANY($1) OR b.device_id = ANY($2)) AND b.state IN ('active', 'exhausted', 'queued') ORDER BY b.id`, sims, devices)
	if err != nil {
		return nil, err
	}
	out := make(map[Asset][]simwarden.Subscription, len(assets))
	for _, b := range list {
		a := Asset{SIMID: b.SIMID, DeviceID: b.DeviceID}
		out[a] = append(out[a], b)
	}
	return out, nil
}

func assetIDs(assets []Asset) (sims, devices []int64) {
	sims, devices = []int64{}, []int64{}
	for _, a := range assets {
		if a.DeviceID != 0 {
			devices = append(devices, int64(a.DeviceID))
		} else {
			sims = append(sims, int64(a.SIMID))
		}
	}
	return sims, devices
}

// EndSubscriptions ends those of the given that are still active, exhausted or queued.
func (tx *Tx) EndSubscriptions(ctx context.Context, ids []simwarden.SubscriptionID, state simwarden.SubscriptionState) error {
	_, err := tx.Exec(ctx, `
		UPDATE subscription SET state = $2, ended_at = $3 WHERE id = ANY($1) AND state IN ('active', 'exhausted', 'queued')`, ids, string(state), tx.At)
	if err != nil {
		return fmt.Errorf("end %d subscriptions: %w", len(ids), err)
	}
	return nil
}

// NextPlanInstant is when the next subscription ends or is reset, those in except aside, or a pool is reset;
// zero where none does. UTC.
func (s *Store) NextPlanInstant(ctx context.Context, except ...simwarden.SubscriptionID) (time.Time, error) {
	var at *time.Time
	err := s.work.QueryRow(ctx, `
		SELECT least((SELECT min(end_at) FROM subscription WHERE state IN ('active', 'exhausted') AND guard_id IS NULL AND id <> ALL($1)),
			(SELECT min(next_reset_at) FROM subscription WHERE state IN ('active', 'exhausted') AND next_reset_at IS NOT NULL AND id <> ALL($1)),
			(SELECT min(next_reset_at) FROM pool))`,
		subscriptionIDs(except)).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("next plan end: %w", err)
	}
	return timeOf(at), nil
}
