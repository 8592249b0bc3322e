package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type retentionCmd struct {
	List retentionListCmd `cmd:"" default:"withargs" help:"List how long each table is kept, how old and how large it is."`
	Set  retentionSetCmd  `cmd:"" help:"Say how long a table is kept."`
}

type retentionListCmd struct{}

// Run lists what is kept for how long (R1, U5).
func (c *retentionListCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		r, err := e.Service.Retention(ctx)
		if err != nil {
			return err
		}
		return g.retention(r, e.Store.Now())
	})
}

type retentionSetCmd struct {
	Table  string `arg:"" help:"The table's name; see: simwarden retention."`
	Keep   string `arg:"" help:"Days as 400d, or forever."`
	Reason string `required:"" help:"Why; kept in the audit log."`
}

// Run sets how long a table is kept.
func (c *retentionSetCmd) Run(ctx context.Context, g *Globals) error {
	days := store.KeepForGood
	if c.Keep != "forever" {
		var err error
		if days, err = parseDays(c.Keep); err != nil || days == 0 {
			return usage("%q: give a number of days as 400d, or forever", c.Keep)
		}
	}
	return g.with(ctx, func(e *env) error {
		r, err := e.KeepFor(ctx, c.Table, days, c.Reason, actor())
		if err != nil {
			return err
		}
		return g.retention(r, e.Store.Now())
	})
}

func keepText(days int) string {
	if days == store.KeepForGood {
		return "for good"
	}
	return times(days, "day")
}

func (g *Globals) retention(r api.RetentionReport, now time.Time) error {
	if g.JSON {
		return printJSON(g.Out, r)
	}
	t := newTable("TABLE", "KEPT", "LEAST", "GOES BEFORE", "OLDEST", "SIZE", "LAST RUN DELETED")
	for _, x := range r.Tables {
		goes, oldest := "-", "-"
		if !x.DropsBefore.IsZero() {
			goes = x.DropsBefore.Format(time.DateOnly)
		}
		if !x.OldestAt.IsZero() {
			oldest = x.OldestAt.Format(time.DateOnly)
		}
		deleted := times(int(r.LastRun.Dropped[x.Table]), "row")
		if x.ByMonth {
			deleted = times(int(r.LastRun.Dropped[x.Table]), "month")
		}
		t.add(x.Table, keepText(x.KeepDays), times(x.LeastDays, "day"), goes, oldest, bytesText(x.Bytes), deleted)
	}
	t.print(g.Out)
	if r.LastRun.At.IsZero() {
		fmt.Fprintln(g.Out, "Nothing has been deleted yet: simwarden serve does it once a day.")
	} else {
		fmt.Fprintf(g.Out, "Last deleted %s.\n", when(r.LastRun.At, now))
	}
	return nil
}

// retentionBound is how long ago the last run may be: it runs daily.
const retentionBound = 48 * time.Hour

// retained is doctor's finding about what grows.
func retained(r api.RetentionReport, now time.Time) finding {
	f := finding{Check: "retention", OK: true, Do: "see that simwarden serve runs, and its log for what could not be deleted"}
	largest := slices.MaxFunc(r.Tables, func(a, b store.Retention) int { return int(min(max(a.Bytes-b.Bytes, -1), 1)) })
	var total int64
	var oldest []string
	for _, x := range r.Tables {
		total += x.Bytes
		if !x.OldestAt.IsZero() && (x.ByMonth || x.Table == "event") {
			oldest = append(oldest, fmt.Sprintf("%s since %s (%s)", x.Table, x.OldestAt.Format(time.DateOnly), keepText(x.KeepDays)))
		}
	}
	f.Saw = fmt.Sprintf("what grows has %s, most of it %s", bytesText(total), largest.Table)
	if len(oldest) > 0 {
		f.Saw += "; " + strings.Join(oldest, ", ")
	}
	switch {
	case r.LastRun.At.IsZero():
		f.Saw += "; nothing was deleted yet"
	case now.Sub(r.LastRun.At) > retentionBound:
		f.OK, f.Saw = false, f.Saw+"; old rows were last deleted "+when(r.LastRun.At, now)
	default:
		f.Saw += "; old rows were last deleted " + when(r.LastRun.At, now)
	}
	return f
}
