package store

// EventKinds lists the kinds of event.
func EventKinds() []string {
	return []string{
		EventLateAnswer, EventBound, EventUnbound, EventDevicePaused, EventDeviceResumed, EventPlanMoved, EventRealName, EventSIMAdded,
		EventState, EventUsageAnomaly, EventRealNameOdd, EventDecision, EventCommandOpened, EventCommandEnded, EventPaused, EventPoolExhausted, EventPoolJoined, EventPoolLeft, EventPoolReset, EventPoolToppedUp, EventResumed, EventCancelled, EventClosed,
		EventReopened, EventHold, EventHoldLifted, EventLapsed, EventSubscribed, EventPlanActivated, EventPlanReset, EventRefunded,
		EventExhausted, EventDrift, EventAccountChanged, EventRenewed, EventRenewalUnpaid, EventNotFound, EventUsageLate, EventUsageRolledOver,
		EventCarrierLimit, EventLimitDrift,
	}
}

// AlertKinds lists the kinds of alert.
func AlertKinds() []string {
	return []string{
		AlertAuth, AlertBrake, AlertRest, AlertFailing, AlertFlapping, AlertCommandFailed, AlertThrottled, AlertUsage, AlertRealName, AlertPartition, AlertClock, AlertRowSetAside,
		AlertDrift, AlertRenewal, AlertNotFound, AlertCarrierLimit, AlertClosed,
	}
}

// BulkStates lists how far a bulk action can be.
func BulkStates() []BulkState { return []BulkState{BulkRunning, BulkDone, BulkCancelled} }
