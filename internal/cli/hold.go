package cli

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

type walletAdjustCmd struct {
	Name   string `arg:"" help:"The wallet."`
	Amount string `arg:"" help:"What is added, with its currency, such as 5.00EUR."`
	Take   bool   `help:"Take it from the wallet instead, within its credit limit."`
	Reason string `required:"" help:"Why; kept in the statement and the audit log."`
	keyFlag
}

// Run corrects a wallet (M1).
func (c *walletAdjustCmd) Run(ctx context.Context, g *Globals) error {
	m, err := ledger.Parse(c.Amount)
	if err != nil {
		return err
	}
	if c.Take {
		m.AmountMinor = -m.AmountMinor
	}
	return g.with(ctx, func(e *env) error {
		t, err := e.Adjust(ctx, c.Name, m, c.Reason, c.Key, actor())
		if err != nil {
			return err
		}
		did := "was added to"
		if c.Take {
			did = "was taken from"
		}
		return g.booked(t, fmt.Sprintf("%s %s wallet %s", ledger.Format(t.Money), did, c.Name))
	})
}

// booked tells what was booked, or that it was before.
func (g *Globals) booked(t ledger.Transaction, what string) error {
	switch {
	case g.JSON:
		return printJSON(g.Out, t)
	case t.Replayed:
		fmt.Fprintf(g.Out, "This was booked before, as transaction %d; nothing was done now.\n", t.ID)
	default:
		fmt.Fprintf(g.Out, "%s, as transaction %d.\n", what, t.ID)
	}
	return nil
}

type holdCmd struct {
	Place   holdPlaceCmd   `cmd:"" help:"Set money of a wallet aside until it is captured, released or its time is over."`
	List    holdListCmd    `cmd:"" help:"List the holds of a wallet, the latest first."`
	Capture holdCaptureCmd `cmd:"" help:"Pay a subscription with held money; what is left goes back."`
	Release holdReleaseCmd `cmd:"" help:"Give held money back to its wallet."`
}

type holdPlaceCmd struct {
	Name   string    `arg:"" help:"The wallet."`
	Amount string    `arg:"" help:"With its currency, such as 5.00EUR."`
	Until  time.Time `required:"" help:"When it is given back by itself, at most 366 days ahead, as 2026-07-01T00:00:00Z."`
	Note   string    `help:"For the statement."`
	keyFlag
}

// Run sets money aside.
func (c *holdPlaceCmd) Run(ctx context.Context, g *Globals) error {
	m, err := ledger.Parse(c.Amount)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		h, err := e.PlaceHold(ctx, c.Name, m, c.Until, c.Note, c.Key, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, h)
		}
		fmt.Fprintf(g.Out, "%s of wallet %s is held until %s, as hold %d.\n", ledger.Format(h.Money), c.Name, when(h.ExpiresAt, e.Store.Now()), h.ID)
		return nil
	})
}

type holdListCmd struct {
	Name  string `arg:"" help:"The wallet."`
	Limit int    `default:"20" help:"Rows, at most 500."`
}

// Run lists holds.
func (c *holdListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		page, err := e.Holds(ctx, c.Name, "", c.Limit)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, page)
		}
		return g.holds(e, page)
	})
}

func (g *Globals) holds(e *env, page api.Page[store.Hold]) error {
	now := e.Store.Now()
	t := newTable("NO.", "AMOUNT", "STATE", "PAID", "PLACED", "GIVEN BACK AT")
	for _, h := range page.Items {
		t.add(strconv.FormatInt(int64(h.ID), 10), ledger.Format(h.Money), string(h.State), minor(h.CapturedMinor, h.Currency), ago(h.PlacedAt, now), when(h.ExpiresAt, now))
	}
	t.print(g.Out)
	return nil
}

type holdCaptureCmd struct {
	ID           int64  `arg:"" help:"The hold's number."`
	Subscription int64  `arg:"" help:"The subscription that is paid with it."`
	Amount       string `help:"How much of it, such as 4.50EUR; default: all."`
	Note         string `help:"For the statement."`
	keyFlag
}

// Run pays with held money.
func (c *holdCaptureCmd) Run(ctx context.Context, g *Globals) error {
	var m *simwarden.Money
	if c.Amount != "" {
		given, err := ledger.Parse(c.Amount)
		if err != nil {
			return err
		}
		m = &given
	}
	return g.with(ctx, func(e *env) error {
		t, err := e.CaptureHold(ctx, simwarden.HoldID(c.ID), simwarden.SubscriptionID(c.Subscription), m, c.Note, c.Key, actor())
		if err != nil {
			return err
		}
		return g.booked(t, fmt.Sprintf("%s of hold %d has paid subscription %d", ledger.Format(t.Money), c.ID, c.Subscription))
	})
}

type holdReleaseCmd struct {
	ID     int64  `arg:"" help:"The hold's number."`
	Reason string `required:"" help:"Why; kept in the statement and the audit log."`
	keyFlag
}

// Run gives held money back.
func (c *holdReleaseCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		t, err := e.ReleaseHold(ctx, simwarden.HoldID(c.ID), c.Reason, c.Key, actor())
		if err != nil {
			return err
		}
		return g.booked(t, fmt.Sprintf("%s of hold %d went back to its wallet", ledger.Format(t.Money), c.ID))
	})
}
