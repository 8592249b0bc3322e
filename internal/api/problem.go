package api

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// Problem is an error as callers get it: RFC 9457, problem details for HTTP APIs. It never holds
// what was sent, nor anything of the inside (B20).
type Problem struct {
	Type   string         `json:"type" doc:"Names the kind of problem: urn:simwarden:problem: and the code"`
	Title  string         `json:"title" doc:"The HTTP status in words"`
	Status int            `json:"status" doc:"The HTTP status"`
	Code   string         `json:"code" doc:"The kind of problem, for programs"`
	Detail string         `json:"detail" doc:"What is wrong, for people"`
	Hint   string         `json:"hint,omitempty" doc:"What to do, where the detail does not say it"`
	ID     string         `json:"id,omitempty" doc:"Of this request, as in the server's log"`
	Errors []ProblemField `json:"errors,omitempty" doc:"Each thing that is wrong with the request"`
	Funds  *ProblemFunds  `json:"funds,omitempty" doc:"With insufficient_funds: what the wallet has and what is to pay"`
}

// ProblemFunds are the amounts of a wallet that cannot pay.
type ProblemFunds struct {
	Wallet      string          `json:"wallet"`
	Balance     simwarden.Money `json:"balance"`
	CreditLimit simwarden.Money `json:"credit_limit"`
	Price       simwarden.Money `json:"price"`
}

// ProblemField is one thing that is wrong with a request.
type ProblemField struct {
	Location string `json:"location" doc:"For example body.reason or query.limit"`
	Message  string `json:"message"`
}

// Error is the detail.
func (p *Problem) Error() string { return p.Detail }

// GetStatus is the HTTP status, for huma.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is application/problem+json (RFC 9457 section 3), for huma.
func (p *Problem) ContentType(string) string { return problemType }

const (
	problemType = "application/problem+json"
	problemURN  = "urn:simwarden:problem:"
)

// problems is the one table that says what an error of an operation is to a caller. The text of an
// error in it is shown; what is not in it is a 500 whose text goes to the log alone.
var problems = []struct {
	is     func(error) bool
	status int
	code   string
}{
	{as(ErrUnauthorized), http.StatusUnauthorized, "unauthorized"},
	{as(ErrBadInput), http.StatusUnprocessableEntity, "bad_input"},
	{as(plans.ErrPlanInvalid), http.StatusUnprocessableEntity, "plan_invalid"},
	{as(plans.ErrPoolInvalid), http.StatusUnprocessableEntity, "pool_invalid"},
	{as(plans.ErrWithdrawn), http.StatusConflict, "plan_withdrawn"},
	{as(plans.ErrBegun), http.StatusConflict, "begun_already"},
	{as(plans.ErrEndedAlready), http.StatusConflict, "ended_already"},
	{as(store.ErrAmbiguousICCID), http.StatusConflict, "ambiguous_iccid"},
	{as(store.ErrAccountExists), http.StatusConflict, "account_exists"},
	{as(store.ErrLimitGroupExists), http.StatusConflict, "limit_group_exists"},
	{as(store.ErrDeviceExists), http.StatusConflict, "device_exists"},
	{as(store.ErrBound), http.StatusConflict, "bound_already"},
	{as(store.ErrNotBound), http.StatusConflict, "not_bound"},
	{as(reconcile.ErrOwnPlans), http.StatusConflict, "own_plans"},
	{as(reconcile.ErrPlansCollide), http.StatusConflict, "plans_collide"},
	{as(reconcile.ErrOwnPool), http.StatusConflict, "own_pool"},
	{as(reconcile.ErrDeviceFull), http.StatusConflict, "device_full"},
	{as(store.ErrRuleExists), http.StatusConflict, "error_rule_exists"},
	{as(store.ErrPlanExists), http.StatusConflict, "plan_exists"},
	{as(store.ErrPoolExists), http.StatusConflict, "pool_exists"},
	{as(store.ErrKeepTime), http.StatusUnprocessableEntity, "keep_time_invalid"},
	{as(store.ErrWalletExists), http.StatusConflict, "wallet_exists"},
	{as(ledger.ErrKeyReused), http.StatusConflict, "key_reused"},
	{as(store.ErrKeyInFlight), http.StatusConflict, "key_in_flight"},
	{as(ledger.ErrPaidAlready), http.StatusConflict, "paid_already"},
	{as(ledger.ErrHoldEnded), http.StatusConflict, "hold_ended"},
	{as(ledger.ErrLimitInUse), http.StatusConflict, "limit_in_use"},
	{as(ledger.ErrInsufficientFunds), http.StatusPaymentRequired, "insufficient_funds"},
	{as(ledger.ErrNoWallet), http.StatusUnprocessableEntity, "no_wallet"},
	{as(ledger.ErrNotPaid), http.StatusUnprocessableEntity, "not_paid"},
	{as(ledger.ErrAbovePurchase), http.StatusUnprocessableEntity, "above_purchase"},
	{as(ledger.ErrAboveHold), http.StatusUnprocessableEntity, "above_hold"},
	{as(ledger.ErrStatement), http.StatusUnprocessableEntity, "statement_invalid"},
	{as(ledger.ErrCurrency), http.StatusUnprocessableEntity, "currency_does_not_fit"},
	{as(ledger.ErrAmount), http.StatusUnprocessableEntity, "amount_invalid"},
	{as(ledger.ErrBadRequest), http.StatusUnprocessableEntity, "bad_input"},
	{func(err error) bool { return errors.As(err, new(*store.TooManyCalls)) }, http.StatusTooManyRequests, "too_many_calls"},
	{as(ErrNoAsker), http.StatusServiceUnavailable, "no_carriers"},
	{as(ErrExportsBusy), http.StatusServiceUnavailable, "exports_busy"},
	{as(store.ErrNotFound), http.StatusNotFound, "not_found"},
}

// passing are the errors of which nothing is shown but that asking again may help.
var passing = []struct {
	is     func(error) bool
	code   string
	detail string
}{
	{store.IsDiskFull, "database_full", "the database has no room left to write"},
	{as(context.DeadlineExceeded), "too_slow", "this took too long; nothing was changed unless a later look says so"},
	{as(context.Canceled), "cancelled", "the request was cancelled"},
	{store.IsUnavailable, "database_unavailable", "the database does not answer; ask again"},
}

func as(target error) func(error) bool {
	return func(err error) bool { return errors.Is(err, target) }
}

// statusCodes names the problems that HTTP itself makes.
var statusCodes = map[int]string{
	http.StatusBadRequest:            "bad_request",
	http.StatusForbidden:             "forbidden",
	http.StatusNotFound:              "no_such_route",
	http.StatusMethodNotAllowed:      "method_not_allowed",
	http.StatusNotAcceptable:         "not_acceptable",
	http.StatusRequestTimeout:        "body_too_slow",
	http.StatusRequestEntityTooLarge: "body_too_large",
	http.StatusUnsupportedMediaType:  "json_only",
	http.StatusUnprocessableEntity:   "bad_input",
	http.StatusServiceUnavailable:    "not_ready",
}

func newProblem(status int, code, detail string) *Problem {
	return &Problem{Type: problemURN + code, Title: http.StatusText(status), Status: status, Code: code, Detail: detail, Hint: hints[code]}
}

func init() {
	// These are huma's only knobs for the whole process. Its own errors echo what was sent (B20), and
	// its arrays may be null.
	huma.NewError = func(status int, message string, errs ...error) huma.StatusError {
		return validationProblem(status, message, errs)
	}
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, errs ...error) huma.StatusError {
		p := validationProblem(status, message, errs)
		p.ID = requestID(ctx.Context())
		sayKnown(p, ctx.Operation())
		return p
	}
	huma.DefaultArrayNullable = false
	huma.ValidateStrictCasing = true
}

const maxProblemFields = 20

// validationProblem is a problem that huma found.
func validationProblem(status int, message string, errs []error) *Problem {
	code, known := statusCodes[status]
	if !known {
		code = "internal"
	}
	if status >= http.StatusInternalServerError {
		return newProblem(status, code, unexpected)
	}
	p := newProblem(status, code, message)
	if p.Hint == "" && len(errs) > 0 {
		p.Hint = "correct what errors names; GET /api/v1/openapi.json describes this operation"
	}
	for i, err := range errs {
		var d huma.ErrorDetailer
		if i == maxProblemFields || !errors.As(err, &d) {
			break
		}
		p.Errors = append(p.Errors, problemField(d.ErrorDetail()))
	}
	return p
}

func problemField(d *huma.ErrorDetail) ProblemField {
	f := ProblemField{Location: clip(d.Location, 200), Message: clip(d.Message, 300)}
	if d.Location == "body" && d.Value != nil {
		if _, whole := d.Value.(string); whole { // the decoder's words tell of our types, or quote
			f.Message = "this is not the JSON that is expected here"
		}
	}
	return f
}

func clip(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[:n], "") + "…"
}

const unexpected = "something went wrong on our side; the server's log tells more under this id"

// problemOf finds an error in the tables. Where it is in neither it logs it.
func problemOf(ctx context.Context, log *slog.Logger, err error) *Problem {
	id := requestID(ctx)
	for _, row := range problems {
		if row.is(err) {
			p := newProblem(row.status, row.code, told(err))
			p.ID = id
			if short, ok := errors.AsType[*ledger.InsufficientFunds](err); ok {
				p.Funds = &ProblemFunds{short.Wallet, short.Balance, short.CreditLimit, short.Price}
			}
			return p
		}
	}
	p := newProblem(http.StatusInternalServerError, "internal", unexpected)
	for _, row := range passing {
		if row.is(err) {
			p = newProblem(http.StatusServiceUnavailable, row.code, row.detail)
			break
		}
	}
	p.ID = id
	log.LogAttrs(ctx, slog.LevelError, "request failed", slog.String("request", id), slog.String("problem", p.Code), slog.String("error", err.Error()))
	return p
}

// told is an error's text without the word for its kind, which the code says.
func told(err error) string { return strings.TrimPrefix(err.Error(), ErrBadInput.Error()+": ") }

// writeProblem answers with a problem, outside huma.
func writeProblem(w http.ResponseWriter, r *http.Request, p *Problem) {
	if p.ID == "" {
		p.ID = requestID(r.Context())
	}
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	if r.Method != http.MethodHead {
		_ = json.NewEncoder(w).Encode(p) // whoever asked has gone
	}
}
