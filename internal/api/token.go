package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

// ErrUnauthorized says that a request bears no token that is good. It does not say why: a revoked
// token and one that never was look the same.
var ErrUnauthorized = errors.New("a bearer token is needed; make one with: simwarden token create")

// A token is sw_<id>_<secret>: 8 bytes that name its row and 32 that only its bearer knows (B6),
// both in lower-case hex. The prefix lets scanners of source code find one that leaked.
const (
	tokenPrefix      = "sw_"
	tokenIDBytes     = 8
	tokenSecretBytes = 32
	tokenTouchEvery  = time.Minute
	maxTokens        = 1000
	maxTokenName     = 64
)

// NewToken is a token just made. Text is shown this once and kept nowhere.
type NewToken struct {
	store.APIToken
	Text string `json:"token"`
}

// CreateToken makes a token for the API. Its name says whose it is: the actor of what it does is
// "token:<name>".
func (s *Service) CreateToken(ctx context.Context, name, actor string) (NewToken, error) {
	if !nameShape.MatchString(name) {
		return NewToken{}, badInput("a token's name has 1 to %d letters, digits, dots, hyphens and underscores, and begins with a letter or digit", maxTokenName)
	}
	id, secret := randomHex(tokenIDBytes), randomHex(tokenSecretBytes)
	hash := sha256.Sum256([]byte(secret))
	var t store.APIToken
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if t, err = tx.AddToken(ctx, id, name, hash[:], actor); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "token_create", 0, 0, map[string]any{"token_id": id, "name": name})
	})
	if err != nil {
		return NewToken{}, err
	}
	return NewToken{APIToken: t, Text: tokenPrefix + id + "_" + secret}, nil
}

// Tokens lists the newest thousand tokens, revoked ones too, newest first.
func (s *Service) Tokens(ctx context.Context) ([]store.APIToken, error) {
	return s.Store.Tokens(ctx, maxTokens)
}

// RevokeToken ends a token at once; it says whether it was good until now.
func (s *Service) RevokeToken(ctx context.Context, id, actor string) (was bool, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if was, err = tx.RevokeToken(ctx, id); err != nil || !was {
			return err
		}
		return tx.Audit(ctx, actor, "token_revoke", 0, 0, map[string]any{"token_id": id})
	})
	return was, err
}

// Authenticate finds the token that text is and notes its use; ErrUnauthorized where there is none.
func (s *Service) Authenticate(ctx context.Context, text string) (store.APIToken, error) {
	id, secret, ok := splitToken(text)
	if !ok {
		return store.APIToken{}, ErrUnauthorized
	}
	t, want, err := s.Store.TokenByID(ctx, id)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return store.APIToken{}, err
	}
	hash := sha256.Sum256([]byte(secret))
	if subtle.ConstantTimeCompare(hash[:], want) != 1 || !t.RevokedAt.IsZero() {
		return store.APIToken{}, ErrUnauthorized
	}
	if s.Store.Now().Sub(t.LastUsedAt) >= tokenTouchEvery {
		if err := s.Store.TouchToken(ctx, t.ID, tokenTouchEvery); err != nil {
			return store.APIToken{}, fmt.Errorf("authenticate: %w", err)
		}
	}
	return t, nil
}

func splitToken(text string) (id, secret string, ok bool) {
	rest, ok := strings.CutPrefix(text, tokenPrefix)
	if !ok {
		return "", "", false
	}
	id, secret, ok = strings.Cut(rest, "_")
	return id, secret, ok && isHex(id, tokenIDBytes) && isHex(secret, tokenSecretBytes)
}

func isHex(text string, bytes int) bool {
	return len(text) == 2*bytes && strings.Trim(text, "0123456789abcdef") == ""
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails: crypto/rand ends the program instead (Go 1.24)
	return hex.EncodeToString(b)
}
