package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/simwarden/simwarden/internal/transfer"
)

// maxInputBytes bounds what is read from standard input.
const maxInputBytes = 4 << 30

// maxErrorsShown bounds the row errors printed as text.
const maxErrorsShown = 50

// maxSpread bounds --spread.
const maxSpread = 7 * 24 * time.Hour

type importCmd struct {
	SIMs          importSIMsCmd          `cmd:"" name:"sims" help:"Add the SIMs of a CSV file to an account. Columns: iccid, msisdn, imsi, label, imei."`
	Devices       importDevicesCmd       `cmd:"" help:"Add the devices of a CSV file. Columns: imei, name. A device that is there is left as it is."`
	Statement     importStatementCmd     `cmd:"" help:"Take in what a carrier charges. Columns: iccid, period (2026-05), cost, currency, item. A row taken in before is corrected."`
	Subscriptions importSubscriptionsCmd `cmd:"" help:"Buy the plans of a CSV file. Columns: iccid, plan, start, used (bytes), ref. A row imported before is not bought again."`
}

// importFlags are what both kinds of file take.
type importFlags struct {
	File     string `arg:"" help:"The CSV file, or - for standard input. The header names the columns, in English or Chinese; comma, semicolon or tab between them."`
	DryRun   bool   `help:"Make every check and write nothing."`
	SkipBad  bool   `help:"Import the good rows. Without it one bad row refuses the whole file."`
	Encoding string `help:"auto, utf-8, gbk or utf-16." enum:"auto,utf-8,gbk,utf-16" default:"auto"`
	Errors   string `help:"Write the bad rows to this CSV file, with what is wrong." placeholder:"FILE" type:"path"`
}

type importSIMsCmd struct {
	importFlags
	Account string         `help:"The account to add the SIMs to." required:"" placeholder:"NAME"`
	Spread  *time.Duration `help:"Spread the first readings over this time. Default: none for up to 500 SIMs, else 5ms for each SIM, at most 10m." placeholder:"DURATION"`
}

// Run imports SIMs (I4, I6).
func (c *importSIMsCmd) Run(ctx context.Context, g *Globals) error {
	if c.Spread != nil && (*c.Spread < 0 || *c.Spread > maxSpread) {
		return fmt.Errorf("%w: --spread is %s; give 0s to %s", transfer.ErrFile, *c.Spread, maxSpread)
	}
	return c.run(ctx, g, func(im transfer.Importer, src io.ReadSeeker, o transfer.Options) (transfer.Report, error) {
		o.Spread = c.Spread
		return im.SIMs(ctx, src, c.Account, o)
	})
}

type importDevicesCmd struct{ importFlags }

// Run imports devices (I4).
func (c *importDevicesCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, func(im transfer.Importer, src io.ReadSeeker, o transfer.Options) (transfer.Report, error) {
		return im.Devices(ctx, src, o)
	})
}

type importSubscriptionsCmd struct {
	importFlags
	ConfirmEnds bool `help:"The plans' ends are right, however many come at once: no guard on lapsing is to hold them."`
}

// Run imports subscriptions (I4, L4).
func (c *importSubscriptionsCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, func(im transfer.Importer, src io.ReadSeeker, o transfer.Options) (transfer.Report, error) {
		o.ConfirmEnds = c.ConfirmEnds
		return im.Subscriptions(ctx, src, o)
	})
}

func (c *importFlags) run(ctx context.Context, g *Globals, load func(transfer.Importer, io.ReadSeeker, transfer.Options) (transfer.Report, error)) error {
	src, err := c.source(ctx, g)
	if err != nil {
		return err
	}
	defer func() { _ = src.Close() }() // it was only read
	if c.overwrites(src) {
		return fmt.Errorf("%w: --errors names the file itself, which would be lost; give it another name", transfer.ErrFile)
	}
	return g.with(ctx, func(e *env) error {
		rep, err := load(transfer.Importer{Store: e.Store, Clock: e.Clock, By: actor()}, src, transfer.Options{
			DryRun: c.DryRun, SkipBad: c.SkipBad, Encoding: c.Encoding, ErrorsFile: c.Errors,
			Progress: func(p transfer.Progress) {
				fmt.Fprintf(g.Err, "%d rows read, %d not to be added, %s\n", p.Rows, p.Bad, short(p.Elapsed))
			},
		})
		if err != nil {
			return err
		}
		if g.JSON {
			err = printJSON(g.Out, rep)
		} else {
			c.printReport(g.Out, rep)
		}
		if err == nil && len(rep.Errors) > 0 {
			err = errFindings
		}
		return err
	})
}

// overwrites says whether the file of bad rows is the one that is read.
func (c *importFlags) overwrites(src *os.File) bool {
	if c.Errors == "" {
		return false
	}
	to, err := os.Stat(c.Errors)
	if err != nil {
		return false // it is not there
	}
	from, err := src.Stat()
	return err == nil && os.SameFile(from, to)
}

// source opens the file. Standard input is copied to a file first that nobody else sees: a
// transaction may have to be run again, and must not stay open while somebody types.
func (c *importFlags) source(ctx context.Context, g *Globals) (*os.File, error) {
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", transfer.ErrFile, err)
		}
		if info, err := f.Stat(); err != nil || info.IsDir() {
			_ = f.Close() // nothing was done with it
			return nil, fmt.Errorf("%w: %s is a directory", transfer.ErrFile, c.File)
		}
		return f, nil
	}
	f, err := os.CreateTemp("", "simwarden-import-*.csv")
	if err != nil {
		return nil, fmt.Errorf("keep standard input: %w", err)
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("keep standard input: %w", err)
	}
	if err := copyInput(ctx, f, g.In); err != nil {
		return nil, err // the copying may still be at work on f: it ends with the process
	}
	return f, nil
}

// copyInput copies until the input or the context ends: nothing else stops a read from a terminal.
func copyInput(ctx context.Context, to io.Writer, from io.Reader) error {
	done := make(chan error, 1)
	go func() {
		n, err := io.Copy(to, io.LimitReader(from, maxInputBytes+1))
		if err == nil && n > maxInputBytes {
			err = fmt.Errorf("%w: it has more than %d GiB; split it", transfer.ErrFile, maxInputBytes>>30)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil && !errors.Is(err, transfer.ErrFile) {
			return fmt.Errorf("read standard input: %w", err)
		}
		return err
	case <-ctx.Done():
		return transfer.ErrStopped
	}
}

// separatorNames are the separators as one reads them.
var separatorNames = map[string]string{",": "comma", ";": "semicolon", "\t": "tab"}

func (c *importFlags) printReport(w io.Writer, rep transfer.Report) {
	fmt.Fprintf(w, "Read %d rows as %s, separated by %s.\n", rep.Rows, rep.Encoding, separatorNames[rep.Separator])
	for _, text := range rep.Warnings {
		fmt.Fprintf(w, "Warning: %s.\n", clean(text, 2000))
	}
	for i, e := range rep.Errors {
		if i == maxErrorsShown {
			break
		}
		fmt.Fprintln(w, clean(e.String(), 400))
	}
	if more := len(rep.Errors) + rep.ErrorsLeftOut - min(len(rep.Errors), maxErrorsShown); more > 0 {
		fmt.Fprintf(w, "and %d more; --errors FILE has all of them.\n", more)
	}
	counts := fmt.Sprintf("%d there already, %d bad", rep.AlreadyThere, rep.Bad)
	switch {
	case rep.Refused:
		fmt.Fprintf(w, "Nothing was written: %d good, %s. Correct the file, or use --skip-bad to import the good rows.\n", rep.Good, counts)
	case rep.DryRun:
		fmt.Fprintf(w, "Dry run, nothing was written: %d would be added, %s.\n", rep.Good, counts)
	default:
		fmt.Fprintf(w, "%d added, %s.\n", rep.Added, counts)
	}
	if c.Errors != "" && len(rep.Errors) > 0 {
		fmt.Fprintf(w, "The bad rows are in %s.\n", c.Errors)
	}
}
