package carrier

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter is the longest wait that is believed of a carrier (F26).
const MaxRetryAfter = time.Hour

// RetryAfter reads how long the carrier asks to wait: whole seconds or an HTTP date, counted
// from now. It gives 0 where the header is absent, in the past or makes no sense, and never more
// than MaxRetryAfter.
//
// Source: RFC 9110 section 10.2.3.
func RetryAfter(h http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(h.Get("Retry-After"))
	if text == "" || len(text) > 64 {
		return 0
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil {
		return bounded(seconds > int64(MaxRetryAfter/time.Second), time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	wait := at.Sub(now)
	return bounded(wait > MaxRetryAfter, wait)
}

func bounded(over bool, wait time.Duration) time.Duration {
	switch {
	case over:
		return MaxRetryAfter
	case wait < 0:
		return 0
	}
	return wait
}
