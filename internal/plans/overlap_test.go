package plans_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

func TestV11APlanOfThePastOverlapsNoOther(t *testing.T) {
	w := newMoneyWorld(t)
	month := simwarden.Plan{Code: "month", Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"}
	extra := month
	extra.Code, extra.Kind = "extra", simwarden.PlanAddon
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		if month, err = tx.AddPlan(ctx, month); err != nil {
			return err
		}
		extra, err = tx.AddPlan(ctx, extra)
		return err
	})
	now := w.clock.Now()
	imported := func(a store.Asset, p simwarden.Plan, daysAgo int) (b simwarden.Subscription, err error) {
		err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
			b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: a, Plan: p, By: "cli:anna", StartAt: now.AddDate(0, 0, -daysAgo)})
			return err
		})
		return b, err
	}
	for _, row := range []struct {
		sentence string
		before   int // days ago at which the plan before began; it ran 30 days
		refunded bool
		plan     simwarden.Plan
		daysAgo  int
		says     string // empty: it is bought
	}{
		{"a day of the expired one's time", 40, false, month, 11, "ran until 2026-04-24"},
		{"all of its time", 40, false, month, 40, "overlap subscription"},
		{"its first day", 40, false, month, 69, "overlap subscription"},
		{"from its end on", 40, false, month, 10, ""},
		{"until its beginning", 40, false, month, 70, ""},
		{"an add-on may", 40, false, extra, 20, ""},
		{"one that has ended, but nobody has handled that yet, counts until its end", 31, false, month, 2, "ran until 2026-05-03"},
		{"one taken back counts until then", 20, true, month, 1, "ran until 2026-05-04"},
		{"and no longer", 20, true, month, 0, ""},
	} {
		a := w.sim(0)
		first, err := imported(a, month, row.before)
		if err != nil {
			t.Fatal(err)
		}
		if row.refunded {
			w.must(func(ctx context.Context, tx *store.Tx) error { return plans.Refund(ctx, tx, first.ID, "cli:anna", "x") })
		} else if row.before == 40 {
			if _, err := w.sweeper.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		b, err := imported(a, row.plan, row.daysAgo)
		switch {
		case row.says == "" && err != nil:
			t.Errorf("%s: %v", row.sentence, err)
		case row.says != "" && (!errors.Is(err, plans.ErrPlanInvalid) || !strings.Contains(err.Error(), row.says)):
			t.Errorf("%s: it is bought from %s with error %v, want ErrPlanInvalid with %q", row.sentence, b.StartAt.Format(time.RFC3339), err, row.says)
		}
	}
}
