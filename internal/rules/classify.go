package rules

import (
	"cmp"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// Classification is what an upstream error means (G6).
type Classification struct {
	Class carrier.Class
	// Rule is the rule that matched, nil where a built-in one decided.
	Rule *carrier.Rule
	// Extended, ClosePolling and NotExecuted are those of the rule, where the answer is one that
	// says something about the SIM: not where none came or none was understood (P5, F24).
	Extended     simwarden.ExtendedState
	ClosePolling bool
	NotExecuted  bool
	// RetryAfter is the longer of what the carrier asked for (at most MaxRetryAfter) and what the
	// rule demands; 0: neither said.
	RetryAfter time.Duration
	// Why says in words how the class came about, for the rule tester (G7).
	Why string
}

// RuleSet is an error-rule table, checked and compiled: the first matching rule counts. It is
// immutable and used from many goroutines.
type RuleSet struct{ rules []compiledRule }

type compiledRule struct {
	rule     carrier.Rule
	contains string // lower case
	pattern  *regexp.Regexp
}

// NewRuleSet checks and compiles the rules, in order of their priority. The error names the first
// rule that cannot be used, and why.
func NewRuleSet(rules []carrier.Rule) (*RuleSet, error) {
	set := &RuleSet{rules: make([]compiledRule, 0, len(rules))}
	for i, rule := range rules {
		compiled, err := compile(rule)
		if err != nil {
			return nil, fmt.Errorf("error rule %s: %w", cmp.Or(rule.Name, fmt.Sprintf("number %d", i+1)), err)
		}
		set.rules = append(set.rules, compiled)
	}
	return set, nil
}

// Classify is (*RuleSet).Classify for rules that are not kept compiled. A rule that NewRuleSet
// would refuse matches nothing.
func Classify(rules []carrier.Rule, e *carrier.Error) Classification {
	set := &RuleSet{}
	for _, rule := range rules {
		if compiled, err := compile(rule); err == nil {
			set.rules = append(set.rules, compiled)
		}
	}
	return set.Classify(e)
}

// Classify says what the error means: by the first matching rule, else by the built-in ones. It
// changes nothing in e. Whatever the rules say, a suspend or resume whose outcome is not known for
// certain is unknown_outcome (C5, C6), and an answer that was not understood is no statement about
// the SIM (F24).
func (s *RuleSet) Classify(e *carrier.Error) Classification {
	if e.Class == carrier.ClassLimited || e.Class == carrier.ClassStopped {
		return Classification{Class: e.Class, RetryAfter: max(e.RetryAfter, 0), Why: "our own gateway held the call back; nothing was sent"}
	}
	c := Classification{RetryAfter: min(max(e.RetryAfter, 0), MaxRetryAfter)}
	for i := range s.rules {
		if s.rules[i].matches(e) {
			rule := s.rules[i].rule
			c.Rule, c.Class = &rule, rule.Class
			c.RetryAfter = max(c.RetryAfter, rule.RetryAfterMin)
			if e.HTTPStatus != 0 && (!e.BadAnswer || rule.NotExecuted) {
				c.Extended, c.ClosePolling, c.NotExecuted = rule.Extended, rule.ClosePolling, rule.NotExecuted
			}
			c.Why = fmt.Sprintf("rule %q matches", rule.Name)
			break
		}
	}
	if c.Rule == nil {
		c.Class, c.Why = builtin(e)
	}
	if class, why := doubt(e, c); class != c.Class {
		c.Class, c.Why = class, c.Why+", but "+why
	}
	return c
}

// Explain tells what Classify finds and what follows for a command, in one sentence (G7).
func (s *RuleSet) Explain(e *carrier.Error) (Classification, string) {
	c := s.Classify(e)
	text := fmt.Sprintf("%s: %s", c.Class, c.Why)
	if c.Extended != "" {
		text += fmt.Sprintf("; sets the extended state to %s", c.Extended)
	}
	if c.ClosePolling {
		text += "; closes the SIM's polling"
	}
	if !e.Operation.ChangesState() {
		return c, text
	}
	next := Backoff(DefaultBackoff(), c.Class, 1, c.RetryAfter)
	text += fmt.Sprintf("; the command goes on as %s", next.State)
	if next.Wait > 0 {
		text += fmt.Sprintf(" after %s", next.Wait)
	}
	return c, text
}

// builtin classifies what no rule knows.
func builtin(e *carrier.Error) (carrier.Class, string) {
	status := e.HTTPStatus
	switch {
	case e.NotSent:
		return carrier.ClassTemporary, "nothing left this machine"
	case status == 0 || status >= 500:
		if e.Operation.ChangesState() {
			return carrier.ClassUnknownOutcome, "the carrier may have acted"
		}
		return carrier.ClassTemporary, "a read that failed can be asked again"
	case status == http.StatusUnauthorized:
		return carrier.ClassAuth, "HTTP 401"
	case e.Operation == simwarden.OpToken && (status == http.StatusBadRequest || status == http.StatusForbidden):
		return carrier.ClassAuth, "the carrier refuses the login"
	case status == http.StatusTooManyRequests:
		return carrier.ClassThrottled, "HTTP 429"
	case status == http.StatusForbidden:
		return carrier.ClassRefused, "HTTP 403"
	case status == http.StatusNotFound:
		return carrier.ClassNotFound, "HTTP 404"
	case status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return carrier.ClassInvalid, fmt.Sprintf("HTTP %d", status)
	case status == http.StatusRequestTimeout && !e.Operation.ChangesState():
		return carrier.ClassTemporary, "HTTP 408"
	}
	return carrier.ClassUnknown, "no rule matches"
}

// doubt takes a class back that the answer does not bear out, and says why.
func doubt(e *carrier.Error, c Classification) (carrier.Class, string) {
	if e.NotSent {
		return c.Class, ""
	}
	if !e.Operation.ChangesState() {
		if e.BadAnswer && c.Class.Terminal() {
			return carrier.ClassUnknown, "the answer was not understood, so it says nothing about the SIM"
		}
		return c.Class, ""
	}
	switch {
	case e.HTTPStatus == 0:
		return carrier.ClassUnknownOutcome, "no answer came: the carrier may have acted"
	case c.NotExecuted:
		return c.Class, ""
	case e.BadAnswer:
		return carrier.ClassUnknownOutcome, "the answer was not understood: the carrier may have acted"
	case e.HTTPStatus >= 500 && c.Class != carrier.ClassAlreadyInState: // which is read before it is believed
		return carrier.ClassUnknownOutcome, "an HTTP 5xx does not say that nothing was done"
	case c.Class == carrier.ClassUnknown:
		return carrier.ClassUnknownOutcome, "a change whose error nobody knows may have been made"
	}
	return c.Class, ""
}

func (r compiledRule) matches(e *carrier.Error) bool {
	rule := r.rule
	switch {
	case rule.Operation != "" && rule.Operation != e.Operation:
		return false
	case rule.ChangesOnly && !e.Operation.ChangesState(), rule.ReadsOnly && e.Operation.ChangesState():
		return false
	case rule.HTTPStatus != 0 && rule.HTTPStatus != e.HTTPStatus && rule.HTTPStatus != e.HTTPStatus/100:
		return false
	case rule.Code != "" && rule.Code != e.Code:
		return false
	case r.contains == "" && r.pattern == nil:
		return true
	}
	message := e.Message[:min(len(e.Message), MaxMessageBytes)]
	if r.contains != "" && !strings.Contains(strings.ToLower(message), r.contains) {
		return false
	}
	return r.pattern == nil || r.pattern.MatchString(message)
}
