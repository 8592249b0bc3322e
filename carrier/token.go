package carrier

import (
	"context"
	"sync"
	"time"
)

// Token is a login in force at a carrier. The zero Token is none. It is a secret.
type Token struct {
	Value string
	// EndsAt is when the carrier lets it end; UTC.
	EndsAt time.Time
}

// TokenMargin is how long before its end a token is no longer used, so that no request meets the
// end on its way, nor a clock that is a little off.
const TokenMargin = 5 * time.Minute

// Live says that the token is there and may be used at the instant.
func (t Token) Live(now time.Time) bool {
	return t.Value != "" && now.Add(TokenMargin).Before(t.EndsAt)
}

// TokenStore keeps one account's token for everybody who calls that account. It is used from many
// goroutines, and where it is shared by nodes, from many processes.
type TokenStore interface {
	// Renew gives a live token other than bad, the one known to be refused (zero for none). Where
	// such a one is kept it is given, and login is not called: somebody else was quicker. Else
	// login is called, by one at a time over all who share the store, and what it gives is kept.
	// made says that this call's login made the token.
	//
	// The error is login's own, the context's, or the store's; nothing is kept then.
	Renew(ctx context.Context, bad Token, login func(context.Context) (Token, error)) (t Token, made bool, err error)
}

// NewMemoryTokens makes a TokenStore for one process. now is the injected clock.
func NewMemoryTokens(now func() time.Time) TokenStore {
	return &memoryTokens{now: now, turn: make(chan struct{}, 1)}
}

type memoryTokens struct {
	now  func() time.Time
	turn chan struct{} // holds one: the right to log in

	mu   sync.Mutex
	kept Token
}

// Renew logs in where no other token is kept.
func (m *memoryTokens) Renew(ctx context.Context, bad Token, login func(context.Context) (Token, error)) (Token, bool, error) {
	select {
	case m.turn <- struct{}{}:
	case <-ctx.Done():
		return Token{}, false, ctx.Err()
	}
	defer func() { <-m.turn }()
	m.mu.Lock()
	kept := m.kept
	m.mu.Unlock()
	if kept.Value != bad.Value && kept.Live(m.now()) {
		return kept, false, nil
	}
	t, err := login(ctx)
	if err != nil {
		return Token{}, false, err
	}
	m.mu.Lock()
	m.kept = t
	m.mu.Unlock()
	return t, true, nil
}
