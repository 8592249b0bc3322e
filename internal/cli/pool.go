package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

type poolCmd struct {
	Add    poolAddCmd    `cmd:"" help:"Add a pool without members; its first period begins now."`
	List   poolListCmd   `cmd:"" help:"List the pools with what is left in them."`
	Show   poolShowCmd   `cmd:"" help:"Show a pool with its past periods, top-ups and the judging of its members."`
	Set    poolSetCmd    `cmd:"" help:"Change a pool's policy, allowance or cap; its members are judged by that."`
	TopUp  poolTopUpCmd  `cmd:"" name:"top-up" help:"Add data to a pool's running period; its members are judged by that."`
	Member poolMemberCmd `cmd:"" help:"Members: add, remove, list."`
}

type poolMemberCmd struct {
	Add    poolMemberAddCmd    `cmd:"" help:"Put SIMs and devices into a pool."`
	Remove poolMemberRemoveCmd `cmd:"" help:"Take SIMs and devices out of a pool."`
	List   poolMemberListCmd   `cmd:"" help:"List a pool's members with what they have drawn."`
}

type poolAddCmd struct {
	Name       string `arg:"" help:"Short and unique, as you will type it."`
	Allowance  string `required:"" help:"What the members share in each period: 500GB, 2TB, 1GiB, or a number of bytes."`
	Policy     string `enum:"all,over-cap" default:"all" help:"When it is used up: all stops all members, over-cap those that have drawn their own cap."`
	Cap        string `default:"0" help:"The cap of members that have none of their own; 0: such stop with the pool."`
	Reset      string `default:"none" help:"When the allowance is full again: none, month (calendar), billing-month, or every N days, such as 30d."`
	BillingDay int    `help:"The day on which a billing month begins."`
	Zone       string `default:"UTC" help:"IANA time zone in which days and months are counted."`
}

// Run adds a pool (L6).
func (c *poolAddCmd) Run(ctx context.Context, g *Globals) error {
	p := store.Pool{Name: c.Name, Policy: poolPolicy(c.Policy), AnchorDay: c.BillingDay, Zone: c.Zone}
	var err error
	if p.AllowanceBytes, err = parseBytes(c.Allowance); err != nil {
		return err
	}
	if p.CapBytes, err = parseBytes(c.Cap); err != nil {
		return err
	}
	if p.Reset, p.ResetDays, err = parseReset(c.Reset); err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		p, err := e.AddPool(ctx, p, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, p)
		}
		fmt.Fprintf(g.Out, "Pool %s is added. Put SIMs into it: simwarden pool member add %s ICCID …\n", p.Name, p.Name)
		return nil
	})
}

func poolPolicy(text string) simwarden.PoolPolicy {
	return simwarden.PoolPolicy(strings.ReplaceAll(text, "-", "_"))
}

type poolListCmd struct{}

// Run lists the pools.
func (c *poolListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := allPages(func(cursor string) (api.Page[store.Pool], error) { return e.Pools(ctx, cursor, api.MaxPage) })
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		now := e.Store.Now()
		t := newTable("NAME", "USED", "OF", "POLICY", "CAP", "FULL AGAIN", "EXHAUSTED")
		for _, p := range list {
			exhausted := ""
			if !p.ExhaustedAt.IsZero() {
				exhausted = ago(p.ExhaustedAt, now)
			}
			t.add(p.Name, bytesText(p.UsedBytes), bytesText(p.TotalBytes()), spaced(string(p.Policy)), bytesText(p.CapBytes), when(p.NextResetAt, now), exhausted)
		}
		t.print(g.Out)
		return nil
	})
}

type poolShowCmd struct {
	Name string `arg:"" help:"The pool."`
}

// Run shows a pool.
func (c *poolShowCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		v, err := e.Pool(ctx, c.Name)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, v)
		}
		poolText(g, e, v)
		return nil
	})
}

func poolText(g *Globals, e *env, v api.PoolView) {
	p := func(format string, args ...any) { fmt.Fprintf(g.Out, format+"\n", args...) }
	now := e.Store.Now()
	p("Pool %s: %s used of %s by %s, since %s", v.Name, bytesText(v.UsedBytes), bytesText(v.TotalBytes()), times(int(v.Members), "member"), when(v.PeriodStartAt, now))
	if !v.ExhaustedAt.IsZero() {
		p("Used up since %s; policy %s.", when(v.ExhaustedAt, now), spaced(string(v.Policy)))
	} else {
		p("Policy %s, cap %s; full again: %s.", spaced(string(v.Policy)), bytesText(v.CapBytes), when(v.NextResetAt, now))
	}
	p("Judging of its members, newest first")
	for _, x := range v.Evaluations {
		state := fmt.Sprintf("%d of %d SIMs, %s", x.Done, x.Total, times(int(x.Ordered), "order"))
		if !x.FinishedAt.IsZero() {
			state += ", " + x.Outcome + " " + ago(x.FinishedAt, now)
		}
		p("  %s  %s: %s", when(x.AskedAt, now), x.Scene, state)
	}
	p("Top-ups, newest first")
	for _, t := range v.TopUps {
		p("  %s  %s by %s %s", when(t.At, now), bytesText(t.Bytes), clean(t.Actor, 60), clean(t.Note, 120))
	}
	p("Periods before, newest first")
	for _, x := range v.Periods {
		late := ""
		if x.LateBytes > 0 {
			late = fmt.Sprintf(", %s of it known after its end", bytesText(x.LateBytes))
		}
		p("  until %s  %s used of %s%s", when(x.EndAt, now), bytesText(x.UsedBytes), bytesText(x.AllowanceBytes), late)
	}
}

type poolSetCmd struct {
	Name      string  `arg:"" help:"The pool."`
	Allowance *string `help:"What the members share, from the running period on."`
	Policy    *string `enum:"all,over-cap" help:"all or over-cap."`
	Cap       *string `help:"The cap of members that have none of their own; 0 for none."`
}

// Run changes a pool.
func (c *poolSetCmd) Run(ctx context.Context, g *Globals) error {
	var change plans.PoolChange
	for _, v := range []struct {
		text *string
		to   **int64
	}{{c.Allowance, &change.AllowanceBytes}, {c.Cap, &change.CapBytes}} {
		if v.text == nil {
			continue
		}
		n, err := parseBytes(*v.text)
		if err != nil {
			return err
		}
		*v.to = &n
	}
	if c.Policy != nil {
		policy := poolPolicy(*c.Policy)
		change.Policy = &policy
	}
	return g.with(ctx, func(e *env) error {
		p, err := e.ChangePool(ctx, c.Name, change, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, p)
		}
		fmt.Fprintf(g.Out, "Pool %s has %s used of %s, policy %s, cap %s; its members are judged by that in the background.\n",
			p.Name, bytesText(p.UsedBytes), bytesText(p.TotalBytes()), spaced(string(p.Policy)), bytesText(p.CapBytes))
		return nil
	})
}

type poolTopUpCmd struct {
	Name string `arg:"" help:"The pool."`
	Data string `arg:"" help:"How much: 50GB, 1TB, or a number of bytes."`
	Note string `help:"For the history."`
	keyFlag
}

// Run adds data to a pool.
func (c *poolTopUpCmd) Run(ctx context.Context, g *Globals) error {
	n, err := parseBytes(c.Data)
	if err != nil {
		return err
	}
	return g.with(ctx, func(e *env) error {
		out, err := e.TopUpPool(ctx, c.Name, n, c.Note, c.Key, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, out)
		}
		if out.Replayed {
			fmt.Fprintf(g.Out, "Nothing is done: this was added under the same key before.\n")
		}
		fmt.Fprintf(g.Out, "Pool %s has %s used of %s; its members are judged by that in the background.\n",
			out.Pool.Name, bytesText(out.Pool.UsedBytes), bytesText(out.Pool.TotalBytes()))
		return nil
	})
}

// candidateFlags name the SIMs and devices that are put into a pool or taken out of it.
type candidateFlags struct {
	Name   string   `arg:"" help:"The pool."`
	SIMs   []string `arg:"" optional:"" name:"iccid" help:"ICCIDs of SIMs."`
	Device []string `help:"IMEIs of devices, which are in with all their SIMs." placeholder:"IMEI"`
	File   string   `help:"A file with one ICCID a line; - for standard input." placeholder:"PATH"`
}

// batches are the candidates in as many requests as they need.
func (c candidateFlags) batches(in io.Reader) ([]api.Candidates, error) {
	sims := c.SIMs
	if c.File != "" {
		if c.File != "-" {
			f, err := os.Open(c.File)
			if err != nil {
				return nil, usage("%v", err)
			}
			defer f.Close()
			in = f
		}
		lines := bufio.NewScanner(in)
		for lines.Scan() {
			if line := strings.TrimSpace(lines.Text()); line != "" {
				sims = append(sims, line)
			}
		}
		if err := lines.Err(); err != nil {
			return nil, usage("%s: %v", c.File, err)
		}
	}
	var out []api.Candidates
	for devices := c.Device; len(sims)+len(devices) > 0; {
		n := min(len(sims), api.MaxPoolMembers)
		m := min(len(devices), api.MaxPoolMembers-n)
		out = append(out, api.Candidates{SIMs: sims[:n], Devices: devices[:m]})
		sims, devices = sims[n:], devices[m:]
	}
	if len(out) == 0 {
		return nil, usage("name SIMs, devices with --device, or a file with --file")
	}
	return out, nil
}

// move moves them batch by batch and tells what came of it; ExitFindings where some were not moved.
func (c candidateFlags) move(g *Globals, did string, do func(*env, api.Candidates) ([]api.PoolMove, error)) func(*env) error {
	return func(e *env) error {
		batches, err := c.batches(g.In)
		if err != nil {
			return err
		}
		var all []api.PoolMove
		bad := 0
		for _, b := range batches {
			list, err := do(e, b)
			if err != nil {
				return fmt.Errorf("after %d of them: %w", len(all), err)
			}
			for _, m := range list {
				if !m.Moved {
					bad++
					if !g.JSON {
						fmt.Fprintf(g.Out, "%s: %s\n", clean(m.Name, 60), m.Problem)
					}
				}
			}
			all = append(all, list...)
		}
		if g.JSON {
			err = printJSON(g.Out, all)
		} else {
			fmt.Fprintf(g.Out, "%d %s pool %s.\n", len(all)-bad, did, c.Name)
		}
		if err == nil && bad > 0 {
			err = errFindings
		}
		return err
	}
}

type poolMemberAddCmd struct {
	candidateFlags
	Cap *string `help:"Their own cap; without it they have the pool's."`
}

// Run puts SIMs and devices into a pool.
func (c *poolMemberAddCmd) Run(ctx context.Context, g *Globals) error {
	var limit *int64
	if c.Cap != nil {
		n, err := parseBytes(*c.Cap)
		if err != nil {
			return err
		}
		limit = &n
	}
	return g.with(ctx, c.move(g, "are now in", func(e *env, x api.Candidates) ([]api.PoolMove, error) {
		return e.AddPoolMembers(ctx, c.Name, x, limit, actor())
	}))
}

type poolMemberRemoveCmd struct {
	candidateFlags
}

// Run takes SIMs and devices out of a pool.
func (c *poolMemberRemoveCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, c.move(g, "are no longer in", func(e *env, x api.Candidates) ([]api.PoolMove, error) {
		return e.RemovePoolMembers(ctx, c.Name, x, actor())
	}))
}

type poolMemberListCmd struct {
	Name   string `arg:"" help:"The pool."`
	Limit  int    `default:"100" help:"Rows, at most 500."`
	Cursor string `help:"The next_cursor of the page before (with --json)."`
}

// Run lists a pool's members.
func (c *poolMemberListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		page, err := e.PoolMembers(ctx, c.Name, c.Cursor, c.Limit)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, page)
		}
		now := e.Store.Now()
		t := newTable("NO.", "MEMBER", "KIND", "DRAWN", "CAP", "SINCE", "BY")
		for _, m := range page.Items {
			kind := "SIM"
			if m.DeviceID != 0 {
				kind = "device"
			}
			t.add(strconv.FormatInt(int64(m.ID), 10), m.Name, kind, bytesText(m.DrawnBytes), bytesText(m.CapBytes), ago(m.JoinedAt, now), m.JoinedBy)
		}
		t.print(g.Out)
		if page.Next != "" {
			fmt.Fprintf(g.Out, "There are more: --cursor %s\n", page.Next)
		}
		return nil
	})
}
