package onelink

import (
	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// rules are the default error rules: the carrier's codes within HTTP 200, then the statuses of what
// stands before it. Codes for throttling are not known.
//
// Source: the codes that public clients of OneLink v5 name. What the carrier refuses by a code of
// this table it has not done.
func rules() []carrier.Rule {
	risk := func(name, code string) carrier.Rule {
		return carrier.Rule{Name: name, Code: code, Class: carrier.ClassRiskSuspended,
			Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true, NotExecuted: true}
	}
	out := []carrier.Rule{
		{Name: "the SIM is not in the answer", Code: carrier.CodeNoSuchSIM, Class: carrier.ClassNotFound},
		{Name: "the order came to nothing", Code: codeOrderFailed, Class: carrier.ClassTemporary, NotExecuted: true},
		// S8: only what the customer stopped may the customer start.
		risk("12141: stopped by risk control", "12141"),
		risk("12098: stopped by risk control", "12098"),
		{Name: "the message tells of a stop by risk control", ChangesOnly: true, HTTPStatus: 200, Contains: "风险停机",
			Class: carrier.ClassRiskSuspended, Extended: simwarden.ExtendedRiskSuspended, ClosePolling: true, NotExecuted: true},
		{Name: "12021: token missing or expired", Code: codeTokenExpired, Class: carrier.ClassAuth, NotExecuted: true},
		{Name: "12047: stopped already", Code: "12047", Class: carrier.ClassAlreadyInState},
		{Name: "12048: started already", Code: "12048", Class: carrier.ClassAlreadyInState},
	}
	for _, row := range []struct {
		code, what string
		class      carrier.Class
	}{
		{"12004", "wrong appid or password", carrier.ClassAuth},
		{"12022", "wrong transid", carrier.ClassAuth},
		{"11000", "bad request", carrier.ClassInvalid},
		{"11011", "not on this platform", carrier.ClassNotFound},
		{"12010", "not in the system", carrier.ClassNotFound},
		{"12009", "another customer's SIM", carrier.ClassRefused},
		{"12089", "the state does not allow it", carrier.ClassInvalid},
		{"12099", "the plan at the carrier has expired", carrier.ClassRefused},
		{"12100", "over the quota at the carrier", carrier.ClassRefused},
		{"12199", "the capability is not ordered", carrier.ClassRefused},
	} {
		out = append(out, carrier.Rule{Name: row.code + ": " + row.what, Code: row.code, Class: row.class, NotExecuted: true})
	}
	return append(out,
		carrier.Rule{Name: "429: too many requests", HTTPStatus: 429, Class: carrier.ClassThrottled},
		carrier.Rule{Name: "401: credentials refused", HTTPStatus: 401, Class: carrier.ClassAuth},
		carrier.Rule{Name: "login refused", Operation: simwarden.OpToken, HTTPStatus: 4, Class: carrier.ClassAuth},
		carrier.Rule{Name: "403: not permitted", HTTPStatus: 403, Class: carrier.ClassRefused},
		carrier.Rule{Name: "404: no such SIM", HTTPStatus: 404, Class: carrier.ClassNotFound},
		carrier.Rule{Name: "400: bad request", HTTPStatus: 400, Class: carrier.ClassInvalid},
		carrier.Rule{Name: "5xx on a change", ChangesOnly: true, HTTPStatus: 5, Class: carrier.ClassUnknownOutcome},
		carrier.Rule{Name: "5xx on a read", ReadsOnly: true, HTTPStatus: 5, Class: carrier.ClassTemporary},
	)
}
