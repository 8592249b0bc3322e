package api

import (
	"slices"
	"strings"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/transfer"
)

var (
	desires         = []simwarden.Desired{simwarden.DesiredLeave, simwarden.DesiredRunning, simwarden.DesiredSuspended}
	directions      = []simwarden.Direction{simwarden.DirectionSuspend, simwarden.DirectionResume}
	accountModes    = []simwarden.AccountMode{simwarden.ModeObserve, simwarden.ModeAct}
	groupModes      = []simwarden.GroupMode{simwarden.GroupMonitor, simwarden.GroupEnforce}
	unplanned       = []simwarden.UnplannedPolicy{simwarden.UnplannedLeave, simwarden.UnplannedSuspend}
	driftPolicies   = []simwarden.DriftPolicy{simwarden.DriftEnforce, simwarden.DriftAlert, simwarden.DriftAdopt}
	planKinds       = []simwarden.PlanKind{simwarden.PlanMain, simwarden.PlanAddon}
	owners          = []simwarden.Owner{simwarden.OwnerPlatform, simwarden.OwnerPerson, simwarden.OwnerCarrier}
	differenceKinds = []store.DifferenceKind{store.DifferenceUnknownSIM, store.DifferenceOtherAccount, store.DifferenceNotCharged, store.DifferenceAmount}
	ruleOrigins     = []store.RuleOrigin{store.RuleFromDriver, store.RuleFromOperator}
	guardKinds      = []store.GuardKind{store.GuardClock, store.GuardMassLapse}
	holdStates      = []simwarden.HoldState{simwarden.HoldOpen, simwarden.HoldCaptured, simwarden.HoldReleased}
	carrierOutcomes = []carrier.Outcome{carrier.Done, carrier.Accepted}
)

// Enumerations gives every word that a field can hold, by the name of the enumeration (I2).
func (s *Service) Enumerations() map[string][]string {
	return map[string][]string{
		"state":              texts(simwarden.States()),
		"extended_state":     texts(simwarden.ExtendedStates()),
		"realname":           texts(simwarden.RealNames()),
		"desired":            texts(desires),
		"reason":             texts(simwarden.Reasons()),
		"reason_owner":       texts(owners),
		"scene":              texts(simwarden.Scenes()),
		"direction":          texts(directions),
		"command_state":      texts(simwarden.CommandStates()),
		"operation":          texts(simwarden.Operations()),
		"purpose":            texts(simwarden.Purposes()),
		"check":              texts(simwarden.CheckKinds()),
		"account_mode":       texts(accountModes),
		"limit_group_mode":   texts(groupModes),
		"unplanned":          texts(unplanned),
		"drift_policy":       texts(driftPolicies),
		"plan_kind":          texts(planKinds),
		"validity_unit":      texts(simwarden.ValidityUnits()),
		"reset":              texts(simwarden.ResetKinds()),
		"activation":         texts(simwarden.Activations()),
		"pool_policy":        texts(simwarden.PoolPolicies()),
		"subscription_state": texts(simwarden.SubscriptionStates()),
		"transaction_kind":   texts(simwarden.TransactionKinds()),
		"hold_state":         texts(holdStates),
		"difference_kind":    texts(differenceKinds),
		"bulk_outcome":       texts(store.BulkOutcomes()),
		"bulk_state":         texts(store.BulkStates()),
		"alert_kind":         store.AlertKinds(),
		"event_kind":         store.EventKinds(),
		"guard_kind":         texts(guardKinds),
		"rule_origin":        texts(ruleOrigins),
		"export":             texts(transfer.Exports()),
		"error_class":        texts(carrier.Classes()),
		"carrier_outcome":    texts(carrierOutcomes),
		"driver":             carrier.Names(),
	}
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

func isOneOf[T ~string](v T, list []T) bool { return slices.Contains(list, v) }

func notOneOf[T ~string](what string, v T, list []T) error {
	return badInput("%s %.40q: give one of %s", what, string(v), strings.Join(texts(list), ", "))
}
