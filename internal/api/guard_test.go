package api_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/api"
)

func TestUnknownRoutesAreProblemsToo(t *testing.T) {
	w := newWorld(t)
	for _, row := range []struct {
		method, path, token string
		status              int
		allow               string
	}{
		{"GET", "/", "", 404, ""},
		{"GET", "/metricsx", "", 404, ""},
		{"POST", "/healthz", "", 405, "GET"},
		{"GET", "/api/v1/nothing", w.token, 404, ""},
		{"GET", "/api/v1/sims/", w.token, 404, ""},
		{"GET", "/api/v2/sims", w.token, 404, ""},
		{"GET", "/api/v1//sims", w.token, 404, ""},
		{"GET", "/api/v1/./sims", w.token, 404, ""},
		{"GET", "/api/v1/../v1/sims", w.token, 404, ""},
		{"GET", "/api/v1", w.token, 404, ""},
		{"GET", "/api/v1/openapi.yaml", w.token, 404, ""},
		{"DELETE", "/api/v1/sims", w.token, 405, "GET"},
		{"PUT", "/api/v1/accounts/acme", w.token, 405, "PATCH"},
		{"GET", simURL(1, "/suspend"), w.token, 405, "POST"},
	} {
		status, header, text := w.send(row.method, row.path, row.token, nil, nil)
		w.wantProblem(row.method+" "+row.path, status, header, text, row.status)
		if !strings.Contains(header.Get("Allow"), row.allow) {
			t.Errorf("%s %s: Allow is %q, want %s in it", row.method, row.path, header.Get("Allow"), row.allow)
		}
	}
}

func TestEveryAnswerHasTheSecurityHeaders(t *testing.T) {
	w := newWorld(t)
	for _, path := range []string{"/api/v1/plans", "/api/v1/sims/x", "/api/v1/nothing", "/nothing", "/healthz", "/metrics"} {
		_, header, _ := w.send("GET", path, w.token, nil, nil)
		for name, want := range map[string]string{
			"X-Content-Type-Options":       "nosniff",
			"Cache-Control":                "no-store",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if got := header.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q (B18)", path, name, got, want)
			}
		}
		if got := header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
			t.Errorf("%s: Content-Security-Policy is %q (B18)", path, got)
		}
		if header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: CORS is on (B7)", path)
		}
	}
}

func TestAnotherSiteChangesNothing(t *testing.T) {
	w, _, _ := fleet(t)
	body := []byte(`{"reason": "x"}`)
	for sentence, row := range map[string]struct {
		header map[string]string
		status int
	}{
		"from another site":           {map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"with another origin":         {map[string]string{"Origin": "https://elsewhere.example"}, 403},
		"as a form":                   {map[string]string{"Content-Type": "application/x-www-form-urlencoded"}, 415},
		"as plain text":               {map[string]string{"Content-Type": "text/plain"}, 415},
		"without saying what it is":   {map[string]string{"Content-Type": ""}, 415},
		"as a type that is like JSON": {map[string]string{"Content-Type": "application/jsonx"}, 415},
	} {
		status, header, text := w.send("POST", simURL(1, "/polling/pause"), w.token, row.header, body)
		w.wantProblem("a change "+sentence+" (B7)", status, header, text, row.status)
	}
	if n := w.rows(`SELECT count(*) FROM sim WHERE paused_at IS NOT NULL`); n != 0 {
		t.Error("a refused request changed something")
	}
	status, _, text := w.send("POST", simURL(1, "/polling/pause"), w.token, map[string]string{"Content-Type": "application/json; charset=utf-8"}, body)
	if status != http.StatusOK {
		t.Errorf("JSON with a charset: HTTP %d: %s", status, text)
	}
}

func TestBodiesAreBounded(t *testing.T) {
	w, _, _ := fleet(t)
	long := []byte(`{"reason": "` + strings.Repeat("x", 2<<20) + `"}`)
	status, header, text := w.send("POST", simURL(1, "/suspend"), w.token, nil, long)
	w.wantProblem("a body of 2 MiB (B17)", status, header, text, http.StatusRequestEntityTooLarge)
	deep := []byte(`{"reason": ` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + `}`)
	status, header, text = w.send("POST", simURL(1, "/suspend"), w.token, nil, deep)
	w.wantProblem("a body of 200,000 levels", status, header, text, http.StatusBadRequest)
}

func TestMetricsAreForThisMachineAlone(t *testing.T) {
	w := newWorld(t)
	status, _, text := w.send("GET", "/metrics", "", nil, nil)
	if status != http.StatusOK || !strings.Contains(string(text), "simwarden_test_total") {
		t.Errorf("from this machine: HTTP %d: %.200s", status, text)
	}
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-Ip", "Via"} {
		status, header, text := w.send("GET", "/metrics", "", map[string]string{name: "for=192.0.2.7"}, nil)
		w.wantProblem("through a proxy that says "+name+" (B1)", status, header, text, http.StatusForbidden)
	}
	for from, want := range map[string]int{"192.0.2.7:40000": 403, "[2001:db8::7]:40000": 403, "127.0.0.1:40000": 200, "[::1]:40000": 200, "nonsense": 403} {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil)
		req.RemoteAddr, req.Host = from, "127.0.0.1:8470"
		rec := httptest.NewRecorder()
		w.server.Config.Handler.ServeHTTP(rec, req)
		if rec.Code != want {
			t.Errorf("from %s: HTTP %d, want %d (B1)", from, rec.Code, want)
		}
	}
}

func TestReadinessTellsOfTheLoops(t *testing.T) {
	w := newWorld(t)
	if status, _, text := w.send("GET", "/readyz", "", nil, nil); status != http.StatusOK {
		t.Fatalf("HTTP %d: %s", status, text)
	}
	w.ready = errors.New("the poller has stopped: secret detail")
	status, header, text := w.send("GET", "/readyz", "", nil, nil)
	w.wantProblem("a loop that has stopped", status, header, text, http.StatusServiceUnavailable)
	if strings.Contains(string(text), "secret detail") {
		t.Errorf("everybody reads the inside: %s", text)
	}
	if !strings.Contains(w.log.String(), "secret detail") {
		t.Error("the log does not say what is wrong")
	}
}

func TestAPanicIsA500WithAnIDThatTheLogHas(t *testing.T) {
	w := newWorld(t)
	var log bytes.Buffer
	handler, err := api.NewHandler(api.Options{Service: w.service, Log: slog.New(slog.NewTextHandler(&log, nil)),
		Ready: func(context.Context) error { panic("canary\nlevel=ERROR msg=forged") }})
	if err != nil {
		t.Fatal(err)
	}
	rec := httptest.NewRecorder()
	handler.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
	w.wantProblem("a panic", rec.Code, rec.Header(), rec.Body.Bytes(), http.StatusInternalServerError)
	if strings.Contains(rec.Body.String(), "canary") {
		t.Errorf("the answer tells of the inside: %s", rec.Body)
	}
	contains(t, "the log", log.String(), "canary", rec.Header().Get("X-Request-Id"), "guard_test.go")
	for line := range strings.Lines(log.String()) {
		if strings.HasPrefix(line, "level=ERROR msg=forged") {
			t.Errorf("a control character made a log line of its own (B13): %q", line)
		}
	}
}

func TestChangesAreLoggedByRouteAndNeverByURL(t *testing.T) {
	w, _, _ := fleet(t)
	w.want(http.StatusOK, "POST", simURL(1, "/polling/pause"), map[string]any{"reason": "canary-reason"})
	log := w.log.String()
	contains(t, "the log", log, "token:anna", "/api/v1/sims/{iccid}/polling/pause", "status=200")
	if strings.Contains(log, numbered(1).String()) || strings.Contains(log, "canary-reason") {
		t.Errorf("the log has what was sent: %s", log)
	}
}

func TestB1MetricsAreForNoPageWhoseNameLeadsHere(t *testing.T) {
	w := newWorld(t)
	for host, want := range map[string]int{
		"127.0.0.1:8470": 200, "localhost:8470": 200, "[::1]:8470": 200, "localhost": 200,
		"rebound.example": 403, "rebound.example:8470": 403, "127.0.0.1.rebound.example:8470": 403,
	} {
		req := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody)
		req.RemoteAddr, req.Host = "127.0.0.1:4711", host
		answer := httptest.NewRecorder()
		w.server.Config.Handler.ServeHTTP(answer, req)
		if answer.Code != want {
			t.Errorf("Host %s: HTTP %d, want %d", host, answer.Code, want)
		}
	}
}

func TestTextThatTurnsTheDirectionOfWritingIsRefused(t *testing.T) {
	w := newWorld(t)
	for _, text := range []string{"\u202e", "\u2066"} { // they make a line in a terminal read as another
		status, header, answer := w.send("POST", simURL(1, "/suspend"), w.token, map[string]string{"Content-Type": "application/json"}, []byte(`{"reason": "fine `+text+`enif"}`))
		w.wantProblem("a reason with "+text, status, header, answer, http.StatusBadRequest)
	}
}
