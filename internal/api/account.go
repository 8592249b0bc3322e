package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/calendar"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// NewAccount is a carrier account to add. Zero fields take the defaults of the specification.
type NewAccount struct {
	Name             string
	Driver           string
	BaseURL          string // empty: the driver's
	Zone             string // IANA; empty: UTC
	LimitGroup       string // the name of one that is there; empty: one of its own
	Settings         map[string]string
	Credentials      map[string]secret.Secret
	RealNameRequired bool
	Unplanned        simwarden.UnplannedPolicy
	DriftPolicy      simwarden.DriftPolicy
	FreshFor         time.Duration
	StateEvery       time.Duration
	UsageEvery       time.Duration
	RealNameEvery    time.Duration
}

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

var nameShape = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// The bounds of an account's durations and counts, as the database has them.
const (
	maxEvery       = 30 * 24 * time.Hour
	maxFreshFor    = 7 * 24 * time.Hour
	maxBrakeWindow = 24 * time.Hour
	maxRenewalLead = 7 * 24 * time.Hour
	maxDwell       = 24 * time.Hour
	maxChanges     = 1000
	maxBrakeCount  = 1_000_000
)

// Accounts lists the accounts by name.
func (s *Service) Accounts(ctx context.Context) ([]store.Account, error) {
	list, err := s.Store.Accounts(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if list[i], err = s.withHealth(ctx, list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// withHealth adds what of the account rests, and its circuit breakers that are open (G8).
func (s *Service) withHealth(ctx context.Context, a store.Account) (store.Account, error) {
	var err error
	if a.Rests, err = s.Store.RestsOf(ctx, a.ID); err != nil {
		return a, err
	}
	a.Breakers, err = s.Store.BreakersOf(ctx, a.ID)
	return a, err
}

// Account gives one account by name.
func (s *Service) Account(ctx context.Context, name string) (store.Account, error) {
	a, err := s.Store.AccountByName(ctx, name)
	if err != nil {
		return a, err
	}
	return s.withHealth(ctx, a)
}

// AddAccount adds an account, in observe mode, with its credentials sealed. What the driver needs
// is checked; whether the carrier takes the credentials shows at the first call.
func (s *Service) AddAccount(ctx context.Context, n NewAccount, actor string) (store.Account, error) {
	if err := checkNewAccount(n); err != nil {
		return store.Account{}, err
	}
	if err := s.checkDriver(n.Driver, n.BaseURL, n.Settings, n.Credentials); err != nil {
		return store.Account{}, err
	}
	var a store.Account
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		group, err := s.groupID(ctx, n.LimitGroup)
		if err != nil {
			return err
		}
		a, err = tx.AddAccountBy(ctx, store.Account{
			Name: n.Name, Driver: n.Driver, BaseURL: n.BaseURL, Zone: n.Zone, LimitGroupID: group, Settings: n.Settings,
			RealNameRequired: n.RealNameRequired, Unplanned: n.Unplanned, DriftPolicy: n.DriftPolicy,
			FreshFor: n.FreshFor, StateEvery: n.StateEvery, UsageEvery: n.UsageEvery, RealNameEvery: n.RealNameEvery}, actor)
		if err != nil {
			return err
		}
		if err := s.sealCredentials(ctx, tx, a.ID, n.Credentials); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "account_add", 0, a.ID, map[string]any{
			"name": a.Name, "driver": a.Driver, "base_url": a.BaseURL, "zone": a.Zone, "settings": a.Settings,
			"credentials": slices.Sorted(maps.Keys(n.Credentials)), "realname_required": a.RealNameRequired})
	})
	return a, err
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
	// The requests' locks come before the account's, as where they are worked off.
	if c.Mode != nil && *c.Mode != a.Mode && *c.Mode == simwarden.ModeAct {
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
	if c.CarrierLimits != nil && *c.CarrierLimits != a.CarrierLimits {
		changed["carrier_limits"] = *c.CarrierLimits
		if err := s.setCarrierLimits(ctx, tx, a, *c.CarrierLimits, actor); err != nil {
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

// setCarrierLimits switches an account's limits at its carrier on or off. When they are switched on, all
// its SIMs are judged in the background: what is wanted follows from that.
func (s *Service) setCarrierLimits(ctx context.Context, tx *store.Tx, a store.Account, on bool, actor string) error {
	if on {
		driver, err := carrier.Lookup(a.Driver)
		if err != nil {
			return badInput("%v", err)
		}
		if driver.Info().Limit.UnitBytes == 0 {
			return badInput("carrier_limits: %s holds no data limit for a SIM; its SIMs are stopped by suspends alone", driver.Info().Title)
		}
		// The request's lock comes before the account's, as where it is worked off.
		if err := tx.RequestAccountEvaluation(ctx, a.ID, simwarden.ScenePeriodic, actor); err != nil {
			return err
		}
	}
	return tx.SetCarrierLimits(ctx, a.ID, on)
}

// ReleaseBrake lets an account's automatic suspends go on (C10), and clears its alert. It says
// whether the brake was on.
func (s *Service) ReleaseBrake(ctx context.Context, name, actor, reason string) (a store.Account, was bool, err error) {
	return s.lift(ctx, name, actor, "brake_release", reason, "brake", func(a store.Account) bool { return !a.BrakedAt.IsZero() },
		(*store.Tx).ReleaseBrake)
}

// StartAccount lets the calls of an account that was stopped for its credentials go on (G8), and
// clears its alert. It says whether they were stopped.
func (s *Service) StartAccount(ctx context.Context, name, actor, reason string) (a store.Account, was bool, err error) {
	return s.lift(ctx, name, actor, "account_start", reason, store.AlertAuth, func(a store.Account) bool { return !a.StoppedAt.IsZero() },
		(*store.Tx).StartAccount)
}

// keepCount leaves the count of active SIMs that goes with an account's lock as it is.
const keepCount = 100 * 365 * 24 * time.Hour

// lift takes back what holds an account, where on says that it is held.
func (s *Service) lift(ctx context.Context, name, actor, action, reason, alert string, on func(store.Account) bool,
	do func(*store.Tx, context.Context, simwarden.AccountID) error,
) (a store.Account, was bool, err error) {
	if err = checkReason(reason); err != nil {
		return a, false, err
	}
	if a, err = s.Store.AccountByName(ctx, name); err != nil {
		return a, false, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if on(a) { // what was held has no command: it is judged at once. The request's lock comes before the account's.
			if err := tx.RequestAccountEvaluation(ctx, a.ID, simwarden.ScenePeriodic, actor); err != nil {
				return err
			}
		}
		locked, _, err := tx.LockAccount(ctx, a.ID, keepCount)
		if err != nil {
			return err
		}
		if was = on(locked); !was {
			return nil
		}
		if err := do(tx, ctx, a.ID); err != nil {
			return err
		}
		if err := tx.ClearAlert(ctx, fmt.Sprintf("%s:%d", alert, a.ID), actor); err != nil {
			return err
		}
		return s.tellChange(ctx, tx, a.ID, actor, action, map[string]any{"reason": reason})
	})
	if err != nil {
		return a, false, err
	}
	a, err = s.Store.Account(ctx, a.ID)
	return a, was, err
}

func (s *Service) tellChange(ctx context.Context, tx *store.Tx, id simwarden.AccountID, actor, action string, data map[string]any) error {
	event := store.NewEvent{Kind: store.EventAccountChanged, AccountID: id, Actor: actor, Data: map[string]any{"change": action, "to": data}}
	if err := tx.AddEvents(ctx, []store.NewEvent{event}); err != nil {
		return err
	}
	return tx.Audit(ctx, actor, action, 0, id, data)
}

// sealCredentials seals the names and values as one JSON object for the account's row (B10).
func (s *Service) sealCredentials(ctx context.Context, tx *store.Tx, id simwarden.AccountID, values map[string]secret.Secret) error {
	if len(values) == 0 {
		return nil
	}
	if s.Keyring == nil {
		return errors.New("seal credentials: there is no keyring")
	}
	plain := make(map[string]string, len(values))
	for name, v := range values {
		plain[name] = v.Reveal()
	}
	text, err := json.Marshal(plain)
	if err != nil {
		return errors.New("seal credentials: they are not text") // json's words quote them
	}
	sealed, err := s.Keyring.Seal("account", strconv.FormatInt(int64(id), 10), text)
	if err != nil {
		return err
	}
	return tx.SetCredential(ctx, id, sealed)
}

func checkNewAccount(n NewAccount) error {
	switch {
	case !nameShape.MatchString(n.Name):
		return badInput("an account's name has 1 to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit")
	case n.Unplanned != "" && !isOneOf(n.Unplanned, unplanned):
		return notOneOf("unplanned", n.Unplanned, unplanned)
	case n.DriftPolicy != "" && !isOneOf(n.DriftPolicy, driftPolicies):
		return notOneOf("drift_policy", n.DriftPolicy, driftPolicies)
	}
	if n.Zone != "" {
		if _, err := calendar.LoadZone(n.Zone); err != nil {
			return badInput("%v", err)
		}
	}
	if err := checkBaseURL(n.BaseURL); err != nil {
		return err
	}
	return errors.Join(
		checkDuration("fresh_for_seconds", n.FreshFor, 0, maxFreshFor),
		checkDuration("state_every_seconds", n.StateEvery, 0, maxEvery),
		checkDuration("usage_every_seconds", n.UsageEvery, 0, maxEvery),
		checkDuration("realname_every_seconds", n.RealNameEvery, 0, maxEvery))
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

func valueOr[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

func checkDuration(name string, d, least, most time.Duration) error {
	if d < least || d > most || d%time.Second != 0 {
		return badInput("%s: give whole seconds, %d to %d", name, int64(max(least, time.Second).Seconds()), int64(most.Seconds()))
	}
	return nil
}

// checkBaseURL judges where an account points: https, or http to this machine for a lab (B16). The
// error does not quote it: people put passwords into URLs.
func checkBaseURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || len(text) > 500 {
		return badInput("base_url must have the form https://host/path, with neither user nor query")
	}
	if u.Scheme == "https" || u.Scheme == "http" && isLoopbackHost(u.Hostname()) {
		return nil
	}
	return badInput("base_url must be https; http is for a carrier lab on this machine")
}

func isLoopbackHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// checkDriver says whether the driver is there and finds in settings and credentials what it
// needs, and nothing else. No error quotes a value.
func (s *Service) checkDriver(name, baseURL string, settings map[string]string, credentials map[string]secret.Secret) error {
	driver, err := carrier.Lookup(name)
	if err != nil {
		return badInput("%v", err)
	}
	info := driver.Info()
	given := make(map[string]bool, len(credentials))
	values := make(map[string]string, len(credentials))
	secrets := make([]secret.Secret, 0, len(credentials))
	for key, v := range credentials {
		given[key], values[key] = !v.Empty(), v.Reveal()
		secrets = append(secrets, v)
	}
	if err := checkFields("credential", info.Credentials, given); err != nil {
		return err
	}
	given = make(map[string]bool, len(settings))
	for key, v := range settings {
		given[key] = v != ""
	}
	if err := checkFields("setting", info.Settings, given); err != nil {
		return err
	}
	_, err = driver.Open(carrier.Config{BaseURL: baseURL, Credentials: values, Settings: settings, HTTP: noCalls{}, Now: s.Clock.Now})
	if err != nil {
		return badInput("%s", secret.NewRedactor(secrets...).Text(err.Error()))
	}
	return nil
}

func checkFields(what string, fields []carrier.Field, given map[string]bool) error {
	known := make([]string, 0, len(fields))
	for _, f := range fields {
		known = append(known, f.Name)
		if f.Required && !given[f.Name] {
			return badInput("the %s %q is missing: %s", what, f.Name, f.Help)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if !slices.Contains(known, name) {
			if len(known) == 0 {
				return badInput("this driver takes no %s", what)
			}
			return badInput("there is no %s %.40q; this driver takes: %s", what, name, strings.Join(known, ", "))
		}
	}
	return nil
}

// noCalls is the transport of a connection that is opened only to have its settings checked.
type noCalls struct{}

func (noCalls) Do(*http.Request) (*http.Response, error) {
	return nil, errors.New("nothing is sent while settings are checked")
}
