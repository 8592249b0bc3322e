// Package secret keeps credentials and personal data from being seen: a type that does not print
// itself, sealing for the database, a redactor for text that comes from outside, and masks for
// numbers that belong to people (B10, B12, B13, V20).
package secret

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Redacted is what stands where a secret was.
const Redacted = "[redacted]"

// Secret is a credential in memory. Whatever prints, logs or encodes it gets "[redacted]"; only
// Reveal gives the text. The zero value is the empty secret. Do not compare two with ==.
type Secret struct {
	// A pointer, because fmt walks into unexported fields of a surrounding struct without calling
	// our methods; a pointer prints as an address there.
	text *string
}

// New makes a secret of its text.
func New(text string) Secret {
	if text == "" {
		return Secret{}
	}
	return Secret{text: &text}
}

// Reveal gives the text. Call it where the request is signed or sealed and nowhere else.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty says whether there is no text.
func (s Secret) Empty() bool { return s.text == nil }

// Equal compares the texts in a time that does not depend on where they differ.
func (s Secret) Equal(other Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(other.Reveal())) == 1
}

// String is "[redacted]".
func (s Secret) String() string { return Redacted }

// GoString is "[redacted]".
func (s Secret) GoString() string { return Redacted }

// Format writes "[redacted]" for every verb, %x and %d among them.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, Redacted) }

// LogValue is "[redacted]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalJSON is the string "[redacted]".
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + Redacted + `"`), nil }

// MarshalText is "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// UnmarshalText takes a secret from a flag, a setting or a JSON string. It refuses "[redacted]",
// which somebody read from us and would now write over the true one.
func (s *Secret) UnmarshalText(text []byte) error {
	if string(text) == Redacted {
		return errors.New("read secret: " + Redacted + " is not the secret itself: give the true text, or leave it out to keep it")
	}
	*s = New(string(text))
	return nil
}
