package commander

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// probeLost is how long a probe whose outcome is not known keeps the next one back.
const probeLost = 15 * time.Minute

// forgetEvery is how often answers that count no more are let go.
const forgetEvery = time.Minute

// rests says what the command waits for where its account's changes rest, empty where it may go on (G8).
// take makes it the one SIM that is tried, if it is time for one; a person's single click always goes out.
func (m *Commander) rests(ctx context.Context, tx *store.Tx, c store.Command, take bool) (why string, err error) {
	if purposeOf(c).Exempt() {
		return "", nil
	}
	look := tx.RestOf
	if take {
		look = tx.LockRest
	}
	r, rests, err := look(ctx, c.AccountID, c.Direction)
	if err != nil || !rests {
		return "", err
	}
	if r.ProbeAt.After(tx.At) {
		return store.HeldByRest, nil
	}
	if tx.At.Sub(r.ProbedAt) < probeLost {
		if under, err := tx.ProbeUnderWay(ctx, r); err != nil || under {
			return store.HeldByRest, err
		}
	}
	if !take {
		return "", nil
	}
	return "", tx.TakeProbe(ctx, c, tx.At.Add(rules.ProbeWait(m.Rest, r.Probes+1)))
}

// noteAnswer keeps what the carrier made of a change. Where it refuses nearly all SIMs of the account, their
// commands come to rest, and one alert says so (G8). What says nothing about the account is left aside.
func (m *Commander) noteAnswer(ctx context.Context, tx *store.Tx, c store.Command, s settled) error {
	refused := false
	if s.err != nil {
		if refused = rules.RefusesChange(classOf(s.err, simwarden.OperationOf(c.Direction)), s.err); !refused {
			return nil
		}
	}
	rests, err := tx.NoteAnswer(ctx, c, refused)
	if err != nil {
		return err
	}
	switch {
	case !refused && rests && s.attempt.Outcome == store.AttemptDone:
		return m.endRest(ctx, tx, c)
	case !refused:
		return nil
	case !rests:
		answers, err := tx.LatestAnswers(ctx, c.AccountID, c.Direction, tx.At.Add(-m.Rest.Window), m.Rest.Latest)
		if err != nil || !rules.Rest(m.Rest, answers) {
			return err
		}
		if err := m.beginRest(ctx, tx, c, words(s.err)); err != nil {
			return err
		}
	}
	accounts, err := tx.AccountsByID(ctx, []simwarden.AccountID{c.AccountID})
	if err != nil {
		return err
	}
	return tx.Raise(ctx, store.Alert{Kind: store.AlertRest, Key: store.RestAlertKey(c.AccountID, c.Direction), AccountID: c.AccountID,
		Message: fmt.Sprintf("the carrier refuses the %ss of nearly all SIMs of account %s, the last with: %s; they wait, and one SIM is tried now and then. "+
			"Ask the carrier whether the account is blocked", c.Direction, accounts[c.AccountID].Name, words(s.err))})
}

func (m *Commander) beginRest(ctx context.Context, tx *store.Tx, c store.Command, last string) error {
	because := fmt.Sprintf("the carrier refused the %ss of at least %d SIMs and %d %% of the latest: %s", c.Direction, m.Rest.AtLeast, m.Rest.SharePercent, last)
	first, err := tx.RestAccount(ctx, c.AccountID, c.Direction, because, tx.At.Add(rules.ProbeWait(m.Rest, 0)), tx.At.Add(-m.Rest.Window))
	if err != nil || !first {
		return err
	}
	return m.tellRest(ctx, tx, c, "rests", because)
}

// endRest lets an account's changes go on where they rested: a change was made. SIMs that were refused are judged
// again soon, by endRests.
func (m *Commander) endRest(ctx context.Context, tx *store.Tx, c store.Command) error {
	if c.Attempt == 0 {
		return nil // nothing was asked of the carrier
	}
	ended, err := tx.EndRest(ctx, c.AccountID, c.Direction)
	if err != nil || !ended {
		return err
	}
	if err := tx.ClearAlert(ctx, store.RestAlertKey(c.AccountID, c.Direction), reconcile.System); err != nil {
		return err
	}
	return m.tellRest(ctx, tx, c, "goes on", fmt.Sprintf("the %s of a SIM was carried out", c.Direction))
}

func (m *Commander) tellRest(ctx context.Context, tx *store.Tx, c store.Command, change, because string) error {
	m.Log.WarnContext(ctx, "account: "+string(c.Direction)+" "+change, "account", c.AccountID, "because", because)
	return tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventAccountChanged, AccountID: c.AccountID, Actor: reconcile.System,
		Data: map[string]any{"change": change, "direction": c.Direction, "because": because}}})
}

// endRests looks after what rests leave behind: alerts of single SIMs are folded into their account's, and SIMs
// that were refused are judged again at once after the rest. It is called from one goroutine.
func (m *Commander) endRests(ctx context.Context) error {
	if err := m.Store.FoldFailures(ctx); err != nil {
		return err
	}
	sims, err := m.Store.RefusedWhileAtRest(ctx, sweepBatch)
	if err != nil {
		return err
	}
	for _, id := range sims {
		err := m.Store.InWorkTx(ctx, func(tx *store.Tx) error {
			sim, err := tx.LockSIM(ctx, id)
			if err != nil {
				return err
			}
			if err := tx.ClearFailed(ctx, id); err != nil {
				return err
			}
			_, err = tx.RequestEvaluation(ctx, store.Evaluation{SIMID: id, Scene: simwarden.SceneStateCheck,
				Cause: store.Cause{Kind: store.CauseAccount, ID: int64(sim.AccountID)}, AskedBy: reconcile.System})
			return err
		})
		if err != nil {
			return fmt.Errorf("judge sim %d again: %w", id, err)
		}
	}
	now := m.Store.Now()
	if len(sims) == sweepBatch || now.Sub(m.forgotAt).Abs() < forgetEvery {
		return nil
	}
	m.forgotAt = now
	return m.Store.ForgetRefusals(ctx, now.Add(-m.Rest.Window))
}
