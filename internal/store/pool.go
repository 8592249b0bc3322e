package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Pool is an allowance that several assets share (L6). Counts are bytes, instants UTC.
type Pool struct {
	ID     simwarden.PoolID     `json:"id"`
	Name   string               `json:"name"`
	Policy simwarden.PoolPolicy `json:"policy"`
	// AllowanceBytes is what each period has, ExtraBytes what was added to the running one.
	AllowanceBytes int64 `json:"allowance_bytes"`
	ExtraBytes     int64 `json:"extra_bytes"`
	UsedBytes      int64 `json:"used_bytes"` // drawn in the running period
	// CapBytes is the cap of members that have none of their own, 0 for none.
	CapBytes      int64               `json:"cap_bytes"`
	Reset         simwarden.ResetKind `json:"reset"`
	ResetDays     int                 `json:"reset_days,omitempty"`
	AnchorDay     int                 `json:"anchor_day,omitempty"` // the first day of a billing month
	Zone          string              `json:"zone"`
	Period        int64               `json:"period"` // the number of the running one
	PeriodStartAt time.Time           `json:"period_start_at"`
	NextResetAt   time.Time           `json:"next_reset_at,omitzero"`
	ExhaustedAt   time.Time           `json:"exhausted_at,omitzero"`
	CreatedAt     time.Time           `json:"created_at"`
}

// TotalBytes is what the running period has.
func (p Pool) TotalBytes() int64 { return p.AllowanceBytes + p.ExtraBytes }

// Exhausted says that the running period's allowance is used up.
func (p Pool) Exhausted() bool { return p.UsedBytes >= p.TotalBytes() }

// What can be wrong with a pool's members; test with errors.Is.
var (
	ErrPoolExists = errors.New("a pool with this name exists already")
	ErrPooled     = errors.New("this SIM or device is in a pool already; it can be in one at a time")
	ErrNotPooled  = errors.New("this SIM or device is not in this pool")
)

// CausePool is the cause of what follows from a pool's allowance and from joining and leaving it.
const CausePool = "pool"

// The kinds of event of pools.
const (
	EventPoolExhausted = "pool_exhausted"
	EventPoolReset     = "pool_reset"
	EventPoolToppedUp  = "pool_topped_up"
	EventPoolJoined    = "pool_joined"
	EventPoolLeft      = "pool_left"
)

const poolColumns = `p.id, p.name, p.policy, p.allowance_bytes, p.extra_bytes, p.used_bytes, p.cap_bytes, p.reset, p.reset_days, p.anchor_day,
	p.zone, p.period, p.period_start_at, p.next_reset_at, p.exhausted_at, p.created_at`

func scanPool(row pgx.Row) (Pool, error) {
	var p Pool
	var reset, exhausted *time.Time
	err := one(row, &p.ID, &p.Name, &p.Policy, &p.AllowanceBytes, &p.ExtraBytes, &p.UsedBytes, &p.CapBytes, &p.Reset, &p.ResetDays, &p.AnchorDay,
		&p.Zone, &p.Period, &p.PeriodStartAt, &reset, &exhausted, &p.CreatedAt)
	p.NextResetAt, p.ExhaustedAt = timeOf(reset), timeOf(exhausted)
	p.PeriodStartAt, p.CreatedAt = p.PeriodStartAt.UTC(), p.CreatedAt.UTC()
	return p, err
}

// Pools gives up to limit pools after one, in the order in which they were added.
func (s *Store) Pools(ctx context.Context, after simwarden.PoolID, limit int) ([]Pool, error) {
	return scanAll("pools", scanPool)(s.pool.Query(ctx, `SELECT `+poolColumns+` FROM pool p WHERE p.id > $1 ORDER BY p.id LIMIT $2`, after, limit))
}

// PoolByName finds a pool as people name it.
func (s *Store) PoolByName(ctx context.Context, name string) (Pool, error) {
	p, err := scanPool(s.pool.QueryRow(ctx, `SELECT `+poolColumns+` FROM pool p WHERE p.name = $1`, name))
	if err != nil {
		return p, fmt.Errorf("pool %q: %w", name, err)
	}
	return p, nil
}

// AddPool adds a pool whose first period begins now; ErrPoolExists where the name is taken.
func (tx *Tx) AddPool(ctx context.Context, p Pool) (Pool, error) {
	p, err := scanPool(tx.QueryRow(ctx, `
		INSERT INTO pool AS p (name, policy, allowance_bytes, cap_bytes, reset, reset_days, anchor_day, zone, period_start_at, next_reset_at, created_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $9) RETURNING `+poolColumns,
		p.Name, string(p.Policy), p.AllowanceBytes, p.CapBytes, string(p.Reset), p.ResetDays, p.AnchorDay, p.Zone, tx.At, nullTime(p.NextResetAt)))
	if IsUnique(err, "pool_name") {
		return p, ErrPoolExists
	}
	if err != nil {
		return p, fmt.Errorf("add pool: %w", err)
	}
	return p, nil
}

// LockPools locks pools in the order of their ids and gives them so. It comes after the locks of their
// members' SIMs, and before those of accounts and commands.
func (tx *Tx) LockPools(ctx context.Context, ids []simwarden.PoolID) ([]Pool, error) {
	// A statement of its own: one that waits for a lock still sees rows as they were before.
	if _, err := tx.Exec(ctx, `SELECT FROM pool WHERE id = ANY($1) ORDER BY id FOR NO KEY UPDATE`, ids); err != nil {
		return nil, fmt.Errorf("lock %d pools: %w", len(ids), err)
	}
	return scanAll(fmt.Sprintf("%d pools", len(ids)), scanPool)(tx.Query(ctx, `SELECT `+poolColumns+` FROM pool p WHERE p.id = ANY($1) ORDER BY p.id`, ids))
}

// DuePools gives up to limit pools whose allowance is due to be full again, without a lock.
func (tx *Tx) DuePools(ctx context.Context, limit int) ([]simwarden.PoolID, error) {
	return scanAll("due pools", scanID[simwarden.PoolID])(
		tx.Query(ctx, `SELECT id FROM pool WHERE `+poolDue+` ORDER BY next_reset_at, id LIMIT $2`, tx.At, limit))
}

// ChangePool writes a pool's policy, allowance and cap; the pool is locked before.
func (tx *Tx) ChangePool(ctx context.Context, p Pool) (Pool, error) {
	return tx.updatePool(ctx, p.ID, `policy = $2, allowance_bytes = $3, cap_bytes = $4,
		exhausted_at = CASE WHEN used_bytes >= $3 + extra_bytes THEN coalesce(exhausted_at, $5) END`, string(p.Policy), p.AllowanceBytes, p.CapBytes, tx.At)
}

// DrawFromPool adds what members have drawn to the running period of a pool, locked before.
func (tx *Tx) DrawFromPool(ctx context.Context, id simwarden.PoolID, bytes int64) (Pool, error) {
	return tx.updatePool(ctx, id, `used_bytes = used_bytes + $2,
		exhausted_at = CASE WHEN used_bytes + $2 >= allowance_bytes + extra_bytes THEN coalesce(exhausted_at, $3) END`, bytes, tx.At)
}

// ResetPool closes the running period of a pool, locked before, at its end and begins the next, with a
// full allowance (L6). Its members are not written: what they have drawn names its period.
func (tx *Tx) ResetPool(ctx context.Context, p Pool, next time.Time) (Pool, error) {
	_, err := tx.Exec(ctx, `
		INSERT INTO pool_period (pool_id, period, start_at, end_at, allowance_bytes, used_bytes, exhausted_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		p.ID, p.Period, p.PeriodStartAt, p.NextResetAt, p.TotalBytes(), p.UsedBytes, nullTime(p.ExhaustedAt))
	if err != nil {
		return p, fmt.Errorf("close period %d of pool %d: %w", p.Period, p.ID, err)
	}
	return tx.updatePool(ctx, p.ID, `period = period + 1, period_start_at = next_reset_at, next_reset_at = $2, extra_bytes = 0, used_bytes = 0, exhausted_at = NULL`,
		nullTime(next))
}

func (tx *Tx) updatePool(ctx context.Context, id simwarden.PoolID, set string, args ...any) (Pool, error) {
	p, err := scanPool(tx.QueryRow(ctx, `UPDATE pool AS p SET `+set+` WHERE id = $1 RETURNING `+poolColumns, append([]any{id}, args...)...))
	if err != nil {
		return p, fmt.Errorf("change pool %d: %w", id, err)
	}
	return p, nil
}

// PoolTopUp is data that was added to one period of a pool.
type PoolTopUp struct {
	ID     int64            `json:"id"`
	PoolID simwarden.PoolID `json:"pool_id"`
	Period int64            `json:"period"`
	Bytes  int64            `json:"bytes"`
	Note   string           `json:"note,omitempty"`
	At     time.Time        `json:"at"` // UTC
	Actor  string           `json:"actor"`
}

const poolTopUpColumns = `t.id, t.pool_id, t.period, t.bytes, t.note, t.at, t.actor`

func scanPoolTopUp(row pgx.Row) (PoolTopUp, error) {
	var t PoolTopUp
	err := one(row, &t.ID, &t.PoolID, &t.Period, &t.Bytes, &t.Note, &t.At, &t.Actor)
	t.At = t.At.UTC()
	return t, err
}

// PoolTopUpByKey finds what an actor's idempotency key has added; ErrNotFound where it has not been used.
func (tx *Tx) PoolTopUpByKey(ctx context.Context, actor, key string) (PoolTopUp, error) {
	return scanPoolTopUp(tx.QueryRow(ctx, `SELECT `+poolTopUpColumns+` FROM pool_top_up t WHERE t.actor = $1 AND t.idempotency_key = $2`, actor, key))
}

// TopUpPool adds data to the running period of a pool, locked before; false where the key has been used,
// also by a transaction that committed while this one waited for it.
func (tx *Tx) TopUpPool(ctx context.Context, p Pool, t PoolTopUp, key string) (Pool, PoolTopUp, bool, error) {
	t, err := scanPoolTopUp(tx.QueryRow(ctx, `
		INSERT INTO pool_top_up AS t (pool_id, period, bytes, note, at, actor, idempotency_key) VALUES ($1, $2, $3, $4, $5, $6, nullif($7, ''))
		ON CONFLICT (actor, idempotency_key) WHERE idempotency_key IS NOT NULL DO NOTHING RETURNING `+poolTopUpColumns,
		p.ID, p.Period, t.Bytes, t.Note, tx.At, t.Actor, key))
	if errors.Is(err, ErrNotFound) {
		return p, t, false, nil
	}
	if err != nil {
		return p, t, false, fmt.Errorf("top up pool %d: %w", p.ID, err)
	}
	p, err = tx.updatePool(ctx, p.ID, `extra_bytes = extra_bytes + $2,
		exhausted_at = CASE WHEN used_bytes >= allowance_bytes + extra_bytes + $2 THEN exhausted_at END`, t.Bytes)
	return p, t, true, err
}

// PoolTopUps lists what was added to a pool, the newest first.
func (s *Store) PoolTopUps(ctx context.Context, id simwarden.PoolID, limit int) ([]PoolTopUp, error) {
	return scanAll(fmt.Sprintf("top-ups of pool %d", id), scanPoolTopUp)(
		s.pool.Query(ctx, `SELECT `+poolTopUpColumns+` FROM pool_top_up t WHERE t.pool_id = $1 ORDER BY t.id DESC LIMIT $2`, id, limit))
}

// PoolPeriod is a closed period of a pool.
type PoolPeriod struct {
	Period         int64     `json:"period"`
	StartAt        time.Time `json:"start_at"`
	EndAt          time.Time `json:"end_at"`
	AllowanceBytes int64     `json:"allowance_bytes"` // with what was added
	UsedBytes      int64     `json:"used_bytes"`      // late bytes too
	LateBytes      int64     `json:"late_bytes"`      // known after its end (U4)
	ExhaustedAt    time.Time `json:"exhausted_at,omitzero"`
}

// PoolPeriods lists a pool's closed periods, the newest first.
func (s *Store) PoolPeriods(ctx context.Context, id simwarden.PoolID, limit int) ([]PoolPeriod, error) {
	return scanAll(fmt.Sprintf("periods of pool %d", id), func(row pgx.Row) (PoolPeriod, error) {
		var p PoolPeriod
		var exhausted *time.Time
		err := row.Scan(&p.Period, &p.StartAt, &p.EndAt, &p.AllowanceBytes, &p.UsedBytes, &p.LateBytes, &exhausted)
		p.StartAt, p.EndAt, p.ExhaustedAt = p.StartAt.UTC(), p.EndAt.UTC(), timeOf(exhausted)
		return p, err
	})(s.pool.Query(ctx, `SELECT period, start_at, end_at, allowance_bytes, used_bytes, late_bytes, exhausted_at
		FROM pool_period WHERE pool_id = $1 ORDER BY period DESC LIMIT $2`, id, limit))
}
