package soracom

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

const (
	defaultLimit = 100 // of GET /sims; the definition names neither a default nor a maximum
	maxLimit     = 1000
	searchLimit  = 10 // of GET /query/sims
	maxSearch    = 100
	usageMonths  = 18 // how far back statistics go
)

// changes are the calls below /sims/{id} that change a status.
var changes = map[string]struct {
	to        string
	operation simwarden.Operation
}{
	"activate":       {"active", simwarden.OpResume},
	"suspend":        {"suspended", simwarden.OpSuspend},
	"deactivate":     {"inactive", simwarden.OpSuspend},
	"set_to_standby": {"standby", simwarden.OpSuspend},
}

// logout marks a POST /auth/logout.
type logout struct{ apiKey string }

// search marks a GET /query/sims.
type search struct{}

// Parse knows the calls that a driver makes; others are answered 404. The base URL may be given
// with the carrier's /v1 or without.
func (s *session) Parse(r *http.Request, path string, body []byte) lab.Request {
	path = strings.TrimPrefix(path, "/v1")
	req := lab.Request{Kind: lab.KindOther, Host: r.Host}
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case r.Method == http.MethodPost && path == "/auth":
		req.Kind, req.Operation = lab.KindToken, simwarden.OpToken
		parseLogin(body, &req)
	case r.Method == http.MethodPost && path == "/auth/logout":
		req.Kind, req.Operation = lab.KindToken, simwarden.OpToken
		req.Detail = logout{r.Header.Get("X-Soracom-API-Key")}
	case r.Method == http.MethodGet && path == "/sims":
		req.Kind, req.Operation = lab.KindList, simwarden.OpListSIMs
		parsePage(r.URL.Query(), &req, defaultLimit, maxLimit)
	case r.Method == http.MethodGet && path == "/query/sims":
		req.Kind, req.Operation = lab.KindList, simwarden.OpListSIMs
		req.Detail = search{}
		parseSearch(r.URL.Query(), &req)
	case r.Method == http.MethodGet && len(parts) == 2 && parts[0] == "sims":
		req.Kind, req.Operation, req.Key = lab.KindRead, simwarden.OpQueryState, parts[1]
	case r.Method == http.MethodPost && len(parts) == 3 && parts[0] == "sims" && changes[parts[2]].to != "":
		req.Kind, req.Operation = lab.KindChange, changes[parts[2]].operation
		req.Key, req.To = parts[1], changes[parts[2]].to
	case r.Method == http.MethodGet && len(parts) == 4 && strings.HasPrefix(path, "/stats/air/sims/"):
		req.Kind, req.Operation, req.Key = lab.KindRead, simwarden.OpQueryUsage, parts[3]
		parseStats(r.URL.Query(), &req, s.account.World().Now())
	case parts[0] == "event_handlers":
		parseHandlerCall(r, parts, body, &req)
	default:
		req.Problem = lab.ProblemNoSuchCall
	}
	return req
}

// parsePage reads limit and last_evaluated_key. The key is the position, spelt so that nobody
// counts with it.
func parsePage(q url.Values, req *lab.Request, limit, highest int) {
	req.Limit = limit
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			req.Problem = lab.ProblemBadRequest
			return
		}
		req.Limit = min(n, highest)
	}
	if key := q.Get("last_evaluated_key"); key != "" {
		digits, ok := strings.CutPrefix(key, "k-")
		n, err := strconv.ParseUint(digits, 36, 31)
		if !ok || err != nil {
			req.Problem = lab.ProblemBadRequest
			return
		}
		req.After = int(n)
	}
}

func pageKey(position int) string { return "k-" + strconv.FormatInt(int64(position), 36) }

// parseSearch knows a search by ids or by one status. Of the ids the lab takes whole ones only:
// a driver that relied on partial matching would change the wrong SIM.
func parseSearch(q url.Values, req *lab.Request) {
	parsePage(q, req, searchLimit, maxSearch)
	if q.Get("limit") != "" && req.Problem == "" {
		if n, _ := strconv.Atoi(q.Get("limit")); n > maxSearch {
			req.Problem = lab.ProblemBadRequest
		}
	}
	var ids []string
	for _, name := range []string{"sim_id", "iccid"} {
		for _, list := range q[name] {
			ids = append(ids, strings.Split(list, ",")...)
		}
	}
	for _, id := range ids {
		if len(id) < 2 {
			req.Problem = lab.ProblemBadRequest
		}
	}
	if len(ids) > 0 {
		req.ICCIDs = ids[:min(len(ids), req.Limit)]
		req.Operation = simwarden.OpQueryState
	}
	req.OnlyRaw = q.Get("status")
}

// parseStats takes from and to in Unix seconds and widens them to whole months, days or five
// minutes, as the definition says.
func parseStats(q url.Values, req *lab.Request, now time.Time) {
	from, errFrom := strconv.ParseInt(q.Get("from"), 10, 64)
	to, errTo := strconv.ParseInt(q.Get("to"), 10, 64)
	if errFrom != nil || errTo != nil || from > to || to-from > 5*366*24*3600 {
		req.Problem = lab.ProblemBadRequest
		return
	}
	begin, end := time.Unix(from, 0).UTC(), time.Unix(to, 0).UTC()
	if begin.Before(now.AddDate(0, -usageMonths, -31)) || end.After(now.Add(24*time.Hour)) {
		req.Problem = lab.ProblemBadRequest
		return
	}
	req.Usage, req.NonZero = true, true
	switch q.Get("period") {
	case "month":
		req.Step = lab.StepMonth
		begin = time.Date(begin.Year(), begin.Month(), 1, 0, 0, 0, 0, time.UTC)
		end = time.Date(end.Year(), end.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	case "day":
		req.Step = lab.StepDay
		begin = time.Date(begin.Year(), begin.Month(), begin.Day(), 0, 0, 0, 0, time.UTC)
		end = time.Date(end.Year(), end.Month(), end.Day()+1, 0, 0, 0, 0, time.UTC)
	case "minutes":
		req.Step = lab.StepFiveMinutes
		begin, end = begin.Truncate(5*time.Minute), end.Truncate(5*time.Minute).Add(5*time.Minute)
	default:
		req.Problem = lab.ProblemBadRequest
		return
	}
	req.From, req.Until = begin, end
}
