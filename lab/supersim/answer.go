package supersim

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/simwarden/simwarden/lab"
)

// Answer words a good answer. A change that is not done is 202, and the SIM is "scheduled".
func (s *session) Answer(dst []byte, req *lab.Request, out *lab.Outcome) lab.Reply {
	c := req.Detail.(*call)
	switch {
	case req.Usage:
		return lab.Reply{Status: http.StatusOK, Body: s.appendUsage(dst, req, c, out)}
	case req.Kind == lab.KindList:
		dst = append(dst, `{"sims":[`...)
		prefix := c.url + "/"
		for i := range out.Views {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = s.appendSIM(dst, &out.Views[i], prefix)
		}
		dst = append(dst, `],"meta":`...)
		dst = c.appendMeta(dst, "sims", out.Next, out.More)
		return lab.Reply{Status: http.StatusOK, Body: append(dst, '}')}
	}
	status := http.StatusOK
	if out.Accepted && req.Kind == lab.KindChange {
		status = http.StatusAccepted
	}
	prefix := c.url[:len(c.url)-len(req.Key)]
	return lab.Reply{Status: status, Body: s.appendSIM(dst, &out.Views[0], prefix)}
}

func (s *session) appendSIM(dst []byte, v *lab.View, prefix string) []byte {
	status := v.Raw
	if v.Pending {
		status = scheduled
	}
	dst = append(dst, `{"sid":"`...)
	dst = append(dst, v.Card.Key...)
	dst = append(dst, `","unique_name":null,"account_sid":"`...)
	dst = append(dst, s.accountSID...)
	dst = append(dst, `","iccid":"`...)
	dst = append(dst, v.Card.ICCID...)
	dst = append(dst, `","status":"`...)
	dst = append(dst, status...)
	dst = append(dst, `","fleet_sid":"`...)
	dst = append(dst, s.fleetSID...)
	dst = append(dst, `","date_created":"`...)
	dst = appendTime(dst, v.Card.CreatedAt)
	dst = append(dst, `","date_updated":"`...)
	dst = appendTime(dst, v.ChangedAt)
	dst = append(dst, `","url":"`...)
	dst = append(append(dst, prefix...), v.Card.Key...)
	dst = append(dst, `","links":{"billing_periods":"`...)
	dst = append(append(dst, prefix...), v.Card.Key...)
	dst = append(dst, `/BillingPeriods","sim_ip_addresses":"`...)
	dst = append(append(dst, prefix...), v.Card.Key...)
	return append(dst, `/IpAddresses"}}`...)
}

func appendTime(dst []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(dst, time.RFC3339)
}

// appendMeta writes where the other pages are.
func (c *call) appendMeta(dst []byte, key string, next int, more bool) []byte {
	link := func(dst []byte, page, position int) []byte {
		q := url.Values{"Page": {strconv.Itoa(page)}}
		for name, values := range c.query {
			q[name] = values
		}
		if position > 0 {
			q.Set("PageToken", tokenPrefix+strconv.FormatInt(int64(position), 36))
		}
		return lab.AppendString(dst, c.url+"?"+q.Encode())
	}
	dst = append(dst, `{"page":`...)
	dst = lab.AppendInt(dst, int64(c.page))
	dst = append(dst, `,"page_size":`...)
	dst = lab.AppendInt(dst, int64(c.size))
	dst = append(dst, `,"key":"`...)
	dst = append(append(dst, key...), `","first_page_url":`...)
	dst = link(dst, 0, 0)
	dst = append(dst, `,"previous_page_url":null,"url":`...)
	dst = link(dst, c.page, 0)
	dst = append(dst, `,"next_page_url":`...)
	if more {
		dst = link(dst, c.page+1, next)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}

func (s *session) appendUsage(dst []byte, req *lab.Request, c *call, out *lab.Outcome) []byte {
	dst = append(dst, `{"usage_records":[`...)
	next, more := out.Next, out.More
	if req.Kind == lab.KindList {
		for i := range out.Views {
			if i > 0 {
				dst = append(dst, ',')
			}
			v := &out.Views[i]
			dst = s.appendRecord(dst, v.Card.Key, lab.Span{From: req.From, Until: req.Until, Bytes: v.UsageBytes})
		}
	} else {
		v := &out.Views[0]
		spans := v.Spans
		if req.Step == lab.StepAll && v.UsageBytes != 0 {
			spans = []lab.Span{{From: req.From, Until: req.Until, Bytes: v.UsageBytes}}
		}
		spans = spans[min(c.skip, len(spans)):]
		if more = len(spans) > c.size; more {
			spans, next = spans[:c.size], c.skip+c.size
		}
		for i, span := range spans {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = s.appendRecord(dst, v.Card.Key, span)
		}
	}
	dst = append(dst, `],"meta":`...)
	dst = c.appendMeta(dst, "usage_records", next, more)
	return append(dst, '}')
}

// appendRecord writes one record in bytes. What was billed is not known yet, as at the carrier
// while it is still at work on it.
func (s *session) appendRecord(dst []byte, sid string, span lab.Span) []byte {
	up := span.Bytes / 3
	dst = append(dst, `{"account_sid":"`...)
	dst = append(dst, s.accountSID...)
	dst = append(dst, `","sim_sid":"`...)
	dst = append(dst, sid...)
	dst = append(dst, `","network_sid":null,"fleet_sid":null,"iso_country":null,"period":{"start_time":"`...)
	dst = appendTime(dst, span.From)
	dst = append(dst, `","end_time":"`...)
	dst = appendTime(dst, span.Until)
	dst = append(dst, `"},"data_upload":`...)
	dst = lab.AppendInt(dst, up)
	dst = append(dst, `,"data_download":`...)
	dst = lab.AppendInt(dst, span.Bytes-up)
	dst = append(dst, `,"data_total":`...)
	dst = lab.AppendInt(dst, span.Bytes)
	return append(dst, `,"data_total_billed":0,"billed_unit":null}`...)
}

// problems words what is wrong.
//
// Source: Twilio's error and warning dictionary.
var problems = map[lab.ProblemKind]struct {
	status, code int
	message      string
}{
	lab.ProblemNoSuchCall:  {http.StatusNotFound, 20404, "The requested resource was not found"},
	lab.ProblemBadRequest:  {http.StatusBadRequest, 20001, "Invalid parameter"},
	lab.ProblemAuth:        {http.StatusUnauthorized, 20003, "Authenticate"},
	lab.ProblemNotFound:    {http.StatusNotFound, 20404, "The requested resource was not found"},
	lab.ProblemNotAllowed:  {http.StatusBadRequest, 83010, "The requested status transition is not allowed"},
	lab.ProblemBusy:        {http.StatusConflict, 83009, "An update is already scheduled for this Sim"},
	lab.ProblemThrottled:   {http.StatusTooManyRequests, 20429, "Too Many Requests"},
	lab.ProblemServer:      {http.StatusInternalServerError, 20500, "Internal Server Error"},
	lab.ProblemMaintenance: {http.StatusServiceUnavailable, 20503, "Service Unavailable"},
}

// Problem words a bad answer: {status, code, message, more_info}.
func (s *session) Problem(dst []byte, req *lab.Request, p lab.Problem) lab.Reply {
	row := problems[p.Kind]
	if c, ok := req.Detail.(*call); ok && p.Kind == lab.ProblemBadRequest && c.code != 0 {
		row.code = c.code
	}
	if p.Status != 0 {
		row.status = p.Status
	}
	dst = append(dst, `{"status":`...)
	dst = lab.AppendInt(dst, int64(row.status))
	dst = append(dst, `,"code":`...)
	dst = lab.AppendInt(dst, int64(row.code))
	dst = append(dst, `,"message":`...)
	dst = lab.AppendString(dst, row.message)
	dst = append(dst, `,"more_info":"https://www.twilio.com/docs/errors/`...)
	dst = lab.AppendInt(dst, int64(row.code))
	dst = append(dst, `"}`...)
	reply := lab.Reply{Status: row.status, Body: dst}
	if p.Kind == lab.ProblemAuth {
		reply.Header = http.Header{"Www-Authenticate": {`Basic realm="Twilio API"`}}
	}
	return reply
}
