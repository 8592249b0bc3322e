package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// BulkPreview is what a bulk action would be about; nothing is written for it.
type BulkPreview struct {
	Direction simwarden.Direction `json:"direction"`
	SIMs      int                 `json:"sims"`
	Twice     int                 `json:"named_twice"` // rows of the list that name a SIM again
	BadRows   int                 `json:"bad_rows"`
	Bad       []BadICCID          `json:"bad"` // the first of them
	Counts    []BulkPart          `json:"counts"`
	Warnings  []string            `json:"warnings"`
	// LeastSeconds is how long the requests take at least at the limits that are enforced; absent where
	// none is known.
	LeastSeconds *int64 `json:"least_seconds,omitempty"`
}

// BulkPart counts SIMs of an account in one state.
type BulkPart struct {
	Account string          `json:"account"`
	State   simwarden.State `json:"state"`
	SIMs    int             `json:"sims"`
}

// PreviewBulk tells what a bulk action would be about, what to mind, and how long it takes at the
// limits known.
func (s *Service) PreviewBulk(ctx context.Context, d simwarden.Direction, t BulkTarget) (BulkPreview, error) {
	if !isOneOf(d, directions) {
		return BulkPreview{}, notOneOf("direction", d, directions)
	}
	f, err := s.findBulk(ctx, t)
	if err != nil {
		return BulkPreview{}, err
	}
	p := BulkPreview{Direction: d, SIMs: len(f.sims), Twice: f.twice, BadRows: f.bads, Bad: append([]BadICCID{}, f.bad...), Counts: []BulkPart{}, Warnings: []string{}}
	groups, err := s.Store.BulkGroups(ctx, f.sims)
	if err != nil {
		return BulkPreview{}, err
	}
	accounts, err := s.Store.Accounts(ctx)
	if err != nil {
		return BulkPreview{}, err
	}
	limits, err := s.Store.LimitGroups(ctx)
	if err != nil {
		return BulkPreview{}, err
	}
	byID := make(map[simwarden.AccountID]store.Account, len(accounts))
	for _, a := range accounts {
		byID[a.ID] = a
	}
	for _, g := range groups {
		p.Counts = append(p.Counts, BulkPart{Account: byID[g.AccountID].Name, State: g.State, SIMs: g.SIMs})
	}
	p.Warnings = append(p.Warnings, bulkWarnings(d, groups, byID)...)
	requests := bulkRequests(d, groups, byID)
	for _, l := range limits {
		least, known := leastTime(l, simwarden.OperationOf(d), requests[l.ID])
		if !known {
			continue
		}
		if seconds := bulkTime(least); p.LeastSeconds == nil || seconds > *p.LeastSeconds {
			p.LeastSeconds = &seconds
		}
	}
	return p, nil
}

// inDirection says that a SIM in this state needs no command.
func inDirection(d simwarden.Direction, s simwarden.State) bool {
	return d == simwarden.DirectionSuspend && s == simwarden.StateSuspended || d == simwarden.DirectionResume && s == simwarden.StateActive
}

// bulkRequests counts the requests that each limit group has to carry.
func bulkRequests(d simwarden.Direction, groups []store.BulkGroup, accounts map[simwarden.AccountID]store.Account) map[simwarden.LimitGroupID]int {
	out := map[simwarden.LimitGroupID]int{}
	for _, g := range groups {
		a := accounts[g.AccountID]
		if a.Mode == simwarden.ModeAct && !inDirection(d, g.State) && g.State != simwarden.StateTerminated {
			out[a.LimitGroupID] += g.SIMs
		}
	}
	return out
}

// leastTime is how long n requests take at least within a group's limits; known is false where it
// enforces none for them.
func leastTime(g store.LimitGroup, op simwarden.Operation, n int) (least time.Duration, known bool) {
	if n == 0 || g.Mode != simwarden.GroupEnforce {
		return 0, false
	}
	rate, limited := g.PerSecond[op]
	if !limited {
		rate, limited = g.PerSecond[""]
	}
	if limited && rate > 0 {
		least, known = time.Duration(n-1)*time.Second/time.Duration(rate), true
	}
	for _, w := range g.Windows {
		if w.Calls > 0 && (w.Operation == "" || w.Operation == op) {
			least, known = max(least, time.Duration((n-1)/w.Calls)*time.Duration(w.Seconds)*time.Second), true
		}
	}
	return least, known
}

// bulkWarnings says what to mind, in sentences.
func bulkWarnings(d simwarden.Direction, groups []store.BulkGroup, accounts map[simwarden.AccountID]store.Account) []string {
	var observed, stopped []string
	var already, unknown, terminated, open, reasons, held int
	add := func(list []string, name string) []string {
		if slices.Contains(list, name) {
			return list
		}
		return append(list, name)
	}
	for _, g := range groups {
		a := accounts[g.AccountID]
		if a.Mode != simwarden.ModeAct {
			observed = add(observed, a.Name)
		}
		if !a.StoppedAt.IsZero() {
			stopped = add(stopped, a.Name)
		}
		switch {
		case g.State == simwarden.StateUnknown:
			unknown += g.SIMs
		case g.State == simwarden.StateTerminated:
			terminated += g.SIMs
		case inDirection(d, g.State):
			already += g.SIMs
		}
		open, reasons, held = open+g.Open, reasons+g.Reasons, held+g.Held
	}
	var out []string
	say := func(n int, text string) {
		if n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, text))
		}
	}
	if len(observed) > 0 {
		out = append(out, "accounts that observe, where nothing is sent: "+strings.Join(observed, ", "))
	}
	if len(stopped) > 0 {
		out = append(out, "accounts whose calls are stopped, where commands wait: "+strings.Join(stopped, ", "))
	}
	say(already, "are so already as last read: they need no command")
	say(unknown, "have never been read: their state is read first")
	say(terminated, "are terminated: nothing is sent for them")
	say(open, "have a command open, which is replaced or waited for")
	if d == simwarden.DirectionResume {
		say(reasons, "have a reason to be suspended (no plan, data used up, real name, the carrier): they may be suspended again")
		say(held, "are held by a person: the hold is lifted")
	} else {
		say(held, "are held by a person already: the hold is then by this action, with its reason")
		if len(groups) > 0 {
			out = append(out, "each is held from then on: no plan or payment resumes it until a person does")
		}
	}
	return out
}
