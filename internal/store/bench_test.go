package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// The statements of the benchmark against a real database: what they count is there, and the plans
// that they give are in force as far as a decision's facts say.
func TestBenchStatements(t *testing.T) {
	s, pool := open(t)
	ctx := t.Context()
	before, err := s.WALWritten(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var ids []simwarden.SIMID
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: "bench", Driver: "soracom"})
		if err != nil {
			return err
		}
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "b", Name: "b", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 10, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		add := []store.NewSIM{{ICCID: simwarden.MustParseICCID("8942310022000000017")}, {ICCID: simwarden.MustParseICCID("8942310022000000025")}}
		if ids, err = tx.AddSIMs(ctx, a, add, 0); err != nil {
			return err
		}
		n, err := tx.SubscribeAll(ctx, a.ID, plan, tx.At.Add(240*time.Hour), "bench")
		if n != int64(len(add)) {
			t.Errorf("%d subscriptions for %d SIMs", n, len(add))
		}
		return err
	})
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		facts, err := tx.Facts(ctx, ids)
		for _, f := range facts {
			if !f.Facts.EverPlanned || len(f.Facts.Subscriptions) != 1 {
				t.Errorf("sim %d: ever planned %v, subscriptions %+v", f.ID, f.Facts.EverPlanned, f.Facts.Subscriptions)
			}
		}
		return err
	})
	after, err := s.WALWritten(ctx)
	if err != nil || after <= before {
		t.Errorf("write-ahead log: %d bytes before rows were written, %d after (%v)", before, after, err)
	}
	pid, err := s.BackendPID(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var there bool
	if err := pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1)`, pid).Scan(&there); err != nil || !there {
		t.Errorf("process %d serves nobody (%v)", pid, err)
	}
}
