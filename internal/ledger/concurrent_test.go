package ledger_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
)

const workers = 8

// together runs fn in as many goroutines as there are workers, and waits for all.
func together(fn func(worker int)) {
	var all sync.WaitGroup
	start := make(chan struct{})
	for i := range workers {
		all.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	all.Wait()
}

func TestF52EightWorkersOnOneWallet(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 400)
	plan := w.plan(300, "EUR")
	var sims []store.Asset
	for range workers {
		sims = append(sims, w.sim(wallet))
	}
	var balance, refused atomic.Int64
	var mu sync.Mutex
	var bought []simwarden.SubscriptionID
	together(func(worker int) {
		random := rand.New(rand.NewPCG(52, uint64(worker)))
		for range 40 {
			var err error
			switch random.IntN(5) {
			case 0:
				var tr ledger.Transaction
				if tr, err = w.topUp(wallet, 1+random.Int64N(300), "EUR", anna); err == nil {
					balance.Add(tr.AmountMinor)
				}
			case 1, 2:
				var id simwarden.SubscriptionID
				if id, _, err = w.buy(sims[worker], plan, anna); err == nil {
					balance.Add(-300)
					mu.Lock()
					bought = append(bought, id)
					mu.Unlock()
				}
			case 3:
				mu.Lock()
				var id simwarden.SubscriptionID
				if len(bought) > 0 {
					id = bought[random.IntN(len(bought))]
				}
				mu.Unlock()
				if id == 0 {
					continue
				}
				var tr ledger.Transaction
				if tr, err = w.refund(id, 120, anna); err == nil {
					balance.Add(tr.AmountMinor)
				}
			case 4:
				err = w.tx(func(ctx context.Context, tx *store.Tx) error {
					h, err := ledger.PlaceHold(ctx, tx, wallet, simwarden.Money{AmountMinor: 100, Currency: "EUR"}, tx.At.Add(time.Hour), anna)
					if err != nil {
						return err
					}
					_, err = ledger.Release(ctx, tx, h.ID, anna)
					return err
				})
			}
			switch {
			case errors.Is(err, ledger.ErrInsufficientFunds), errors.Is(err, ledger.ErrAbovePurchase):
				refused.Add(1)
			case err != nil:
				t.Errorf("worker %d: %v", worker, err)
			}
		}
	})
	if refused.Load() == 0 {
		t.Error("nothing was refused: the wallet was never at its limit, and the test shows nothing")
	}
	if got := w.balance(wallet); got.BalanceMinor != balance.Load() || got.HeldMinor != 0 {
		t.Errorf("the wallet has %d and %d held; what was answered sums to %d", got.BalanceMinor, got.HeldMinor, balance.Load())
	}
	w.checkV15()
}

func TestF51OneEffectUnderConcurrency(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 0)
	sim, plan := w.sim(wallet), w.plan(100, "EUR")
	var others []simwarden.WalletID
	for range workers {
		others = append(others, w.wallet("EUR", 0))
	}
	for round := range 10 {
		ids := make([]simwarden.LedgerTransactionID, workers)
		check := func(what string) {
			t.Helper()
			for _, id := range ids {
				if id == 0 || id != ids[0] {
					t.Fatalf("%s at once under one key gives the transactions %v, want one", what, ids)
				}
			}
		}
		together(func(i int) {
			tr, err := w.topUp(wallet, 100, "EUR", key(fmt.Sprintf("top up %d", round)))
			if err != nil {
				t.Error(err)
			}
			ids[i] = tr.ID
		})
		check("the same top-up")
		together(func(i int) {
			_, tr, err := w.buy(sim, plan, key(fmt.Sprintf("buy %d", round)))
			if err != nil {
				t.Error(err)
			}
			ids[i] = tr.ID
		})
		check("the same purchase")
		var done, reused atomic.Int32
		together(func(i int) {
			switch _, err := w.topUp(others[i], 1, "EUR", key(fmt.Sprintf("other %d", round))); {
			case err == nil:
				done.Add(1)
			case errors.Is(err, ledger.ErrKeyReused):
				reused.Add(1)
			default:
				t.Error(err)
			}
		})
		if done.Load() != 1 || reused.Load() != workers-1 {
			t.Errorf("eight other bodies under one key: %d done and %d refused, want 1 and %d", done.Load(), reused.Load(), workers-1)
		}
	}
	if got := w.balance(wallet); got.BalanceMinor != 0 {
		t.Errorf("the balance is %d, want 0: ten top-ups and ten purchases of 100", got.BalanceMinor)
	}
	w.checkV15()
}

func TestF51TheKeyIsStoredWithItsEffect(t *testing.T) {
	w := newWorld(t)
	wallet := w.wallet("EUR", 0)
	crash := errors.New("the process dies before it commits")
	err := w.tx(func(ctx context.Context, tx *store.Tx) error {
		if _, err := ledger.TopUp(ctx, tx, wallet, simwarden.Money{AmountMinor: 100, Currency: "EUR"}, key("k")); err != nil {
			return err
		}
		return crash
	})
	if !errors.Is(err, crash) {
		t.Fatal(err)
	}
	if tr, err := w.topUp(wallet, 100, "EUR", key("k")); err != nil || tr.Replayed {
		t.Errorf("after the crash the request gives %+v and %v, want its first effect", tr, err)
	}
	if got := w.balance(wallet); got.BalanceMinor != 100 {
		t.Errorf("the balance is %d, want 100", got.BalanceMinor)
	}
}
