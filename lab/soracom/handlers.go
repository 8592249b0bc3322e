package soracom

import (
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// maxHandlers is how many event handlers a SIM may have.
const maxHandlers = 10

// eventHandler is one as the API shows it. Of rules, the lab knows the traffic of a SIM in a calendar
// month; of actions, to suspend it. Others are kept and do nothing.
type eventHandler struct {
	ID          string   `json:"handlerId"`
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Status      string   `json:"status"`
	TargetSIMID string   `json:"targetSimId,omitempty"`
	Rule        config   `json:"ruleConfig"`
	Actions     []config `json:"actionConfigList"`
}

type config struct {
	Type       string         `json:"type"`
	Properties map[string]any `json:"properties"`
}

// limitBytes is the traffic at which the handler stops its SIM; 0: it does not.
func (h eventHandler) limitBytes() int64 {
	suspends := slices.ContainsFunc(h.Actions, func(c config) bool {
		return c.Type == "SuspendAction" && c.Properties["executionDateTimeConst"] == "IMMEDIATELY"
	})
	if h.Status != "active" || h.Rule.Type != "SimMonthlyTotalTrafficRule" || !suspends {
		return 0
	}
	return h.Rule.units() << 20
}

// units is the threshold in MiB, which is taken as text and as a number; 0: it is none.
func (c config) units() int64 {
	switch v := c.Properties["limitTotalTrafficMegaByte"].(type) {
	case string:
		if n, err := strconv.ParseInt(v, 10, 31); err == nil && n > 0 {
			return n
		}
	case float64:
		if n := int64(v); float64(n) == v && n > 0 && n < 1<<31 {
			return n
		}
	}
	return 0
}

// handlers are an account's event handlers, in the order in which they were made.
type handlers struct {
	mu   sync.Mutex
	made uint64
	list []eventHandler
}

// handlerCall is a request about event handlers, and what came of it.
type handlerCall struct {
	method, id string
	target     string
	body       eventHandler

	status int
	found  any // for the answer's body; nil: none
}

func parseHandlerCall(r *http.Request, parts []string, body []byte, req *lab.Request) {
	c := &handlerCall{method: r.Method, target: r.URL.Query().Get("target")}
	req.Operation, req.Detail = simwarden.OpSetThreshold, c
	if len(parts) == 2 {
		c.id = parts[1]
	}
	switch {
	case len(parts) > 2, c.id == "" && r.Method != http.MethodGet && r.Method != http.MethodPost,
		c.id != "" && r.Method != http.MethodGet && r.Method != http.MethodPut && r.Method != http.MethodDelete:
		req.Problem = lab.ProblemNoSuchCall
	case r.Method == http.MethodPost || r.Method == http.MethodPut:
		if json.Unmarshal(body, &c.body) != nil || !c.body.valid() {
			req.Problem = lab.ProblemBadRequest
		}
	}
	req.Key = c.body.TargetSIMID // what is read and removed goes by the handler's id alone
}

func (h eventHandler) valid() bool {
	return h.Name != "" && (h.Status == "active" || h.Status == "inactive") && h.Rule.Type != "" && h.Rule.Properties["inactiveTimeoutDateConst"] != nil &&
		len(h.Actions) > 0 && (h.Rule.Type != "SimMonthlyTotalTrafficRule" || h.Rule.units() > 0)
}

// Act carries a call about event handlers out; others change nothing here.
func (s *session) Act(req *lab.Request, _ time.Time) *lab.Problem {
	c, ok := req.Detail.(*handlerCall)
	if !ok {
		return nil
	}
	s.handlers.mu.Lock()
	defer s.handlers.mu.Unlock()
	at := slices.IndexFunc(s.handlers.list, func(h eventHandler) bool { return h.ID == c.id })
	if c.id != "" && at < 0 {
		if c.method == http.MethodPut {
			return &lab.Problem{Kind: lab.ProblemBadRequest} // as the definition says
		}
		return &lab.Problem{Kind: lab.ProblemNotFound}
	}
	c.status = http.StatusOK
	switch {
	case c.method == http.MethodGet && c.id == "":
		found := []eventHandler{}
		for _, h := range s.handlers.list {
			if c.target == "" || c.target == "sim" && h.TargetSIMID != "" {
				found = append(found, h)
			}
		}
		c.found = found
	case c.method == http.MethodGet:
		c.found = s.handlers.list[at]
	case c.method == http.MethodPost:
		return s.makeHandler(c)
	case c.method == http.MethodPut:
		before := s.handlers.list[at]
		c.body.ID = c.id
		s.handlers.list[at] = c.body
		s.applyLimits(before.TargetSIMID)
		s.applyLimits(c.body.TargetSIMID)
	case c.method == http.MethodDelete:
		before := s.handlers.list[at]
		s.handlers.list = slices.Delete(s.handlers.list, at, at+1)
		s.applyLimits(before.TargetSIMID)
		c.status = http.StatusNoContent
	}
	return nil
}

// makeHandler needs the handlers' mu held, as applyLimits does.
func (s *session) makeHandler(c *handlerCall) *lab.Problem {
	key := c.body.TargetSIMID
	if key != "" {
		if _, ok := s.account.SIM(key); !ok {
			return &lab.Problem{Kind: lab.ProblemNotFound}
		}
		n := 0
		for _, h := range s.handlers.list {
			if h.TargetSIMID == key {
				n++
			}
		}
		if n >= maxHandlers {
			return &lab.Problem{Kind: lab.ProblemBadRequest}
		}
	}
	s.handlers.made++
	c.body.ID = lab.Hex(32, s.seed, 5, s.handlers.made)
	s.handlers.list = append(s.handlers.list, c.body)
	c.status, c.found = http.StatusCreated, c.body
	s.applyLimits(key)
	return nil
}

// applyLimits makes the least limit of the SIM's handlers the one by which the world stops it.
func (s *session) applyLimits(key string) {
	if key == "" {
		return
	}
	least := int64(0)
	for _, h := range s.handlers.list {
		if b := h.limitBytes(); h.TargetSIMID == key && b > 0 && (least == 0 || b < least) {
			least = b
		}
	}
	s.account.SetLimit(key, least)
}

// DropLimits loses the handlers of a SIM that stop it.
func (s *session) DropLimits(iccid string) {
	s.handlers.mu.Lock()
	defer s.handlers.mu.Unlock()
	s.handlers.list = slices.DeleteFunc(s.handlers.list, func(h eventHandler) bool { return h.TargetSIMID == iccid && h.limitBytes() > 0 })
	s.applyLimits(iccid)
}

func (c *handlerCall) answer(dst []byte) lab.Reply {
	if c.found == nil {
		return lab.Reply{Status: c.status}
	}
	body, err := json.Marshal(c.found)
	if err != nil { // what was decoded is encoded again
		return lab.Reply{Status: http.StatusInternalServerError}
	}
	return lab.Reply{Status: c.status, Body: append(dst, body...)}
}
