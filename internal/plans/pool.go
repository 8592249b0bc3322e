package plans

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// ErrPoolInvalid says what is wrong with a pool; test with errors.Is.
var ErrPoolInvalid = errors.New("this pool cannot be")

// maxPoolBytes bounds what a pool has in a period, so that sums of such stay within 64 bits.
const maxPoolBytes = int64(1) << 60

func checkPool(p store.Pool) error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{ErrPoolInvalid}, args...)...)
	}
	switch {
	case !slices.Contains(simwarden.PoolPolicies(), p.Policy):
		return bad("its policy is %q; give all or over_cap", p.Policy)
	case p.AllowanceBytes < 1 || p.AllowanceBytes > maxPoolBytes:
		return bad("its allowance is %d bytes; give 1 to %d: a pool with nothing in it would stop its members at once", p.AllowanceBytes, maxPoolBytes)
	case p.CapBytes < 0 || p.CapBytes > maxPoolBytes:
		return bad("a member's cap is %d bytes; give 1 to %d, or 0 for none", p.CapBytes, maxPoolBytes)
	}
	if err := checkReset(p.Reset, p.ResetDays, bad); err != nil {
		return err
	}
	if (p.Reset == simwarden.ResetBilling) != (p.AnchorDay != 0) || p.AnchorDay < 0 || p.AnchorDay > 31 {
		return bad("a billing month begins on day 1 to 31, and no other reset has such a day; this is %q with day %d", p.Reset, p.AnchorDay)
	}
	if _, err := calendar.LoadZone(p.Zone); err != nil {
		return bad("%v", err)
	}
	return nil
}

// AddPool adds a pool whose first period begins now (L6); ErrPoolInvalid, store.ErrPoolExists.
func AddPool(ctx context.Context, tx *store.Tx, p store.Pool, actor string) (store.Pool, error) {
	if err := checkPool(p); err != nil {
		return p, err
	}
	p.CreatedAt, p.PeriodStartAt = tx.At, tx.At
	var err error
	if p.NextResetAt, err = usage.NextPoolReset(p, tx.At); err != nil {
		return p, fmt.Errorf("%w: %w", ErrPoolInvalid, err)
	}
	if p, err = tx.AddPool(ctx, p); err != nil {
		return p, err
	}
	return p, tx.Audit(ctx, actor, "pool_add", 0, 0, map[string]any{"pool_id": p.ID, "pool": p.Name, "policy": p.Policy,
		"allowance_bytes": p.AllowanceBytes, "cap_bytes": p.CapBytes, "reset": p.Reset})
}

// PoolChange is what to change of a pool; nil fields stay.
type PoolChange struct {
	Policy         *simwarden.PoolPolicy
	AllowanceBytes *int64
	CapBytes       *int64
}

// ChangePool changes a pool's rules, also for the running period, and has its members judged by them in
// the background with scene plan_check. It gives the pool as it is then.
func ChangePool(ctx context.Context, tx *store.Tx, id simwarden.PoolID, c PoolChange, actor string) (store.Pool, error) {
	p, err := lockPool(ctx, tx, id)
	if err != nil {
		return p, err
	}
	before := p
	if c.Policy != nil {
		p.Policy = *c.Policy
	}
	if c.AllowanceBytes != nil {
		p.AllowanceBytes = *c.AllowanceBytes
	}
	if c.CapBytes != nil {
		p.CapBytes = *c.CapBytes
	}
	if err := checkPool(p); err != nil || p == before {
		return p, err
	}
	if p, err = tx.ChangePool(ctx, p); err != nil {
		return p, err
	}
	if err := tx.RequestPoolEvaluation(ctx, id, simwarden.ScenePlanCheck, actor); err != nil {
		return p, err
	}
	return p, tx.Audit(ctx, actor, "pool_change", 0, 0, map[string]any{"pool_id": id, "pool": p.Name,
		"policy": p.Policy, "allowance_bytes": p.AllowanceBytes, "cap_bytes": p.CapBytes,
		"was": map[string]any{"policy": before.Policy, "allowance_bytes": before.AllowanceBytes, "cap_bytes": before.CapBytes}})
}

// lockPool locks one pool and brings it into its period.
func lockPool(ctx context.Context, tx *store.Tx, id simwarden.PoolID) (store.Pool, error) {
	list, err := tx.LockPools(ctx, []simwarden.PoolID{id})
	if err != nil {
		return store.Pool{}, err
	}
	if len(list) == 0 {
		return store.Pool{}, fmt.Errorf("pool %d: %w", id, store.ErrNotFound)
	}
	return usage.ResetPool(ctx, tx, list[0])
}

// TopUpPool adds data to the running period of a pool, once for an actor's key, and has its members judged
// in the background with scene topped_up. replayed says that the key has had its effect before, which is
// then given; ledger.ErrKeyReused where that was another request.
func TopUpPool(ctx context.Context, tx *store.Tx, id simwarden.PoolID, t store.PoolTopUp, key string) (p store.Pool, _ store.PoolTopUp, replayed bool, err error) {
	if p, err = lockPool(ctx, tx, id); err != nil {
		return p, t, false, err
	}
	if t.Bytes < 1 || t.Bytes > maxPoolBytes-p.TotalBytes() {
		return p, t, false, fmt.Errorf("%w: %d bytes cannot be added; give 1 to %d", ErrPoolInvalid, t.Bytes, maxPoolBytes-p.TotalBytes())
	}
	p, added, fresh, err := tx.TopUpPool(ctx, p, t, key)
	if err != nil {
		return p, added, false, err
	}
	if !fresh {
		if added, err = tx.PoolTopUpByKey(ctx, t.Actor, key); err != nil {
			return p, added, false, err
		}
		if added.PoolID != id || added.Bytes != t.Bytes || added.Note != t.Note {
			return p, added, false, ledger.ErrKeyReused
		}
		return p, added, true, nil
	}
	told := map[string]any{"pool_id": id, "pool": p.Name, "bytes": t.Bytes, "allowance_bytes": p.TotalBytes(), "used_bytes": p.UsedBytes}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventPoolToppedUp, Actor: t.Actor, Data: told}}); err != nil {
		return p, added, false, err
	}
	if err := tx.RequestPoolEvaluation(ctx, id, simwarden.SceneToppedUp, t.Actor); err != nil {
		return p, added, false, err
	}
	return p, added, false, tx.Audit(ctx, t.Actor, "pool_top_up", 0, 0, told)
}

// JoinPool puts assets into a pool, from now on, and asks for their evaluation, with scene topped_up: there
// is more data for them. capBytes is their own cap, nil for the pool's. It gives those that came in; the
// others are in a pool already, are SIMs of a device, or do not exist.
func JoinPool(ctx context.Context, tx *store.Tx, pool store.Pool, assets []store.Asset, capBytes *int64, actor string) ([]store.Asset, error) {
	if capBytes != nil && (*capBytes < 0 || *capBytes > maxPoolBytes) {
		return nil, fmt.Errorf("%w: a member's cap is %d bytes; give 1 to %d, or 0 for none", ErrPoolInvalid, *capBytes, maxPoolBytes)
	}
	if err := tx.LockAssets(ctx, assets); err != nil {
		return nil, err
	}
	in, err := tx.JoinPool(ctx, pool.ID, assets, capBytes, actor)
	if err != nil {
		return nil, err
	}
	return in, afterMove(ctx, tx, pool, in, movement{store.EventPoolJoined, "pool_member_add", simwarden.SceneToppedUp}, actor)
}

// LeavePool takes assets out of a pool, from now on, and asks for their evaluation, with scene plan_check.
// What they have drawn stays drawn. It gives those that were in it.
func LeavePool(ctx context.Context, tx *store.Tx, pool store.Pool, assets []store.Asset, actor string) ([]store.Asset, error) {
	if err := tx.LockAssets(ctx, assets); err != nil {
		return nil, err
	}
	out, err := tx.LeavePool(ctx, pool.ID, assets, actor)
	if err != nil {
		return nil, err
	}
	return out, afterMove(ctx, tx, pool, out, movement{store.EventPoolLeft, "pool_member_remove", simwarden.ScenePlanCheck}, actor)
}

type movement struct {
	event  string
	action string
	scene  simwarden.Scene
}

func afterMove(ctx context.Context, tx *store.Tx, pool store.Pool, moved []store.Asset, m movement, actor string) error {
	if len(moved) == 0 {
		return nil
	}
	events, requests := make([]store.NewEvent, len(moved)), make([]store.Evaluation, len(moved))
	var sims []simwarden.SIMID
	var devices []simwarden.DeviceID
	for i, a := range moved {
		events[i] = store.NewEvent{Kind: m.event, SIMID: a.SIMID, Actor: actor,
			Data: map[string]any{"pool_id": pool.ID, "pool": pool.Name, "device_id": a.DeviceID}}
		requests[i] = store.Evaluation{SIMID: a.SIMID, DeviceID: a.DeviceID, Scene: m.scene, AskedBy: actor,
			Cause: store.Cause{Kind: store.CausePool, ID: int64(pool.ID)}}
		if a.DeviceID != 0 {
			devices = append(devices, a.DeviceID)
		} else {
			sims = append(sims, a.SIMID)
		}
	}
	if err := tx.AddEvents(ctx, events); err != nil {
		return err
	}
	if err := tx.RequestEvaluations(ctx, requests, nil); err != nil {
		return err
	}
	return tx.Audit(ctx, actor, m.action, 0, 0, map[string]any{"pool_id": pool.ID, "pool": pool.Name, "sim_ids": sims, "device_ids": devices})
}

// poolBatch is how many pools one sweep resets.
const poolBatch = 20

// sweepPools begins the next period of the pools whose reset is due, each in a transaction of its own, so
// that one that cannot be reset holds up no other.
func (s *Sweeper) sweepPools(ctx context.Context) (int, error) {
	var due []simwarden.PoolID
	err := s.Store.InWorkTx(ctx, func(tx *store.Tx) error {
		because, err := tx.ClockHolds(ctx)
		if err != nil || because != "" {
			return err
		}
		due, err = tx.DuePools(ctx, poolBatch)
		return err
	})
	n := 0
	for _, id := range due {
		one := s.Store.InWorkTx(ctx, func(tx *store.Tx) error {
			_, err := lockPool(ctx, tx, id)
			return err
		})
		if one == nil {
			n++
		}
		err = errors.Join(err, one)
	}
	if err != nil {
		return n, fmt.Errorf("reset pools: %w", err)
	}
	return n, nil
}
