package api

import (
	"cmp"
	"context"
	"errors"
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
	Pool          *SIMPool                 `json:"pool,omitempty"`          // that it or its device is in (L6)
	CarrierLimit  *store.CarrierLimit      `json:"carrier_limit,omitempty"` // the data limit wanted and held at its carrier (P8)
	Timeline      []store.Event            `json:"timeline"`
	Next          []Next                   `json:"next"`
	Guards        []store.Guard            `json:"guards"` // that hold something of it (C10)
	Account       store.Account            `json:"account"`
	Device        *store.Device            `json:"device,omitempty"` // whose plans count for it
}

// SIMPool is the pool that a SIM or its device is in, and its stay in it.
type SIMPool struct {
	store.Pool
	Member store.PoolMember `json:"member"`
}

// Next is something that will happen: at an instant, which is that of the explanation for what is
// overdue, or, where At is zero, when what holds it is gone.
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
	if e.Account, err = s.withHealth(ctx, e.Account); err != nil {
		return Explanation{}, err
	}
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
	if e.Pool, err = s.poolOf(ctx, e.SIM); err != nil {
		return Explanation{}, err
	}
	if e.CarrierLimit, err = s.Store.CarrierLimit(ctx, sim.ID); err != nil {
		return Explanation{}, err
	}
	if e.Timeline, err = s.Store.Timeline(ctx, sim.ID, 0, explainTimeline); err != nil {
		return Explanation{}, err
	}
	if e.Timeline == nil {
		e.Timeline = []store.Event{}
	}
	if id := e.SIM.DeviceID; id != 0 {
		d, err := s.Store.DeviceByID(ctx, id)
		if err != nil {
			return Explanation{}, err
		}
		e.Device = &d
	}
	if e.Guards, err = s.Store.GuardsOfSIM(ctx, sim.ID); err != nil {
		return Explanation{}, err
	}
	_, needs := rules.NeedsCommand(e.Decision, judged.Facts)
	e.Drifting = needs && e.Open == nil
	e.Next = next(e)
	e.Summary = summary(e)
	return e, nil
}

// poolOf is the pool that a SIM or its device is in, nil for none.
func (s *Service) poolOf(ctx context.Context, sim store.SIM) (*SIMPool, error) {
	p, m, err := s.Store.PoolOf(ctx, store.AssetOf(sim.ID, sim.DeviceID))
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return &SIMPool{p, m}, err
}

// summary says it in one or two sentences.
func summary(e Explanation) string {
	var b strings.Builder
	switch {
	case e.SIM.StateReadAt.IsZero():
		b.WriteString("Its state was never read; it")
	default:
		fmt.Fprintf(&b, "It is %s", e.SIM.State)
		if e.SIM.Extended != simwarden.ExtendedNone {
			fmt.Fprintf(&b, " (%s)", words(string(e.SIM.Extended)))
		}
		b.WriteString(" and")
	}
	names := reasonNames(e.Decision.Reasons)
	switch e.Decision.Desired {
	case simwarden.DesiredRunning:
		b.WriteString(" should be running")
		if names == "" {
			b.WriteString(": nothing is against it")
		}
	case simwarden.DesiredSuspended:
		b.WriteString(" should be suspended")
	default: // the reasons that hold are not why it is left alone
		fmt.Fprintf(&b, " is left alone: %s", words(e.Decision.Because))
		if names == words(e.Decision.Because) {
			names = ""
		}
		if names != "" {
			b.WriteString(". Against its running")
		}
	}
	if names != "" {
		fmt.Fprintf(&b, ": %s", names)
	}
	b.WriteString(".")
	switch {
	case e.Open != nil:
		fmt.Fprintf(&b, " A %s is %s", e.Open.Direction, e.Open.State)
		if e.Open.HeldBy != "" {
			fmt.Fprintf(&b, ", waiting for: %s", e.Open.HeldBy)
		}
		if breakers := e.Account.Breakers; len(breakers) > 0 && e.Open.State != simwarden.CommandSending {
			fmt.Fprintf(&b, "; its carrier keeps failing since %s and is given a rest: %s", breakers[0].SinceAt.Format(time.RFC3339), breakers[0].Because)
		}
		b.WriteString(".")
	case e.Drifting:
		b.WriteString(" It is drifting: nothing is under way" + driftBecause(e) + ".")
	case e.Decision.Desired != simwarden.DesiredLeave && !strings.HasPrefix(e.Decision.Because, "already"):
		if e.Decision.Because != "" {
			fmt.Fprintf(&b, " No command yet: %s.", words(e.Decision.Because))
		}
	}
	if l := e.CarrierLimit; l != nil && l.HeldBytes > 0 && e.SIM.State == simwarden.StateSuspended && e.SIM.UsageCounterBytes != nil && *e.SIM.UsageCounterBytes >= l.HeldBytes {
		b.WriteString(" Its usage is at the data limit that the carrier holds: the carrier stops it by itself.")
	}
	for _, g := range e.Guards {
		fmt.Fprintf(&b, " Held: %s.", guardText(g))
	}
	return b.String()
}

// goesOn says what is next for an open command. Only a queued one leads to a request for certain.
func goesOn(c store.Command, now time.Time) string {
	switch c.State {
	case simwarden.CommandQueued:
		if !c.RunAt.After(now) {
			return fmt.Sprintf("the %s goes on when its turn comes among the account's orders: it is judged again and sent, attempt %d", c.Direction, c.Attempt+1)
		}
		return fmt.Sprintf("the %s goes on: it is judged again and sent, attempt %d", c.Direction, c.Attempt+1)
	case simwarden.CommandSending:
		return fmt.Sprintf("the %s goes on: the carrier is waited for, attempt %d", c.Direction, c.Attempt)
	}
	return fmt.Sprintf("the %s goes on: the state is read, to see what became of attempt %d", c.Direction, c.Attempt)
}

func onNode(node string) string {
	if node == "" {
		return ""
	}
	return " of node " + node
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
		if !at.IsZero() && at.Before(e.At) { // overdue: as soon as a node gets to it
			at = e.At
		}
		out = append(out, Next{At: at, What: fmt.Sprintf(format, args...)})
	}
	if c := e.Open; c != nil {
		if c.HeldBy != "" && !c.RunAt.After(e.At) {
			add(time.Time{}, "the %s goes on when this is over: %s", c.Direction, c.HeldBy)
			for _, r := range e.Account.Rests {
				if r.Direction == c.Direction {
					add(r.ProbeAt, "a %s of one SIM of account %s is tried; if it works, all go on (at rest since %s: %s)",
						r.Direction, e.Account.Name, r.SinceAt.Format(time.RFC3339), r.Because)
				}
			}
		} else {
			add(c.RunAt, "%s", goesOn(*c, e.At))
		}
	}
	for _, b := range e.Account.Breakers {
		if e.Open != nil {
			add(b.ProbeAt, "the carrier, which keeps failing, is asked by a single call%s; when such calls work, all go on", onNode(b.Node))
		}
	}
	if e.Drifting && e.SIM.ReopenAt.After(e.At) {
		add(e.SIM.ReopenAt, "a %s that failed may be ordered again", e.SIM.FailedDir)
	}
	var queued []simwarden.Subscription
	var mainEnd time.Time
	for _, b := range e.Subscriptions {
		switch {
		case b.State == simwarden.SubscriptionQueued:
			queued = append(queued, b)
		case b.InForce(e.At):
			if b.Kind == simwarden.PlanMain && b.EndAt.After(mainEnd) {
				mainEnd = b.EndAt
			}
			add(b.EndAt, "subscription %d (%s, %s) ends", b.ID, b.PlanCode, b.Kind)
			if lead := e.Account.RenewalLead; b.Renew && lead > 0 && b.EndAt.Add(-lead).After(e.At) {
				add(b.EndAt.Add(-lead), "subscription %d (%s) is bought again from the wallet, %s before its end", b.ID, b.PlanCode, lead)
			}
			if !b.NextResetAt.IsZero() {
				add(b.NextResetAt, "subscription %d (%s): the allowance is full again", b.ID, b.PlanCode)
			}
		}
	}
	if e.Pool != nil && !e.Pool.NextResetAt.IsZero() {
		add(e.Pool.NextResetAt, "pool %s: the allowance is full again", e.Pool.Name)
	}
	slices.SortFunc(queued, func(a, b simwarden.Subscription) int { return cmp.Compare(a.ID, b.ID) })
	for i, b := range queued {
		if i == 0 {
			add(cmp.Or(mainEnd, e.At), "subscription %d (%s, %s), which is queued, begins", b.ID, b.PlanCode, b.Kind)
		} else {
			add(time.Time{}, "subscription %d (%s, %s) is queued behind subscription %d", b.ID, b.PlanCode, b.Kind, queued[i-1].ID)
		}
	}
	switch {
	case !e.SIM.ClosedAt.IsZero():
		add(time.Time{}, "polling is closed (%s); only a person reopens it: simwarden polling resume %s --reason …", e.SIM.ClosedBecause, e.SIM.ICCID)
	case !e.SIM.PausedAt.IsZero():
		add(time.Time{}, "polling is paused by %s; simwarden polling resume %s --reason … takes it up again", e.SIM.PausedBy, e.SIM.ICCID)
	case e.Device != nil && !e.Device.PausedAt.IsZero():
		add(time.Time{}, "polling of its device is paused by %s; simwarden device resume %s takes it up again", e.Device.PausedBy, e.Device.IMEI)
	default:
		add(e.SIM.StateDueAt, "its state is read, sooner where a list shows it")
		add(e.SIM.UsageDueAt, "its usage is read, sooner where a list shows it")
	}
	for _, g := range e.Guards {
		add(time.Time{}, "what guard %d holds goes on when it is released: simwarden guard release %d --reason …", g.ID, g.ID)
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
