package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type simsCmd struct {
	Account  string `help:"Only those of this account."`
	State    string `help:"Only those last read in this state." enum:",inventory,test_ready,active,suspended,terminated,unknown" default:""`
	Desired  string `help:"Only those that should be: running, suspended or leave." enum:",running,suspended,leave" default:""`
	Reason   string `help:"Only those with this reason: no_plan, data_exhausted, realname_unmet, manual_hold or carrier_stop." enum:",no_plan,data_exhausted,realname_unmet,manual_hold,carrier_stop" default:""`
	Drifting bool   `help:"Only those marked as drifting: not as wanted after a command failed."`
	Paused   bool   `help:"Only those whose polling is paused."`
	Closed   bool   `help:"Only those whose polling is closed, since the carrier blocks them or has ended them."`
	Extended string `name:"extended-state" help:"Only those in this extended state, such as risk_suspended." enum:",none,risk_suspended,terminated,device_separated,arrears,other" default:""`
	Search   string `help:"Only those whose ICCID or label begins so."`
	Limit    int    `help:"At most so many." default:"50"`
	After    int64  `help:"Only those after this id (the last of the page before)."`
}

// Run lists SIMs.
func (c *simsCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		f := store.SIMFilter{State: simwarden.State(c.State), Desired: simwarden.Desired(c.Desired), Reason: simwarden.Reason(c.Reason),
			Drifting: c.Drifting, Paused: c.Paused, Closed: c.Closed, Extended: simwarden.ExtendedState(c.Extended), Search: c.Search, After: simwarden.SIMID(c.After), Limit: min(max(c.Limit, 1), 10_000)}
		if c.Account != "" {
			a, err := e.Store.AccountByName(ctx, c.Account)
			if err != nil {
				return err
			}
			f.AccountID = a.ID
		}
		sims, err := e.Store.SIMs(ctx, f)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, sims)
		}
		if len(sims) == 0 {
			fmt.Fprintln(g.Err, "No SIM is so.")
			return nil
		}
		now := e.Store.Now()
		t := newTable("ICCID", "ACCOUNT", "STATE", "WANTED", "REASON", "READ", "NOTE")
		for _, s := range sims {
			t.add(s.ICCID.String(), s.AccountName, string(s.State), string(s.Desired), string(s.Reason), ago(s.StateReadAt, now), simNote(s))
		}
		t.print(g.Out)
		if len(sims) == f.Limit {
			fmt.Fprintf(g.Err, "there may be more: --after %d\n", sims[len(sims)-1].ID)
		}
		return nil
	})
}

func simNote(s store.SIM) string {
	switch {
	case !s.DriftingAt.IsZero():
		return "drifting: " + s.DriftBecause
	case !s.ClosedAt.IsZero():
		return "polling closed: " + s.ClosedBecause
	case !s.PausedAt.IsZero() || !s.DevicePausedAt.IsZero():
		return "polling paused"
	case !s.HoldAt.IsZero():
		return "held by " + s.HoldBy
	}
	return spaced(s.Because)
}

type diffCmd struct {
	Account  string `help:"Only this account."`
	Limit    int    `help:"Print at most so many; all are counted." default:"100"`
	ExitCode bool   `help:"Exit with 4 where there is a difference."`
}

// Run lists what would change now (C9).
func (c *diffCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		var account simwarden.AccountID
		if c.Account != "" {
			a, err := e.Store.AccountByName(ctx, c.Account)
			if err != nil {
				return err
			}
			account = a.ID
		}
		counts := map[string]int{}
		list := []api.SIMDifference{}
		total := 0
		err := e.Diff(ctx, account, func(d api.SIMDifference) error {
			total++
			counts[strings.TrimSpace(string(d.Direction)+" "+string(d.Reason))]++
			if len(list) < c.Limit {
				list = append(list, d)
			}
			return nil
		})
		if err != nil {
			return err
		}
		if g.JSON {
			err = printJSON(g.Out, map[string]any{"total": total, "counts": counts, "differences": list})
		} else {
			c.print(g, list, total)
		}
		if err == nil && c.ExitCode && total > 0 {
			return errFindings
		}
		return err
	})
}

func (c *diffCmd) print(g *Globals, list []api.SIMDifference, total int) {
	if total == 0 {
		fmt.Fprintln(g.Out, "Every SIM is as it should be.")
		return
	}
	t := newTable("ICCID", "ACCOUNT", "STATE", "WOULD", "REASON", "NOTE")
	for _, d := range list {
		would := string(d.Direction)
		if d.Action != "open" {
			would += " (" + d.Action + ")"
		}
		note := spaced(d.Because)
		if note == "" && d.Reason == "" {
			note = "nothing is against its running"
		}
		t.add(d.ICCID, d.Account, string(d.State), would, string(d.Reason), note)
	}
	t.print(g.Out)
	fmt.Fprintf(g.Out, "%d SIMs would change", total)
	if total > len(list) {
		fmt.Fprintf(g.Out, "; the first %d are shown", len(list))
	}
	fmt.Fprintln(g.Out, ".")
}

type simCmd struct {
	Suspend  suspendCmd     `cmd:"" help:"Suspend a SIM and hold it so: no automatic resume lifts it."`
	Resume   resumeCmd      `cmd:"" help:"Resume a SIM, lifting a manual hold."`
	Refresh  refreshCmd     `cmd:"" help:"Read a SIM at its carrier now."`
	Realname simRealnameCmd `cmd:"" help:"Set a SIM's real-name status, where its carrier does not tell it."`
}

type manualCmd struct {
	ICCID  string `arg:"" help:"The SIM's ICCID."`
	Reason string `help:"Why; kept in the audit log." required:""`
}

type suspendCmd struct{ manualCmd }

// Run suspends a SIM by hand (E3).
func (c *suspendCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, simwarden.DirectionSuspend)
}

type resumeCmd struct{ manualCmd }

// Run resumes a SIM by hand (E3).
func (c *resumeCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, simwarden.DirectionResume)
}

func (c *manualCmd) run(ctx context.Context, g *Globals, direction simwarden.Direction) error {
	return g.with(ctx, func(e *env) error {
		o, err := e.Manual(ctx, c.ICCID, direction, actor(), c.Reason)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, o)
		}
		switch o.Action {
		case "open", "replace":
			fmt.Fprintf(g.Out, "The %s of %s is ordered as command %d; serve sends it. See: simwarden explain %s\n", direction, o.SIM.ICCID, o.CommandID, o.SIM.ICCID)
		case "observe":
			fmt.Fprintf(g.Out, "Nothing is sent: account %s is in observe mode. To send: simwarden account mode %s act\n", o.SIM.AccountName, o.SIM.AccountName)
		case "wait":
			fmt.Fprintf(g.Out, "The order waits: %s.\n", o.Because)
		default:
			fmt.Fprintf(g.Out, "No command is needed: %s.\n", clean(spaced(o.Because), 200))
		}
		for _, w := range o.Warnings {
			fmt.Fprintf(g.Out, "Warning: %s\n", clean(w, 200))
		}
		return nil
	})
}

type pollingCmd struct {
	Pause  pauseCmd   `cmd:"" help:"Stop the polling of a SIM, and with it automatic suspends and resumes save those of plan ends."`
	Resume unpauseCmd `cmd:"" help:"Take the polling of a SIM up again, paused or closed; it is judged at once."`
}

type pollingOneCmd struct {
	ICCIDs []string `arg:"" name:"iccid" help:"The SIM's ICCID; several may be given."`
	Reason string   `help:"Why; kept in the audit log." required:""`
}

type pauseCmd struct{ pollingOneCmd }

// Run pauses a SIM's polling (P4).
func (c *pauseCmd) Run(ctx context.Context, g *Globals) error { return c.run(ctx, g, true) }

type unpauseCmd struct{ pollingOneCmd }

// Run takes a SIM's polling up again (E9).
func (c *unpauseCmd) Run(ctx context.Context, g *Globals) error { return c.run(ctx, g, false) }

func (c *pollingOneCmd) run(ctx context.Context, g *Globals, pause bool) error {
	return g.with(ctx, func(e *env) error {
		words := map[bool]string{true: "paused", false: "running"}[pause]
		for i, iccid := range c.ICCIDs {
			sim, changed, err := e.Polling(ctx, iccid, pause, actor(), c.Reason)
			switch {
			case err != nil && i > 0:
				return fmt.Errorf("%s and what follows it are left as they are: %w", iccid, err)
			case err != nil:
				return err
			case g.JSON:
				err = printJSON(g.Out, map[string]any{"sim": sim, "changed": changed})
			case changed:
				_, err = fmt.Fprintf(g.Out, "The polling of %s is %s now.\n", sim.ICCID, words)
			default:
				_, err = fmt.Fprintf(g.Out, "The polling of %s was %s already.\n", sim.ICCID, words)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}
