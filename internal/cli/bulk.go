package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type bulkCmd struct {
	Suspend bulkSuspendCmd `cmd:"" help:"Suspend many SIMs by hand: a hold on each."`
	Resume  bulkResumeCmd  `cmd:"" help:"Resume many SIMs by hand, and lift their holds."`
	List    bulkListCmd    `cmd:"" help:"List bulk actions, the newest first."`
	Show    bulkShowCmd    `cmd:"" help:"Show how far a bulk action is and what came of each SIM."`
	Cancel  bulkCancelCmd  `cmd:"" help:"End a bulk action: what was ordered stays, the rest is left."`
}

// bulkFlags say which SIMs, and how sure one is.
type bulkFlags struct {
	File    string `help:"A file with an ICCID in each line, or - for standard input. Of lines with commas, semicolons or tabs the first column counts." placeholder:"FILE" xor:"which"`
	Filter  string `help:"Filter, as account=acme,state=active: account, state, desired, reason, search; drifting, paused." placeholder:"NAME=VALUE,…" xor:"which"`
	Reason  string `help:"Why; it is kept with each SIM." required:""`
	Yes     bool   `help:"Begin at once. Without it the preview is shown and asked about."`
	SkipBad bool   `help:"Leave out ICCIDs that name no SIM; without it one refuses the action."`
}

type bulkSuspendCmd struct{ bulkFlags }

// Run suspends many SIMs.
func (c *bulkSuspendCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, simwarden.DirectionSuspend)
}

type bulkResumeCmd struct{ bulkFlags }

// Run resumes many SIMs.
func (c *bulkResumeCmd) Run(ctx context.Context, g *Globals) error {
	return c.run(ctx, g, simwarden.DirectionResume)
}

func (c *bulkFlags) run(ctx context.Context, g *Globals, d simwarden.Direction) error {
	target, err := c.target(g)
	if err != nil {
		return err
	}
	if c.File == "-" && !c.Yes {
		return usage("standard input has the list, so that nobody can be asked: look with --file FILE first, or give --yes")
	}
	return g.with(ctx, func(e *env) error {
		p, err := e.PreviewBulk(ctx, d, target)
		if err != nil {
			return err
		}
		if !g.JSON {
			printBulkPreview(g.Out, p)
		}
		if p.SIMs == 0 || p.BadRows > 0 && !c.SkipBad {
			if g.JSON {
				_ = printJSON(g.Out, p) // the error below tells
			}
			return usage("nothing was begun: %s", c.whyNone(p))
		}
		if !c.Yes {
			yes, err := ask(g, fmt.Sprintf("%s %d SIMs?", d, p.SIMs))
			if err != nil || !yes {
				return err
			}
		}
		b, err := e.StartBulk(ctx, api.BulkOrder{Direction: d, Reason: c.Reason, Target: target, AtMost: p.SIMs, SkipBad: c.SkipBad}, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, map[string]any{"preview": p, "bulk": b})
		}
		fmt.Fprintf(g.Out, "Bulk action %d has begun; running nodes work it off. See: simwarden bulk show %d\n", b.ID, b.ID)
		return nil
	})
}

// whyNone says why an action cannot begin, and what to do.
func (c *bulkFlags) whyNone(p api.BulkPreview) string {
	switch {
	case c.Filter != "":
		return "no SIM fits the filter; see which there are with: simwarden sims"
	case p.SIMs == 0:
		return fmt.Sprintf("none of the %s names a SIM; see which there are with: simwarden sims", times(p.BadRows, "row"))
	}
	name := "name"
	if p.BadRows == 1 {
		name = "names"
	}
	return fmt.Sprintf("%s of the list %s no SIM; correct them, or use --skip-bad to leave them out", times(p.BadRows, "row"), name)
}

// ask asks a question that a person answers; anything but yes is no.
func ask(g *Globals, question string) (bool, error) {
	fmt.Fprintf(g.Out, "%s Type yes: ", question)
	line, err := bufio.NewReader(io.LimitReader(g.In, 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(line) == "yes" {
		return true, nil
	}
	fmt.Fprintln(g.Out, "Nothing was done.")
	return false, nil
}

// maxBulkFileBytes bounds the list: 100,000 lines of 80 bytes.
const maxBulkFileBytes = 8 << 20

func (c *bulkFlags) target(g *Globals) (api.BulkTarget, error) {
	switch {
	case c.Filter != "":
		q, err := parseFilter(c.Filter)
		return api.BulkTarget{Filter: q}, err
	case c.File == "":
		return api.BulkTarget{}, usage("which SIMs? Give --file or --filter")
	}
	in := g.In
	if c.File != "-" {
		f, err := os.Open(c.File)
		if err != nil {
			return api.BulkTarget{}, usage("%v", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, maxBulkFileBytes+1))
	if err != nil {
		return api.BulkTarget{}, fmt.Errorf("read the list: %w", err)
	}
	if len(text) > maxBulkFileBytes {
		return api.BulkTarget{}, usage("the list has more than %d MiB; split it", maxBulkFileBytes>>20)
	}
	var out []string
	for line := range strings.Lines(strings.TrimPrefix(string(text), "\ufeff")) {
		if i := strings.IndexAny(line, ",;\t"); i >= 0 {
			line = line[:i]
		}
		line = strings.Trim(strings.TrimSpace(line), `"`)
		if line == "" || len(out) == 0 && strings.EqualFold(line, "iccid") {
			continue
		}
		out = append(out, line)
	}
	if len(out) == 0 {
		return api.BulkTarget{}, usage("the list is empty; give one ICCID in each line")
	}
	return api.BulkTarget{ICCIDs: out}, nil
}

func parseFilter(text string) (q api.SIMQuery, err error) {
	for part := range strings.SplitSeq(text, ",") {
		name, v, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "account":
			q.Account = v
		case "state":
			q.State = simwarden.State(v)
		case "desired":
			q.Desired = simwarden.Desired(v)
		case "reason":
			q.Reason = simwarden.Reason(v)
		case "search":
			q.Search = v
		case "drifting":
			q.Drifting = v == "" || v == "true"
		case "paused":
			q.Paused = v == "" || v == "true"
		case "closed":
			q.Closed = v == "" || v == "true"
		case "extended_state":
			q.Extended = simwarden.ExtendedState(v)
		default:
			return q, usage("filter %q: give account, state, desired, reason, extended_state or search with =, drifting, paused or closed, with commas between", name)
		}
	}
	return q, nil
}

func printBulkPreview(w io.Writer, p api.BulkPreview) {
	fmt.Fprintf(w, "To %s: %d SIMs.\n", p.Direction, p.SIMs)
	if len(p.Counts) > 0 {
		t := newTable("ACCOUNT", "STATE", "SIMS")
		for _, c := range p.Counts {
			t.add(c.Account, spaced(string(c.State)), strconv.Itoa(c.SIMs))
		}
		t.print(w)
	}
	for i, b := range p.Bad {
		if i == 10 {
			break
		}
		fmt.Fprintf(w, "Row %d, %s: %s\n", b.Row, clean(b.Text, 64), clean(b.Error, 200))
	}
	if p.BadRows > 0 {
		fmt.Fprintf(w, "Rows that name no SIM: %d.\n", p.BadRows)
	}
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "Mind: %s.\n", clean(text, 1000))
	}
	if p.LeastSeconds == nil {
		fmt.Fprintln(w, "No limit is enforced that says how long it takes.")
	} else {
		fmt.Fprintf(w, "At the limits it takes %s at least.\n", short(time.Duration(*p.LeastSeconds)*time.Second))
	}
}

type bulkListCmd struct {
	Limit int `default:"20" help:"Rows, at most 500."`
}

// Run lists bulk actions.
func (c *bulkListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		page, err := e.Bulks(ctx, "", c.Limit)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, page)
		}
		t := newTable("ID", "WHAT", "STATE", "DONE", "BY", "REASON")
		for _, b := range page.Items {
			t.add(strconv.FormatInt(b.ID, 10), string(b.Direction), string(b.State), fmt.Sprintf("%d of %d", b.Done, b.Total), b.Actor, b.Reason)
		}
		t.print(g.Out)
		return nil
	})
}

type bulkShowCmd struct {
	ID      int64  `arg:"" help:"The action's number."`
	Outcome string `help:"Only SIMs that came out so: ordered, waits, observed, none, overtaken, failed, cancelled."`
	Limit   int    `default:"20" help:"SIMs, at most 500."`
	Cursor  string `help:"The next_cursor of the page before."`
}

// Run shows a bulk action.
func (c *bulkShowCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, err := e.Bulk(ctx, c.ID)
		if err != nil {
			return err
		}
		page, err := e.BulkItems(ctx, c.ID, store.BulkOutcome(c.Outcome), c.Cursor, c.Limit)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, api.BulkView{BulkStatus: b, Results: page})
		}
		printBulk(g.Out, b, e.Store.Now())
		t := newTable("ICCID", "ACCOUNT", "OUTCOME", "COMMAND", "BECAUSE")
		for _, i := range page.Items {
			because := i.EndBecause
			if because == "" {
				because = spaced(i.Because)
			}
			command := ""
			if i.CommandID != 0 {
				command = fmt.Sprintf("%d %s", i.CommandID, i.CommandState)
			}
			t.add(i.ICCID, i.Account, outcomeText(i.Outcome), command, because)
		}
		t.print(g.Out)
		if page.Next != "" {
			fmt.Fprintf(g.Out, "There are more: --cursor %s\n", page.Next)
		}
		return nil
	})
}

func outcomeText(o store.BulkOutcome) string {
	if o == "" {
		return "to come"
	}
	return string(o)
}

func printBulk(w io.Writer, b api.BulkStatus, now time.Time) {
	fmt.Fprintf(w, "Bulk action %d: %s, %s, %d of %d SIMs; by %s %s, reason: %s\n", b.ID, b.Direction, b.State, b.Done, b.Total, b.Actor, when(b.CreatedAt, now), clean(b.Reason, 500))
	if b.CancelledBy != "" {
		fmt.Fprintf(w, "Cancelled by %s.\n", clean(b.CancelledBy, 100))
	}
	for _, o := range b.Outcomes {
		fmt.Fprintf(w, "  %-10s %d\n", outcomeText(o.Outcome), o.SIMs)
	}
}

type bulkCancelCmd struct {
	ID int64 `arg:"" help:"The action's number."`
}

// Run cancels a bulk action.
func (c *bulkCancelCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		b, changed, err := e.CancelBulk(ctx, c.ID, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, api.BulkCancelled{Bulk: b, Changed: changed})
		}
		if !changed {
			fmt.Fprintln(g.Out, "It had ended before.")
		}
		printBulk(g.Out, b, e.Store.Now())
		return nil
	})
}
