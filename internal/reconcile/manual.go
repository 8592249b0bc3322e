package reconcile

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// Manual does what a person asks of one SIM (E3): a suspend sets a hold that no automatic resume
// lifts, a resume lifts it. It is audited (R2). The outcome says what was ordered, with warnings.
func Manual(ctx context.Context, tx *store.Tx, id simwarden.SIMID, direction simwarden.Direction, actor, reason string) (Outcome, error) {
	if err := lockSIM(ctx, tx, id); err != nil {
		return Outcome{}, err
	}
	if err := tx.DropManualRequests(ctx, id); err != nil {
		return Outcome{}, err
	}
	hold := direction == simwarden.DirectionSuspend
	if err := tx.SetHold(ctx, id, hold, actor, reason); err != nil {
		return Outcome{}, err
	}
	out, err := SIM(ctx, tx, Item{SIMID: id, Scene: simwarden.SceneManual, Cause: store.Cause{Kind: store.CausePerson, ID: int64(id)}, AskedBy: actor, Manual: direction})
	if err != nil {
		return Outcome{}, err
	}
	kind := store.EventHold
	if !hold {
		kind = store.EventHoldLifted
	}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: kind, SIMID: id, Actor: actor, Data: map[string]any{"reason": reason}}}); err != nil {
		return Outcome{}, err
	}
	return out, tx.Audit(ctx, actor, "sim_"+string(direction), id, out.AccountID, map[string]any{
		"reason": reason, "command_id": out.CommandID, "ordered": out.Ordered.Action, "warnings": out.Decision.Warnings})
}

// lockSIM locks a SIM's own row, which is about to be written, before its facts: that is the order of
// all who lock both.
func lockSIM(ctx context.Context, tx *store.Tx, id simwarden.SIMID) error {
	if err := tx.LockAsset(ctx, store.Asset{SIMID: id}); err != nil {
		return err
	}
	_, err := tx.LockSIM(ctx, id)
	return err
}

// PausePolling stops the polling of a SIM for a person (P4). It says whether it ran until now.
func PausePolling(ctx context.Context, tx *store.Tx, id simwarden.SIMID, actor, reason string) (bool, error) {
	if err := lockSIM(ctx, tx, id); err != nil {
		return false, err
	}
	paused, err := tx.PausePolling(ctx, id, actor, reason)
	if err != nil || !paused {
		return false, err
	}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventPaused, SIMID: id, Actor: actor, Data: map[string]any{"reason": reason}}}); err != nil {
		return false, err
	}
	return true, tx.Audit(ctx, actor, "polling_pause", id, 0, map[string]any{"reason": reason})
}

// ResumePolling takes the polling of a SIM up again, paused or closed, and asks for an evaluation
// at once (E9). It says whether it was stopped.
func ResumePolling(ctx context.Context, tx *store.Tx, id simwarden.SIMID, actor, reason string) (bool, error) {
	if err := lockSIM(ctx, tx, id); err != nil {
		return false, err
	}
	resumed, err := tx.ResumePolling(ctx, id)
	if err != nil || !resumed {
		return false, err
	}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventResumed, SIMID: id, Actor: actor, Data: map[string]any{"reason": reason}}}); err != nil {
		return false, err
	}
	if _, err := tx.RequestEvaluation(ctx, store.Evaluation{SIMID: id, Scene: simwarden.ScenePollingResumed,
		Cause: store.Cause{Kind: store.CausePause, ID: int64(id)}, AskedBy: actor}); err != nil {
		return false, err
	}
	return true, tx.Audit(ctx, actor, "polling_resume", id, 0, map[string]any{"reason": reason})
}
