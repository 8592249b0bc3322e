package soracom

import (
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/simwarden/simwarden/lab"
)

const (
	defaultTokenLife = 86400 * time.Second  // AuthRequest.tokenTimeoutSeconds, default
	longestTokenLife = 172800 * time.Second // its maximum
	maxTokens        = 10_000               // an account that logs in more often loses its oldest tokens
)

type session struct {
	account    *lab.Account
	seed       uint64
	operatorID string

	mu     sync.Mutex
	issued uint64
	tokens map[string]token // by API key

	handlers handlers
}

type token struct {
	value   string
	until   time.Time
	ordinal uint64
}

// login is the body of POST /auth, and the token that was given for it.
type login struct {
	AuthKeyID           string `json:"authKeyId"`
	AuthKey             string `json:"authKey"`
	TokenTimeoutSeconds int64  `json:"tokenTimeoutSeconds"`
}

func parseLogin(body []byte, req *lab.Request) {
	var in login
	if json.Unmarshal(body, &in) != nil || in.TokenTimeoutSeconds < 0 {
		req.Problem = lab.ProblemBadRequest
	}
	req.Detail = in
}

// Authorized checks the key pair of a login, else the two headers.
func (s *session) Authorized(r *http.Request, req *lab.Request, now time.Time) bool {
	if in, ok := req.Detail.(login); ok {
		return req.Problem != "" || same(in.AuthKeyID, s.account.Credential(CredentialKeyID)) &&
			same(in.AuthKey, s.account.Credential(CredentialKey))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.tokens[r.Header.Get("X-Soracom-API-Key")]
	return ok && now.Before(t.until) && same(r.Header.Get("X-Soracom-Token"), t.value)
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// issue makes a token; older ones stay good, if the account is not one with a single token.
func (s *session) issue(in login, now time.Time) (apiKey, value string) {
	life := defaultTokenLife
	if in.TokenTimeoutSeconds > 0 {
		life = min(time.Duration(min(in.TokenTimeoutSeconds, 172800))*time.Second, longestTokenLife)
	}
	spec := s.account.Spec()
	if spec.TokenLife > 0 {
		life = min(life, spec.TokenLife)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
	if spec.SingleToken {
		clear(s.tokens)
	}
	for key, t := range s.tokens {
		if !now.Before(t.until) || t.ordinal+maxTokens <= s.issued {
			delete(s.tokens, key)
		}
	}
	apiKey, value = "api-"+lab.Hex(32, s.seed, 3, s.issued), lab.Hex(64, s.seed, 4, s.issued)
	s.tokens[apiKey] = token{value: value, until: now.Add(life), ordinal: s.issued}
	return apiKey, value
}

// ExpireTokens voids every token (F34).
func (s *session) ExpireTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

func (s *session) logout(apiKey string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tokens, apiKey)
}
