package store_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store"
)

func TestF34OneHolderOfALoginAtATime(t *testing.T) {
	s, pool := open(t)
	var a store.Account
	inTx(t, s, func(ctx context.Context, tx *store.Tx) (err error) {
		a, err = tx.AddAccount(ctx, store.Account{Name: "a", Driver: "onelink"})
		return err
	})
	ctx := t.Context()
	if sealed, err := s.CarrierToken(ctx, a.ID); err != nil || sealed != nil {
		t.Fatalf("before the first login: %x, %v", sealed, err)
	}

	var took atomic.Int32
	var lease store.TokenLease
	var wait sync.WaitGroup
	for _, holder := range []string{"n1/a", "n1/b", "n2/a", "n2/b", "n3/a", "n3/b"} {
		wait.Go(func() {
			l, ok, err := s.TakeTokenLease(ctx, a.ID, holder, time.Minute)
			if err != nil {
				t.Error(err)
			}
			if ok {
				took.Add(1)
				lease = l
			}
		})
	}
	wait.Wait()
	if took.Load() != 1 || lease.Epoch != 1 || lease.Sealed != nil {
		t.Fatalf("%d of six hold the login at once, %+v", took.Load(), lease)
	}

	if ours, err := s.KeepToken(ctx, lease, []byte("first")); err != nil || !ours {
		t.Fatalf("the holder cannot keep its token: %v, %v", ours, err)
	}
	if sealed, err := s.CarrierToken(ctx, a.ID); err != nil || string(sealed) != "first" {
		t.Errorf("kept is %q, %v", sealed, err)
	}

	stopped, ok, err := s.TakeTokenLease(ctx, a.ID, "n1/c", time.Minute)
	if err != nil || !ok || string(stopped.Sealed) != "first" || stopped.Epoch != 2 {
		t.Fatalf("after the first was given back: %+v, %v, %v", stopped, ok, err)
	}
	if _, err := pool.Exec(ctx, `UPDATE carrier_token SET lease_until = app_now() - interval '1 second'`); err != nil {
		t.Fatal(err)
	}
	next, ok, err := s.TakeTokenLease(ctx, a.ID, "n2/c", time.Minute)
	if err != nil || !ok {
		t.Fatalf("a lease that has run out is not taken: %v, %v", ok, err)
	}
	if ours, err := s.KeepToken(ctx, stopped, []byte("late")); err != nil || ours {
		t.Errorf("F3: one whose lease ran out wrote over its successor: %v, %v", ours, err)
	}
	if err := s.GiveTokenLease(ctx, stopped); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.TakeTokenLease(ctx, a.ID, "n3/c", time.Minute); err != nil || ok {
		t.Errorf("one whose lease ran out gave its successor's back: %v, %v", ok, err)
	}
	if err := s.GiveTokenLease(ctx, next); err != nil {
		t.Fatal(err)
	}
	last, ok, err := s.TakeTokenLease(ctx, a.ID, "n3/d", time.Minute)
	if err != nil || !ok || string(last.Sealed) != "first" {
		t.Errorf("after it was given back: %+v, %v, %v", last, ok, err)
	}
}
