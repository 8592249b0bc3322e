package plans_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// moneyWorld is a database with one acting account, wallets in EUR and a sweeper; time stands still
// until it is moved.
type moneyWorld struct {
	t       *testing.T
	store   *store.Store
	pool    *pgxpool.Pool
	clock   *clock.Manual
	account store.Account
	sweeper *plans.Sweeper
	n       int
}

const day = 24 * time.Hour

// restless stands still, but who pauses before he tries again does so for real: transactions that
// wait for each other in a ring are tried again after a pause.
type restless struct{ *clock.Manual }

func (restless) Sleep(ctx context.Context, d time.Duration) error {
	return clock.System().Sleep(ctx, d)
}

func newMoneyWorld(t *testing.T) *moneyWorld {
	t.Helper()
	w := &moneyWorld{t: t, clock: clock.NewManual(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))}
	url := storetest.URL(t, store.Migrate)
	var err error
	if w.store, err = store.Open(t.Context(), store.Options{URL: url, Clock: restless{w.clock}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.pool, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	w.sweeper = &plans.Sweeper{Store: w.store, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	w.must(func(ctx context.Context, tx *store.Tx) error {
		if w.account, err = tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "soracom"}); err != nil {
			return err
		}
		return tx.SetAccountMode(ctx, w.account.ID, simwarden.ModeAct)
	})
	return w
}

func (w *moneyWorld) tx(fn func(context.Context, *store.Tx) error) error {
	return w.store.InTx(w.t.Context(), func(tx *store.Tx) error { return fn(w.t.Context(), tx) })
}

func (w *moneyWorld) must(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	if err := w.tx(fn); err != nil {
		w.t.Fatal(err)
	}
}

// wallet adds one with money in it.
func (w *moneyWorld) wallet(balance int64) simwarden.WalletID {
	w.t.Helper()
	w.n++
	var added store.Wallet
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		added, err = ledger.AddWallet(ctx, tx, fmt.Sprintf("wallet %d", w.n), simwarden.Money{Currency: "EUR"})
		return err
	})
	if balance > 0 {
		w.topUp(added.ID, balance)
	}
	return added.ID
}

func (w *moneyWorld) topUp(id simwarden.WalletID, amount int64) {
	w.t.Helper()
	w.must(func(ctx context.Context, tx *store.Tx) error {
		_, err := ledger.TopUp(ctx, tx, id, simwarden.Money{AmountMinor: amount, Currency: "EUR"}, ledger.By{Actor: "cli:anna"})
		return err
	})
}

// sim adds an active SIM that the wallet pays for; 0 for none.
func (w *moneyWorld) sim(wallet simwarden.WalletID) store.Asset {
	w.t.Helper()
	w.n++
	var asset store.Asset
	w.must(func(ctx context.Context, tx *store.Tx) error {
		iccid := simwarden.MustParseICCID(fmt.Sprintf("898600000000%07d", w.n))
		ids, err := tx.AddSIMs(ctx, w.account, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		if err != nil {
			return err
		}
		asset.SIMID = ids[0]
		if _, err := tx.Exec(ctx, `UPDATE poll_state SET state = 'active', state_read_at = $2 WHERE sim_id = $1`, ids[0], tx.At); err != nil {
			return err
		}
		return ledger.Assign(ctx, tx, asset, wallet, "test")
	})
	return asset
}

// plan adds one of 30 days that costs so many cents.
func (w *moneyWorld) plan(price int64) simwarden.Plan {
	w.t.Helper()
	w.n++
	p := simwarden.Plan{Code: fmt.Sprintf("plan %d", w.n), Kind: simwarden.PlanMain, AllowanceBytes: 1 << 30, ValidityUnit: simwarden.ValidityDays,
		ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC", PriceMinor: price, Currency: "EUR"}
	if price == 0 {
		p.Currency = ""
	}
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	return p
}

// addon adds an add-on of 30 days that costs so many cents.
func (w *moneyWorld) addon(price int64) (p simwarden.Plan) {
	w.t.Helper()
	w.n++
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, simwarden.Plan{Code: fmt.Sprintf("plan %d", w.n), Kind: simwarden.PlanAddon, AllowanceBytes: 1 << 30, ValidityUnit: simwarden.ValidityDays,
			ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC", PriceMinor: price, Currency: "EUR"})
		return err
	})
	return p
}

func (w *moneyWorld) subscribe(o plans.Order) (b simwarden.Subscription, err error) {
	err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, o)
		return err
	})
	return b, err
}

// renewing buys a plan that renews itself.
func (w *moneyWorld) renewing(a store.Asset, p simwarden.Plan) simwarden.Subscription {
	w.t.Helper()
	b, err := w.subscribe(plans.Order{Asset: a, Plan: p, By: "test", Pay: true, Renew: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return b
}

// sweep works off what is due now.
func (w *moneyWorld) sweep() {
	w.t.Helper()
	for range 50 {
		n, err := w.sweeper.Sweep(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
	w.t.Fatal("sweeps go on for ever")
}

func (w *moneyWorld) count(sql string, args ...any) (n int64) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatal(err)
	}
	return n
}

func (w *moneyWorld) balance(id simwarden.WalletID) int64 {
	w.t.Helper()
	return w.count(`SELECT balance_minor FROM ledger_account WHERE kind = 'wallet' AND wallet_id = $1`, id)
}

func (w *moneyWorld) state(id simwarden.SubscriptionID) (s simwarden.SubscriptionState) {
	w.t.Helper()
	w.must(func(ctx context.Context, tx *store.Tx) error {
		b, err := tx.SubscriptionByID(ctx, id)
		s = b.State
		return err
	})
	return s
}

// history gives the asset's subscriptions, oldest first.
func (w *moneyWorld) history(a store.Asset) []simwarden.Subscription {
	w.t.Helper()
	list, err := w.store.SubscriptionsOf(w.t.Context(), a.SIMID, 100)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, j := 0, len(list)-1; i < j; i, j = i+1, j-1 {
		list[i], list[j] = list[j], list[i]
	}
	return list
}

func (w *moneyWorld) commands(a store.Asset) []store.Command {
	w.t.Helper()
	list, err := w.store.Commands(w.t.Context(), store.CommandFilter{SIMID: a.SIMID, Limit: 50})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}
