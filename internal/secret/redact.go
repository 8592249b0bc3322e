package secret

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// MaxRedactBytes is how much of a text a Redactor looks at and returns; the rest is cut.
const MaxRedactBytes = 64 << 10

// cutMark ends a text that was cut.
const cutMark = "…[cut]"

// minSecretBytes is the shortest secret that is looked for by its value: shorter ones are part of
// ordinary words, and are found by their field's name.
const minSecretBytes = 4

// Redactor takes secrets out of text that comes from outside: headers, URLs, bodies, messages
// (B13, V20). It rather hides too much. It does not change after it is made, so any number of
// goroutines may use it.
type Redactor struct {
	values   *strings.Replacer
	prefixes []string // every form of every secret, to find one that the cut went through
}

// NewRedactor makes a redactor that knows these secrets by value, as they are and in the forms that
// they take in URLs, JSON and base64, beside the patterns that every redactor knows.
func NewRedactor(secrets ...Secret) *Redactor {
	var forms []string
	for _, s := range secrets {
		text := s.Reveal()
		if len(text) < minSecretBytes {
			continue
		}
		quoted, _ := json.Marshal(text) // a string always encodes
		forms = append(forms, text, url.QueryEscape(text), url.PathEscape(text), string(quoted[1:len(quoted)-1]),
			base64.StdEncoding.EncodeToString([]byte(text)), base64.URLEncoding.EncodeToString([]byte(text)),
			base64.RawStdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)))
	}
	// Of two that begin at one place the longer goes first, so that no tail of it is left.
	slices.SortFunc(forms, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	forms = slices.Compact(forms)
	pairs := make([]string, 0, 2*len(forms))
	for _, form := range forms {
		pairs = append(pairs, form, Redacted)
	}
	return &Redactor{values: strings.NewReplacer(pairs...), prefixes: forms}
}

const (
	// fieldName is a name of which one part says that its value is a secret.
	fieldName = `[A-Za-z0-9_.-]*(?:token|api[_-]?key|auth[_-]?key|access[_-]?key|private[_-]?key|passw(?:or)?d|passphrase|pwd|secret|credential|signature)[A-Za-z0-9_.-]*`
	// fieldValue is what follows: a JSON string (perhaps within a JSON string), a list, an object
	// of plain fields, or a bare word. Each may lack its end, where the text was cut.
	fieldValue = `\\+"[^"\\]*(?:\\+")?|"(?:[^"\\]|\\.)*"?|'[^']*'?|\[[^\]]*\]?|\{[^}]*\}?|[^\s&,;"'<>\])}]+`
)

var patterns = []struct {
	find    *regexp.Regexp
	replace string
}{
	// Headers, to the end of their line or quote.
	{regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|(?:set-)?cookie|x-[a-z0-9-]*(?:key|token|auth|signature|secret)[a-z0-9-]*)(\\*["']?\s*[:=]\s*\[?\\*["']?)[^\r\n"'\]\\]+`), "${1}${2}" + Redacted},
	// A scheme and its credentials without the header's name (RFC 7235).
	{regexp.MustCompile(`(?i)\b(bearer|basic|digest)\s+[A-Za-z0-9._~+/=-]{6,}`), "${1} " + Redacted},
	// User and password of a URL (RFC 3986 section 3.2.1).
	{regexp.MustCompile(`://[^/\s@"'?#]+@`), "://" + Redacted + "@"},
	// JSON Web Tokens (RFC 7519), our own tokens (B6) and webhook secrets (B15), by their look.
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]*)?`), Redacted},
	{regexp.MustCompile(`\b(sw|whsec)_[A-Za-z0-9_+/=-]{12,}`), Redacted},
	// PEM keys, to their end or the text's.
	{regexp.MustCompile(`-----BEGIN [A-Z ]*PRIVATE KEY-----[^-]*(?:-----END [A-Z ]*PRIVATE KEY-----)?`), Redacted},
	// Elements and attributes of XML.
	{regexp.MustCompile(`(?i)(<` + fieldName + `(?:\s[^>]*)?>)[^<]+`), "${1}" + Redacted},
}

// Fields of JSON, forms, queries and logs: last, since what stands before it leaves fields whole.
var field = regexp.MustCompile(`(?i)(` + fieldName + `\\*["']?\s*[:=]\s*)(` + fieldValue + `)`)

// redactField keeps the quotes of a whole string, so that JSON stays JSON.
func redactField(text string) string {
	parts := field.FindStringSubmatch(text)
	name, value := parts[1], parts[2]
	if quote := value[:1]; len(value) > 1 && (quote == `"` || quote == "'") && strings.HasSuffix(value, quote) {
		return name + quote + Redacted + quote
	}
	return name + Redacted
}

// Text is the text without its secrets, at most MaxRedactBytes of it and the mark of a cut.
func (r *Redactor) Text(text string) string {
	cut := len(text) > MaxRedactBytes
	if cut {
		text = r.dropPart(strings.ToValidUTF8(text[:MaxRedactBytes], ""))
	}
	text = r.values.Replace(text)
	for _, p := range patterns {
		text = p.find.ReplaceAllString(text, p.replace)
	}
	text = field.ReplaceAllStringFunc(text, redactField)
	if len(text) > MaxRedactBytes { // many short values became long marks
		text, cut = strings.ToValidUTF8(text[:MaxRedactBytes], ""), true
	}
	if cut {
		text += cutMark
	}
	return text
}

// dropPart removes the beginning of a secret at the end of a text that was cut there.
func (r *Redactor) dropPart(text string) string {
	longest := 0
	for _, form := range r.prefixes {
		for n := min(len(form)-1, len(text)); n > longest; n-- {
			if strings.HasSuffix(text, form[:n]) {
				longest = n
			}
		}
	}
	return text[:len(text)-longest]
}
