package onelink

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	maxTransid = 48
	// maxAppID leaves room for fourteen digits of time and eight of sequence.
	maxAppID = maxTransid - 14 - 8
	// sequences is how many numbers eight digits give.
	sequences = 100_000_000
)

// transids makes the number that each request needs and no other request may have: appid, time in
// UTC+8, eight digits. Those count up from a random beginning: two nodes that share an appid meet
// only if they began within a second's requests of each other, at odds of one in some hundred
// thousand, where digits drawn for each request would meet every few minutes.
type transids struct {
	appid string
	next  atomic.Uint64
}

func newTransids(appid string) *transids {
	t := &transids{appid: appid}
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails (Go 1.24)
	t.next.Store(binary.BigEndian.Uint64(b[:]) % sequences)
	return t
}

// at gives the number of a request that is begun at the instant.
func (t *transids) at(now time.Time) string {
	return fmt.Sprintf("%s%s%08d", t.appid, now.In(zone).Format(timeLayout), t.next.Add(1)%sequences)
}

func validAppID(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z') {
			return false
		}
	}
	return s != "" && len(s) <= maxAppID
}
