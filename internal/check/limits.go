package check

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// limitGroup is one group in enforce with its accounts and limits, read for V7.
type limitGroup struct {
	Name          string
	MaxConcurrent int
	Accounts      []string
	Rates         []rate
}

// rate is one limit: at most Calls arrivals of the operations in any window of Seconds.
type rate struct {
	Operation string // empty: all, or for Rest those without a limit of a second of their own
	Seconds   int
	Calls     int
	Rest      bool
}

// limitsAreKept is V7: in every sliding window of every limit that is in enforce no more arrivals than
// it allows, all nodes together, those of exempt purposes aside; and no more requests under way at a
// time than the group's accounts may have.
func (c *checker) limitsAreKept(ctx context.Context) error {
	rows, err := c.DB.Query(ctx, `
		SELECT g.name, g.max_concurrent, coalesce((SELECT array_agg(a.name) FROM account a WHERE a.limit_group_id = g.id), '{}'),
			coalesce((SELECT jsonb_agg(jsonb_build_object('Operation', r.operation, 'Seconds', 1, 'Calls', r.per_second, 'Rest', r.operation = ''))
				FROM limit_rate r WHERE r.limit_group_id = g.id), '[]') ||
			coalesce((SELECT jsonb_agg(jsonb_build_object('Operation', w.operation, 'Seconds', w.window_seconds, 'Calls', w.calls))
				FROM limit_window w WHERE w.limit_group_id = g.id), '[]')
		FROM limit_group g WHERE g.mode = 'enforce' ORDER BY g.id`)
	if err != nil {
		return fmt.Errorf("V7: %w", err)
	}
	groups, err := pgx.CollectRows(rows, pgx.RowToStructByPos[limitGroup])
	if err != nil {
		return fmt.Errorf("V7: %w", err)
	}
	for _, g := range groups {
		var lines []Line
		for _, l := range c.Lines {
			if l.Kind != "execution" && slices.Contains(g.Accounts, l.Account) && !l.ArrivedAt.Before(c.LimitsSince) {
				lines = append(lines, l)
			}
		}
		for _, r := range g.Rates {
			c.report.Looked.Limits++
			c.rateIsKept(g, r, lines)
		}
		if g.MaxConcurrent > 0 {
			c.report.Looked.Limits++
			c.concurrencyIsKept(g, lines)
		}
	}
	return nil
}

// rateIsKept goes over the arrivals with two pointers.
func (c *checker) rateIsKept(g limitGroup, r rate, lines []Line) {
	window := time.Duration(r.Seconds) * time.Second
	var in []Line
	for _, l := range lines {
		if r.counts(g, l.Operation) && !c.exempt(l) {
			in = append(in, l)
		}
	}
	most, first, worst := 0, 0, 0
	for last := range in {
		for in[last].ArrivedAt.Sub(in[first].ArrivedAt) >= window {
			first++
		}
		if n := last - first + 1; n > most {
			most, worst = n, last
		}
	}
	if most > r.Calls {
		c.found("V7", g.Name, "%d %s arrived within %s until %s, the limit is %d", most, r.what(), window, in[worst].ArrivedAt, r.Calls)
	}
}

// counts says whether the limit counts calls of the operation.
func (r rate) counts(g limitGroup, op simwarden.Operation) bool {
	if r.Operation != "" {
		return r.Operation == string(op)
	}
	return !r.Rest || !slices.ContainsFunc(g.Rates, func(other rate) bool { return other.Seconds == 1 && other.Operation == string(op) })
}

func (r rate) what() string {
	if r.Operation == "" {
		return "requests"
	}
	return r.Operation
}

// exempt says that a request was made for a purpose that passes limits (G2). A request that changes
// nothing has its purpose in front of its id; one that changes a SIM is told by its command, which a
// person asked for.
func (c *checker) exempt(l Line) bool {
	if a := c.byReq[l.RequestID]; a != nil {
		return a.CmdScene == simwarden.SceneManual
	}
	purpose, _, found := strings.Cut(l.RequestID, "-")
	return found && simwarden.Purpose(purpose).Exempt()
}

// endsLate is how much later than its reader the carrier may note the end of an answer.
const endsLate = 50 * time.Millisecond

// concurrencyIsKept counts the requests under way at each arrival.
func (c *checker) concurrencyIsKept(g limitGroup, lines []Line) {
	var ends []time.Time
	for _, l := range lines {
		ends = slices.DeleteFunc(ends, func(end time.Time) bool { return !end.After(l.ArrivedAt) })
		ends = append(ends, l.endedAt().Add(-endsLate))
		if len(ends) > g.MaxConcurrent {
			c.found("V7", g.Name, "%d requests were under way at %s, the limit is %d at a time", len(ends), l.ArrivedAt, g.MaxConcurrent)
			return
		}
	}
}
