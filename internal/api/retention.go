package api

import (
	"context"

	"github.com/simwarden/simwarden/internal/store"
)

// RetentionReport says how long the tables that grow are kept, and what the last run deleted.
type RetentionReport struct {
	Tables  []store.Retention  `json:"tables"`
	LastRun store.RetentionRun `json:"last_run"` // its instant is zero where none has run yet
}

// Retention reports on the tables that grow (R1, U5).
func (s *Service) Retention(ctx context.Context) (r RetentionReport, err error) {
	r.Tables, r.LastRun, err = s.Store.Retentions(ctx, s.Store.Now())
	return r, err
}

// KeepFor says for how many days a table is kept, store.KeepForGood for ever: store.ErrNotFound for a
// table that is none of those that grow, store.ErrKeepTime for too short a time. What is older goes
// with the next run.
func (s *Service) KeepFor(ctx context.Context, table string, days int, reason, actor string) (RetentionReport, error) {
	if err := checkReason(reason); err != nil {
		return RetentionReport{}, err
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.SetKeepDays(ctx, table, days); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "retention_set", 0, 0, map[string]any{"table": table, "keep_days": days, "reason": reason})
	})
	if err != nil {
		return RetentionReport{}, err
	}
	return s.Retention(ctx)
}
