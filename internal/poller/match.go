package poller

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// takeIn matches the readings of pages to SIMs and hands them in. It gives how many are of SIMs that
// are not in the fleet: those are told, not added.
func (s *sweeper) takeIn(ctx context.Context, pages []page) (unknown int, err error) {
	begun := s.p.o.Clock.Now()
	rows, keys, strangers := s.match(pages)
	s.p.counters.decide.Add(int64(s.p.o.Clock.Now().Sub(begun)))
	if len(strangers) > 0 {
		found, learnt, n, err := s.matchStored(ctx, strangers)
		if err != nil {
			return 0, err
		}
		rows, keys, unknown = append(rows, found...), append(keys, learnt...), n
	}
	s.learn(ctx, keys)
	if err := s.hold(ctx); err != nil {
		return unknown, err
	}
	if len(rows) > 0 {
		kept := s.keep(ctx, s.listFence(), rows)
		s.p.count(kindAt[s.kind], outListed, len(rows))
		if kept.Lost > 0 {
			return unknown, errLeaseLost
		}
		for _, id := range kept.Anomalies {
			s.sweep.odd[id] = true
		}
	}
	s.p.counters.unknown.Add(int64(unknown))
	if unknown > 0 {
		s.p.metrics.rows.WithLabelValues("unknown").Add(float64(unknown))
	}
	if last := pages[len(pages)-1]; !last.last {
		s.sweep.Cursor = last.next
		return unknown, s.store(ctx, false)
	}
	return unknown, nil
}

// match finds the SIMs in memory and moves their single checks away.
func (s *sweeper) match(pages []page) (rows []store.PollRow, keys []store.LearnedKey, strangers []simwarden.Reading) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.p.o.Clock.Now()
	for _, p := range pages {
		for _, r := range p.readings {
			if !speaksOf(r, s.kind) {
				continue
			}
			s.note(r)
			e, ok := s.sched.find(r.Key, r.ICCID)
			if !ok {
				strangers = append(strangers, r)
				continue
			}
			if e.is(flagOff) || s.aside[e.id].After(now) {
				continue
			}
			if r.Key != "" && e.hash != s.sched.hashKey(r.Key) {
				keys = append(keys, store.LearnedKey{SIMID: e.id, Key: r.Key})
			}
			state := stateAt[e.state]
			if r.State != nil {
				state = r.State.State
			}
			due := s.listedDue(e.id, state, now, s.sched.at(e.due[s.kind]))
			rows = append(rows, store.PollRow{SIMID: e.id, Shard: e.shard, Kind: kindAt[s.kind], Reading: r, DueAt: due})
			if e.is(flagBusy) {
				continue // its own check sets when it is due
			}
			s.sched.set(e.id, s.kind, s.sched.ticks(due))
			if s.kind == 0 {
				s.sched.known(e.id, state)
			}
		}
	}
	return rows, keys, strangers
}

// listedDue is when a SIM that a list named is asked for by itself. Call it with mu held.
func (s *sweeper) listedDue(id simwarden.SIMID, state simwarden.State, now, before time.Time) time.Time {
	return s.nextDue(s.kind, rules.PaceInput{State: state, Now: now, LastDue: before, Outcome: rules.PaceListed, Seed: seedOf(id)})
}

// note keeps the period that a list of users speaks of.
func (s *sweeper) note(r simwarden.Reading) {
	if r.Usage != nil && r.Usage.PeriodStartAt.After(s.sweep.period) {
		s.sweep.period, s.sweep.periodEnd = r.Usage.PeriodStartAt, r.Usage.PeriodEndAt
	}
}

// matchStored finds SIMs of shards that other nodes hold; it gives how many are in none.
func (s *sweeper) matchStored(ctx context.Context, readings []simwarden.Reading) (rows []store.PollRow, learnt []store.LearnedKey, unknown int, err error) {
	var keys, iccids []string
	for _, r := range readings {
		if r.Key != "" {
			keys = append(keys, r.Key)
		}
		if !r.ICCID.IsZero() {
			iccids = append(iccids, r.ICCID.String())
			for _, other := range r.ICCID.Alternates() {
				iccids = append(iccids, other.String())
			}
		}
	}
	found, err := s.p.o.Store.FindListed(ctx, s.id, keys, iccids)
	if err != nil {
		return nil, nil, 0, err
	}
	byKey, byICCID := make(map[string]store.ScheduleRow, len(found)), make(map[string]store.ScheduleRow, len(found))
	for _, f := range found {
		if f.Key != "" {
			byKey[f.Key] = f
		}
		byICCID[f.ICCID] = f
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.p.o.Clock.Now()
	for _, r := range readings {
		f, ok := byKey[r.Key]
		if !ok {
			f, ok = byICCID[r.ICCID.String()]
		}
		for _, other := range r.ICCID.Alternates() {
			if ok {
				break
			}
			f, ok = byICCID[other.String()]
		}
		if !ok {
			unknown++
			continue
		}
		if r.Key != "" && f.Key != r.Key {
			learnt = append(learnt, store.LearnedKey{SIMID: f.SIMID, Key: r.Key})
		}
		if f.Off {
			continue
		}
		state := f.State
		if r.State != nil {
			state = r.State.State
		}
		rows = append(rows, store.PollRow{SIMID: f.SIMID, Shard: f.Shard, Kind: kindAt[s.kind], Reading: r,
			DueAt: s.listedDue(f.SIMID, state, now, dues(f)[s.kind])})
	}
	return rows, learnt, unknown, nil
}
