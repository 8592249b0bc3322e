package carriertest

import (
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

func declarations() []check {
	return []check{
		{"its declaration is complete and is what is registered", declaresItself},
		{"G6: its rules compile, have names of their own and cover the common statuses", declaresRules},
		{"Open without credentials says which is missing and sends nothing", refusesToOpen},
	}
}

func declaresItself(t *testing.T, s Suite) {
	info := s.Driver.Info()
	registered, err := carrier.Lookup(info.Name)
	if err != nil || registered.Info().Title != info.Title || info.Title == "" {
		t.Errorf("driver %q is not registered under its name: %v", info.Name, err)
	}
	u, err := url.Parse(info.DefaultBaseURL)
	if err != nil || u.Scheme != "https" || !slices.Contains(info.Hosts, u.Hostname()) {
		t.Errorf("the base URL %q is not https on a declared host %v (B16)", info.DefaultBaseURL, info.Hosts)
	}
	if !info.Traffic(simwarden.StateActive) {
		t.Errorf("active carries no traffic at this carrier: traffic states are %v (E3)", info.TrafficStates)
	}
	if info.Usage.UnitBytes <= 0 || info.Usage.Period == "" {
		t.Errorf("the usage unit is %d bytes, the period %q: both must be stated exactly (U1)", info.Usage.UnitBytes, info.Usage.Period)
	}
	if _, err := time.LoadLocation(info.Usage.Zone); err != nil || info.Usage.Zone == "" {
		t.Errorf("the usage zone %q: %v (U1)", info.Usage.Zone, err)
	}
	if info.SettleTime <= 0 {
		t.Error("no settle time is declared: a read right after a lost change would be believed (V4)")
	}
	secret := false
	for _, f := range append(slices.Clone(info.Credentials), info.Settings...) {
		secret = secret || f.Secret
		if f.Name == "" || f.Help == "" || f.Name != strings.ToLower(f.Name) {
			t.Errorf("field %q: a field has a lower-case name and a help text", f.Name)
		}
	}
	if !secret {
		t.Error("no credential is declared secret")
	}
}

func declaresRules(t *testing.T, s Suite) {
	info := s.Driver.Info()
	set, err := rules.NewRuleSet(info.Rules)
	if err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, r := range info.Rules {
		if r.Name == "" || names[r.Name] {
			t.Errorf("rule name %q is empty or there twice", r.Name)
		}
		names[r.Name] = true
	}
	for _, row := range []struct {
		op     simwarden.Operation
		status int
		want   carrier.Class
	}{
		{simwarden.OpQueryState, 401, carrier.ClassAuth},
		{simwarden.OpQueryState, 403, carrier.ClassRefused},
		{simwarden.OpQueryState, 404, carrier.ClassNotFound},
		{simwarden.OpSuspend, 404, carrier.ClassNotFound},
		{simwarden.OpSuspend, 429, carrier.ClassThrottled},
		{simwarden.OpQueryState, 500, carrier.ClassTemporary},
		{simwarden.OpQueryState, 503, carrier.ClassTemporary},
		{simwarden.OpSuspend, 500, carrier.ClassUnknownOutcome},
		{simwarden.OpResume, 502, carrier.ClassUnknownOutcome},
	} {
		got := set.Classify(&carrier.Error{Operation: row.op, HTTPStatus: row.status})
		if got.Class != row.want || got.Rule == nil {
			t.Errorf("%s with HTTP %d is %s by %s, want %s by a rule of the driver", row.op, row.status, got.Class, got.Why, row.want)
		}
	}
	got := set.Classify(&carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: carrier.CodeNoSuchSIM})
	if got.Class != carrier.ClassNotFound {
		t.Errorf("a SIM missing from a good answer is %s, want not_found", got.Class)
	}
}

func refusesToOpen(t *testing.T, s Suite) {
	conn, err := s.Driver.Open(carrier.Config{HTTP: newDoer(t), Now: time.Now, Settings: s.Settings})
	if err == nil || conn != nil {
		t.Fatal("an account without credentials was opened")
	}
	named := false
	for _, f := range s.Driver.Info().Credentials {
		named = named || strings.Contains(err.Error(), f.Name)
	}
	if !named {
		t.Errorf("the error %q does not say which credential is missing", err)
	}
}
