package api

import (
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"
)

// hints say what to do about a problem, by its code. A problem whose detail says it has none.
var hints = map[string]string{
	"unauthorized":          "send the header Authorization: Bearer sw_…; a revoked token is no longer good",
	"bad_request":           "compare the request with GET /api/v1/openapi.json",
	"no_such_route":         "GET /api/v1/openapi.json lists what there is",
	"method_not_allowed":    "the header Allow says which methods this path takes",
	"not_acceptable":        "leave the header Accept out, or accept application/json",
	"json_only":             "send the body as JSON",
	"body_too_large":        "send less at a time; large lists of SIMs go to /bulk or into simwarden import",
	"body_too_slow":         "send the request again",
	"not_found":             "see the list of what there is, such as GET /api/v1/sims?search= and the beginning of the ICCID",
	"plan_invalid":          "correct the plan; docs: when plans begin, and billing months",
	"keep_time_invalid":     "give a time within the bounds that the detail names",
	"pool_invalid":          "correct the pool",
	"plan_withdrawn":        "buy another plan, or sell this one again: PATCH /api/v1/plans/{code} with withdrawn false",
	"begun_already":         "take it back with POST /api/v1/subscriptions/{id}/refund",
	"ended_already":         "look at what it is now; a subscription ends once",
	"ambiguous_iccid":       "give the ICCID with its check digit",
	"account_exists":        "choose another name, or change the account that is there",
	"limit_group_exists":    "choose another name, or change the group that is there",
	"device_exists":         "use the device that is there",
	"bound_already":         "unbind the SIM from its device first",
	"not_bound":             "see which SIMs the device has: GET /api/v1/devices/{imei}",
	"own_plans":             "send move_plans to make the SIM's plans the device's, or refund them first",
	"plans_collide":         "refund or end one of the two main plans first",
	"own_pool":              "take the SIM out of its pool first",
	"device_full":           "unbind a SIM from the device first",
	"error_rule_exists":     "choose another name, or change the rule that is there with PUT",
	"plan_exists":           "choose another code; a plan that is sold stays as it is",
	"pool_exists":           "choose another name, or change the pool that is there",
	"wallet_exists":         "choose another name, or use the wallet that is there",
	"key_reused":            "take a new key for a new request; the old key gives the old answer to the old request alone",
	"key_in_flight":         "wait a second, then send it again with the same key",
	"paid_already":          "nothing is to be done: it was paid",
	"hold_ended":            "place a new hold",
	"limit_in_use":          "top the wallet up first, or give a higher limit",
	"insufficient_funds":    "top the wallet up, or raise its credit limit; funds has the amounts",
	"no_wallet":             "assign a wallet: POST /api/v1/sims/{iccid}/wallet",
	"not_paid":              "refund it without an amount",
	"above_purchase":        "give less, or leave the amount out for all that is left",
	"above_hold":            "capture less, or nothing for all of it",
	"statement_invalid":     "correct the rows that the detail names",
	"currency_does_not_fit": "give the amount in the currency of the wallet or purchase",
	"amount_invalid":        "give a positive whole number of minor units",
	"too_many_calls":        "wait as long as the detail says; SIMs are read by themselves, and GET /api/v1/sims/{iccid} tells when they were",
	"no_carriers":           "ask a node that polls",
	"exports_busy":          "ask again in a minute",
	"forbidden":             "ask with a token that may do this",
	"cross_origin":          "call the API from a program, not from a page of another site",
	"loopback_only":         "ask on the machine itself, without a proxy",
	"not_ready":             "wait until it has started; its log says more",
	"internal":              "look for the id in the server's log; if it goes on, report it",
	"database_full":         "free some space on the database's disk, then ask again",
	"database_unavailable":  "ask again; if it goes on, see that the database runs",
	"too_slow":              "ask again, for less at a time",
	"cancelled":             "ask again if it is still wanted",
}

// What huma says of names that an operation does not know.
const (
	unknownQuery = "unknown query parameter"
	unknownField = "unexpected property"
)

const keyKnown = "known"

// knownNames are the names that an operation knows: query parameters under "query", fields under the place
// in the body, such as "body" and "body.filter".
type knownNames map[string][]string

// learnKnown finds an operation's names in the document.
func learnKnown(doc *huma.OpenAPI, op *huma.Operation) knownNames {
	k := knownNames{}
	for _, p := range op.Parameters {
		if p.In == "query" {
			k["query"] = append(k["query"], p.Name)
		}
	}
	if op.RequestBody != nil && op.RequestBody.Content["application/json"] != nil {
		k.learn(doc, "body", op.RequestBody.Content["application/json"].Schema, 0)
	}
	return k
}

// learn keeps with an operation, which has been registered, what it knows.
func (r *rest) learn(op huma.Operation) {
	item := r.api.OpenAPI().Paths[op.Path]
	for _, registered := range []*huma.Operation{item.Get, item.Post, item.Put, item.Patch, item.Delete} {
		if registered != nil && registered.Method == op.Method {
			op.Metadata[keyKnown] = learnKnown(r.api.OpenAPI(), registered)
		}
	}
}

// maxNesting is how deep bodies are looked at.
const maxNesting = 4

func (k knownNames) learn(doc *huma.OpenAPI, place string, s *huma.Schema, depth int) {
	if s != nil && s.Ref != "" {
		s = doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	if s == nil || depth > maxNesting {
		return
	}
	if s.Items != nil {
		k.learn(doc, place+"[]", s.Items, depth+1)
	}
	for name, property := range s.Properties {
		k[place] = append(k[place], name)
		k.learn(doc, place+"."+name, property, depth+1)
	}
	slices.Sort(k[place])
}

// sayKnown lists what there is where a request has something that there is not.
func sayKnown(p *Problem, op *huma.Operation) {
	if op == nil {
		return
	}
	k, _ := op.Metadata[keyKnown].(knownNames)
	for i, f := range p.Errors {
		place, ok := "query", strings.Contains(f.Message, unknownQuery)
		if strings.Contains(f.Message, unknownField) {
			place, ok = placeOf(f.Location), true
		}
		if !ok {
			continue
		}
		if names := k[place]; len(names) > 0 {
			p.Errors[i].Message += "; there is: " + strings.Join(names, ", ")
		} else {
			p.Errors[i].Message += "; this takes none"
		}
	}
}

// placeOf is where the field of a location is: body.filter of body.filter.colour, with [] for each
// index.
func placeOf(location string) string {
	if i := strings.LastIndexByte(location, '.'); i >= 0 {
		location = location[:i]
	}
	var b strings.Builder
	for inside := false; location != ""; location = location[1:] {
		switch c := location[0]; {
		case c == '[':
			b.WriteString("[]")
			inside = true
		case c == ']':
			inside = false
		case !inside:
			b.WriteByte(c)
		}
	}
	return b.String()
}
