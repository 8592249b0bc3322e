package simwarden_test

import (
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
)

func FuzzParseIMSI(f *testing.F) {
	for _, s := range []string{"", "460001234567890", "46000 1234567890", "4600", "46000123456789012", "４６０００", strings.Repeat("1", 65)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := simwarden.ParseIMSI(text)
		checkDigits(t, text, v.String(), err, 6, 15, func(s string) (string, error) {
			v, err := simwarden.ParseIMSI(s)
			return v.String(), err
		})
	})
}

func FuzzParseMSISDN(f *testing.F) {
	for _, s := range []string{"", "+86 138 0000 0000", "0049 170 1234567", "1064812345678", "+", "00", "(0)170.123", "++4917012345", "+004917012345", "000000000000000"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := simwarden.ParseMSISDN(text)
		checkDigits(t, text, v.String(), err, 5, 15, func(s string) (string, error) {
			v, err := simwarden.ParseMSISDN(s)
			return v.String(), err
		})
	})
}

func FuzzParseIMEI(f *testing.F) {
	for _, s := range []string{"", "490154203237518", "49-015420-323751-8", "49015420323751", "4901542032375112", "490154203237517"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := simwarden.ParseIMEI(text)
		checkDigits(t, text, v.String(), err, 14, 16, func(s string) (string, error) {
			v, err := simwarden.ParseIMEI(s)
			return v.String(), err
		})
		if err == nil && !v.SameEquipment(v) {
			t.Errorf("%q is not its own equipment", text)
		}
	})
}

func FuzzParseEID(f *testing.F) {
	for _, s := range []string{"", "89049032123451234512345678901235", "89049032 12345123 45123456 78901235", "89049032123451234512345678901236"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		v, err := simwarden.ParseEID(text)
		checkDigits(t, text, v.String(), err, 32, 32, func(s string) (string, error) {
			v, err := simwarden.ParseEID(s)
			return v.String(), err
		})
	})
}

// checkDigits checks what all numbers have in common: digits alone, of the right length, in a form
// that is read as itself; on an error the zero value, and no flood in its text.
func checkDigits(t *testing.T, text, got string, err error, least, most int, again func(string) (string, error)) {
	t.Helper()
	if err != nil {
		if got != "" {
			t.Errorf("%q gave %q with error %v", text, got, err)
		}
		if len(err.Error()) > 200 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
		return
	}
	if len(got) < least || len(got) > most || strings.Trim(got, "0123456789") != "" {
		t.Errorf("%q was read as %q", text, got)
	}
	if same, err := again(got); err != nil || same != got {
		t.Errorf("%q is read as %q, %v", got, same, err)
	}
}

func FuzzParseICCID(f *testing.F) {
	for _, s := range []string{"", "8944501234567890128", "898604A4192180012345", "8.98604E+18", "89860400000000000000", "8986 0012 3456 7890 123F",
		"898600123456789012ff", "89", "０", "89\u300086", strings.Repeat("8", 65), "89860012345678901234F", "89860012345678901,0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := simwarden.ParseICCID(text)
		if err != nil {
			if !id.IsZero() {
				t.Errorf("%q gave %s with error %v", text, id, err)
			}
			if len(err.Error()) > 500 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		s := id.String()
		if len(s) < 18 || len(s) > 20 || !strings.HasPrefix(s, "89") || strings.Trim(s, "0123456789ABCDE") != "" {
			t.Errorf("I6: %q was read as %q", text, s)
		}
		if again, err := simwarden.ParseICCID(s); err != nil || again != id {
			t.Errorf("I6: the normal form %q is read as %s, %v", s, again, err)
		}
		if spaced, err := simwarden.ParseICCID(" " + s[:4] + " " + strings.ToLower(s[4:]) + "\t"); err != nil || spaced != id {
			t.Errorf("I6: %q with spaces and in lower case is %s, %v", s, spaced, err)
		}
		if !id.SameCard(id) {
			t.Errorf("%s is not the same card as itself", id)
		}
		alternates := id.Alternates()
		if len(alternates) > 11 {
			t.Errorf("%s has %d alternates", id, len(alternates))
		}
		for _, other := range alternates {
			if other == id || !id.SameCard(other) || !other.SameCard(id) {
				t.Errorf("I6: %s and %s are said to be one card, and not", id, other)
			}
			if again, err := simwarden.ParseICCID(other.String()); err != nil || again != other {
				t.Errorf("I6: alternate %s of %s is read as %s, %v", other, id, again, err)
			}
		}
		var back simwarden.ICCID
		if b, _ := id.MarshalText(); back.UnmarshalText(b) != nil || back != id {
			t.Errorf("%s comes back as %s", id, back)
		}
	})
}
