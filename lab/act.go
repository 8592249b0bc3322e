package lab

import (
	"time"

	"github.com/simwarden/simwarden"
)

// act makes or takes the change that the request asks for. A problem says why not.
func (x *exchange) act() (Outcome, *Problem) {
	a, s := x.a, x.sim
	word, ok := a.wordOf[x.req.To]
	if !ok {
		return Outcome{}, &Problem{Kind: ProblemBadRequest, To: x.req.To}
	}
	a.mu.Lock()
	now := x.world.Now()
	before := s.at(now).word
	x.line.StateBefore, x.line.StateAfter = a.words[before].State, a.words[before].State
	switch from := a.words[before].Raw; {
	case s.pending != nil && a.session.RefusesWhilePending():
		a.mu.Unlock()
		return Outcome{}, &Problem{Kind: ProblemBusy, From: from, To: x.req.To}
	case a.repeats(from, x.req.To):
		a.mu.Unlock()
		return Outcome{}, &Problem{Kind: ProblemAlready, From: from, To: x.req.To}
	case from != x.req.To && !a.session.Allowed(from, x.req.To):
		a.mu.Unlock()
		return Outcome{}, &Problem{Kind: ProblemNotAllowed, From: from, To: x.req.To}
	}
	if x.fault(LieOK) != nil {
		a.mu.Unlock()
		return x.lie(word, now), nil
	}
	due := now.Add(a.spec.ChangeDelay)
	late := x.fault(ActLate)
	if late != nil {
		due = x.line.ArrivedAt.Add(late.duration()).Add(a.spec.ChangeDelay)
	}
	if due.After(now) {
		change := &laterChange{at: due, order: x.line.Seq, account: a, sim: s, word: word, visible: late == nil}
		x.line.DueAt = due
		change.line = x.line
		if change.visible {
			s.pending = change
		}
		a.mu.Unlock()
		x.world.schedule(change)
		return x.changed(now), nil
	}
	s.turn(a, word, now, x.line.by())
	s.executions++
	s.pending = nil
	x.line.Executed, x.line.ExecutedAt, x.line.StateAfter = true, now, a.words[word].State
	if x.fault(ActTwice) != nil {
		s.turn(a, word, now, x.line.by())
		s.executions++
		again := x.line
		again.Kind = KindExecution
		again.StateBefore = again.StateAfter
		x.world.log.write(again)
	}
	a.mu.Unlock()
	return x.changed(now), nil
}

// Order makes or takes the change of one SIM of a request that names many, which the dialect has
// parsed as no change itself. The log has an execution line for each change that is made. It gives
// the empty kind where the carrier takes it, else why not.
func (a *Account) Order(iccid, to string, op simwarden.Operation) ProblemKind {
	word, ok := a.wordOf[to]
	if !ok {
		return ProblemBadRequest
	}
	a.mu.Lock()
	s := a.find(iccid)
	if s == nil {
		a.mu.Unlock()
		return ProblemNotFound
	}
	now := a.world.Now()
	before := s.at(now).word
	switch from := a.words[before].Raw; {
	case s.pending != nil && a.session.RefusesWhilePending():
		a.mu.Unlock()
		return ProblemBusy
	case a.repeats(from, to):
		a.mu.Unlock()
		return ProblemAlready
	case from != to && !a.session.Allowed(from, to):
		a.mu.Unlock()
		return ProblemNotAllowed
	}
	line := LogLine{ArrivedAt: now, Seq: a.world.seq.Add(1), Account: a.Name(), Operation: op, Kind: KindExecution,
		ICCID: s.card.ICCID, Direction: a.direction(to), DueAt: now.Add(a.spec.ChangeDelay)}
	change := &laterChange{at: line.DueAt, order: line.Seq, account: a, sim: s, word: word, visible: true, line: line}
	s.pending = change
	a.mu.Unlock()
	a.world.schedule(change)
	a.world.settle()
	return ""
}

// repeats says that the carrier refuses this change because the SIM is in that state already.
func (a *Account) repeats(from, to string) bool {
	r, ok := a.session.(refusesRepeats)
	return ok && r.RefusesRepeats(from, to)
}

// lie is the answer of a carrier that says that it acted.
func (x *exchange) lie(word uint8, now time.Time) Outcome {
	out := x.changed(now)
	v := &out.Views[0]
	v.Raw, v.State, v.Pending, v.ChangedAt = x.a.words[word].Raw, x.a.words[word].State, false, now
	return out
}

// changed is the SIM as the answer to a change shows it.
func (x *exchange) changed(now time.Time) Outcome {
	x.a.mu.RLock()
	defer x.a.mu.RUnlock()
	v := x.a.view(x.sim, now)
	return Outcome{Views: []View{v}, Accepted: v.Pending, Now: now}
}

// view is a SIM as it was at an instant. It needs mu held, for reading at least.
func (a *Account) view(s *sim, at time.Time) View {
	m := s.at(at)
	word := &a.words[m.word]
	return View{
		Card: &s.card, Raw: word.Raw, State: word.State, Online: word.Traffic, ChangedAt: m.at, RealName: s.realName,
		Pending: s.pending != nil && !s.pending.line.ArrivedAt.After(at),
	}
}
