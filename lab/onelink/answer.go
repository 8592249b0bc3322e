package onelink

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden/lab"
)

// timeLayout is how the carrier writes times, in UTC+8.
const timeLayout = "20060102150405"

// Answer words a good answer: {"status":"0","message":"正确","result":[…]}. Every figure is text.
func (s *session) Answer(dst []byte, req *lab.Request, out *lab.Outcome) lab.Reply {
	c := req.Detail.(*call)
	b := &builder{dst: append(dst, `{"status":"0","message":"正确","result":[`...)}
	switch c.name {
	case callToken:
		token, life := s.issue(out.Now)
		b.object("token", token, "ttl", strconv.Itoa(int(life/time.Second)))
	case callStatus:
		code, _, _ := split(out.Views[0].Raw)
		b.object("cardStatus", code, "lastChangeDate", out.Views[0].ChangedAt.In(beijing).Format(timeLayout))
	case callStopReason:
		answerStopReason(b, &out.Views[0])
	case callRealName:
		status, reason, _ := strings.Cut(out.Views[0].RealName, " ")
		if status == "" {
			status = "1"
		}
		b.object("realNameStatus", status, "reason", reason)
	case callUsage:
		b.object("dataAmount", kilobytes(out.Views[0].UsageBytes))
	case callBasicInfo:
		card := out.Views[0].Card
		b.object("msisdn", card.MSISDN, "iccid", card.ICCID, "imsi", card.IMSI, "openDate", card.CreatedAt.In(beijing).Format(timeLayout))
	case callCardInfo:
		s.answerCards(b, c, out)
	case callMonthly, callDaily:
		answerUsage(b, c, out)
	case callGroups:
		s.answerGroups(b, c)
	case callMembers:
		b.open("totalCount", strconv.Itoa(c.total), "memberInfoList")
		for i := range out.Views {
			card := out.Views[i].Card
			b.object("msisdn", card.MSISDN, "iccid", card.ICCID, "imsi", card.IMSI)
		}
		b.close()
	case callChange:
		card := out.Views[0].Card
		number := s.take(order{iccid: card.ICCID, to: req.To, at: out.Now, done: !out.Accepted})
		b.object("orderNum", number, "msisdn", card.MSISDN)
	case callChangeMany:
		b.object("jobId", s.batch(c, out.Now))
	case callOrder:
		return s.answerOrder(dst, b, req, out.Now)
	case callJob:
		return s.answerJob(dst, b, req)
	}
	return lab.Reply{Status: http.StatusOK, Body: append(b.dst, `]}`...)}
}

func answerStopReason(b *builder, v *lab.View) {
	platform := "CT"
	if isPB(v.Raw) {
		platform = "PB"
	}
	_, reason, description := split(v.Raw)
	if reason == "" {
		reason = "000000000000"
	}
	if description == "" {
		b.object("platformType", platform, "stopReason", reason)
		return
	}
	b.object("platformType", platform, "stopReason", reason, "shutdownReasonDesc", description)
}

// answerCards tells of each number that was asked for, also of those that there are not.
func (s *session) answerCards(b *builder, c *call, out *lab.Outcome) {
	found := make(map[string]*lab.Card, 2*len(out.Views))
	for i := range out.Views {
		card := out.Views[i].Card
		found[card.ICCID], found[card.MSISDN] = card, card
	}
	for _, number := range c.many {
		if card := found[number]; card != nil {
			b.object("status", "0", "message", "正确", "msisdn", card.MSISDN, "iccid", card.ICCID, "imsi", card.IMSI)
		} else {
			row := problems[lab.ProblemNotFound]
			b.object("status", row.code, "message", row.message, "msisdn", "", "iccid", "", "imsi", "")
		}
	}
}

func answerUsage(b *builder, c *call, out *lab.Outcome) {
	b.open("deadLine", c.deadline.In(beijing).AddDate(0, 0, -1).Format("20060102"), "dataAmountList")
	for i := range out.Views {
		b.object("msisdn", out.Views[i].Card.MSISDN, "dataAmount", kilobytes(out.Views[i].UsageBytes))
	}
	b.close()
}

func (s *session) answerGroups(b *builder, c *call) {
	size, _ := strconv.Atoi(c.get("pageSize"))
	n := groups(s.account.Len())
	b.open("totalCount", strconv.Itoa(n), "groupList")
	for group := (c.page - 1) * size; group < min(n, c.page*size); group++ {
		b.object("groupId", s.groupID(group), "groupName", "group "+strconv.Itoa(group+1))
	}
	b.close()
}

func (s *session) answerOrder(dst []byte, b *builder, req *lab.Request, now time.Time) lab.Reply {
	number := req.Detail.(*call).get("orderNum")
	s.mu.Lock()
	o, ok := s.orders[number]
	s.mu.Unlock()
	if !ok {
		return s.Problem(dst, req, lab.Problem{Kind: lab.ProblemBadRequest})
	}
	b.object("orderNum", number, "status", s.status(o), "statusDate", now.In(beijing).Format(timeLayout), "createDate", o.at.In(beijing).Format(timeLayout))
	return lab.Reply{Status: http.StatusOK, Body: append(b.dst, `]}`...)}
}

// answerJob tells of a batch: 1 under way, 2 done, 3 done with failures.
func (s *session) answerJob(dst []byte, b *builder, req *lab.Request) lab.Reply {
	s.mu.Lock()
	j, ok := s.jobs[req.Detail.(*call).get("jobId")]
	s.mu.Unlock()
	if !ok {
		return s.Problem(dst, req, lab.Problem{Kind: lab.ProblemBadRequest})
	}
	status := "2"
	codes := make([]string, len(j.rows))
	for i, row := range j.rows {
		codes[i] = row.code
		if row.code == "" {
			switch s.status(row.order) {
			case orderRunning:
				status = "1"
			case orderCancelled:
				codes[i] = problems[lab.ProblemServer].code
			}
		}
		if codes[i] != "" && status == "2" {
			status = "3"
		}
	}
	b.open("jobStatus", status, "resultList")
	for i, row := range j.rows {
		if status == "1" {
			break
		}
		code := codes[i]
		if code == "" {
			code = "0"
		}
		b.object("resultType", "1", "resultId", row.msisdn, "status", code, "message", messages[code])
	}
	b.close()
	return lab.Reply{Status: http.StatusOK, Body: append(b.dst, `]}`...)}
}

// kilobytes are whole ones of 1,024 bytes, as text.
func kilobytes(bytes int64) string { return strconv.FormatInt(bytes/1024, 10) }

// builder appends objects of texts, with commas where they belong.
type builder struct {
	dst  []byte
	some bool
}

func (b *builder) comma() {
	if b.some {
		b.dst = append(b.dst, ',')
	}
	b.some = true
}

// object appends one object of names and values.
func (b *builder) object(pairs ...string) {
	b.comma()
	for i := 0; i+1 < len(pairs); i += 2 {
		sep := byte(',')
		if i == 0 {
			sep = '{'
		}
		b.dst = append(b.dst, sep)
		b.dst = lab.AppendString(b.dst, pairs[i])
		b.dst = append(b.dst, ':')
		b.dst = lab.AppendString(b.dst, pairs[i+1])
	}
	b.dst = append(b.dst, '}')
}

// open begins an object with one text and a list.
func (b *builder) open(name, value, list string) {
	b.comma()
	b.dst = append(b.dst, '{')
	b.dst = lab.AppendString(b.dst, name)
	b.dst = append(b.dst, ':')
	b.dst = lab.AppendString(b.dst, value)
	b.dst = append(b.dst, ',')
	b.dst = lab.AppendString(b.dst, list)
	b.dst = append(b.dst, ":["...)
	b.some = false
}

func (b *builder) close() {
	b.dst = append(b.dst, "]}"...)
	b.some = true
}
