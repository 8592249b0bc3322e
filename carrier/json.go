package carrier

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// JSON is one value of a text that ParseJSON has found good: the bytes as they stand in it. The
// zero value is "absent". It keeps the text alive and never copies.
//
// Decoding by encoding/json into structs would take "Status" for "status" and the last of two
// equal keys for the right one, would round an ICCID that is sent as a number, and walks each
// list page by reflection. Here names match exactly and once (F24), and numbers stay text (F33).
type JSON []byte

// What can be wrong with an answer's JSON; test with errors.Is.
var (
	ErrNotJSON     = errors.New("not JSON")
	ErrNotUTF8     = errors.New("not UTF-8")
	ErrJSONShape   = errors.New("not the JSON that was expected")
	ErrJSONMembers = errors.New("a member is there twice, or again in other letter case")
)

// ParseJSON checks the whole text: UTF-8 without byte order mark, exactly one JSON value and
// nothing behind it. Source: RFC 8259.
func ParseJSON(text []byte) (JSON, error) {
	if !utf8.Valid(text) {
		return nil, ErrNotUTF8
	}
	if !json.Valid(text) {
		return nil, fmt.Errorf("%w: %s", ErrNotJSON, sample(text))
	}
	return JSON(bytes.Trim(text, " \t\r\n")), nil
}

// sample says what a bad text looks like without repeating it: it may hold anything.
func sample(text []byte) string {
	t := bytes.TrimSpace(text)
	switch {
	case len(t) == 0:
		return "empty"
	case t[0] == '<':
		return "looks like HTML or XML"
	case bytes.HasPrefix(t, []byte("\xef\xbb\xbf")):
		return "begins with a byte order mark"
	}
	return fmt.Sprintf("%d bytes", len(text))
}

// Absent says that there is no such member.
func (v JSON) Absent() bool { return len(v) == 0 }

// Null says that the value is null or absent.
func (v JSON) Null() bool { return len(v) == 0 || v[0] == 'n' }

// IsText says that the value is a string, so that Text gives what it says.
func (v JSON) IsText() bool { return len(v) > 0 && v[0] == '"' }

// IsObject says that the value is an object.
func (v JSON) IsObject() bool { return len(v) > 0 && v[0] == '{' }

// Text gives a string; or a whole number as it is written, since carriers send identifiers as
// either. It is false for anything else, 1.0E+19 among it.
func (v JSON) Text() (string, bool) {
	if len(v) == 0 {
		return "", false
	}
	switch c := v[0]; {
	case c == '"':
		return unquote(v), true
	case c == '-' || c >= '0' && c <= '9':
		if bytes.ContainsAny(v, ".eE") {
			return "", false
		}
		return string(v), true
	}
	return "", false
}

// Int64 gives a whole number, also one that is written as text or with a fraction of zeros. It
// is false for anything else and for what does not fit.
func (v JSON) Int64() (int64, bool) {
	if len(v) == 0 {
		return 0, false
	}
	text := string(v)
	if v[0] == '"' {
		text = unquote(v)
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	if !json.Valid([]byte(text)) {
		return 0, false // strconv takes more for numbers than JSON does: 0x1p4, Inf, 1_0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// Pick finds the named members of an object; dst takes the value of names[i] at i, absent where
// there is none. Others are skipped. The error says that it is no object, or that a named member
// is there twice or again in other letter case, so that nobody can say which one is meant.
func (v JSON) Pick(dst []JSON, names []string) error {
	clear(dst)
	return v.Members(func(name, value JSON) error {
		for i, want := range names {
			if len(name)-2 == len(want) && string(name[1:len(name)-1]) == want {
				if dst[i] != nil {
					return fmt.Errorf("%w: %s", ErrJSONMembers, want)
				}
				dst[i] = value
				return nil
			}
		}
		return lookalike(name, names)
	})
}

// lookalike refuses a member that differs from a wanted one in case or escapes alone.
func lookalike(name JSON, names []string) error {
	inner := []byte(name[1 : len(name)-1])
	if bytes.IndexByte(inner, '\\') >= 0 {
		inner = []byte(unquote(name))
	}
	for _, want := range names {
		if len(want) == len(inner) && bytes.EqualFold(inner, []byte(want)) {
			return fmt.Errorf("%w: %s", ErrJSONMembers, want)
		}
	}
	return nil
}

// Members calls f for each member of an object in order; name is a JSON string as it stands. It
// ends with f's first error.
func (v JSON) Members(f func(name, value JSON) error) error {
	if !v.IsObject() {
		return fmt.Errorf("%w: an object", ErrJSONShape)
	}
	for i := skipSpace(v, 1); v[i] != '}'; {
		end := skipValue(v, i)
		name := v[i:end]
		i = skipSpace(v, skipSpace(v, end)+1) // over the colon
		end = skipValue(v, i)
		if err := f(name, v[i:end]); err != nil {
			return err
		}
		if i = skipSpace(v, end); v[i] == ',' {
			i = skipSpace(v, i+1)
		}
	}
	return nil
}

// Elements calls f for each element of an array in order, and ends with f's first error.
func (v JSON) Elements(f func(JSON) error) error {
	if len(v) == 0 || v[0] != '[' {
		return fmt.Errorf("%w: an array", ErrJSONShape)
	}
	for i := skipSpace(v, 1); v[i] != ']'; {
		end := skipValue(v, i)
		if err := f(v[i:end]); err != nil {
			return err
		}
		if i = skipSpace(v, end); v[i] == ',' {
			i = skipSpace(v, i+1)
		}
	}
	return nil
}

// Name gives a member's name without quotes and escapes.
func (v JSON) Name() string { return unquote(v) }

func unquote(v JSON) string {
	inner := v[1 : len(v)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return "" // cannot be: the text was checked
	}
	return s
}

func skipSpace(v JSON, i int) int {
	for v[i] == ' ' || v[i] == '\t' || v[i] == '\n' || v[i] == '\r' {
		i++
	}
	return i
}

// skipValue gives the index behind the value that begins at i of a checked text.
func skipValue(v JSON, i int) int {
	switch v[i] {
	case '"':
		return skipString(v, i)
	case '{', '[':
		depth := 0
		for ; ; i++ {
			switch v[i] {
			case '"':
				i = skipString(v, i) - 1
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
	}
	for i < len(v) {
		switch v[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r':
			return i
		}
		i++
	}
	return i
}

func skipString(v JSON, i int) int {
	for i++; ; i++ {
		end := bytes.IndexByte(v[i:], '"')
		if end < 0 {
			return len(v) // cannot be: the text was checked
		}
		i += end
		if !escaped(v, i) {
			return i + 1
		}
	}
}

// escaped says whether an odd number of backslashes stands before the quote at i.
func escaped(v JSON, i int) bool {
	n := 0
	for i-n-1 >= 0 && v[i-n-1] == '\\' {
		n++
	}
	return n%2 == 1
}
