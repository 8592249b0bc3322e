package cli

import (
	"context"
	"fmt"

	"github.com/simwarden/simwarden/internal/api"
)

type guardCmd struct {
	List    guardListCmd    `cmd:"" default:"withargs" help:"List what stops lapsing."`
	Release guardReleaseCmd `cmd:"" help:"Let go what a guard holds, after a look at it."`
}

type guardListCmd struct {
	All bool `help:"Those that were released as well."`
}

// Run lists the guards.
func (c *guardListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := e.Guards(ctx, c.All)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		if len(list) == 0 {
			fmt.Fprintln(g.Out, "No guard is on: plans lapse at their instants.")
			return nil
		}
		now := e.Store.Now()
		for _, x := range list {
			fmt.Fprintf(g.Out, "%d  %s  since %s, holds %d subscriptions\n    %s\n", x.ID, x.Kind, when(x.SinceAt, now), x.Held, clean(x.Because, 300))
			if !x.ReleasedAt.IsZero() {
				fmt.Fprintf(g.Out, "    released %s by %s: %s\n", when(x.ReleasedAt, now), x.ReleasedBy, clean(x.ReleaseReason, 200))
			}
		}
		return nil
	})
}

type guardReleaseCmd struct {
	ID     int64  `arg:"" help:"The guard's number; see: simwarden guard list."`
	Reason string `help:"Why what it holds may go on." required:""`
}

// Run releases a guard.
func (c *guardReleaseCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		x, err := e.ReleaseGuard(ctx, c.ID, actor(), c.Reason)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, x)
		}
		fmt.Fprintf(g.Out, "Guard %d is released; %d subscriptions lapse with the next sweep.\n", x.ID, x.Held)
		return nil
	})
}

type auditCmd struct {
	SIM     string `name:"sim" help:"Only of this SIM." placeholder:"ICCID"`
	Account string `help:"Only of this account."`
	Actor   string `help:"Only by this actor, as the list names it."`
	Action  string `help:"Only of this kind."`
	Limit   int    `help:"At most so many." default:"50"`
}

// Run lists what persons did.
func (c *auditCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		page, err := e.Audit(ctx, api.AuditQuery{ICCID: c.SIM, Account: c.Account, Actor: c.Actor, Action: c.Action, Limit: min(max(c.Limit, 1), api.MaxPage)})
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, page.Items)
		}
		if len(page.Items) == 0 {
			fmt.Fprintln(g.Out, "Nothing is in the audit log.")
			return nil
		}
		for _, a := range page.Items {
			seal := "not sealed yet"
			if a.Seq != 0 {
				seal = fmt.Sprintf("seal %d", a.Seq)
			}
			fmt.Fprintf(g.Out, "%d  %s  %s  by %s  (%s)  %s\n", a.ID, instant(a.At), a.Action, clean(a.Actor, 80), seal, eventText(a.Data))
		}
		return nil
	})
}
