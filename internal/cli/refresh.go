package cli

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/api"
)

// asker asks carriers from this process. What goes wrong is told once, with what to do, and logged as well
// with --verbose.
func (e *env) asker(ctx context.Context, g *Globals, allowLab bool) (*app.Asker, error) {
	log := e.Log
	if !g.Verbose {
		log = slog.New(slog.DiscardHandler)
	}
	return app.NewAsker(ctx, app.Config{Store: e.Store, Keyring: e.Keyring, Clock: e.Clock, Log: log, Holder: holder(), AllowLoopback: allowLab})
}

type refreshCmd struct {
	ICCID    string `arg:"" help:"The SIM's ICCID."`
	AllowLab bool   `help:"Allow a carrier on this machine (127.0.0.1), for a lab."`
}

// Run reads a SIM now (G2).
func (c *refreshCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		asker, err := e.asker(ctx, g, c.AllowLab)
		if err != nil {
			return err
		}
		e.Asker = asker
		r, err := e.Refresh(ctx, c.ICCID, actor())
		if err != nil {
			return err
		}
		if err := asker.Close(ctx); err != nil {
			return err
		}
		if g.JSON {
			err = printJSON(g.Out, r)
		} else {
			printRefreshed(g, r, e.Store.Now())
		}
		if err == nil && slices.ContainsFunc(r.Checks, func(c api.FreshCheck) bool { return !c.Read }) {
			err = errFindings
		}
		return err
	})
}

var checkNames = map[simwarden.CheckKind]string{simwarden.CheckState: "State", simwarden.CheckUsage: "Usage", simwarden.CheckRealName: "Real name"}

func printRefreshed(g *Globals, r api.SIMRefreshed, now time.Time) {
	for _, c := range r.Checks {
		if !c.Read {
			fmt.Fprintf(g.Out, "%-10s not read: %s\n", checkNames[c.Check], whyNot(c.WhyNot))
			continue
		}
		fmt.Fprintf(g.Out, "%-10s %s, asked %s\n", checkNames[c.Check], clean(freshText(c), 200), when(c.ReadAt, now))
	}
	if !r.SIM.PausedAt.IsZero() || !r.SIM.ClosedAt.IsZero() || !r.SIM.DevicePausedAt.IsZero() {
		fmt.Fprintln(g.Out, "Its polling is stopped and stays so.")
	}
	fmt.Fprintf(g.Out, "See: simwarden explain %s\n", r.SIM.ICCID)
}

func freshText(c api.FreshCheck) string {
	switch c.Check {
	case simwarden.CheckState:
		text := string(c.State)
		if c.Pending {
			text += ", being changed by the carrier"
		}
		if c.ExtendedState != simwarden.ExtendedNone {
			text += ", " + spaced(string(c.ExtendedState))
		}
		return text + ` (the carrier says "` + c.RawState + `")`
	case simwarden.CheckUsage:
		text := bytesText(*c.CounterBytes)
		if !c.PeriodStartAt.IsZero() {
			text += " since " + instant(c.PeriodStartAt)
		}
		if !c.TrueAt.IsZero() {
			text += ", true for " + instant(c.TrueAt)
		}
		return text
	}
	return string(c.RealName)
}

func whyNot(n *api.CarrierNo) string {
	text := clean(n.Message, 300)
	if n.Class != "" {
		text = spaced(string(n.Class)) + ": " + text
	}
	if n.RetryAfterSeconds > 0 {
		text += fmt.Sprintf("; ask again in %s", short(time.Duration(n.RetryAfterSeconds*float64(time.Second))))
	}
	return text
}
