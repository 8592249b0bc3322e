package carrier

import (
	"errors"
	"math"
)

// ErrKey says that a carrier's key of a SIM cannot stand in a URL's path.
var ErrKey = errors.New("a SIM's key has 1 to 64 letters, digits, hyphens and underscores")

// CheckKey refuses a key that could lead a request elsewhere: keys come out of answers and go
// into paths.
func CheckKey(key string) error {
	if key == "" || len(key) > 64 {
		return ErrKey
	}
	for i := range len(key) {
		c := key[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_') {
			return ErrKey
		}
	}
	return nil
}

// ErrBytes says that a usage figure is no count of bytes.
var ErrBytes = errors.New("a usage figure is not a count of bytes, or the sum is beyond 2^63-1")

// AddBytes adds a usage figure of an answer to a sum. An absent or null figure adds nothing; one
// that is negative, no whole number, or too large for the sum is ErrBytes.
func AddBytes(sum int64, figure JSON) (int64, error) {
	if figure.Null() {
		return sum, nil
	}
	n, ok := figure.Int64()
	if !ok || n < 0 || sum > math.MaxInt64-n {
		return 0, ErrBytes
	}
	return sum + n, nil
}
