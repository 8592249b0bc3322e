package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
)

// ErrorRuleView is a row of the error-rule table as it is written. Empty fields match anything.
type ErrorRuleView struct {
	ID                int64                   `json:"id"`
	Driver            string                  `json:"driver"`
	Position          int                     `json:"position"`
	Origin            store.RuleOrigin        `json:"origin"`
	Name              string                  `json:"name"`
	Operation         simwarden.Operation     `json:"operation,omitempty"`
	AppliesTo         string                  `json:"applies_to" enum:"all,changes,reads"`
	HTTPStatus        int                     `json:"http_status,omitempty" doc:"5 or 4: the whole hundred"`
	Code              string                  `json:"code,omitempty"`
	Contains          string                  `json:"contains,omitempty"`
	Pattern           string                  `json:"pattern,omitempty"`
	Class             carrier.Class           `json:"class"`
	Extended          simwarden.ExtendedState `json:"extended_state,omitempty"`
	ClosePolling      bool                    `json:"close_polling"`
	NotExecuted       bool                    `json:"not_executed"`
	RetryAfterSeconds float64                 `json:"retry_after_seconds,omitempty"`
}

type errorRuleList struct {
	Driver string `query:"driver" maxLength:"64"`
}

type errorRuleTest struct {
	Body struct {
		Driver     string              `json:"driver" minLength:"1" maxLength:"64"`
		Operation  simwarden.Operation `json:"operation" doc:"One of the enumeration operation"`
		HTTPStatus int                 `json:"http_status,omitempty" minimum:"0" maximum:"599" doc:"0: no answer came"`
		Code       string              `json:"code,omitempty" maxLength:"200"`
		Message    string              `json:"message,omitempty" maxLength:"2000"`
		BadAnswer  bool                `json:"bad_answer,omitempty" doc:"An answer came that was not understood"`
	} `nameHint:"ErrorTestRequest"`
}

func viewErrorRule(row store.ErrorRule) ErrorRuleView {
	v := ErrorRuleView{ID: row.ID, Driver: row.Driver, Position: row.Position, Origin: row.Origin, Name: row.Rule.Name, Operation: row.Rule.Operation,
		AppliesTo: "all", HTTPStatus: row.Rule.HTTPStatus, Code: row.Rule.Code, Contains: row.Rule.Contains, Pattern: row.Rule.Pattern,
		Class: row.Rule.Class, Extended: row.Rule.Extended, ClosePolling: row.Rule.ClosePolling, NotExecuted: row.Rule.NotExecuted,
		RetryAfterSeconds: row.Rule.RetryAfterMin.Seconds()}
	switch {
	case row.Rule.ChangesOnly:
		v.AppliesTo = "changes"
	case row.Rule.ReadsOnly:
		v.AppliesTo = "reads"
	}
	return v
}

func (r *rest) errorRules() {
	on(r, get("/error-rules", "list-error-rules", "List the error rules, in the order in which they are tried"),
		func(ctx context.Context, in *errorRuleList) (items[ErrorRuleView], error) {
			list, err := r.service.ErrorRules(ctx, in.Driver)
			out := items[ErrorRuleView]{Items: make([]ErrorRuleView, len(list))}
			for i, row := range list {
				out.Items[i] = viewErrorRule(row)
			}
			return out, err
		})
	on(r, post("/error-rules/test", "test-error", "Say which rule an upstream error meets, and what would follow"),
		func(ctx context.Context, in *errorRuleTest) (ErrorVerdict, error) {
			b := in.Body
			return r.service.TestError(ctx, ErrorTest{Driver: b.Driver, Operation: b.Operation, HTTPStatus: b.HTTPStatus, Code: b.Code, Message: b.Message, BadAnswer: b.BadAnswer})
		})
}
