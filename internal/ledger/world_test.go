package ledger_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/ledger"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// restless stands still, but who pauses before he tries again does so for real.
type restless struct{ *clock.Manual }

func (restless) Sleep(ctx context.Context, d time.Duration) error {
	return clock.System().Sleep(ctx, d)
}

// world is a database with one carrier account; time stands still until it is moved.
type world struct {
	t       testing.TB
	store   *store.Store
	pool    *pgxpool.Pool // to look into the book, and to tamper with it
	clock   *clock.Manual
	account store.Account
	n       int
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, clock: clock.NewManual(noon)}
	url := storetest.URL(t, store.Migrate)
	var err error
	if w.store, err = store.Open(t.Context(), store.Options{URL: url, Clock: restless{w.clock}, Conns: 10}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.store.Close)
	if w.pool, err = pgxpool.New(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.pool.Close)
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		w.account, err = tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "soracom", Zone: "Asia/Shanghai"})
		return err
	})
	return w
}

func (w *world) tx(fn func(context.Context, *store.Tx) error) error {
	return w.store.InTx(w.t.Context(), func(tx *store.Tx) error { return fn(w.t.Context(), tx) })
}

func (w *world) must(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	if err := w.tx(fn); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) wallet(currency string, limit int64) simwarden.WalletID {
	w.t.Helper()
	w.n++
	var wallet store.Wallet
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		wallet, err = ledger.AddWallet(ctx, tx, fmt.Sprintf("wallet %d", w.n), simwarden.Money{AmountMinor: limit, Currency: currency})
		return err
	})
	return wallet.ID
}

// sim adds a SIM that the wallet pays for; 0 for none.
func (w *world) sim(wallet simwarden.WalletID) store.Asset {
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
		return ledger.Assign(ctx, tx, asset, wallet, "test")
	})
	return asset
}

func (w *world) plan(price int64, currency string) simwarden.Plan {
	w.t.Helper()
	w.n++
	p := simwarden.Plan{Code: fmt.Sprintf("plan %d", w.n), Kind: simwarden.PlanMain, AllowanceBytes: 1000, ValidityUnit: simwarden.ValidityDays,
		ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC", PriceMinor: price, Currency: currency}
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	return p
}

// subscription writes one that begins now, as plans does before it pays.
func (w *world) subscription(ctx context.Context, tx *store.Tx, a store.Asset, p simwarden.Plan) (simwarden.SubscriptionID, error) {
	return tx.AddSubscription(ctx, simwarden.Subscription{SIMID: a.SIMID, DeviceID: a.DeviceID, PlanID: p.ID, Kind: p.Kind, State: simwarden.SubscriptionActive,
		StartAt: tx.At, EndAt: tx.At.Add(30 * 24 * time.Hour), AllowanceBytes: p.AllowanceBytes}, "test", "")
}

// buy writes and pays a subscription in one transaction.
func (w *world) buy(a store.Asset, p simwarden.Plan, by ledger.By) (id simwarden.SubscriptionID, t ledger.Transaction, err error) {
	err = w.tx(func(ctx context.Context, tx *store.Tx) error {
		request, err := ledger.FingerprintOf("buy", a, p.ID)
		if err != nil {
			return err
		}
		if id, err = w.subscription(ctx, tx, a, p); err != nil {
			return err
		}
		t, err = ledger.Purchase(ctx, tx, ledger.PurchaseOrder{SubscriptionID: id, Asset: a, Plan: p, Request: request}, by)
		return err
	})
	return id, t, err
}

func (w *world) topUp(id simwarden.WalletID, amount int64, currency string, by ledger.By) (t ledger.Transaction, err error) {
	err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		t, err = ledger.TopUp(ctx, tx, id, simwarden.Money{AmountMinor: amount, Currency: currency}, by)
		return err
	})
	return t, err
}

func (w *world) refund(id simwarden.SubscriptionID, amount int64, by ledger.By) (t ledger.Transaction, err error) {
	err = w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		t, err = ledger.Refund(ctx, tx, id, amount, by)
		return err
	})
	return t, err
}

func (w *world) balance(id simwarden.WalletID) (b ledger.Balance) {
	w.t.Helper()
	w.must(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = ledger.BalanceOf(ctx, tx, id)
		return err
	})
	return b
}

var anna = ledger.By{Actor: "cli:anna"}

func key(k string) ledger.By { return ledger.By{Actor: "cli:anna", Key: k} }

// v15 gives what the whole book breaks of V15, by SQL that knows nothing of the code.
func (w *world) v15() []string {
	w.t.Helper()
	var broken []string
	for name, sql := range map[string]string{
		"entries of a transaction sum to zero per currency":   `SELECT transaction_id FROM ledger_entry GROUP BY transaction_id, currency HAVING sum(amount_minor) <> 0`,
		"all entries sum to zero per currency":                `SELECT 1 FROM ledger_entry GROUP BY currency HAVING sum(amount_minor) <> 0`,
		"a transaction with money has entries":                `SELECT id FROM ledger_transaction t WHERE (amount_minor > 0) <> EXISTS (SELECT FROM ledger_entry WHERE transaction_id = t.id)`,
		"no balance is below its floor":                       `SELECT id FROM ledger_entry WHERE balance_after_minor < floor_minor`,
		"the kept balance is the sum of the entries":          `SELECT a.id FROM ledger_account a LEFT JOIN ledger_entry e ON e.ledger_account_id = a.id WHERE a.wallet_id IS NOT NULL GROUP BY a.id HAVING a.balance_minor <> coalesce(sum(e.amount_minor), 0)`,
		"the balance at each prefix is the sum up to it":      `SELECT id FROM (SELECT id, balance_after_minor, sum(amount_minor) OVER (PARTITION BY ledger_account_id ORDER BY id) AS s FROM ledger_entry) x WHERE balance_after_minor <> s`,
		"one transaction per idempotency key":                 `SELECT 1 FROM ledger_transaction WHERE idempotency_key IS NOT NULL GROUP BY principal, idempotency_key HAVING count(*) > 1`,
		"refunds of a purchase are not above it":              `SELECT p.id FROM ledger_transaction p JOIN ledger_transaction r ON r.purchase_id = p.id GROUP BY p.id HAVING sum(r.amount_minor) > p.amount_minor`,
		"what is held is what open holds hold":                `SELECT a.id FROM ledger_account a LEFT JOIN ledger_hold h ON h.wallet_id = a.wallet_id AND h.state = 'open' WHERE a.kind = 'held' GROUP BY a.id HAVING a.balance_minor <> coalesce(sum(h.amount_minor), 0)`,
		"a captured hold has paid what it says":               `SELECT h.id FROM ledger_hold h LEFT JOIN ledger_transaction t ON t.hold_id = h.id AND t.kind = 'capture' GROUP BY h.id HAVING h.captured_minor <> coalesce(sum(t.amount_minor), 0)`,
		"every entry is in its account's and wallet's money":  `SELECT e.id FROM ledger_entry e JOIN ledger_account a ON a.id = e.ledger_account_id LEFT JOIN wallet w ON w.id = a.wallet_id WHERE e.currency <> a.currency OR w.currency <> e.currency`,
		"a transaction's entries are on its own wallet alone": `SELECT e.id FROM ledger_entry e JOIN ledger_account a ON a.id = e.ledger_account_id JOIN ledger_transaction t ON t.id = e.transaction_id WHERE a.wallet_id <> t.wallet_id`,
	} {
		var n int
		if err := w.pool.QueryRow(w.t.Context(), `SELECT count(*) FROM (`+sql+`) q`).Scan(&n); err != nil {
			w.t.Fatalf("%s: %v", name, err)
		}
		if n > 0 {
			broken = append(broken, fmt.Sprintf("%s: broken %d times", name, n))
		}
	}
	return broken
}

func (w *world) checkV15() {
	w.t.Helper()
	for _, b := range w.v15() {
		w.t.Errorf("V15: %s", b)
	}
}
