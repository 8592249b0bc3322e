package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

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

// RuleWords is an error rule as it is written by an operator. Empty fields match anything.
type RuleWords struct {
	Name              string                  `json:"name" minLength:"1" maxLength:"64"`
	Position          int                     `json:"position,omitempty" minimum:"0" maximum:"1000000" doc:"The lowest is tried first; drivers' rules begin at 1000. 0: 500, or where it is"`
	Operation         simwarden.Operation     `json:"operation,omitempty" doc:"One of the enumeration operation"`
	AppliesTo         string                  `json:"applies_to,omitempty" enum:"all,changes,reads" doc:"Changes are suspend and resume"`
	HTTPStatus        int                     `json:"http_status,omitempty" minimum:"0" maximum:"599" doc:"5 or 4: the whole hundred"`
	Code              string                  `json:"code,omitempty" maxLength:"200" doc:"The carrier's, exact"`
	Contains          string                  `json:"contains,omitempty" maxLength:"256" doc:"A part of the message, in any case; prefer it to a pattern"`
	Pattern           string                  `json:"pattern,omitempty" maxLength:"256" doc:"RE2, of at most 1000 instructions"`
	Class             carrier.Class           `json:"class" doc:"One of the enumeration error_class"`
	Extended          simwarden.ExtendedState `json:"extended_state,omitempty"`
	ClosePolling      bool                    `json:"close_polling,omitempty"`
	NotExecuted       bool                    `json:"not_executed,omitempty" doc:"The carrier documents that such a suspend or resume was not carried out"`
	RetryAfterSeconds int                     `json:"retry_after_seconds,omitempty" minimum:"0" maximum:"86400"`
	DryRun            bool                    `json:"dry_run,omitempty" doc:"Only say what to mind and what it would have changed"`
}

func (w RuleWords) rule() carrier.Rule {
	return carrier.Rule{Name: w.Name, Operation: w.Operation, ChangesOnly: w.AppliesTo == "changes", ReadsOnly: w.AppliesTo == "reads", HTTPStatus: w.HTTPStatus,
		Code: w.Code, Contains: w.Contains, Pattern: w.Pattern, Class: w.Class, Extended: w.Extended, ClosePolling: w.ClosePolling,
		NotExecuted: w.NotExecuted, RetryAfterMin: time.Duration(w.RetryAfterSeconds) * time.Second}
}

// RulePath names an error rule.
type RulePath struct {
	ID int64 `path:"id" minimum:"1"`
}

type errorRuleAdd struct {
	Body struct {
		Driver string `json:"driver" minLength:"1" maxLength:"64"`
		RuleWords
	} `nameHint:"ErrorRuleRequest"`
}

type errorRuleChange struct {
	RulePath
	Body RuleWords `nameHint:"ErrorRuleChange"`
}

type errorRuleMove struct {
	RulePath
	Body struct {
		Position int  `json:"position" minimum:"1" maximum:"1000000"`
		DryRun   bool `json:"dry_run,omitempty" doc:"Only say what to mind and what it would have changed"`
	} `nameHint:"ErrorRuleMove"`
}

type errorRuleDelete struct {
	RulePath
	DryRun bool `query:"dry_run" doc:"Only say what it would have changed"`
}

// SavedRuleView is a rule as it is, or was, with what to mind.
type SavedRuleView struct {
	Rule     ErrorRuleView `json:"rule"`
	Warnings []string      `json:"warnings"`
	Effect   RuleEffect    `json:"last_day" doc:"What it would have changed among the last day's failed suspends and resumes"`
}

func viewSavedRule(s SavedRule) SavedRuleView {
	return SavedRuleView{viewErrorRule(s.Rule), s.Warnings, s.Effect}
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
	on(r, get("/error-rules/{id}", "get-error-rule", "Get one error rule"), func(ctx context.Context, in *RulePath) (ErrorRuleView, error) {
		row, err := r.service.ErrorRule(ctx, in.ID)
		return viewErrorRule(row), err
	})
	on(r, post("/error-rules", "add-error-rule", "Add an error rule"), func(ctx context.Context, in *errorRuleAdd) (SavedRuleView, error) {
		saved, err := r.service.SaveErrorRule(ctx, store.ErrorRule{Driver: in.Body.Driver, Position: in.Body.Position, Rule: in.Body.rule()}, in.Body.DryRun, actorOf(ctx))
		return viewSavedRule(saved), err
	})
	on(r, put("/error-rules/{id}", "change-error-rule", "Write an error rule anew; a driver's is the operator's from then on"),
		func(ctx context.Context, in *errorRuleChange) (SavedRuleView, error) {
			saved, err := r.service.SaveErrorRule(ctx, store.ErrorRule{ID: in.ID, Position: in.Body.Position, Rule: in.Body.rule()}, in.Body.DryRun, actorOf(ctx))
			return viewSavedRule(saved), err
		})
	on(r, post("/error-rules/{id}/move", "move-error-rule", "Give an error rule another position"), func(ctx context.Context, in *errorRuleMove) (SavedRuleView, error) {
		saved, err := r.service.MoveErrorRule(ctx, in.ID, in.Body.Position, in.Body.DryRun, actorOf(ctx))
		return viewSavedRule(saved), err
	})
	on(r, remove("/error-rules/{id}", "delete-error-rule", "Delete an error rule"), func(ctx context.Context, in *errorRuleDelete) (SavedRuleView, error) {
		saved, err := r.service.DeleteErrorRule(ctx, in.ID, in.DryRun, actorOf(ctx))
		return viewSavedRule(saved), err
	})
	on(r, looks(post("/error-rules/test", "test-error", "Say which rule an upstream error meets, and what would follow")),
		func(ctx context.Context, in *errorRuleTest) (ErrorVerdict, error) {
			b := in.Body
			return r.service.TestError(ctx, ErrorTest{Driver: b.Driver, Operation: b.Operation, HTTPStatus: b.HTTPStatus, Code: b.Code, Message: b.Message, BadAnswer: b.BadAnswer})
		})
}

func put(path, id, summary string) huma.Operation {
	return huma.Operation{Method: http.MethodPut, Path: path, OperationID: id, Summary: summary}
}

func remove(path, id, summary string) huma.Operation {
	return huma.Operation{Method: http.MethodDelete, Path: path, OperationID: id, Summary: summary}
}
