package gateway

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// BenchmarkDo is the gateway's own cost of a call that sends nothing: what a poll pays besides
// HTTP.
func BenchmarkDo(b *testing.B) {
	s, g, a := benchRig(b)
	defer s.Close()
	for b.Loop() {
		if err := g.Do(b.Context(), a.ID, poll, func(context.Context, carrier.Conn) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPermit is the cost of a permit under a limit that is not reached.
func BenchmarkPermit(b *testing.B) {
	for _, mode := range []simwarden.GroupMode{simwarden.GroupMonitor, simwarden.GroupEnforce} {
		b.Run(string(mode), func(b *testing.B) {
			s, g, a := benchRig(b)
			defer s.Close()
			if err := s.InTx(b.Context(), func(tx *store.Tx) error {
				if err := tx.SetLimitRate(b.Context(), a.LimitGroupID, "", store.MaxPerSecond); err != nil {
					return err
				}
				return tx.SetGroupMode(b.Context(), a.LimitGroupID, mode)
			}); err != nil {
				b.Fatal(err)
			}
			if err := g.Reload(b.Context()); err != nil {
				b.Fatal(err)
			}
			r := &running{account: g.known(a.ID), call: poll}
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if _, err := g.limiter.take(b.Context(), r, simwarden.OpQueryState, g.clock.Now().Add(time.Second)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

func benchRig(b *testing.B) (*store.Store, *Gateway, store.Account) {
	b.Helper()
	s, err := store.Open(b.Context(), store.Options{URL: storetest.URL(b, store.Migrate)})
	if err != nil {
		b.Fatal(err)
	}
	ring := testKeyring(b)
	g, err := New(Options{Store: s, Keyring: ring})
	if err != nil {
		b.Fatal(err)
	}
	var a store.Account
	err = s.InTx(b.Context(), func(tx *store.Tx) error {
		if a, err = tx.AddAccount(b.Context(), store.Account{Name: "bench", Driver: "gatewaytest"}); err != nil {
			return err
		}
		sealed, err := ring.Seal("account", "1", []byte(`{"password":"`+password+`"}`))
		if err != nil {
			return err
		}
		return tx.SetCredential(b.Context(), a.ID, sealed)
	})
	if err != nil {
		b.Fatal(err)
	}
	return s, g, a
}
