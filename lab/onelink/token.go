package onelink

import (
	"crypto/subtle"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/lab"
)

const (
	tokenLife    = 2 * time.Hour
	maxTransid   = 48
	transidTail  = 14 + 8  // yyyyMMddHHmmss and eight digits
	maxSeen      = 200_000 // transids remembered
	maxOrders    = 100_000 // orders and jobs remembered
	maxClockSkew = 24 * time.Hour
)

type session struct {
	account *lab.Account
	seed    uint64

	mu     sync.Mutex
	issued uint64
	token  string // the one in force, empty for none
	until  time.Time
	seen   map[string]bool
	order  uint64
	orders map[string]order
	jobs   map[string]job
}

// Authorized checks the transid, which must be new, and the token, or a login's password.
func (s *session) Authorized(_ *http.Request, req *lab.Request, now time.Time) bool {
	c := req.Detail.(*call)
	appid := s.account.Credential(CredentialAppID)
	if !s.fresh(c.get("transid"), appid) {
		c.code = codeTransid
		return false
	}
	if req.Operation == simwarden.OpToken {
		c.code = codeCredentials
		return same(c.get("appid"), appid) && same(c.get("password"), s.account.Credential(CredentialPassword))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c.code = codeToken
	return s.token != "" && now.Before(s.until) && same(c.get("token"), s.token)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// fresh says that the transid has its form and was not there before, and remembers it.
func (s *session) fresh(transid, appid string) bool {
	tail, ok := strings.CutPrefix(transid, appid)
	if !ok || appid == "" || len(transid) > maxTransid || len(tail) != transidTail {
		return false
	}
	if _, err := strconv.ParseUint(tail[14:], 10, 64); err != nil {
		return false
	}
	at, err := time.ParseInLocation("20060102150405", tail[:14], beijing)
	if err != nil || at.Sub(s.account.World().Now()).Abs() > maxClockSkew {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen[transid] {
		return false
	}
	if len(s.seen) >= maxSeen {
		clear(s.seen)
	}
	s.seen[transid] = true
	return true
}

// issue makes a token; the one before is void from now on.
func (s *session) issue(now time.Time) (token string, life time.Duration) {
	life = tokenLife
	if spec := s.account.Spec(); spec.TokenLife > 0 {
		life = min(life, spec.TokenLife)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
	s.token, s.until = lab.Hex(32, s.seed, 4, s.issued), now.Add(life)
	return s.token, life
}

// ExpireTokens voids the token (F34).
func (s *session) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = ""
}
