package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// SlotAsk asks for timed slots of one limit (G4).
type SlotAsk struct {
	Group simwarden.LimitGroupID
	// Line names the limit: an operation with a limit or window of its own, or "" for the others.
	Line simwarden.Operation
	// Commands and Polls are how many slots are asked for. No more are given than fall due in Span,
	// but at least one where one is asked for and no window is used up.
	Commands, Polls int
	// Spent are exempt calls that have been made without a slot: they count in all windows, and move
	// the next slot as far as theirs would have, up to ExemptAhead from now.
	Spent       int
	ExemptAhead time.Duration
	Span        time.Duration
	// Within is how far ahead the first slot may lie: with a later one nothing is taken.
	Within time.Duration
	// Slack is δ: slots are (1 s + δ)/limit apart. At most 250 ms, which is what the longer windows
	// are lengthened by.
	Slack time.Duration
	// Back are slots of earlier leases that were not used: they count in no window any more.
	Back []SlotsBack
}

// SlotsBack are slots of one lease that were not used, Polls of them such as polls may use.
type SlotsBack struct {
	LeaseAt      time.Time // the lease's FirstAt
	Slots, Polls int
}

// MaxSlotWithin bounds SlotAsk.Within, so that a slot that is honestly taken never lies further
// ahead than slotHorizon.
const MaxSlotWithin = 15 * time.Second

// slotHorizon is how far ahead of the database's clock the next slot may honestly lie. One beyond
// it was written before that clock was set back (F17): it is brought back to the horizon, when all
// slots given out before have passed.
const slotHorizon = 20 * time.Second

// SlotLease is what became of a SlotAsk. Slot i is at FirstAt + i*Step, by the database's clock,
// which showed NowAt while the statement ran. The last Polls of the Slots may be used by polls, all
// of them by commands.
type SlotLease struct {
	FirstAt, NowAt time.Time
	Step           time.Duration
	Slots, Polls   int
	Limited        bool // false: there is no such limit (any more)
	// FullUntil is when the window that is used up longest has room again, PollsUntil the same of
	// the polls' share; zero where none is used up.
	FullUntil, PollsUntil time.Time
}

// TakeSlots leases slots. One statement reads the limits, moves the next free slot, counts the slots
// in the longer windows and gives both clocks, so that nodes that know of a changed limit at
// different times do not matter.
func (s *Store) TakeSlots(ctx context.Context, ask SlotAsk) (SlotLease, error) {
	var l SlotLease
	var step *float64
	var first, now, full, polls *time.Time
	at, back, backPolls := make([]time.Time, len(ask.Back)), make([]int, len(ask.Back)), make([]int, len(ask.Back))
	for i, b := range ask.Back {
		at[i], back[i], backPolls[i] = b.LeaseAt, b.Slots, b.Polls
	}
	err := s.work.QueryRow(ctx, `
		SELECT first_at, now_at, step, slots, for_polls, limited, full_until, polls_until
		FROM take_slots($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
		ask.Group, string(ask.Line), ask.Commands, ask.Polls, ask.Spent, ask.Span.Seconds(), min(ask.Within, MaxSlotWithin).Seconds(),
		ask.Slack.Seconds(), slotHorizon.Seconds(), min(ask.ExemptAhead, MaxSlotWithin).Seconds(), at, back, backPolls).
		Scan(&first, &now, &step, &l.Slots, &l.Polls, &l.Limited, &full, &polls)
	if err != nil {
		return SlotLease{}, fmt.Errorf("take slots of limit group %d: %w", ask.Group, err)
	}
	if !l.Limited {
		return SlotLease{}, nil
	}
	l.FirstAt, l.NowAt, l.FullUntil, l.PollsUntil = utc(first), utc(now), utc(full), utc(polls)
	l.Step = time.Duration(*step * float64(time.Second))
	return l, nil
}

// utc is the instant in UTC, zero for none.
func utc(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.UTC()
}
