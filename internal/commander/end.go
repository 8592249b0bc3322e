package commander

import (
	"context"
	"fmt"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// end ends a command that the transaction has locked and that is where the caller believes. Each
// end is a record and an event; the SIM's next reading is judged in full.
func (m *Commander) end(ctx context.Context, tx *store.Tx, c store.Command, to simwarden.CommandState, because string) error {
	ended, err := tx.EndCommand(ctx, c.ID, c.State, to, because)
	if err != nil {
		return err
	}
	if !ended {
		return fmt.Errorf("end command %d as %s: it is not %s any more", c.ID, to, c.State)
	}
	if err := tx.Unsettle(ctx, c.SIMID); err != nil {
		return err
	}
	if !c.ThrottledSinceAt.IsZero() && to != simwarden.CommandFailed {
		if err := tx.SetDrifting(ctx, c.SIMID, ""); err != nil {
			return err
		}
	}
	for _, key := range []string{throttledKey(c.SIMID), stuckKey(c.SIMID)} {
		if err := tx.ClearAlert(ctx, key, reconcile.System); err != nil {
			return err
		}
	}
	m.metrics.ended.WithLabelValues(string(to)).Inc()
	return tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventCommandEnded, SIMID: c.SIMID, AccountID: c.AccountID, Actor: c.AskedBy,
		Data: map[string]any{"command_id": c.ID, "state": to, "direction": c.Direction, "reason": c.Reason, "scene": c.Scene,
			"attempts": c.Attempt, "because": because}}})
}

// succeed ends a command whose wish is fulfilled, and forgets earlier failures.
func (m *Commander) succeed(ctx context.Context, tx *store.Tx, c store.Command, because string) error {
	if err := m.end(ctx, tx, c, simwarden.CommandDone, because); err != nil {
		return err
	}
	if err := tx.ClearFailed(ctx, c.SIMID); err != nil {
		return err
	}
	return reconcile.InLine(ctx, tx, c.SIMID)
}

// fail ends a command for good (C8): the SIM is shown as drifting, an alert goes out, and the same
// order may be opened again only after a pause that grows with each failure in a row.
func (m *Commander) fail(ctx context.Context, tx *store.Tx, sim store.SIM, c store.Command, because string) error {
	if err := m.end(ctx, tx, c, simwarden.CommandFailed, because); err != nil {
		return err
	}
	inRow := 1
	if sim.FailedDir == c.Direction {
		inRow = sim.FailedInRow + 1
	}
	reopenAt := tx.At.Add(rules.ReopenWait(m.Backoff, inRow))
	if err := tx.SetFailed(ctx, c.SIMID, c.Direction, inRow, reopenAt); err != nil {
		return err
	}
	if err := tx.SetDrifting(ctx, c.SIMID, fmt.Sprintf("%s failed: %s", c.Direction, because)); err != nil {
		return err
	}
	if _, rests, err := tx.RestOf(ctx, c.AccountID, c.Direction); err != nil || rests && c.Attempt > 0 {
		return err // the account's own alert stands for it
	}
	return tx.Raise(ctx, store.Alert{Kind: store.AlertCommandFailed, Key: reconcile.FailedKey(c.SIMID), SIMID: c.SIMID, AccountID: c.AccountID,
		Message: fmt.Sprintf("%s of SIM %s failed: %s", c.Direction, c.ICCID, because)})
}

func throttledKey(id simwarden.SIMID) string { return fmt.Sprintf("command_throttled:%d", id) }
func stuckKey(id simwarden.SIMID) string     { return fmt.Sprintf("command_stuck:%d", id) }

// whatChanged says which checks come out otherwise than when the command was written (S13).
func whatChanged(before, now simwarden.Decision) string {
	was := make(map[string]simwarden.Check, len(before.Checks))
	for _, c := range before.Checks {
		was[c.Name] = c
	}
	var changed []string
	for _, c := range now.Checks {
		if old, ok := was[c.Name]; ok && old.Passed != c.Passed {
			changed = append(changed, fmt.Sprintf("%s: %s (was: %s)", c.Name, c.Saw, old.Saw))
		}
	}
	if len(changed) == 0 {
		return fmt.Sprintf("the decision is now %s", now.Desired)
	}
	return strings.Join(changed, "; ")
}
