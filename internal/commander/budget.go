package commander

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// What a line's budgets make a command wait for (C11).
const (
	heldByGap    = "the carrier's pause between calls for one SIM"
	heldByBudget = "the carrier's changes a line and day"
	heldByLock   = "the carrier's lock after a suspend"
)

const day = 24 * time.Hour

// budget says until when the carrier's limits for one line hold the command back, and which; why
// is empty where none does (C11). A day is any 24 hours: no carrier's own day can then see more.
func (m *Commander) budget(ctx context.Context, tx *store.Tx, j reconcile.Judged, t *task) (until time.Time, why string, err error) {
	gap, most := t.info.PerSIMGap, t.info.ChangesPerLineDay
	if lock := t.info.LockAfterSuspend; lock > 0 && t.cmd.Direction == simwarden.DirectionResume {
		last, err := tx.LastSuspendAt(ctx, t.cmd.SIMID)
		if err != nil {
			return time.Time{}, "", err
		}
		if until := last.Add(lock); !last.IsZero() && until.After(tx.At) {
			return until, heldByLock, nil
		}
	}
	if gap <= 0 && most <= 0 {
		return time.Time{}, "", nil
	}
	sent, err := tx.SentAt(ctx, t.cmd.SIMID, tx.At.Add(-max(day, gap)))
	if err != nil {
		return time.Time{}, "", err
	}
	if until := changeAllowedAt(sent, t.cmd.Direction, most, tx.At); until.After(tx.At) {
		return until, heldByBudget, nil
	}
	if gap > 0 {
		var last time.Time
		if t.info.GapOn(simwarden.OpQueryState) {
			last = lastCallAt(j.Facts)
		}
		if n := len(sent); n > 0 && sent[n-1].After(last) {
			last = sent[n-1]
		}
		if until := last.Add(gap); until.After(tx.At) {
			return until, heldByGap, nil
		}
	}
	return time.Time{}, "", nil
}

// changeAllowedAt is the earliest instant at which the line may have one more change; the zero time
// where that is now. sent are its changes of the last day, oldest first. One change a day is kept for
// a resume, where the carrier allows more than one.
func changeAllowedAt(sent []time.Time, d simwarden.Direction, most int, now time.Time) time.Time {
	if most <= 0 {
		return time.Time{}
	}
	if d == simwarden.DirectionSuspend && most > 1 {
		most--
	}
	var inDay []time.Time
	for _, at := range sent {
		if now.Sub(at) < day {
			inDay = append(inDay, at)
		}
	}
	if len(inDay) < most {
		return time.Time{}
	}
	return inDay[len(inDay)-most].Add(day)
}

// lastCallAt is the latest read of the SIM that is known of.
func lastCallAt(f rules.Facts) time.Time {
	last := f.StateReadAt
	for _, at := range []time.Time{f.UsageReadAt, f.RealNameAt} {
		if at.After(last) {
			last = at
		}
	}
	return last
}
