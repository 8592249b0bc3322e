package lab

import (
	"time"

	"github.com/simwarden/simwarden"
)

// SetLimit makes the usage of a calendar month at which the carrier stops a SIM what is given, in bytes;
// 0: it never does. A dialect calls it for the limits that it keeps. False: there is no such SIM.
func (a *Account) SetLimit(iccid string, limitBytes int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.find(iccid)
	if s == nil {
		return false
	}
	s.limitBytes = limitBytes
	if limitBytes == 0 {
		delete(a.limited, s)
		return true
	}
	if a.limited == nil {
		a.limited = map[*sim]bool{}
	}
	a.limited[s] = true
	return true
}

// DropLimits loses the data limits of a SIM, as a carrier may without a word.
func (a *Account) DropLimits(iccid string) {
	if s, ok := a.session.(limiting); ok {
		s.DropLimits(iccid)
	}
}

// stopAtLimits stops the SIMs in use that are at their limits: an act of the carrier's own, of which its
// log has an execution line. It is looked at with each request, so it comes late, as at real carriers; and
// one that is put back while it is over its limit is stopped again.
func (a *Account) stopAtLimits() {
	var lines []LogLine
	a.mu.Lock()
	if len(a.limited) > 0 {
		now := a.world.Now()
		for s := range a.limited {
			if line, stopped := a.stopAtLimit(s, now); stopped {
				lines = append(lines, line)
			}
		}
	}
	a.mu.Unlock()
	for _, line := range lines {
		a.world.log.write(line)
	}
}

// stopAtLimit needs mu held.
func (a *Account) stopAtLimit(s *sim, now time.Time) (LogLine, bool) {
	before := s.at(now).word
	word, ok := a.word(string(simwarden.StateSuspended))
	if !ok || !a.words[before].Traffic || s.between(a, a.monthStart(now), now, now) < s.limitBytes {
		return LogLine{}, false
	}
	s.turn(a, word, now, "limit")
	return LogLine{ArrivedAt: now, Seq: a.world.seq.Add(1), Account: a.Name(), Operation: simwarden.OpSetThreshold, Kind: KindExecution,
		ICCID: s.card.ICCID, Direction: simwarden.DirectionSuspend, Executed: true, ExecutedAt: now,
		StateBefore: a.words[before].State, StateAfter: a.words[word].State}, true
}
