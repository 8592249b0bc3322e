package evaluator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/store"
)

// Sealer seals the audit log, a row after the other, and keeps the head of the chain outside of the
// database (R3, B14).
type Sealer struct {
	Store *store.Store
	Clock clock.Clock
	Log   *slog.Logger
	// Holder names this node in leases.
	Holder string
	// File takes a line with the head every hour; empty: it goes to the log alone.
	File string
	// LookEvery is how often it seals; zero: every three seconds.
	LookEvery time.Duration

	lease    store.Lease
	kept     store.AuditHead
	keptAt   time.Time
	looksAll time.Time // when the whole log is looked through again
}

const (
	sealLease = "audit_seal"
	sealFor   = 30 * time.Second
	sealEvery = 3 * time.Second
	sealBatch = 500
	keepEvery = time.Hour
)

var (
	pointSealBefore = fault.Register("audit_seal.before")
	pointSealAfter  = fault.Register("audit_seal.after")
)

// Run seals every few seconds on the one node that holds the lease, until ctx ends; errors are logged
// and tried again. One Sealer is for one goroutine.
func (s *Sealer) Run(ctx context.Context) error {
	for {
		n, err := s.Step(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			s.Log.Error("seal the audit log", "error", err)
		case n == sealBatch:
			continue
		}
		if err := s.Clock.Sleep(ctx, cmp.Or(s.LookEvery, sealEvery)); err != nil {
			return nil
		}
	}
}

// Step seals one batch, and keeps the head where an hour has passed; it gives how many rows.
func (s *Sealer) Step(ctx context.Context) (int, error) {
	lease, ok, err := s.Store.TakeLease(ctx, sealLease, s.Holder, sealFor)
	if err != nil || !ok {
		return 0, err
	}
	now := s.Clock.Now()
	all := lease.Epoch != s.lease.Epoch || !now.Before(s.looksAll)
	pointSealBefore.Hit()
	n, head, err := s.Store.SealAudit(ctx, lease, sealBatch, all)
	if err != nil {
		return 0, err
	}
	pointSealAfter.Hit()
	s.lease = lease
	if all && n < sealBatch {
		s.looksAll = now.Add(keepEvery)
	}
	if head.Seq == s.kept.Seq || !s.keptAt.IsZero() && now.Sub(s.keptAt) < keepEvery {
		return n, nil
	}
	if err := s.keep(head, now); err != nil {
		return n, err
	}
	s.kept, s.keptAt = head, now
	return n, nil
}

// keep writes the head where whoever changes the database cannot.
func (s *Sealer) keep(head store.AuditHead, now time.Time) error {
	s.Log.Warn("head of the audit log", "seal", head.String())
	if s.File == "" {
		return nil
	}
	f, err := os.OpenFile(s.File, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("keep the head of the audit log: %w", err)
	}
	_, err = fmt.Fprintf(f, "%s %s\n", now.UTC().Format(time.RFC3339), head)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("keep the head of the audit log: %w", err)
	}
	return nil
}
