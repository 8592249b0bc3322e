package api

import (
	"context"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// Summary is the fleet in a few numbers.
type Summary struct {
	At       time.Time `json:"at"` // when it was counted; UTC
	SIMs     int64     `json:"sims"`
	Unread   int64     `json:"unread"` // never read
	ByState  Numbers   `json:"by_state"`
	Desired  Numbers   `json:"by_desired"`
	ByReason Numbers   `json:"by_reason"` // the first reason that holds
	store.Marks
	OpenCommands Numbers          `json:"open_commands"` // by state
	Evaluations  store.Backlog    `json:"evaluations"`
	Alerts       int64            `json:"alerts"`
	Accounts     []AccountSummary `json:"accounts"`
}

// Numbers counts by a word.
type Numbers map[string]int64

// AccountSummary is one account in a few numbers.
type AccountSummary struct {
	Name           string                `json:"name"`
	Driver         string                `json:"driver"`
	Mode           simwarden.AccountMode `json:"mode"`
	SIMs           int64                 `json:"sims"`
	Active         int64                 `json:"active"`
	Suspended      int64                 `json:"suspended"`
	BrakedAt       time.Time             `json:"braked_at,omitzero"`
	BrakedBecause  string                `json:"braked_because,omitempty"`
	StoppedAt      time.Time             `json:"stopped_at,omitzero"`
	StoppedBecause string                `json:"stopped_because,omitempty"`
}

// summaries keeps the last summary, so that asking often costs little: counting takes at most one
// part in summaryShare of the time, whatever the fleet's size.
type summaries struct {
	mu    sync.Mutex
	last  Summary
	until time.Time
}

const summaryShare = 20

// Summary counts the fleet. The counts are as old as At says: for a large fleet that takes a second
// to count, up to twenty seconds. Several callers at a time share one count.
func (s *Service) Summary(ctx context.Context) (Summary, error) {
	s.summaries.mu.Lock()
	defer s.summaries.mu.Unlock()
	began := s.Clock.Now()
	if began.Before(s.summaries.until) {
		return s.summaries.last, nil
	}
	sum, err := s.count(ctx)
	if err != nil {
		return Summary{}, err
	}
	ended := s.Clock.Now()
	s.summaries.last, s.summaries.until = sum, ended.Add(summaryShare*ended.Sub(began))
	return sum, nil
}

func (s *Service) count(ctx context.Context) (Summary, error) {
	sum := Summary{At: s.Store.Now(), ByState: Numbers{}, Desired: Numbers{}, ByReason: Numbers{}, OpenCommands: Numbers{}, Accounts: []AccountSummary{}}
	accounts, err := s.Store.Accounts(ctx)
	if err != nil {
		return sum, err
	}
	place := make(map[simwarden.AccountID]int, len(accounts))
	for i, a := range accounts {
		place[a.ID] = i
		sum.Accounts = append(sum.Accounts, AccountSummary{Name: a.Name, Driver: a.Driver, Mode: a.Mode,
			BrakedAt: a.BrakedAt, BrakedBecause: a.BrakedBecause, StoppedAt: a.StoppedAt, StoppedBecause: a.StoppedBecause})
	}
	counts, err := s.Store.Counts(ctx)
	if err != nil {
		return sum, err
	}
	for _, c := range counts {
		sum.SIMs += c.SIMs
		sum.Unread += c.Unread
		sum.ByState[string(c.State)] += c.SIMs
		sum.Desired[string(c.Desired)] += c.SIMs
		if c.Reason != "" {
			sum.ByReason[string(c.Reason)] += c.SIMs
		}
		if i, known := place[c.AccountID]; known { // one that was added meanwhile is in the next count
			sum.Accounts[i].add(c)
		}
	}
	if sum.Marks, err = s.Store.Marks(ctx); err != nil {
		return sum, err
	}
	open, err := s.Store.CountOpenCommands(ctx)
	if err != nil {
		return sum, err
	}
	for state, n := range open {
		sum.OpenCommands[string(state)] = n
	}
	if sum.Evaluations, err = s.Store.EvaluationBacklog(ctx, sum.At); err != nil {
		return sum, err
	}
	sum.Alerts, err = s.Store.CountAlerts(ctx)
	return sum, err
}

func (a *AccountSummary) add(c store.Count) {
	a.SIMs += c.SIMs
	switch c.State {
	case simwarden.StateActive:
		a.Active += c.SIMs
	case simwarden.StateSuspended:
		a.Suspended += c.SIMs
	}
}
