package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// settable are the real-name statuses that a person may set.
var settable = []simwarden.RealName{simwarden.RealNameVerified, simwarden.RealNameUnverified}

// SetRealName sets a SIM's real-name status by hand, where its carrier does not tell it (E2), or says
// what is not understood; it lasts until the carrier says what is. It is
// audited, and the SIM is judged at once. changed is false where it was so already.
func (s *Service) SetRealName(ctx context.Context, iccid string, status simwarden.RealName, actor, reason string) (sim store.SIM, changed bool, err error) {
	if err = checkReason(reason); err != nil {
		return sim, false, err
	}
	if !isOneOf(status, settable) {
		return sim, false, notOneOf("realname", status, settable)
	}
	if sim, err = s.FindSIM(ctx, iccid); err != nil {
		return sim, false, err
	}
	account, err := s.Store.Account(ctx, sim.AccountID)
	if err != nil {
		return sim, false, err
	}
	if driver, err := carrier.Lookup(account.Driver); err == nil && driver.Info().CanRead(simwarden.CheckRealName) {
		if sim.RealNameOdd == "" {
			return sim, false, badInput("the carrier of account %s tells real-name status itself; what a person says would not last", account.Name)
		}
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		changed, err = reconcile.SetRealName(ctx, tx, sim.ID, status, actor, reason)
		return err
	})
	if err != nil {
		return sim, false, err
	}
	sim, err = s.Store.SIM(ctx, sim.ID)
	return sim, changed, err
}

const maxAccountEvaluations = 20

// AccountEvaluations lists the latest evaluations of all of an account's SIMs, with their progress,
// the newest first (S19).
func (s *Service) AccountEvaluations(ctx context.Context, name string) ([]store.AccountEvaluation, error) {
	a, err := s.Store.AccountByName(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.Store.AccountEvaluations(ctx, a.ID, maxAccountEvaluations)
}
