package carrier

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
)

var noon = time.Date(2026, time.May, 20, 12, 0, 0, 0, time.UTC)

type doerFunc func(*http.Request) (*http.Response, error)

func (f doerFunc) Do(r *http.Request) (*http.Response, error) { return f(r) }

func fetch(t *testing.T, do doerFunc) (*Answer, *Error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://carrier.invalid/sims?token=canary", nil)
	if err != nil {
		t.Fatal(err)
	}
	ans, err := Config{HTTP: do, Now: func() time.Time { return noon }}.Fetch(req, simwarden.OpQueryState)
	var e *Error
	if err != nil && !errors.As(err, &e) {
		t.Fatalf("%v (%T) is no *Error", err, err)
	}
	return ans, e
}

func answering(status int, body io.Reader) doerFunc {
	return func(r *http.Request) (*http.Response, error) {
		if op, ok := OperationFrom(r.Context()); !ok || op != simwarden.OpQueryState {
			return nil, fmt.Errorf("operation %q, %v", op, ok)
		}
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}, nil
	}
}

func TestFetchReadsTheWholeAnswer(t *testing.T) {
	ans, e := fetch(t, answering(200, strings.NewReader("{}")))
	if e != nil || string(ans.Body) != "{}" || !ans.OK() || !ans.BegunAt.Equal(noon) {
		t.Fatalf("got %+v, %v", ans, e)
	}
	if _, e = fetch(t, answering(200, strings.NewReader(strings.Repeat(" ", MaxAnswerBytes+1)))); e == nil || !e.BadAnswer || e.HTTPStatus != 200 {
		t.Errorf("F25: an answer over the bound: %v", e)
	}
	cut := io.MultiReader(strings.NewReader("{"), brokenReader{})
	if _, e = fetch(t, answering(200, cut)); e == nil || !e.BadAnswer || !errors.Is(e, io.ErrUnexpectedEOF) {
		t.Errorf("F24: an answer that breaks off: %v", e)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestFetchNamesNoURL(t *testing.T) {
	inner := errors.New("connection refused")
	_, e := fetch(t, func(*http.Request) (*http.Response, error) {
		return nil, &url.Error{Op: "Get", URL: "http://carrier.invalid/sims?token=canary", Err: inner}
	})
	if e == nil || !errors.Is(e, inner) || strings.Contains(e.Error(), "canary") || e.NotSent || e.Operation != simwarden.OpQueryState {
		t.Errorf("V20: got %v", e)
	}
	own := &Error{Operation: simwarden.OpQueryState, NotSent: true, Class: ClassLimited}
	if _, e = fetch(t, func(*http.Request) (*http.Response, error) { return nil, fmt.Errorf("gateway: %w", own) }); e != own {
		t.Errorf("the gateway's own error became %v", e)
	}
}

func TestFetchTellsOurOwnEnd(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://carrier.invalid/", nil)
	if err != nil {
		t.Fatal(err)
	}
	do := doerFunc(func(r *http.Request) (*http.Response, error) {
		cancel()
		return &http.Response{StatusCode: 200, Body: io.NopCloser(brokenReader{})}, nil
	})
	_, err = Config{HTTP: do, Now: func() time.Time { return noon }}.Fetch(req, simwarden.OpSuspend)
	var e *Error
	if !errors.As(err, &e) || e.BadAnswer || e.NotSent {
		t.Errorf("a body cut by our own deadline is not the carrier's nonsense: %+v", e)
	}
}

func TestRefusalKeepsTheFacts(t *testing.T) {
	for _, row := range []struct {
		sentence   string
		status     int
		body       string
		code       string
		message    string
		badAnswer  bool
		retryAfter string
		wait       time.Duration
	}{
		{"code as text", 400, `{"code":"SEM0003","message":"no"}`, "SEM0003", "no", false, "", 0},
		{"code as number", 404, `{"code":20404,"message":"no","status":404}`, "20404", "no", false, "", 0},
		{"a bare status", 404, ``, "", "", false, "", 0},
		{"an HTML 404 is some proxy's", 404, `<html>`, "", "the answer is not the carrier's JSON", true, "", 0},
		{"an HTML 401 is still a 401", 401, `<html>`, "", "the answer is not the carrier's JSON", false, "", 0},
		{"an HTML 502 is still a 502", 502, `<html>`, "", "the answer is not the carrier's JSON", false, "", 0},
		{"a redirect is not understood", 302, ``, "", "", true, "", 0},
		{"a wait in seconds", 429, `{}`, "", "", false, "7", 7 * time.Second},
		{"control characters become spaces", 400, `{"message":"a\u0007b\nc"}`, "", "a b c", false, "", 0},
		{"the secret is cut out", 400, `{"code":"canary-1","message":"bad key canary-1 or canary-2%2B"}`, "[redacted]", "bad key [redacted] or [redacted]", false, "", 0},
		{"two messages are nobody's", 400, `{"message":"a","Message":"b"}`, "", "the answer is not the carrier's JSON", true, "", 0},
	} {
		ans := &Answer{Status: row.status, Body: []byte(row.body), Header: http.Header{}, BegunAt: noon}
		ans.Header.Set("Retry-After", row.retryAfter)
		e := ans.Refusal(simwarden.OpSuspend, "canary-1", "canary-2+", "x")
		if e.Code != row.code || e.Message != row.message || e.BadAnswer != row.badAnswer || e.RetryAfter != row.wait || e.HTTPStatus != row.status {
			t.Errorf("%s: got %+v", row.sentence, *e)
		}
	}
	long := &Answer{Status: 400, Body: []byte(`{"message":"` + strings.Repeat("é", 400) + `"}`)}
	if e := long.Refusal(simwarden.OpSuspend); len(e.Message) > 500 || len(e.Message) < 498 {
		t.Errorf("a long message keeps %d bytes", len(e.Message))
	}
}

func TestRetryAfter(t *testing.T) {
	for _, row := range []struct {
		sentence, header string
		want             time.Duration
	}{
		{"absent", "", 0},
		{"seconds", "120", 2 * time.Minute},
		{"a date", "Wed, 20 May 2026 12:00:30 GMT", 30 * time.Second},
		{"the past", "Wed, 20 May 2020 12:00:30 GMT", 0},
		{"before now in seconds", "-5", 0},
		{"a year is capped", "31536000", MaxRetryAfter},
		{"more than a duration holds", "9223372036854775807", MaxRetryAfter},
		{"a date in a year is capped", "Thu, 20 May 2027 12:00:30 GMT", MaxRetryAfter},
		{"nonsense", "soon", 0},
	} {
		h := http.Header{}
		h.Set("Retry-After", row.header)
		if got := RetryAfter(h, noon); got != row.want {
			t.Errorf("F26: %s: %q is %v, want %v", row.sentence, row.header, got, row.want)
		}
	}
}

func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{"", "1", "-1", "31536000", "9223372036854775807", "Wed, 20 May 2026 12:00:30 GMT", "Wednesday, 20-May-26 12:00:30 GMT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got := RetryAfter(http.Header{"Retry-After": {text}}, noon)
		if got < 0 || got > MaxRetryAfter {
			t.Errorf("%q is %v", text, got)
		}
	})
}

func TestCheckKey(t *testing.T) {
	for key, ok := range map[string]bool{
		"8942310022000012345": true, "HS0123456789abcdef": true, "a_b-c": true,
		"": false, "..": false, "a/b": false, "a%2fb": false, "a b": false, "é": false, strings.Repeat("1", 65): false,
	} {
		if err := CheckKey(key); (err == nil) != ok {
			t.Errorf("key %q: %v", key, err)
		}
	}
}

func TestMonthUTC(t *testing.T) {
	kathmandu := time.FixedZone("+0545", 5*3600+45*60)
	start, end := MonthUTC(time.Date(2027, time.January, 1, 3, 0, 0, 0, kathmandu))
	if !start.Equal(time.Date(2026, time.December, 1, 0, 0, 0, 0, time.UTC)) || !end.Equal(time.Date(2027, time.January, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v to %v: the zone of the instant must not matter (F66)", start, end)
	}
}
