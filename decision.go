package simwarden

import "time"

// Decision is what one evaluation found (E1): what is wanted of the SIM, why, and every check
// with what it saw. The same object is stored with the command and shown to a person.
type Decision struct {
	Desired Desired `json:"desired"`
	// Reason is the first that holds in E2's order; for DesiredLeave, see Because.
	Reason Reason `json:"reason,omitempty"`
	// Because says in a few words why a leave is a leave ("polling_paused", "already suspended").
	Because string `json:"because,omitempty"`
	// Reasons are all that hold (E10), also where the decision is to leave the SIM.
	Reasons []ReasonHeld `json:"reasons"`
	Checks  []Check      `json:"checks"`
	// Warnings are what a manual order overrides (E3).
	Warnings  []string  `json:"warnings,omitempty"`
	Scene     Scene     `json:"scene"`
	DecidedAt time.Time `json:"decided_at"` // UTC
	// ReadFirst names the facts that are too old to decide on (E11); the decision is then leave.
	ReadFirst []CheckKind `json:"read_first,omitempty"`
}

// ReasonHeld is one reason that holds, with its evidence, owner and age (E10).
type ReasonHeld struct {
	Reason   Reason    `json:"reason"`
	Owner    Owner     `json:"owner"`
	Evidence string    `json:"evidence"`
	SinceAt  time.Time `json:"since_at,omitzero"` // UTC; zero where unknown
}

// Check is one thing that was looked at.
type Check struct {
	Name   string `json:"name"`
	Saw    string `json:"saw"`
	Passed bool   `json:"passed"`
	// AsOf is when the fact was read from the carrier, zero for our own facts. UTC.
	AsOf time.Time `json:"as_of,omitzero"`
}

// Holds says whether the reason is in the decision's set.
func (d Decision) Holds(r Reason) bool {
	for _, held := range d.Reasons {
		if held.Reason == r {
			return true
		}
	}
	return false
}

// Direction gives the command that the decision takes from the state, and false where it takes
// none: a SIM already in the desired state gets no command (E3).
func (d Decision) Direction() (Direction, bool) {
	switch d.Desired {
	case DesiredSuspended:
		return DirectionSuspend, true
	case DesiredRunning:
		return DirectionResume, true
	}
	return "", false
}
