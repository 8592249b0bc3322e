package check

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// counter names what requests are counted by (V8).
type counter struct {
	account, operation, purpose string
}

func (k counter) String() string {
	return fmt.Sprintf("account %s, %s for %s", k.account, k.operation, k.purpose)
}

// calls are the requests of one counter.
type calls struct {
	counted    int // what the database says left the program
	ok         int // of them, those that it calls answered well
	unanswered int // of them, those that it calls failed in a way that may have been before they arrived
	arrived    int // what the carrier saw
	welcome    int // of them, those that the carrier answered with a status of success
	excused    int // of them, those whose count may be lost, see Input.LostAt
}

// notSent are the outcomes in the statistics that count what never left (G9).
var notSent = map[string]bool{"not_sent": true, "blocked": true, "stopped": true, "would_block": true}

// unanswered are the outcomes of requests that may have ended before they arrived.
var unanswered = map[string]bool{"temporary": true, "unknown_outcome": true, "unknown": true}

// countersAreRight is V8: for each account, operation and purpose as many requests are counted as
// arrived at the carrier, and no more besides than may have failed on the way; of those that are said
// to have been answered well, no more than the carrier answered so. It wants the counts of all nodes in
// the database.
func (c *checker) countersAreRight(ctx context.Context) error {
	if !c.CountsWritten {
		return nil
	}
	rows, err := c.DB.Query(ctx, `
		SELECT a.name, s.operation, s.purpose, s.outcome, sum(s.calls)::bigint FROM call_stat s JOIN account a ON a.id = s.account_id GROUP BY 1, 2, 3, 4`)
	if err != nil {
		return fmt.Errorf("V8: %w", err)
	}
	all := map[counter]*calls{}
	of := func(k counter) *calls {
		if all[k] == nil {
			all[k] = &calls{}
		}
		return all[k]
	}
	var k counter
	var outcome string
	var n int
	_, err = pgx.ForEachRow(rows, []any{&k.account, &k.operation, &k.purpose, &outcome, &n}, func() error {
		if notSent[outcome] {
			return nil
		}
		s := of(k)
		s.counted += n
		if outcome == "ok" {
			s.ok += n
		}
		if unanswered[outcome] {
			s.unanswered += n
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("V8: %w", err)
	}
	for _, l := range c.Lines {
		if l.Kind == "execution" {
			continue
		}
		s := of(counter{l.Account, string(l.Operation), c.purpose(l)})
		s.arrived++
		if l.Status >= 200 && l.Status <= 299 {
			s.welcome++
		}
		if c.excused(l) {
			s.excused++
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(all), func(a, b counter) int { return strings.Compare(a.String(), b.String()) }) {
		s := all[k]
		c.report.Looked.Counters++
		switch {
		case s.counted < s.arrived-s.excused:
			c.found("V8", k.String(), "%d requests are counted and %d arrived, %d of them where a node was lost", s.counted, s.arrived, s.excused)
		case s.counted-s.unanswered > s.arrived:
			c.found("V8", k.String(), "%d requests are counted that had an answer, and only %d arrived", s.counted-s.unanswered, s.arrived)
		case s.ok > s.welcome:
			c.found("V8", k.String(), "%d requests are counted as answered well, and the carrier answered %d so", s.ok, s.welcome)
		}
	}
	return nil
}

// purpose is on whose behalf a request was made: a request that changes nothing has it in front of its
// id, one that changes a SIM is told by its command.
func (c *checker) purpose(l Line) string {
	if a := c.byReq[l.RequestID]; a != nil {
		if a.CmdScene == simwarden.SceneManual && a.Cause == "person" {
			return string(simwarden.PurposeManual)
		}
		return string(simwarden.PurposeCommand)
	}
	purpose, _, _ := strings.Cut(l.RequestID, "-")
	return purpose
}

// excused says that the request arrived, or ended, near an instant at which a node was killed that may
// have had its count in memory.
func (c *checker) excused(l Line) bool {
	return slices.ContainsFunc(c.LostAt, func(at time.Time) bool {
		return !l.endedAt().Before(at.Add(-c.LostCounts)) && !l.ArrivedAt.After(at)
	})
}
