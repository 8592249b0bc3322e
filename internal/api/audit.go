package api

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden/internal/store"
)

// AuditQuery narrows a list of manual actions; zero fields do not.
type AuditQuery struct {
	ICCID   string
	Account string
	Actor   string
	Action  string
	Cursor  string
	Limit   int // 0: DefaultPage; at most MaxPage
}

// Audit lists what persons did (R2), the newest first.
func (s *Service) Audit(ctx context.Context, q AuditQuery) (Page[store.AuditRow], error) {
	none := Page[store.AuditRow]{}
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return none, err
	}
	before, err := cursorID("audit", q.Cursor)
	if err != nil {
		return none, err
	}
	f := store.AuditFilter{Actor: q.Actor, Action: q.Action, Before: before, Limit: limit + 1}
	if f.AccountID, err = s.accountID(ctx, q.Account); err != nil {
		return none, err
	}
	if f.SIMID, err = s.simID(ctx, q.ICCID); err != nil {
		return none, err
	}
	rows, err := s.Store.AuditRows(ctx, f)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "audit", func(a store.AuditRow) int64 { return a.ID }), nil
}

// VerifyAudit compares the whole audit log with its chain (R3). Heads that are kept outside of the
// database are compared by simwarden doctor, which runs where they are.
func (s *Service) VerifyAudit(ctx context.Context) (AuditVerdict, error) {
	r, err := s.Store.VerifyAudit(ctx, nil)
	return AuditVerdict{OK: r.Bad == "", Sealed: r.Sealed, Unsealed: r.Unsealed, Bad: r.Bad}, err
}

// AuditVerdict says whether the audit log is as it was written.
type AuditVerdict struct {
	OK       bool   `json:"ok"`
	Sealed   int64  `json:"sealed"`        // rows that are as they were sealed
	Unsealed int64  `json:"unsealed"`      // rows that wait for their seal
	Bad      string `json:"bad,omitempty"` // the first thing that is wrong
}

// maxGuards bounds a list of guards: they are few.
const maxGuards = 200

// Guards lists what stops lapsing (C10), the newest first; all also those that were released.
func (s *Service) Guards(ctx context.Context, all bool) ([]store.Guard, error) {
	return s.Store.Guards(ctx, !all, maxGuards)
}

// ReleaseGuard lets go what a guard holds, for a person who has looked; store.ErrNotFound where no
// open guard has the id. A clock that is still wrong opens another.
func (s *Service) ReleaseGuard(ctx context.Context, id int64, actor, reason string) (store.Guard, error) {
	if err := checkReason(reason); err != nil {
		return store.Guard{}, err
	}
	if id <= 0 {
		return store.Guard{}, badInput("a guard's id is 1 or more")
	}
	var g store.Guard
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if g, err = tx.ReleaseGuard(ctx, id, actor, reason); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "guard_release", 0, g.AccountID, map[string]any{
			"guard_id": g.ID, "kind": g.Kind, "because": g.Because, "held_subscriptions": g.Held, "reason": reason})
	})
	return g, err
}

// guardText is what an explanation says of a guard.
func guardText(g store.Guard) string {
	if g.Kind == store.GuardClock {
		return fmt.Sprintf("no plan lapses and nothing is suspended automatically until a person releases guard %d: %s", g.ID, g.Because)
	}
	return fmt.Sprintf("its main plan does not lapse until a person releases guard %d: %s", g.ID, g.Because)
}
