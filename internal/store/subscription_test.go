package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// L2: shares of what has come to its end hold everything once, and all of one asset is in one of them.
func TestL2SharesOfPlanEndsAreApartAndWhole(t *testing.T) {
	s, _ := open(t)
	var sims []simwarden.SIMID
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: "storm", Driver: "soracom"})
		if err != nil {
			return err
		}
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "p", Name: "p", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 10, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		add := []store.NewSIM{{ICCID: simwarden.MustParseICCID("8942310022000000017")}, {ICCID: simwarden.MustParseICCID("8942310022000000025")},
			{ICCID: simwarden.MustParseICCID("8942310022000000033")}, {ICCID: simwarden.MustParseICCID("8942310022000000041")}}
		if sims, err = tx.AddSIMs(ctx, a, add, 0); err != nil {
			return err
		}
		for range 2 { // each SIM has two that end together
			if _, err := tx.SubscribeAll(ctx, a.ID, plan, tx.At.Add(time.Microsecond), "test"); err != nil {
				return err
			}
		}
		return nil
	})
	for _, of := range []int{0, 1, 3} {
		shareOf, taken := map[simwarden.SIMID]int{}, 0
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
			tx.At = tx.At.Add(time.Second)
			for part := range max(of, 1) {
				due, err := tx.TakeLapsed(ctx, 100, store.Share{Part: part, Of: of})
				if err != nil {
					return err
				}
				for _, b := range due {
					if other, seen := shareOf[b.SIMID]; seen && other != part {
						t.Errorf("of %d shares: SIM %d is in shares %d and %d", of, b.SIMID, other, part)
					}
					shareOf[b.SIMID] = part
					taken++
				}
			}
			return nil
		})
		if taken != 2*len(sims) || len(shareOf) != len(sims) {
			t.Errorf("of %d shares: %d ends of %d SIMs are taken, want %d of %d", of, taken, len(shareOf), 2*len(sims), len(sims))
		}
	}
}
