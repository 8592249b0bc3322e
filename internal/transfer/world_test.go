package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/internal/transfer"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// world is a database with one account and an importer; time stands still.
type world struct {
	testing.TB
	store    *store.Store
	db       *pgxpool.Pool
	importer transfer.Importer
	account  store.Account
}

func newWorld(t testing.TB) *world {
	t.Helper()
	url := storetest.URL(t, store.Migrate)
	c := clock.NewManual(noon)
	s, err := store.Open(t.Context(), store.Options{URL: url, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	db, err := pgxpool.New(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	w := &world{TB: t, store: s, db: db, importer: transfer.Importer{Store: s, Clock: c, By: "cli:test"}}
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		w.account, err = tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "soracom"})
		return err
	})
	return w
}

func (w *world) tx(fn func(context.Context, *store.Tx) error) {
	w.Helper()
	if err := w.store.InTx(w.Context(), func(tx *store.Tx) error { return fn(w.Context(), tx) }); err != nil {
		w.Fatal(err)
	}
}

// sims imports a text as SIMs of the account; it must be read to its end.
func (w *world) sims(text string, o transfer.Options) transfer.Report {
	w.Helper()
	rep, err := w.importer.SIMs(w.Context(), strings.NewReader(text), "acme", o)
	if err != nil {
		w.Fatal(err)
	}
	w.balanced(rep)
	return rep
}

// subscriptions imports a text as subscriptions; it must be read to its end.
func (w *world) subscriptions(text string, o transfer.Options) transfer.Report {
	w.Helper()
	rep, err := w.importer.Subscriptions(w.Context(), strings.NewReader(text), o)
	if err != nil {
		w.Fatal(err)
	}
	w.balanced(rep)
	return rep
}

func (w *world) balanced(rep transfer.Report) {
	w.Helper()
	if rep.Rows != rep.Good+rep.AlreadyThere+rep.Bad {
		w.Errorf("%d rows are not %d good + %d there already + %d bad", rep.Rows, rep.Good, rep.AlreadyThere, rep.Bad)
	}
}

// plan adds a plan of 30 days with 1,000,000 bytes.
func (w *world) plan(code string, kind simwarden.PlanKind, zone string) {
	w.Helper()
	p := simwarden.Plan{Code: code, Name: code, Kind: kind, AllowanceBytes: 1_000_000, ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: zone}
	if err := plans.Check(p); err != nil {
		w.Fatal(err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddPlan(ctx, p)
		return err
	})
}

// count counts the rows of a table.
func (w *world) count(table string) int {
	w.Helper()
	var n int
	if err := w.db.QueryRow(w.Context(), `SELECT count(*) FROM `+table).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

// nothingWritten fails where an import left anything behind.
func (w *world) nothingWritten() {
	w.Helper()
	for _, table := range []string{"sim", "poll_state", "poll_nudge", "device", "subscription", "evaluation_request", "audit"} {
		if n := w.count(table); n != 0 {
			w.Errorf("%d rows are left in %s: nothing may be half done (I4)", n, table)
		}
	}
}

// number is the nth invented card, of 20 digits with a fitting check digit.
func number(n int) string {
	return withLuhn(fmt.Sprintf("898600%013d", n))
}

func withLuhn(body string) string {
	for d := '0'; d <= '9'; d++ {
		if _, err := simwarden.ParseICCID(body + string(d)); err == nil {
			return body + string(d)
		}
	}
	panic("no digit fits " + body)
}

// problems lists a report's errors as "row column: ", for comparison.
func problems(rep transfer.Report) []string {
	out := []string{}
	for _, e := range rep.Errors {
		out = append(out, fmt.Sprintf("%d %s", e.Row, e.Column))
	}
	return out
}
