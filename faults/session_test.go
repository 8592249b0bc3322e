package faults_test

import (
	"bytes"
	"encoding/binary"
	"testing"
)

// A client writes its parameters in the order in which it walks a map. Were sessions known by that
// order, hardly any would be used again.
func TestSessionsAreFoundAgainWhateverTheOrderOfTheirParameters(t *testing.T) {
	message := func(fields ...string) []byte {
		out := []byte{0, 0, 0, 0, 0, 3, 0, 0}
		for _, f := range fields {
			out = append(append(out, f...), 0)
		}
		out = append(out, 0)
		binary.BigEndian.PutUint32(out, uint32(len(out)))
		return out
	}
	one := startupWith(message("user", "simwarden", "database", "one", "synchronous_commit", "on"))
	same := startupWith(message("synchronous_commit", "on", "database", "one", "user", "simwarden"))
	if !bytes.Equal(one, same) {
		t.Errorf("the same parameters in another order are another session:\n%q\n%q", one, same)
	}
	if other := startupWith(message("user", "simwarden", "database", "two")); bytes.Equal(one, other) {
		t.Errorf("two databases share a session: %q", other)
	}
	if !bytes.Contains(one, []byte("synchronous_commit\x00off\x00")) || binary.BigEndian.Uint32(one) != uint32(len(one)) {
		t.Errorf("the message %q is not whole, or without our own limits", one)
	}
}
