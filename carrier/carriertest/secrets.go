package carriertest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/carrier"
)

func secrets() []check {
	return []check{
		{"V20: what a carrier repeats of a request is in no error", repeatsRequests},
		{"V20: an unreachable carrier's error names no URL and no credential", unreachable},
	}
}

// canaries are credentials that would be seen anywhere.
func (s Suite) canaries() (credentials map[string]string, secrets []string) {
	credentials = make(map[string]string)
	for i, f := range s.Driver.Info().Credentials {
		value := fmt.Sprintf("canary%d", i)
		if f.Secret {
			value += "+/=" + strings.Repeat("x", 20)
			secrets = append(secrets, value)
		}
		credentials[f.Name] = value
	}
	return credentials, secrets
}

// openAt opens a connection with canaries to another server than the lab.
func (s Suite) openAt(t *testing.T, base string) (carrier.Conn, []string) {
	t.Helper()
	credentials, secrets := s.canaries()
	doer := newDoer(t)
	t.Cleanup(doer.Close)
	conn, err := s.Driver.Open(carrier.Config{
		BaseURL: base, Credentials: credentials, Settings: s.Settings, HTTP: doer,
		Now: startAt.UTC,
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn, secrets
}

func (s Suite) everyCall(t *testing.T, conn carrier.Conn) map[string]error {
	t.Helper()
	sim := s.stranger(t)
	out := make(map[string]error)
	_, out["state"] = conn.State(t.Context(), sim)
	_, out["suspend"] = conn.Suspend(t.Context(), sim)
	_, out["resume"] = conn.Resume(t.Context(), sim)
	out["probe"] = conn.Probe(t.Context())
	if c, ok := conn.(carrier.Lister); ok {
		_, out["list"] = c.List(t.Context(), "")
	}
	if c, ok := conn.(carrier.UsageReader); ok {
		_, out["usage"] = c.Usage(t.Context(), sim)
	}
	if c, ok := conn.(carrier.RealNameReader); ok {
		_, out["real name"] = c.RealName(t.Context(), sim)
	}
	if c, ok := conn.(carrier.JobFollower); ok {
		_, out["job"] = c.Job(t.Context(), sim, "order:1")
	}
	return out
}

func repeatsRequests(t *testing.T, s Suite) {
	tokens := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, 64<<10))
		if err != nil {
			http.Error(w, "read", http.StatusInternalServerError)
			return
		}
		user, password, _ := r.BasicAuth()
		if s.Inside != nil {
			s.repeatInside(t, w, &tokens, strings.Contains(r.URL.Path, "token"), fmt.Sprint("you sent ", r.Header, string(body), r.URL))
			return
		}
		said := map[string]any{"code": fmt.Sprint(r.Header), "message": fmt.Sprint("you sent ", user, password, r.Header, string(body), r.URL)}
		w.Header().Set("Content-Type", "application/json")
		if s.Tokens && strings.Contains(strings.ToLower(r.URL.Path), "auth") && tokens == 0 {
			tokens++
			said = map[string]any{"apiKey": "canary-api-key", "token": "canary-token-value", "access_token": "canary-token-value"}
		} else {
			w.WriteHeader(http.StatusBadRequest)
		}
		if err := json.NewEncoder(w).Encode(said); err != nil {
			t.Errorf("answer: %v", err)
		}
	}))
	defer server.Close()
	conn, secrets := s.openAt(t, server.URL)
	secrets = append(secrets, "canary-api-key", "canary-token-value")
	for call, err := range s.everyCall(t, conn) {
		noSecret(t, call, err, secrets)
	}
}

// repeatInside answers as repeatsRequests does, within HTTP 200.
func (s Suite) repeatInside(t *testing.T, w http.ResponseWriter, tokens *int, login bool, message string) {
	w.Header().Set("Content-Type", "application/json")
	answer := s.Inside.Login
	if !login || *tokens > 0 {
		answer = s.Inside.Refusal(message)
	}
	if login {
		*tokens++
	}
	if _, err := io.WriteString(w, answer); err != nil {
		t.Errorf("answer: %v", err)
	}
}

func unreachable(t *testing.T, s Suite) {
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	conn, secrets := s.openAt(t, server.URL)
	for call, err := range s.everyCall(t, conn) {
		noSecret(t, call, err, append(secrets, "http://", "https://"))
	}
}

func noSecret(t *testing.T, call string, err error, secrets []string) {
	t.Helper()
	if err == nil {
		t.Errorf("%s succeeded at a carrier that refuses everything", call)
		return
	}
	text := fmt.Sprintf("%v %+v", err, err)
	for _, secret := range secrets {
		if strings.Contains(text, secret) || strings.Contains(text, url.QueryEscape(secret)) {
			t.Errorf("%s: the error holds %q (V20): %s", call, secret, text)
		}
	}
}
