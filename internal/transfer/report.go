package transfer

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
)

// MaxErrors is how many row errors a report keeps; more are counted.
const MaxErrors = 1000

// Kind is what a file holds.
type Kind string

// The kinds of file.
const (
	KindSIMs          Kind = "sims"
	KindSubscriptions Kind = "subscriptions"
	KindStatement     Kind = "statement"
)

// Report is what became of a file. Rows = Good + AlreadyThere + Bad.
type Report struct {
	Kind      Kind   `json:"kind"`
	Encoding  string `json:"encoding"`  // as which it was read
	Separator string `json:"separator"` // as which it was read
	Rows      int    `json:"rows"`      // those with something in them, without the header
	Good      int    `json:"good"`      // to be added
	Added     int    `json:"added"`     // Good where the import was written, else 0
	// AlreadyThere counts SIMs of the fleet, subscriptions that were imported before and what a
	// statement charged before. For SIMs each is a row error too.
	AlreadyThere  int        `json:"already_there"`
	Bad           int        `json:"bad"`
	DryRun        bool       `json:"dry_run"`
	Refused       bool       `json:"refused"` // for its row errors: nothing was written
	Written       bool       `json:"written"`
	Warnings      []string   `json:"warnings"`
	Errors        []RowError `json:"errors"` // by row, the first MaxErrors
	ErrorsLeftOut int        `json:"errors_left_out"`

	account simwarden.AccountID
}

// RowError is one thing wrong with one row. Row counts as a spreadsheet does: the header is 1.
type RowError struct {
	Row     int    `json:"row"`
	Column  string `json:"column,omitempty"` // empty where it is the row as a whole
	Value   string `json:"value,omitempty"`  // as written, shortened
	Problem string `json:"problem"`          // and what to do
}

// String is the error as a line of text.
func (e RowError) String() string {
	switch {
	case e.Column == "":
		return fmt.Sprintf("row %d: %s", e.Row, e.Problem)
	case e.Value == "":
		return fmt.Sprintf("row %d, %s: %s", e.Row, e.Column, e.Problem)
	}
	return fmt.Sprintf("row %d, %s %q: %s", e.Row, e.Column, e.Value, e.Problem)
}

func (rep *Report) sort() {
	slices.SortStableFunc(rep.Errors, func(a, b RowError) int { return cmp.Compare(a.Row, b.Row) })
}

// bad counts a bad row and keeps what is wrong with it.
func (r *run) bad(rec record, problems ...RowError) {
	r.rep.Bad++
	r.note(rec, problems...)
}

// note keeps what is wrong with a row without counting it.
func (r *run) note(rec record, problems ...RowError) {
	for i := range problems {
		problems[i].Row, problems[i].Value = rec.row, clip(problems[i].Value)
		if len(r.rep.Errors) < MaxErrors {
			r.rep.Errors = append(r.rep.Errors, problems[i])
		} else {
			r.rep.ErrorsLeftOut++
		}
	}
	r.bads.add(rec, problems)
}

// clip shortens a text from outside.
func clip(s string) string {
	const most = 64
	n := 0
	for i := range s {
		if n++; n > most {
			return s[:i] + "…"
		}
	}
	return s
}

// badRows writes the file of bad rows, or nothing where it has no file.
type badRows struct {
	file *os.File
	w    *bufio.Writer
	head header
	err  error // the first
}

// openBadRows makes or empties the file at path and writes its header: UTF-8 with a mark, so that
// spreadsheets read it as such.
func openBadRows(path string, head header) (*badRows, error) {
	b := &badRows{head: head}
	if path == "" {
		return b, nil
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("file of bad rows: %w", err)
	}
	b.file, b.w = f, bufio.NewWriter(f)
	_, b.err = b.w.WriteString("\ufeff")
	b.write(slices.Concat(head.names, []string{"row", "column", "problem"}))
	return b, nil
}

func (b *badRows) write(cells []string) {
	if b.err == nil {
		b.err = writeRecord(b.w, cells)
	}
}

func (b *badRows) add(rec record, problems []RowError) {
	if b.file == nil {
		return
	}
	cells := make([]string, len(b.head.names), len(b.head.names)+3)
	for i, cell := range rec.cells {
		if i < len(cells) {
			cells[i] = PlainCell(strings.TrimSpace(cell))
		}
	}
	var columns, texts []string
	for _, p := range problems {
		if p.Column != "" {
			columns = append(columns, p.Column)
		}
		texts = append(texts, p.Problem)
	}
	b.write(append(cells, strconv.Itoa(rec.row), strings.Join(columns, " "), strings.Join(texts, "; ")))
}

// close writes out what is left.
func (b *badRows) close() error {
	if b.file == nil {
		return nil
	}
	if b.err == nil {
		b.err = b.w.Flush()
	}
	err := errors.Join(b.err, b.file.Close())
	b.file = nil
	if err != nil {
		return fmt.Errorf("file of bad rows: %w", err)
	}
	return nil
}

// abandon closes the file where close was not reached.
func (b *badRows) abandon() {
	if b.file != nil {
		_ = b.file.Close() // the import failed for another reason, which is told
		b.file = nil
	}
}
