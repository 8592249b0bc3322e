package rules_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

// table is such a table as a driver and an operator write.
var table = []carrier.Rule{
	{Name: "risk", ChangesOnly: true, Contains: "Only Risk Resume", Class: "risk_suspended", Extended: "risk_suspended", ClosePolling: true, NotExecuted: true},
	{Name: "busy", HTTPStatus: 503, Code: "E-BUSY", Class: "temporary", NotExecuted: true},
	{Name: "gateway", HTTPStatus: 502, Class: "temporary"},
	{Name: "already", Code: "E-SAME", Class: "already_in_state"},
	{Name: "gone", ReadsOnly: true, HTTPStatus: 404, Class: "not_found"},
	{Name: "quota", Operation: "query_usage", Pattern: `(?i)daily (quota|limit) .*exceeded`, Class: "quota_exhausted", RetryAfterMin: 10 * time.Minute},
	{Name: "any 4xx of suspend", Operation: "suspend", HTTPStatus: 4, Code: "E-4", Class: "refused"},
	{Name: "shrug", Code: "E-?", Class: "unknown"},
}

func TestClassify(t *testing.T) {
	tests := []struct {
		name  string
		e     carrier.Error
		class carrier.Class
		rule  string
	}{
		// rules
		{"S8: a message decides, any case", carrier.Error{Operation: "resume", HTTPStatus: 200, Message: "fail: only risk resume possible"}, "risk_suspended", "risk"},
		{"G6: a rule for changes leaves reads alone", carrier.Error{Operation: "query_state", HTTPStatus: 200, Message: "only risk resume"}, "unknown", ""},
		{"C5: a documented code that says not executed is temporary", carrier.Error{Operation: "suspend", HTTPStatus: 503, Code: "E-BUSY"}, "temporary", "busy"},
		{"C5: another code of the same status is not", carrier.Error{Operation: "suspend", HTTPStatus: 503, Code: "E-OTHER"}, "unknown_outcome", ""},
		{"C5: a 5xx on a change may have acted, whatever a rule says", carrier.Error{Operation: "suspend", HTTPStatus: 502}, "unknown_outcome", "gateway"},
		{"C5: on a read it is temporary", carrier.Error{Operation: "query_state", HTTPStatus: 502}, "temporary", "gateway"},
		{"C7: already in that state, also by a 5xx, since it is read", carrier.Error{Operation: "suspend", HTTPStatus: 500, Code: "E-SAME"}, "already_in_state", "already"},
		{"G6: a rule for one operation and a pattern", carrier.Error{Operation: "query_usage", HTTPStatus: 200, Message: "Daily quota of 1000 exceeded"}, "quota_exhausted", "quota"},
		{"G6: the pattern must match", carrier.Error{Operation: "query_usage", HTTPStatus: 200, Message: "daily quota fine"}, "unknown", ""},
		{"G6: a whole hundred of statuses", carrier.Error{Operation: "suspend", HTTPStatus: 409, Code: "E-4"}, "refused", "any 4xx of suspend"},
		{"G6: not another hundred", carrier.Error{Operation: "suspend", HTTPStatus: 200, Code: "E-4"}, "unknown_outcome", ""},
		{"C5: a rule that says unknown, on a change", carrier.Error{Operation: "suspend", HTTPStatus: 200, Code: "E-?"}, "unknown_outcome", "shrug"},
		{"F24: an HTML 404 is no missing SIM, whatever a rule says", carrier.Error{Operation: "query_state", HTTPStatus: 404, BadAnswer: true}, "unknown", "gone"},
		{"C6: no answer is no refusal, whatever a rule says", carrier.Error{Operation: "resume", Message: "only risk resume"}, "unknown_outcome", "risk"},

		// built in
		{"C5: what never left is temporary", carrier.Error{Operation: "suspend", NotSent: true}, "temporary", ""},
		{"C6: a change without an answer", carrier.Error{Operation: "suspend"}, "unknown_outcome", ""},
		{"C6: a change with an answer that nobody understands", carrier.Error{Operation: "suspend", HTTPStatus: 200, BadAnswer: true}, "unknown_outcome", ""},
		{"F24: an HTML 403 to a change", carrier.Error{Operation: "suspend", HTTPStatus: 403, BadAnswer: true}, "unknown_outcome", ""},
		{"S16: a change answered by 500", carrier.Error{Operation: "suspend", HTTPStatus: 500}, "unknown_outcome", ""},
		{"C5: a change with an error that nobody knows", carrier.Error{Operation: "suspend", HTTPStatus: 200, Code: "x"}, "unknown_outcome", ""},
		{"C5: a change refused for time is not known to be undone", carrier.Error{Operation: "suspend", HTTPStatus: 408}, "unknown_outcome", ""},
		{"P2: a read that times out", carrier.Error{Operation: "query_state"}, "temporary", ""},
		{"P2: a read answered by 500", carrier.Error{Operation: "query_usage", HTTPStatus: 500}, "temporary", ""},
		{"P2: a read answered by 408", carrier.Error{Operation: "query_usage", HTTPStatus: 408}, "temporary", ""},
		{"G8: 401 is a matter of credentials", carrier.Error{Operation: "query_state", HTTPStatus: 401}, "auth", ""},
		{"G8: of a change too", carrier.Error{Operation: "suspend", HTTPStatus: 401}, "auth", ""},
		{"G8: a login answered by 400", carrier.Error{Operation: "token", HTTPStatus: 400}, "auth", ""},
		{"G8: a login answered by 403", carrier.Error{Operation: "token", HTTPStatus: 403}, "auth", ""},
		{"C5: 403 is refused", carrier.Error{Operation: "suspend", HTTPStatus: 403}, "refused", ""},
		{"C5: 404 is not found", carrier.Error{Operation: "suspend", HTTPStatus: 404}, "not_found", ""},
		{"C5: 429 is throttled", carrier.Error{Operation: "suspend", HTTPStatus: 429}, "throttled", ""},
		{"C5: 400 is invalid", carrier.Error{Operation: "suspend", HTTPStatus: 400}, "invalid", ""},
		{"C5: 422 is invalid", carrier.Error{Operation: "query_state", HTTPStatus: 422}, "invalid", ""},
		{"G6: the rest is unknown", carrier.Error{Operation: "query_state", HTTPStatus: 418}, "unknown", ""},
		{"G5: our own limit stays ours", carrier.Error{Operation: "suspend", Class: "limited", NotSent: true}, "limited", ""},
		{"G8: our own stop too", carrier.Error{Operation: "suspend", Class: "stopped", NotSent: true}, "stopped", ""},
	}
	set, err := rules.NewRuleSet(table)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := set.Classify(&tt.e)
			rule := ""
			if got.Rule != nil {
				rule = got.Rule.Name
			}
			if got.Class != tt.class || rule != tt.rule {
				t.Errorf("class %s by rule %q (%s), want %s by %q", got.Class, rule, got.Why, tt.class, tt.rule)
			}
			if got.Why == "" {
				t.Error("G7: nothing says why")
			}
			if loose := rules.Classify(table, &tt.e); loose.Class != got.Class {
				t.Errorf("not compiled beforehand it is %s", loose.Class)
			}
		})
	}
}

func TestClassifyRetryAfter(t *testing.T) {
	tests := []struct {
		name string
		e    carrier.Error
		want time.Duration
	}{
		{"C5: the carrier's wait", carrier.Error{Operation: "suspend", HTTPStatus: 429, RetryAfter: 7 * time.Second}, 7 * time.Second},
		{"F26: capped at an hour", carrier.Error{Operation: "suspend", HTTPStatus: 429, RetryAfter: 9000 * time.Hour}, time.Hour},
		{"F26: never negative", carrier.Error{Operation: "suspend", HTTPStatus: 429, RetryAfter: -time.Second}, 0},
		{"G6: a rule's wait where it is longer", carrier.Error{Operation: "query_usage", HTTPStatus: 200, Message: "daily limit exceeded", RetryAfter: time.Second}, 10 * time.Minute},
		{"G5: our limiter's wait", carrier.Error{Class: carrier.ClassLimited, RetryAfter: 300 * time.Millisecond}, 300 * time.Millisecond},
	}
	for _, tt := range tests {
		if got := rules.Classify(table, &tt.e).RetryAfter; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestClassifySideEffects(t *testing.T) {
	risk := carrier.Error{Operation: "resume", HTTPStatus: 200, Message: "only risk resume"}
	got := rules.Classify(table, &risk)
	if got.Extended != simwarden.ExtendedRiskSuspended || !got.ClosePolling || !got.NotExecuted {
		t.Errorf("P5: %+v, want risk_suspended, polling closed, not executed", got)
	}
	unread := risk
	unread.BadAnswer = true
	if got := rules.Classify([]carrier.Rule{{Name: "r", Class: "risk_suspended", Extended: "risk_suspended", ClosePolling: true}}, &unread); got.Extended != "" || got.ClosePolling {
		t.Errorf("P5: an answer that was not understood closes polling: %+v", got)
	}
	silent := risk
	silent.HTTPStatus = 0
	if got := rules.Classify(table, &silent); got.Extended != "" || got.ClosePolling || got.NotExecuted {
		t.Errorf("P5: no answer closes polling: %+v", got)
	}
}

func TestHTML404(t *testing.T) {
	e := carrier.Error{Operation: "query_usage", HTTPStatus: 404, BadAnswer: true}
	if got := rules.Classify(nil, &e); got.Class != carrier.ClassUnknown {
		t.Errorf("F24: without any rule an HTML 404 is %s; it is a wrong address, not a missing SIM", got.Class)
	}
}

func TestExplain(t *testing.T) {
	set, err := rules.NewRuleSet(table)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		e    carrier.Error
		want []string
	}{
		{"G7: what matches and what follows", carrier.Error{Operation: "resume", HTTPStatus: 200, Message: "only risk resume"},
			[]string{"risk_suspended", `rule "risk" matches`, "extended state to risk_suspended", "closes the SIM's polling", "goes on as failed"}},
		{"G7: why a rule is not believed", carrier.Error{Operation: "suspend", HTTPStatus: 502},
			[]string{"unknown_outcome", `rule "gateway" matches, but`, "goes on as verifying"}},
		{"G7: after how long", carrier.Error{Operation: "suspend", HTTPStatus: 429, RetryAfter: 9 * time.Second},
			[]string{"throttled", "goes on as queued after 9s"}},
		{"G7: a read has no command", carrier.Error{Operation: "query_state", HTTPStatus: 404}, []string{"not_found"}},
	}
	for _, tt := range tests {
		_, text := set.Explain(&tt.e)
		for _, want := range tt.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", tt.name, text, want)
			}
		}
		if !tt.e.Operation.ChangesState() && strings.Contains(text, "command") {
			t.Errorf("%s: %q speaks of a command", tt.name, text)
		}
	}
}

func TestRuleSetRefuses(t *testing.T) {
	tests := []struct {
		name string
		rule carrier.Rule
		want string
	}{
		{"F47: a costly pattern", carrier.Rule{Name: "r", Class: "temporary", Pattern: `((a{0,100}){0,10})*b`}, "instructions"},
		{"F47: one that unfolds to two hundred thousand", carrier.Rule{Name: "r", Class: "temporary", Pattern: "(" + strings.Repeat("a", 200) + "){1000}"}, "instructions"},
		{"F47: one just beyond the bound", carrier.Rule{Name: "r", Class: "temporary", Pattern: `(ab){500}`}, "instructions"},
		{"F47: a long pattern", carrier.Rule{Name: "r", Class: "temporary", Pattern: strings.Repeat("a", 257)}, "257 bytes"},
		{"F47: a long literal", carrier.Rule{Name: "r", Class: "temporary", Contains: strings.Repeat("a", 257)}, "257 bytes"},
		{"F47: no pattern at all", carrier.Rule{Name: "r", Class: "temporary", Pattern: `(`}, "read the pattern"},
		{"F47: a repetition beyond what Go counts", carrier.Rule{Name: "r", Class: "temporary", Pattern: `a{1001}`}, "read the pattern"},
		{"G6: no such class", carrier.Rule{Name: "r", Class: "flaky"}, "flaky"},
		{"G6: a class of our own is not the carrier's", carrier.Rule{Name: "r", Class: "limited"}, "limited"},
		{"G6: no such operation", carrier.Rule{Name: "r", Class: "auth", Operation: "reboot"}, "reboot"},
		{"G6: no such extended state", carrier.Rule{Name: "r", Class: "auth", Extended: "lost"}, "lost"},
		{"G6: nothing to match", carrier.Rule{Name: "r", Class: "auth", ChangesOnly: true, ReadsOnly: true}, "nothing to match"},
		{"G6: no such status", carrier.Rule{Name: "r", Class: "auth", HTTPStatus: 42}, "42"},
		{"G6: a negative wait", carrier.Rule{Name: "r", Class: "auth", RetryAfterMin: -1}, "negative"},
		{"G6: a rule without a name is counted", carrier.Rule{Class: "flaky"}, "number 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := rules.NewRuleSet([]carrier.Rule{tt.rule}); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one that says %q", err, tt.want)
			}
			if got := rules.Classify([]carrier.Rule{tt.rule}, &carrier.Error{Operation: "query_state", HTTPStatus: 404}); got.Rule != nil || got.Class != carrier.ClassNotFound {
				t.Errorf("the refused rule matched: %+v", got)
			}
		})
	}
}

// The worst pattern that is allowed takes a bounded time on the longest message (F47).
func TestPatternTime(t *testing.T) {
	set, err := rules.NewRuleSet([]carrier.Rule{{Name: "worst", Class: "temporary", Pattern: `((a{0,30}){0,10})*b`}})
	if err != nil {
		t.Fatal(err)
	}
	e := &carrier.Error{Operation: "query_state", HTTPStatus: 400, Message: strings.Repeat("a", 1<<20) + "b"}
	begun := time.Now()
	got := set.Classify(e)
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("F47: took %s", took)
	}
	if got.Rule != nil {
		t.Error("F47: a message was read beyond 4 KB")
	}
}

func TestParseRetryAfter(t *testing.T) {
	tests := []struct {
		name, header string
		want         time.Duration
		ok           bool
	}{
		{"F26: none", "", 0, false},
		{"F26: seconds", "120", 2 * time.Minute, true},
		{"F26: seconds with spaces", " 5 ", 5 * time.Second, true},
		{"F26: zero", "0", 0, true},
		{"F26: a date", noon.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second, true},
		{"F26: a date of the past", noon.Add(-time.Hour).Format(http.TimeFormat), 0, true},
		{"F26: a year", "31536000", time.Hour, true},
		{"F26: a date in a year", noon.AddDate(1, 0, 0).Format(http.TimeFormat), time.Hour, true},
		{"F26: more than an integer holds", "99999999999999999999", time.Hour, true},
		{"F26: negative", "-5", 0, false},
		{"F26: a fraction", "1.5", 0, false},
		{"F26: nonsense", "soon", 0, false},
		{"F26: a flood", strings.Repeat("1", 65), 0, false},
	}
	for _, tt := range tests {
		if got, ok := rules.ParseRetryAfter(tt.header, noon); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %s, %t; want %s, %t", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

func FuzzParseRetryAfter(f *testing.F) {
	for _, s := range []string{"", "0", "120", "99999999999999999999", "Tue, 10 Mar 2026 12:01:30 GMT", "Tuesday, 10-Mar-26 12:01:30 GMT", "Tue Mar 10 12:01:30 2026", "-1", "1e9", "٣"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, ok := rules.ParseRetryAfter(header, noon)
		if got < 0 || got > rules.MaxRetryAfter || !ok && got != 0 {
			t.Errorf("F26: %q is a wait of %s, %t", header, got, ok)
		}
	})
}

func FuzzClassify(f *testing.F) {
	f.Add("suspend", 503, "E", "daily quota exceeded", `(?i)daily (quota|limit)`, "Daily", "temporary", false, false, false)
	f.Add("query_state", 404, "", "<html>", `^$`, "", "not_found", false, true, false)
	f.Add("resume", 0, "", "", `((a{0,100}){0,10})*b`, "", "risk_suspended", false, false, true)
	f.Add("resume", 400, "", "aaa", `(`+strings.Repeat("a", 200)+`){0,1000}`, "", "invalid", false, false, true)
	f.Add("suspend", 500, "x", strings.Repeat("a", 5000), `(a+)+$`, "", "unknown", true, false, true)
	f.Fuzz(func(t *testing.T, op string, status int, code, message, pattern, contains, class string, notSent, badAnswer, notExecuted bool) {
		rule := carrier.Rule{Name: "fuzz", Class: carrier.Class(class), Pattern: pattern, Contains: contains, NotExecuted: notExecuted}
		e := &carrier.Error{Operation: simwarden.Operation(op), HTTPStatus: status, Code: code, Message: message, NotSent: notSent, BadAnswer: badAnswer}
		before := *e
		got := rules.Classify([]carrier.Rule{rule}, e)
		if *e != before {
			t.Error("the error was changed")
		}
		if set, err := rules.NewRuleSet([]carrier.Rule{rule}); err == nil {
			if same := set.Classify(e); same.Class != got.Class {
				t.Errorf("compiled %s, not compiled %s", same.Class, got.Class)
			}
		} else if got.Rule != nil {
			t.Errorf("a refused rule matched: %v", err)
		}
		if got.Class == "" || got.Why == "" || got.RetryAfter < 0 {
			t.Errorf("classified as %+v", got)
		}
		if !e.Operation.ChangesState() {
			if badAnswer && !notSent && got.Class.Terminal() {
				t.Errorf("F24: an answer that nobody understood is %s", got.Class)
			}
			return
		}
		known := got.Rule != nil && notExecuted
		sure := notSent || known && status != 0 || got.Class == carrier.ClassAlreadyInState
		if (status == 0 || status >= 500 || badAnswer) && !sure && got.Class != carrier.ClassUnknownOutcome {
			t.Errorf("C6: a change that may have been made is %s (%s)", got.Class, got.Why)
		}
	})
}
