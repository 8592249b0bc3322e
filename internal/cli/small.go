package cli

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/store"
)

type migrateCmd struct{}

// Run brings the schema up to date.
func (c *migrateCmd) Run(ctx context.Context, g *Globals) error {
	e, err := g.open(ctx, openOptions{migrate: true, conns: 4})
	if err != nil {
		return err
	}
	defer e.close()
	if g.JSON {
		return printJSON(g.Out, map[string]any{"schema_version": store.SchemaVersion()})
	}
	fmt.Fprintf(g.Out, "The schema is at version %d, with partitions for the coming months.\n", store.SchemaVersion())
	return nil
}

type alertsCmd struct {
	List  alertsListCmd `cmd:"" default:"withargs" help:"List open alerts."`
	Clear alertClearCmd `cmd:"" help:"Clear an alert that has been seen to."`
}

type alertsListCmd struct {
	Limit int `help:"At most so many." default:"50"`
}

// shownAlert is an alert with its SIM as people know it.
type shownAlert struct {
	store.Alert
	ICCID string `json:"iccid,omitempty"`
}

// withSIMs names the SIM of each alert that is about one.
func withSIMs(ctx context.Context, e *env, alerts []store.Alert) ([]shownAlert, error) {
	out := make([]shownAlert, len(alerts))
	for i, a := range alerts {
		out[i].Alert = a
		if a.SIMID == 0 {
			continue
		}
		sim, err := e.Store.SIM(ctx, a.SIMID)
		if err != nil {
			return nil, err
		}
		out[i].ICCID = sim.ICCID.String()
	}
	return out, nil
}

// Run lists open alerts.
func (c *alertsListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		open, err := e.Store.OpenAlerts(ctx, min(max(c.Limit, 1), 1000))
		if err != nil {
			return err
		}
		alerts, err := withSIMs(ctx, e, open)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, alerts)
		}
		if len(alerts) == 0 {
			fmt.Fprintln(g.Out, "No alert is open.")
			return nil
		}
		now := e.Store.Now()
		for _, a := range alerts {
			fmt.Fprintf(g.Out, "%d  %s  %s, %s, last %s\n    %s\n", a.ID, a.Kind, when(a.At, now), times(a.Times, "time"), ago(a.LastAt, now), clean(a.Message, 300))
			if a.ICCID != "" {
				fmt.Fprintf(g.Out, "    See: simwarden explain %s\n", a.ICCID)
			}
		}
		return nil
	})
}

type alertClearCmd struct {
	ID int64 `arg:"" help:"The alert's number; see: simwarden alerts."`
}

// Run clears an alert.
func (c *alertClearCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		a, err := e.ClearAlert(ctx, c.ID, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, a)
		}
		fmt.Fprintf(g.Out, "Alert %d is cleared.\n", a.ID)
		return nil
	})
}

type pointsCmd struct{}

// Run lists the crash points.
func (c *pointsCmd) Run(_ context.Context, g *Globals) error {
	for _, name := range fault.Points() {
		fmt.Fprintln(g.Out, name)
	}
	return nil
}

type versionCmd struct{}

// Run prints the version that the binary was built from.
func (c *versionCmd) Run(_ context.Context, g *Globals) error {
	version := "unknown"
	if info, ok := debug.ReadBuildInfo(); ok {
		version = info.Main.Version
	}
	if g.JSON {
		return printJSON(g.Out, map[string]any{"version": version, "schema_version": store.SchemaVersion()})
	}
	fmt.Fprintf(g.Out, "simwarden %s, schema %d\n", version, store.SchemaVersion())
	return nil
}
