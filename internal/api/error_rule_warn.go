package api

import (
	"fmt"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// ruleWarnings says what to mind of the rule at a place in a driver's list.
func ruleWarnings(list []store.ErrorRule, at int) []string {
	out := []string{}
	r := list[at].Rule
	if anyAnswer(r) {
		out = append(out, "it matches every error "+ofWhat(r)+"; nothing behind it is asked for them")
	}
	for _, before := range list[:at] {
		if covers(before.Rule, r) {
			out = append(out, fmt.Sprintf("it is never asked: %q at position %d matches all that it does", before.Rule.Name, before.Position))
			break
		}
	}
	var hidden []string
	for _, behind := range list[at+1:] {
		if covers(r, behind.Rule) {
			hidden = append(hidden, fmt.Sprintf("%q", behind.Rule.Name))
		}
	}
	if len(hidden) > 0 {
		out = append(out, clip("never asked any more, since it matches all that they do: "+strings.Join(hidden, ", "), 1000))
	}
	return out
}

func ofWhat(r carrier.Rule) string {
	switch {
	case r.Operation != "":
		return "of " + string(r.Operation)
	case r.ChangesOnly:
		return "of suspend and resume"
	case r.ReadsOnly:
		return "of everything but suspend and resume"
	}
	return "there is"
}

// anyAnswer says that a rule asks for nothing of an error but its operation.
func anyAnswer(r carrier.Rule) bool {
	return r.HTTPStatus == 0 && r.Code == "" && anyMessage(r)
}

// anyMessage says that a rule takes every message: it asks for none, or for what each has. A pattern is
// tried on texts that have nothing in common.
func anyMessage(r carrier.Rule) bool {
	if r.Contains != "" {
		return false
	}
	if r.Pattern == "" {
		return true
	}
	set, err := rules.NewRuleSet([]carrier.Rule{{Name: "pattern", Class: r.Class, Pattern: r.Pattern}})
	if err != nil {
		return false
	}
	for _, message := range []string{"", "0", "zq", "余额不足", "Internal Server Error\n!"} {
		if set.Classify(&carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 400, Message: message}).Rule == nil {
			return false
		}
	}
	return true
}

// covers says that a matches whatever b does, as far as can be told from their fields.
func covers(a, b carrier.Rule) bool {
	switch {
	case a.Operation != "" && a.Operation != b.Operation,
		a.ChangesOnly && !b.ChangesOnly && !b.Operation.ChangesState(),
		a.ReadsOnly && !b.ReadsOnly && (b.Operation == "" || b.Operation.ChangesState()),
		a.HTTPStatus != 0 && a.HTTPStatus != b.HTTPStatus && a.HTTPStatus != b.HTTPStatus/100,
		a.Code != "" && a.Code != b.Code,
		a.Contains != "" && !strings.Contains(strings.ToLower(b.Contains), strings.ToLower(a.Contains)):
		return false
	}
	return a.Pattern == "" || a.Pattern == b.Pattern || anyMessage(carrier.Rule{Class: a.Class, Pattern: a.Pattern})
}
