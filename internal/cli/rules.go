package cli

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type rulesCmd struct {
	List   rulesListCmd   `cmd:"" help:"List error rules in the order in which they are tried."`
	Test   rulesTestCmd   `cmd:"" help:"Say which rule an error meets and what would follow."`
	Add    rulesAddCmd    `cmd:"" help:"Add a rule of your own."`
	Change rulesChangeCmd `cmd:"" help:"Change a rule; a driver's is yours from then on. What is not given stays."`
	Move   rulesMoveCmd   `cmd:"" help:"Give a rule another position: the lowest is tried first."`
	Delete rulesDeleteCmd `cmd:"" help:"Delete a rule."`
}

type rulesListCmd struct {
	Driver string `arg:"" optional:"" help:"Of this driver alone."`
}

// Run lists rules.
func (c *rulesListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := e.ErrorRules(ctx, c.Driver)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, list)
		}
		t := newTable("ID", "DRIVER", "POSITION", "NAME", "FROM", "MATCHES", "CLASS")
		for _, r := range list {
			t.add(strconv.FormatInt(r.ID, 10), r.Driver, strconv.Itoa(r.Position), r.Rule.Name, string(r.Origin), matchText(r.Rule), string(r.Rule.Class))
		}
		t.print(g.Out)
		return nil
	})
}

func matchText(r carrier.Rule) string {
	var parts []string
	add := func(yes bool, format string, v any) {
		if yes {
			parts = append(parts, fmt.Sprintf(format, v))
		}
	}
	add(r.Operation != "", "%s", r.Operation)
	add(r.ChangesOnly, "%s", "changes")
	add(r.ReadsOnly, "%s", "reads")
	add(r.HTTPStatus != 0, "HTTP %d", r.HTTPStatus)
	add(r.Code != "", "code %s", r.Code)
	add(r.Contains != "", "%q", r.Contains)
	add(r.Pattern != "", "/%s/", r.Pattern)
	if len(parts) == 0 {
		return "everything"
	}
	return strings.Join(parts, " ")
}

type rulesTestCmd struct {
	Driver    string `arg:"" help:"The driver."`
	Operation string `arg:"" help:"The operation, such as suspend or query_state."`
	Status    int    `help:"The HTTP status; 0: no answer came."`
	Code      string `help:"The carrier's code."`
	Message   string `help:"The carrier's message."`
}

// Run tests an error on the rules (G7).
func (c *rulesTestCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		v, err := e.TestError(ctx, api.ErrorTest{Driver: c.Driver, Operation: simwarden.Operation(c.Operation), HTTPStatus: c.Status, Code: c.Code, Message: c.Message})
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, v)
		}
		fmt.Fprintln(g.Out, clean(v.Explanation, 2000))
		return nil
	})
}

type rulesAddCmd struct {
	Driver       string        `arg:"" help:"The driver."`
	Name         string        `arg:"" help:"How you call it."`
	Class        string        `help:"What such an error means, such as temporary, throttled, refused, invalid." required:""`
	Position     int           `help:"The lowest is tried first; drivers' rules begin at 1000. Default: 500."`
	Operation    string        `help:"Only errors of this operation."`
	AppliesTo    string        `help:"all, changes (suspend and resume) or reads." enum:"all,changes,reads" default:"all"`
	Status       int           `help:"Only this HTTP status; 4 or 5 for the whole hundred."`
	Code         string        `help:"Only this code of the carrier."`
	Contains     string        `help:"Only messages with this text, in any case."`
	Pattern      string        `help:"Only messages that this RE2 pattern matches."`
	Extended     string        `help:"The extended state that it says of the SIM."`
	ClosePolling bool          `help:"Close the SIM's polling."`
	NotExecuted  bool          `help:"The carrier documents that such a suspend or resume was not carried out."`
	Wait         time.Duration `help:"Wait at least so long before the next try."`
	DryRun       bool          `help:"Only say what to mind and what it would have changed."`
	Yes          bool          `help:"Save it in spite of warnings without asking."`
}

// Run adds a rule (G6).
func (c *rulesAddCmd) Run(ctx context.Context, g *Globals) error {
	rule := store.ErrorRule{Driver: c.Driver, Position: c.Position, Rule: carrier.Rule{Name: c.Name, Class: carrier.Class(c.Class), Operation: simwarden.Operation(c.Operation),
		ChangesOnly: c.AppliesTo == "changes", ReadsOnly: c.AppliesTo == "reads", HTTPStatus: c.Status, Code: c.Code, Contains: c.Contains, Pattern: c.Pattern,
		Extended: simwarden.ExtendedState(c.Extended), ClosePolling: c.ClosePolling, NotExecuted: c.NotExecuted, RetryAfterMin: c.Wait}}
	return g.changeRule(ctx, c.DryRun, c.Yes, func(e *env, dry bool) (api.SavedRule, error) {
		return e.SaveErrorRule(ctx, rule, dry, actor())
	}, "added")
}

type rulesChangeCmd struct {
	ID           int64          `arg:"" help:"The rule's number; see: simwarden rules list."`
	Name         *string        `help:"How you call it." placeholder:"NAME"`
	Class        *string        `help:"What such an error means, such as temporary, throttled, refused, invalid." placeholder:"CLASS"`
	Operation    *string        `help:"Only errors of this operation; empty for all." placeholder:"OPERATION"`
	AppliesTo    *string        `help:"all, changes (suspend and resume) or reads." enum:"all,changes,reads" placeholder:"all|changes|reads"`
	Status       *int           `help:"Only this HTTP status; 4 or 5 for the whole hundred; 0 for any." placeholder:"N"`
	Code         *string        `help:"Only this code of the carrier; empty for any." placeholder:"CODE"`
	Contains     *string        `help:"Only messages with this text, in any case; empty for any." placeholder:"TEXT"`
	Pattern      *string        `help:"Only messages that this RE2 pattern matches; empty for any." placeholder:"PATTERN"`
	Extended     *string        `help:"The extended state that it says of the SIM; empty for none." placeholder:"STATE"`
	ClosePolling *bool          `help:"Whether it closes the SIM's polling." placeholder:"true|false"`
	NotExecuted  *bool          `help:"Whether the carrier documents that such a suspend or resume was not carried out." placeholder:"true|false"`
	Wait         *time.Duration `help:"Wait at least so long before the next try." placeholder:"DURATION"`
	DryRun       bool           `help:"Only say what to mind and what it would have changed."`
	Yes          bool           `help:"Save it in spite of warnings without asking."`
}

// Run changes a rule (G6).
func (c *rulesChangeCmd) Run(ctx context.Context, g *Globals) error {
	if *c == (rulesChangeCmd{ID: c.ID, DryRun: c.DryRun, Yes: c.Yes}) {
		return usage("nothing to change was given; see: simwarden rules change --help")
	}
	return g.changeRule(ctx, c.DryRun, c.Yes, func(e *env, dry bool) (api.SavedRule, error) {
		before, err := e.ErrorRule(ctx, c.ID)
		if err != nil {
			return api.SavedRule{}, err
		}
		before.Rule = c.changed(before.Rule)
		return e.SaveErrorRule(ctx, before, dry, actor())
	}, "changed")
}

func (c *rulesChangeCmd) changed(r carrier.Rule) carrier.Rule {
	set(&r.Name, c.Name)
	set(&r.Class, (*carrier.Class)(c.Class))
	set(&r.Operation, (*simwarden.Operation)(c.Operation))
	set(&r.HTTPStatus, c.Status)
	set(&r.Code, c.Code)
	set(&r.Contains, c.Contains)
	set(&r.Pattern, c.Pattern)
	set(&r.Extended, (*simwarden.ExtendedState)(c.Extended))
	set(&r.ClosePolling, c.ClosePolling)
	set(&r.NotExecuted, c.NotExecuted)
	set(&r.RetryAfterMin, c.Wait)
	if c.AppliesTo != nil {
		r.ChangesOnly, r.ReadsOnly = *c.AppliesTo == "changes", *c.AppliesTo == "reads"
	}
	return r
}

// set sets what was given.
func set[T any](to, given *T) {
	if given != nil {
		*to = *given
	}
}

type rulesMoveCmd struct {
	ID       int64 `arg:"" help:"The rule's number; see: simwarden rules list."`
	Position int   `arg:"" help:"Its new position."`
	DryRun   bool  `help:"Only say what to mind and what it would have changed."`
	Yes      bool  `help:"Move it in spite of warnings without asking."`
}

// Run moves a rule.
func (c *rulesMoveCmd) Run(ctx context.Context, g *Globals) error {
	return g.changeRule(ctx, c.DryRun, c.Yes, func(e *env, dry bool) (api.SavedRule, error) {
		return e.MoveErrorRule(ctx, c.ID, c.Position, dry, actor())
	}, "moved")
}

type rulesDeleteCmd struct {
	ID     int64 `arg:"" help:"The rule's number; see: simwarden rules list."`
	DryRun bool  `help:"Only say what it would have changed."`
	Yes    bool  `help:"Delete it in spite of warnings without asking."`
}

// Run deletes a rule.
func (c *rulesDeleteCmd) Run(ctx context.Context, g *Globals) error {
	return g.changeRule(ctx, c.DryRun, c.Yes, func(e *env, dry bool) (api.SavedRule, error) {
		return e.DeleteErrorRule(ctx, c.ID, dry, actor())
	}, "deleted")
}

// changeRule looks at a change first, and asks where there is something to mind.
func (g *Globals) changeRule(ctx context.Context, dry, yes bool, change func(e *env, dry bool) (api.SavedRule, error), done string) error {
	return g.with(ctx, func(e *env) error {
		s, err := change(e, true)
		if err != nil {
			return err
		}
		if !g.JSON {
			printRuleEffect(g.Out, s)
		}
		if !dry && !yes && len(s.Warnings) > 0 {
			sure, err := ask(g, "Do it all the same?")
			if err != nil || !sure {
				return err
			}
		}
		if !dry {
			if s, err = change(e, false); err != nil {
				return err
			}
		}
		switch {
		case g.JSON:
			return printJSON(g.Out, map[string]any{"rule": s.Rule, "warnings": s.Warnings, "last_day": s.Effect, "dry_run": dry})
		case dry:
			fmt.Fprintln(g.Out, "Dry run, nothing was changed.")
		default:
			fmt.Fprintf(g.Out, "Rule %d, %s of driver %s, is %s; running nodes take it up within 2 s.\n", s.Rule.ID, clean(s.Rule.Rule.Name, 64), s.Rule.Driver, done)
		}
		return nil
	})
}

func printRuleEffect(w io.Writer, s api.SavedRule) {
	for _, text := range s.Warnings {
		fmt.Fprintf(w, "Mind: %s.\n", clean(text, 1200))
	}
	fmt.Fprintf(w, "Of %d suspends and resumes that failed in the last day it would have classified %d otherwise.\n", s.Effect.Failed, s.Effect.Changed)
	fmt.Fprintf(w, "Of %d reads that failed it may have classified up to %d otherwise; their answers are not kept.\n", s.Effect.FailedReads, s.Effect.ReadsAtMost)
	for _, c := range s.Effect.Shifts {
		fmt.Fprintf(w, "  %d from %s to %s, such as %s\n", c.Times, c.From, c.To, clean(c.Example, 200))
	}
}
