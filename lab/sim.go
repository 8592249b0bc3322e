package lab

import (
	"time"

	"github.com/simwarden/simwarden"
)

// Card is what never changes about a SIM.
type Card struct {
	ICCID     string
	Key       string // the carrier's own name
	IMSI      string
	MSISDN    string
	CreatedAt time.Time
	Index     int // position in the account's list
}

// SIMTruth is what is really so about a SIM, for checkers. Instants are UTC.
type SIMTruth struct {
	Account string          `json:"account"`
	ICCID   string          `json:"iccid"`
	Key     string          `json:"key"`
	IMSI    string          `json:"imsi"`
	MSISDN  string          `json:"msisdn"`
	State   simwarden.State `json:"state"`
	Raw     string          `json:"raw"`
	// PendingRaw is what a change that was taken but is not done leads to; empty for none.
	PendingRaw string `json:"pending_raw,omitempty"`
	// RealName is the real-name status in the dialect's words, where one was set.
	RealName string `json:"real_name,omitempty"`
	// UsageBytes is the usage of the running calendar month (UTC, or the zone in which the carrier
	// counts), LifetimeBytes all there was.
	UsageBytes    int64    `json:"usage_bytes"`
	LifetimeBytes int64    `json:"lifetime_bytes"`
	Changes       []Change `json:"changes,omitempty"`
	// LimitBytes is the usage of the month at which the carrier stops the SIM by itself; 0: never.
	LimitBytes int64 `json:"limit_bytes,omitempty"`
	// Executions counts the changes that requests have made, repeated ones too.
	Executions int `json:"executions"`
}

// Change is one moment in a SIM's history: it came to be in this state then.
type Change struct {
	At            time.Time       `json:"at"`
	State         simwarden.State `json:"state"`
	Raw           string          `json:"raw"`
	LifetimeBytes int64           `json:"lifetime_bytes"`
	By            string          `json:"by"` // "start", "portal", or the request's id or sequence
}

// maxHistory bounds a SIM's history; usage before the oldest kept moment is then taken as flat.
const maxHistory = 1024

// sim is guarded by its account's mutex.
type sim struct {
	card    Card
	usage   generator
	history []moment // never empty, in order of time
	// pending is the change that was taken and is not done, shown as pending; nil for none.
	pending    *laterChange
	executions int32
	limitBytes int64 // 0: none
	realName   string
	lastCallAt time.Time // for PerSIMGap; guarded by the account's limiter
}

type moment struct {
	at    time.Time
	word  uint8
	total int64 // lifetime bytes at that instant
	by    string
}

// at finds the moment in force at t; before the first one, the first.
func (s *sim) at(t time.Time) *moment {
	i := len(s.history) - 1
	for i > 0 && s.history[i].at.After(t) {
		i--
	}
	return &s.history[i]
}

// total is the lifetime usage at t in bytes.
func (s *sim) total(a *Account, t time.Time) int64 {
	m := s.at(t)
	if !a.words[m.word].Traffic || !t.After(m.at) {
		return m.total
	}
	return m.total + int64(a.scale*(s.usage.used(t)-s.usage.used(m.at)))
}

// between is the usage in [from, until), nothing of it after now.
func (s *sim) between(a *Account, from, until, now time.Time) int64 {
	if until.After(now) {
		until = now
	}
	if !until.After(from) {
		return 0
	}
	return s.total(a, until) - s.total(a, from)
}

func (s *sim) add(m moment) {
	if len(s.history) >= maxHistory {
		s.history = append(s.history[:0], s.history[maxHistory/2:]...)
	}
	s.history = append(s.history, m)
}

// turn puts the SIM into a state at an instant not before the last one in its history.
func (s *sim) turn(a *Account, word uint8, at time.Time, by string) {
	if last := s.history[len(s.history)-1].at; at.Before(last) {
		at = last
	}
	s.add(moment{at: at, word: word, total: s.total(a, at), by: by})
}

// addUsage books bytes at an instant, without a change of state.
func (s *sim) addUsage(a *Account, bytes int64, at time.Time) {
	word := s.history[len(s.history)-1].word
	s.turn(a, word, at, "usage")
	s.history[len(s.history)-1].total += bytes
}

func (s *sim) truth(a *Account, now time.Time) SIMTruth {
	m := s.at(now)
	t := SIMTruth{
		Account: a.Name(), ICCID: s.card.ICCID, Key: s.card.Key, IMSI: s.card.IMSI, MSISDN: s.card.MSISDN,
		State: a.words[m.word].State, Raw: a.words[m.word].Raw,
		RealName:      s.realName,
		UsageBytes:    s.between(a, a.monthStart(now), now, now),
		LifetimeBytes: s.total(a, now),
		Executions:    int(s.executions),
		LimitBytes:    s.limitBytes,
	}
	if s.pending != nil {
		t.PendingRaw = a.words[s.pending.word].Raw
	}
	for _, m := range s.history {
		if m.by == "usage" {
			continue
		}
		t.Changes = append(t.Changes, Change{At: m.at, State: a.words[m.word].State, Raw: a.words[m.word].Raw,
			LifetimeBytes: m.total, By: m.by})
	}
	return t
}

// monthStart is the start of the month around t in the zone in which the carrier counts.
func (a *Account) monthStart(t time.Time) time.Time {
	t = t.In(a.zone)
	return time.Date(t.Year(), t.Month(), 1, 0, 0, 0, 0, a.zone).UTC()
}
