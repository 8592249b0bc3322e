package secret_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/secret"
)

func TestRedactorPatterns(t *testing.T) {
	header := http.Header{}
	header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte("user:"+canary)))
	dump := &strings.Builder{}
	_ = header.Write(dump)
	for _, row := range []struct{ sentence, text, want string }{
		{"a header", "Authorization: Bearer canary-7f3a\r\nHost: a", "Authorization: [redacted]\r\nHost: a"},
		{"a header as Go prints it", "map[Authorization:[Bearer canary-7f3a] Host:[a]]", "map[Authorization:[[redacted]] Host:[a]]"},
		{"a carrier's own header", "X-Soracom-API-Key: canary-7f3a", "X-Soracom-API-Key: [redacted]"},
		{"a header in JSON", `{"Authorization":"canary-7f3a","Host":"a"}`, `{"Authorization":"[redacted]","Host":"a"}`},
		{"a scheme in a sentence", "sent Bearer canary-7f3a to them", "sent Bearer [redacted] to them"},
		{"a cookie", "Cookie: id=canary-7f3a; b=canary-7f3a", "Cookie: [redacted]"},
		{"a token in a query", "GET /sims?token=canary-7f3a&page=2", "GET /sims?token=[redacted]&page=2"},
		{"a signature in a query", "?sign_type=md5&signature=canary-7f3a", "?sign_type=md5&signature=[redacted]"},
		{"a user in a URL", "https://user:canary-7f3a@carrier.example/x", "https://[redacted]@carrier.example/x"},
		{"a JSON field", `{"apiKey":"canary-7f3a","n":1}`, `{"apiKey":"[redacted]","n":1}`},
		{"a JSON field with spaces", `{"authKey" : "canary-7f3a"}`, `{"authKey" : "[redacted]"}`},
		{"a JSON field with a quote in it", `{"password":"a\"canary-7f3a"}`, `{"password":"[redacted]"}`},
		{"a JSON number", `{"token":7730019,"n":1}`, `{"token":[redacted],"n":1}`},
		{"a JSON list", `{"tokens":["canary-7f3a","canary-7f3a"],"n":1}`, `{"tokens":[redacted],"n":1}`},
		{"a JSON object", `{"credentials":{"a":"canary-7f3a"},"n":1}`, `{"credentials":[redacted],"n":1}`},
		{"JSON within JSON", `{"body":"{\"client_secret\":\"canary-7f3a\",\"n\":1}"}`, `{"body":"{\"client_secret\":[redacted],\"n\":1}"}`},
		{"JSON that was cut", `{"secret":"canary-7f3`, `{"secret":[redacted]`},
		{"a form", "grant=x&client_secret=canary-7f3a", "grant=x&client_secret=[redacted]"},
		{"a log line", "login passwd=canary-7f3a ok", "login passwd=[redacted] ok"},
		{"single quotes", "{'access_key': 'canary-7f3a'}", "{'access_key': '[redacted]'}"},
		{"an XML element", "<a><Password>canary-7f3a</Password></a>", "<a><Password>[redacted]</Password></a>"},
		{"a web token by its look", "got eyJhbGciOi.eyJzdWIi.c2ln back", "got [redacted] back"},
		{"our own token by its look", "sw_1_canary7f3acanary7f3a", "[redacted]"},
		{"a private key", "-----BEGIN RSA PRIVATE KEY-----\ncanary\n-----END RSA PRIVATE KEY-----!", "[redacted]!"},
		{"what the headers of a request look like", dump.String(), "Authorization: [redacted]\r\n"},
		{"what is no secret stays", `{"state":"active","bytes":12,"reason":"over limit"}`, `{"state":"active","bytes":12,"reason":"over limit"}`},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			got := secret.NewRedactor().Text(row.text)
			if got != row.want {
				t.Errorf("V20: %q became\n%q, want\n%q", row.text, got, row.want)
			}
			if again := secret.NewRedactor().Text(got); strings.Contains(again, "canary") {
				t.Errorf("a second pass brought it back: %q", again)
			}
		})
	}
}

func TestRedactorKnowsItsSecrets(t *testing.T) {
	const value = `p/"a s+s`
	redactor := secret.NewRedactor(secret.New(value), secret.New(value+"-longer"), secret.New(""), secret.New("ab"))
	quoted, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	for sentence, form := range map[string]string{
		"plain":         value,
		"in a query":    url.QueryEscape(value),
		"in a path":     url.PathEscape(value),
		"in JSON":       string(quoted[1 : len(quoted)-1]),
		"in base64":     base64.StdEncoding.EncodeToString([]byte(value)),
		"in URL base64": base64.RawURLEncoding.EncodeToString([]byte(value)),
		"a longer one":  value + "-longer",
	} {
		if got := redactor.Text("<" + form + "> about"); got != "<[redacted]> about" {
			t.Errorf("V20: %s: %q became %q", sentence, form, got)
		}
	}
}

func TestRedactorBoundsItsInput(t *testing.T) {
	redactor := secret.NewRedactor(secret.New(canary))
	for at := range len(canary) + 2 {
		text := strings.Repeat("界", (secret.MaxRedactBytes-at)/3)
		text += strings.Repeat(".", secret.MaxRedactBytes-at-len(text)) + canary + strings.Repeat("x", 1<<20)
		got := redactor.Text(text)
		if strings.Contains(got, "can") {
			t.Errorf("V20: a cut %d bytes into the secret left its beginning: %q", at, got[len(got)-30:])
		}
		if !strings.HasSuffix(got, "[cut]") || len(got) > secret.MaxRedactBytes+len("…[cut]") {
			t.Errorf("%d bytes became %d, not cut", len(text), len(got))
		}
	}
	if got := redactor.Text(strings.Repeat("token=a ", 8000)); len(got) > secret.MaxRedactBytes+len("…[cut]") {
		t.Errorf("the marks made it grow to %d bytes", len(got))
	}
}

func TestRedactorIsNotSlowOnAnyInput(t *testing.T) {
	redactor := secret.NewRedactor(secret.New(canary))
	for _, unit := range []string{"a", "token", `\"`, "<secret", "://", "eyJ.", "token=[", "-----BEGIN PRIVATE KEY-----"} {
		start := time.Now()
		redactor.Text(strings.Repeat(unit, secret.MaxRedactBytes))
		if took := time.Since(start); took > 5*time.Second {
			t.Errorf("64 KiB of %q took %v", unit, took)
		}
	}
}

func FuzzRedactor(f *testing.F) {
	for _, seed := range []string{"a", `{"token":"x"}`, "Authorization: ", "\xff\\\"", "token="} {
		f.Add(seed, seed)
	}
	redactor := secret.NewRedactor(secret.New(canary))
	f.Fuzz(func(t *testing.T, before, after string) {
		if got := redactor.Text(before + canary + after); strings.Contains(got, canary) {
			t.Errorf("V20: the secret is in %q", got)
		}
	})
}
