package api

import (
	"context"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// SIMQuery narrows a list of SIMs; zero fields do not.
type SIMQuery struct {
	Account  string // by name
	State    simwarden.State
	Desired  simwarden.Desired
	Reason   simwarden.Reason
	Drifting bool
	Paused   bool
	Closed   bool // by the carrier's word (P5)
	Extended simwarden.ExtendedState
	Search   string // the beginning of an ICCID or of a label
	Cursor   string
	Limit    int // 0: DefaultPage; at most MaxPage
}

const maxSearch = 64

// check says what is wrong with a query, but for its account, page and cursor.
func (q SIMQuery) check() error {
	switch {
	case q.State != "" && !isOneOf(q.State, simwarden.States()):
		return notOneOf("state", q.State, simwarden.States())
	case q.Desired != "" && !isOneOf(q.Desired, desires):
		return notOneOf("desired", q.Desired, desires)
	case q.Reason != "" && !isOneOf(q.Reason, simwarden.Reasons()):
		return notOneOf("reason", q.Reason, simwarden.Reasons())
	case q.Extended != "" && !isOneOf(q.Extended, simwarden.ExtendedStates()):
		return notOneOf("extended_state", q.Extended, simwarden.ExtendedStates())
	case len(q.Search) > maxSearch:
		return badInput("a search of %d characters: give at most %d", len(q.Search), maxSearch)
	}
	return nil
}

// filter is the query without its page, its account found by its name.
func (q SIMQuery) filter(account simwarden.AccountID) store.SIMFilter {
	return store.SIMFilter{AccountID: account, State: q.State, Desired: q.Desired, Reason: q.Reason,
		Drifting: q.Drifting, Paused: q.Paused, Closed: q.Closed, Extended: q.Extended, Search: q.Search}
}

// SIMs lists SIMs in the order in which they were added.
func (s *Service) SIMs(ctx context.Context, q SIMQuery) (Page[store.SIM], error) {
	limit, err := pageLimit(q.Limit)
	if err != nil {
		return Page[store.SIM]{}, err
	}
	after, err := cursorID("sim", q.Cursor)
	if err != nil {
		return Page[store.SIM]{}, err
	}
	account, err := s.accountID(ctx, q.Account)
	if err != nil {
		return Page[store.SIM]{}, err
	}
	if err := q.check(); err != nil {
		return Page[store.SIM]{}, err
	}
	f := q.filter(account)
	f.After, f.Limit = simwarden.SIMID(after), limit+1
	rows, err := s.Store.SIMs(ctx, f)
	if err != nil {
		return Page[store.SIM]{}, err
	}
	return pageOf(rows, limit, "sim", func(sim store.SIM) int64 { return int64(sim.ID) }), nil
}

// Events lists what happened to a SIM (R5), the newest first.
func (s *Service) Events(ctx context.Context, iccid, cursor string, limit int) (Page[store.Event], error) {
	none := Page[store.Event]{}
	limit, err := pageLimit(limit)
	if err != nil {
		return none, err
	}
	before, err := cursorID("event", cursor)
	if err != nil {
		return none, err
	}
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return none, err
	}
	rows, err := s.Store.Timeline(ctx, sim.ID, before, limit+1)
	if err != nil {
		return none, err
	}
	return pageOf(rows, limit, "event", func(e store.Event) int64 { return e.ID }), nil
}

// defaultUsageDays is how far back a SIM's daily usage is given where nobody says.
const defaultUsageDays = 90 * 24 * time.Hour

// UsageDays gives a SIM's daily usage from a UTC day on (U5), the oldest first; zero: of 90 days.
func (s *Service) UsageDays(ctx context.Context, iccid string, from time.Time) ([]store.UsageDay, error) {
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return nil, err
	}
	if from.IsZero() {
		from = s.Store.Now().Add(-defaultUsageDays)
	}
	return s.Store.UsageDays(ctx, sim.ID, from)
}

const maxSubscriptions = 100

// Subscriptions gives the newest subscriptions of a SIM's asset, ended ones too, newest first.
func (s *Service) Subscriptions(ctx context.Context, iccid string) ([]simwarden.Subscription, error) {
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return nil, err
	}
	return s.Store.SubscriptionsOf(ctx, sim.ID, maxSubscriptions)
}

// accountID finds an account by name; the empty name is 0, all accounts.
func (s *Service) accountID(ctx context.Context, name string) (simwarden.AccountID, error) {
	if name == "" {
		return 0, nil
	}
	a, err := s.Store.AccountByName(ctx, name)
	return a.ID, err
}

// simID finds a SIM by ICCID; the empty text is 0, all SIMs.
func (s *Service) simID(ctx context.Context, iccid string) (simwarden.SIMID, error) {
	if strings.TrimSpace(iccid) == "" {
		return 0, nil
	}
	sim, err := s.FindSIM(ctx, iccid)
	return sim.ID, err
}
