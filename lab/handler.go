package lab

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
)

// maxBody bounds a request's body; carriers take some kilobytes.
const maxBody = 1 << 20

// Handler serves every account under its path and the admin endpoint under /lab/. The server
// should have World.ConnContext, so that the log tells connections apart.
func (w *World) Handler() http.Handler {
	admin := w.admin()
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		name, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		if name == "lab" {
			admin.ServeHTTP(rw, r)
			return
		}
		a := w.Account(name)
		if a == nil {
			http.Error(rw, "the lab has no account of this name", http.StatusNotFound)
			return
		}
		w.serve(rw, r, a, "/"+path)
	})
}

// exchange is one request on its way through the world.
type exchange struct {
	world  *World
	a      *Account
	rw     http.ResponseWriter
	r      *http.Request
	req    Request
	sim    *sim
	faults []Fault
	line   LogLine
	*scratch
}

// scratch is memory that requests use in turn.
type scratch struct {
	body  []byte
	views []View
}

var scratches = sync.Pool{New: func() any { return &scratch{body: make([]byte, 0, 64<<10)} }}

func (w *World) serve(rw http.ResponseWriter, r *http.Request, a *Account, path string) {
	body, err := io.ReadAll(http.MaxBytesReader(rw, r.Body, maxBody))
	if err != nil {
		http.Error(rw, "the body is over 1 MiB or broke off", http.StatusBadRequest)
		return // not a complete request: the log has only those
	}
	w.settle()
	a.stopAtLimits()
	x := &exchange{world: w, a: a, rw: rw, r: r, req: a.session.Parse(r, path, body)}
	conn, _ := r.Context().Value(connKey{}).(uint64)
	x.line = LogLine{Seq: w.seq.Add(1), Conn: conn, RequestID: clip(r.Header.Get("X-Request-Id"), 128),
		Account: a.Name(), Operation: x.req.Operation, Kind: x.req.Kind}
	w.requests.Add(1)
	key := x.req.Key
	if len(x.req.ICCIDs) == 1 {
		key, x.line.Kind = x.req.ICCIDs[0], KindRead // a list in form only
	}
	if key != "" {
		a.mu.RLock()
		x.sim = a.find(key)
		a.mu.RUnlock()
	}
	if x.sim != nil {
		x.line.ICCID = x.sim.card.ICCID
	}
	if x.req.Kind == KindChange {
		x.line.Direction = a.direction(x.req.To)
	}
	arrived, violation, refuse := a.limiter.arrive(x.req.Operation, x.sim, w.clock)
	defer a.limiter.leave()
	x.line.ArrivedAt, x.line.LimitViolation = arrived, violation

	x.scratch = scratches.Get().(*scratch)
	defer scratches.Put(x.scratch)
	if refuse {
		x.send(x.problem(x.body[:0], Problem{Kind: ProblemThrottled}), nil)
		return
	}
	x.faults = w.faults.strike(a.Name(), &x.req, x.line.ICCID)
	x.line.Fault = faultNames(x.faults)
	reply, ended := x.work(x.body[:0])
	if cap(reply.Body) > cap(x.body) && cap(reply.Body) <= 4*maxBody {
		x.body = reply.Body
	}
	if !ended {
		x.send(reply, x.fault(Garbage, Drip, Flood))
	}
}

// work does what the request asks, as the faults have it. ended: there is nothing to send, the
// connection is broken and the line written.
func (x *exchange) work(dst []byte) (reply Reply, ended bool) {
	if f := x.fault(Slow); f != nil && !x.pause(f.duration()) {
		x.hangUp()
		return Reply{}, true
	}
	if f := x.fault(ResetBefore, Fail5xx, Throttle, TokenExpire, AuthFail, Maintenance, OKWithError); f != nil {
		switch f.Name {
		case ResetBefore:
			x.hangUp()
			return Reply{}, true
		case Fail5xx:
			return x.problem(dst, Problem{Kind: ProblemServer, Status: or(f.Status, http.StatusInternalServerError)}), false
		case Maintenance:
			return x.problem(dst, Problem{Kind: ProblemMaintenance, Status: http.StatusServiceUnavailable}), false
		case OKWithError:
			reply := x.problem(dst, Problem{Kind: ProblemServer})
			reply.Status = http.StatusOK
			return reply, false
		case AuthFail:
			return x.problem(dst, Problem{Kind: ProblemAuth}), false
		case Throttle:
			return withRetryAfter(x.problem(dst, Problem{Kind: ProblemThrottled}), f, x.world.Now()), false
		case TokenExpire:
			x.a.session.ExpireTokens()
		}
	}
	switch {
	case x.req.Problem == ProblemNoSuchCall:
		return x.problem(dst, Problem{Kind: ProblemNoSuchCall}), false
	case !x.a.session.Authorized(x.r, &x.req, x.world.Now()):
		return x.problem(dst, Problem{Kind: ProblemAuth}), false
	case x.req.Problem != "":
		return x.problem(dst, Problem{Kind: x.req.Problem}), false
	case x.sim == nil && (x.req.Kind == KindChange || x.req.Kind == KindRead):
		return x.problem(dst, Problem{Kind: ProblemNotFound}), false
	}
	out := Outcome{Now: x.world.Now()}
	switch x.req.Kind {
	case KindChange:
		if barred := x.a.barred.Load(); barred != nil && *barred != "" && *barred == x.line.Direction {
			return x.problem(dst, Problem{Kind: ProblemNotAllowed}), false
		}
		var problem *Problem
		if out, problem = x.act(); problem != nil {
			return x.problem(dst, *problem), false
		}
	case KindRead:
		out = x.read()
	case KindList:
		out = x.list()
	default:
		if s, ok := x.a.session.(acting); ok {
			if problem := s.Act(&x.req, out.Now); problem != nil {
				return x.problem(dst, *problem), false
			}
		}
	}
	if x.fault(LimitDrop) != nil {
		x.a.DropLimits(x.sim.card.ICCID)
	}
	if f := x.fault(ActThenHang, ActThenReset, ActThen5xx, ActLate); f != nil {
		switch f.Name {
		case ActThenHang:
			x.pause(f.duration())
			x.hangUp()
			return Reply{}, true
		case ActThenReset:
			x.hangUp()
			return Reply{}, true
		case ActThen5xx:
			return x.problem(dst, Problem{Kind: ProblemServer, Status: or(f.Status, http.StatusBadGateway)}), false
		case ActLate:
			if !x.pause(f.duration() - x.world.Now().Sub(x.line.ArrivedAt)) {
				x.hangUp()
				return Reply{}, true
			}
			x.world.settle()
			if x.req.Kind == KindChange {
				out = x.changed(x.world.Now())
			}
		}
	}
	x.line.Answer = AnswerOK
	x.line.Rows = len(out.Views)
	if len(out.Views) == 1 && x.sim != nil {
		v := out.Views[0]
		x.line.StateAnswered, x.line.RawAnswered, x.line.PendingAnswered = v.State, v.Raw, v.Pending
		if x.req.Usage {
			x.line.UsageAnswered = v.UsageBytes
		}
		if x.req.Usage || x.req.NoState {
			x.line.StateAnswered, x.line.RawAnswered, x.line.PendingAnswered = "", "", false
		}
	}
	return x.a.session.Answer(dst, &x.req, &out), false
}

// fault is the first of the named faults that has struck, nil for none.
func (x *exchange) fault(names ...string) *Fault {
	for i := range x.faults {
		for _, name := range names {
			if x.faults[i].Name == name {
				return &x.faults[i]
			}
		}
	}
	return nil
}

func (x *exchange) problem(dst []byte, p Problem) Reply {
	x.line.Answer = AnswerError
	if p.Kind == ProblemThrottled {
		x.line.Answer = AnswerThrottled
	}
	return x.a.session.Problem(dst, &x.req, p)
}

// pause waits on the world's clock; false: the client left or the lab is closing.
func (x *exchange) pause(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	timer := x.world.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C():
		return true
	case <-x.r.Context().Done():
	case <-x.world.done:
	}
	return false
}

// direction is what a change to a raw word does to the SIM, empty where it is neither.
func (a *Account) direction(to string) simwarden.Direction {
	word, ok := a.wordOf[to]
	switch {
	case !ok:
		return ""
	case a.words[word].State == simwarden.StateSuspended:
		return simwarden.DirectionSuspend
	case a.words[word].State == simwarden.StateActive:
		return simwarden.DirectionResume
	}
	return ""
}

func faultNames(faults []Fault) string {
	switch len(faults) {
	case 0:
		return ""
	case 1:
		return faults[0].Name
	}
	names := make([]string, len(faults))
	for i := range faults {
		names[i] = faults[i].Name
	}
	return strings.Join(names, ",")
}

func or(value, otherwise int) int {
	if value != 0 {
		return value
	}
	return otherwise
}

func clip(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
