package onelink

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

const (
	maxPage   = 50
	maxMany   = 100
	maxMonths = 6 // how far back the monthly usage goes
	maxDays   = 7 // and the daily one
)

// what is asked, below /v5/ec/.
const (
	callToken      = "get/token"
	callStatus     = "query/sim-status"
	callStopReason = "query/sim-stop-reason"
	callBasicInfo  = "query/sim-basic-info"
	callCardInfo   = "query/sim-card-info/batch"
	callRealName   = "query/sim-real-name-status"
	callUsage      = "query/sim-data-usage"
	callMonthly    = "query/sim-data-usage-monthly/batch"
	callDaily      = "query/sim-data-usage-daily/batch"
	callGroups     = "query/group-info"
	callMembers    = "query/group-member"
	callChange     = "change/sim-status"
	callChangeMany = "change/sim-status/batch"
	callOrder      = "query/order-info"
	callJob        = "query/sim-batch-result"
)

// call is what Answer and Problem need of the request.
type call struct {
	name      string
	params    map[string]string
	operation simwarden.Operation // of a batch of changes
	many      []string            // MSISDNs or ICCIDs of a batch
	deadline  time.Time           // up to when a batch of usage counts
	total     int                 // members of the group
	page      int                 // of groups, from 1
	code      string              // of a problem, "" for the kind's
}

func (c *call) get(name string) string { return c.params[name] }

// Parse knows the calls that a driver makes, by GET with a query or by POST with a JSON object of
// texts; others are answered "no such call".
func (s *session) Parse(r *http.Request, path string, body []byte) lab.Request {
	name, ok := strings.CutPrefix(path, "/v5/ec/")
	c := &call{name: name, params: map[string]string{}}
	req := lab.Request{Kind: lab.KindOther, Host: r.Host, Detail: c}
	if !ok || r.Method != http.MethodGet && r.Method != http.MethodPost {
		req.Problem = lab.ProblemNoSuchCall
		return req
	}
	for key, values := range r.URL.Query() {
		c.params[key] = values[0]
	}
	if len(body) > 0 && json.Unmarshal(body, &c.params) != nil {
		form, err := url.ParseQuery(string(body))
		if err != nil || !strings.HasPrefix(r.Header.Get("Content-Type"), "application/x-www-form-urlencoded") {
			req.Problem = lab.ProblemBadRequest
		}
		for key := range form {
			c.params[key] = form.Get(key)
		}
	}
	s.parse(c, &req)
	return req
}

func (s *session) parse(c *call, req *lab.Request) {
	now := s.account.World().Now()
	switch c.name {
	case callToken:
		req.Kind, req.Operation = lab.KindToken, simwarden.OpToken
	case callStatus:
		s.one(c, req, simwarden.OpQueryState)
	case callStopReason, callBasicInfo:
		s.one(c, req, simwarden.OpQueryState)
		req.NoState = true
	case callRealName:
		s.one(c, req, simwarden.OpQueryRealName)
		req.NoState = true
	case callUsage:
		s.one(c, req, simwarden.OpQueryUsage)
		req.Usage, req.From, req.Until = true, month(now), now
		if truth, ok := s.account.SIM(req.Key); ok && isPB(truth.Raw) {
			req.Until = midnight(now) // the older platform counts once a day
		}
	case callCardInfo:
		s.several(c, req, simwarden.OpQueryState)
	case callMonthly, callDaily:
		s.several(c, req, simwarden.OpListUsage)
		parseSpan(c, req, now)
	case callGroups:
		req.Operation = simwarden.OpListSIMs
		c.page, _ = page(c, req)
	case callMembers:
		req.Kind, req.Operation = lab.KindList, simwarden.OpListSIMs
		s.parseMembers(c, req)
	case callChange:
		s.parseChange(c, req)
	case callChangeMany:
		s.several(c, req, parseBatchOperation(c, req))
		req.Kind, c.many, req.ICCIDs = lab.KindOther, splitMany(c.get("msisdns")), nil
	case callOrder, callJob:
		req.Operation = simwarden.OpQueryJob
	default:
		req.Problem = lab.ProblemNoSuchCall
	}
}

// one reads which SIM a call is about: exactly one of three names.
func (s *session) one(c *call, req *lab.Request, op simwarden.Operation) {
	req.Kind, req.Operation = lab.KindRead, op
	given := 0
	for _, name := range []string{"iccid", "msisdn", "imsi"} {
		value, ok := c.params[name]
		if !ok {
			continue
		}
		given++
		req.Key = value
		if name != "iccid" {
			req.Key, _ = s.account.ICCIDOf(value)
		}
	}
	if given != 1 {
		req.Problem = lab.ProblemBadRequest
	}
}

func splitMany(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, "_")
}

// several reads which SIMs a batch is about: their numbers with underscores between.
func (s *session) several(c *call, req *lab.Request, op simwarden.Operation) {
	req.Kind, req.Operation, req.ICCIDs = lab.KindList, op, []string{}
	iccids, msisdns := splitMany(c.get("iccids")), splitMany(c.get("msisdns"))
	c.many = append(iccids, msisdns...)
	if len(c.many) == 0 || len(c.many) > maxMany || len(iccids) > 0 && len(msisdns) > 0 {
		req.Problem = lab.ProblemBadRequest
		return
	}
	for _, number := range c.many {
		if len(iccids) == 0 {
			number, _ = s.account.ICCIDOf(number)
		}
		req.ICCIDs = append(req.ICCIDs, number)
	}
}

// parseSpan reads queryDate: a month, or a day. Today is never in it.
func parseSpan(c *call, req *lab.Request, now time.Time) {
	layout := "200601"
	if c.name == callDaily {
		layout = "20060102"
	}
	from, err := time.ParseInLocation(layout, c.get("queryDate"), beijing)
	yesterdaysEnd := midnight(now)
	until := from.AddDate(0, 1, 0)
	earliest := month(now).AddDate(0, -maxMonths, 0)
	if c.name == callDaily {
		until, earliest = from.AddDate(0, 0, 1), yesterdaysEnd.AddDate(0, 0, -maxDays)
	}
	if until.After(yesterdaysEnd) {
		until = yesterdaysEnd
	}
	if err != nil || from.Before(earliest) || from.After(now) {
		req.Problem = lab.ProblemBadRequest
		return
	}
	req.Usage, req.From, req.Until = true, from.UTC(), until.UTC()
	c.deadline = until
	if !until.After(from) {
		req.ICCIDs = []string{} // the month's first day: there is no figure yet
	}
}

// page reads startNum, the number of the page, and pageSize.
func page(c *call, req *lab.Request) (number, size int) {
	number, errNumber := strconv.Atoi(c.get("startNum"))
	size, errSize := strconv.Atoi(c.get("pageSize"))
	if errNumber != nil || errSize != nil || number < 1 || number > 1<<20 || size < 1 || size > maxPage {
		req.Problem = lab.ProblemBadRequest
	}
	return number, size
}

// parseMembers asks the world for the SIMs of a page, by name: pages here are counted, so that a
// short one would hide SIMs.
func (s *session) parseMembers(c *call, req *lab.Request) {
	number, size := page(c, req)
	group, ok := s.groupNumber(c.get("groupId"))
	if !ok || req.Problem != "" {
		req.Problem = lab.ProblemBadRequest
		return
	}
	spec := s.account.Spec()
	if spec.PageSize > 0 {
		size = min(size, spec.PageSize)
	}
	if spec.ShortPages {
		size = max(1, size/2)
	}
	first, end := groupRange(group)
	end = min(end, s.account.Len())
	c.total = max(0, end-first)
	after := first + (number-1)*size
	req.ICCIDs = s.account.Range(after, max(0, min(size, end-after)))
}

// operTypes are the numbers of the single call; those of the batch call are others.
var (
	operTypes = map[string]simwarden.Operation{
		"0": simwarden.OpSuspend, "1": simwarden.OpResume,
		"2": simwarden.OpResume, "5": simwarden.OpResume, "6": simwarden.OpResume,
	}
	batchOperTypes = map[string]simwarden.Operation{
		"9": simwarden.OpSuspend, "11": simwarden.OpResume,
		"3": simwarden.OpResume, "5": simwarden.OpResume, "7": simwarden.OpResume,
	}
)

func (s *session) parseChange(c *call, req *lab.Request) {
	op, ok := operTypes[c.get("operType")]
	s.one(c, req, op)
	if !ok {
		req.Problem = lab.ProblemBadRequest
		return
	}
	req.Kind = lab.KindChange
	truth, _ := s.account.SIM(req.Key)
	req.To = target(op, truth.Raw)
}

func parseBatchOperation(c *call, req *lab.Request) simwarden.Operation {
	number := c.get("operType")
	op, ok := batchOperTypes[number]
	if !ok || (number == "9" || number == "11") && c.get("reason") != "01" {
		req.Problem = lab.ProblemBadRequest
	}
	c.operation = op
	return op
}

func month(now time.Time) time.Time {
	t := now.In(beijing)
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, beijing).UTC()
}

func midnight(now time.Time) time.Time {
	t := now.In(beijing)
	return time.Date(t.Year(), t.Month(), t.Day(), 0, 0, 0, 0, beijing).UTC()
}
