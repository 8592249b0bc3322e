package secret_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/secret"
)

const canary = "canary-7f3a"

func TestSecretNeverPrints(t *testing.T) {
	type account struct {
		Name  string
		Key   secret.Secret
		inner secret.Secret // fmt calls no method of a field that it may not read
	}
	a := account{"one", secret.New(canary), secret.New(canary)}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
		fmt.Fprintf(&out, verb+"\n", a)
		fmt.Fprintf(&out, verb+"\n", &a)
		fmt.Fprintf(&out, verb+"\n", a.Key)
		fmt.Fprintf(&out, verb+"\n", []secret.Secret{a.Key})
	}
	fmt.Fprintln(&out, a.Key.String(), a.Key.GoString(), a.inner)
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "key", a.Key, "account", a)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "key", a.Key, "account", a)
	if err := json.NewEncoder(&out).Encode(map[string]any{"a": a, "k": &a.Key}); err != nil {
		t.Fatal(err)
	}
	text, err := a.Key.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	out.Write(text)
	for _, form := range []string{canary, fmt.Sprintf("%x", canary), fmt.Sprintf("%X", canary), fmt.Sprintf("%d", []byte(canary))} {
		if strings.Contains(out.String(), form) {
			t.Errorf("V20: the secret was printed as %q in:\n%s", form, out.String())
		}
	}
	if strings.Count(out.String(), secret.Redacted) < 20 {
		t.Errorf("the secret's place was not marked:\n%s", out.String())
	}
}

func TestSecretReveals(t *testing.T) {
	s := secret.New(canary)
	if s.Reveal() != canary || s.Empty() {
		t.Errorf("Reveal gives %q", s.Reveal())
	}
	if !s.Equal(secret.New(canary)) || s.Equal(secret.New("other")) || s.Equal(secret.Secret{}) {
		t.Error("Equal does not compare the texts")
	}
	if zero := secret.New(""); !zero.Empty() || zero.Reveal() != "" || !zero.Equal(secret.Secret{}) {
		t.Error("the empty secret is not empty")
	}
}

func TestSecretIsReadFromJSON(t *testing.T) {
	var in struct{ Key secret.Secret }
	if err := json.Unmarshal([]byte(`{"Key":"`+canary+`"}`), &in); err != nil || in.Key.Reveal() != canary {
		t.Errorf("read %q, %v", in.Key.Reveal(), err)
	}
	if err := json.Unmarshal([]byte(`{"Key":"[redacted]"}`), &in); err == nil || in.Key.Reveal() != canary {
		t.Errorf("what we answered was taken for the secret (B10): %v", err)
	}
}

func TestMasks(t *testing.T) {
	for _, row := range []struct {
		sentence, got, want string
	}{
		{"an international number", secret.MaskMSISDN("+8613800138000"), "+86138****8000"},
		{"the same without plus", secret.MaskMSISDN("8613800138000"), "86138****8000"},
		{"a national number", secret.MaskMSISDN("13800138000"), "138****8000"},
		{"an M2M number of 13 digits", secret.MaskMSISDN("1064812345678"), "10648****5678"},
		{"a short number hides four digits", secret.MaskMSISDN("123456"), "****56"},
		{"a shorter one hides all", secret.MaskMSISDN("+123"), "+***"},
		{"no number", secret.MaskMSISDN(""), ""},
		{"what is no number is hidden", secret.MaskMSISDN("Zhang San"), "****"},
		{"an IMSI keeps its network", secret.MaskIMSI("460001234567890"), "46000********90"},
		{"an IMEI keeps its type", secret.MaskIMEI("356938035643809"), "35693803*****09"},
		{"an IMEISV", secret.MaskIMEI("3569380356438091"), "35693803******91"},
		{"a number in a sentence", secret.MaskNumbers("line 8613800138000 is barred"), "line 86138****8000 is barred"},
		{"an ICCID is the card's, not a person's", secret.MaskNumbers("card 89860012345678901234"), "card 89860012345678901234"},
		{"an error code is left", secret.MaskNumbers("code 40000029"), "code 40000029"},
	} {
		if row.got != row.want {
			t.Errorf("B12: %s: %q, want %q", row.sentence, row.got, row.want)
		}
	}
}
