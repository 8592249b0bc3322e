package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/transfer"
)

// statement imports a text as the account's statement; it must be read to its end.
func (w *world) statement(text string, o transfer.Options) transfer.Report {
	w.Helper()
	rep, err := w.importer.Statement(w.Context(), strings.NewReader(text), "acme", "may.csv", o)
	if err != nil {
		w.Fatal(err)
	}
	w.balanced(rep)
	return rep
}

// charged is what the book has been told of a SIM: costs by item, in its order.
func (w *world) charged(iccid string) string {
	w.Helper()
	var text string
	err := w.db.QueryRow(w.Context(), `SELECT coalesce(string_agg(period || ' ' || item || ' ' || cost_minor || ' ' || currency, ', ' ORDER BY period, item), '')
		FROM carrier_cost WHERE iccid = $1`, iccid).Scan(&text)
	if err != nil {
		w.Fatal(err)
	}
	return text
}

func TestM3AStatementIsTakenInOnceAndCorrected(t *testing.T) {
	w := fleet(t)
	text := "ICCID;账期;费用;币种;项目\n" + number(1) + ";2026-05;3.00;EUR;\n" + number(1) + ";2026-05;0.2;eur;sms\n" + number(2) + ";2026-05;300;JPY;\n"
	rep := w.statement(text, transfer.Options{DryRun: true})
	if rep.Good != 3 || rep.Written || w.charged(number(1)) != "" {
		t.Errorf("a dry run: %+v, and the book has %q", rep, w.charged(number(1)))
	}
	if rep = w.statement(text, transfer.Options{}); rep.Added != 3 || len(rep.Errors) != 0 {
		t.Errorf("the first import: %+v", rep)
	}
	if got, want := w.charged(number(1)), "2026-05-01  300 EUR, 2026-05-01 sms 20 EUR"; got != want {
		t.Errorf("the book has %q, want %q", got, want)
	}
	if rep = w.statement(text, transfer.Options{}); rep.Added != 0 || rep.AlreadyThere != 3 {
		t.Errorf("the same again: %+v", rep)
	}
	rep = w.statement("iccid,period,cost,currency\n"+number(2)+",2026-05,-5,JPY\n"+number(77)+",2026-05,1,JPY\n", transfer.Options{})
	if rep.Added != 2 || len(rep.Warnings) != 2 || !strings.Contains(rep.Warnings[0], "1 rows correct") || !strings.Contains(rep.Warnings[1], "1 rows are of SIMs") {
		t.Errorf("a correction and a stranger: %+v", rep)
	}
	if got := w.charged(number(2)); got != "2026-05-01  -5 JPY" {
		t.Errorf("the book has %q after the correction", got)
	}
	var n int
	if err := w.db.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'import_statement'`).Scan(&n); err != nil || n != 3 {
		t.Errorf("%d audit rows, %v; want one for each import that wrote (R2)", n, err)
	}
}

func TestM3RowsOfAStatementThatCannotBeRead(t *testing.T) {
	w := fleet(t)
	for _, row := range []struct{ name, row, column string }{
		{"a damaged ICCID", "8.98604E+18,2026-05,3,EUR", "iccid"},
		{"a day for a month", number(1) + ",2026-05-01,3,EUR", "period"},
		{"no month", number(1) + ",,3,EUR", "period"},
		{"a comma in the amount", number(1) + `,2026-05,"3,00",EUR`, "cost"},
		{"no amount", number(1) + ",2026-05,,EUR", "cost"},
		{"more decimals than the currency has", number(1) + ",2026-05,3.5,JPY", "cost"},
		{"a currency that is none", number(1) + ",2026-05,3,EURO", "currency"},
	} {
		rep := w.statement("iccid,period,cost,currency\n"+row.row+"\n"+number(2)+",2026-05,3,EUR\n", transfer.Options{})
		if !rep.Refused || rep.Bad != 1 || rep.Good != 1 || len(rep.Errors) != 1 || rep.Errors[0].Column != row.column || rep.Errors[0].Row != 2 {
			t.Errorf("%s: %+v", row.name, rep)
		}
	}
	if got := w.charged(number(2)); got != "" {
		t.Errorf("the good rows of refused files are in the book: %q", got)
	}
	if _, err := w.importer.Statement(t.Context(), strings.NewReader("iccid,period,cost\n"), "acme", "may.csv", transfer.Options{}); err == nil || !strings.Contains(err.Error(), "currency") {
		t.Errorf("a file without currencies gives %v", err)
	}
}

// TestM3ALongStatementIsOne has more rows than are written at a time: the file is one transaction, and
// a row that is there twice is found across its parts.
func TestM3ALongStatementIsOne(t *testing.T) {
	w := fleet(t)
	var b strings.Builder
	b.WriteString("iccid,period,cost,currency,item\n")
	for i := range 2500 {
		fmt.Fprintf(&b, "%s,2026-05,0.01,EUR,%d\n", number(1), i)
	}
	good := b.String()
	rep := w.statement(good+number(1)+",2026-05,0.02,EUR,7\n", transfer.Options{})
	if !rep.Refused || rep.Good != 2500 || rep.Bad != 1 || rep.Errors[0].Row != 2502 || !strings.Contains(rep.Errors[0].Problem, "row 9") || w.charged(number(1)) != "" {
		t.Errorf("a row that is there twice: %+v", rep)
	}
	if rep = w.statement(good, transfer.Options{}); rep.Added != 2500 {
		t.Errorf("without it: %d added", rep.Added)
	}
}
