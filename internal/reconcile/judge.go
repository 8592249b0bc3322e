package reconcile

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// Judged is a decision with what it was made from, and how the carrier is asked for the SIM.
type Judged struct {
	SIM      store.SIM
	Account  store.Account
	Facts    rules.Facts
	Decision simwarden.Decision
}

// Judge decides afresh with a scene, as just before sending (C3), and orders nothing. The SIM
// stays locked for the rest of the transaction.
func Judge(ctx context.Context, tx *store.Tx, id simwarden.SIMID, scene simwarden.Scene, manual simwarden.Direction) (Judged, error) {
	sim, err := tx.LockSIM(ctx, id)
	if err != nil {
		return Judged{}, fmt.Errorf("judge: %w", err)
	}
	facts, err := tx.Facts(ctx, []simwarden.SIMID{id})
	if err != nil {
		return Judged{}, fmt.Errorf("judge: %w", err)
	}
	if len(facts) == 0 {
		return Judged{}, fmt.Errorf("judge sim %d: %w", id, store.ErrNotFound)
	}
	accounts, err := accountsOf(ctx, tx, facts)
	if err != nil {
		return Judged{}, fmt.Errorf("judge: %w", err)
	}
	j := Judged{SIM: sim, Account: accounts[sim.AccountID], Facts: facts[0].Facts}
	complete(&j.Facts, j.Account, Item{Scene: scene, Manual: manual}, tx.At)
	j.Decision = rules.Decide(j.Facts)
	return j, nil
}

// Preview tells what a periodic evaluation would order now for SIMs, without writing anything:
// what diff shows (C9). Accounts that observe are judged as if they acted, and what lapsed meanwhile as it
// will be when they do.
func Preview(ctx context.Context, tx *store.Tx, ids []simwarden.SIMID) ([]Outcome, error) {
	sims, err := tx.Facts(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	accounts, err := accountsOf(ctx, tx, sims)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	lapses, err := tx.ObservedLapses(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("preview: %w", err)
	}
	out := make([]Outcome, 0, len(sims))
	for _, sim := range sims {
		a, item := accounts[sim.AccountID], Item{Scene: simwarden.ScenePeriodic}
		if l, ok := lapses[sim.ID]; ok {
			item.Observed = &l
		}
		complete(&sim.Facts, a, item.settle(sim), tx.At)
		d := rules.Decide(sim.Facts)
		o := rules.Order(rules.OrderInput{Decision: d, Facts: sim.Facts, Open: sim.Open, Mode: simwarden.ModeAct,
			LastFailedDirection: sim.FailedDir, ReopenAt: sim.ReopenAt, Braked: !a.BrakedAt.IsZero(),
			DriftHold: driftHold(a, sim, d)})
		out = append(out, Outcome{SIMID: sim.ID, AccountID: sim.AccountID, ICCID: sim.ICCID, Facts: sim.Facts, Decision: d, Ordered: o})
	}
	return out, nil
}
