package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// The bounds of a rule's place and words.
const (
	// DefaultRulePosition is before all rules of drivers, which begin at 1000.
	DefaultRulePosition = 500
	maxRulePosition     = 1_000_000
	maxRuleName         = 64
	maxRuleCode         = 200
	maxRuleWait         = 24 * time.Hour
)

// SavedRule is a rule as it was saved, or would be, with what to mind.
type SavedRule struct {
	Rule store.ErrorRule
	// Warnings say where it matches everything, hides others, or is hidden.
	Warnings []string
	Effect   RuleEffect
}

// RuleEffect is what a change of the rules would have changed among the last day's calls that failed.
// Of suspends and resumes it is known. Reads that fail are counted, their answers are not kept: of them
// it is how many it may have been at most.
type RuleEffect struct {
	Failed  int          `json:"failed_changes"` // looked at
	Changed int          `json:"classified_otherwise"`
	Shifts  []ClassShift `json:"shifts"`
	// FailedReads are all other calls that failed, ReadsAtMost those of them for whose operation and class
	// the rule may have a say.
	FailedReads int  `json:"failed_reads" doc:"Calls that failed, suspends and resumes aside"`
	ReadsAtMost int  `json:"reads_classified_otherwise_at_most" doc:"Their answers are not kept: so many may have been classified otherwise"`
	Partial     bool `json:"partial" doc:"There were more different errors than are looked at"`
}

// ClassShift counts attempts that would have been taken for something else.
type ClassShift struct {
	From    carrier.Class `json:"from"`
	To      carrier.Class `json:"to"`
	Times   int           `json:"times"`
	Example string        `json:"example"` // the most frequent such error
}

// checkRule says in words what is wrong with a rule, within the bounds of F47.
func checkRule(r store.ErrorRule) error {
	if _, err := carrier.Lookup(r.Driver); err != nil {
		return badInput("%v", err)
	}
	switch {
	case strings.TrimSpace(r.Rule.Name) == "" || len(r.Rule.Name) > maxRuleName || !cleanText(r.Rule.Name):
		return badInput("a rule has a name of up to %d characters", maxRuleName)
	case r.Position < 1 || r.Position > maxRulePosition:
		return badInput("position %d: give 1 to %d; drivers' rules begin at 1000", r.Position, maxRulePosition)
	case len(r.Rule.Code) > maxRuleCode || !cleanText(r.Rule.Code+r.Rule.Contains+r.Rule.Pattern):
		return badInput("a code has at most %d bytes, and no text has control characters", maxRuleCode)
	case r.Rule.RetryAfterMin > maxRuleWait:
		return badInput("a wait of %s: give at most %s", r.Rule.RetryAfterMin, maxRuleWait)
	}
	if _, err := rules.NewRuleSet([]carrier.Rule{r.Rule}); err != nil {
		return badInput("%v", err)
	}
	return nil
}

// ErrorRule gives one rule.
func (s *Service) ErrorRule(ctx context.Context, id int64) (r store.ErrorRule, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		r, err = tx.ErrorRule(ctx, id)
		return err
	})
	return r, err
}

// SaveErrorRule adds an operator's rule (ID 0) or changes the one with the ID, which is the operator's
// from then on; position 0 is the default one, or the one it has. With dry it is only looked at.
// Running nodes take the change up by themselves within 2 s.
func (s *Service) SaveErrorRule(ctx context.Context, r store.ErrorRule, dry bool, actor string) (SavedRule, error) {
	action, before := "error_rule_add", store.ErrorRule{}
	if r.ID != 0 {
		var err error
		if before, err = s.ErrorRule(ctx, r.ID); err != nil {
			return SavedRule{}, err
		}
		action, r.Driver = "error_rule_change", before.Driver
	}
	r.Position, r.Origin = cmp.Or(r.Position, before.Position, DefaultRulePosition), store.RuleFromOperator
	if err := checkRule(r); err != nil {
		return SavedRule{}, err
	}
	saved, err := s.tryRule(ctx, r.Driver, r.ID, &r)
	if err != nil || dry {
		return saved, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if saved.Rule, err = tx.PutErrorRule(ctx, r); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, action, 0, 0, map[string]any{"before": before, "after": saved.Rule, "warnings": saved.Warnings})
	})
	return saved, err
}

// MoveErrorRule gives a rule another position.
func (s *Service) MoveErrorRule(ctx context.Context, id int64, position int, dry bool, actor string) (SavedRule, error) {
	before, err := s.ErrorRule(ctx, id)
	if err != nil {
		return SavedRule{}, err
	}
	r := before
	r.Position = position
	if position < 1 || position > maxRulePosition {
		return SavedRule{}, badInput("position %d: give 1 to %d; drivers' rules begin at 1000", position, maxRulePosition)
	}
	saved, err := s.tryRule(ctx, r.Driver, id, &r)
	if err != nil || dry {
		return saved, err
	}
	return saved, s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.MoveErrorRule(ctx, id, position); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "error_rule_move", 0, 0, map[string]any{"id": id, "driver": r.Driver, "name": r.Rule.Name, "from": before.Position, "to": position})
	})
}

// DeleteErrorRule removes a rule, and tells what that changes. One that a driver ships, or whose name
// such a one has, is as shipped again at the next start.
func (s *Service) DeleteErrorRule(ctx context.Context, id int64, dry bool, actor string) (SavedRule, error) {
	before, err := s.ErrorRule(ctx, id)
	if err != nil {
		return SavedRule{}, err
	}
	saved, err := s.tryRule(ctx, before.Driver, id, nil)
	if err != nil {
		return SavedRule{}, err
	}
	saved.Rule = before
	if d, err := carrier.Lookup(before.Driver); err == nil && slices.ContainsFunc(d.Info().Rules, func(r carrier.Rule) bool { return r.Name == before.Rule.Name }) {
		saved.Warnings = append(saved.Warnings, "the driver ships a rule of this name: it is there again after the next start; to be rid of it, change it or put another before it")
	}
	if dry {
		return saved, nil
	}
	return saved, s.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := tx.DeleteErrorRule(ctx, id); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "error_rule_delete", 0, 0, map[string]any{"before": before})
	})
}

// tryRule tells what the rules of a driver would be and do without the one with the id and with the
// new one; nil: none.
func (s *Service) tryRule(ctx context.Context, driver string, id int64, put *store.ErrorRule) (SavedRule, error) {
	rows, err := s.ErrorRules(ctx, driver)
	if err != nil {
		return SavedRule{}, err
	}
	after := slices.DeleteFunc(slices.Clone(rows), func(r store.ErrorRule) bool { return id != 0 && r.ID == id })
	out := SavedRule{Warnings: []string{}}
	if put != nil {
		// Of equals the older goes first: a new one has the highest id.
		at := len(after)
		for i, r := range after {
			if r.Position > put.Position || r.Position == put.Position && id != 0 && r.ID > id {
				at = i
				break
			}
		}
		after = slices.Insert(after, at, *put)
		out.Rule, out.Warnings = *put, ruleWarnings(after, at)
	}
	if out.Effect, err = s.ruleEffect(ctx, driver, usableRules(rows), usableRules(after)); err != nil {
		return out, err
	}
	var was *store.ErrorRule
	if i := slices.IndexFunc(rows, func(r store.ErrorRule) bool { return id != 0 && r.ID == id }); i >= 0 {
		was = &rows[i]
	}
	if err := s.readEffect(ctx, driver, was, put, &out.Effect); err != nil {
		return out, err
	}
	if put != nil && put.Rule.Class == carrier.ClassAuth && matchesReads(put.Rule) && (anyAnswer(put.Rule) || out.Effect.ReadsAtMost > 0) {
		out.Warnings = append(out.Warnings, fmt.Sprintf("the first read that it matches stops all calls of its account, until a person starts it; "+
			"up to %d of the last day's reads would have been such", out.Effect.ReadsAtMost))
	}
	return out, nil
}

// usableRules compiles rules; one that cannot be used, which the gateway leaves out too, is left out.
func usableRules(rows []store.ErrorRule) *rules.RuleSet {
	list := make([]carrier.Rule, 0, len(rows))
	for _, r := range rows {
		if _, err := rules.NewRuleSet([]carrier.Rule{r.Rule}); err == nil {
			list = append(list, r.Rule)
		}
	}
	set, err := rules.NewRuleSet(list)
	if err != nil {
		panic(err) // each was checked
	}
	return set
}

const (
	effectOver = 24 * time.Hour
	maxErrors  = 5000 // different ones that are looked at
	maxShifts  = 20
)

// readEffect counts the last day's failed reads, and those that may be classified otherwise with a rule
// put in the place of what was; nil: none.
func (s *Service) readEffect(ctx context.Context, driver string, was, put *store.ErrorRule, out *RuleEffect) error {
	classes := make([]string, 0, len(carrier.Classes()))
	for _, c := range carrier.Classes() {
		classes = append(classes, string(c))
	}
	list, err := s.Store.FailedReads(ctx, driver, s.Store.Now().Add(-effectOver), classes)
	if err != nil {
		return err
	}
	of := func(r *store.ErrorRule, op simwarden.Operation) bool {
		return r != nil && matchesReads(r.Rule) && (r.Rule.Operation == "" || r.Rule.Operation == op)
	}
	for _, f := range list {
		out.FailedReads += f.Times
		if of(put, f.Operation) && f.Class != string(put.Rule.Class) || of(was, f.Operation) && f.Class == string(was.Rule.Class) {
			out.ReadsAtMost += f.Times
		}
	}
	return nil
}

// matchesReads says that a rule may be asked about what is neither suspend nor resume.
func matchesReads(r carrier.Rule) bool { return !r.ChangesOnly && !r.Operation.ChangesState() }

// ruleEffect classifies the last day's failed changes with both.
func (s *Service) ruleEffect(ctx context.Context, driver string, before, after *rules.RuleSet) (RuleEffect, error) {
	out := RuleEffect{Shifts: []ClassShift{}}
	list, err := s.Store.FailedChanges(ctx, driver, s.Store.Now().Add(-effectOver), maxErrors+1)
	if err != nil {
		return out, err
	}
	if out.Partial = len(list) > maxErrors; out.Partial {
		list = list[:maxErrors]
	}
	for _, f := range list {
		out.Failed += f.Times
		e := carrier.Error{Operation: simwarden.OperationOf(f.Direction), HTTPStatus: f.HTTPStatus, Code: f.Code, Message: f.Message}
		was, is := before.Classify(&e), after.Classify(&e)
		if string(was.Class) != f.Class { // it may have been an answer that was not understood, which is not kept
			e.BadAnswer = true
			if bad := before.Classify(&e); string(bad.Class) == f.Class {
				was, is = bad, after.Classify(&e)
			}
		}
		if was.Class == is.Class && was.Extended == is.Extended && was.ClosePolling == is.ClosePolling {
			continue
		}
		out.Changed += f.Times
		i := slices.IndexFunc(out.Shifts, func(c ClassShift) bool { return c.From == was.Class && c.To == is.Class })
		switch {
		case i >= 0:
			out.Shifts[i].Times += f.Times
		case len(out.Shifts) < maxShifts:
			out.Shifts = append(out.Shifts, ClassShift{From: was.Class, To: is.Class, Times: f.Times,
				Example: clip(fmt.Sprintf("%s: HTTP %d %s %s", f.Direction, f.HTTPStatus, f.Code, f.Message), 200)})
		}
	}
	return out, nil
}
