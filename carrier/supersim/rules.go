package supersim

import (
	"github.com/simwarden/simwarden/carrier"
)

// rules are the default error rules: the documented codes, then the statuses.
func rules() []carrier.Rule {
	out := []carrier.Rule{
		{Name: "the SIM is not in the list's answer", Code: carrier.CodeNoSuchSIM, Class: carrier.ClassNotFound},
		// Documented as not executed and safe to repeat.
		{Name: "20429: too many requests at a time", Code: "20429", Class: carrier.ClassThrottled, NotExecuted: true},
		{Name: "70005: too many failing requests", Code: "70005", Class: carrier.ClassThrottled},
		{Name: "83009: an update is already scheduled", Code: "83009", Class: carrier.ClassInProgress, NotExecuted: true},
		{Name: "33010: a conflicting update is running", Code: "33010", Class: carrier.ClassTemporary, NotExecuted: true},
	}
	for _, group := range []struct {
		class carrier.Class
		codes []string
		what  string
	}{
		{carrier.ClassAuth, []string{"20003"}, "authentication"},
		{carrier.ClassRefused, []string{"20006", "33201"}, "denied"},
		{carrier.ClassNotFound, []string{"20404", "83005", "33107"}, "not found"},
		{carrier.ClassInvalid, []string{"20001", "20002", "83600", "83601", "83602", "83603", "83604", "83605"}, "bad request"},
		{carrier.ClassInvalid, []string{"83007"}, "the SIM has no fleet"},
		{carrier.ClassInvalid, []string{"83010", "33105"}, "transition not allowed"},
		{carrier.ClassInvalid, []string{"83011"}, "name taken"},
		{carrier.ClassInvalid, []string{"33119", "33120"}, "reset not possible"},
	} {
		for _, code := range group.codes {
			out = append(out, carrier.Rule{Name: code + ": " + group.what, Code: code, Class: group.class})
		}
	}
	for _, code := range []string{"20500", "20503", "83000", "83004", "33004"} {
		// Nothing says that a change that ended so was not made.
		out = append(out,
			carrier.Rule{Name: code + ": server error on a change", ChangesOnly: true, Code: code, Class: carrier.ClassUnknownOutcome},
			carrier.Rule{Name: code + ": server error on a read", ReadsOnly: true, Code: code, Class: carrier.ClassTemporary})
	}
	return append(out,
		carrier.Rule{Name: "429: too many requests", HTTPStatus: 429, Class: carrier.ClassThrottled},
		carrier.Rule{Name: "401: credentials refused", HTTPStatus: 401, Class: carrier.ClassAuth},
		carrier.Rule{Name: "403: not permitted", HTTPStatus: 403, Class: carrier.ClassRefused},
		carrier.Rule{Name: "404: no such SIM", HTTPStatus: 404, Class: carrier.ClassNotFound},
		carrier.Rule{Name: "400: bad request", HTTPStatus: 400, Class: carrier.ClassInvalid},
		carrier.Rule{Name: "5xx on a change", ChangesOnly: true, HTTPStatus: 5, Class: carrier.ClassUnknownOutcome},
		carrier.Rule{Name: "5xx on a read", ReadsOnly: true, HTTPStatus: 5, Class: carrier.ClassTemporary},
	)
}
