package simwarden

import (
	"errors"
	"fmt"
	"strings"
)

// ICCID is a card's or profile's number in our one normal form: 18 to 20 characters of 0-9
// and A-E, 89 first, upper case, no filler, no spaces. China Mobile prints A to E in it
// (898604A4...): it is text, never a number. The zero value is "no ICCID".
//
// Source: ITU-T E.118 (89 is telecommunications, the last digit may be a Luhn check digit);
// ETSI TS 102 221 13.2 EF_ICCID (twenty half-bytes, F fills); requirement I6.
type ICCID struct{ s string }

// What can be wrong with a text that should be an ICCID; test with errors.Is.
var (
	ErrICCIDEmpty     = errors.New("no ICCID given")
	ErrICCIDLength    = errors.New("an ICCID has 18 to 20 characters")
	ErrICCIDCharacter = errors.New("an ICCID has only 0-9 and A-E, F only as filler at the end")
	ErrICCIDPrefix    = errors.New("an ICCID begins with 89")
	ErrICCIDCheck     = errors.New("the check digit does not fit")
	ErrICCIDDamaged   = errors.New("a spreadsheet has turned this ICCID into a number and lost digits; export the column as text")
)

const (
	iccidMinLen = 18
	iccidMaxLen = 20
)

// ParseICCID reads an ICCID as people write it: spaces and hyphens between groups, lower case,
// F as filler up to twenty characters, or one F behind them. It never repairs a number: what is damaged or ambiguous is refused with one
// of the ErrICCID errors, which say what to do. A 20-character number of digits alone must
// carry a fitting Luhn digit; one of 18 or 19 may or may not have one (see SameCard).
func ParseICCID(text string) (ICCID, error) {
	if len(text) > 64 {
		return ICCID{}, fmt.Errorf("%w: got %d characters", ErrICCIDLength, len(text))
	}
	var b strings.Builder
	for _, r := range strings.TrimSpace(text) {
		switch {
		case r == ' ' || r == '-' || r == '\u00a0' || r == '\u3000' || r == '\t':
			continue
		case r >= 'a' && r <= 'f':
			b.WriteRune(r - 'a' + 'A')
		default:
			b.WriteRune(r)
		}
	}
	s := b.String()
	if s == "" {
		return ICCID{}, ErrICCIDEmpty
	}
	if damagedBySpreadsheet(s) {
		return ICCID{}, fmt.Errorf("%w: %q", ErrICCIDDamaged, text)
	}
	if bare := strings.TrimRight(s, "F"); len(s) == iccidMaxLen || len(s) == len(bare)+1 {
		s = bare
	}
	for i := range len(s) {
		if !isICCIDByte(s[i]) {
			return ICCID{}, fmt.Errorf("%w: %q", ErrICCIDCharacter, text)
		}
	}
	if len(s) < iccidMinLen || len(s) > iccidMaxLen {
		return ICCID{}, fmt.Errorf("%w: %q has %d", ErrICCIDLength, text, len(s))
	}
	if !strings.HasPrefix(s, "89") {
		return ICCID{}, fmt.Errorf("%w: %q", ErrICCIDPrefix, text)
	}
	if len(s) == iccidMaxLen && allDigits(s) && !luhnValid(s) {
		if strings.HasSuffix(s, "0000") {
			return ICCID{}, fmt.Errorf("%w: %q ends in zeros and its check digit does not fit", ErrICCIDDamaged, text)
		}
		return ICCID{}, fmt.Errorf("%w: %q should end in %c", ErrICCIDCheck, text, luhnDigit(s[:len(s)-1]))
	}
	return ICCID{s}, nil
}

// MustParseICCID is ParseICCID for constants in tests and examples; it panics on an error.
func MustParseICCID(text string) ICCID {
	id, err := ParseICCID(text)
	if err != nil {
		panic(err)
	}
	return id
}

// String gives the normal form, empty for the zero value.
func (id ICCID) String() string { return id.s }

// IsZero says that there is no ICCID.
func (id ICCID) IsZero() bool { return id.s == "" }

// MaybeRounded says that the digits from the sixteenth on are all zero and no check digit
// speaks for them, as a spreadsheet leaves a long number behind. One such number alone may be a
// true one without its check digit; several in one import are not (I6).
func (id ICCID) MaybeRounded() bool {
	return allDigits(id.s) && strings.Trim(id.s[15:], "0") == "" && !luhnValid(id.s)
}

// SameCard says whether two forms name one card: equal, or one is the other with a check
// digit behind it (which, where all are digits, must be the right one).
func (id ICCID) SameCard(other ICCID) bool {
	a, b := id.s, other.s
	if len(a) > len(b) {
		a, b = b, a
	}
	switch {
	case a == "":
		return false
	case a == b:
		return true
	case len(b) != len(a)+1 || b[:len(a)] != a:
		return false
	case allDigits(b):
		return luhnValid(b)
	default:
		return b[len(b)-1] <= '9'
	}
}

// Alternates lists the other normal forms under which the same card may be stored: with its
// check digit where this form may lack it, without where it may have it. At most eleven.
func (id ICCID) Alternates() []ICCID {
	var out []ICCID
	s := id.s
	if len(s) > iccidMinLen && s[len(s)-1] <= '9' && (!allDigits(s) || luhnValid(s)) {
		out = append(out, ICCID{s[:len(s)-1]})
	}
	switch {
	case s == "" || len(s) >= iccidMaxLen:
	case allDigits(s):
		out = append(out, ICCID{s + string(luhnDigit(s))})
	default:
		for d := '0'; d <= '9'; d++ {
			out = append(out, ICCID{s + string(d)})
		}
	}
	return out
}

// MarshalText gives the normal form.
func (id ICCID) MarshalText() ([]byte, error) { return []byte(id.s), nil }

// UnmarshalText parses as ParseICCID does; empty text gives the zero value.
func (id *ICCID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = ICCID{}
		return nil
	}
	parsed, err := ParseICCID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}

// damagedBySpreadsheet finds 8.98604E+18, 8,98604E+18 and 898604...000.0: the forms that
// Excel, Numbers and LibreOffice write for a long number.
func damagedBySpreadsheet(s string) bool {
	if !strings.ContainsAny(s, ".,+") {
		return false
	}
	rest := strings.Trim(s, "0123456789.,+")
	return rest == "" || rest == "E"
}

func isICCIDByte(c byte) bool { return c >= '0' && c <= '9' || c >= 'A' && c <= 'E' }

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// luhnDigit computes the check digit that belongs behind s (ISO/IEC 7812-1 annex B).
func luhnDigit(s string) byte {
	sum := 0
	for i := range len(s) {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return byte('0' + (10-sum%10)%10)
}

func luhnValid(s string) bool { return luhnDigit(s[:len(s)-1]) == s[len(s)-1] }
