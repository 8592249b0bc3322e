package commander

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// flapHolds says until when a change that a repeated check alone asks for has to wait, because the SIM was changed too
// often or too lately by such; why is empty where it need not. What a plan's end, a purchase, a top-up or a person
// asks for passes at once, and what was before it counts no more (F30).
func (m *Commander) flapHolds(ctx context.Context, tx *store.Tx, j reconcile.Judged, c store.Command) (until time.Time, why string, err error) {
	if !c.Scene.FromCheck() || j.Account.CheckChangesPerDay <= 0 && j.Account.Dwell <= 0 {
		return time.Time{}, "", nil
	}
	changes, err := tx.ChangesOf(ctx, c.SIMID, tx.At.Add(-max(day, j.Account.Dwell)))
	if err != nil {
		return time.Time{}, "", err
	}
	until, why = flapWait(changes, c, j.Account.CheckChangesPerDay, j.Account.Dwell, tx.At)
	if why != store.HeldByFlap {
		return until, why, nil
	}
	return until, why, tx.Raise(ctx, store.Alert{Kind: store.AlertFlapping, Key: fmt.Sprintf("%s:%d", store.AlertFlapping, c.SIMID),
		SIMID: c.SIMID, AccountID: c.AccountID, Message: fmt.Sprintf("SIM %s flaps: checks have changed it as often as a day may, so its %s waits until %s",
			c.ICCID, c.Direction, until.UTC().Format(time.RFC3339))})
}

// flapWait is flapHolds over the changes that were made of the SIM, oldest first. What makes a SIM flap is that it is
// changed to one and the same state again and again: the other state in between was wanted by nobody. A change the
// other way, or one for another cause, begins the count anew, since a resume that a top-up led to is often ordered by the
// check that read the SIM for it (E11). So a resume after a suspend never waits.
func flapWait(changes []store.Change, c store.Command, most int, dwell time.Duration, now time.Time) (until time.Time, why string) {
	var made []time.Time
	var last store.Change
	for _, ch := range changes {
		switch {
		case !ch.Scene.FromCheck():
			made, last = nil, store.Change{}
			continue
		case ch.Direction != last.Direction:
			made = nil
		}
		made, last = append(made, ch.At), ch
	}
	if last.Direction != c.Direction {
		made = nil
	}
	if until := changeAllowedAt(made, c.Direction, most, now); until.After(now) {
		return until, store.HeldByFlap
	}
	if last.Direction == simwarden.DirectionResume && c.Direction == simwarden.DirectionSuspend {
		if until := last.At.Add(dwell); until.After(now) {
			return until, store.HeldByDwell
		}
	}
	return time.Time{}, ""
}
