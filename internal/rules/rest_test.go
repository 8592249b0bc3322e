package rules_test

import (
	"errors"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

func TestG8AnAccountRestsWhenNearlyAllSIMsAreRefused(t *testing.T) {
	// answers gives refused SIMs after good ones: the latest first.
	answers := func(refused, good int) (out []rules.Answer) {
		for i := range refused + good {
			out = append(out, rules.Answer{SIMID: simwarden.SIMID(i + 1), Refused: i < refused})
		}
		return out
	}
	same := make([]rules.Answer, 20)
	for i := range same {
		same[i] = rules.Answer{SIMID: 7, Refused: true}
	}
	recovered := answers(10, 0)
	recovered = append([]rules.Answer{{SIMID: 1}, {SIMID: 2}}, recovered...)
	for _, tc := range []struct {
		says    string
		answers []rules.Answer
		want    bool
	}{
		{"nothing was asked yet", nil, false},
		{"one refused SIM among good ones is the SIM's own matter", answers(1, 19), false},
		{"nine SIMs are too few to tell", answers(9, 0), false},
		{"ten SIMs, all refused", answers(10, 0), true},
		{"eighteen of twenty", answers(18, 2), true},
		{"seventeen of twenty", answers(17, 3), false},
		{"half of them", answers(10, 10), false},
		{"one SIM that is refused again and again", same, false},
		{"a SIM's later answer counts, not its refusal before", recovered, false},
	} {
		if got := rules.Rest(rules.DefaultRest(), tc.answers); got != tc.want {
			t.Errorf("%s: rests %t, want %t", tc.says, got, tc.want)
		}
	}
}

func TestG8ProbesBackOff(t *testing.T) {
	p := rules.DefaultRest()
	for refused, want := range map[int]time.Duration{0: 30 * time.Second, 1: time.Minute, 2: 2 * time.Minute, 4: 8 * time.Minute, 5: 10 * time.Minute, 500: 10 * time.Minute} {
		if got := rules.ProbeWait(p, refused); got != want {
			t.Errorf("after %d refused probes the next waits %s, want %s", refused, got, want)
		}
	}
}

func TestG8WhichAnswersMayBeTheAccounts(t *testing.T) {
	for _, tc := range []struct {
		says  string
		class carrier.Class
		e     carrier.Error
		want  bool
	}{
		{"not allowed", carrier.ClassRefused, carrier.Error{HTTPStatus: 403}, true},
		{"not valid", carrier.ClassInvalid, carrier.Error{HTTPStatus: 200, Code: "12009"}, true},
		{"a code that nobody knows", carrier.ClassUnknownOutcome, carrier.Error{HTTPStatus: 200, Code: "99999"}, true},
		{"the carrier fails", carrier.ClassUnknownOutcome, carrier.Error{HTTPStatus: 500}, false},
		{"no answer", carrier.ClassUnknownOutcome, carrier.Error{}, false},
		{"an answer cut off", carrier.ClassUnknownOutcome, carrier.Error{HTTPStatus: 200, Err: errors.New("unexpected EOF")}, false},
		{"an answer that was not understood", carrier.ClassUnknownOutcome, carrier.Error{HTTPStatus: 200, BadAnswer: true}, false},
		{"a SIM that is gone", carrier.ClassTerminated, carrier.Error{HTTPStatus: 400}, false},
		{"a SIM that is not there", carrier.ClassNotFound, carrier.Error{HTTPStatus: 404}, false},
		{"throttled", carrier.ClassThrottled, carrier.Error{HTTPStatus: 429}, false},
	} {
		if got := rules.RefusesChange(tc.class, &tc.e); got != tc.want {
			t.Errorf("%s: %t, want %t", tc.says, got, tc.want)
		}
	}
}
