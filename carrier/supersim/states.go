package supersim

import (
	"github.com/simwarden/simwarden"
)

// The words that a change asks for.
const (
	wordInactive = "inactive"
	wordActive   = "active"
)

// stateOf gives the reading of a status word. "scheduled" says that a change is on its way and
// neither from what nor to what: the state is unknown and pending, and what was known before
// holds until it shows.
func stateOf(word string) simwarden.StateReading {
	r := simwarden.StateReading{State: simwarden.StateUnknown, Extended: simwarden.ExtendedNone, Raw: word}
	switch word {
	case "new":
		r.State = simwarden.StateInventory
	case "ready":
		r.State = simwarden.StateTestReady
	case wordActive:
		r.State = simwarden.StateActive
	case wordInactive:
		r.State = simwarden.StateSuspended
	case "scheduled":
		r.Pending = true
	default:
		r.Extended = simwarden.ExtendedOther
	}
	return r
}
