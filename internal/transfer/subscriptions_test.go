package transfer_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/transfer"
)

// fleet is a world with SIMs 1 to 9 (8 and 9 in one device) and plans.
func fleet(t testing.TB) *world {
	t.Helper()
	w := newWorld(t)
	var b strings.Builder
	b.WriteString("iccid,imei\n")
	for i := 1; i <= 7; i++ {
		b.WriteString(number(i) + ",\n")
	}
	b.WriteString(number(8) + ",490154203237518\n" + number(9) + ",490154203237518\n")
	w.sims(b.String(), transfer.Options{})
	w.plan("m30", simwarden.PlanMain, "Asia/Shanghai")
	w.plan("ny30", simwarden.PlanMain, "America/New_York")
	w.plan("add", simwarden.PlanAddon, "UTC")
	return w
}

// bought gives the subscriptions of a SIM, newest first.
func (w *world) bought(n int) []simwarden.Subscription {
	w.Helper()
	sim, err := w.store.SIMByICCID(w.Context(), simwarden.MustParseICCID(number(n)))
	if err != nil {
		w.Fatal(err)
	}
	list, err := w.store.SubscriptionsOf(w.Context(), sim.ID, 20)
	if err != nil {
		w.Fatal(err)
	}
	return list
}

func TestSubscriptionRows(t *testing.T) {
	day := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UTC()
	}
	cases := []struct {
		name  string
		row   string
		state simwarden.SubscriptionState
		start time.Time
		used  int64
	}{
		{"without a start it begins now", number(1) + ",m30,,", simwarden.SubscriptionActive, noon, 0},
		{"L4: a date begins at midnight in the plan's zone, UTC+8", number(2) + ",m30,2026-05-01,", simwarden.SubscriptionActive, day("2026-05-01T00:00:00+08:00"), 0},
		{"L4: a date begins at midnight in the plan's zone, in daylight time", number(3) + ",ny30,2026-05-01,", simwarden.SubscriptionActive, day("2026-05-01T00:00:00-04:00"), 0},
		{"an instant of RFC 3339 is taken as it is", number(4) + ",m30,2026-05-01T10:00:00+02:00,5000", simwarden.SubscriptionActive, day("2026-05-01T08:00:00Z"), 5000},
		{"L5: what has used its allowance is exhausted", number(5) + ",m30,2026-05-01,1000000", simwarden.SubscriptionExhausted, day("2026-05-01T00:00:00+08:00"), 1_000_000},
		{"the number may be without its check digit (I6)", number(6)[:19] + ",m30,2026-05-01,", simwarden.SubscriptionActive, day("2026-05-01T00:00:00+08:00"), 0},
		{"for a SIM in a device it is the device's", number(8) + ",m30,2026-05-01,", simwarden.SubscriptionActive, day("2026-05-01T00:00:00+08:00"), 0},
	}
	w := fleet(t)
	text := "卡号,套餐,开始,已用\n"
	for _, c := range cases {
		text += c.row + "\n"
	}
	if rep := w.subscriptions(text, transfer.Options{}); rep.Added != len(cases) || len(rep.Warnings) != 0 {
		t.Fatalf("%d subscriptions should be bought: %+v", len(cases), rep)
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			n := i + 1
			if strings.HasPrefix(c.row, number(8)) {
				n = 9 // its brother in the device
			}
			list := w.bought(n)
			if len(list) != 1 {
				t.Fatalf("%d subscriptions, want 1", len(list))
			}
			if b := list[0]; b.State != c.state || !b.StartAt.Equal(c.start) || b.UsedBytes != c.used {
				t.Errorf("it is %s from %s with %d bytes used, want %s from %s with %d", b.State, b.StartAt, b.UsedBytes, c.state, c.start, c.used)
			}
		})
	}
	if n := w.count("evaluation_request"); n != len(cases) {
		t.Errorf("%d evaluations are asked for, want one for each purchase (V1)", n)
	}
}

func TestSubscriptionRowErrors(t *testing.T) {
	cases := []struct {
		name    string
		rows    string
		want    []string
		problem string
	}{
		{"an unknown plan", number(1) + ",gold,,,", []string{"2 plan"}, "no plan with this code"},
		{"no plan", number(1) + ",,,,", []string{"2 plan"}, "no plan is given"},
		{"a SIM that is not in the fleet", number(77) + ",m30,,,", []string{"2 iccid"}, "no SIM"},
		{"a damaged number (I6)", "8.98604E+18,m30,,,", []string{"2 iccid"}, "as text"},
		{"a start in the future", number(1) + ",m30,2026-05-05,,", []string{"2 start"}, "in the future"},
		{"a start that is no date", number(1) + ",m30,05/04/2026,,", []string{"2 start"}, "2026-05-31"},
		{"a day that no calendar has", number(1) + ",m30,2026-02-30,,", []string{"2 start"}, "2026-05-31"},
		{"a start of long ago (F72)", number(1) + ",m30,0001-01-01,,", []string{"2 start"}, "before the year 2000"},
		{"used with a unit", number(1) + ",m30,,5 GB,", []string{"2 used"}, "whole number of bytes"},
		{"used as a spreadsheet writes it", number(1) + ",m30,,1.07374E+09,", []string{"2 used"}, "whole number of bytes"},
		{"used below zero", number(1) + ",m30,,-1,", []string{"2 used"}, "0 or more"},
		{"used over 64 bits", number(1) + ",m30,,9223372036854775808,", []string{"2 used"}, "whole number of bytes"},
		{"the same row twice", number(1) + ",m30,2026-05-01,,\n" + number(1)[:19] + ",m30,2026-05-01T00:00:00+08:00,,", []string{"3 "}, "in row 2"},
		{"the same plan for two SIMs of one device", number(8) + ",m30,,,\n" + number(9) + ",m30,,,", []string{"3 "}, "SIM's device"},
		{"the same ref twice", number(1) + ",m30,,,A1\n" + number(2) + ",m30,,,A1", []string{"3 "}, "same ref"},
		{"L4: a start that would have to lie in another plan", number(1) + ",m30,2026-05-01,,\n" + number(1) + ",ny30,2026-05-02,,", []string{"3 start"}, "queued behind it"},
		{"used for a plan that has to wait", number(1) + ",m30,,,\n" + number(1) + ",ny30,,7,", []string{"3 start"}, "queued behind it"},
	}
	w := fleet(t)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rep := w.subscriptions("iccid,plan,start,used,ref\n"+c.rows+"\n", transfer.Options{})
			if got := problems(rep); !slices.Equal(got, c.want) {
				t.Fatalf("errors in %q, want %q: %v", got, c.want, rep.Errors)
			}
			if !strings.Contains(rep.Errors[0].Problem, c.problem) {
				t.Errorf("the problem is %q, it should say %q", rep.Errors[0].Problem, c.problem)
			}
			if !rep.Refused || rep.Added != 0 || w.count("subscription") != 0 || w.count("evaluation_request") != 0 {
				t.Errorf("one bad row refuses the file (I4): %+v", rep)
			}
		})
	}
}

func TestSubscriptionsReadTwiceAreBoughtOnce(t *testing.T) {
	w := fleet(t)
	text := "iccid,plan,start,used,ref\n" + number(1) + ",m30,2026-05-01,,\n" + number(1) + ",ny30,,,\n" + number(2) + ",add,,,order-7\n"
	if rep := w.subscriptions(text, transfer.Options{DryRun: true}); rep.Good != 3 || rep.Added != 0 || w.count("subscription") != 0 {
		t.Errorf("a dry run buys nothing: %+v", rep)
	}
	if rep := w.subscriptions(text, transfer.Options{}); rep.Added != 3 {
		t.Fatalf("3 should be bought: %+v", rep)
	}
	if list := w.bought(1); len(list) != 2 || list[0].State != simwarden.SubscriptionQueued || list[1].State != simwarden.SubscriptionActive {
		t.Errorf("the second main plan waits behind the first (L4): %+v", list)
	}
	rep := w.subscriptions(text, transfer.Options{})
	if rep.AlreadyThere != 3 || rep.Added != 0 || len(rep.Errors) != 0 || rep.Refused {
		t.Errorf("the same file again buys nothing and is no error: %+v", rep)
	}
	if n := w.count("subscription"); n != 3 {
		t.Errorf("%d subscriptions, want 3", n)
	}
	taken := w.subscriptions("iccid,plan,ref\n"+number(3)+",add,order-7\n", transfer.Options{})
	if len(taken.Errors) != 1 || taken.Errors[0].Column != "ref" {
		t.Errorf("a ref that another SIM's purchase has is a row error, not already there: %+v", taken)
	}
}

func TestEndedSubscriptionsAreNamed(t *testing.T) {
	w := fleet(t)
	rep := w.subscriptions("iccid,plan,start\n"+number(1)+",m30,2026-01-01\n"+number(2)+",m30,2026-05-01\n", transfer.Options{DryRun: true})
	if rep.Good != 2 || len(rep.Warnings) != 1 || !strings.Contains(rep.Warnings[0], "1 of these subscriptions have ended") {
		t.Errorf("a plan that is over already is named before it lapses (V13): %+v", rep)
	}
}

func TestC10SoonMassEndsAreNamedAndConfirmed(t *testing.T) {
	w := newWorld(t)
	var sims, file strings.Builder
	sims.WriteString("iccid\n")
	file.WriteString("iccid,plan,start\n")
	for i := 1; i <= 60; i++ {
		sims.WriteString(number(i) + "\n")
		file.WriteString(number(i) + ",m30," + noon.AddDate(0, 0, -29).Format(time.DateOnly) + "\n") // ends at tonight's midnight
	}
	w.sims(sims.String(), transfer.Options{})
	w.plan("m30", simwarden.PlanMain, "UTC")
	hasty := func() int { return w.count("subscription WHERE hasty_at IS NOT NULL") }
	warned := func(rep transfer.Report) bool {
		return len(rep.Warnings) == 1 && strings.Contains(rep.Warnings[0], "60 SIMs of account acme lose their plan at "+
			noon.AddDate(0, 0, 1).Format(time.DateOnly)+"T00:00:00Z") && strings.Contains(rep.Warnings[0], "--confirm-ends")
	}
	if rep := w.subscriptions(file.String(), transfer.Options{DryRun: true}); !warned(rep) {
		t.Errorf("a dry run tells %q", rep.Warnings)
	}
	if rep := w.subscriptions(file.String(), transfer.Options{DryRun: true, ConfirmEnds: true}); len(rep.Warnings) != 0 {
		t.Errorf("a dry run of what a person confirms tells %q", rep.Warnings)
	}
	if rep := w.subscriptions(file.String(), transfer.Options{}); !warned(rep) || rep.Added != 60 || hasty() != 60 {
		t.Errorf("the import tells %q and added %d, %d of them in haste", rep.Warnings, rep.Added, hasty())
	}
	if rep := w.subscriptions(file.String(), transfer.Options{ConfirmEnds: true}); len(rep.Warnings) != 0 || rep.AlreadyThere != 60 || hasty() != 0 {
		t.Errorf("confirmed afterwards it tells %q, with %d there already; %d ends still count as in haste", rep.Warnings, rep.AlreadyThere, hasty())
	}
}

func TestOneImportAtATime(t *testing.T) {
	w := newWorld(t)
	w.tx(func(_ context.Context, tx *store.Tx) error {
		if err := tx.LockImport(t.Context()); err != nil {
			return err
		}
		_, err := w.importer.SIMs(t.Context(), strings.NewReader("iccid\n"+number(1)+"\n"), "acme", transfer.Options{})
		wantError(t, err, store.ErrImportRunning)
		return nil
	})
	if rep := w.sims("iccid\n"+number(1)+"\n", transfer.Options{}); rep.Added != 1 {
		t.Errorf("afterwards it goes through: %+v", rep)
	}
}
