package transfer

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
)

// maxItem and maxStatement bound the texts of a statement, in characters.
const (
	maxItem      = 32
	maxStatement = 200
)

// Statement takes in what a carrier charges the account, from a CSV file that is called name: columns
// iccid, period (a month, 2026-05), cost (9.90, in the currency's main unit; a credit note is
// negative), currency (ISO 4217) and, where a SIM has several rows of a month, item. A row that was
// taken in before is counted; one whose cost has changed takes the place of the old (M3). What the
// file charges for SIMs that we do not have is taken in too, and is a difference.
//
// The errors are those of SIMs.
func (im Importer) Statement(ctx context.Context, src io.ReadSeeker, account, name string, o Options) (Report, error) {
	if problem := textProblem(name, maxStatement); problem != "" || name == "" {
		return Report{}, fileError("the statement's name: give one of 1 to %d characters in one line", maxStatement)
	}
	a, err := im.Store.AccountByName(ctx, account)
	if err != nil {
		return Report{}, err
	}
	return im.file(ctx, src, KindStatement, o, func(_ context.Context, r *run) (loader, error) {
		r.rep.account = a.ID
		return &statementLoader{run: r, by: im.By, account: a.ID, name: name, seen: map[[16]byte]uint32{}}, nil
	})
}

type statementLoader struct {
	*run
	by      string
	account simwarden.AccountID
	name    string
	seen    map[[16]byte]uint32 // SIM, month and item of this file, hashed, to their rows
	rows    []ledger.StatementRow

	corrected, unmatched int
}

func (l *statementLoader) pending() int { return len(l.rows) }

func (l *statementLoader) add(rec record) {
	row, problems := l.parse(rec)
	if len(problems) == 0 {
		sum := sha256.Sum256([]byte(strings.Join([]string{row.ICCID.String(), row.Period, row.Item}, "\x00")))
		key := [16]byte(sum[:16])
		if first, twice := l.seen[key]; twice {
			problems = append(problems, RowError{Problem: fmt.Sprintf(
				"the same SIM, month and item are in row %d; take one out, or give each its own item where both are charged", first)})
		} else {
			l.seen[key] = uint32(rec.row)
		}
	}
	if len(problems) > 0 {
		l.bad(rec, problems...)
		return
	}
	l.rows = append(l.rows, row)
}

// parse reads a row's cells.
func (l *statementLoader) parse(rec record) (row ledger.StatementRow, problems []RowError) {
	cell := func(column string) string { return l.head.cell(rec, column) }
	var err error
	if row.ICCID, err = simwarden.ParseICCID(cell(columnICCID)); err != nil {
		problems = append(problems, wrong(columnICCID, cell(columnICCID), err))
	}
	row.Period = cell(columnPeriod)
	if err := ledger.CheckPeriod(row.Period); err != nil {
		problems = append(problems, wrong(columnPeriod, row.Period, err))
	}
	code := strings.ToUpper(cell(columnMoney))
	if err := ledger.CheckCurrency(code); err != nil {
		problems = append(problems, wrong(columnMoney, code, err))
	} else if row.Cost, err = ledger.ParseAmount(cell(columnCost), code); err != nil {
		problems = append(problems, wrong(columnCost, cell(columnCost), err))
	}
	row.Item = cell(columnItem)
	if problem := textProblem(row.Item, maxItem); problem != "" {
		problems = append(problems, RowError{Column: columnItem, Value: row.Item, Problem: problem})
	}
	return row, problems
}

func (l *statementLoader) flush(ctx context.Context, last bool) error {
	rows := l.rows
	l.rows = l.rows[:0]
	if len(rows) > 0 {
		r, err := ledger.AddStatementRows(ctx, l.tx, l.account, l.name, l.by, rows)
		if err != nil {
			return err
		}
		l.rep.Good += r.Added + r.Corrected
		l.rep.AlreadyThere += r.Same
		l.corrected += r.Corrected
		l.unmatched += r.Unmatched
	}
	if last && l.corrected > 0 {
		l.rep.Warnings = append(l.rep.Warnings, fmt.Sprintf("%d rows correct what was charged before", l.corrected))
	}
	if last && l.unmatched > 0 {
		l.rep.Warnings = append(l.rep.Warnings, fmt.Sprintf("%d rows are of SIMs that we do not have; simwarden margin differences lists them", l.unmatched))
	}
	return nil
}
