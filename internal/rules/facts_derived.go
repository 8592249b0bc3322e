package rules

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
)

// PollingStopped says that polling is paused or closed for the SIM (E5).
func (f Facts) PollingStopped() bool { return f.SIMPaused || f.DevicePaused || f.Closed }

func (f Facts) heldBecause() string {
	switch {
	case f.SIMPaused:
		return BecausePollingPaused
	case f.DevicePaused:
		return BecauseDevicePollingPaused
	}
	return BecausePollingClosed
}

// traffic says that the SIM's state carries traffic; active always does.
func (f Facts) traffic() bool {
	return f.State == simwarden.StateActive || slices.Contains(f.TrafficStates, f.State)
}

// stateUnread says that there is no state to go by (E3).
func (f Facts) stateUnread() bool {
	return f.StateReadAt.IsZero() || f.State == "" || f.State == simwarden.StateUnknown
}

// inState says that the SIM is, as last read, in the wanted state. Suspended is suspended also
// where the carrier lets some traffic through.
func (f Facts) inState(wanted simwarden.Desired) bool {
	if f.stateUnread() {
		return false
	}
	if wanted == simwarden.DesiredSuspended {
		return f.State == simwarden.StateSuspended
	}
	return wanted == simwarden.DesiredRunning && f.State != simwarden.StateSuspended && f.traffic()
}

// old says that a fact was never read or longer ago than the account's bound; without a bound,
// nothing is.
func (f Facts) old(readAt time.Time) bool {
	return f.FreshFor > 0 && (readAt.IsZero() || f.NowAt.Sub(readAt) > f.FreshFor)
}

// stateStale says that the state must be read before anything is sent. A state that was read just
// now and is still not known counts as read: asking again would not end.
func (f Facts) stateStale() bool { return f.StateReadAt.IsZero() || f.old(f.StateReadAt) }

// staleForResume names the facts that a resume rests on and that are too old for it (E11). Where the
// carrier's own limit may have stopped the SIM, usage that was read before tells nothing: the SIM would be
// put back with its data used up.
func (f Facts) staleForResume() []simwarden.CheckKind {
	var stale []simwarden.CheckKind
	if f.stateStale() {
		stale = append(stale, simwarden.CheckState)
	}
	if _, _, limited, _ := f.data(); limited && f.HasUsage && (f.old(f.UsageReadAt) || f.UsageReadAt.Before(f.LimitMayStopAt)) {
		stale = append(stale, simwarden.CheckUsage)
	}
	if f.RealNameRequired && f.HasReal && f.old(f.RealNameAt) {
		stale = append(stale, simwarden.CheckRealName)
	}
	return stale
}

// data sums up what the subscriptions in force have used and may use. limited is false where one
// of them has no limit; some is false where none is in force.
func (f Facts) data() (used, allowance int64, limited, some bool) {
	limited = true
	for _, s := range f.Subscriptions {
		if !s.InForce(f.NowAt) {
			continue
		}
		some = true
		used = addBytes(used, s.UsedBytes)
		if s.Unlimited() {
			limited = false
			continue
		}
		allowance = addBytes(allowance, s.AllowanceBytes)
	}
	return used, allowance, limited && some, some
}

// since gives a reason the age that it has had since the decision before (E10). A plan that ended
// after that is a new reason.
func (f Facts) since(r simwarden.ReasonHeld) simwarden.ReasonHeld {
	for _, before := range f.Held {
		if before.Reason != r.Reason || before.SinceAt.IsZero() {
			continue
		}
		renewed := r.Reason == simwarden.ReasonNoPlan && r.SinceAt.After(before.SinceAt) && r.SinceAt.Before(f.NowAt)
		if !renewed {
			r.SinceAt = before.SinceAt
		}
	}
	return r
}

func instant(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// bytes writes a count of bytes for people, in decimal units, with the exact count behind it.
func bytes(n int64) string {
	units := []string{"kB", "MB", "GB", "TB", "PB", "EB"}
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1000, 0
	for v >= 1000 && unit < len(units)-1 {
		v, unit = v/1000, unit+1
	}
	return fmt.Sprintf("%.2f %s (%d B)", v, units[unit], n)
}

func join(kinds []simwarden.CheckKind) string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}
