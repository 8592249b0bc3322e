//go:build planted

package gateway

import (
	"os"

	"github.com/simwarden/simwarden/internal/store"
)

// plantedLease breaks V7: each lease is used for twice as many calls as it has slots, so that a second
// sees twice its limit. Builds with this tag are for tests alone (reliability rule 2).
func plantedLease(got store.SlotLease) store.SlotLease {
	if os.Getenv("SIMWARDEN_PLANTED") == "V7" {
		got.Slots, got.Polls, got.Step = 2*got.Slots, 2*got.Polls, got.Step/2
	}
	return got
}
