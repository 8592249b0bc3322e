package gateway

import (
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/store"
)

// plantedLease breaks V7 in builds with the tag planted, where they are told to: each lease is used for
// twice as many calls as it has slots, so that a second sees twice its limit.
func plantedLease(got store.SlotLease) store.SlotLease {
	if fault.Planted("V7") {
		got.Slots, got.Polls, got.Step = 2*got.Slots, 2*got.Polls, got.Step/2
	}
	return got
}
