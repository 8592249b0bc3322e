package api

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// Explanation answers, for one SIM, what state it is in, what it should be in, why, what is under
// way, what happened, and what happens next and when (R5). All instants are UTC.
type Explanation struct {
	Summary       string                   `json:"summary"`
	At            time.Time                `json:"at"`
	SIM           store.SIM                `json:"sim"`
	Decision      simwarden.Decision       `json:"decision"`
	Drifting      bool                     `json:"drifting"` // not as wanted, and nothing under way
	Open          *store.Command           `json:"open_command,omitempty"`
	Last          *store.Command           `json:"last_command,omitempty"`
	Subscriptions []simwarden.Subscription `json:"subscriptions"`
	Timeline      []store.Event            `json:"timeline"`
	Next          []Next                   `json:"next"`
	Account       store.Account            `json:"account"`
}

// Next is something that will happen, at an instant or, where At is zero, as soon as what holds it
// is gone.
type Next struct {
	At   time.Time `json:"at,omitzero"`
	What string    `json:"what"`
}

const (
	explainTimeline      = 30
	explainSubscriptions = 20
)

// Explain explains one SIM, judged now.
func (s *Service) Explain(ctx context.Context, iccid string) (Explanation, error) {
	sim, err := s.FindSIM(ctx, iccid)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{At: s.Store.Now(), SIM: sim}
	var judged reconcile.Judged
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		judged, err = reconcile.Judge(ctx, tx, sim.ID, simwarden.ScenePeriodic, "")
		return err
	})
	if err != nil {
		return Explanation{}, err
	}
	e.SIM, e.Decision, e.Account = judged.SIM, judged.Decision, judged.Account
	commands, err := s.Store.Commands(ctx, store.CommandFilter{SIMID: sim.ID, Limit: 2})
	if err != nil {
		return Explanation{}, err
	}
	for i := range commands {
		if commands[i].State.Open() {
			e.Open = &commands[i]
		} else if e.Last == nil {
			e.Last = &commands[i]
		}
	}
	if e.Subscriptions, err = s.Store.SubscriptionsOf(ctx, sim.ID, explainSubscriptions); err != nil {
		return Explanation{}, err
	}
	if e.Timeline, err = s.Store.Timeline(ctx, sim.ID, explainTimeline); err != nil {
		return Explanation{}, err
	}
	if e.Timeline == nil {
		e.Timeline = []store.Event{}
	}
	_, needs := rules.NeedsCommand(e.Decision, judged.Facts)
	e.Drifting = needs && e.Open == nil
	e.Next = next(e)
	e.Summary = summary(e)
	return e, nil
}

// summary says it in one or two sentences.
func summary(e Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "It is %s", e.SIM.State)
	if e.SIM.Extended != simwarden.ExtendedNone {
		fmt.Fprintf(&b, " (%s)", e.SIM.Extended)
	}
	if e.SIM.StateReadAt.IsZero() {
		b.WriteString(" (never read)")
	}
	switch e.Decision.Desired {
	case simwarden.DesiredRunning:
		b.WriteString(" and should be running")
	case simwarden.DesiredSuspended:
		b.WriteString(" and should be suspended")
	default:
		fmt.Fprintf(&b, " and is left alone (%s)", words(e.Decision.Because))
	}
	if names := reasonNames(e.Decision.Reasons); names != "" {
		fmt.Fprintf(&b, ": %s", names)
	}
	b.WriteString(".")
	switch {
	case e.Open != nil:
		fmt.Fprintf(&b, " A %s is %s", e.Open.Direction, e.Open.State)
		if e.Open.HeldBy != "" {
			fmt.Fprintf(&b, ", waiting for: %s", e.Open.HeldBy)
		}
		b.WriteString(".")
	case e.Drifting:
		b.WriteString(" It is drifting: nothing is under way" + driftBecause(e) + ".")
	case e.Decision.Desired != simwarden.DesiredLeave && !strings.HasPrefix(e.Decision.Because, "already"):
		if e.Decision.Because != "" {
			fmt.Fprintf(&b, " No command yet: %s.", words(e.Decision.Because))
		}
	}
	return b.String()
}

func driftBecause(e Explanation) string {
	switch {
	case e.Account.Mode == simwarden.ModeObserve:
		return "; the account is in observe mode and sends nothing"
	case !e.Account.StoppedAt.IsZero():
		return "; the account's calls are stopped: " + e.Account.StoppedBecause
	case e.SIM.ReopenAt.After(e.At):
		return fmt.Sprintf("; the last %s failed and is not tried again before %s", e.SIM.FailedDir, e.SIM.ReopenAt.Format(time.RFC3339))
	case !e.Account.BrakedAt.IsZero() && e.Decision.Desired == simwarden.DesiredSuspended:
		return "; the account's safety brake is on: " + e.Account.BrakedBecause
	case e.SIM.DriftBecause != "":
		return "; " + e.SIM.DriftBecause
	}
	return "; the next evaluation orders what is needed"
}

func reasonNames(held []simwarden.ReasonHeld) string {
	names := make([]string, len(held))
	for i, r := range held {
		names[i] = words(string(r.Reason))
	}
	return strings.Join(names, ", ")
}

func words(s string) string { return strings.ReplaceAll(s, "_", " ") }

// next lists what will happen, soonest first; what has no instant comes last.
func next(e Explanation) []Next {
	out := []Next{}
	add := func(at time.Time, format string, args ...any) {
		// What is overdue comes as soon as a node gets to it.
		if at.Before(e.At) {
			at = time.Time{}
		}
		out = append(out, Next{At: at, What: fmt.Sprintf(format, args...)})
	}
	if c := e.Open; c != nil {
		if c.HeldBy != "" && !c.RunAt.After(e.At) {
			add(time.Time{}, "the %s goes on when this is over: %s", c.Direction, c.HeldBy)
		} else {
			add(c.RunAt, "the %s goes on (%s, attempt %d)", c.Direction, c.State, c.Attempt+1)
		}
	}
	if e.Drifting && e.SIM.ReopenAt.After(e.At) {
		add(e.SIM.ReopenAt, "a %s that failed may be ordered again", e.SIM.FailedDir)
	}
	queued := 0
	for _, b := range e.Subscriptions {
		switch {
		case b.State == simwarden.SubscriptionQueued:
			queued++
		case b.InForce(e.At):
			add(b.EndAt, "subscription %d (%s, %s) ends", b.ID, b.PlanCode, b.Kind)
			if !b.NextResetAt.IsZero() {
				add(b.NextResetAt, "subscription %d (%s): the allowance is full again", b.ID, b.PlanCode)
			}
		}
	}
	if queued > 0 {
		add(time.Time{}, "%d queued plans begin when the one before ends", queued)
	}
	switch {
	case !e.SIM.ClosedAt.IsZero():
		add(time.Time{}, "polling is closed (%s); only a person reopens it: simwarden polling resume %s", e.SIM.ClosedBecause, e.SIM.ICCID)
	case !e.SIM.PausedAt.IsZero():
		add(time.Time{}, "polling is paused by %s; simwarden polling resume %s takes it up again", e.SIM.PausedBy, e.SIM.ICCID)
	case !e.SIM.DevicePausedAt.IsZero():
		add(time.Time{}, "polling of its device is paused")
	default:
		add(e.SIM.StateDueAt, "its state is read")
		add(e.SIM.UsageDueAt, "its usage is read")
	}
	slices.SortStableFunc(out, func(a, b Next) int {
		switch {
		case a.At.IsZero() && b.At.IsZero():
			return 0
		case a.At.IsZero():
			return 1
		case b.At.IsZero():
			return -1
		}
		return a.At.Compare(b.At)
	})
	return out
}
