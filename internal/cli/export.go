package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/transfer"
)

type exportCmd struct {
	SIMs          exportSIMsCmd          `cmd:"" name:"sims" help:"SIMs with their state. import sims reads it again."`
	Devices       exportDevicesCmd       `cmd:"" help:"Devices. import devices reads it again."`
	Subscriptions exportSubscriptionsCmd `cmd:"" help:"Subscriptions. import subscriptions reads it again."`
	Records       exportRecordsCmd       `cmd:"" help:"What became of commands, the newest first."`
	UsageDays     exportUsageDaysCmd     `cmd:"" help:"The bytes that SIMs used, by UTC day."`
}

type exportSIMsCmd struct {
	Account string `help:"Only those of this account."`
	State   string `help:"Only those last read in this state." enum:",inventory,test_ready,active,suspended,terminated,unknown" default:""`
}

// Run exports SIMs (I4).
func (c *exportSIMsCmd) Run(ctx context.Context, g *Globals) error {
	return export(ctx, g, transfer.KindSIMs, api.ExportQuery{Account: c.Account, State: simwarden.State(c.State)})
}

type exportDevicesCmd struct{}

// Run exports devices (I4).
func (c *exportDevicesCmd) Run(ctx context.Context, g *Globals) error {
	return export(ctx, g, transfer.KindDevices, api.ExportQuery{})
}

type exportSubscriptionsCmd struct {
	Account string `help:"Only those of this account's SIMs, and of devices that have one."`
	Ended   bool   `help:"Those that have ended as well."`
}

// Run exports subscriptions (I4).
func (c *exportSubscriptionsCmd) Run(ctx context.Context, g *Globals) error {
	return export(ctx, g, transfer.KindSubscriptions, api.ExportQuery{Account: c.Account, Ended: c.Ended})
}

// exportFlags narrow what has a time.
type exportFlags struct {
	Account string `help:"Only of this account."`
	SIM     string `name:"sim" help:"Only of this SIM." placeholder:"ICCID"`
	From    string `help:"From this UTC day or instant on." placeholder:"2026-05-01"`
	Until   string `help:"Before this UTC day or instant." placeholder:"2026-06-01"`
}

func (c *exportFlags) query() (api.ExportQuery, error) {
	q := api.ExportQuery{Account: c.Account, ICCID: c.SIM}
	var err error
	if q.FromAt, err = parseInstant("--from", c.From); err != nil {
		return q, err
	}
	q.UntilAt, err = parseInstant("--until", c.Until)
	return q, err
}

func (c *exportFlags) run(ctx context.Context, g *Globals, kind transfer.Kind) error {
	q, err := c.query()
	if err != nil {
		return err
	}
	return export(ctx, g, kind, q)
}

// parseInstant reads a UTC day or an instant of RFC 3339; zero for "".
func parseInstant(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.UTC(), nil
		}
	}
	return time.Time{}, usage("%s %.40q: give a UTC day as 2026-05-31 or an instant as 2026-05-31T08:00:00+08:00", flag, text)
}

type exportRecordsCmd struct{ exportFlags }

// Run exports records (I4, R1).
func (c *exportRecordsCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, transfer.KindRecords)
}

type exportUsageDaysCmd struct{ exportFlags }

// Run exports the daily series (I4, U5).
func (c *exportUsageDaysCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, transfer.KindUsageDays)
}

func export(ctx context.Context, g *Globals, kind transfer.Kind, q api.ExportQuery) error {
	if g.JSON {
		return usage("an export is CSV; leave --json out, or see: simwarden sims --json")
	}
	return g.with(ctx, func(e *env) error {
		write, err := e.Export(ctx, kind, q)
		if err != nil {
			return err
		}
		rows, err := write(ctx, g.Out)
		if err != nil {
			return fmt.Errorf("the export ended after %d rows, what was written is not whole: %w", rows, err)
		}
		fmt.Fprintf(g.Err, "%d rows\n", rows)
		return nil
	})
}
