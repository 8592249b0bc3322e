// Package check finds out from outside whether the invariants held: it reads the log that the
// carrier kept, the true states there, and the database by plain SQL, and shares nothing with
// what it checks but the words and, to make decisions again, the rules.
package check

import (
	"context"
	"fmt"
	"sort"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Input is what a check looks at.
type Input struct {
	// DB is a connection to the product's database; nil: one is made to URL.
	DB  *pgx.Conn
	URL string
	// Lines are the carrier's own log, in any order; see ReadLog.
	Lines []Line
	// Truth is each SIM's true state at the carrier, by ICCID; nil: V11 and V12 leave it out.
	Truth map[string]simwarden.State
	// Now is the instant of the check, UTC, by the clock that the product ran on.
	Now time.Time
	// Settle is how long after the last possible execution a read may still miss it (V4).
	Settle time.Duration
	// OpenBound is how old an open command or a due evaluation may be after the calm phase; zero:
	// there was no calm phase, and V12 is left out.
	OpenBound time.Duration
	// RetryAfterMax is the longest wait that is taken at a carrier's word (V6); zero: an hour.
	RetryAfterMax time.Duration
	// MaxAttempts is how many attempts that count one command may have; zero: not checked.
	MaxAttempts int
	// History is what each SIM truly was at the carrier and from when on, by ICCID, oldest first; nil: V10
	// takes a list for proof of what it may have said.
	History map[string][]Moment
	// UsedBytes is all that a SIM had used by an instant as its carrier would have told it then; false: not
	// known. nil: V16 leaves the comparison out.
	UsedBytes func(iccid string, at time.Time) (int64, bool)
	// CountsWritten says that no node has counts of requests in memory any more; otherwise V8 is left out.
	CountsWritten bool
	// LostAt are the instants at which nodes were killed with the counts that they had in memory, of as long
	// before as LostCounts says (V8). A node that loses its connections to the database loses no count, and
	// writes none twice.
	LostAt     []time.Time
	LostCounts time.Duration
	// LimitsSince is since when the limit groups have been as they are; zero: from the first line on (V7).
	LimitsSince time.Time
}

// Violation is one broken invariant, in words.
type Violation struct {
	Invariant string `json:"invariant"` // "V4"
	Subject   string `json:"subject"`   // the SIM, command or request
	What      string `json:"what"`
}

func (v Violation) String() string { return fmt.Sprintf("%s: %s: %s", v.Invariant, v.Subject, v.What) }

// Report is what a check found.
type Report struct {
	Violations []Violation `json:"violations"`
	// BlindResends counts V4: state-changing requests sent again before it was known what became
	// of the one before.
	BlindResends int `json:"blind_resends"`
	// LimitViolations counts requests that the carrier says exceeded a limit.
	LimitViolations int `json:"limit_violations"`
	// Drift are the SIMs whose true state differs from the decision, with no open command and no
	// named end; OpenOverBound the open commands older than OpenBound that nothing named holds.
	Drift         []Violation `json:"drift"`
	OpenOverBound int         `json:"open_over_bound"`
	// Looked says how much was looked at, so that an empty check shows as one.
	Looked Looked `json:"looked_at"`
}

// Looked counts what was looked at.
type Looked struct {
	Lines    int `json:"log_lines"`
	Changes  int `json:"state_changing_requests"`
	Unknown  int `json:"unknown_outcomes"`
	Attempts int `json:"attempts"`
	Commands int `json:"commands"`
	Lapses   int `json:"lapses"`
	SIMs     int `json:"sims"`
	Entries  int `json:"ledger_entries"`
	Limits   int `json:"limits"` // in enforce
	Counters int `json:"counters"`
	Closings int `json:"closings"`
	Usages   int `json:"usages"` // SIMs whose usage was compared with the carrier's
}

// Run checks V1 to V16 and V18. The error is one of reading, never a finding.
func Run(ctx context.Context, in Input) (Report, error) {
	if in.DB == nil {
		conn, err := pgx.Connect(ctx, in.URL)
		if err != nil {
			return Report{}, fmt.Errorf("check: %w", err)
		}
		defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
		in.DB = conn
	}
	c := &checker{Input: in}
	c.report.Violations, c.report.Drift = []Violation{}, []Violation{}
	sort.SliceStable(c.Lines, func(i, j int) bool { return c.Lines[i].ArrivedAt.Before(c.Lines[j].ArrivedAt) })
	c.report.Looked.Lines = len(c.Lines)
	for _, step := range []func(context.Context) error{
		c.load, c.causes, c.deviceCauses, c.oneRequestAnAttempt, c.oneAtATime, c.readBeforeResend, c.judgedAfresh, c.terminalIsTheEnd, c.limitsAreKept,
		c.waitsAreKept, c.countersAreRight, c.pausesAreKept, c.closedForGoodReason, c.lapses, c.guardsHold, c.holdsAreKept, c.book, c.usageIsTrue, c.recordsAreThere, c.auditIsRight, c.calm,
	} {
		if err := step(ctx); err != nil {
			return c.report, fmt.Errorf("check: %w", err)
		}
	}
	return c.report, nil
}

type checker struct {
	Input
	report   Report
	attempts []attempt
	byReq    map[string]*attempt
	// notExecuted are the rules for codes that are documented to mean that nothing was done (C5).
	notExecuted map[string]bool
	// closers are the rules that close polling (P5).
	closers map[string]bool
}

// attempt is one row with its command.
type attempt struct {
	ID        int64
	CommandID int64
	Number    int
	RequestID string
	ICCID     string
	SIMID     int64
	Scene     simwarden.Scene
	CmdScene  simwarden.Scene
	Direction simwarden.Direction
	AskedBy   string
	Cause     string
	ClaimedAt time.Time
	EndedAt   *time.Time
	Outcome   string
	Class     string
	Rule      string
	Facts     []byte
	Decision  []byte
}

func (c *checker) found(invariant, subject, format string, args ...any) {
	c.report.Violations = append(c.report.Violations, Violation{invariant, subject, fmt.Sprintf(format, args...)})
}

// load reads all attempts: the other checks go through them.
func (c *checker) load(ctx context.Context) error {
	rows, err := c.DB.Query(ctx, `
		SELECT t.id, t.command_id, t.number, t.request_id, s.iccid, t.sim_id, t.scene, c.scene, c.direction, c.asked_by,
			c.cause_kind, t.claimed_at, t.ended_at, t.outcome, t.class, t.rule, t.facts, t.decision
		FROM attempt t JOIN command c ON c.id = t.command_id JOIN sim s ON s.id = t.sim_id ORDER BY t.command_id, t.number`)
	if err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	c.attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[attempt])
	if err != nil {
		return fmt.Errorf("read attempts: %w", err)
	}
	c.report.Looked.Attempts = len(c.attempts)
	c.byReq = make(map[string]*attempt, len(c.attempts))
	for i := range c.attempts {
		c.byReq[c.attempts[i].RequestID] = &c.attempts[i]
	}
	if c.notExecuted, err = c.rulesThat(ctx, `not_executed`); err != nil {
		return err
	}
	if c.closers, err = c.rulesThat(ctx, `close_polling`); err != nil {
		return err
	}
	return c.DB.QueryRow(ctx, `SELECT count(*) FROM command`).Scan(&c.report.Looked.Commands)
}

// rulesThat are the names of the error rules with a mark.
func (c *checker) rulesThat(ctx context.Context, mark string) (map[string]bool, error) {
	var names []string
	if err := c.DB.QueryRow(ctx, `SELECT coalesce(array_agg(DISTINCT name), '{}') FROM error_rule WHERE `+mark).Scan(&names); err != nil {
		return nil, fmt.Errorf("read error rules: %w", err)
	}
	out := make(map[string]bool, len(names))
	for _, name := range names {
		out[name] = true
	}
	return out, nil
}

// each runs a query whose rows are violations: a subject and what is wrong.
func (c *checker) each(ctx context.Context, invariant, sql string, args ...any) error {
	rows, err := c.DB.Query(ctx, sql, args...)
	if err != nil {
		return fmt.Errorf("%s: %w", invariant, err)
	}
	defer rows.Close()
	for rows.Next() {
		var subject, what string
		if err := rows.Scan(&subject, &what); err != nil {
			return fmt.Errorf("%s: %w", invariant, err)
		}
		c.found(invariant, subject, "%s", what)
	}
	return rows.Err()
}
