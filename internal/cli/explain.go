package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

type explainCmd struct {
	ICCID string `arg:"" help:"The SIM's ICCID, with or without its check digit."`
}

// Run explains one SIM (R5).
func (c *explainCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		x, err := e.Explain(ctx, c.ICCID)
		if err != nil {
			return err
		}
		if g.JSON {
			return printJSON(g.Out, x)
		}
		explainText(g, x)
		return nil
	})
}

// late says for which instant usage is true where that is well before its reading (E11).
func late(s store.SIM) string {
	if s.UsageTrueAt.IsZero() || s.UsageReadAt.Sub(s.UsageTrueAt) < time.Minute {
		return ""
	}
	return ", as of " + instant(s.UsageTrueAt)
}

func explainText(g *Globals, x api.Explanation) {
	p := func(format string, args ...any) { fmt.Fprintf(g.Out, format+"\n", args...) }
	p("SIM %s%s, account %s (%s, %s)", x.SIM.ICCID, labelText(x.SIM.Label), x.Account.Name, x.Account.Driver, x.Account.Mode)
	p("%s", x.Summary)
	p("")
	p("State     %s", stateText(x))
	if x.SIM.UsageCounterBytes != nil {
		p("Usage     %s in the carrier's period, %s in all; read %s%s", bytesText(*x.SIM.UsageCounterBytes), bytesText(x.SIM.LifetimeBytes), when(x.SIM.UsageReadAt, x.At), late(x.SIM))
	}
	p("Wanted    %s%s", x.Decision.Desired, because(x.Decision))
	for _, r := range x.Decision.Reasons {
		since := ""
		if !r.SinceAt.IsZero() {
			since = ", since " + when(r.SinceAt, x.At)
		}
		p("Reason    %s (%s): %s%s", r.Reason, r.Owner, clean(r.Evidence, 240), since)
	}
	p("Checks")
	for _, k := range x.Decision.Checks {
		mark := "ok  "
		if !k.Passed {
			mark = "FAIL"
		}
		age := ""
		if !k.AsOf.IsZero() {
			age = "; read " + ago(k.AsOf, x.At)
		}
		p("  %s  %s: %s%s", mark, k.Name, clean(k.Saw, 240), age)
	}
	if x.Open != nil {
		commandText(g, "Open command", *x.Open, x)
	} else {
		p("Open command  none")
	}
	if x.Last != nil {
		commandText(g, "Last command", *x.Last, x)
	}
	if len(x.Subscriptions) > 0 {
		p("Plans")
		for _, b := range x.Subscriptions {
			p("  %s", subscriptionText(b, x))
		}
	}
	if x.Pool != nil {
		p("Pool      %s, policy %s: %s used of %s; this member has drawn %s, its cap is %s", x.Pool.Name, spaced(string(x.Pool.Policy)),
			bytesText(x.Pool.UsedBytes), bytesText(x.Pool.TotalBytes()), bytesText(x.Pool.Member.DrawnBytes), bytesText(x.Pool.Member.CapBytes))
	}
	if x.CarrierLimit != nil {
		p("Limit at the carrier  %s", limitText(*x.CarrierLimit, x.At))
	}
	p("What happens next")
	for _, n := range x.Next {
		p("  %s: %s", nextText(n.At, x.At), n.What)
	}
	p("What happened")
	for _, ev := range slices.Backward(x.Timeline) {
		p("  %s  %-18s %s  by %s", instant(ev.At), ev.Kind, eventText(ev.Data), ev.Actor)
	}
}

// nextText is when something happens: at an instant, as soon as a node gets to it, or when what is
// said of it comes to pass.
func nextText(at, now time.Time) string {
	switch {
	case at.IsZero():
		return "open"
	case !at.After(now):
		return "soon"
	}
	return when(at, now)
}

// labelText sets a label off from what is before it.
func labelText(label string) string {
	if label == "" {
		return ""
	}
	return "  " + clean(label, 80)
}

func orWord(word, otherwise string) string {
	if word == "" {
		return otherwise
	}
	return word
}

// stateText is what was read of the state, and when.
func stateText(x api.Explanation) string {
	if x.SIM.StateReadAt.IsZero() {
		return "never read"
	}
	text := string(x.SIM.State)
	if x.SIM.RawState != "" {
		text += fmt.Sprintf(", carrier's word %q", x.SIM.RawState)
	}
	if x.SIM.Extended != "" && x.SIM.Extended != simwarden.ExtendedNone {
		text += ", extended " + string(x.SIM.Extended)
	}
	if x.SIM.Pending {
		text += ", a change is under way there"
	}
	return text + "; read " + when(x.SIM.StateReadAt, x.At)
}

func because(d simwarden.Decision) string {
	switch {
	case d.Reason != "" && d.Because != "":
		return fmt.Sprintf(": %s (%s)", d.Reason, strings.ReplaceAll(d.Because, "_", " "))
	case d.Reason != "":
		return ": " + string(d.Reason)
	case d.Because != "":
		return " (" + strings.ReplaceAll(d.Because, "_", " ") + ")"
	}
	return ""
}

func commandText(g *Globals, name string, c store.Command, x api.Explanation) {
	fmt.Fprintf(g.Out, "%s  %d: %s, %s, scene %s, reason %s, asked by %s, %s, opened %s\n",
		name, c.ID, c.Direction, c.State, c.Scene, orWord(string(c.Reason), "nothing is against its running"), c.AskedBy, times(c.Attempt, "attempt"), when(c.CreatedAt, x.At))
	if c.HeldBy != "" {
		fmt.Fprintf(g.Out, "  waits for: %s\n", c.HeldBy)
	}
	if c.LastClass != "" {
		fmt.Fprintf(g.Out, "  last answer: %s %s %s\n", c.LastClass, c.LastCode, clean(c.LastMessage, 160))
	}
	if c.EndBecause != "" {
		fmt.Fprintf(g.Out, "  ended %s: %s\n", when(c.EndedAt, x.At), clean(c.EndBecause, 160))
	}
}

func subscriptionText(b simwarden.Subscription, x api.Explanation) string {
	text := fmt.Sprintf("%d %s (%s) %s, used %s of %s", b.ID, b.PlanCode, b.Kind, b.State, bytesText(b.UsedBytes), bytesText(b.AllowanceBytes))
	if !b.StartAt.IsZero() {
		text += fmt.Sprintf(", %s until %s", instant(b.StartAt), when(b.EndAt, x.At))
	}
	return text
}

// zeroInstant is how JSON has an instant that is not there.
const zeroInstant = "0001-01-01T00:00:00Z"

// unsaid are values of an event that say that there is nothing.
var unsaid = []string{"", "0", "<nil>", "false", "none", zeroInstant}

// eventText prints an event's data on one line: where something changed first what it was and is,
// then the rest in the order of its keys. What is not there is left out.
func eventText(data json.RawMessage) string {
	var m map[string]any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // a count of bytes keeps its digits
	if dec.Decode(&m) != nil || len(m) == 0 {
		return ""
	}
	var parts []string
	for _, k := range []string{"state", "desired"} {
		if was, is := m["was"], m[k]; was != nil && is != nil {
			parts = append(parts, fmt.Sprintf("%v -> %v", was, is))
			delete(m, "was")
			delete(m, k)
		}
	}
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		if v := fmt.Sprint(m[k]); !slices.Contains(unsaid, v) {
			parts = append(parts, k+"="+eventValue(v))
		}
	}
	return clean(strings.Join(parts, " "), 140)
}

// eventValue leaves the parts of seconds out of an instant, and sets off words from what is around.
func eventValue(v string) string {
	if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
		return at.UTC().Format(time.RFC3339)
	}
	if strings.ContainsAny(v, " =") {
		return fmt.Sprintf("%q", v)
	}
	return v
}

// limitText is what the carrier should hold and holds as a data limit, and how that is known.
func limitText(l store.CarrierLimit, now time.Time) string {
	bytes := func(n int64) string {
		if n == 0 {
			return "none"
		}
		return bytesText(n)
	}
	text := fmt.Sprintf("%s wanted (%s), %s held", bytes(l.DesiredBytes), l.Because, bytes(l.HeldBytes))
	if !l.SetAt.IsZero() {
		text += "; set " + when(l.SetAt, now)
	}
	if l.CheckedAt.IsZero() {
		text += "; never read there"
	} else {
		text += "; read there " + when(l.CheckedAt, now)
	}
	if !l.SentAt.IsZero() {
		text += "; a request is out or its outcome unknown since " + when(l.SentAt, now)
	}
	if l.Error != "" {
		text += fmt.Sprintf("; %s, tried again %s: %s", times(l.Failures, "failure"), when(l.DueAt, now), clean(l.Error, 160))
	}
	return text
}
