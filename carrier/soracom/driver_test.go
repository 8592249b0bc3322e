package soracom_test

import (
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/carriertest"
	"github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/rules"
	_ "github.com/simwarden/simwarden/lab/soracom"
)

func TestConformance(t *testing.T) {
	plain := func(s simwarden.State) simwarden.StateReading {
		return simwarden.StateReading{State: s, Extended: simwarden.ExtendedNone}
	}
	carriertest.Run(t, carriertest.Suite{
		Driver:     soracom.Driver{},
		Dialect:    "soracom",
		Definition: "testdata/soracom-sim.json",
		Tokens:     true,
		Words: map[string]simwarden.StateReading{
			"shipped":    plain(simwarden.StateInventory),
			"ready":      plain(simwarden.StateInventory),
			"active":     plain(simwarden.StateActive),
			"inactive":   plain(simwarden.StateSuspended),
			"standby":    plain(simwarden.StateSuspended),
			"suspended":  plain(simwarden.StateSuspended),
			"terminated": {State: simwarden.StateTerminated, Extended: simwarden.ExtendedTerminated},
		},
	})
}

func TestRulesClassifyWhatTheCarrierDocuments(t *testing.T) {
	set, err := rules.NewRuleSet(soracom.Driver{}.Info().Rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		sentence string
		err      carrier.Error
		want     carrier.Class
	}{
		{"a wrong AuthKey is auth", carrier.Error{Operation: simwarden.OpToken, HTTPStatus: 401}, carrier.ClassAuth},
		{"a malformed AuthKey is auth: asking again locks the account", carrier.Error{Operation: simwarden.OpToken, HTTPStatus: 400}, carrier.ClassAuth},
		{"too many logins are throttled, not a wrong password", carrier.Error{Operation: simwarden.OpToken, HTTPStatus: 429}, carrier.ClassThrottled},
		{"a server error at login is temporary: nothing was changed", carrier.Error{Operation: simwarden.OpToken, HTTPStatus: 502}, carrier.ClassTemporary},
		{"a token refused on a suspend is auth", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 401}, carrier.ClassAuth},
		{"a call that the SAM user may not make is refused", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 403}, carrier.ClassRefused},
		{"a change that the state does not allow is invalid", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 400}, carrier.ClassInvalid},
		{"statistics of a terminated SIM are not found", carrier.Error{Operation: simwarden.OpQueryUsage, HTTPStatus: 404}, carrier.ClassNotFound},
		{"SEM0016 says that there was no session to end", carrier.Error{Operation: simwarden.OpQuerySession, HTTPStatus: 400, Code: "SEM0016"}, carrier.ClassAlreadyInState},
		{"a 503 on a suspend leaves its outcome unknown", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 503}, carrier.ClassUnknownOutcome},
		{"a 503 on a read is temporary", carrier.Error{Operation: simwarden.OpListSIMs, HTTPStatus: 503}, carrier.ClassTemporary},
		{"an HTML page with 404 is not the carrier's not found (F24)", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 404, BadAnswer: true}, carrier.ClassUnknown},
	} {
		if got := set.Classify(&row.err); got.Class != row.want {
			t.Errorf("%s: got %s by %s, want %s", row.sentence, got.Class, got.Why, row.want)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	good := map[string]string{"auth_key_id": "keyId-invented", "auth_key": "secret-invented"}
	for _, row := range []struct {
		sentence string
		cfg      carrier.Config
		ok       bool
	}{
		{"both credentials are enough", carrier.Config{Credentials: good}, true},
		{"the global region is known", carrier.Config{Credentials: good, Settings: map[string]string{"region": "global"}}, true},
		{"another region is not", carrier.Config{Credentials: good, Settings: map[string]string{"region": "mars"}}, false},
		{"the secret is missing", carrier.Config{Credentials: map[string]string{"auth_key_id": "keyId-invented"}}, false},
		{"the base URL has no host", carrier.Config{Credentials: good, BaseURL: "api.soracom.io/v1"}, false},
		{"the base URL holds a password", carrier.Config{Credentials: good, BaseURL: "https://u:p@api.soracom.io/v1"}, false},
	} {
		conn, err := soracom.Driver{}.Open(row.cfg)
		if (err == nil) != row.ok || (conn != nil) != row.ok {
			t.Errorf("%s: got %v", row.sentence, err)
		}
	}
}
