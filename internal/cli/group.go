package cli

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type groupCmd struct {
	List       groupListCmd       `cmd:"" help:"List limit groups with their limits."`
	Add        groupAddCmd        `cmd:"" help:"Add a limit group for accounts to share."`
	Move       groupMoveCmd       `cmd:"" help:"Let an account share a group's limits."`
	Mode       groupModeCmd       `cmd:"" help:"monitor: count what would have been held back; enforce: hold it back."`
	Rate       groupRateCmd       `cmd:"" help:"Set how many calls of an operation a second may carry."`
	Window     groupWindowCmd     `cmd:"" help:"Set how many calls a minute, day or month may carry."`
	Concurrent groupConcurrentCmd `cmd:"" help:"Set how many calls all nodes may have under way at a time."`
	Share      groupShareCmd      `cmd:"" help:"Set the part of minutes, days and months that polls leave to commands."`
}

type groupListCmd struct{}

// Run lists the limit groups.
func (c *groupListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		groups, err := e.LimitGroups(ctx)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, groups)
		}
		for _, group := range groups {
			g.printGroup(group)
		}
		return nil
	})
}

func (g *Globals) printGroup(group store.LimitGroup) {
	fmt.Fprintf(g.Out, "%s  %s\n", group.Name, group.Mode)
	for _, op := range slices.Sorted(maps.Keys(group.PerSecond)) {
		name := string(op)
		if name == "" {
			name = "any other"
		}
		fmt.Fprintf(g.Out, "  %-14s %d/s\n", name, group.PerSecond[op])
	}
	for _, w := range group.Windows {
		name := string(w.Operation)
		if name == "" {
			name = "all"
		}
		fmt.Fprintf(g.Out, "  %-14s %d in %s, %d %% kept for commands\n", name, w.Calls, windowText(w.Seconds), group.CommandSharePercent)
	}
	if group.MaxConcurrent > 0 {
		fmt.Fprintf(g.Out, "  %-14s %d at a time\n", "all", group.MaxConcurrent)
	}
}

type groupAddCmd struct {
	Name string `arg:"" help:"How you call it."`
}

// Run adds a group.
func (c *groupAddCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		group, err := e.AddLimitGroup(ctx, c.Name, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, group)
		}
		fmt.Fprintf(g.Out, "Limit group %s is there, without limits. Move accounts to it: simwarden group move ACCOUNT %s\n", group.Name, group.Name)
		return nil
	})
}

type groupMoveCmd struct {
	Account string `arg:"" help:"The carrier account."`
	Name    string `arg:"" help:"The limit group."`
}

// Run moves an account to a group (G2).
func (c *groupMoveCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		a, err := e.ChangeAccount(ctx, c.Account, api.AccountChange{LimitGroup: &c.Name}, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, a)
		}
		fmt.Fprintf(g.Out, "Account %s shares the limits of group %s; running nodes take it up within 2 s.\n", a.Name, c.Name)
		return nil
	})
}

type groupModeCmd struct {
	Name string `arg:"" help:"The limit group."`
	Mode string `arg:"" enum:"monitor,enforce" help:"monitor or enforce."`
}

// Run switches between monitor and enforce (G3).
func (c *groupModeCmd) Run(ctx context.Context, g *Globals) error {
	mode := simwarden.GroupMode(c.Mode)
	return g.changeGroup(ctx, c.Name, api.LimitGroupChange{Mode: &mode})
}

type groupRateCmd struct {
	Name      string `arg:"" help:"The limit group."`
	Operation string `arg:"" help:"The operation, such as query_state; any for those without a limit of their own."`
	PerSecond string `arg:"" help:"Calls a second; none takes the limit away."`
}

// Run sets a limit (G2).
func (c *groupRateCmd) Run(ctx context.Context, g *Globals) error {
	op := simwarden.Operation(c.Operation)
	if c.Operation == "any" {
		op = ""
	}
	n, err := countOrNone(c.PerSecond)
	if err != nil {
		return err
	}
	return g.changeGroup(ctx, c.Name, api.LimitGroupChange{PerSecond: map[simwarden.Operation]*int{op: n}})
}

type groupWindowCmd struct {
	Name      string `arg:"" help:"The limit group."`
	Operation string `arg:"" help:"The operation, such as query_state; all for all calls of the group together."`
	Window    string `arg:"" help:"minute, hour, day, month (31 days), or a duration such as 15m. Windows slide: no span of this length sees more."`
	Calls     string `arg:"" help:"Calls in the window; none takes the limit away."`
}

// Run sets a window (G2).
func (c *groupWindowCmd) Run(ctx context.Context, g *Globals) error {
	w := api.WindowChange{Operation: simwarden.Operation(c.Operation)}
	if c.Operation == "all" {
		w.Operation = ""
	}
	var err error
	if w.Seconds, err = windowSeconds(c.Window); err != nil {
		return err
	}
	if w.Calls, err = countOrNone(c.Calls); err != nil {
		return err
	}
	return g.changeGroup(ctx, c.Name, api.LimitGroupChange{Windows: []api.WindowChange{w}})
}

type groupConcurrentCmd struct {
	Name  string `arg:"" help:"The limit group."`
	Calls string `arg:"" help:"Calls at a time over all nodes; none for any number."`
}

// Run sets the calls at a time (G2).
func (c *groupConcurrentCmd) Run(ctx context.Context, g *Globals) error {
	n, err := countOrNone(c.Calls)
	if err != nil {
		return err
	}
	return g.changeGroup(ctx, c.Name, api.LimitGroupChange{MaxConcurrent: &n})
}

type groupShareCmd struct {
	Name    string `arg:"" help:"The limit group."`
	Percent int    `arg:"" help:"Percent, 0 to 90. In a second, commands simply go first."`
}

// Run sets the commands' share (G2).
func (c *groupShareCmd) Run(ctx context.Context, g *Globals) error {
	return g.changeGroup(ctx, c.Name, api.LimitGroupChange{CommandSharePercent: &c.Percent})
}

func (g *Globals) changeGroup(ctx context.Context, name string, change api.LimitGroupChange) error {
	return g.with(ctx, func(e *env) error {
		group, err := e.ChangeLimitGroup(ctx, name, change, actor())
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, group)
		}
		fmt.Fprintf(g.Out, "Limit group %s is changed; running nodes take it up within 2 s.\n", group.Name)
		return nil
	})
}

// countOrNone reads a count; nil is none.
func countOrNone(text string) (*int, error) {
	if text == "none" {
		return nil, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil, usage("%q: give a whole number, or none", text)
	}
	return &n, nil
}

// windowNames are the windows that people speak of. A month is the longest one, so that no calendar
// month can see more.
var windowNames = []struct {
	name, text string
	length     time.Duration
}{
	{"minute", "a minute", time.Minute},
	{"hour", "an hour", time.Hour},
	{"day", "a day", 24 * time.Hour},
	{"month", "31 days", store.MaxWindowSeconds * time.Second},
}

func windowSeconds(text string) (int, error) {
	for _, w := range windowNames {
		if w.name == text {
			return int(w.length / time.Second), nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d%time.Second != 0 {
		return 0, usage("window %q: give minute, hour, day, month, or whole seconds such as 15m", text)
	}
	return int(d / time.Second), nil
}

func windowText(seconds int) string {
	d := time.Duration(seconds) * time.Second
	for _, w := range windowNames {
		if w.length == d {
			return w.text
		}
	}
	return d.String()
}
