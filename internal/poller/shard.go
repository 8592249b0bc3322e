package poller

import (
	"context"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// keepShards renews what this node holds, gives back what is more than its share, takes what is
// free up to its share, and keeps the accounts' settings fresh.
func (p *Poller) keepShards(ctx context.Context) error {
	rows, err := p.o.Store.Accounts(ctx)
	if err != nil {
		return err
	}
	byID := make(map[simwarden.AccountID]store.Account, len(rows))
	for _, row := range rows {
		byID[row.ID] = row
		if a := p.account(row.ID); a != nil {
			a.set(row)
		}
	}
	if err := p.renew(ctx); err != nil {
		return err
	}
	share, err := p.share(ctx)
	if err != nil {
		return err
	}
	switch held := p.held(); {
	case len(held) > share:
		return p.giveBack(ctx, held[share:])
	case len(held) < share:
		taken, err := p.o.Store.TakeShards(ctx, p.o.Holder, share-len(held), p.o.LeaseFor, p.notNow()...)
		if err != nil {
			return err
		}
		return p.adopt(ctx, byID, taken)
	}
	return nil
}

// renew prolongs the leases and drops the shards that are another's by now.
func (p *Poller) renew(ctx context.Context) error {
	now := p.o.Clock.Now()
	if _, _, err := p.o.Store.TakeLease(ctx, presence+p.o.Holder, p.o.Holder, p.o.LeaseFor); err != nil {
		return err
	}
	held := p.held()
	if len(held) > 0 {
		still, err := p.o.Store.RenewShards(ctx, p.o.Holder, held, p.o.LeaseFor)
		if err != nil {
			return err
		}
		p.drop(slices.DeleteFunc(held, func(s store.PollShard) bool { return slices.Contains(still, s) }))
	}
	p.mu.Lock()
	p.renewedAt = now
	p.mu.Unlock()
	return nil
}

// share is this node's fair part of all shards, rounded up.
func (p *Poller) share(ctx context.Context) (int, error) {
	all, err := p.o.Store.CountShards(ctx)
	if err != nil {
		return 0, err
	}
	nodes, err := p.o.Store.LiveLeases(ctx, presence)
	if err != nil {
		return 0, err
	}
	nodes = max(nodes, 1)
	return (all + nodes - 1) / nodes, nil
}

// notNow gives the accounts whose shards are left alone: those that could not be started a while ago
// would otherwise take up this node's share each time, and others' shards would be nobody's (P6).
func (p *Poller) notNow() []simwarden.AccountID {
	now := p.o.Clock.Now()
	var out []simwarden.AccountID
	for id, until := range p.refused {
		if !now.Before(until) {
			delete(p.refused, id)
			continue
		}
		out = append(out, id)
	}
	return out
}

// adopt loads shards that were just taken, account by account. One that cannot be loaded is given
// back.
func (p *Poller) adopt(ctx context.Context, rows map[simwarden.AccountID]store.Account, taken []store.PollShard) error {
	for i, shard := range taken {
		row, ok := rows[shard.AccountID]
		if !ok { // added since: the next turn knows it
			if err := p.o.Store.GiveShards(ctx, p.o.Holder, []store.PollShard{shard}); err != nil {
				return err
			}
			continue
		}
		a := p.account(row.ID)
		if a == nil {
			var err error
			if a, err = p.start(ctx, row); err != nil {
				if _, again := p.refused[row.ID]; !again {
					p.o.Log.Error("poller: account is not polled", "account", row.Name, "error", err)
				}
				p.refused[row.ID] = p.o.Clock.Now().Add(refusedFor)
				if err := p.o.Store.GiveShards(ctx, p.o.Holder, []store.PollShard{shard}); err != nil {
					return err
				}
				continue
			}
		}
		if err := a.load(ctx, shard); err != nil {
			return p.giveBackAfter(ctx, taken[i:], err)
		}
		if p.o.Clock.Now().Sub(p.renewed()) > p.o.LeaseFor/3 {
			if err := p.renew(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *Poller) giveBackAfter(ctx context.Context, shards []store.PollShard, why error) error {
	if err := p.giveBack(ctx, shards); err != nil {
		p.o.Log.Error("poller: shards were not given back", "error", err)
	}
	return why
}

func (p *Poller) giveBack(ctx context.Context, shards []store.PollShard) error {
	p.drop(shards)
	return p.o.Store.GiveShards(ctx, p.o.Holder, shards)
}

// drop forgets shards, and ends the accounts of which nothing is left.
func (p *Poller) drop(shards []store.PollShard) {
	for _, shard := range shards {
		a := p.account(shard.AccountID)
		if a == nil || a.drop(shard.Shard) > 0 {
			continue
		}
		a.cancel()
		p.mu.Lock()
		delete(p.accounts, a.id)
		p.mu.Unlock()
	}
}

// dropExpired forgets everything once the leases cannot be ours any more.
func (p *Poller) dropExpired() {
	if p.o.Clock.Now().Sub(p.renewed()) > p.o.LeaseFor {
		p.drop(p.held())
	}
}

func (p *Poller) renewed() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.renewedAt
}

func (p *Poller) account(id simwarden.AccountID) *account {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accounts[id]
}

// takeNudges reads anew the schedule of SIMs that were changed from outside.
func (p *Poller) takeNudges(ctx context.Context) error {
	for {
		held := p.held()
		if len(held) == 0 {
			return nil
		}
		ids, err := p.o.Store.TakeNudges(ctx, held, nudgeBatch)
		if err != nil || len(ids) == 0 {
			return err
		}
		rows := map[simwarden.AccountID][]store.ScheduleRow{}
		if err := p.o.Store.ScheduleOf(ctx, ids, func(r store.ScheduleRow) { rows[r.AccountID] = append(rows[r.AccountID], r) }); err != nil {
			return err
		}
		for id, of := range rows {
			if a := p.account(id); a != nil {
				a.nudged(of)
			}
		}
		if len(ids) < nudgeBatch {
			return nil
		}
	}
}
