package reconcile

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// SetRealName keeps a SIM's real-name status as a person says it, and asks for an evaluation at once:
// scene realname_activated where it is verified now, realname_check where not. It says whether that
// changed anything, and the account's need of it is judged there (E2).
func SetRealName(ctx context.Context, tx *store.Tx, id simwarden.SIMID, status simwarden.RealName, actor, reason string) (bool, error) {
	sim, err := tx.LockSIM(ctx, id)
	if err != nil || sim.RealName == status && !sim.RealNameReadAt.IsZero() {
		return false, err
	}
	if err := tx.SetRealName(ctx, id, status); err != nil {
		return false, err
	}
	told := map[string]any{"realname": status, "was": sim.RealName, "reason": reason}
	if err := tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventRealName, SIMID: id, AccountID: sim.AccountID, Actor: actor, Data: told}}); err != nil {
		return false, err
	}
	scene := simwarden.SceneRealNameCheck
	if status == simwarden.RealNameVerified {
		scene = simwarden.SceneRealNameActivated
	}
	if _, err := tx.RequestEvaluation(ctx, store.Evaluation{SIMID: id, Scene: scene,
		Cause: store.Cause{Kind: store.CausePerson, ID: int64(id)}, AskedBy: actor}); err != nil {
		return false, err
	}
	return true, tx.Audit(ctx, actor, "sim_realname", id, sim.AccountID, told)
}
