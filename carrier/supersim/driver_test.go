package supersim_test

import (
	"fmt"
	"testing"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/carriertest"
	"github.com/simwarden/simwarden/carrier/supersim"
	"github.com/simwarden/simwarden/internal/rules"
	_ "github.com/simwarden/simwarden/lab/supersim"
)

func TestConformance(t *testing.T) {
	plain := func(s simwarden.State) simwarden.StateReading {
		return simwarden.StateReading{State: s, Extended: simwarden.ExtendedNone}
	}
	carriertest.Run(t, carriertest.Suite{
		Driver:     supersim.Driver{},
		Dialect:    "supersim",
		Definition: "testdata/twilio-supersim-v1.json",
		Delayed:    true,
		Words: map[string]simwarden.StateReading{
			"new":      plain(simwarden.StateInventory),
			"ready":    plain(simwarden.StateTestReady),
			"active":   plain(simwarden.StateActive),
			"inactive": plain(simwarden.StateSuspended),
		},
	})
}

func TestRulesClassifyWhatTheCarrierDocuments(t *testing.T) {
	set, err := rules.NewRuleSet(supersim.Driver{}.Info().Rules)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		codes    []int
		status   int
		op       simwarden.Operation
		want     carrier.Class
		sentence string
	}{
		{[]int{20429}, 429, simwarden.OpSuspend, carrier.ClassThrottled, "too many at a time were not executed"},
		{[]int{20429}, 503, simwarden.OpSuspend, carrier.ClassThrottled, "the code counts, whatever the status"},
		{[]int{70005}, 429, simwarden.OpQueryState, carrier.ClassThrottled, "too many failing requests"},
		{[]int{20003}, 401, simwarden.OpResume, carrier.ClassAuth, "wrong credentials"},
		{[]int{20006, 33201}, 403, simwarden.OpResume, carrier.ClassRefused, "denied"},
		{[]int{20404, 83005, 33107}, 404, simwarden.OpQueryState, carrier.ClassNotFound, "not found"},
		{[]int{20001, 20002, 83600, 83601, 83602, 83603, 83604, 83605}, 400, simwarden.OpListUsage, carrier.ClassInvalid, "bad request"},
		{[]int{83007, 83010, 33105, 83011, 33119, 33120}, 400, simwarden.OpResume, carrier.ClassInvalid, "not in this state"},
		{[]int{83009}, 400, simwarden.OpSuspend, carrier.ClassInProgress, "an update is already scheduled"},
		{[]int{33010}, 409, simwarden.OpSuspend, carrier.ClassTemporary, "a conflicting update is running: ours was not made"},
		{[]int{20500, 83000, 83004, 33004}, 500, simwarden.OpQueryState, carrier.ClassTemporary, "a read that failed may be asked again"},
		{[]int{20503}, 503, simwarden.OpListSIMs, carrier.ClassTemporary, "a list that failed may be asked again"},
		{[]int{20500, 20503, 83000, 83004, 33004}, 500, simwarden.OpSuspend, carrier.ClassUnknownOutcome, "a change that failed may have been made (C5)"},
		{[]int{0}, 404, simwarden.OpSuspend, carrier.ClassNotFound, "a 404 without a code"},
		{[]int{12345}, 418, simwarden.OpQueryState, carrier.ClassUnknown, "what nobody documents is unknown"},
		{[]int{12345}, 418, simwarden.OpSuspend, carrier.ClassUnknownOutcome, "what nobody documents may have been made"},
	} {
		for _, code := range row.codes {
			e := carrier.Error{Operation: row.op, HTTPStatus: row.status}
			if code != 0 {
				e.Code = fmt.Sprint(code)
			}
			if got := set.Classify(&e); got.Class != row.want {
				t.Errorf("%s: code %d on %s is %s by %s, want %s", row.sentence, code, row.op, got.Class, got.Why, row.want)
			}
		}
	}
}

func TestOpenSaysWhatIsWrong(t *testing.T) {
	for _, row := range []struct {
		sentence    string
		credentials map[string]string
		base        string
		ok          bool
	}{
		{"the account's own pair is enough", map[string]string{"account_sid": "ACinvented", "auth_token": "invented"}, "", true},
		{"an API key is enough", map[string]string{"api_key_sid": "SKinvented", "api_key_secret": "invented"}, "", true},
		{"the base URL may end in the version", map[string]string{"account_sid": "ACinvented", "auth_token": "invented"}, "https://supersim.twilio.com/v1/", true},
		{"half an API key is refused, also beside a whole pair", map[string]string{"account_sid": "ACinvented", "auth_token": "invented", "api_key_sid": "SKinvented"}, "", false},
		{"a secret without its key is refused", map[string]string{"api_key_secret": "invented"}, "", false},
		{"the token is missing", map[string]string{"account_sid": "ACinvented"}, "", false},
		{"the base URL has no host", map[string]string{"account_sid": "ACinvented", "auth_token": "invented"}, "supersim", false},
	} {
		conn, err := supersim.Driver{}.Open(carrier.Config{Credentials: row.credentials, BaseURL: row.base})
		if (err == nil) != row.ok || (conn != nil) != row.ok {
			t.Errorf("%s: got %v", row.sentence, err)
		}
	}
}
