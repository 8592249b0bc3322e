package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// PoolMember is an asset's stay in a pool.
type PoolMember struct {
	ID       simwarden.PoolMemberID `json:"id"`
	PoolID   simwarden.PoolID       `json:"pool_id"`
	SIMID    simwarden.SIMID        `json:"sim_id,omitempty"`
	DeviceID simwarden.DeviceID     `json:"device_id,omitempty"`
	Name     string                 `json:"name"`      // the SIM's ICCID or the device's IMEI
	CapBytes int64                  `json:"cap_bytes"` // its own, or the pool's
	// DrawnBytes is what it has drawn in the pool's running period.
	DrawnBytes int64     `json:"drawn_bytes"`
	JoinedAt   time.Time `json:"joined_at"` // UTC
	JoinedBy   string    `json:"joined_by"`
}

const poolMemberColumns = `m.id, m.pool_id, coalesce(m.sim_id, 0), coalesce(m.device_id, 0),
	coalesce((SELECT s.iccid FROM sim s WHERE s.id = m.sim_id), (SELECT d.imei FROM device d WHERE d.id = m.device_id), ''),
	coalesce(m.cap_bytes, p.cap_bytes), CASE WHEN m.period = p.period THEN m.used_bytes ELSE 0 END, m.joined_at, m.joined_by`

func scanPoolMember(row pgx.Row) (PoolMember, error) {
	var m PoolMember
	err := one(row, &m.ID, &m.PoolID, &m.SIMID, &m.DeviceID, &m.Name, &m.CapBytes, &m.DrawnBytes, &m.JoinedAt, &m.JoinedBy)
	m.JoinedAt = m.JoinedAt.UTC()
	return m, err
}

// PoolMembers gives up to limit members of a pool after one.
func (s *Store) PoolMembers(ctx context.Context, id simwarden.PoolID, after simwarden.PoolMemberID, limit int) ([]PoolMember, error) {
	return scanAll(fmt.Sprintf("members of pool %d", id), scanPoolMember)(s.pool.Query(ctx, `
		SELECT `+poolMemberColumns+` FROM pool_member m JOIN pool p ON p.id = m.pool_id
		WHERE m.pool_id = $1 AND m.left_at IS NULL AND m.id > $2 ORDER BY m.id LIMIT $3`, id, after, limit))
}

// CountPoolMembers is how many assets are in a pool.
func (s *Store) CountPoolMembers(ctx context.Context, id simwarden.PoolID) (n int64, err error) {
	if err = s.pool.QueryRow(ctx, `SELECT count(*) FROM pool_member WHERE pool_id = $1 AND left_at IS NULL`, id).Scan(&n); err != nil {
		return 0, fmt.Errorf("count the members of pool %d: %w", id, err)
	}
	return n, nil
}

// PoolOf gives the pool that an asset is in, and its stay; ErrNotFound where it is in none.
func (s *Store) PoolOf(ctx context.Context, a Asset) (Pool, PoolMember, error) {
	m, err := scanPoolMember(s.pool.QueryRow(ctx, `
		SELECT `+poolMemberColumns+` FROM pool_member m JOIN pool p ON p.id = m.pool_id
		WHERE m.left_at IS NULL AND (m.sim_id = $1 OR m.device_id = $2)`, nullID(int64(a.SIMID)), nullID(int64(a.DeviceID))))
	if err != nil {
		return Pool{}, m, fmt.Errorf("pool of an asset: %w", err)
	}
	p, err := scanPool(s.pool.QueryRow(ctx, `SELECT `+poolColumns+` FROM pool p WHERE p.id = $1`, m.PoolID))
	if err != nil {
		return p, m, fmt.Errorf("pool %d: %w", m.PoolID, err)
	}
	return p, m, nil
}

// JoinPool puts assets, locked before, into a pool, and gives those that came in: the others are in one
// already. capBytes is their own cap, nil for the pool's.
func (tx *Tx) JoinPool(ctx context.Context, id simwarden.PoolID, assets []Asset, capBytes *int64, by string) ([]Asset, error) {
	sims, devices := assetIDs(assets)
	return scanAll(fmt.Sprintf("%d assets join pool %d", len(assets), id), scanAsset)(tx.Query(ctx, `
		INSERT INTO pool_member (pool_id, sim_id, device_id, cap_bytes, joined_at, joined_by)
		SELECT $1, v.sim, v.device, $2, $3, $4 FROM (
			SELECT s.id AS sim, NULL::bigint AS device FROM sim s WHERE s.id = ANY($5) AND s.device_id IS NULL
			UNION ALL SELECT NULL, d.id FROM device d WHERE d.id = ANY($6)) v
		ON CONFLICT DO NOTHING RETURNING coalesce(sim_id, 0), coalesce(device_id, 0)`, id, capBytes, tx.At, by, sims, devices))
}

// LeavePool takes assets, locked before, out of a pool, and gives those that were in it.
func (tx *Tx) LeavePool(ctx context.Context, id simwarden.PoolID, assets []Asset, by string) ([]Asset, error) {
	sims, devices := assetIDs(assets)
	return scanAll(fmt.Sprintf("%d assets leave pool %d", len(assets), id), scanAsset)(tx.Query(ctx, `
		UPDATE pool_member SET left_at = $2, left_by = $3
		WHERE pool_id = $1 AND left_at IS NULL AND (sim_id = ANY($4) OR device_id = ANY($5))
		RETURNING coalesce(sim_id, 0), coalesce(device_id, 0)`, id, tx.At, by, sims, devices))
}

func scanAsset(row pgx.Row) (a Asset, err error) {
	err = row.Scan(&a.SIMID, &a.DeviceID)
	return a, err
}

// PooledAssets says which of the assets are in a pool, and in which.
func (tx *Tx) PooledAssets(ctx context.Context, assets []Asset) (map[Asset]simwarden.PoolID, error) {
	sims, devices := assetIDs(assets)
	rows, err := tx.Query(ctx, `
		SELECT coalesce(sim_id, 0), coalesce(device_id, 0), pool_id FROM pool_member
		WHERE left_at IS NULL AND (sim_id = ANY($1) OR device_id = ANY($2))`, sims, devices)
	if err != nil {
		return nil, fmt.Errorf("pools of %d assets: %w", len(assets), err)
	}
	out := map[Asset]simwarden.PoolID{}
	var a Asset
	var id simwarden.PoolID
	_, err = pgx.ForEachRow(rows, []any{&a.SIMID, &a.DeviceID, &id}, func() error {
		out[a] = id
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("pools of %d assets: %w", len(assets), err)
	}
	return out, nil
}

// PoolStay is a stay of an asset in a pool, which bears what the asset uses in it.
type PoolStay struct {
	MemberID simwarden.PoolMemberID
	PoolID   simwarden.PoolID
	PoolName string
	Asset    Asset
	JoinedAt time.Time // UTC
	LeftAt   time.Time // zero: it is in it still
}

// Covers says whether the asset was in the pool at the instant.
func (p PoolStay) Covers(at time.Time) bool {
	return !at.Before(p.JoinedAt) && (p.LeftAt.IsZero() || at.Before(p.LeftAt))
}

// PoolStays gives the stays of the SIMs' assets that last, or ended no longer than since before the
// transaction's instant.
func (tx *Tx) PoolStays(ctx context.Context, sims []simwarden.SIMID, since time.Duration) ([]PoolStay, error) {
	return scanAll(fmt.Sprintf("pools of %d sims", len(sims)), func(row pgx.Row) (PoolStay, error) {
		var p PoolStay
		var left *time.Time
		err := row.Scan(&p.MemberID, &p.PoolID, &p.PoolName, &p.Asset.SIMID, &p.Asset.DeviceID, &p.JoinedAt, &left)
		p.JoinedAt, p.LeftAt = p.JoinedAt.UTC(), timeOf(left)
		return p, err
	})(tx.Query(ctx, `
		WITH asset AS MATERIALIZED (SELECT DISTINCT CASE WHEN device_id IS NULL THEN id END AS sim_id, device_id FROM sim WHERE id = ANY($1)),
		stay AS (
			SELECT m.* FROM asset a JOIN pool_member m ON m.sim_id = a.sim_id
			UNION ALL SELECT m.* FROM asset a JOIN pool_member m ON m.device_id = a.device_id)
		SELECT m.id, m.pool_id, p.name, coalesce(m.sim_id, 0), coalesce(m.device_id, 0), m.joined_at, m.left_at
		FROM stay m JOIN pool p ON p.id = m.pool_id WHERE m.left_at IS NULL OR m.left_at > $2 ORDER BY m.id`, sims, tx.At.Add(-since)))
}

// DrawRow is what a member has drawn in one period of its pool.
type DrawRow struct {
	MemberID simwarden.PoolMemberID
	Period   int64
	Bytes    int64
}

// DrawByMembers adds to what members have drawn; their pools are locked before, so that the period is
// the running one. One member may appear once. It gives those that reached their cap by this, also where
// their pool has data left.
func (tx *Tx) DrawByMembers(ctx context.Context, rows []DrawRow) (capped []simwarden.PoolMemberID, err error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids, periods, bytes := make([]int64, len(rows)), make([]int64, len(rows)), make([]int64, len(rows))
	for i, r := range rows {
		ids[i], periods[i], bytes[i] = int64(r.MemberID), r.Period, r.Bytes
	}
	return scanAll(fmt.Sprintf("draw by %d members of pools", len(rows)), scanID[simwarden.PoolMemberID])(tx.Query(ctx, `
		WITH drawn AS (
			UPDATE pool_member m SET period = v.period, used_bytes = v.bytes + CASE WHEN m.period = v.period THEN m.used_bytes ELSE 0 END
			FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) AS v (id, period, bytes), pool p WHERE m.id = v.id AND p.id = m.pool_id
			RETURNING m.id, v.bytes, m.used_bytes, coalesce(m.cap_bytes, p.cap_bytes) AS cap_bytes)
		SELECT id FROM drawn WHERE used_bytes >= cap_bytes AND used_bytes - bytes < cap_bytes ORDER BY id`, ids, periods, bytes))
}

// DrawLate adds bytes to the closed period of a pool, locked before, that the instant is in (U4); false
// where none is.
func (tx *Tx) DrawLate(ctx context.Context, id simwarden.PoolID, at time.Time, bytes int64) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE pool_period SET used_bytes = used_bytes + $3, late_bytes = late_bytes + $3
		WHERE pool_id = $1 AND start_at <= $2 AND end_at > $2`, id, at, bytes)
	if err != nil {
		return false, fmt.Errorf("draw late from pool %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// addPools fills in the pool that each SIM's asset is in (L6).
func (tx *Tx) addPools(ctx context.Context, sims []SIMFacts) error {
	byAsset := make(map[Asset][]int, len(sims))
	assets := make([]Asset, 0, len(sims))
	for i, s := range sims {
		if !s.Facts.EverPlanned { // a pool is no plan
			continue
		}
		a := AssetOf(s.ID, s.DeviceID)
		assets = append(assets, a)
		byAsset[a] = append(byAsset[a], i)
	}
	if len(assets) == 0 {
		return nil
	}
	simIDs, deviceIDs := assetIDs(assets)
	rows, err := tx.Query(ctx, `
		SELECT coalesce(m.sim_id, 0), coalesce(m.device_id, 0), p.id, p.name, p.policy, p.allowance_bytes + p.extra_bytes, p.used_bytes,
			coalesce(m.cap_bytes, p.cap_bytes), CASE WHEN m.period = p.period THEN m.used_bytes ELSE 0 END
		FROM pool_member m JOIN pool p ON p.id = m.pool_id
		WHERE m.left_at IS NULL AND (m.sim_id = ANY($1) OR m.device_id = ANY($2))`, simIDs, deviceIDs)
	if err != nil {
		return fmt.Errorf("pools of %d sims: %w", len(sims), err)
	}
	var a Asset
	var f rules.PoolFact
	_, err = pgx.ForEachRow(rows, []any{&a.SIMID, &a.DeviceID, &f.ID, &f.Name, &f.Policy, &f.AllowanceBytes, &f.UsedBytes, &f.CapBytes, &f.DrawnBytes}, func() error {
		for _, i := range byAsset[a] {
			fact := f
			sims[i].Facts.Pool = &fact
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("pools of %d sims: %w", len(sims), err)
	}
	return nil
}

// RequestPoolEvaluation asks in the cause's own transaction for the SIMs of all members of a pool to be
// judged, in the background (C1). Those under way with the same scene are overtaken, but for one that is just
// at work: that has locked its row, and waits for locks of SIMs that the caller may hold.
func (tx *Tx) RequestPoolEvaluation(ctx context.Context, id simwarden.PoolID, scene simwarden.Scene, by string) error {
	if _, err := tx.Exec(ctx, `
		UPDATE account_evaluation SET finished_at = $3, outcome = 'overtaken by a newer change'
		WHERE id IN (SELECT id FROM account_evaluation WHERE pool_id = $1 AND scene = $2 AND finished_at IS NULL FOR UPDATE SKIP LOCKED)`, id, string(scene), tx.At); err != nil {
		return fmt.Errorf("overtake the evaluation of pool %d: %w", id, err)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO account_evaluation (pool_id, scene, until_id, total, asked_by, asked_at)
		SELECT $1, $2, coalesce(max(m.id), 0),
			count(m.sim_id) + (SELECT count(*) FROM pool_member d JOIN sim s ON s.device_id = d.device_id WHERE d.pool_id = $1 AND d.left_at IS NULL),
			$3, $4
		FROM pool_member m WHERE m.pool_id = $1 AND m.left_at IS NULL`, id, string(scene), by, tx.At)
	if err != nil {
		return fmt.Errorf("ask for the evaluation of pool %d: %w", id, err)
	}
	return nil
}

// SIMsOfPool gives, in the order of their ids, the SIMs of the next members of a pool after one, up to
// another: of as many whole members as have limit SIMs, and one at least. last is the last of those members, 0
// where there is none.
func (tx *Tx) SIMsOfPool(ctx context.Context, id simwarden.PoolID, after, until simwarden.PoolMemberID, limit int) (sims []simwarden.SIMID, last simwarden.PoolMemberID, err error) {
	rows, err := tx.Query(ctx, `
		WITH page AS MATERIALIZED (
			SELECT id, sim_id, device_id FROM pool_member WHERE pool_id = $1 AND left_at IS NULL AND id > $2 AND id <= $3 ORDER BY id LIMIT $4)
		SELECT p.id, coalesce(p.sim_id, s.id, 0) FROM page p LEFT JOIN sim s ON s.device_id = p.device_id ORDER BY 1`, id, after, until, limit)
	if err != nil {
		return nil, 0, fmt.Errorf("sims of pool %d: %w", id, err)
	}
	defer rows.Close()
	for rows.Next() {
		var member simwarden.PoolMemberID
		var sim simwarden.SIMID
		if err := rows.Scan(&member, &sim); err != nil {
			return nil, 0, fmt.Errorf("sims of pool %d: %w", id, err)
		}
		if member != last && len(sims) >= limit {
			break
		}
		if last = member; sim != 0 { // a device may have none
			sims = append(sims, sim)
		}
	}
	rows.Close()
	slices.Sort(sims)
	return sims, last, rows.Err()
}

// PoolEvaluations lists a pool's, the newest first.
func (s *Store) PoolEvaluations(ctx context.Context, id simwarden.PoolID, limit int) ([]AccountEvaluation, error) {
	return scanAll(fmt.Sprintf("evaluations of pool %d", id), scanAccountEvaluation)(
		s.pool.Query(ctx, `SELECT `+accountEvaluationColumns+` FROM account_evaluation WHERE pool_id = $1 ORDER BY id DESC LIMIT $2`, id, limit))
}
