package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// CommandQuery narrows a list of commands; zero fields do not.
type CommandQuery struct {
	ICCID    string
	Account  string
	State    simwarden.CommandState
	OpenOnly bool
	HeldOnly bool // those that wait for something: a brake, a guard, a stopped account, a quota
	Cursor   string
	Limit    int // 0: DefaultPage; at most MaxPage
}

// CommandDetail is a command with its attempts.
type CommandDetail struct {
	Command  store.Command   `json:"command"`
	Attempts []store.Attempt `json:"attempts"`
}

// Commands lists commands, newest first.
func (s *Service) Commands(ctx context.Context, q CommandQuery) (Page[store.Command], error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return Page[store.Command]{}, err
	}
	before, err := cursorID("command", q.Cursor)
	if err != nil {
		return Page[store.Command]{}, err
	}
	if q.State != "" && !isOneOf(q.State, simwarden.CommandStates()) {
		return Page[store.Command]{}, notOneOf("state", q.State, simwarden.CommandStates())
	}
	f := store.CommandFilter{State: q.State, OpenOnly: q.OpenOnly, HeldOnly: q.HeldOnly, Before: simwarden.CommandID(before), Limit: limit + 1}
	if f.AccountID, err = s.accountID(ctx, q.Account); err != nil {
		return Page[store.Command]{}, err
	}
	if f.SIMID, err = s.simID(ctx, q.ICCID); err != nil {
		return Page[store.Command]{}, err
	}
	rows, err := s.Store.Commands(ctx, f)
	if err != nil {
		return Page[store.Command]{}, err
	}
	return pageOf(rows, limit, "command", func(c store.Command) int64 { return int64(c.ID) }), nil
}

// Command gives one command with its attempts.
func (s *Service) Command(ctx context.Context, id simwarden.CommandID) (CommandDetail, error) {
	c, err := s.Store.CommandByID(ctx, id)
	if err != nil {
		return CommandDetail{}, err
	}
	attempts, err := s.Store.Attempts(ctx, id)
	return CommandDetail{Command: c, Attempts: attempts}, err
}
