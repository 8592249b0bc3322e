package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/api"
)

func TestATokenIsShownOnceAndKeptAsAHash(t *testing.T) {
	w := newWorld(t)
	made, err := w.service.CreateToken(t.Context(), "bob", "cli:test")
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^sw_[0-9a-f]{16}_[0-9a-f]{64}$`).MatchString(made.Text) {
		t.Fatalf("a token of another form than sw_, id, 256 bits (B6): %d characters", len(made.Text))
	}
	secret := made.Text[strings.LastIndex(made.Text, "_")+1:]
	if n := w.rows(`SELECT count(*) FROM api_token WHERE octet_length(secret_hash) = 32 AND secret_hash = sha256($1::bytea) AND id = $2`, []byte(secret), made.ID); n != 1 {
		t.Errorf("the SHA-256 of the secret is not what is kept (B6)")
	}
	if n := w.rows(`SELECT count(*) FROM (SELECT t::text FROM api_token t UNION ALL SELECT a::text FROM audit a) all_text (x) WHERE x LIKE '%' || $1 || '%'`, secret); n != 0 {
		t.Errorf("the secret is in the database %d times", n)
	}
	again, err := w.service.CreateToken(t.Context(), "bob", "cli:test")
	if err != nil || again.Text == made.Text {
		t.Errorf("a second token of the same name: %v; the same: %v", err, again.Text == made.Text)
	}
	list, err := w.service.Tokens(t.Context())
	if err != nil || len(list) != 3 {
		t.Errorf("%d tokens listed, want 3: %v", len(list), err)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'token_create' AND actor = 'cli:test'`); n != 3 {
		t.Errorf("%d audit rows for three tokens (R2)", n)
	}
	if _, err := w.service.CreateToken(t.Context(), "bob\n", "cli:test"); err == nil {
		t.Error("a name with a line end makes a log line of two")
	}
}

func TestOnlyAGoodTokenPasses(t *testing.T) {
	w := newWorld(t)
	revoked, err := w.service.CreateToken(t.Context(), "carl", "cli:test")
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := w.send("GET", "/api/v1/plans", revoked.Text, nil, nil); status != http.StatusOK {
		t.Fatalf("a good token: HTTP %d", status)
	}
	if was, err := w.service.RevokeToken(t.Context(), revoked.ID, "cli:test"); err != nil || !was {
		t.Fatalf("revoke: %v %v", was, err)
	}
	if was, err := w.service.RevokeToken(t.Context(), revoked.ID, "cli:test"); err != nil || was {
		t.Errorf("a second revocation says that the token was good: %v %v", was, err)
	}
	if n := w.rows(`SELECT count(*) FROM audit WHERE action = 'token_revoke'`); n != 1 {
		t.Errorf("%d audit rows for a revocation", n)
	}
	last := w.token[len(w.token)-1:]
	flipped := w.token[:len(w.token)-1] + map[bool]string{true: "1", false: "0"}[last == "0"]
	for sentence, header := range map[string]string{
		"none":                                  "",
		"another scheme":                        "Basic " + w.token,
		"the token without a scheme":            w.token,
		"an empty token":                        "Bearer ",
		"one whose last digit is another":       "Bearer " + flipped,
		"one that is cut off":                   "Bearer " + w.token[:len(w.token)-1],
		"one with more behind it":               "Bearer " + w.token + "0",
		"upper case":                            "Bearer " + strings.ToUpper(w.token),
		"the id of one, the secret of another":  "Bearer " + revoked.Text[:20] + w.token[20:],
		"a revoked one":                         "Bearer " + revoked.Text,
		"an id that is SQL":                     "Bearer sw_' OR 1=1 --_" + strings.Repeat("0", 64),
		"one that never was":                    "Bearer sw_ffffffffffffffff_" + strings.Repeat("f", 64),
		"two headers' worth, joined by a comma": "Bearer " + revoked.Text + ", Bearer " + w.token,
	} {
		for _, path := range []string{"/api/v1/plans", "/api/v1/openapi.json", "/api/v1/no-such-route", "/api/v1/"} {
			status, h, text := w.send("GET", path, "", map[string]string{"Authorization": header}, nil)
			w.wantProblem(sentence+" at "+path, status, h, text, http.StatusUnauthorized)
			if h.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: no WWW-Authenticate (RFC 9110 section 11.6.1)", sentence)
			}
		}
	}
	if status, _, _ := w.send("GET", "/api/v1/plans?token="+w.token, "", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("a token in the URL: HTTP %d (B6)", status)
	}
	log := w.log.String()
	if strings.Count(log, "request without a good token") < 10 {
		t.Errorf("refusals are not logged (B13): %.500s", log)
	}
	for _, token := range []string{w.token, revoked.Text, flipped} {
		if strings.Contains(log, token[20:]) {
			t.Error("a token's secret is in the log")
		}
	}
	if status, _, _ := w.send("GET", "/api/v1/plans", "", map[string]string{"Authorization": "bearer " + w.token}, nil); status != http.StatusOK {
		t.Errorf("a scheme is the same in lower case (RFC 9110 section 11.1): HTTP %d", status)
	}
}

func TestUseOfATokenIsNotedAtMostOnceAMinute(t *testing.T) {
	w := newWorld(t)
	used := func() time.Time {
		t.Helper()
		list, err := w.service.Tokens(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return list[0].LastUsedAt
	}
	for _, step := range []struct {
		sentence string
		wait     time.Duration
		want     time.Time
	}{
		{"the first use is noted", 0, noon},
		{"one half a minute later is not", 30 * time.Second, noon},
		{"one a minute later is", 30 * time.Second, noon.Add(time.Minute)},
	} {
		w.clock.Advance(step.wait)
		if _, err := w.service.Authenticate(t.Context(), w.token); err != nil {
			t.Fatal(err)
		}
		if got := used(); !got.Equal(step.want) {
			t.Errorf("%s: %s, want %s (B6)", step.sentence, got, step.want)
		}
	}
}

func TestADatabaseThatDoesNotAnswerIsNoRefusal(t *testing.T) {
	w := newWorld(t)
	w.store.Close()
	_, err := w.service.Authenticate(t.Context(), w.token)
	if err == nil || err.Error() == api.ErrUnauthorized.Error() {
		t.Fatalf("without a database: %v, want an error that is not a refusal", err)
	}
	status, header, text := w.send("GET", "/api/v1/plans", w.token, nil, nil)
	if status < 500 {
		t.Errorf("without a database: HTTP %d, want 5xx (B20: fail closed)", status)
	}
	w.wantProblem("without a database", status, header, text, 0)
	if strings.Contains(string(text), "pool") {
		t.Errorf("the answer tells of the inside: %s", text)
	}
	status, header, text = w.send("GET", "/readyz", "", nil, nil)
	w.wantProblem("readiness without a database", status, header, text, http.StatusServiceUnavailable)
	if status, _, _ := w.send("GET", "/healthz", "", nil, nil); status != http.StatusOK {
		t.Errorf("the process lives, database or not: HTTP %d", status)
	}
}
