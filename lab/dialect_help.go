package lab

import (
	"strconv"
	"unicode/utf8"
)

// AppendString appends s as a JSON text. It is for dialects, which write their answers by
// appending: a list page of 1000 SIMs must not cost more than the client's work on it.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf:
			dst = append(dst, c)
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, "0123456789abcdef"[c>>4], "0123456789abcdef"[c&15])
		default:
			r, size := utf8.DecodeRuneInString(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += size
			continue
		}
		i++
	}
	return append(dst, '"')
}

// AppendInt appends a number.
func AppendInt(dst []byte, n int64) []byte { return strconv.AppendInt(dst, n, 10) }

// Hex is a text of n seeded hexadecimal digits, the same for the same inputs: for a carrier's
// invented keys.
func Hex(n int, values ...uint64) string {
	const digits = "0123456789abcdef"
	out := make([]byte, n)
	var word uint64
	for i := range out {
		if i%16 == 0 {
			word = mix(append(values, uint64(i))...)
		}
		out[i] = digits[word&15]
		word >>= 4
	}
	return string(out)
}

// HashText is a seed made from a text (FNV-1a).
func HashText(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}
