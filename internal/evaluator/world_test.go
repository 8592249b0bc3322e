package evaluator_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// world is a database with one account and what moves subscriptions and judges; time stands still
// until it is moved.
type world struct {
	t       *testing.T
	url     string
	store   *store.Store
	clock   *clock.Manual
	account store.Account
	sweeper *plans.Sweeper
	eval    *evaluator.Evaluator
	n       int
}

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, mode simwarden.AccountMode) *world {
	t.Helper()
	c := clock.NewManual(noon)
	url := storetest.URL(t, store.Migrate)
	s, err := store.Open(t.Context(), store.Options{URL: url, Clock: c})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	w := &world{t: t, url: url, store: s, clock: c}
	w.sweeper = &plans.Sweeper{Store: s, Clock: c, Log: slog.New(slog.DiscardHandler)}
	w.eval = &evaluator.Evaluator{Store: s, Clock: c, Log: slog.New(slog.DiscardHandler), Holder: "test"}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		if w.account, err = tx.AddAccount(ctx, store.Account{Name: "acme", Driver: "soracom"}); err != nil {
			return err
		}
		return tx.SetAccountMode(ctx, w.account.ID, mode)
	})
	return w
}

func (w *world) tx(fn func(context.Context, *store.Tx) error) {
	w.t.Helper()
	if err := w.store.InTx(w.t.Context(), func(tx *store.Tx) error { return fn(w.t.Context(), tx) }); err != nil {
		w.t.Fatal(err)
	}
}

// sim adds a SIM that has been read in the state.
func (w *world) sim(state simwarden.State) simwarden.SIMID {
	w.t.Helper()
	w.n++
	var id simwarden.SIMID
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		iccid, err := simwarden.ParseICCID(fmt.Sprintf("898600000000%07d", w.n))
		if err != nil {
			return err
		}
		ids, err := tx.AddSIMs(ctx, w.account, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		if err != nil {
			return err
		}
		id = ids[0]
		return nil
	})
	w.observe(id, state)
	return id
}

func (w *world) observe(id simwarden.SIMID, state simwarden.State) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Observe(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{
			ReadAt: w.clock.Now(), State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone, Raw: string(state)}}}})
		return err
	})
}

func (w *world) plan(code string, kind simwarden.PlanKind, allowance int64, days int) simwarden.Plan {
	w.t.Helper()
	p := simwarden.Plan{Code: code, Name: code, Kind: kind, AllowanceBytes: allowance, ValidityUnit: simwarden.ValidityDays, ValidityCount: days, Reset: simwarden.ResetNone, Zone: "UTC"}
	if err := plans.Check(p); err != nil {
		w.t.Fatal(err)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	return p
}

func (w *world) subscribe(id simwarden.SIMID, p simwarden.Plan) simwarden.Subscription {
	w.t.Helper()
	var b simwarden.Subscription
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: p, By: "test"})
		return err
	})
	return b
}

// settle works everything off that is due now.
func (w *world) settle() {
	w.t.Helper()
	for range 100 {
		a, err := w.sweeper.Sweep(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		b, err := w.eval.Step(w.t.Context())
		if err != nil {
			w.t.Fatal(err)
		}
		if a+b == 0 {
			return
		}
	}
	w.t.Fatal("evaluations go on for ever")
}

func (w *world) commands(id simwarden.SIMID) []store.Command {
	w.t.Helper()
	list, err := w.store.Commands(w.t.Context(), store.CommandFilter{SIMID: id, Limit: 50})
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}
