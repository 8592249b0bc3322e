package simwarden

// State is a SIM's normalised state at its carrier. The driver says which states carry traffic.
type State string

// The states. StateUnknown is the zero meaning: read it first (E3).
const (
	StateUnknown    State = "unknown"
	StateInventory  State = "inventory"
	StateTestReady  State = "test_ready"
	StateActive     State = "active"
	StateSuspended  State = "suspended"
	StateTerminated State = "terminated"
)

// States lists every state, in the order of a SIM's life.
func States() []State {
	return []State{StateInventory, StateTestReady, StateActive, StateSuspended, StateTerminated, StateUnknown}
}

// ExtendedState is the carrier's finer word, normalised; the raw word is kept beside it.
type ExtendedState string

// The extended states.
const (
	ExtendedNone            ExtendedState = "none"
	ExtendedRiskSuspended   ExtendedState = "risk_suspended"
	ExtendedTerminated      ExtendedState = "terminated"
	ExtendedDeviceSeparated ExtendedState = "device_separated"
	ExtendedArrears         ExtendedState = "arrears"
	ExtendedOther           ExtendedState = "other"
)

// ExtendedStates lists every extended state.
func ExtendedStates() []ExtendedState {
	return []ExtendedState{ExtendedNone, ExtendedRiskSuspended, ExtendedTerminated, ExtendedDeviceSeparated, ExtendedArrears, ExtendedOther}
}

// ClosesPolling says that a SIM seen in this extended state has its own polling closed (P5).
func (e ExtendedState) ClosesPolling() bool {
	return e == ExtendedRiskSuspended || e == ExtendedTerminated
}

// RealName is the real-name status of a SIM.
type RealName string

// The real-name statuses.
const (
	RealNameUnknown    RealName = "unknown"
	RealNameVerified   RealName = "verified"
	RealNameUnverified RealName = "unverified"
	// RealNameExempt: no person is to be registered for the SIM, as where it is a unit's.
	RealNameExempt RealName = "exempt"
)

// RealNames lists every real-name status.
func RealNames() []RealName {
	return []RealName{RealNameUnknown, RealNameVerified, RealNameUnverified, RealNameExempt}
}

// Met says that nothing is missing for an account that requires real names.
func (r RealName) Met() bool { return r == RealNameVerified || r == RealNameExempt }

// Desired is what a decision wants of a SIM.
type Desired string

// What a decision can want. DesiredLeave is the safe one: send nothing.
const (
	DesiredLeave     Desired = "leave"
	DesiredRunning   Desired = "running"
	DesiredSuspended Desired = "suspended"
)

// Direction is what a command does to a SIM.
type Direction string

// The two directions. Terminating a SIM is another thing, and only ever manual.
const (
	DirectionSuspend Direction = "suspend"
	DirectionResume  Direction = "resume"
)

// Target is the state that a command of this direction leads to.
func (d Direction) Target() State {
	if d == DirectionSuspend {
		return StateSuspended
	}
	return StateActive
}

// Opposite is the other direction.
func (d Direction) Opposite() Direction {
	if d == DirectionSuspend {
		return DirectionResume
	}
	return DirectionSuspend
}
