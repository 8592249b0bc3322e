package onelink

import (
	"net/http"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// Codes that more than one place needs.
const (
	codeCredentials = "12004"
	codeToken       = "12021"
	codeTransid     = "12022"
)

type problem struct {
	status        int // HTTP; 200 for what the carrier itself says
	code, message string
}

// problems words what is wrong. Too many requests, server errors and maintenance are told by what
// stands before the carrier: codes of its own for them are not known.
var problems = map[lab.ProblemKind]problem{
	lab.ProblemNoSuchCall:  {http.StatusOK, "12199", "能力未订购"},
	lab.ProblemBadRequest:  {http.StatusOK, "11000", "请求参数错误"},
	lab.ProblemAuth:        {http.StatusOK, codeToken, "TOKEN不存在或已过期"},
	lab.ProblemNotFound:    {http.StatusOK, "11011", "该平台无此号码"},
	lab.ProblemNotAllowed:  {http.StatusOK, "12089", "当前卡状态不允许该操作"},
	lab.ProblemAlready:     {http.StatusOK, "12047", "号码已停机"},
	lab.ProblemBusy:        {http.StatusOK, "12089", "号码存在在途工单"},
	lab.ProblemThrottled:   {http.StatusTooManyRequests, "", "too many requests"},
	lab.ProblemServer:      {http.StatusInternalServerError, "99999", "系统异常"},
	lab.ProblemMaintenance: {http.StatusServiceUnavailable, "", "under maintenance"},
}

// messages are the words of the codes that stand in answers besides those of problems.
var messages = map[string]string{
	"0": "正确", codeCredentials: "应用或密码错误", codeTransid: "TRANSID错误", "12048": "号码已开机",
	"12141": "当前卡为风险停机状态,仅支持风险复机", "12098": "非主动停机号码不允许复机",
	"12099": "套餐已到期,不允许复机", "12100": "已超出套餐用量,不允许复机",
}

func init() {
	for _, p := range problems {
		if p.code != "" && messages[p.code] == "" {
			messages[p.code] = p.message
		}
	}
}

// word gives the code and message of a problem; code, where not empty, is what the request's own
// check found.
func word(p lab.Problem, code string) (string, string) {
	row := problems[p.Kind]
	switch {
	case p.Kind == lab.ProblemAuth && code != "":
		return code, messages[code]
	case p.Kind == lab.ProblemAlready && !isStopped(p.To):
		return "12048", messages["12048"]
	case p.Kind == lab.ProblemNotAllowed && !isStopped(p.To):
		switch p.From {
		case StoppedByRisk:
			row.code = "12141"
		case StoppedByForce:
			row.code = "12098"
		case StoppedByExpiry:
			row.code = "12099"
		case StoppedByCredit, "02 000020000000":
			row.code = "12100"
		default:
			return row.code, row.message
		}
		return row.code, messages[row.code]
	}
	return row.code, row.message
}

// Problem words a bad answer: {status, message, result: []}.
func (s *session) Problem(dst []byte, req *lab.Request, p lab.Problem) lab.Reply {
	c := req.Detail.(*call)
	code := c.code
	if p.Kind == lab.ProblemAuth && req.Operation == simwarden.OpToken && code == "" {
		code = codeCredentials
	}
	code, message := word(p, code)
	status := problems[p.Kind].status
	if p.Status != 0 {
		status = p.Status
	}
	dst = append(dst, `{"status":`...)
	dst = lab.AppendString(dst, code)
	dst = append(dst, `,"message":`...)
	dst = lab.AppendString(dst, message)
	return lab.Reply{Status: status, Body: append(dst, `,"result":[]}`...)}
}
