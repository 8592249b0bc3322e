package transfer_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/transfer"
)

func (w *world) export(kind transfer.Kind, f transfer.ExportFilter) string {
	w.Helper()
	var out bytes.Buffer
	n, err := transfer.Exporter{Store: w.store}.Write(w.Context(), &out, kind, f)
	if err != nil {
		w.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(out.String(), "\ufeff"))).ReadAll()
	if err != nil {
		w.Fatalf("the export of %s is no CSV: %v\n%s", kind, err, out.String())
	}
	if len(rows) != n+1 {
		w.Errorf("the export of %s has %d rows, and %d were told", kind, len(rows)-1, n)
	}
	return out.String()
}

const moreSIMs = "iccid,msisdn,imsi,label,imei\n"

func TestI4SIMsComeBackAsTheyWereExported(t *testing.T) {
	w := newWorld(t)
	w.sims(moreSIMs+
		number(1)+",+8613800000001,460040000000001,泵 7,490154203237518\n"+
		number(2)+",,,\"=HYPERLINK(\"\"http://x\"\")\",490154203237518\n"+
		number(3)+",,,\"-2, left; \"\"quoted\"\"\",\n", transfer.Options{})
	text := w.export(transfer.KindSIMs, transfer.ExportFilter{Account: w.account.ID})
	for _, bad := range []string{`"=`, `,=`, `"-`, `"+`, `"` + number(1)} {
		if strings.Contains(text, bad) {
			t.Errorf("a spreadsheet would take a cell that begins %s for a formula or number (F45):\n%s", bad, text)
		}
	}
	if again := w.sims(text, transfer.Options{SkipBad: true}); again.AlreadyThere != 3 || again.Added != 0 || again.Bad != 0 {
		t.Errorf("imported where it came from: %+v", again)
	}
	other := newWorld(t)
	if rep := other.sims(text, transfer.Options{}); rep.Added != 3 {
		t.Fatalf("imported into an empty database: %+v", rep)
	}
	if back := other.export(transfer.KindSIMs, transfer.ExportFilter{}); back != text {
		t.Errorf("exported again it is\n%s\nand was\n%s", back, text)
	}
	if none := w.export(transfer.KindSIMs, transfer.ExportFilter{State: simwarden.StateTerminated}); strings.Count(none, "\r\n") != 1 {
		t.Errorf("no SIM is terminated, and the export has %s", none)
	}
}

func TestI4DevicesComeBackAsTheyWereExported(t *testing.T) {
	w := newWorld(t)
	rep, err := w.importer.Devices(t.Context(), strings.NewReader("imei,名称\n490154203237518,@pump\n356938035643809,泵 2\n35693803564380,twice\nx,\n"), transfer.Options{SkipBad: true})
	if err != nil || rep.Added != 2 || rep.Bad != 2 || rep.Errors[0].Column != "imei" {
		t.Fatalf("two good devices, one twice and one bad: %+v, %v", rep, err)
	}
	text := w.export(transfer.KindDevices, transfer.ExportFilter{})
	if strings.Contains(text, `"@`) || !strings.Contains(text, "'@pump") {
		t.Errorf("a formula is to be harmless (F45): %s", text)
	}
	again, err := w.importer.Devices(t.Context(), strings.NewReader(text), transfer.Options{})
	if err != nil || again.AlreadyThere != 2 || again.Added != 0 || again.Bad != 0 {
		t.Errorf("imported where it came from: %+v, %v", again, err)
	}
	other := newWorld(t)
	if rep, err := other.importer.Devices(t.Context(), strings.NewReader(text), transfer.Options{}); err != nil || rep.Added != 2 {
		t.Errorf("imported into an empty database: %+v, %v", rep, err)
	}
	if back := other.export(transfer.KindDevices, transfer.ExportFilter{}); back != text {
		t.Errorf("exported again it is\n%s\nand was\n%s", back, text)
	}
}

// soldColumns are those of an export of subscriptions that do not depend on where it was made.
func soldColumns(t *testing.T, text string) string {
	t.Helper()
	rows, err := csv.NewReader(strings.NewReader(strings.TrimPrefix(text, "\ufeff"))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, row := range rows {
		fmt.Fprintln(&out, row[:len(row)-2])
	}
	return out.String()
}

func TestI4SubscriptionsComeBackAsTheyWereExported(t *testing.T) {
	w := fleet(t)
	w.subscriptions("iccid,plan,start,used,ref\n"+number(1)+",m30,2026-05-01,17,\n"+number(2)+",add,,,order-7\n", transfer.Options{})
	m30 := w.planCalled("m30")
	for range 2 { // by hand, two of a kind behind the first
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			id, err := tx.FindICCID(ctx, simwarden.MustParseICCID(number(1)))
			if err != nil {
				return err
			}
			_, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: m30, By: "cli:test"})
			return err
		})
	}
	text := w.export(transfer.KindSubscriptions, transfer.ExportFilter{})
	again := w.subscriptions(text, transfer.Options{})
	if again.AlreadyThere != 4 || again.Added != 0 || again.Bad != 0 {
		t.Errorf("imported where it came from: %+v", again)
	}
	other := fleet(t)
	if rep := other.subscriptions(text, transfer.Options{}); rep.Added != 4 {
		t.Fatalf("imported into another database: %+v", rep)
	}
	if rep := other.subscriptions(text, transfer.Options{}); rep.AlreadyThere != 4 || rep.Added != 0 {
		t.Errorf("and once more: %+v", rep)
	}
	if was, is := soldColumns(t, text), soldColumns(t, other.export(transfer.KindSubscriptions, transfer.ExportFilter{})); was != is {
		t.Errorf("exported again it is\n%s\nand was\n%s", is, was)
	}
}

func (w *world) planCalled(code string) simwarden.Plan {
	w.Helper()
	list, err := w.store.Plans(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range list {
		if p.Code == code {
			return p
		}
	}
	w.Fatalf("there is no plan %s", code)
	return simwarden.Plan{}
}

func TestI4UsedDaysAreExportedOnceEachInTheirRange(t *testing.T) {
	w := fleet(t)
	if _, err := w.db.Exec(t.Context(), `INSERT INTO usage_day (sim_id, day, bytes) SELECT s.id, date '2026-03-01' + n, n FROM sim s, generate_series(0, 899) n WHERE s.id <= 3`); err != nil {
		t.Fatal(err)
	}
	text := w.export(transfer.KindUsageDays, transfer.ExportFilter{})
	if lines := strings.Count(text, "\r\n"); lines != 2701 {
		t.Errorf("%d lines, want 2700 days and the header", lines)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(text) {
		if seen[line] {
			t.Fatalf("twice: %s", line)
		}
		seen[line] = true
	}
	month := w.export(transfer.KindUsageDays, transfer.ExportFilter{SIM: 2, FromAt: noon.AddDate(0, 0, -3), UntilAt: noon})
	if strings.Count(month, "\r\n") != 4 || !strings.Contains(month, `"2026-05-01","61"`) || strings.Contains(month, "2026-05-04") {
		t.Errorf("the days of 1 to 3 May: %s", month)
	}
}

func TestI4AnExportOfNothingKnownIsRefused(t *testing.T) {
	w := newWorld(t)
	if _, err := (transfer.Exporter{Store: w.store}).Write(t.Context(), io.Discard, "secrets", transfer.ExportFilter{}); !errors.Is(err, transfer.ErrFile) {
		t.Errorf("%v, want ErrFile", err)
	}
	if got := w.export(transfer.KindRecords, transfer.ExportFilter{}); !strings.HasPrefix(got, "\ufeffcommand_id,") || strings.Count(got, "\r\n") != 1 {
		t.Errorf("without records: %q", got)
	}
}

// counted counts what is written and the most that the heap held meanwhile.
type counted struct {
	bytes, writes int
	peak          uint64
}

func (c *counted) Write(p []byte) (int, error) {
	c.bytes += len(p)
	if c.writes++; c.writes%16 == 0 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		c.peak = max(c.peak, m.HeapAlloc)
	}
	return len(p), nil
}

func TestI4AnExportHoldsAPageInMemoryNotTheFleet(t *testing.T) {
	w := newWorld(t)
	if _, err := w.db.Exec(t.Context(), `INSERT INTO device (imei, name, created_at) SELECT '35' || lpad(n::text, 12, '0'), repeat('x', 200), now() FROM generate_series(1, 200000) n`); err != nil {
		t.Fatal(err)
	}
	var out counted
	n, err := transfer.Exporter{Store: w.store}.Write(t.Context(), &out, transfer.KindDevices, transfer.ExportFilter{})
	if err != nil || n != 200_000 {
		t.Fatalf("%d rows, %v", n, err)
	}
	if out.bytes < 40<<20 || out.peak > 32<<20 {
		t.Errorf("%d MiB were written, and the heap held up to %d MiB; want less than 32", out.bytes>>20, out.peak>>20)
	}
}
