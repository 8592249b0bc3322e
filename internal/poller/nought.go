package poller

import (
	"context"
	"fmt"
	"slices"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/store"
)

// unnamed hands in nought for SIMs that a complete pass over a list of users did not name. One whose
// usage was never read needs two such passes: a nought that is wrong would make all it had used
// before look new.
func (s *sweeper) unnamed(ctx context.Context) error {
	if s.sweep.resumed || s.sweep.period.IsZero() || !s.zeroIfAbsent(ctx) {
		return nil
	}
	absent := map[simwarden.SIMID]bool{}
	for after := simwarden.SIMID(0); ; {
		list, err := s.p.o.Store.UnnamedUsages(ctx, s.id, s.sweep.period, s.sweep.BegunAt, after, zeroBatch)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			break
		}
		after = list[len(list)-1].SIMID
		list = slices.DeleteFunc(list, func(u store.UnnamedUsage) bool {
			if s.sweep.odd[u.SIMID] {
				return true
			}
			if !u.Known && !s.absent[u.SIMID] {
				absent[u.SIMID] = true
				return true
			}
			return false
		})
		if err := s.nought(ctx, list); err != nil {
			return err
		}
	}
	s.absent = absent
	return nil
}

func (s *sweeper) nought(ctx context.Context, list []store.UnnamedUsage) error {
	rows := make([]store.PollRow, 0, len(list))
	s.mu.Lock()
	now := s.p.o.Clock.Now()
	for _, u := range list {
		state, before := simwarden.StateUnknown, s.sweep.BegunAt
		e, ours := s.sched.lookup(u.SIMID)
		if ours {
			state, before = stateAt[e.state], s.sched.at(e.due[s.kind])
		}
		due := s.listedDue(u.SIMID, state, now, before)
		rows = append(rows, store.PollRow{SIMID: u.SIMID, Shard: u.Shard, Kind: simwarden.CheckUsage, DueAt: due,
			Reading: simwarden.Reading{ReadAt: s.sweep.BegunAt, Usage: &simwarden.UsageReading{PeriodStartAt: s.sweep.period, PeriodEndAt: s.sweep.periodEnd}}})
		if ours && !e.is(flagBusy) {
			s.sched.set(u.SIMID, s.kind, s.sched.ticks(due))
		}
	}
	s.mu.Unlock()
	if err := s.hold(ctx); err != nil || len(rows) == 0 {
		return err
	}
	kept := s.keep(ctx, s.listFence(), rows)
	s.p.count(kindAt[s.kind], outListed, len(rows))
	if kept.Lost > 0 {
		return fmt.Errorf("usage of nought: %w", errLeaseLost)
	}
	return nil
}

// zeroIfAbsent asks the connection, without a call.
func (s *sweeper) zeroIfAbsent(ctx context.Context) (yes bool) {
	call := gateway.Call{Operation: simwarden.OpListUsage, Purpose: simwarden.PurposePoll, Wait: s.p.o.Wait}
	err := s.p.o.Gateway.Do(ctx, s.id, call, func(_ context.Context, conn carrier.Conn) error {
		if lister, ok := conn.(carrier.UsageLister); ok {
			yes = lister.ZeroIfAbsent()
		}
		return nil
	})
	return yes && err == nil
}
