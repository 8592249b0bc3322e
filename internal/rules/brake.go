package rules

import "time"

// BrakePolicy bounds how many automatic suspends an account may have in a window before a person
// must release it (C10).
type BrakePolicy struct {
	Window time.Duration
	// SharePercent of the account's active SIMs, and AtLeast SIMs: the larger of the two counts.
	SharePercent float64
	AtLeast      int
	// SmallLimit counts instead for accounts with fewer than SmallFleet active SIMs.
	SmallFleet int
	SmallLimit int
}

// DefaultBrake is C10's: the larger of 5 % and 50 SIMs in 10 minutes, 10 under 100 SIMs.
func DefaultBrake() BrakePolicy {
	return BrakePolicy{Window: 10 * time.Minute, SharePercent: 5, AtLeast: 50, SmallFleet: 100, SmallLimit: 10}
}

// Limit is how many automatic suspends the policy allows in its window for that many active SIMs.
func (b BrakePolicy) Limit(activeSIMs int) int {
	if activeSIMs < b.SmallFleet {
		return b.SmallLimit
	}
	return max(int(float64(activeSIMs)*b.SharePercent/100), b.AtLeast)
}

// Brake says whether one more automatic suspend would pass the limit, so that it has to wait
// (C10, V13). suspendsInWindow counts those already ordered in the last Window, without the
// scenes plan_lapsed, refunded and manual; activeSIMs is the account's number of active SIMs at
// the window's start. A brake without limits holds everything: it fails closed (B20).
func Brake(b BrakePolicy, suspendsInWindow, activeSIMs int) bool {
	return suspendsInWindow >= b.Limit(activeSIMs)
}

// The bounds of OddLimit.
const (
	oddSharePercent = 20
	oddAtLeast      = 10
)

// OddLimit is how many SIMs of an account may read odd within the brake's window before its automatic
// suspends are held: the larger of 20 % of its active SIMs and 10 (F29, F30, V13). A SIM reads odd where its
// counter cannot be believed any more, or its state changed for the worse without an order of ours.
func OddLimit(activeSIMs int) int {
	return max(activeSIMs*oddSharePercent/100, oddAtLeast)
}
