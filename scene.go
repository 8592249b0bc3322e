package simwarden

// Scene says why an evaluation was asked for (E4). Every evaluation request, command and
// record carries one, and the judgement just before sending uses the same one.
type Scene string

// The scenes.
const (
	SceneUsageCheck            Scene = "usage_check"
	SceneRealNameCheck         Scene = "realname_check"
	SceneStateCheck            Scene = "state_check"
	ScenePeriodic              Scene = "periodic"
	ScenePlanCheck             Scene = "plan_check"
	ScenePlanActivated         Scene = "plan_activated"
	ScenePlanReset             Scene = "plan_reset"
	SceneToppedUp              Scene = "topped_up"
	SceneQueuedActivated       Scene = "queued_activated"
	SceneRealNameActivated     Scene = "realname_activated"
	SceneRealNamePolicyChanged Scene = "realname_policy_changed"
	ScenePollingResumed        Scene = "polling_resumed"
	ScenePlanLapsed            Scene = "plan_lapsed"
	SceneRefunded              Scene = "refunded"
	SceneManual                Scene = "manual"
)

// Scenes lists every scene.
func Scenes() []Scene {
	return []Scene{
		SceneUsageCheck, SceneRealNameCheck, SceneStateCheck, ScenePeriodic, ScenePlanCheck,
		ScenePlanActivated, ScenePlanReset, SceneToppedUp, SceneQueuedActivated,
		SceneRealNameActivated, SceneRealNamePolicyChanged, ScenePollingResumed,
		ScenePlanLapsed, SceneRefunded, SceneManual,
	}
}

// IgnoresPause says that polling being paused or closed does not hold this scene back (E5, E6).
func (s Scene) IgnoresPause() bool {
	return s == ScenePlanLapsed || s == SceneRefunded || s == SceneManual
}

// EndsPlan says that the scene tells of a main plan that has ended (E6).
func (s Scene) EndsPlan() bool { return s == ScenePlanLapsed || s == SceneRefunded }

// FromCheck says that the scene is a repeated check alone, and no event: a purchase, a top-up, a reset, a plan's end, or
// what a person asked for.
func (s Scene) FromCheck() bool {
	switch s {
	case SceneUsageCheck, SceneRealNameCheck, SceneStateCheck, ScenePeriodic, ScenePlanCheck:
		return true
	}
	return false
}

// Reason is why a SIM should be suspended, or is kept so.
type Reason string

// The reasons: the first three are E2's, in the order in which they name a decision.
const (
	ReasonNone          Reason = ""
	ReasonNoPlan        Reason = "no_plan"
	ReasonDataExhausted Reason = "data_exhausted"
	ReasonRealNameUnmet Reason = "realname_unmet"
	ReasonManualHold    Reason = "manual_hold"
	ReasonCarrierStop   Reason = "carrier_stop"
	ReasonManualResume  Reason = "manual_resume"
)

// Reasons lists every reason that can stand in a reason set.
func Reasons() []Reason {
	return []Reason{ReasonNoPlan, ReasonDataExhausted, ReasonRealNameUnmet, ReasonManualHold, ReasonCarrierStop}
}

// Owner says whose reason it is (E10).
type Owner string

// The owners of reasons.
const (
	OwnerPlatform Owner = "platform"
	OwnerPerson   Owner = "person"
	OwnerCarrier  Owner = "carrier"
)
