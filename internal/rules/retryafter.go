package rules

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that is taken from a carrier's Retry-After (F26).
const MaxRetryAfter = time.Hour

// ParseRetryAfter reads a Retry-After header: seconds or an HTTP date (RFC 9110 section 10.2.3). It
// gives the wait from now, at least 0 and at most MaxRetryAfter, and false for an absent header and
// for nonsense. A date in the past is a wait of 0.
func ParseRetryAfter(header string, now time.Time) (time.Duration, bool) {
	text := strings.TrimSpace(header)
	if text == "" || len(text) > 64 {
		return 0, false
	}
	if allDigits(text) {
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil || seconds > int64(MaxRetryAfter/time.Second) {
			return MaxRetryAfter, true // a number too large to read is a long wait all the same
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0, false
	}
	return min(max(at.Sub(now), 0), MaxRetryAfter), true
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}
