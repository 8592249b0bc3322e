package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

// get asks a world without a server and gives the status.
func get(w *lab.World, path string) int {
	recorder := httptest.NewRecorder()
	w.Handler().ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	return recorder.Code
}

func TestGarbage(t *testing.T) {
	for _, test := range []struct {
		variant string
		wrong   func(a answer) bool
	}{
		{"html", func(a answer) bool {
			return strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && strings.Contains(string(a.body), "<h1>")
		}},
		{"empty", func(a answer) bool { return len(a.body) == 0 }},
		{"truncated", func(a answer) bool { return len(a.body) > 100 && a.body[0] == '{' && !json.Valid(a.body) }},
		{"bom", func(a answer) bool {
			text, ok := strings.CutPrefix(string(a.body), "\ufeff")
			return ok && json.Valid([]byte(text))
		}},
		{"gbk", func(a answer) bool { return !utf8.Valid(a.body) && a.body[0] == '{' }},
		{"wrong_type", func(a answer) bool {
			var object struct{ Status any }
			return json.Unmarshal(a.body, &object) == nil && object.Status == 6.0
		}},
		{"trailing", func(a answer) bool {
			return json.NewDecoder(strings.NewReader(string(a.body))).Decode(&struct{}{}) == nil && !json.Valid(a.body)
		}},
	} {
		t.Run("F24: "+test.variant, func(t *testing.T) {
			r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
			iccid := r.add(lab.NewSIM{})
			r.fault(lab.Fault{Name: lab.Garbage, Variant: test.variant})
			a := r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
			if !test.wrong(a) {
				t.Errorf("the answer is %q", a.body)
			}
			if line := r.line(ofKind(lab.KindRead)); line.Answer != lab.AnswerGarbage || line.Status != 200 {
				t.Errorf("the line says %+v", line)
			}
		})
	}
}

func TestThrottle(t *testing.T) {
	for _, test := range []struct {
		variant, retryAfter string
		logged              int64
	}{
		{"none", "", 0},
		{"seconds", "7", 7},
		{"date", "Tue, 10 Mar 2026 12:00:07 GMT", 7},
		{"nonsense", "soon; ask again", 0},
		{"past", "Tue, 10 Mar 2026 11:00:00 GMT", 0},
		{"year", "31536000", 31536000},
	} {
		t.Run("F26: Retry-After "+test.variant, func(t *testing.T) {
			r := newRig(t, lab.AccountSpec{Dialect: "supersim"})
			r.fault(lab.Fault{Name: lab.Throttle, Variant: test.variant, Seconds: 7})
			a := r.must(http.MethodGet, "/v1/Sims", "", http.StatusTooManyRequests)
			if got := a.header.Get("Retry-After"); got != test.retryAfter {
				t.Errorf("Retry-After is %q, want %q", got, test.retryAfter)
			}
			if line := r.line(ofKind(lab.KindList)); line.Answer != lab.AnswerThrottled || line.LimitViolation != "" || line.RetryAfterSeconds != test.logged {
				t.Errorf("the line says %+v", line)
			}
		})
	}
}

func TestDripSendsAByteAtATime(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.Drip, Seconds: 10})
	ctx, leave := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/sims/"+iccid, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = r.header
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	one := make([]byte, 1)
	for _, want := range `{"op` {
		if err := r.clock.BlockUntil(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		r.clock.Advance(10 * time.Second)
		if _, err := io.ReadFull(response.Body, one); err != nil || rune(one[0]) != want {
			t.Fatalf("read %q, %v, want %q", one, err, want)
		}
	}
	leave()
	line := r.line(ofKind(lab.KindRead))
	if line.ClosedAt.Sub(line.ArrivedAt) != 40*time.Second || line.Answer != lab.AnswerGarbage {
		t.Errorf("F25: the line says %+v", line)
	}
}

func TestFlood(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.Flood, Bytes: 3 << 20})
	a := r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	if len(a.body) < 3<<20 || a.text("simId") != iccid {
		t.Errorf("F25: the flood has %d bytes", len(a.body))
	}
	r.world.ClearFaults()
	r.fault(lab.Fault{Name: lab.Flood, Bytes: -1})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/sims/"+iccid, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header = r.header
	response, err := r.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := io.CopyN(io.Discard, response.Body, 20<<20); err != nil {
		t.Fatalf("F25: the body without end ended after %d bytes: %v", n, err)
	}
	response.Body.Close()
	if line := r.line(func(l lab.LogLine) bool { return !l.ClosedAt.IsZero() }); line.Fault != lab.Flood {
		t.Errorf("the line says %+v", line)
	}
}

func TestTokenExpireHitsTheNextRequestOnly(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom"})
	iccid := r.add(lab.NewSIM{})
	r.fault(lab.Fault{Name: lab.TokenExpire, Count: 1})
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusUnauthorized)
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusUnauthorized)
	r.login()
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	r.clock.Advance(24*time.Hour - 1)
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	r.clock.Advance(1)
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusUnauthorized)
}

func TestFaultsThatDoNotExistAreRefused(t *testing.T) {
	w := lab.New(lab.Config{})
	for _, f := range []lab.Fault{
		{Name: "explode"},
		{Name: lab.Throttle, Variant: "never"},
		{Name: lab.Slow, Variant: "html"},
		{Name: lab.Slow, Probability: 1.5},
		{Name: lab.Slow, Seconds: -1},
		{Name: lab.Fail5xx, Status: 404},
		{Name: lab.MassState, State: "asleep"},
	} {
		if _, err := w.SetFault(f); !errors.Is(err, lab.ErrFault) {
			t.Errorf("%+v was switched on: %v", f, err)
		}
	}
	for _, name := range lab.FaultNames() {
		if _, err := w.SetFault(lab.Fault{Name: name, Operations: []simwarden.Operation{simwarden.OpSuspend}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := len(w.Faults()); n != len(lab.FaultNames()) {
		t.Errorf("%d faults are on", n)
	}
}

func TestTokensOfAnAccount(t *testing.T) {
	r := newRig(t, lab.AccountSpec{Dialect: "soracom", SingleToken: true, TokenLife: time.Minute})
	iccid := r.add(lab.NewSIM{})
	old := r.header.Clone()
	r.login()
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusOK)
	now := r.header
	r.header = old
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusUnauthorized)
	r.header = now
	r.clock.Advance(time.Minute)
	r.must(http.MethodGet, "/sims/"+iccid, "", http.StatusUnauthorized)
}
