package soracom

import (
	"github.com/simwarden/simwarden"
)

// stateOf gives the reading of a status word. A SIM that is "ready" makes itself active when it
// is first used; until then it uses nothing. "inactive" and "standby" differ from "suspended" in
// their fees alone. Why a SIM is suspended is not in the object.
func stateOf(word string) simwarden.StateReading {
	r := simwarden.StateReading{State: simwarden.StateUnknown, Extended: simwarden.ExtendedNone, Raw: word}
	switch word {
	case "shipped", "ready":
		r.State = simwarden.StateInventory
	case "active":
		r.State = simwarden.StateActive
	case "inactive", "standby", "suspended":
		r.State = simwarden.StateSuspended
	case "terminated":
		r.State, r.Extended = simwarden.StateTerminated, simwarden.ExtendedTerminated
	default:
		r.Extended = simwarden.ExtendedOther
	}
	return r
}
