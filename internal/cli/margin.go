package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/transfer"
)

type marginCmd struct {
	List        marginListCmd        `cmd:"" default:"withargs" help:"List what each SIM earned and cost in a month."`
	Differences marginDifferencesCmd `cmd:"" help:"List where the carrier's statements of a month and our book differ."`
	Rate        marginRateCmd        `cmd:"" help:"Set what an active SIM of an account should cost a month."`
}

// monthArgs name an account's month.
type monthArgs struct {
	Account string `arg:"" help:"The carrier account."`
	Period  string `arg:"" help:"The month, such as 2026-05, in the account's time zone."`
}

type marginListCmd struct{ monthArgs }

// Run lists margins (M3).
func (c *marginListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := allPages(func(cursor string) (api.Page[store.Margin], error) {
			return e.Margins(ctx, c.Account, c.Period, cursor, api.MaxPage)
		})
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		t := newTable("ICCID", "EARNED", "COST", "MARGIN")
		for _, m := range list {
			t.add(m.ICCID, minor(m.RevenueMinor, m.Currency), minor(m.CostMinor, m.Currency), minor(m.MarginMinor, m.Currency))
		}
		t.print(g.Out)
		return nil
	})
}

type marginDifferencesCmd struct{ monthArgs }

// Run lists differences (M3). The exit code says whether there are any.
func (c *marginDifferencesCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := allPages(func(cursor string) (api.Page[store.Difference], error) {
			return e.Differences(ctx, c.Account, c.Period, cursor, api.MaxPage)
		})
		if err != nil {
			return err
		}
		if g.JSON {
			err = printJSON(g.Out, list)
		} else {
			printDifferences(g.Out, list)
		}
		if err == nil && len(list) > 0 {
			err = errFindings
		}
		return err
	})
}

func printDifferences(w io.Writer, list []store.Difference) {
	t := newTable("ICCID", "WHAT", "CHARGED", "EXPECTED", "USED")
	text := func(m *simwarden.Money) string {
		if m == nil {
			return ""
		}
		return ledger.Format(*m)
	}
	for _, d := range list {
		used := ""
		if d.UsedBytes > 0 {
			used = bytesText(d.UsedBytes)
		}
		t.add(d.ICCID, string(d.Kind), text(d.Charged), text(d.Expected), used)
	}
	t.print(w)
}

type marginRateCmd struct {
	monthArgs
	Amount string `arg:"" help:"With its currency, such as 3.00EUR; counts from this month on."`
}

// Run sets a rate (M3).
func (c *marginRateCmd) Run(ctx context.Context, g *Globals) error {
	m, err := ledger.Parse(c.Amount)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		if err := e.SetCarrierRate(ctx, c.Account, c.Period, m, actor()); err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, api.CarrierRateView{Account: c.Account, From: c.Period, Rate: m})
		}
		fmt.Fprintf(g.Out, "From %s on, an active SIM of %s should cost %s a month.\n", c.Period, c.Account, ledger.Format(m))
		return nil
	})
}

type importStatementCmd struct {
	importFlags
	Account string `help:"The account that the carrier charges." required:"" placeholder:"NAME"`
}

// Run takes a carrier's statement in (M3).
func (c *importStatementCmd) Run(ctx context.Context, g *Globals) error {
	name := filepath.Base(c.File)
	if c.File == "-" {
		name = "stdin"
	}
	return c.run(ctx, g, func(im transfer.Importer, src io.ReadSeeker, o transfer.Options) (transfer.Report, error) {
		return im.Statement(ctx, src, c.Account, name, o)
	})
}
