package simwarden

// CommandState is where a command is on its way (C2).
type CommandState string

// The states of a command. The first four are open: at most one such command per SIM.
const (
	CommandQueued     CommandState = "queued"
	CommandSending    CommandState = "sending"
	CommandVerifying  CommandState = "verifying"  // outcome unknown: read the state first (C6)
	CommandConfirming CommandState = "confirming" // accepted: follow until the state shows (C7)

	CommandDone     CommandState = "done"
	CommandFailed   CommandState = "failed"
	CommandObsolete CommandState = "obsolete" // no longer held when judged afresh (C3)
	CommandReplaced CommandState = "replaced" // by a newer opposite one, before sending (C2)
	CommandObserved CommandState = "observed" // the account is in observe mode (C9)
)

// CommandStates lists every state of a command.
func CommandStates() []CommandState {
	return []CommandState{CommandQueued, CommandSending, CommandVerifying, CommandConfirming,
		CommandDone, CommandFailed, CommandObsolete, CommandReplaced, CommandObserved}
}

// Open says that the command has not ended.
func (s CommandState) Open() bool {
	switch s {
	case CommandQueued, CommandSending, CommandVerifying, CommandConfirming:
		return true
	}
	return false
}

// UnderWay says that a request may be at the carrier, so that nothing else may be sent for the
// SIM until this command has settled.
func (s CommandState) UnderWay() bool {
	return s == CommandSending || s == CommandVerifying || s == CommandConfirming
}

// AccountMode says whether simwarden sends suspends and resumes for an account (C9).
type AccountMode string

// The modes of an account; new ones observe.
const (
	ModeObserve AccountMode = "observe"
	ModeAct     AccountMode = "act"
)

// GroupMode says what a limit group does with calls over its limit (G3).
type GroupMode string

// The modes of a limit group; new ones monitor.
const (
	GroupMonitor GroupMode = "monitor"
	GroupEnforce GroupMode = "enforce"
)

// UnplannedPolicy says what becomes of a SIM whose asset never had a main subscription (E2).
type UnplannedPolicy string

// The policies; leave is the default, so that a first import switches nothing off.
const (
	UnplannedLeave   UnplannedPolicy = "leave"
	UnplannedSuspend UnplannedPolicy = "suspend"
)

// DriftPolicy says what follows when a SIM's state was changed outside (E13).
type DriftPolicy string

// The drift policies.
const (
	DriftEnforce DriftPolicy = "enforce"
	DriftAlert   DriftPolicy = "alert"
	DriftAdopt   DriftPolicy = "adopt"
)
