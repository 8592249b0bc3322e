package faults_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/lab"
)

// world is what the nodes of one schedule run on: everything of it lives in one bubble.
type world struct {
	t        *testing.T
	ctx      context.Context // outlives the test's own, for the check at its end
	database *database
	random   *rand.Rand // of setting up and of people; used by one goroutine at a time
	store    *store.Store
	ring     *secret.Keyring
	lab      *lab.World
	log      storetest.Log // the carriers', as it was written
	network  *pipes
	server   *http.Server

	databaseClock *databaseClock
	accounts      []store.Account
	sims          []card
	plans         map[time.Duration]simwarden.Plan
	addon, paid   simwarden.Plan
	wallet        simwarden.WalletID

	nodes   []*node
	started int
	trace   trace

	mu     sync.Mutex
	armed  *arming
	killed []time.Time // when another node starts in the place of one that was killed
	lost   []time.Time // when nodes were killed with counts that they had in memory (V8)
	paused map[*node]time.Time
}

// card is one SIM, here and at the carrier.
type card struct {
	id      simwarden.SIMID
	iccid   string
	device  simwarden.DeviceID // 0: none
	carrier *lab.Account
}

// trace is what happened, in order, for whoever looks at a failure: steps of the schedule, and what
// the nodes say.
type trace struct {
	mu   sync.Mutex
	text []string
}

const maxTrace = 2000

func (r *trace) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.text) < maxTrace {
		r.text = append(r.text, time.Now().UTC().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	}
}

func (r *trace) Write(p []byte) (int, error) {
	r.note("%s", bytes.TrimSpace(p))
	return len(p), nil
}

func (r *trace) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return strings.Join(r.text, "\n")
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) failf(format string, args ...any) {
	w.t.Helper()
	w.trace.note(format, args...)
	w.t.Errorf(format, args...)
}

func (w *world) tx(fn func(context.Context, *store.Tx) error) error {
	return w.store.InTx(w.ctx, func(tx *store.Tx) error { return fn(w.ctx, tx) })
}

func (w *world) count(sql string, args ...any) int {
	w.t.Helper()
	w.databaseClock.mu.Lock()
	defer w.databaseClock.mu.Unlock()
	var n int
	w.must(w.databaseClock.conn.QueryRow(w.ctx, sql, args...).Scan(&n))
	return n
}

func (w *world) sleep(d time.Duration) { w.must(clock.System().Sleep(w.ctx, d)) }

// drivers are those that a schedule's two accounts are with.
var drivers = []string{"soracom", "supersim"}

// newWorld makes carriers, accounts, SIMs and plans; no node runs yet.
func newWorld(t *testing.T, p plan, b *database, ring *secret.Keyring) *world {
	w := &world{t: t, ctx: context.WithoutCancel(t.Context()), database: b, ring: ring, random: rand.New(rand.NewPCG(p.Seed, 3)),
		network: newPipes(), paused: map[*node]time.Time{}, plans: map[time.Duration]simwarden.Plan{}}
	// A bubble begins at midnight, New Year 2000: be elsewhere in the year, and nowhere in particular in
	// the hour, but not in any month: partitions that others have made need not be made again.
	w.sleep(between(w.random, 24*time.Hour, 95*24*time.Hour))
	var err error
	w.databaseClock, err = newDatabaseClock(w.ctx, b)
	w.must(err)
	w.store, err = store.Open(w.ctx, store.Options{URL: b.url, Conns: 2, WorkConns: 1, Dial: w.databaseClock.Dial})
	w.must(err)
	_, err = w.store.EnsurePartitions(w.ctx, w.store.Now())
	w.must(err)
	w.lab = lab.New(lab.Config{Seed: p.Seed, Log: &w.log, KeepLines: -1})
	w.server = &http.Server{Handler: w.lab.Handler(), ConnContext: w.lab.ConnContext, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute}
	go func() { _ = w.server.Serve(w.network) }() // its error is that it was closed
	for i, driver := range drivers {
		w.addAccount(fmt.Sprintf("carrier-%d", i+1), driver)
	}
	for _, length := range []time.Duration{moment, time.Minute, 2 * time.Minute, 5 * time.Minute, time.Hour} {
		w.plans[length] = w.addPlan(simwarden.PlanMain, length)
	}
	w.addon = w.addPlan(simwarden.PlanAddon, time.Hour)
	w.furnish()
	for _, c := range w.sims {
		switch w.random.IntN(4) {
		case 0: // without a plan
		case 1:
			w.must(w.buy(c, time.Hour, 0))
		default:
			length := []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute}[w.random.IntN(3)]
			w.must(w.buy(c, length, between(w.random, 0, length/2)))
			if w.random.IntN(3) == 0 {
				w.must(w.buy(c, 2*time.Minute, 0))
			}
		}
	}
	return w
}

func (w *world) addAccount(name, driver string) {
	w.t.Helper()
	at, err := w.lab.AddAccount(lab.AccountSpec{Name: name, Dialect: driver})
	w.must(err)
	n := 5 + w.random.IntN(11)
	sims := make([]store.NewSIM, n)
	cards := make([]card, n)
	for i := range sims {
		state := simwarden.StateActive
		if w.random.IntN(3) == 0 {
			state = simwarden.StateSuspended
		}
		truth, err := at.AddSIM(lab.NewSIM{State: state, Age: time.Hour})
		w.must(err)
		iccid, err := simwarden.ParseICCID(truth.ICCID)
		w.must(err)
		sims[i] = store.NewSIM{ICCID: iccid, Raw: truth.ICCID}
		cards[i] = card{iccid: truth.ICCID, carrier: at}
	}
	w.must(w.tx(func(ctx context.Context, tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: name, Driver: driver, BaseURL: at.BaseURL("http://127.0.0.1:1"),
			StateEvery: 30 * time.Second, UsageEvery: 30 * time.Second})
		if err != nil {
			return err
		}
		text, err := json.Marshal(at.Credentials())
		if err != nil {
			return err
		}
		sealed, err := w.ring.Seal("account", strconv.FormatInt(int64(a.ID), 10), text)
		if err != nil {
			return err
		}
		if err := tx.SetCredential(ctx, a.ID, sealed); err != nil {
			return err
		}
		if err := tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct); err != nil {
			return err
		}
		if err := tx.SetLimitRate(ctx, a.LimitGroupID, "", 1+w.random.IntN(6)); err != nil {
			return err
		}
		if err := tx.SetGroupMode(ctx, a.LimitGroupID, simwarden.GroupEnforce); err != nil {
			return err
		}
		ids, err := tx.AddSIMs(ctx, a, sims, 0)
		if err != nil {
			return err
		}
		for i := range ids {
			cards[i].id = ids[i]
		}
		w.accounts = append(w.accounts, a)
		return nil
	}))
	w.sims = append(w.sims, cards...)
}

const allowanceBytes = 10_000_000

// moment is the length of a plan that is over before long.
const moment = 6 * time.Second

func (w *world) addPlan(kind simwarden.PlanKind, lasts time.Duration) (p simwarden.Plan) {
	w.t.Helper()
	w.must(w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, simwarden.Plan{Code: fmt.Sprintf("%s-%s", kind, lasts), Name: "test", Kind: kind, AllowanceBytes: allowanceBytes,
			ValidityUnit: simwarden.ValiditySeconds, ValidityCount: int(lasts / time.Second), Reset: simwarden.ResetNone, Zone: "UTC"})
		return err
	}))
	return p
}

// buy buys a main plan that began some time ago.
func (w *world) buy(c card, lasts, ago time.Duration) error {
	return w.tx(func(ctx context.Context, tx *store.Tx) error {
		o := plans.Order{Asset: c.asset(), Plan: w.plans[lasts], By: "test"}
		if ago > 0 {
			o.StartAt = tx.At.Add(-ago)
		}
		_, err := plans.Subscribe(ctx, tx, o)
		return err
	})
}

// close ends the bubble's goroutines: a bubble must be empty at its end.
func (w *world) close() {
	for _, n := range w.nodes {
		n.stop()
		if err := <-n.ended; err != nil {
			w.trace.note("%s ended with %v", n.name, err)
		}
		n.store.Close()
		byLabel.Delete(n.label)
	}
	w.lab.Close()
	if err := w.server.Close(); err != nil {
		w.t.Error(err)
	}
	w.store.Close()
	w.must(w.databaseClock.conn.Close(w.ctx))
	w.sleep(time.Hour) // whatever waits for a while goes when the while is over
}
