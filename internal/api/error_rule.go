package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrorTest is an upstream error to try on a driver's rules (G7). HTTPStatus 0 is no answer.
type ErrorTest struct {
	Driver     string
	Operation  simwarden.Operation
	HTTPStatus int
	Code       string
	Message    string
	BadAnswer  bool // an answer came that was not understood
}

// ErrorVerdict is what would follow from it.
type ErrorVerdict struct {
	Class             carrier.Class           `json:"class"`
	Rule              string                  `json:"rule,omitempty"` // empty: none matched
	Why               string                  `json:"why"`
	Explanation       string                  `json:"explanation"`
	Extended          simwarden.ExtendedState `json:"extended_state,omitempty"`
	ClosePolling      bool                    `json:"close_polling"`
	NotExecuted       bool                    `json:"not_executed"`
	RetryAfterSeconds float64                 `json:"retry_after_seconds,omitempty"`
}

// ErrorRules lists the rules of a driver, or of all where driver is empty, in their order.
func (s *Service) ErrorRules(ctx context.Context, driver string) ([]store.ErrorRule, error) {
	if driver != "" {
		if _, err := carrier.Lookup(driver); err != nil {
			return nil, badInput("%v", err)
		}
	}
	if err := s.Store.EnsureRules(ctx); err != nil {
		return nil, err
	}
	return s.Store.ErrorRules(ctx, driver)
}

const maxErrorText = 2000

// TestError says what the driver's rules make of an error, as the gateway would (S25).
func (s *Service) TestError(ctx context.Context, t ErrorTest) (ErrorVerdict, error) {
	if _, err := carrier.Lookup(t.Driver); err != nil {
		return ErrorVerdict{}, badInput("%v", err)
	}
	switch {
	case !isOneOf(t.Operation, simwarden.Operations()):
		return ErrorVerdict{}, notOneOf("operation", t.Operation, simwarden.Operations())
	case t.HTTPStatus != 0 && (t.HTTPStatus < 100 || t.HTTPStatus > 599):
		return ErrorVerdict{}, badInput("an HTTP status of %d: give 100 to 599, or 0 for no answer", t.HTTPStatus)
	case len(t.Message) > maxErrorText || len(t.Code) > maxErrorText:
		return ErrorVerdict{}, badInput("a code or message has at most %d bytes", maxErrorText)
	}
	rows, err := s.ErrorRules(ctx, t.Driver)
	if err != nil {
		return ErrorVerdict{}, err
	}
	list := make([]carrier.Rule, len(rows))
	for i, row := range rows {
		list[i] = row.Rule
	}
	set, err := rules.NewRuleSet(list)
	if err != nil {
		return ErrorVerdict{}, badInput("the rules of driver %s cannot be used: %v", t.Driver, err)
	}
	c, text := set.Explain(&carrier.Error{Operation: t.Operation, HTTPStatus: t.HTTPStatus, Code: t.Code, Message: t.Message, BadAnswer: t.BadAnswer})
	v := ErrorVerdict{Class: c.Class, Why: c.Why, Explanation: text, Extended: c.Extended, ClosePolling: c.ClosePolling,
		NotExecuted: c.NotExecuted, RetryAfterSeconds: c.RetryAfter.Seconds()}
	if c.Rule != nil {
		v.Rule = c.Rule.Name
	}
	return v, nil
}
