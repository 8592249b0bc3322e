package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// How the first readings of new SIMs are spread where nobody says (P1, P2).
const (
	spreadNotBelow = 500 // so many are read at once
	spreadEach     = 5 * time.Millisecond
	spreadMost     = 10 * time.Minute
)

// maxLabel bounds a label, in characters.
const maxLabel = 200

// SIMs adds the SIMs of a CSV file to an account. It has a column iccid, and may have msisdn, imsi,
// label and imei (of the device that the SIM is in). All rows are added in one transaction or none.
//
// The errors wrap ErrFile, ErrStopped, store.ErrNotFound (no such account) and
// store.ErrImportRunning; what is wrong with single rows is in the report.
func (im Importer) SIMs(ctx context.Context, src io.ReadSeeker, account string, o Options) (Report, error) {
	acc, err := im.Store.AccountByName(ctx, account)
	if err != nil {
		return Report{}, err
	}
	return im.file(ctx, src, KindSIMs, o, func(_ context.Context, r *run) (loader, error) {
		r.rep.account = acc.ID
		return &simLoader{run: r, by: im.By, account: acc, spread: o.Spread, seen: cards{}}, nil
	})
}

type simRow struct {
	rec  record
	sim  store.NewSIM
	imei simwarden.IMEI
}

type simLoader struct {
	*run
	by      string
	account store.Account
	spread  *time.Duration
	seen    cards
	rows    []simRow
	// rounded counts numbers that a spreadsheet may have rounded. The first is held: alone it may be a
	// true one, with a second neither is (I6).
	rounded int
	held    *simRow
	added   int // numbers the SIMs for their first reading
}

func (l *simLoader) pending() int { return len(l.rows) }

func (l *simLoader) add(rec record) {
	row, problems := l.parse(rec)
	if row.sim.ICCID.MaybeRounded() {
		l.addRounded(row, problems)
		return
	}
	if !row.sim.ICCID.IsZero() {
		if before, twice := l.seen.take(row.sim.ICCID, rec.row); twice {
			problems = append(problems, RowError{Column: columnICCID, Value: row.sim.Raw,
				Problem: fmt.Sprintf("the same card is in row %d; take one of them out", before)})
		}
	}
	if len(problems) > 0 {
		l.bad(rec, problems...)
		return
	}
	l.rows = append(l.rows, row)
}

func (l *simLoader) addRounded(row simRow, problems []RowError) {
	damaged := func(r simRow) RowError {
		return RowError{Column: columnICCID, Value: r.sim.Raw, Problem: "several numbers in this file end in zeros, as a spreadsheet leaves them: " + simwarden.ErrICCIDDamaged.Error()}
	}
	switch l.rounded++; {
	case l.rounded == 1 && len(problems) > 0:
		l.bad(row.rec, problems...)
	case l.rounded == 1:
		l.held = &row
	default:
		if l.held != nil {
			l.bad(l.held.rec, damaged(*l.held))
			l.held = nil
		}
		l.bad(row.rec, append(problems, damaged(row))...)
	}
}

// parse reads a row's cells.
func (l *simLoader) parse(rec record) (row simRow, problems []RowError) {
	row.rec = rec
	s := &row.sim
	s.AddedBy = l.by
	s.Raw = l.head.cell(rec, columnICCID)
	var err error
	if s.ICCID, err = simwarden.ParseICCID(s.Raw); err != nil {
		problems = append(problems, wrong(columnICCID, s.Raw, err))
	}
	if text := l.head.cell(rec, columnMSISDN); text != "" {
		if s.MSISDN, err = simwarden.ParseMSISDN(text); err != nil {
			problems = append(problems, wrong(columnMSISDN, text, err))
		}
	}
	if text := l.head.cell(rec, columnIMSI); text != "" {
		if s.IMSI, err = simwarden.ParseIMSI(text); err != nil {
			problems = append(problems, wrong(columnIMSI, text, err))
		}
	}
	if text := l.head.cell(rec, columnIMEI); text != "" {
		if row.imei, err = simwarden.ParseIMEI(text); err != nil {
			problems = append(problems, wrong(columnIMEI, text, err))
		}
	}
	s.Label = l.head.cell(rec, columnLabel)
	if problem := textProblem(s.Label, maxLabel); problem != "" {
		problems = append(problems, RowError{Column: columnLabel, Value: s.Label, Problem: problem})
	}
	return row, problems
}

// wrong is the row error for a number that does not parse.
func wrong(column, value string, err error) RowError {
	problem := strings.TrimSuffix(err.Error(), fmt.Sprintf(": %q", value)) // the report has it beside
	if looksRounded(value) && !errors.Is(err, simwarden.ErrICCIDDamaged) {
		problem = "a spreadsheet has turned this number into one with an exponent and lost digits; export the column as text"
	}
	return RowError{Column: column, Value: value, Problem: problem}
}

func (l *simLoader) flush(ctx context.Context, last bool) error {
	if last && l.held != nil {
		held := *l.held
		l.held = nil
		if before, twice := l.seen.take(held.sim.ICCID, held.rec.row); twice {
			l.bad(held.rec, RowError{Column: columnICCID, Value: held.sim.Raw, Problem: fmt.Sprintf("the same card is in row %d; take one of them out", before)})
		} else {
			l.rows = append(l.rows, held)
		}
	}
	rows := l.rows
	l.rows = l.rows[:0]
	if err := l.dropKnown(ctx, &rows); err != nil {
		return err
	}
	l.rep.Good += len(rows)
	if len(rows) == 0 || l.refused() {
		return nil
	}
	if err := l.findDevices(ctx, rows); err != nil {
		return err
	}
	few := last && l.added+len(rows) <= spreadNotBelow
	sims, after := make([]store.NewSIM, len(rows)), make([]time.Duration, len(rows))
	for i, row := range rows {
		sims[i] = row.sim
		after[i] = firstReading(l.added, l.spread, few)
		l.added++
	}
	_, err := l.tx.AddSIMsAfter(ctx, l.account, sims, after)
	return err
}

// firstReading is how long the nth SIM waits for its first reading. few says that all are few.
// How many there will be is not known while a file is read: by default they follow each other at
// even steps and begin anew after ten minutes; over a given time they are spread by multiples of the
// golden ratio, which lie evenly for any count.
func firstReading(n int, spread *time.Duration, few bool) time.Duration {
	switch {
	case spread != nil:
		_, fraction := math.Modf(float64(n) * (math.Phi - 1))
		return time.Duration(fraction * float64(*spread))
	case few:
		return 0
	}
	return time.Duration(n) * spreadEach % spreadMost
}

// dropKnown makes row errors of the cards that the fleet has.
func (l *simLoader) dropKnown(ctx context.Context, rows *[]simRow) error {
	if len(*rows) == 0 {
		return nil
	}
	var forms []string
	for _, row := range *rows {
		forms = appendForms(forms, row.sim.ICCID)
	}
	known, err := l.tx.KnownICCIDs(ctx, forms)
	if err != nil {
		return err
	}
	kept := (*rows)[:0]
	for _, row := range *rows {
		var there string
		for _, form := range appendForms(nil, row.sim.ICCID) {
			if _, found := known[form]; found && there == "" {
				there = form
			}
		}
		if there == "" {
			kept = append(kept, row)
			continue
		}
		problem := "this SIM is there already; take the row out"
		if there != row.sim.ICCID.String() {
			problem = fmt.Sprintf("this card is there already as %s; take the row out", there)
		}
		l.rep.AlreadyThere++
		l.note(row.rec, RowError{Column: columnICCID, Value: row.sim.Raw, Problem: problem})
	}
	*rows = kept
	return nil
}

// appendForms adds the forms under which a card may be stored, its own first.
func appendForms(forms []string, id simwarden.ICCID) []string {
	forms = append(forms, id.String())
	for _, other := range id.Alternates() {
		forms = append(forms, other.String())
	}
	return forms
}

// findDevices finds or adds the devices that the rows name.
func (l *simLoader) findDevices(ctx context.Context, rows []simRow) error {
	var imeis []simwarden.IMEI
	for _, row := range rows {
		if row.imei.String() != "" {
			imeis = append(imeis, row.imei)
		}
	}
	if len(imeis) == 0 {
		return nil
	}
	devices, err := l.tx.Devices(ctx, imeis)
	if err != nil {
		return err
	}
	for i, row := range rows {
		if row.imei.String() != "" {
			rows[i].sim.DeviceID = devices[row.imei]
		}
	}
	return nil
}
