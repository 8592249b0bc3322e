package usage

import (
	"context"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// draw is what an asset in a pool has used beyond what is its own, and the instant it belongs to.
type draw struct {
	stay  store.PoolStay
	sim   store.UsageState
	bytes int64
	at    time.Time
}

// stayAt is the pool that an asset was in at the instant.
func (b *booking) stayAt(a store.Asset, at time.Time) (store.PoolStay, bool) {
	for _, s := range b.stays[a] {
		if s.Covers(at) {
			return s, true
		}
	}
	return store.PoolStay{}, false
}

// writeDraws books what was drawn from pools: it locks them, which comes last of the locks of a booking, and
// begins the next period of those whose reset is due, so that each draw meets the period it belongs to.
// A draw of a closed one is late and added to that (U4). A pool that is used up by this has its members
// judged in the background, with scene usage_check (L6).
func (b *booking) writeDraws(ctx context.Context, tx *store.Tx) error {
	if len(b.draws) == 0 {
		return nil
	}
	var ids []simwarden.PoolID
	for _, d := range b.draws {
		if !slices.Contains(ids, d.stay.PoolID) {
			ids = append(ids, d.stay.PoolID)
		}
	}
	pools, err := tx.LockPools(ctx, ids)
	if err != nil {
		return err
	}
	for _, p := range pools {
		if p, err = ResetPool(ctx, tx, p); err != nil {
			return err
		}
		if err := b.drawFrom(ctx, tx, p); err != nil {
			return err
		}
	}
	return nil
}

func (b *booking) drawFrom(ctx context.Context, tx *store.Tx, p store.Pool) error {
	var sum int64
	byMember := map[simwarden.PoolMemberID]int64{}
	by := map[simwarden.PoolMemberID]store.UsageState{}
	var members []store.DrawRow
	for _, d := range b.draws {
		if d.stay.PoolID != p.ID {
			continue
		}
		late := false
		if d.at.Before(p.PeriodStartAt) {
			var err error
			if late, err = tx.DrawLate(ctx, p.ID, d.at, d.bytes); err != nil {
				return err
			}
		}
		if late {
			b.LateBytes += d.bytes
			b.events = append(b.events, store.NewEvent{Kind: store.EventUsageLate, SIMID: d.sim.SIMID, AccountID: d.sim.AccountID, Actor: "carrier",
				Data: map[string]any{"pool": p.Name, "bytes": d.bytes, "true_at": d.at}})
			continue
		}
		sum += d.bytes
		byMember[d.stay.MemberID] += d.bytes
		by[d.stay.MemberID] = d.sim
	}
	if sum == 0 {
		return nil
	}
	for id, bytes := range byMember {
		members = append(members, store.DrawRow{MemberID: id, Period: p.Period, Bytes: bytes})
	}
	capped, err := tx.DrawByMembers(ctx, members)
	if err != nil {
		return err
	}
	after, err := tx.DrawFromPool(ctx, p.ID, sum)
	if err != nil || !after.Exhausted() {
		return err
	}
	if p.Exhausted() {
		for _, id := range capped {
			b.ask(by[id]) // the others' turn has come before
		}
		return nil
	}
	b.events = append(b.events, store.NewEvent{Kind: store.EventPoolExhausted, Actor: "system",
		Data: map[string]any{"pool_id": p.ID, "pool": p.Name, "used_bytes": after.UsedBytes, "allowance_bytes": after.TotalBytes(), "policy": p.Policy}})
	return tx.RequestPoolEvaluation(ctx, p.ID, simwarden.SceneUsageCheck, "system")
}

// maxPeriods bounds how many periods of a pool are closed in one transaction; the next closes more.
const maxPeriods = 400

// ResetPool begins the next period of a pool, locked before, where that is due, with a full allowance, and has its
// members judged in the background with scene plan_reset (L6). Where several periods have passed, each is
// closed with its own bounds. While the time is not to be trusted, the period goes on (C10). It gives the pool
// as it is then.
func ResetPool(ctx context.Context, tx *store.Tx, p store.Pool) (store.Pool, error) {
	due := func() bool { return !p.NextResetAt.IsZero() && !p.NextResetAt.After(tx.At) }
	if !due() {
		return p, nil
	}
	if because, err := tx.ClockHolds(ctx); err != nil || because != "" {
		return p, err
	}
	for n := 0; n < maxPeriods && due(); n++ {
		next, err := NextPoolReset(p, p.NextResetAt)
		if err != nil {
			return p, err
		}
		used := p.UsedBytes
		if p, err = tx.ResetPool(ctx, p, next); err != nil {
			return p, err
		}
		if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventPoolReset, Actor: "system",
			Data: map[string]any{"pool_id": p.ID, "pool": p.Name, "used_bytes": used, "next_reset_at": next}}}); err != nil {
			return p, err
		}
	}
	return p, tx.RequestPoolEvaluation(ctx, p.ID, simwarden.ScenePlanReset, "system")
}

// forever stands for the end of a pool, which has none.
var forever = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// NextPoolReset gives the first instant after after at which a pool's allowance is full again; zero where it
// never is. A cycle of days is counted from when the pool was added. The error wraps rules.ErrPlan.
func NextPoolReset(p store.Pool, after time.Time) (time.Time, error) {
	return rules.NextReset(simwarden.Plan{Code: "of pool " + p.Name, Reset: p.Reset, ResetDays: p.ResetDays, AnchorDay: p.AnchorDay, Zone: p.Zone},
		p.CreatedAt, after, forever)
}
