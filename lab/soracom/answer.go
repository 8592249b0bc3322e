package soracom

import (
	"net/http"
	"time"

	"github.com/simwarden/simwarden/lab"
)

// Answer words a good answer.
func (s *session) Answer(dst []byte, req *lab.Request, out *lab.Outcome) lab.Reply {
	switch detail := req.Detail.(type) {
	case login:
		apiKey, value := s.issue(detail, out.Now)
		dst = append(dst, `{"apiKey":`...)
		dst = lab.AppendString(dst, apiKey)
		dst = append(dst, `,"token":`...)
		dst = lab.AppendString(dst, value)
		dst = append(dst, `,"operatorId":"`...)
		dst = append(append(dst, s.operatorID...), `"}`...)
		return lab.Reply{Status: http.StatusOK, Body: dst}
	case logout:
		s.logout(detail.apiKey)
		return lab.Reply{Status: http.StatusNoContent}
	case *handlerCall:
		return detail.answer(dst)
	}
	switch {
	case req.Kind == lab.KindList:
		return s.list(dst, req, out)
	case req.Usage:
		return lab.Reply{Status: http.StatusOK, Body: appendStats(dst, out.Views[0].Spans)}
	}
	return lab.Reply{Status: http.StatusOK, Body: s.appendSIM(dst, &out.Views[0])}
}

func (s *session) list(dst []byte, req *lab.Request, out *lab.Outcome) lab.Reply {
	dst = append(dst, '[')
	for i := range out.Views {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = s.appendSIM(dst, &out.Views[i])
	}
	reply := lab.Reply{Status: http.StatusOK, Body: append(dst, ']')}
	if out.More {
		path := s.account.Path() + "/v1/sims"
		if _, ok := req.Detail.(search); ok {
			path = s.account.Path() + "/v1/query/sims"
		}
		key := pageKey(out.Next)
		reply.Header = http.Header{
			"X-Soracom-Next-Key": {key},
			"Link":               {"<" + path + "?last_evaluated_key=" + key + ">; rel=next"},
		}
	}
	return reply
}

// appendSIM writes a Sim object. Times are Unix milliseconds.
func (s *session) appendSIM(dst []byte, v *lab.View) []byte {
	card := v.Card
	dst = append(dst, `{"operatorId":"`...)
	dst = append(dst, s.operatorID...)
	dst = append(dst, `","simId":"`...)
	dst = append(dst, card.Key...)
	dst = append(dst, `","status":"`...)
	dst = append(dst, v.Raw...)
	dst = append(dst, `","type":"uicc","moduleType":"nano","speedClass":"s1.standard","activeProfileId":"`...)
	dst = append(dst, card.ICCID...)
	dst = append(dst, `","createdTime":`...)
	dst = lab.AppendInt(dst, card.CreatedAt.UnixMilli())
	dst = append(dst, `,"lastModifiedTime":`...)
	dst = lab.AppendInt(dst, v.ChangedAt.UnixMilli())
	dst = append(dst, `,"terminationEnabled":false,"tags":{"name":""},"sessionStatus":{"online":`...)
	dst = appendBool(dst, v.Online)
	dst = append(dst, `,"imsi":"`...)
	dst = append(dst, card.IMSI...)
	dst = append(dst, `","lastUpdatedAt":`...)
	dst = lab.AppendInt(dst, v.ChangedAt.UnixMilli())
	dst = append(dst, `},"profiles":{"`...)
	dst = append(dst, card.ICCID...)
	dst = append(dst, `":{"iccid":"`...)
	dst = append(dst, card.ICCID...)
	dst = append(dst, `","primaryImsi":"`...)
	dst = append(dst, card.IMSI...)
	dst = append(dst, `","otaSupported":false,"subscribers":{"`...)
	dst = append(dst, card.IMSI...)
	dst = append(dst, `":{"imsi":"`...)
	dst = append(dst, card.IMSI...)
	dst = append(dst, `","msisdn":"`...)
	dst = append(dst, card.MSISDN...)
	return append(dst, `","subscription":"plan01s","bundles":[]}}}}}`...)
}

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, "true"...)
	}
	return append(dst, "false"...)
}

// appendStats writes AirStatsResponse rows: a third of the bytes as upload, spread over two speed
// classes, because a driver must add the classes up.
func appendStats(dst []byte, spans []lab.Span) []byte {
	dst = append(dst, '[')
	for i := range spans {
		if i > 0 {
			dst = append(dst, ',')
		}
		span := &spans[i]
		up := span.Bytes / 3
		down := span.Bytes - up
		slow := down / 4
		dst = append(dst, `{"date":"`...)
		dst = span.From.AppendFormat(dst, time.RFC3339)
		dst = append(dst, `","unixtime":`...)
		dst = lab.AppendInt(dst, span.From.Unix())
		dst = append(dst, `,"dataTrafficStatsMap":{"s1.standard":`...)
		dst = appendTraffic(dst, up, down-slow)
		dst = append(dst, `,"s1.minimum":`...)
		dst = appendTraffic(dst, 0, slow)
		dst = append(dst, `}}`...)
	}
	return append(dst, ']')
}

func appendTraffic(dst []byte, up, down int64) []byte {
	const packet = 1200 // bytes, about
	dst = append(dst, `{"uploadByteSizeTotal":`...)
	dst = lab.AppendInt(dst, up)
	dst = append(dst, `,"downloadByteSizeTotal":`...)
	dst = lab.AppendInt(dst, down)
	dst = append(dst, `,"uploadPacketSizeTotal":`...)
	dst = lab.AppendInt(dst, (up+packet-1)/packet)
	dst = append(dst, `,"downloadPacketSizeTotal":`...)
	dst = lab.AppendInt(dst, (down+packet-1)/packet)
	return append(dst, '}')
}

// problems words what is wrong. The carrier publishes no list of codes; these have its form, and
// a driver must go by the HTTP status.
var problems = map[lab.ProblemKind]struct {
	status        int
	code, message string
}{
	lab.ProblemNoSuchCall:  {http.StatusNotFound, "AGW0001", "No such API."},
	lab.ProblemBadRequest:  {http.StatusBadRequest, "SEM0001", "Invalid request parameter."},
	lab.ProblemAuth:        {http.StatusUnauthorized, "AUM0001", "Invalid or expired credentials."},
	lab.ProblemNotFound:    {http.StatusNotFound, "SEM0002", "No such SIM found."},
	lab.ProblemNotAllowed:  {http.StatusBadRequest, "SEM0003", "The SIM cannot change to this status."},
	lab.ProblemBusy:        {http.StatusBadRequest, "SEM0004", "The SIM is being changed."},
	lab.ProblemThrottled:   {http.StatusTooManyRequests, "AGW0002", "Too many requests."},
	lab.ProblemServer:      {http.StatusInternalServerError, "COM0001", "Internal server error."},
	lab.ProblemMaintenance: {http.StatusServiceUnavailable, "COM0002", "Under maintenance."},
}

// Problem words a bad answer: {code, message}.
func (s *session) Problem(dst []byte, _ *lab.Request, p lab.Problem) lab.Reply {
	row := problems[p.Kind]
	status := row.status
	if p.Status != 0 {
		status = p.Status
	}
	dst = append(dst, `{"code":`...)
	dst = lab.AppendString(dst, row.code)
	dst = append(dst, `,"message":`...)
	dst = lab.AppendString(dst, row.message)
	return lab.Reply{Status: status, Body: append(dst, '}')}
}
