package plans_test

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// isAllowed says that an order may well come to that among others of the same SIMs and wallet.
func isAllowed(err error) bool {
	return errors.Is(err, ledger.ErrInsufficientFunds) || errors.Is(err, plans.ErrEndedAlready)
}

// F52: top-ups, purchases, refunds and ends of one wallet's SIMs at once, two sweepers among them.
func TestF52EndsPurchasesAndRefundsOfOneWallet(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(16_000)
	plan := w.plan(1000)
	var sims []store.Asset
	for range 16 {
		s := w.sim(wallet)
		sims = append(sims, s)
		w.renewing(s, plan)
	}
	w.clock.Advance(30 * day)
	check := func(err error) {
		if err != nil && !isAllowed(err) {
			t.Error(err)
		}
	}
	worker := func(i int) {
		random := rand.New(rand.NewPCG(52, uint64(i)))
		sweeper := &plans.Sweeper{Store: w.store, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
		for range 15 {
			sim := sims[random.IntN(len(sims))]
			switch {
			case i < 2:
				_, err := sweeper.Sweep(t.Context())
				check(err)
			case i < 4:
				check(w.tx(func(ctx context.Context, tx *store.Tx) error {
					_, err := ledger.TopUp(ctx, tx, wallet, simwarden.Money{AmountMinor: 700, Currency: "EUR"}, ledger.By{Actor: "test"})
					return err
				}))
			case i < 6:
				_, err := w.subscribe(plans.Order{Asset: sim, Plan: plan, By: "test", Pay: true})
				check(err)
			default:
				check(w.tx(func(ctx context.Context, tx *store.Tx) error {
					live, err := tx.LiveSubscriptions(ctx, sim)
					if err != nil || len(live) == 0 {
						return err
					}
					return plans.Refund(ctx, tx, live[0].ID, "test", "")
				}))
			}
		}
	}
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() { worker(i) })
	}
	all.Wait()
	w.sweep()
	for what, sql := range map[string]string{
		"balances below the limit (V15)":            `SELECT count(*) FROM ledger_entry WHERE balance_after_minor < floor_minor`,
		"transactions that do not balance (V15)":    `SELECT count(*) FROM (SELECT FROM ledger_entry GROUP BY transaction_id, currency HAVING sum(amount_minor) <> 0) q`,
		"refunds above the purchase (V15)":          `SELECT count(*) FROM (SELECT FROM ledger_transaction p JOIN ledger_transaction r ON r.purchase_id = p.id GROUP BY p.id HAVING sum(r.amount_minor) > p.amount_minor) q`,
		"subscriptions that are not paid":           `SELECT count(*) FROM subscription b WHERE NOT EXISTS (SELECT FROM ledger_transaction WHERE subscription_id = b.id AND kind = 'purchase')`,
		"refunded subscriptions without a refund":   `SELECT count(*) FROM subscription b WHERE state = 'refunded' AND NOT EXISTS (SELECT FROM ledger_transaction WHERE subscription_id = b.id AND kind = 'refund')`,
		"expired subscriptions with a refund":       `SELECT count(*) FROM subscription b WHERE state = 'expired' AND EXISTS (SELECT FROM ledger_transaction WHERE subscription_id = b.id AND kind = 'refund')`,
		"SIMs with two main plans in force (L4)":    `SELECT count(*) FROM (SELECT FROM subscription WHERE state IN ('active', 'exhausted') GROUP BY sim_id HAVING count(*) > 1) q`,
		"lapses renewed twice":                      `SELECT count(*) FROM (SELECT FROM event WHERE kind = 'renewed' GROUP BY data->>'renews' HAVING count(*) > 1) q`,
		"renewals that wait beside a plan in force": `SELECT count(*) FROM renewal_wait r JOIN subscription b ON b.sim_id = r.sim_id AND b.state = 'active' WHERE r.due_at IS NOT NULL`,
	} {
		if n := w.count(sql); n != 0 {
			t.Errorf("%d %s, want none", n, what)
		}
	}
	if n := w.count(`SELECT count(*) FROM event WHERE kind = 'renewed'`); n == 0 {
		t.Error("nothing was renewed: the test shows nothing")
	}
}

// What renewals cost a batch: assets without renewal ask the database nothing more.
func TestLapseWithoutRenewalLocksNoWallet(t *testing.T) {
	w := newMoneyWorld(t)
	wallet := w.wallet(1000)
	sim := w.sim(wallet)
	if _, err := w.subscribe(plans.Order{Asset: sim, Plan: w.plan(1000), By: "test", Pay: true}); err != nil {
		t.Fatal(err)
	}
	w.clock.Advance(30 * day)
	held := make(chan struct{})
	done := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	go func() {
		done <- w.store.InTx(ctx, func(tx *store.Tx) error {
			if _, err := tx.LockWallets(ctx, []simwarden.WalletID{wallet}); err != nil {
				return err
			}
			close(held)
			<-ctx.Done()
			return ctx.Err()
		})
	}()
	select {
	case <-held:
	case err := <-done:
		t.Fatal(err)
	}
	if n, err := w.sweeper.Sweep(ctx); err != nil || n != 1 {
		t.Errorf("while the wallet is locked the sweep handles %d ends (%v), want 1", n, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, ctx.Err()) {
		t.Errorf("the wallet's holder ends with %v, want %v", err, ctx.Err())
	}
}
