package api

import (
	"context"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// SIMDifference is one SIM that is not as it should be (C9).
type SIMDifference struct {
	ICCID     string              `json:"iccid"`
	AccountID simwarden.AccountID `json:"account_id"`
	Account   string              `json:"account"`
	State     simwarden.State     `json:"state"`
	Desired   simwarden.Desired   `json:"desired"`
	Action    string              `json:"action"`
	Direction simwarden.Direction `json:"direction,omitempty"`
	Reason    simwarden.Reason    `json:"reason,omitempty"`
	Because   string              `json:"because,omitempty"`
	ReadAt    time.Time           `json:"state_read_at,omitzero"`
}

// The bounds of one look, in SIMs, and of a page, in looks.
const (
	diffBatch       = 500
	diffBatchesPage = 10
)

// Diff tells, for an account or (zero) the whole fleet, what a judgement now would order, as if
// every account acted, and calls each for every SIM that is not as it should be. It writes nothing.
func (s *Service) Diff(ctx context.Context, account simwarden.AccountID, each func(SIMDifference) error) error {
	names, err := s.accountNames(ctx)
	if err != nil {
		return err
	}
	for after := simwarden.SIMID(0); ; {
		outcomes, last, err := s.preview(ctx, account, after)
		if err != nil || last == after {
			return err
		}
		after = last
		for _, o := range outcomes {
			if err := each(difference(o, names[o.AccountID])); err != nil {
				return err
			}
		}
	}
}

// DiffPage is a page of Diff, by SIM, for an account by name or (empty) the whole fleet. It looks at
// so many SIMs that it is there soon, so that a page may have few items, or none, and go on.
func (s *Service) DiffPage(ctx context.Context, account, cursor string, limit int) (Page[SIMDifference], error) {
	out := Page[SIMDifference]{Items: []SIMDifference{}}
	limit, err := pageLimit(limit)
	if err != nil {
		return out, err
	}
	from, err := cursorID("difference", cursor)
	if err != nil {
		return out, err
	}
	id, err := s.accountID(ctx, account)
	if err != nil {
		return out, err
	}
	names, err := s.accountNames(ctx)
	if err != nil {
		return out, err
	}
	after := simwarden.SIMID(from)
	for range diffBatchesPage {
		outcomes, last, err := s.preview(ctx, id, after)
		if err != nil || last == after {
			return out, err
		}
		for _, o := range outcomes {
			out.Items = append(out.Items, difference(o, names[o.AccountID]))
			if len(out.Items) == limit {
				out.Next = cursorOf("difference", int64(o.SIMID))
				return out, nil
			}
		}
		after = last
	}
	out.Next = cursorOf("difference", int64(after))
	return out, nil
}

func (s *Service) accountNames(ctx context.Context) (map[simwarden.AccountID]string, error) {
	accounts, err := s.Store.Accounts(ctx)
	names := make(map[simwarden.AccountID]string, len(accounts))
	for _, a := range accounts {
		names[a.ID] = a.Name
	}
	return names, err
}

// preview looks at the next SIMs and gives those that are not as they should be, and the last that it
// looked at: after where there is none.
func (s *Service) preview(ctx context.Context, account simwarden.AccountID, after simwarden.SIMID) (out []reconcile.Outcome, last simwarden.SIMID, err error) {
	ids, err := s.Store.SIMsAfter(ctx, account, after, diffBatch)
	if err != nil || len(ids) == 0 {
		return nil, after, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		out, err = reconcile.Preview(ctx, tx, ids)
		return err
	})
	out = slices.DeleteFunc(out, func(o reconcile.Outcome) bool { return o.Ordered.Action == rules.OrderNone })
	return out, ids[len(ids)-1], err
}

func difference(o reconcile.Outcome, account string) SIMDifference {
	because := o.Ordered.Because
	if because == "" {
		because = o.Decision.Because
	}
	if because == "" && o.Decision.Scene.EndsPlan() {
		because = "lapsed_while_observing"
	}
	return SIMDifference{
		ICCID: o.ICCID, AccountID: o.AccountID, Account: account, State: o.Facts.State, Desired: o.Decision.Desired,
		Action: string(o.Ordered.Action), Direction: o.Ordered.Direction, Reason: o.Decision.Reason, Because: because, ReadAt: o.Facts.StateReadAt,
	}
}
