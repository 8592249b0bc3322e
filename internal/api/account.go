package api

import (
	"context"
	"encoding/json"
	"errors"
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
	return list, s.addHealth(ctx, 0, list)
}

// addHealth adds to accounts what of them rests, and their circuit breakers that are open (G8); id is that of the
// only one of them, else zero.
func (s *Service) addHealth(ctx context.Context, id simwarden.AccountID, list []store.Account) error {
	rests, err := s.Store.RestsOf(ctx, id)
	if err != nil {
		return err
	}
	breakers, err := s.Store.BreakersOf(ctx, id)
	if err != nil {
		return err
	}
	at := make(map[simwarden.AccountID]*store.Account, len(list))
	for i := range list {
		at[list[i].ID] = &list[i]
	}
	for _, r := range rests {
		if a := at[r.AccountID]; a != nil { // added since the list was read
			a.Rests = append(a.Rests, r)
		}
	}
	for _, b := range breakers {
		if a := at[b.AccountID]; a != nil {
			a.Breakers = append(a.Breakers, b)
		}
	}
	return nil
}

func (s *Service) withHealth(ctx context.Context, a store.Account) (store.Account, error) {
	list := []store.Account{a}
	err := s.addHealth(ctx, a.ID, list)
	return list[0], err
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

func valueOr[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
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
