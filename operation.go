package simwarden

// Operation is what is asked of a carrier.
type Operation string

// The operations. Every HTTP attempt belongs to one (G1); OpToken is a login.
const (
	OpToken         Operation = "token"
	OpListSIMs      Operation = "list_sims"
	OpListUsage     Operation = "list_usage"
	OpQueryState    Operation = "query_state"
	OpQueryUsage    Operation = "query_usage"
	OpQueryRealName Operation = "query_realname"
	OpQuerySession  Operation = "query_session"
	OpQueryJob      Operation = "query_job"
	OpSuspend       Operation = "suspend"
	OpResume        Operation = "resume"
	OpSetThreshold  Operation = "set_threshold"
	OpRenew         Operation = "renew"
)

// Operations lists every operation.
func Operations() []Operation {
	return []Operation{OpToken, OpListSIMs, OpListUsage, OpQueryState, OpQueryUsage, OpQueryRealName,
		OpQuerySession, OpQueryJob, OpSuspend, OpResume, OpSetThreshold, OpRenew}
}

// ChangesState says that the operation may change a SIM at the carrier, so that its outcome
// matters after a broken connection (C6).
func (o Operation) ChangesState() bool { return o == OpSuspend || o == OpResume }

// OperationOf is the operation that carries a command out.
func OperationOf(d Direction) Operation {
	if d == DirectionSuspend {
		return OpSuspend
	}
	return OpResume
}

// Purpose says on whose behalf a call is made (G2).
type Purpose string

// The purposes.
const (
	PurposePoll          Purpose = "poll"
	PurposeCommand       Purpose = "command"
	PurposeManual        Purpose = "manual"
	PurposeManualRefresh Purpose = "manual_refresh"
	PurposeThreshold     Purpose = "threshold"
	PurposeRenewal       Purpose = "renewal"
)

// Purposes lists every purpose.
func Purposes() []Purpose {
	return []Purpose{PurposePoll, PurposeCommand, PurposeManual, PurposeManualRefresh, PurposeThreshold, PurposeRenewal}
}

// Exempt says that calls of this purpose pass a limit group, counted but not held (G2).
func (p Purpose) Exempt() bool {
	switch p {
	case PurposeManual, PurposeManualRefresh, PurposeThreshold, PurposeRenewal:
		return true
	}
	return false
}

// CheckKind is one of the repeated checks of a SIM (P1).
type CheckKind string

// The kinds of check that call a carrier.
const (
	CheckState    CheckKind = "state"
	CheckUsage    CheckKind = "usage"
	CheckRealName CheckKind = "realname"
)

// CheckKinds lists the kinds.
func CheckKinds() []CheckKind { return []CheckKind{CheckState, CheckUsage, CheckRealName} }
