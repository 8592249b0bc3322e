package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// tokenTable names the kind of thing for the keyring.
	tokenTable = "carrier_token"
	// tokenPause is how often those who wait for another's login look whether it is there.
	tokenPause = 50 * time.Millisecond
	// tokenMargin is how much longer than a login may take its lease holds: nobody else logs in while
	// a login may still be on its way (F3).
	tokenMargin = 10 * time.Second
	// tokenSaveBound is how long writing down a new token, or giving the lease back, may take.
	tokenSaveBound = 5 * time.Second
)

// tokenStore keeps the token of one account in the database, sealed, for the gateways of all nodes
// (F34). A login is made by whoever holds the account's lease, with no transaction open.
type tokenStore struct {
	gateway *Gateway
	id      simwarden.AccountID
	// scope stands for the carrier and the credentials: a token of others is none of ours.
	scope string
}

// keptToken is what is sealed.
type keptToken struct {
	Scope  string    `json:"scope"`
	Value  string    `json:"value"`
	EndsAt time.Time `json:"ends_at"`
}

// tokenScope is a fingerprint of what a token was got with.
func tokenScope(row store.Account, values map[string]string) string {
	h := sha256.New()
	write := func(text string) { fmt.Fprintf(h, "%d:%s", len(text), text) } // a hash never fails
	write(row.Driver)
	write(row.BaseURL)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		write(name)
		write(values[name])
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Renew gives the token that is kept, or logs in where none is that is live and not the bad one.
// While another node logs in it waits for that one's token.
func (t *tokenStore) Renew(ctx context.Context, bad carrier.Token, login func(context.Context) (carrier.Token, error)) (carrier.Token, bool, error) {
	bound := t.gateway.opts.ReadTimeout + commandWait
	for {
		sealed, err := t.gateway.store.CarrierToken(ctx, t.id)
		if err != nil {
			return carrier.Token{}, false, err
		}
		if kept := t.open(sealed); t.usable(kept, bad) {
			return kept, false, nil
		}
		lease, ok, err := t.gateway.store.TakeTokenLease(ctx, t.id, t.gateway.opts.Holder+"/"+rand.Text(), bound+tokenMargin)
		if err != nil {
			return carrier.Token{}, false, err
		}
		if ok {
			return t.renew(ctx, lease, bad, bound, login)
		}
		if err := t.gateway.clock.Sleep(ctx, tokenPause); err != nil {
			return carrier.Token{}, false, err
		}
	}
}

// renew is Renew of the holder of the lease.
func (t *tokenStore) renew(ctx context.Context, lease store.TokenLease, bad carrier.Token, bound time.Duration, login func(context.Context) (carrier.Token, error)) (carrier.Token, bool, error) {
	if kept := t.open(lease.Sealed); t.usable(kept, bad) {
		t.giveBack(ctx, lease)
		return kept, false, nil // made between our look and our lease
	}
	made, err := t.logIn(ctx, bound, login)
	if err != nil {
		t.giveBack(ctx, lease)
		return carrier.Token{}, false, err
	}
	if kept, ours := t.keep(ctx, lease, made); !ours && t.usable(kept, bad) {
		return kept, false, nil // our lease ran out: what its next holder made counts for all
	}
	return made, true, nil
}

// logIn makes the login within the time that the lease leaves.
func (t *tokenStore) logIn(ctx context.Context, bound time.Duration, login func(context.Context) (carrier.Token, error)) (carrier.Token, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return login(ctx)
}

func (t *tokenStore) usable(kept, bad carrier.Token) bool {
	return kept.Value != bad.Value && kept.Live(t.gateway.clock.Now())
}

// keep writes a new token down, also where the caller has gone meanwhile: it is the account's only
// one. What cannot be written serves this node alone, until another logs in. Where the lease is no
// longer ours, ours is false and kept is what stands there.
func (t *tokenStore) keep(ctx context.Context, lease store.TokenLease, made carrier.Token) (kept carrier.Token, ours bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenSaveBound)
	defer cancel()
	sealed, err := t.seal(made)
	if err == nil {
		ours, err = t.gateway.store.KeepToken(ctx, lease, sealed)
	}
	if err == nil && !ours {
		sealed, err = t.gateway.store.CarrierToken(ctx, t.id)
		kept = t.open(sealed)
	}
	if err != nil {
		t.gateway.log.Error("gateway: a login could not be kept for the other nodes", "account_id", int64(t.id), "error", err)
	}
	return kept, ours
}

func (t *tokenStore) giveBack(ctx context.Context, lease store.TokenLease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenSaveBound)
	defer cancel()
	if err := t.gateway.store.GiveTokenLease(ctx, lease); err != nil {
		t.gateway.log.Error("gateway: the right to log in could not be given back; it runs out by itself", "account_id", int64(t.id), "error", err)
	}
}

func (t *tokenStore) row() string { return strconv.FormatInt(int64(t.id), 10) }

func (t *tokenStore) seal(made carrier.Token) ([]byte, error) {
	plain, err := json.Marshal(keptToken{Scope: t.scope, Value: made.Value, EndsAt: made.EndsAt.UTC()})
	if err != nil {
		return nil, errors.New("token: not to be put into JSON") // json's words may quote it
	}
	return t.gateway.opts.Keyring.Seal(tokenTable, t.row(), plain)
}

// open gives the token of sealed bytes; the zero one where there is none, it is not of these
// credentials, or its key is gone: a login makes another.
func (t *tokenStore) open(sealed []byte) carrier.Token {
	if len(sealed) == 0 {
		return carrier.Token{}
	}
	plain, err := t.gateway.opts.Keyring.Open(tokenTable, t.row(), sealed)
	if err != nil {
		t.gateway.log.Warn("gateway: a kept login cannot be opened; another is made", "account_id", int64(t.id), "error", err)
		return carrier.Token{}
	}
	var kept keptToken
	if json.Unmarshal(plain, &kept) != nil || kept.Scope != t.scope {
		return carrier.Token{}
	}
	return carrier.Token{Value: kept.Value, EndsAt: kept.EndsAt}
}
