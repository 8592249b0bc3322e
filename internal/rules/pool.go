package rules

import (
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// PoolFact is what a decision needs of the pool that an asset is in (L6), in its running period.
type PoolFact struct {
	ID     simwarden.PoolID     `json:"id"`
	Name   string               `json:"name"`
	Policy simwarden.PoolPolicy `json:"policy"`
	// AllowanceBytes is what the members share, with what was added; UsedBytes what they have drawn.
	AllowanceBytes int64 `json:"allowance_bytes"`
	UsedBytes      int64 `json:"used_bytes"`
	// CapBytes is what this member may draw where the pool is used up, 0 for nothing; DrawnBytes what it has.
	CapBytes   int64 `json:"cap_bytes"`
	DrawnBytes int64 `json:"drawn_bytes"`
}

// Exhausted says that the members have used the allowance up.
func (p PoolFact) Exhausted() bool { return p.UsedBytes >= p.AllowanceBytes }

// Serves says that there is data left in the pool for this member.
func (p PoolFact) Serves() bool {
	return !p.Exhausted() || p.Policy == simwarden.PoolOverCap && p.DrawnBytes < p.CapBytes
}

// saw is the evidence for people.
func (p PoolFact) saw() string {
	text := fmt.Sprintf("pool %s: %s used of %s", p.Name, bytes(p.UsedBytes), bytes(p.AllowanceBytes))
	switch {
	case !p.Exhausted():
		return text
	case p.Policy == simwarden.PoolOverCap:
		return fmt.Sprintf("%s, so members stop at their own cap; this one has drawn %s of %s", text, bytes(p.DrawnBytes), bytes(p.CapBytes))
	}
	return text + ", so all its members without data of their own stop"
}

// SpendPooled is Spend for an asset that is in a pool at the instant: its own subscriptions bear what
// they have room for, in the order of Spend, and the pool bears all the rest, so that what is shared is
// touched last and no byte is borne twice (L6). The parts and the rest sum to deltaBytes.
func SpendPooled(subs []SubscriptionFact, deltaBytes int64, at time.Time) (own []Spent, poolBytes int64) {
	if deltaBytes <= 0 {
		return nil, 0
	}
	order := spendOrder(subs, at)
	added, left := fill(order, deltaBytes)
	return spentParts(order, added), left
}
