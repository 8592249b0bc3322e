package transfer

import (
	"io"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
)

// longDigits is from how many digits on spreadsheets round a number.
const longDigits = 16

// SafeCell makes a text safe to be opened in a spreadsheet: what would be a formula (F45: = + - @
// TAB CR, in full width too) or a number that would be rounded gets an apostrophe before it, which
// PlainCell takes off again.
//
// Source: OWASP, CSV Injection.
func SafeCell(s string) string {
	first, _ := utf8.DecodeRuneInString(s)
	if strings.ContainsRune("=+-@\t\r\n＝＋－＠'", first) && s != "" || len(s) >= longDigits && strings.Trim(s, "0123456789") == "" {
		return "'" + s
	}
	return s
}

// PlainCell undoes SafeCell, and what people write to save a long number from a spreadsheet: a
// leading apostrophe, or ="8986...".
func PlainCell(s string) string {
	if rest, found := strings.CutPrefix(s, "'"); found && rest != "" {
		first, _ := utf8.DecodeRuneInString(rest)
		if strings.ContainsRune("=+-@\t\r\n＝＋－＠'", first) || unicode.IsDigit(first) {
			return rest
		}
	}
	if rest, found := strings.CutPrefix(s, `="`); found {
		if inner, found := strings.CutSuffix(rest, `"`); found && !strings.Contains(inner, `"`) {
			return inner
		}
	}
	return s
}

// writeRecord writes one record with every cell safe and quoted (F45), CR LF behind it.
func writeRecord(w io.Writer, cells []string) error {
	var b strings.Builder
	for i, cell := range cells {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + strings.ReplaceAll(SafeCell(cell), `"`, `""`) + `"`)
	}
	b.WriteString("\r\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// looksRounded says that a cell was turned into a number of the form 8.61E+12.
func looksRounded(s string) bool {
	return strings.ContainsAny(s, "eE") && strings.ContainsAny(s, "0123456789") && strings.Trim(s, "0123456789.,+eE") == "" && strings.Contains(s, "+")
}

// textProblem says what is wrong with a text that a person is to read, "" for nothing.
func textProblem(s string, most int) string {
	if utf8.RuneCountInString(s) > most {
		return "it is too long; shorten it"
	}
	for _, r := range s {
		switch {
		case r == '\n' || r == '\r':
			return "it has a line break in it; take it out, or look for a missing quote"
		case unicode.IsControl(r):
			return "it has a control character in it; take it out"
		}
	}
	return ""
}

// swallowed says whether a cell with line breaks holds a line with an ICCID: a missing quote has
// then made one row of several, and a card would be lost without a word.
func swallowed(cells []string) bool {
	for _, cell := range cells {
		_, rest, broken := strings.Cut(strings.ReplaceAll(cell, "\r", "\n"), "\n")
		for ; broken && rest != ""; _, rest, _ = strings.Cut(rest, "\n") {
			line, _, _ := strings.Cut(rest, "\n")
			for field := range strings.FieldsFuncSeq(line, func(r rune) bool { return strings.ContainsRune(",;\t\"'=", r) }) {
				if _, err := simwarden.ParseICCID(field); err == nil {
					return true
				}
			}
		}
	}
	return false
}
