package simwarden_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
)

func TestParseICCID(t *testing.T) {
	tests := []struct {
		name, text, want string
		err              error
	}{
		{"I6: twenty digits with a fitting check digit", "89860012345678901238", "89860012345678901238", nil},
		{"I6: nineteen digits, with or without one", "8986001234567890123", "8986001234567890123", nil},
		{"I6: eighteen digits", "898600123456789012", "898600123456789012", nil},
		{"I6: China Mobile prints letters", "898604A4192180012345", "898604A4192180012345", nil},
		{"I6: in lower case too", "898604a4192180012345", "898604A4192180012345", nil},
		{"I6: spaces and hyphens between groups", " 8986 0012-3456 7890\t1238 ", "89860012345678901238", nil},
		{"I6: a wide space from a Chinese document", "8986\u30000012345678901238", "89860012345678901238", nil},
		{"I6: one F fills nineteen to twenty", "8986001234567890123F", "8986001234567890123", nil},
		{"I6: two fill eighteen", "898600123456789012ff", "898600123456789012", nil},
		{"I6: one behind twenty", "89860012345678901238F", "89860012345678901238", nil},
		{"I6: nothing", "  ", "", simwarden.ErrICCIDEmpty},
		{"I6: seventeen digits", "89860012345678901", "", simwarden.ErrICCIDLength},
		{"I6: twenty-one digits", "898600123456789012380", "", simwarden.ErrICCIDLength},
		{"I6: three fillers leave seventeen", "89860012345678901FFF", "", simwarden.ErrICCIDLength},
		{"I6: a flood", strings.Repeat("8", 1000), "", simwarden.ErrICCIDLength},
		{"I6: no F in the middle", "8986001234F678901238", "", simwarden.ErrICCIDCharacter},
		{"I6: two fillers behind nineteen are none", "8986001234567890123FF", "", simwarden.ErrICCIDCharacter},
		{"I6: no other letter", "8986001234567890123G", "", simwarden.ErrICCIDCharacter},
		{"I6: no wide digits", "８９８６００１２３４５６７８９０１２３", "", simwarden.ErrICCIDCharacter},
		{"I6: not telecommunications", "79860012345678901238", "", simwarden.ErrICCIDPrefix},
		{"I6: a wrong check digit", "89860012345678901237", "", simwarden.ErrICCIDCheck},
		{"I6: a spreadsheet's number", "8.98604E+18", "", simwarden.ErrICCIDDamaged},
		{"I6: a German spreadsheet's", "8,98604e+18", "", simwarden.ErrICCIDDamaged},
		{"I6: with a decimal point", "8986001234567890000.0", "", simwarden.ErrICCIDDamaged},
		{"I6: rounded: zeros at the end and no fitting digit", "89860012345678900000", "", simwarden.ErrICCIDDamaged},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := simwarden.ParseICCID(tt.text)
			if !errors.Is(err, tt.err) || got.String() != tt.want {
				t.Errorf("%q is %q, %v; want %q, %v", tt.text, got, err, tt.want, tt.err)
			}
		})
	}
	if _, err := simwarden.ParseICCID("89860012345678901237"); err == nil || !strings.Contains(err.Error(), "end in 8") {
		t.Errorf("I6: error %v does not say which digit fits", err)
	}
}

func TestMustParseICCIDPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a wrong constant did not panic")
		}
	}()
	if simwarden.MustParseICCID("8986001234567890123").IsZero() {
		t.Error("a right one is zero")
	}
	simwarden.MustParseICCID("89")
}

func TestSameCard(t *testing.T) {
	tests := []struct {
		name, a, b string
		want       bool
	}{
		{"I6: equal", "8986001234567890123", "8986001234567890123", true},
		{"I6: with and without the check digit", "8986001234567890123", "89860012345678901238", true},
		{"I6: the other way round", "89860012345678901238", "8986001234567890123", true},
		{"I6: with letters any digit may be the check digit", "898604A419218001234", "898604A4192180012345", true},
		{"I6: but no letter", "898604A419218001234", "898604A419218001234B", false},
		{"I6: another digit of nineteen is another card", "898600123456789012", "8986001234567890121", false},
		{"I6: another number", "8986001234567890123", "8986001234567890124", false},
		{"I6: two digits longer", "898600123456789012", "89860012345678901238", false},
	}
	for _, tt := range tests {
		a, b := simwarden.MustParseICCID(tt.a), simwarden.MustParseICCID(tt.b)
		if got := a.SameCard(b); got != tt.want || b.SameCard(a) != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	var none simwarden.ICCID
	if none.SameCard(none) || len(none.Alternates()) != 0 || none.MaybeRounded() {
		t.Error("no ICCID is a card")
	}
}

func TestMaybeRounded(t *testing.T) {
	tests := []struct {
		name, text string
		want       bool
	}{
		{"I6: nineteen digits, rounded to fifteen", "8986001234567890000", true},
		{"I6: eighteen likewise", "898600123456789000", true},
		{"I6: a digit among the last", "8986001234567890100", false},
		{"I6: letters are no number", "898604A419218000000", false},
	}
	for _, tt := range tests {
		if got := simwarden.MustParseICCID(tt.text).MaybeRounded(); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestICCIDAsText(t *testing.T) {
	var row struct{ ICCID simwarden.ICCID }
	if err := json.Unmarshal([]byte(`{"ICCID":"8986001234567890123F"}`), &row); err != nil || row.ICCID.String() != "8986001234567890123" {
		t.Errorf("read as %s, %v", row.ICCID, err)
	}
	if b, err := json.Marshal(row); err != nil || string(b) != `{"ICCID":"8986001234567890123"}` {
		t.Errorf("written as %s, %v", b, err)
	}
	if err := json.Unmarshal([]byte(`{"ICCID":8986001234567890123}`), &row); err == nil {
		t.Error("F33: a JSON number was taken, which has lost digits")
	}
	if err := json.Unmarshal([]byte(`{"ICCID":"89"}`), &row); !errors.Is(err, simwarden.ErrICCIDLength) {
		t.Errorf("error %v, want ErrICCIDLength", err)
	}
	if err := json.Unmarshal([]byte(`{"ICCID":""}`), &row); err != nil || !row.ICCID.IsZero() {
		t.Errorf("empty text is %s, %v; want no ICCID", row.ICCID, err)
	}
}

// Any single wrong digit of a twenty-digit ICCID is found (ISO/IEC 7812-1).
func TestICCIDFindsOneWrongDigit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bare := simwarden.MustParseICCID("89" + rapid.StringMatching(`[0-9]{16}[1-9]`).Draw(t, "digits"))
		whole := bare.Alternates()[len(bare.Alternates())-1].String()
		if _, err := simwarden.ParseICCID(whole); err != nil {
			t.Fatalf("%s with its check digit: %v", bare, err)
		}
		at := rapid.IntRange(2, 19).Draw(t, "at")
		other := rapid.SampledFrom([]byte("0123456789")).Filter(func(b byte) bool { return b != whole[at] }).Draw(t, "digit")
		wrong := whole[:at] + string(other) + whole[at+1:]
		if _, err := simwarden.ParseICCID(wrong); err == nil {
			t.Fatalf("%s was taken, which is %s with a wrong digit", wrong, whole)
		}
	})
}
