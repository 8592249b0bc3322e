package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

type simRealName struct {
	SIMPath
	Body struct {
		RealName simwarden.RealName `json:"realname" doc:"verified or unverified"`
		Reason   string             `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the audit log and whoever asks later"`
	} `nameHint:"RealNameRequest"`
}

// RealNameChange is what came of setting a SIM's real-name status.
type RealNameChange struct {
	SIM     store.SIM `json:"sim"`
	Changed bool      `json:"changed" doc:"False where it was so already"`
}

func (r *rest) realNames() {
	on(r, post("/sims/{iccid}/realname", "set-realname", "Set a SIM's real-name status by hand, where its carrier does not tell it"),
		func(ctx context.Context, in *simRealName) (RealNameChange, error) {
			sim, changed, err := r.service.SetRealName(ctx, in.ICCID, in.Body.RealName, actorOf(ctx), in.Body.Reason)
			return RealNameChange{sim, changed}, err
		})
	on(r, get("/accounts/{name}/evaluations", "list-account-evaluations", "List how far evaluations of all SIMs of an account have come, newest first"),
		func(ctx context.Context, in *NamePath) (items[store.AccountEvaluation], error) {
			list, err := r.service.AccountEvaluations(ctx, in.Name)
			return items[store.AccountEvaluation]{list}, err
		})
}
