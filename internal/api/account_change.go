package api

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// AccountChange is what to change in an account; nil fields stay.
type AccountChange struct {
	Mode       *simwarden.AccountMode
	StateEvery *time.Duration
	UsageEvery *time.Duration
	// RealNameEvery is how often the real-name status is read, where the carrier tells it.
	RealNameEvery *time.Duration
	FreshFor      *time.Duration
	Unplanned     *simwarden.UnplannedPolicy // counts from the next judgement of each SIM on
	DriftPolicy   *simwarden.DriftPolicy
	BrakePercent  *int
	BrakeCount    *int
	BrakeWindow   *time.Duration
	RenewalLead   *time.Duration
	// CheckChangesPerDay and Dwell bound what checks alone change of a SIM (F30); 0: no bound.
	CheckChangesPerDay *int
	Dwell              *time.Duration
	// RealNameRequired, where it changes, has all SIMs of the account judged in the background (S19).
	RealNameRequired *bool
	// CarrierLimits, where it changes, has the carrier hold a data limit for each SIM from now on, equal to what
	// its plan allows, or takes those away (P8).
	CarrierLimits *bool
	// LimitGroup is the name of the group whose limits the account shares from now on.
	LimitGroup *string
	// Credentials replace all those that are there (write-only, B10).
	Credentials map[string]secret.Secret
}

// ChangeAccount changes an account and gives it as it is then. The gateway takes new credentials
// and the poller new intervals up by themselves.
func (s *Service) ChangeAccount(ctx context.Context, name string, c AccountChange, actor string) (store.Account, error) {
	if err := checkChange(c); err != nil {
		return store.Account{}, err
	}
	a, err := s.Store.AccountByName(ctx, name)
	if err != nil {
		return a, err
	}
	if c.Credentials != nil {
		if err := s.checkDriver(a.Driver, a.BaseURL, a.Settings, c.Credentials); err != nil {
			return a, err
		}
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		changed, err := s.change(ctx, tx, a.ID, c, actor)
		if err != nil || len(changed) == 0 {
			return err
		}
		return s.tellChange(ctx, tx, a.ID, actor, "account_change", changed)
	})
	if err != nil {
		return a, err
	}
	return s.Store.Account(ctx, a.ID)
}

// change writes what is to change and tells what did.
func (s *Service) change(ctx context.Context, tx *store.Tx, id simwarden.AccountID, c AccountChange, actor string) (map[string]any, error) {
	accounts, err := tx.AccountsByID(ctx, []simwarden.AccountID{id})
	if err != nil {
		return nil, err
	}
	a, changed := accounts[id], map[string]any{}
	acts := c.Mode != nil && *c.Mode != a.Mode && *c.Mode == simwarden.ModeAct
	limits := c.CarrierLimits != nil && *c.CarrierLimits != a.CarrierLimits
	// The requests' locks come before the account's, as where they are worked off. What the carrier should hold
	// follows from the judgement too.
	if acts || limits && *c.CarrierLimits {
		if err := tx.RequestAccountEvaluation(ctx, id, simwarden.ScenePeriodic, actor); err != nil {
			return nil, err
		}
	}
	if c.RealNameRequired != nil && *c.RealNameRequired != a.RealNameRequired {
		changed["realname_required"] = *c.RealNameRequired
		if err := tx.RequestAccountEvaluation(ctx, id, simwarden.SceneRealNamePolicyChanged, actor); err != nil {
			return nil, err
		}
		if err := tx.SetRealNameRequired(ctx, id, *c.RealNameRequired); err != nil {
			return nil, err
		}
	}
	if limits {
		changed["carrier_limits"] = *c.CarrierLimits
		if err := setCarrierLimits(ctx, tx, a, *c.CarrierLimits); err != nil {
			return nil, err
		}
	}
	if c.Mode != nil && *c.Mode != a.Mode {
		changed["mode"] = *c.Mode
		if err := tx.SetAccountMode(ctx, id, *c.Mode); err != nil {
			return nil, err
		}
	}
	if c.LimitGroup != nil {
		group, err := s.Store.LimitGroupByName(ctx, *c.LimitGroup)
		if err != nil {
			return nil, err
		}
		if group.ID != a.LimitGroupID {
			changed["limit_group"] = group.Name
			if err := tx.MoveAccountToGroup(ctx, id, group.ID); err != nil {
				return nil, err
			}
		}
	}
	if c.StateEvery != nil || c.UsageEvery != nil || c.RealNameEvery != nil {
		state, usage, realName := valueOr(c.StateEvery, a.StateEvery), valueOr(c.UsageEvery, a.UsageEvery), valueOr(c.RealNameEvery, a.RealNameEvery)
		changed["state_every_seconds"], changed["usage_every_seconds"], changed["realname_every_seconds"] = state.Seconds(), usage.Seconds(), realName.Seconds()
		if err := tx.SetPolling(ctx, id, state, usage, realName); err != nil {
			return nil, err
		}
	}
	if c.Unplanned != nil || c.DriftPolicy != nil {
		unplanned, drift := valueOr(c.Unplanned, a.Unplanned), valueOr(c.DriftPolicy, a.DriftPolicy)
		changed["unplanned"], changed["drift_policy"] = unplanned, drift
		if err := tx.SetPolicies(ctx, id, unplanned, drift); err != nil {
			return nil, err
		}
	}
	if c.FreshFor != nil {
		changed["fresh_for_seconds"] = c.FreshFor.Seconds()
		if err := tx.SetFreshFor(ctx, id, *c.FreshFor); err != nil {
			return nil, err
		}
	}
	if c.BrakePercent != nil || c.BrakeCount != nil || c.BrakeWindow != nil {
		percent, count, window := valueOr(c.BrakePercent, a.BrakePercent), valueOr(c.BrakeCount, a.BrakeCount), valueOr(c.BrakeWindow, a.BrakeWindow)
		changed["brake_percent"], changed["brake_count"], changed["brake_window_seconds"] = percent, count, window.Seconds()
		if err := tx.SetBrake(ctx, id, percent, count, window); err != nil {
			return nil, err
		}
	}
	if c.RenewalLead != nil {
		changed["renewal_lead_seconds"] = c.RenewalLead.Seconds()
		if err := tx.SetRenewalLead(ctx, id, *c.RenewalLead); err != nil {
			return nil, err
		}
	}
	if c.CheckChangesPerDay != nil || c.Dwell != nil {
		most, dwell := valueOr(c.CheckChangesPerDay, a.CheckChangesPerDay), valueOr(c.Dwell, a.Dwell)
		changed["check_changes_per_day"], changed["dwell_seconds"] = most, dwell.Seconds()
		if err := tx.SetFlapLimits(ctx, id, most, dwell); err != nil {
			return nil, err
		}
	}
	if c.Credentials != nil {
		changed["credentials"] = slices.Sorted(maps.Keys(c.Credentials)) // their names alone
		if err := s.sealCredentials(ctx, tx, id, c.Credentials); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// setCarrierLimits switches an account's limits at its carrier on or off.
func setCarrierLimits(ctx context.Context, tx *store.Tx, a store.Account, on bool) error {
	if on {
		driver, err := carrier.Lookup(a.Driver)
		if err != nil {
			return badInput("%v", err)
		}
		if driver.Info().Limit.UnitBytes == 0 {
			return badInput("carrier_limits: %s holds no data limit for a SIM; its SIMs are stopped by suspends alone", driver.Info().Title)
		}
	}
	return tx.SetCarrierLimits(ctx, a.ID, on)
}

func checkChange(c AccountChange) error {
	switch {
	case c.Mode != nil && !isOneOf(*c.Mode, accountModes):
		return notOneOf("mode", *c.Mode, accountModes)
	case c.Unplanned != nil && !isOneOf(*c.Unplanned, unplanned):
		return notOneOf("unplanned", *c.Unplanned, unplanned)
	case c.DriftPolicy != nil && !isOneOf(*c.DriftPolicy, driftPolicies):
		return notOneOf("drift_policy", *c.DriftPolicy, driftPolicies)
	case c.BrakePercent != nil && (*c.BrakePercent < 0 || *c.BrakePercent > 100):
		return badInput("a brake of %d percent: give 0 to 100", *c.BrakePercent)
	case c.CheckChangesPerDay != nil && (*c.CheckChangesPerDay < 0 || *c.CheckChangesPerDay > maxChanges):
		return badInput("%d automatic changes a SIM and day: give 0 (no bound) to %d", *c.CheckChangesPerDay, maxChanges)
	case c.BrakeCount != nil && (*c.BrakeCount < 0 || *c.BrakeCount > maxBrakeCount):
		return badInput("a brake at %d suspends: give 0 to %d", *c.BrakeCount, maxBrakeCount)
	}
	return errors.Join(
		checkDuration("state_every_seconds", valueOr(c.StateEvery, time.Second), time.Second, maxEvery),
		checkDuration("usage_every_seconds", valueOr(c.UsageEvery, time.Second), time.Second, maxEvery),
		checkDuration("realname_every_seconds", valueOr(c.RealNameEvery, time.Second), time.Second, maxEvery),
		checkDuration("fresh_for_seconds", valueOr(c.FreshFor, time.Second), time.Second, maxFreshFor),
		checkDuration("dwell_seconds", valueOr(c.Dwell, 0), 0, maxDwell),
		checkDuration("renewal_lead_seconds", valueOr(c.RenewalLead, 0), 0, maxRenewalLead),
		checkDuration("brake_window_seconds", valueOr(c.BrakeWindow, time.Second), time.Second, maxBrakeWindow))
}

func checkDuration(name string, d, least, most time.Duration) error {
	if d < least || d > most || d%time.Second != 0 {
		return badInput("%s: give whole seconds, %d to %d", name, int64(max(least, time.Second).Seconds()), int64(most.Seconds()))
	}
	return nil
}
