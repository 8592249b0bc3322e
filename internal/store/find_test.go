package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// fleet adds an account with SIMs of the given numbers, on one device where one is given.
func fleet(t *testing.T, s *store.Store, device string, iccids ...string) (out []simwarden.SIMID, on simwarden.DeviceID) {
	t.Helper()
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "any"})
		if err != nil {
			return err
		}
		if device != "" {
			imei, err := simwarden.ParseIMEI(device)
			if err != nil {
				return err
			}
			if on, err = tx.Device(ctx, imei, ""); err != nil {
				return err
			}
		}
		sims := make([]store.NewSIM, len(iccids))
		for i, text := range iccids {
			sims[i] = store.NewSIM{ICCID: simwarden.MustParseICCID(text), Raw: text, Label: "pump " + text[len(text)-2:], DeviceID: on}
		}
		out, err = tx.AddSIMs(ctx, a, sims, 0)
		return err
	})
	return out, on
}

func TestI6ASIMIsFoundWithAndWithoutItsCheckDigit(t *testing.T) {
	s, _ := open(t)
	ids, _ := fleet(t, s, "", "89860000000000000019", "8986044A0000000000A1", "8986044A0000000000A2", "8986044A0000000000B")
	for _, test := range []struct {
		why, iccid string
		want       simwarden.SIMID
		err        error
	}{
		{"as it is kept", "89860000000000000019", ids[0], nil},
		{"without its check digit", "8986000000000000001", ids[0], nil},
		{"with the check digit that was not given", "8986044A0000000000B7", ids[3], nil},
		{"two cards differ in the last digit alone", "8986044A0000000000A", 0, store.ErrAmbiguousICCID},
		{"nobody has it", "89860000000000099995", 0, store.ErrNotFound},
	} {
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
			id, err := tx.FindICCID(ctx, simwarden.MustParseICCID(test.iccid))
			if id != test.want || !errors.Is(err, test.err) {
				t.Errorf("%s: found %d, %v; want %d, %v", test.why, id, err, test.want, test.err)
			}
			return nil
		})
	}
}

func TestASIMIsSearchedByTheBeginningOfItsNumberOrLabel(t *testing.T) {
	s, _ := open(t)
	ids, device := fleet(t, s, "490154203237518", "898600000000000011", "898600000000000021", "898601000000000031")
	for search, want := range map[string]int{"8986": 3, "898601": 1, "pump 2": 1, "pump": 3, "ump": 0} {
		if got, err := s.SIMs(t.Context(), store.SIMFilter{Search: search, Limit: 10}); err != nil || len(got) != want {
			t.Errorf("%q finds %d SIMs, %v; want %d", search, len(got), err, want)
		}
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		if err := tx.SetDrifting(ctx, ids[1], "test"); err != nil {
			return err
		}
		got, err := tx.SIMsOfDevice(ctx, device)
		if err != nil || len(got) != len(ids) || got[0] != ids[0] {
			t.Errorf("the device has %v, %v; want %v", got, err, ids)
		}
		return nil
	})
	if got, err := s.SIMs(t.Context(), store.SIMFilter{Drifting: true, Limit: 10}); err != nil || len(got) != 1 || got[0].ID != ids[1] {
		t.Errorf("drifting are %d SIMs, %v", len(got), err)
	}
}

func TestTheNextPlanInstantIsTheEarliestEndOrReset(t *testing.T) {
	s, _ := open(t)
	ids, _ := fleet(t, s, "", "898600000000000011")
	if at, err := s.NextPlanInstant(t.Context()); err != nil || !at.IsZero() {
		t.Errorf("without a plan the next instant is %s, %v", at, err)
	}
	start := s.Now()
	end, reset := start.Add(48*time.Hour), start.Add(24*time.Hour)
	var sub simwarden.SubscriptionID
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "p", Name: "p", Kind: simwarden.PlanMain, AllowanceBytes: 10,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 2, Reset: simwarden.ResetCycle, ResetDays: 1, Zone: "UTC"})
		if err != nil {
			return err
		}
		sub, err = tx.AddSubscription(ctx, simwarden.Subscription{SIMID: ids[0], PlanID: plan.ID, Kind: plan.Kind, State: simwarden.SubscriptionActive,
			StartAt: start, EndAt: end, NextResetAt: reset, AllowanceBytes: 10}, "test", "")
		return err
	})
	if at, err := s.NextPlanInstant(t.Context()); err != nil || !at.Equal(reset) {
		t.Errorf("the next instant is %s, %v; want the reset at %s", at, err, reset)
	}
	if at, err := s.NextPlanInstant(t.Context(), sub); err != nil || !at.IsZero() {
		t.Errorf("one that is set aside still counts: %s, %v", at, err)
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		return tx.ResetSubscription(ctx, sub, time.Time{}, time.Time{})
	})
	if at, err := s.NextPlanInstant(t.Context()); err != nil || !at.Equal(end) {
		t.Errorf("the next instant is %s, %v; want the end at %s", at, err, end)
	}
}

func TestU5UsageIsKeptByUTCDay(t *testing.T) {
	s, _ := open(t)
	ids, _ := fleet(t, s, "", "898600000000000011")
	day := time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC)
	for _, read := range []struct {
		at    time.Time
		delta int64
	}{{day.Add(-time.Second), 5}, {day, 7}, {day.Add(23 * time.Hour), 11}, {day.Add(24 * time.Hour), 0}} {
		inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
			return tx.WriteUsage(ctx, []store.UsageRow{{SIMID: ids[0], ReadAt: read.at, TrueAt: read.at, DeltaBytes: read.delta}})
		})
	}
	got, err := s.UsageDays(t.Context(), ids[0], day)
	if err != nil || len(got) != 1 || !got[0].Day.Equal(day) || got[0].Bytes != 18 {
		t.Errorf("from that day on there are %+v, %v; want 18 bytes on the one day", got, err)
	}
	if got, err = s.UsageDays(t.Context(), ids[0], day.Add(-time.Hour)); err != nil || len(got) != 2 || got[0].Bytes != 5 {
		t.Errorf("from the day before on there are %+v, %v; want two days, oldest first", got, err)
	}
}

func TestTotalsCountWhatThereIs(t *testing.T) {
	s, _ := open(t)
	fleet(t, s, "", "898600000000000011", "898600000000000021")
	got, err := s.Totals(t.Context())
	if err != nil || got.States[simwarden.StateUnknown] != 2 || got.CommandsOpen != 0 {
		t.Errorf("totals are %+v, %v", got, err)
	}
}

func TestACredentialIsKnownToBeThere(t *testing.T) {
	s, _ := open(t)
	if yes, err := s.HasCredentials(t.Context()); err != nil || yes {
		t.Errorf("an empty database has credentials: %v, %v", yes, err)
	}
	fleet(t, s, "")
	a, err := s.AccountByName(t.Context(), "acme")
	if err != nil {
		t.Fatal(err)
	}
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error { return tx.SetCredential(ctx, a.ID, []byte("sealed")) })
	if yes, err := s.HasCredentials(t.Context()); err != nil || !yes {
		t.Errorf("a sealed credential is not seen: %v, %v", yes, err)
	}
}

func TestARuleIsDeletedOnce(t *testing.T) {
	s, _ := open(t)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, `INSERT INTO error_rule (driver, position, name, class) VALUES ('any', 1, 'mine', 'throttled') RETURNING id`).Scan(&id)
		if err != nil {
			return err
		}
		if err := tx.DeleteErrorRule(ctx, id); err != nil {
			t.Errorf("delete a rule: %v", err)
		}
		if err := tx.DeleteErrorRule(ctx, id); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("delete it again: %v, want ErrNotFound", err)
		}
		return nil
	})
}

func TestADatabaseIsEmptyUntilItIsMigrated(t *testing.T) {
	url := storetest.URL(t, nil)
	for _, want := range []bool{true, false} {
		if empty, err := store.IsEmpty(t.Context(), url); err != nil || empty != want {
			t.Errorf("empty: %v, %v; want %v", empty, err, want)
		}
		if err := store.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAMalformedURLIsNotRepeated(t *testing.T) {
	const url = "postgres://anna:hunter2@host:notaport/db"
	if _, err := store.Open(t.Context(), store.Options{URL: url}); err == nil {
		t.Error("a malformed URL was taken")
	} else if text := err.Error(); strings.Contains(text, "hunter2") || strings.Contains(text, "notaport") {
		t.Errorf("the error repeats the URL: %s", text)
	}
}

func TestAPlanIsNotBoughtForASIMThatHasComeIntoADevice(t *testing.T) {
	s, _ := open(t)
	ids, device := fleet(t, s, "490154203237518", "898600000000000011")
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "p", Name: "p", Kind: simwarden.PlanMain, AllowanceBytes: 10,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 2, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		b := simwarden.Subscription{SIMID: ids[0], PlanID: plan.ID, Kind: plan.Kind, State: simwarden.SubscriptionQueued, AllowanceBytes: 10}
		if _, err := tx.AddSubscription(ctx, b, "test", ""); !errors.Is(err, store.ErrBound) {
			t.Errorf("a plan that nothing would use was bought: %v", err)
		}
		b.SIMID, b.DeviceID = 0, device
		_, err = tx.AddSubscription(ctx, b, "test", "")
		return err
	})
}

// One statement says that nothing is due, for most of the time, or what is.
func TestWhatIsDueOfPlansIsAskedInOneStatement(t *testing.T) {
	s, _ := open(t)
	ids, _ := fleet(t, s, "", "898600000000000011")
	start := s.Now()
	reset := start.Add(24 * time.Hour)
	inTx(t, s, func(ctx context.Context, tx *store.Tx) error {
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "p", Name: "p", Kind: simwarden.PlanMain, AllowanceBytes: 10,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 2, Reset: simwarden.ResetCycle, ResetDays: 1, Zone: "UTC"})
		if err != nil {
			return err
		}
		_, err = tx.AddSubscription(ctx, simwarden.Subscription{SIMID: ids[0], PlanID: plan.ID, Kind: plan.Kind, State: simwarden.SubscriptionActive,
			StartAt: start, EndAt: start.Add(48 * time.Hour), NextResetAt: reset, AllowanceBytes: 10}, "test", "")
		return err
	})
	if due, err := s.PlansDue(t.Context(), reset.Add(-time.Microsecond)); err != nil || due != (store.PlansDue{}) {
		t.Errorf("before the reset %+v is due, %v", due, err)
	}
	if due, err := s.PlansDue(t.Context(), reset); err != nil || due != (store.PlansDue{Resets: true}) {
		t.Errorf("at the reset %+v is due, %v; want it alone", due, err)
	}
}
