package soracom

import (
	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// rules are the default error rules. Soracom's definition lists bare statuses and no table of
// codes, so the status decides; the code is kept as opaque text.
func rules() []carrier.Rule {
	return []carrier.Rule{
		{Name: "the SIM is not in the search's answer", Code: carrier.CodeNoSuchSIM, Class: carrier.ClassNotFound},
		{Name: "SEM0016: no session to delete", Code: "SEM0016", Class: carrier.ClassAlreadyInState},
		{Name: "429: too many requests", HTTPStatus: 429, Class: carrier.ClassThrottled},
		{Name: "401: key or token refused", HTTPStatus: 401, Class: carrier.ClassAuth},
		{Name: "login refused", Operation: simwarden.OpToken, HTTPStatus: 4, Class: carrier.ClassAuth},
		{Name: "403: not permitted", HTTPStatus: 403, Class: carrier.ClassRefused},
		{Name: "404: no such SIM", HTTPStatus: 404, Class: carrier.ClassNotFound},
		{Name: "400: bad request or wrong state", HTTPStatus: 400, Class: carrier.ClassInvalid},
		{Name: "5xx on a change", ChangesOnly: true, HTTPStatus: 5, Class: carrier.ClassUnknownOutcome},
		{Name: "5xx on a read", ReadsOnly: true, HTTPStatus: 5, Class: carrier.ClassTemporary},
	}
}
