package onelink_test

import (
	"encoding/json"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/carriertest"
	"github.com/simwarden/simwarden/carrier/onelink"
	"github.com/simwarden/simwarden/internal/rules"
	dialect "github.com/simwarden/simwarden/lab/onelink"
)

func TestConformance(t *testing.T) {
	word := func(s simwarden.State, e simwarden.ExtendedState) simwarden.StateReading {
		return simwarden.StateReading{State: s, Extended: e}
	}
	plain := func(s simwarden.State) simwarden.StateReading { return word(s, simwarden.ExtendedNone) }
	ending := word(simwarden.StateTerminated, simwarden.ExtendedTerminated)
	ending.Pending = true
	carriertest.Run(t, carriertest.Suite{
		Driver:  onelink.Driver{},
		Dialect: "onelink",
		Tokens:  true,
		Inside: &carriertest.Envelope{
			Login: `{"status":"0","message":"正确","result":[{"token":"canary-token-value","ttl":"7200"}]}`,
			Refusal: func(message string) string {
				text, err := json.Marshal(map[string]any{"status": "99999", "message": message, "result": []any{}})
				if err != nil {
					return err.Error()
				}
				return string(text)
			},
		},
		RealNames: map[string]simwarden.RealName{
			"1":    simwarden.RealNameVerified,
			"0":    simwarden.RealNameUnverified,
			"0 01": simwarden.RealNameExempt,
			"0 02": simwarden.RealNameExempt,
			"0 05": simwarden.RealNameExempt,
			"0 77": simwarden.RealNameUnverified,
			"9":    simwarden.RealNameUnknown,
		},
		Words: map[string]simwarden.StateReading{
			"1":                        plain(simwarden.StateInventory),
			"2":                        plain(simwarden.StateActive),
			dialect.StoppedByRequest:   plain(simwarden.StateSuspended),
			dialect.StoppedByCredit:    word(simwarden.StateSuspended, simwarden.ExtendedArrears),
			dialect.StoppedByExpiry:    word(simwarden.StateSuspended, simwarden.ExtendedOther),
			dialect.StoppedByForce:     word(simwarden.StateSuspended, simwarden.ExtendedOther),
			dialect.StoppedByRisk:      word(simwarden.StateSuspended, simwarden.ExtendedRiskSuspended),
			"6":                        plain(simwarden.StateTestReady),
			"7":                        plain(simwarden.StateInventory),
			"8":                        ending,
			"9":                        word(simwarden.StateTerminated, simwarden.ExtendedTerminated),
			"00":                       plain(simwarden.StateActive),
			"01 000000002000":          plain(simwarden.StateSuspended),
			dialect.StoppedPBByRequest: plain(simwarden.StateSuspended),
			"02 000020000000":          word(simwarden.StateSuspended, simwarden.ExtendedArrears),
			"03":                       ending,
			"04":                       word(simwarden.StateTerminated, simwarden.ExtendedTerminated),
			"05":                       word(simwarden.StateUnknown, simwarden.ExtendedOther),
			"06":                       plain(simwarden.StateInventory),
			"07":                       plain(simwarden.StateInventory),
		},
	})
}

func TestRulesClassifyWhatTheCarrierDocuments(t *testing.T) {
	set, err := rules.NewRuleSet(onelink.Driver{}.Info().Rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		sentence string
		err      carrier.Error
		want     carrier.Class
	}{
		{"S8: a resume of a SIM that risk control has stopped is risk_suspended", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 200, Code: "12141"}, carrier.ClassRiskSuspended},
		{"S8: so it is by its other code", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 200, Code: "12098"}, carrier.ClassRiskSuspended},
		{"S8: so it is by its words alone", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 200, Code: "12345", Message: "当前卡为风险停机状态,仅支持风险复机"}, carrier.ClassRiskSuspended},
		{"stopped already is already_in_state", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 200, Code: "12047"}, carrier.ClassAlreadyInState},
		{"started already is already_in_state", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 200, Code: "12048"}, carrier.ClassAlreadyInState},
		{"an expired plan at the carrier is refused", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 200, Code: "12099"}, carrier.ClassRefused},
		{"a quota at the carrier is refused", carrier.Error{Operation: simwarden.OpResume, HTTPStatus: 200, Code: "12100"}, carrier.ClassRefused},
		{"a state that does not allow it is invalid", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 200, Code: "12089"}, carrier.ClassInvalid},
		{"a wrong password is auth", carrier.Error{Operation: simwarden.OpToken, HTTPStatus: 200, Code: "12004"}, carrier.ClassAuth},
		{"a wrong transid is auth", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: "12022"}, carrier.ClassAuth},
		{"a token that has ended is auth", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: "12021"}, carrier.ClassAuth},
		{"a bad request is invalid", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: "11000"}, carrier.ClassInvalid},
		{"a SIM of another platform is not found", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: "11011"}, carrier.ClassNotFound},
		{"a SIM that is in no system is not found", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 200, Code: "12010"}, carrier.ClassNotFound},
		{"another customer's SIM is refused", carrier.Error{Operation: simwarden.OpQueryUsage, HTTPStatus: 200, Code: "12009"}, carrier.ClassRefused},
		{"a call that was not ordered is refused", carrier.Error{Operation: simwarden.OpQueryRealName, HTTPStatus: 200, Code: "12199"}, carrier.ClassRefused},
		{"a code that nobody knows leaves a suspend's outcome unknown", carrier.Error{Operation: simwarden.OpSuspend, HTTPStatus: 200, Code: "99999"}, carrier.ClassUnknownOutcome},
		{"a code that nobody knows is unknown on a read", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: "99999"}, carrier.ClassUnknown},
		{"F24: a code in an answer that was not understood says nothing of the SIM", carrier.Error{Operation: simwarden.OpQueryState, HTTPStatus: 200, Code: "12010", BadAnswer: true}, carrier.ClassUnknown},
	} {
		got := set.Classify(&row.err)
		if got.Class != row.want {
			t.Errorf("%s: got %s by %s, want %s", row.sentence, got.Class, got.Why, row.want)
		}
		risk := row.want == carrier.ClassRiskSuspended
		if got.ClosePolling != risk || (got.Extended == simwarden.ExtendedRiskSuspended) != risk {
			t.Errorf("%s: closes polling: %v, extended %s (P5)", row.sentence, got.ClosePolling, got.Extended)
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	good := map[string]string{"appid": "200000000000001", "password": "invented"}
	with := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, row := range []struct {
		sentence string
		cfg      carrier.Config
		ok       bool
	}{
		{"both credentials are enough", carrier.Config{Credentials: good}, true},
		{"the platform may be named", carrier.Config{Credentials: good, Settings: with("platform", "pb")}, true},
		{"another platform may not", carrier.Config{Credentials: good, Settings: with("platform", "5g")}, false},
		{"the password is missing", carrier.Config{Credentials: with("appid", "200")}, false},
		{"an appid with room for no transid is refused", carrier.Config{Credentials: map[string]string{"appid": "123456789012345678901234567", "password": "p"}}, false},
		{"an appid with a blank is refused", carrier.Config{Credentials: map[string]string{"appid": "12 34", "password": "p"}}, false},
		{"the base URL may have the version with it", carrier.Config{Credentials: good, BaseURL: "https://api.iot.10086.cn/v5/ec/"}, true},
		{"the base URL has no host", carrier.Config{Credentials: good, BaseURL: "api.iot.10086.cn"}, false},
		{"the base URL holds a password", carrier.Config{Credentials: good, BaseURL: "https://u:p@api.iot.10086.cn"}, false},
	} {
		conn, err := onelink.Driver{}.Open(row.cfg)
		if (err == nil) != row.ok || (conn != nil) != row.ok {
			t.Errorf("%s: got %v", row.sentence, err)
		}
	}
}
