package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

func (w *world) iccid(a store.Asset) (id simwarden.ICCID) {
	w.t.Helper()
	var text string
	if err := w.pool.QueryRow(w.t.Context(), `SELECT iccid FROM sim WHERE id = $1`, a.SIMID).Scan(&text); err != nil {
		w.t.Fatal(err)
	}
	return simwarden.MustParseICCID(text)
}

func (w *world) importRows(rows ...ledger.StatementRow) (r ledger.StatementResult, err error) {
	err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		r, err = ledger.ImportStatement(ctx, tx, w.account.ID, "may.csv", "cli:anna", rows)
		return err
	})
	return r, err
}

func cents(n int64) simwarden.Money { return simwarden.Money{AmountMinor: n, Currency: "EUR"} }

func TestM3StatementIsImportedOnceAndCorrected(t *testing.T) {
	w := newWorld(t)
	one, two := w.iccid(w.sim(0)), w.iccid(w.sim(0))
	stranger := simwarden.MustParseICCID("8986009999990000017")
	rows := []ledger.StatementRow{{ICCID: one, Period: "2026-05", Cost: cents(300)}, {ICCID: one, Period: "2026-05", Item: "sms", Cost: cents(20)},
		{ICCID: two, Period: "2026-05", Cost: cents(300)}, {ICCID: stranger, Period: "2026-05", Cost: cents(300)}}
	for _, step := range []struct {
		name string
		edit func()
		want ledger.StatementResult
	}{
		{"the first import", func() {}, ledger.StatementResult{Added: 4, Unmatched: 1}},
		{"the same file again", func() {}, ledger.StatementResult{Same: 4, Unmatched: 1}},
		{"a corrected file", func() { rows[2].Cost = cents(-50) }, ledger.StatementResult{Corrected: 1, Same: 3, Unmatched: 1}},
		{"another month", func() { rows = []ledger.StatementRow{{ICCID: two, Period: "2026-06", Cost: cents(300)}} }, ledger.StatementResult{Added: 1}},
		{"the card with its check digit", func() {
			rows = []ledger.StatementRow{{ICCID: one.Alternates()[0], Period: "2026-07", Cost: cents(300)}}
		}, ledger.StatementResult{Added: 1}},
	} {
		step.edit()
		if got, err := w.importRows(rows...); err != nil || got != step.want {
			t.Errorf("%s gives %+v and %v, want %+v", step.name, got, err, step.want)
		}
	}
	for name, bad := range map[string][]ledger.StatementRow{
		"two rows of one SIM, month and item": {{ICCID: one, Period: "2026-08", Cost: cents(1)}, {ICCID: one, Period: "2026-08", Cost: cents(2)}},
		"a month that is none":                {{ICCID: one, Period: "2026-13", Cost: cents(1)}},
		"a day for a month":                   {{ICCID: one, Period: "2026-08-01", Cost: cents(1)}},
		"no card":                             {{Period: "2026-08", Cost: cents(1)}},
		"no currency":                         {{ICCID: one, Period: "2026-08", Cost: simwarden.Money{AmountMinor: 1}}},
		"more than JSON keeps exactly":        {{ICCID: one, Period: "2026-08", Cost: cents(simwarden.MaxMinor + 1)}},
	} {
		if _, err := w.importRows(bad...); !errors.Is(err, ledger.ErrStatement) {
			t.Errorf("a statement with %s gives %v, want ErrStatement", name, err)
		}
	}
}

func TestM3DifferencesPerICCIDAndPeriod(t *testing.T) {
	w := newWorld(t)
	right, dear, cheap, silent, used, new := w.sim(0), w.sim(0), w.sim(0), w.sim(0), w.sim(0), w.sim(0)
	w.must(func(ctx context.Context, tx *store.Tx) error {
		// Active since April, in use in May, active only since June; the others are not read yet.
		if _, err := tx.Exec(ctx, `UPDATE poll_state SET state = 'active', state_since_at = '2026-04-02' WHERE sim_id = $1`, silent.SIMID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `UPDATE poll_state SET state = 'active', state_since_at = '2026-05-31 16:00+00' WHERE sim_id = $1`, new.SIMID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `INSERT INTO usage_day (sim_id, day, bytes) VALUES ($1, '2026-05-31', 700), ($1, '2026-06-01', 9)`, used.SIMID)
		return err
	})
	other := newForeignSIM(t, w)
	list := func(after, limit int) (out []store.Difference) {
		t.Helper()
		w.must(func(ctx context.Context, tx *store.Tx) (err error) {
			out, err = ledger.Differences(ctx, tx, w.account.ID, "2026-05", after, limit)
			return err
		})
		return out
	}
	if got := list(0, 100); len(got) != 0 {
		t.Fatalf("without a statement there are the differences %+v, want none", got)
	}
	stranger := simwarden.MustParseICCID("8986009999990000017")
	rate := func(m simwarden.Money) {
		w.must(func(ctx context.Context, tx *store.Tx) error {
			return ledger.SetRate(ctx, tx, w.account.ID, "2026-02", m, "cli:anna")
		})
	}
	if _, err := w.importRows(
		ledger.StatementRow{ICCID: w.iccid(right), Period: "2026-05", Cost: cents(250)},
		ledger.StatementRow{ICCID: w.iccid(right), Period: "2026-05", Item: "sms", Cost: cents(50)},
		ledger.StatementRow{ICCID: w.iccid(dear), Period: "2026-05", Cost: cents(301)},
		ledger.StatementRow{ICCID: w.iccid(cheap), Period: "2026-05", Cost: simwarden.Money{AmountMinor: 300, Currency: "USD"}},
		ledger.StatementRow{ICCID: stranger, Period: "2026-05", Cost: cents(300)},
		ledger.StatementRow{ICCID: w.iccid(other), Period: "2026-05", Cost: cents(300)},
	); err != nil {
		t.Fatal(err)
	}
	kinds := func(list []store.Difference) map[string]store.DifferenceKind {
		out := map[string]store.DifferenceKind{}
		for _, d := range list {
			out[d.ICCID] = d.Kind
		}
		return out
	}
	want := map[string]store.DifferenceKind{stranger.String(): store.DifferenceUnknownSIM, w.iccid(other).String(): store.DifferenceOtherAccount,
		w.iccid(silent).String(): store.DifferenceNotCharged, w.iccid(used).String(): store.DifferenceNotCharged}
	if got := kinds(list(0, 100)); !reflect.DeepEqual(got, want) {
		t.Errorf("without a rate the differences are %v, want %v", got, want)
	}
	rate(cents(300))
	want[w.iccid(dear).String()], want[w.iccid(cheap).String()] = store.DifferenceAmount, store.DifferenceAmount
	all := list(0, 100)
	if got := kinds(all); !reflect.DeepEqual(got, want) {
		t.Errorf("with a rate the differences are %v, want %v", got, want)
	}
	for _, d := range all {
		if d.SIMID == used.SIMID && d.UsedBytes != 700 {
			t.Errorf("the SIM that is not charged used %d bytes in May, want 700", d.UsedBytes)
		}
		if d.SIMID == dear.SIMID && (d.Charged == nil || *d.Charged != cents(301) || d.Expected == nil || *d.Expected != cents(300)) {
			t.Errorf("the dear SIM's difference is %+v, want 301 against 300", d)
		}
	}
	if got := append(list(0, 4), list(4, 4)...); !reflect.DeepEqual(got, all) {
		t.Errorf("two pages give %+v, want what one gives", got)
	}
}

// newForeignSIM adds a SIM at another account.
func newForeignSIM(t *testing.T, w *world) store.Asset {
	t.Helper()
	mine := w.account
	defer func() { w.account = mine }()
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		w.account, err = tx.AddAccount(ctx, store.Account{Name: "other", Driver: "soracom"})
		return err
	})
	return w.sim(0)
}

func TestM3MarginPerSIMAndMonth(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 100_000)
	sim, lossy, plan := w.sim(wallet), w.sim(wallet), w.plan(1000, "EUR")
	// 31 May 16:00 UTC is 1 June in the account's zone, Asia/Shanghai.
	buyAt := func(a store.Asset, at time.Time) simwarden.SubscriptionID {
		t.Helper()
		w.clock.Set(at)
		id, _, err := w.buy(a, plan, anna)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	may := buyAt(sim, time.Date(2026, 5, 31, 15, 59, 0, 0, time.UTC))
	buyAt(sim, time.Date(2026, 5, 31, 16, 0, 0, 0, time.UTC))
	w.clock.Set(time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC))
	if _, err := w.refund(may, 100, anna); err != nil { // in July, of May's
		t.Fatal(err)
	}
	device := w.deviceOf(3)
	var shared simwarden.SubscriptionID
	w.clock.Set(time.Date(2026, 7, 2, 0, 0, 0, 0, time.UTC))
	w.must(func(ctx context.Context, tx *store.Tx) error { return ledger.Assign(ctx, tx, device, wallet, "test") })
	shared, _, err := w.buy(device, plan, anna)
	if err != nil || shared == 0 {
		t.Fatal(err)
	}
	if _, err := w.importRows(ledger.StatementRow{ICCID: w.iccid(sim), Period: "2026-05", Cost: cents(300)},
		ledger.StatementRow{ICCID: w.iccid(sim), Period: "2026-05", Item: "roaming", Cost: simwarden.Money{AmountMinor: 70, Currency: "USD"}},
		ledger.StatementRow{ICCID: w.iccid(lossy), Period: "2026-05", Cost: cents(300)}); err != nil {
		t.Fatal(err)
	}
	margins := func(period string) (out []string) {
		t.Helper()
		var last store.Margin
		for {
			var page []store.Margin
			w.must(func(ctx context.Context, tx *store.Tx) (err error) {
				page, err = ledger.Margins(ctx, tx, w.account.ID, period, last, 2)
				return err
			})
			if len(page) == 0 {
				return out
			}
			for _, m := range page {
				out = append(out, fmt.Sprintf("%d %s %d-%d=%d", m.SIMID, m.Currency, m.RevenueMinor, m.CostMinor, m.MarginMinor))
			}
			last = page[len(page)-1]
		}
	}
	for period, want := range map[string][]string{
		"2026-04": nil,
		"2026-05": {fmt.Sprintf("%d EUR 900-300=600", sim.SIMID), fmt.Sprintf("%d USD 0-70=-70", sim.SIMID), fmt.Sprintf("%d EUR 0-300=-300", lossy.SIMID)},
		"2026-06": {fmt.Sprintf("%d EUR 1000-0=1000", sim.SIMID)},
		"2026-07": {"3 EUR 333-0=333", "4 EUR 333-0=333", "5 EUR 334-0=334"}, // a device's, to the last cent
	} {
		if got := margins(period); !reflect.DeepEqual(got, want) {
			t.Errorf("the margins of %s are %v, want %v", period, got, want)
		}
	}
}

// deviceOf adds a device with as many SIMs.
func (w *world) deviceOf(n int) store.Asset {
	w.t.Helper()
	var device store.Asset
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		imei, err := simwarden.ParseIMEI("490154203237518")
		if err != nil {
			return err
		}
		device.DeviceID, err = tx.Device(ctx, imei, "meter")
		return err
	})
	for range n {
		a := w.sim(0)
		w.must(func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, `UPDATE sim SET device_id = $2 WHERE id = $1`, a.SIMID, device.DeviceID)
			return err
		})
	}
	return device
}
