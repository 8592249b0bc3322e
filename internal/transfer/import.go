// Package transfer brings CSV files in and out: it reads them as people have them, checks every row
// against the words and the database, and writes all of a file or nothing (I4, I6).
package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrFile says that a file cannot be imported as a whole, and what to do; test with errors.Is.
var ErrFile = errors.New("this file cannot be imported")

// ErrStopped says that the import was stopped before its end, and that nothing was written.
var ErrStopped = errors.New("the import was stopped; nothing was written")

func fileError(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrFile}, args...)...)
}

// batchRows is how many rows are checked and written at a time.
const batchRows = 1000

// progressEvery is the least time between two reports of progress.
const progressEvery = time.Second

// Importer imports files for one person. It may be used from several goroutines, but one import at
// a time gets through: store.ErrImportRunning.
type Importer struct {
	Store *store.Store
	Clock clock.Clock
	By    string // the actor, for subscriptions and the audit log
}

// Options say how a file is imported.
type Options struct {
	// DryRun makes every check against the database, and writes nothing.
	DryRun bool
	// SkipBad imports the good rows where others are bad; without it one bad row refuses the file.
	SkipBad bool
	// ConfirmEnds says that a person stands for when the subscriptions of the file end, also those that were
	// imported before, so that no guard on lapsing holds them (C10).
	ConfirmEnds bool
	// Encoding is one of the Encoding constants; "" detects it.
	Encoding string
	// Spread is the time over which the first readings of new SIMs are spread (P1); nil takes none
	// for up to 500 SIMs, and else 5 ms for each SIM, at most ten minutes.
	Spread *time.Duration
	// ErrorsFile is where a CSV of the bad rows is written, "" for none: their cells as they were,
	// then row, column and problem, every cell safe to be opened in a spreadsheet (F45). It can be
	// corrected and imported.
	ErrorsFile string
	// Progress is told about long work, at most once a second.
	Progress func(Progress)
}

// Progress is how far an import is.
type Progress struct {
	Rows, Bad int
	Elapsed   time.Duration
}

// loader is what one kind of file does with its rows, within one transaction.
type loader interface {
	// add takes one row whose shape is right. The record is the loader's to keep.
	add(rec record)
	// pending counts the rows that wait for flush.
	pending() int
	// flush checks the waiting rows against the database and writes the good ones; last says that no
	// row follows.
	flush(ctx context.Context, last bool) error
}

// run is one attempt at one file in one transaction.
type run struct {
	tx      *store.Tx
	head    header
	reader  *recordReader
	rep     Report
	skipBad bool
	bads    *badRows
}

// analyzeFrom is how many rows make the database's statistics worth refreshing at once.
const analyzeFrom = 1000

// errRollback ends a transaction whose import went through and is not to be kept.
var errRollback = errors.New("not to be kept")

// file imports src as kind. The transaction may be run again, so src is read from its start each
// time. begin makes the loader.
func (im Importer) file(ctx context.Context, src io.ReadSeeker, kind Kind, o Options, begin func(context.Context, *run) (loader, error)) (Report, error) {
	var rep Report
	err := im.Store.InTx(ctx, func(tx *store.Tx) error {
		r, err := open(ctx, src, kind, o)
		if err != nil {
			return err
		}
		r.tx = tx
		defer r.bads.abandon()
		if err := tx.LockImport(ctx); err != nil {
			return err
		}
		l, err := begin(ctx, r)
		if err != nil {
			return err
		}
		if err := im.rows(ctx, r, l, o); err != nil {
			return err
		}
		if err := r.bads.close(); err != nil {
			return err
		}
		rep = r.finish(o)
		if !rep.Written {
			return errRollback
		}
		told := map[string]any{"rows": rep.Rows, "added": rep.Added, "already_there": rep.AlreadyThere, "bad": rep.Bad}
		if o.ConfirmEnds {
			told["ends_confirmed"] = true
		}
		return tx.Audit(ctx, im.By, "import_"+string(kind), 0, rep.account, told)
	})
	switch {
	case err == nil && rep.Added >= analyzeFrom:
		return rep, im.Store.Analyze(ctx)
	case err == nil || errors.Is(err, errRollback):
		return rep, nil
	case ctx.Err() != nil:
		return Report{}, ErrStopped
	case store.IsUnique(err, "sim_iccid_key"):
		return Report{}, fmt.Errorf("somebody else added one of these SIMs while the import ran; nothing was written, run it again: %w", err)
	}
	return Report{}, err
}

// open reads a file up to its header.
func open(ctx context.Context, src io.ReadSeeker, kind Kind, o Options) (*run, error) {
	if _, err := src.Seek(0, io.SeekStart); err != nil {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	in, enc, err := openEncoding(untilDone{ctx, src}, o.Encoding)
	if err != nil {
		return nil, err
	}
	r := &run{reader: newRecordReader(in, enc), skipBad: o.SkipBad}
	wanted, required := simColumns, []string{columnICCID}
	switch kind {
	case KindSubscriptions:
		wanted, required = subscriptionColumns, []string{columnICCID, columnPlan}
	case KindDevices:
		wanted, required = deviceColumns, deviceColumns[:1]
	case KindStatement:
		wanted, required = statementColumns, statementColumns[:4]
	}
	if r.head, err = readHeader(r.reader, wanted, required); err != nil {
		return nil, err
	}
	r.rep = Report{Kind: kind, Separator: string(r.reader.separator), DryRun: o.DryRun, Errors: []RowError{}, Warnings: []string{}}
	if len(r.head.ignored) > 0 {
		r.rep.Warnings = append(r.rep.Warnings, "ignored columns: "+listNames(r.head.ignored))
	}
	r.bads, err = openBadRows(o.ErrorsFile, r.head)
	return r, err
}

// untilDone reads until the context ends.
type untilDone struct {
	ctx context.Context
	in  io.Reader
}

func (r untilDone) Read(b []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.in.Read(b)
}

// rows reads all rows and hands them on in batches.
func (im Importer) rows(ctx context.Context, r *run, l loader, o Options) error {
	began := im.Clock.Now()
	told := began
	for {
		rec, err := r.reader.next()
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		last := err != nil
		if last || l.pending() >= batchRows {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := l.flush(ctx, last); err != nil {
				return err
			}
			if r.bads.err != nil {
				return r.bads.err
			}
		}
		if last {
			return nil
		}
		// A file of bad rows never fills a batch: look at the time now and then whatever came.
		if r.reader.row%batchRows == 0 {
			if now := im.Clock.Now(); o.Progress != nil && now.Sub(told) >= progressEvery {
				told = now
				o.Progress(Progress{Rows: r.rep.Rows, Bad: r.rep.Bad + r.rep.AlreadyThere, Elapsed: now.Sub(began)})
			}
		}
		if err := r.take(rec, l); err != nil {
			return err
		}
	}
}

// take checks one row's shape and hands it on.
func (r *run) take(rec record, l loader) error {
	if rec.blank() {
		return nil
	}
	if r.rep.Rows++; r.rep.Rows > MaxRows {
		return fileError("it has more than %d rows; split it", MaxRows)
	}
	if problem := r.head.shape(rec); problem != "" {
		r.bad(rec, RowError{Problem: problem})
		return nil
	}
	l.add(rec)
	return nil
}

// refused says that nothing of the file will be kept.
func (r *run) refused() bool { return !r.skipBad && len(r.rep.Errors) > 0 }

// finish completes the report.
func (r *run) finish(o Options) Report {
	rep := r.rep
	rep.Encoding = r.reader.enc.name
	rep.Refused = r.refused()
	rep.Written = !rep.Refused && !o.DryRun
	rep.Added = 0
	if rep.Written {
		rep.Added = rep.Good
	}
	rep.sort()
	return rep
}
