package check

import (
	"context"
	"encoding/json"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// oneRequestAnAttempt is V2: each state-changing request has an attempt row of its own, which was
// there before it arrived, and each row has at most one request.
func (c *checker) oneRequestAnAttempt(context.Context) error {
	seen := map[string]int{}
	for _, l := range c.Lines {
		if l.LimitViolation != "" {
			c.report.LimitViolations++
		}
		if l.Kind != "change" {
			continue
		}
		c.report.Looked.Changes++
		if c.unknown(l) {
			c.report.Looked.Unknown++
		}
		a := c.byReq[l.RequestID]
		switch {
		case l.RequestID == "" || a == nil:
			c.found("V2", l.ICCID, "a %s arrived at %s that no attempt row speaks of (request id %q)", l.Direction, l.ArrivedAt, l.RequestID)
			continue
		case l.ICCID != "" && a.ICCID != l.ICCID:
			c.found("V2", l.ICCID, "request %s is of another SIM's attempt", l.RequestID)
		case a.ClaimedAt.After(l.ArrivedAt):
			c.found("V2", l.RequestID, "the attempt row is of %s, after the request arrived at %s", a.ClaimedAt, l.ArrivedAt)
		}
		if seen[l.RequestID]++; seen[l.RequestID] == 2 {
			c.found("V2", l.RequestID, "one attempt has sent more than one request")
		}
	}
	return nil
}

// oneAtATime is V3: at most one open command per SIM, and its requests at the carrier one after
// another.
func (c *checker) oneAtATime(ctx context.Context) error {
	busy := map[string]time.Time{}
	for _, l := range c.Lines {
		if l.Kind != "change" || l.ICCID == "" {
			continue
		}
		if until := busy[l.ICCID]; l.ArrivedAt.Before(until) {
			c.found("V3", l.ICCID, "a %s arrived at %s while the request before was under way until %s", l.Direction, l.ArrivedAt, until)
		}
		if end := l.endedAt(); end.After(busy[l.ICCID]) {
			busy[l.ICCID] = end
		}
	}
	return c.each(ctx, "V3", `
		SELECT s.iccid, count(*) || ' open commands' FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE c.state IN ('queued', 'sending', 'verifying', 'confirming') GROUP BY s.iccid HAVING count(*) > 1`)
}

// doubt is a change of a SIM whose outcome its sender cannot know.
type doubt struct {
	line  Line
	clear bool // a read since then has told
}

// unknown says that the sender of a change cannot know what became of it: the carrier says so, or the
// sender itself did, who may have died before an answer came. A documented code for "not executed" is
// an answer all the same.
func (c *checker) unknown(l Line) bool {
	a := c.byReq[l.RequestID]
	if a == nil {
		return l.unknown()
	}
	if l.Answer == "error" && c.notExecuted[a.Rule] {
		return false
	}
	return l.unknown() || a.Outcome == "lost" || a.Class == "unknown_outcome" || a.Class == "unknown"
}

// readBeforeResend is V4: after an unknown outcome, no further state-changing request before a
// read that began after the last possible execution and the settling time said "not changed". A
// read that says "changed" counts at once.
func (c *checker) readBeforeResend(context.Context) error {
	late := map[uint64]time.Time{} // executions after their request's end
	for _, l := range c.Lines {
		if l.Kind == "execution" && l.ExecutedAt.After(late[l.Seq]) {
			late[l.Seq] = l.ExecutedAt
		}
	}
	doubts := map[string]*doubt{}
	for _, l := range c.Lines {
		if l.ICCID == "" {
			continue
		}
		d := doubts[l.ICCID]
		switch {
		case l.Kind == "read" && d != nil && l.understood() && l.StateAnswered != "":
			last := d.line.lastExecution()
			if late[d.line.Seq].After(last) {
				last = late[d.line.Seq]
			}
			changed := l.StateAnswered == d.line.Direction.Target()
			if changed || !l.ArrivedAt.Before(last.Add(c.Settle)) {
				d.clear = true
			}
		case l.Kind == "change":
			if d != nil && !d.clear {
				c.report.BlindResends++
				c.found("V4", l.ICCID, "a %s arrived at %s; what became of the %s at %s was not known (%s, status %d)",
					l.Direction, l.ArrivedAt, d.line.Direction, d.line.ArrivedAt, d.line.Answer, d.line.Status)
			}
			delete(doubts, l.ICCID)
			if c.unknown(l) {
				doubts[l.ICCID] = &doubt{line: l}
			}
		}
	}
	return nil
}

// judgedAfresh is V5: the stored facts give the stored decision again, they were not too old, the
// scene is the cause's, the decision wanted what was sent, and it was made for this attempt.
func (c *checker) judgedAfresh(context.Context) error {
	for _, a := range c.attempts {
		var facts rules.Facts
		var stored simwarden.Decision
		if err := json.Unmarshal(a.Facts, &facts); err != nil {
			c.found("V5", a.RequestID, "its facts cannot be read: %v", err)
			continue
		}
		if err := json.Unmarshal(a.Decision, &stored); err != nil {
			c.found("V5", a.RequestID, "its decision cannot be read: %v", err)
			continue
		}
		again := rules.Decide(facts)
		wanted, _ := again.Direction()
		switch {
		case again.Desired != stored.Desired || again.Reason != stored.Reason:
			c.found("V5", a.RequestID, "its facts give %s (%s), stored is %s (%s)", again.Desired, again.Reason, stored.Desired, stored.Reason)
		case wanted != a.Direction:
			c.found("V5", a.RequestID, "a %s was claimed on a decision for %s", a.Direction, again.Desired)
		case a.Scene != a.CmdScene || facts.Scene != a.CmdScene:
			c.found("V5", a.RequestID, "judged in scene %s (facts %s), the command's is %s", a.Scene, facts.Scene, a.CmdScene)
		case a.ClaimedAt.Sub(facts.NowAt).Abs() > judgedWithin:
			c.found("V5", a.RequestID, "it was claimed at %s on a judgement of %s", a.ClaimedAt, facts.NowAt)
		case facts.FreshFor > 0 && a.ClaimedAt.Sub(facts.StateReadAt) > facts.FreshFor+time.Second:
			c.found("V5", a.RequestID, "the state was read %s before the claim, the bound is %s", a.ClaimedAt.Sub(facts.StateReadAt), facts.FreshFor)
		case oldUsage(a, facts):
			c.found("V5", a.RequestID, "it resumes on usage read %s before the claim, the bound is %s", a.ClaimedAt.Sub(facts.UsageReadAt), facts.FreshFor)
		}
	}
	return nil
}

// judgedWithin is how far a judgement and the claim that it was made for may lie apart: both have
// their transaction's instant.
const judgedWithin = time.Second

// oldUsage says that an automatic resume rests on an allowance, and on usage older than the bound
// (E11).
func oldUsage(a attempt, f rules.Facts) bool {
	if a.Direction != simwarden.DirectionResume || a.CmdScene == simwarden.SceneManual || !f.HasUsage || f.FreshFor <= 0 {
		return false
	}
	limited := false
	for _, b := range f.Subscriptions {
		if b.InForce(f.NowAt) {
			if b.AllowanceBytes == simwarden.UnlimitedBytes {
				return false
			}
			limited = true
		}
	}
	return limited && a.ClaimedAt.Sub(f.UsageReadAt) > f.FreshFor+time.Second
}

// terminal are the classes after which nothing is tried again (C5).
var terminal = map[string]bool{"not_found": true, "invalid": true, "risk_suspended": true, "terminated": true, "refused": true}

// counted are the classes that count towards the limit of attempts.
var counted = map[string]bool{"temporary": true, "unknown_outcome": true, "unknown": true}

// terminalIsTheEnd is V6: no attempt after a terminal class, and no more than the limit.
func (c *checker) terminalIsTheEnd(context.Context) error {
	ended := map[int64]string{}
	tried := map[int64]int{}
	for _, a := range c.attempts {
		if class := ended[a.CommandID]; class != "" {
			c.found("V6", a.RequestID, "attempt %d of command %d follows a terminal %s", a.Number, a.CommandID, class)
		}
		if terminal[a.Class] {
			ended[a.CommandID] = a.Class
		}
		if counted[a.Class] && a.Outcome != "not_sent" {
			tried[a.CommandID]++
			if c.MaxAttempts > 0 && tried[a.CommandID] == c.MaxAttempts+1 {
				c.found("V6", a.RequestID, "command %d has more than %d attempts that failed", a.CommandID, c.MaxAttempts)
			}
		}
	}
	return nil
}

// waitsAreKept is the other half of V6: where the carrier throttled a change and said for how long,
// no further change of that SIM arrives before. An answer that its node did not live to write down
// binds nobody: V4 says when the next may be sent then.
func (c *checker) waitsAreKept(context.Context) error {
	longest := c.RetryAfterMax
	if longest <= 0 {
		longest = time.Hour
	}
	type wait struct {
		request string
		until   time.Time
	}
	waits := map[string]wait{}
	for _, l := range c.Lines {
		if l.Kind != "change" || l.ICCID == "" {
			continue
		}
		if w := waits[l.ICCID]; l.ArrivedAt.Before(w.until) {
			c.found("V6", l.ICCID, "%s, a %s, arrived at %s; the answer to %s had asked to wait until %s", l.RequestID, l.Direction, l.ArrivedAt, w.request, w.until)
		}
		delete(waits, l.ICCID)
		if l.Answer == "throttled" && l.RetryAfterSeconds > 0 && !c.unknown(l) {
			asked := longest
			if l.RetryAfterSeconds < int64(longest/time.Second) {
				asked = time.Duration(l.RetryAfterSeconds) * time.Second
			}
			waits[l.ICCID] = wait{request: l.RequestID, until: l.AnsweredAt.Add(asked)}
		}
	}
	return nil
}
