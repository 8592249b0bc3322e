package supersim

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
	defaultPageSize = 50
	maxPageSize     = 1000
	usageMonths     = 18                  // how far back usage records go
	maxGrouped      = 31 * 24 * time.Hour // the longest span that may be grouped by SIM
	tokenPrefix     = "PT"
)

// call is what Answer and Problem need of the request.
type call struct {
	query url.Values // without the page
	url   string     // of the resource, without query
	page  int        // counted by the client
	size  int
	code  int // of a problem of the request's own, 0 for the kind's
	// usage records of one SIM are cut up here, not by the world
	skip int
}

// Parse knows the calls that a driver makes; others are answered 404.
func (s *session) Parse(r *http.Request, path string, body []byte) lab.Request {
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	c := &call{query: url.Values{}, url: scheme + "://" + r.Host + s.account.Path() + path}
	req := lab.Request{Kind: lab.KindOther, Host: r.Host, Detail: c, PendingRaw: scheduled}
	sid, one := strings.CutPrefix(path, "/v1/Sims/")
	one = one && sid != "" && !strings.Contains(sid, "/")
	switch {
	case r.Method == http.MethodGet && path == "/v1/Sims":
		req.Kind, req.Operation = lab.KindList, simwarden.OpListSIMs
		c.parseList(r.URL.Query(), &req)
	case r.Method == http.MethodGet && path == "/v1/UsageRecords":
		c.parseUsage(r.URL.Query(), &req, s.account.World().Now())
	case r.Method == http.MethodGet && one:
		req.Kind, req.Operation, req.Key = lab.KindRead, simwarden.OpQueryState, sid
	case r.Method == http.MethodPost && one:
		req.Kind, req.Operation, req.Key = lab.KindChange, simwarden.OpResume, sid
		c.parseUpdate(r, body, &req)
	default:
		req.Problem = lab.ProblemNoSuchCall
	}
	return req
}

func (c *call) refuse(req *lab.Request, code int) {
	req.Problem, c.code = lab.ProblemBadRequest, code
}

func (c *call) parseUpdate(r *http.Request, body []byte, req *lab.Request) {
	form, err := url.ParseQuery(string(body))
	if err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
		c.refuse(req, 20001)
		return
	}
	switch req.To = form.Get("Status"); req.To {
	case "inactive":
		req.Operation = simwarden.OpSuspend
	case "active", "ready":
	default:
		c.refuse(req, 20001)
	}
}

func (c *call) parseList(q url.Values, req *lab.Request) {
	c.parsePage(q, req)
	switch status := q.Get("Status"); status {
	case "", "new", "ready", "active", "inactive", scheduled:
		req.OnlyRaw = status
	default:
		c.refuse(req, 20001)
	}
	if iccid := q.Get("Iccid"); iccid != "" {
		req.ICCIDs = []string{iccid}
		req.Operation = simwarden.OpQueryState // how a SIM is found: no page of the fleet
	}
	c.keep(q, "Status", "Iccid", "Fleet")
}

func (c *call) keep(q url.Values, names ...string) {
	for _, name := range names {
		if q.Has(name) {
			c.query.Set(name, q.Get(name))
		}
	}
}

// parsePage reads PageSize, Page (the client's own count) and PageToken (ours: a position).
func (c *call) parsePage(q url.Values, req *lab.Request) {
	c.size = defaultPageSize
	if text := q.Get("PageSize"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			c.refuse(req, 20002)
			return
		}
		c.size = min(n, maxPageSize)
	}
	if text := q.Get("Page"); text != "" {
		n, err := strconv.ParseUint(text, 10, 31)
		if err != nil {
			c.refuse(req, 20001)
			return
		}
		c.page = int(n)
	}
	if token := q.Get("PageToken"); token != "" {
		digits, ok := strings.CutPrefix(token, tokenPrefix)
		n, err := strconv.ParseUint(digits, 36, 31)
		if !ok || err != nil {
			c.refuse(req, 20001)
			return
		}
		req.After = int(n)
	}
	req.Limit = c.size
	c.query.Set("PageSize", strconv.Itoa(c.size))
}

// parseUsage knows usage records of one SIM, and of all grouped by SIM in one span. Only rows with
// usage are answered.
func (c *call) parseUsage(q url.Values, req *lab.Request, now time.Time) {
	req.Kind, req.Operation, req.Usage, req.NonZero = lab.KindList, simwarden.OpListUsage, true, true
	c.parsePage(q, req)
	switch q.Get("Granularity") {
	case "", "all":
	case "hour":
		req.Step = lab.StepHour
	case "day":
		req.Step = lab.StepDay
	default:
		c.refuse(req, 20001)
	}
	sim, group := q.Get("Sim"), q.Get("Group")
	switch {
	case group != "" && group != "sim":
		c.refuse(req, 20001)
	case sim != "":
		req.Kind, req.Operation, req.Key = lab.KindRead, simwarden.OpQueryUsage, sim
		c.skip, req.After = req.After, 0
	case group == "" || req.Step != lab.StepAll:
		c.refuse(req, 20001) // sums over all SIMs, which this lab does not make
	}
	c.parseSpan(q, req, now)
	c.keep(q, "Sim", "Group", "Granularity", "StartTime", "EndTime")
}

// parseSpan takes ISO 8601 instants; without them it is the month up to now.
func (c *call) parseSpan(q url.Values, req *lab.Request, now time.Time) {
	req.Until = now
	if text := q.Get("EndTime"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			c.refuse(req, 83600)
			return
		}
		req.Until = t.UTC()
	}
	req.From = req.Until.AddDate(0, -1, 0)
	if text := q.Get("StartTime"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			c.refuse(req, 83600)
			return
		}
		req.From = t.UTC()
	}
	switch {
	case !req.From.Before(req.Until):
		c.refuse(req, 83601)
	case req.From.Before(now.AddDate(0, -usageMonths, 0)):
		c.refuse(req, 83602)
	case req.Step == lab.StepHour && !req.From.Equal(req.From.Truncate(time.Hour)),
		req.Step == lab.StepDay && !req.From.Equal(req.From.Truncate(24*time.Hour)):
		c.refuse(req, 83603)
	case q.Get("Group") == "sim" && req.Until.Sub(req.From) > maxGrouped:
		c.refuse(req, 83605)
	}
}
