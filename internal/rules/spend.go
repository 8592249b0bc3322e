package rules

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
)

// Spent is what one subscription bears of a usage delta.
type Spent struct {
	ID simwarden.SubscriptionID
	// UsedBytes is added to what the subscription has used.
	UsedBytes int64
	// Exhausted says that its usage has then reached its allowance.
	Exhausted bool
}

// Spend shares a usage delta out over the subscriptions in force at the instant (L5): the main
// plan first, then add-ons by earliest end. What exceeds all of them is borne by the main plan
// (by the last add-on where there is none), so that every byte belongs to exactly one. The parts
// sum to deltaBytes; the result is empty where nothing is in force or the delta is not positive.
func Spend(subs []SubscriptionFact, deltaBytes int64, at time.Time) []Spent {
	order := spendOrder(subs, at)
	if deltaBytes <= 0 || len(order) == 0 {
		return nil
	}
	added, left := fill(order, deltaBytes)
	bearer := 0
	if order[0].Kind != simwarden.PlanMain {
		bearer = len(order) - 1
	}
	added[bearer] += left
	return spentParts(order, added)
}

// fill gives each in its order what it has room for, and what is left then.
func fill(order []SubscriptionFact, deltaBytes int64) (added []int64, left int64) {
	left = deltaBytes
	added = make([]int64, len(order))
	for i, s := range order {
		added[i] = min(left, room(s))
		left -= added[i]
	}
	return added, left
}

func spentParts(order []SubscriptionFact, added []int64) []Spent {
	var out []Spent
	for i, s := range order {
		if added[i] > 0 {
			out = append(out, Spent{ID: s.ID, UsedBytes: added[i], Exhausted: s.spentUp(added[i])})
		}
	}
	return out
}

func spendOrder(subs []SubscriptionFact, at time.Time) []SubscriptionFact {
	var order []SubscriptionFact
	for _, s := range subs {
		if s.InForce(at) {
			order = append(order, s)
		}
	}
	slices.SortFunc(order, func(a, b SubscriptionFact) int {
		if (a.Kind == simwarden.PlanMain) != (b.Kind == simwarden.PlanMain) {
			if a.Kind == simwarden.PlanMain {
				return -1
			}
			return 1
		}
		return cmp.Or(a.EndAt.Compare(b.EndAt), cmp.Compare(a.ID, b.ID))
	})
	return order
}

// Unlimited says that the subscription has no data limit.
func (s SubscriptionFact) Unlimited() bool { return s.AllowanceBytes == simwarden.UnlimitedBytes }

func (s SubscriptionFact) spentUp(added int64) bool {
	return !s.Unlimited() && addBytes(s.UsedBytes, added) >= s.AllowanceBytes
}

// room is how much of the allowance is left, never negative.
func room(s SubscriptionFact) int64 {
	if s.Unlimited() {
		return math.MaxInt64
	}
	return max(s.AllowanceBytes-max(s.UsedBytes, 0), 0)
}

// addBytes adds two counts of bytes and stops at the largest there is: a sum that turned negative
// would look like an empty counter.
func addBytes(a, b int64) int64 {
	if a > 0 && b > math.MaxInt64-a {
		return math.MaxInt64
	}
	return a + b
}
