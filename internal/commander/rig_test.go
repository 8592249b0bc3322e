package commander_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden"
	_ "github.com/simwarden/simwarden/carrier/soracom"
	_ "github.com/simwarden/simwarden/carrier/supersim"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/commander"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
	"github.com/simwarden/simwarden/lab"
	_ "github.com/simwarden/simwarden/lab/soracom"
	_ "github.com/simwarden/simwarden/lab/supersim"
)

func TestMain(m *testing.M) { storetest.Main(m) }

var noon = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

// rig is a database, a carrier over real HTTP, the real gateway between them, and a commander that
// a test steps; time stands still until it is moved.
type rig struct {
	t       *testing.T
	clock   *clock.Manual
	store   *store.Store
	pool    *pgxpool.Pool // to look at rows that the store does not give
	world   *lab.World
	lab     *lab.Account
	gateway *gateway.Gateway
	m       *commander.Commander
	options commander.Options
	account store.Account
	sweeper *plans.Sweeper
	eval    *evaluator.Evaluator
	plan    simwarden.Plan
}

type rigOption func(*rigSpec)

type rigSpec struct {
	driver  string
	dialect string // empty: the driver's name
	delay   time.Duration
	options commander.Options
}

func superSIM(delay time.Duration) rigOption {
	return func(s *rigSpec) { s.driver, s.delay = "supersim", delay }
}

// impatient gives requests little real time, for carriers that never answer.
func impatient(s *rigSpec) { s.options.CommandTimeout = 400 * time.Millisecond }

func newRig(t *testing.T, with ...rigOption) *rig {
	t.Helper()
	spec := rigSpec{driver: "soracom"}
	for _, w := range with {
		w(&spec)
	}
	if spec.dialect == "" {
		spec.dialect = spec.driver
	}
	r := &rig{t: t, clock: clock.NewManual(noon)}
	url := storetest.URL(t, store.Migrate)
	var err error
	r.store, err = store.Open(t.Context(), store.Options{URL: url, Clock: r.clock})
	r.must(err)
	t.Cleanup(r.store.Close)
	r.pool, err = pgxpool.New(t.Context(), url)
	r.must(err)
	t.Cleanup(r.pool.Close)

	r.world = lab.New(lab.Config{Clock: r.clock, Seed: 7})
	t.Cleanup(r.world.Close)
	server, err := r.world.Serve(context.WithoutCancel(t.Context()), "")
	r.must(err)
	t.Cleanup(func() {
		r.world.Close()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	r.lab, err = r.world.AddAccount(lab.AccountSpec{Name: "acme", Dialect: spec.dialect, ChangeDelay: spec.delay})
	r.must(err)

	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "key"))
	r.must(err)
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		if r.account, err = tx.AddAccount(ctx, store.Account{Name: "acme", Driver: spec.driver, BaseURL: r.lab.BaseURL(server.URL)}); err != nil {
			return err
		}
		text, err := json.Marshal(r.lab.Credentials())
		if err != nil {
			return err
		}
		sealed, err := ring.Seal("account", strconv.FormatInt(int64(r.account.ID), 10), text)
		if err != nil {
			return err
		}
		if err := tx.SetCredential(ctx, r.account.ID, sealed); err != nil {
			return err
		}
		r.plan, err = tx.AddPlan(ctx, simwarden.Plan{Code: "day", Name: "day", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 1, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		return tx.SetAccountMode(ctx, r.account.ID, simwarden.ModeAct)
	})
	r.gateway, err = gateway.New(gateway.Options{Store: r.store, Clock: r.clock, Keyring: ring, AllowLoopback: true, Holder: "test"})
	r.must(err)
	r.must(r.store.SyncRules(t.Context()))
	r.must(r.gateway.Reload(t.Context()))
	r.sweeper = &plans.Sweeper{Store: r.store, Clock: r.clock, Log: slog.New(slog.DiscardHandler)}
	r.eval = &evaluator.Evaluator{Store: r.store, Clock: r.clock, Log: slog.New(slog.DiscardHandler), Holder: "test"}
	r.options = spec.options
	r.options.Store, r.options.Gateway, r.options.Clock, r.options.Holder = r.store, r.gateway, r.clock, "test"
	r.m, err = commander.New(r.options)
	r.must(err)
	return r
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) tx(fn func(context.Context, *store.Tx) error) {
	r.t.Helper()
	r.must(r.store.InTx(r.t.Context(), func(tx *store.Tx) error { return fn(r.t.Context(), tx) }))
}

// sim adds a SIM at the carrier and here, read in its state.
func (r *rig) sim(state simwarden.State) (simwarden.SIMID, string) {
	r.t.Helper()
	truth, err := r.lab.AddSIM(lab.NewSIM{State: state, Age: time.Hour})
	r.must(err)
	var id simwarden.SIMID
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		iccid, err := simwarden.ParseICCID(truth.ICCID)
		if err != nil {
			return err
		}
		ids, err := tx.AddSIMs(ctx, r.account, []store.NewSIM{{ICCID: iccid, Raw: iccid.String()}}, 0)
		if err != nil {
			return err
		}
		id = ids[0]
		_, err = reconcile.Observe(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: tx.At,
			State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone, Raw: truth.Raw}}}})
		return err
	})
	return id, truth.ICCID
}

func (r *rig) subscribe(id simwarden.SIMID) {
	r.t.Helper()
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: r.plan, By: "test"})
		return err
	})
	r.work()
}

// observe takes a reading in that the carrier never gave.
func (r *rig) observe(id simwarden.SIMID, state simwarden.State) {
	r.t.Helper()
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Observe(ctx, tx, []store.Observed{{SIMID: id, Reading: simwarden.Reading{ReadAt: tx.At,
			State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone, Raw: string(state)}}}})
		return err
	})
}

func (r *rig) pause(id simwarden.SIMID) {
	r.t.Helper()
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", "test")
		return err
	})
}

// exec changes rows behind the product's back.
func (r *rig) exec(sql string, args ...any) {
	r.t.Helper()
	_, err := r.pool.Exec(r.t.Context(), sql, args...)
	r.must(err)
}

// count runs a query that gives one number.
func (r *rig) count(sql string, args ...any) int {
	r.t.Helper()
	var n int
	r.must(r.pool.QueryRow(r.t.Context(), sql, args...).Scan(&n))
	return n
}

// eventually waits for what another goroutine brings about.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(20 * time.Second)
	defer deadline.Stop()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("it did not come to be so: %s", what)
		}
	}
}

// work moves subscriptions and works evaluations off.
func (r *rig) work() {
	r.t.Helper()
	for range 100 {
		a, err := r.sweeper.Sweep(r.t.Context())
		r.must(err)
		b, err := r.eval.Step(r.t.Context())
		r.must(err)
		if a+b == 0 {
			return
		}
	}
	r.t.Fatal("evaluations go on for ever")
}

// lapsing gives a running SIM whose one plan has just ended: a suspend is queued for it (S9).
func (r *rig) lapsing() (simwarden.SIMID, string) {
	r.t.Helper()
	id, iccid := r.sim(simwarden.StateActive)
	r.subscribe(id)
	r.lapse()
	if c := r.open(id); c.Direction != simwarden.DirectionSuspend || c.Scene != simwarden.ScenePlanLapsed {
		r.t.Fatalf("after the plan's end: %+v", c)
	}
	return id, iccid
}

func (r *rig) lapse() {
	r.clock.Advance(24*time.Hour + time.Second)
	r.work()
}

func (r *rig) manual(id simwarden.SIMID, d simwarden.Direction) {
	r.t.Helper()
	r.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.Manual(ctx, tx, id, d, "cli:anna", "test")
		return err
	})
}

// step takes one due step, if there is one.
func (r *rig) step() bool {
	r.t.Helper()
	did, err := r.m.Step(r.t.Context())
	r.must(err)
	return did
}

// run takes all steps that are due at this instant.
func (r *rig) run() {
	r.t.Helper()
	for range 200 {
		if !r.step() {
			return
		}
	}
	r.t.Fatal("steps go on for ever at one instant")
}

// until runs, moving the clock to the next step whenever nothing is due, until the command is as
// wanted.
func (r *rig) until(id simwarden.CommandID, what string, is func(store.Command) bool) store.Command {
	r.t.Helper()
	for range 400 {
		c := r.command(id)
		if is(c) {
			return c
		}
		if r.step() {
			continue
		}
		next := r.nextAt()
		if next.IsZero() {
			break
		}
		r.clock.Set(next)
	}
	c := r.command(id)
	r.t.Fatalf("command %d did not come to be %s: %s, held by %q, %s, run at %s, now %s", id, what, c.State, c.HeldBy, c.EndBecause, c.RunAt, r.clock.Now())
	return c
}

func (r *rig) ends(id simwarden.CommandID, state simwarden.CommandState) store.Command {
	r.t.Helper()
	c := r.until(id, "ended", func(c store.Command) bool { return !c.State.Open() })
	if c.State != state {
		r.t.Fatalf("command %d ended as %s (%s), want %s", id, c.State, c.EndBecause, state)
	}
	return c
}

// nextAt is the next instant at which something of a command is due.
func (r *rig) nextAt() time.Time {
	r.t.Helper()
	list, err := r.store.Commands(r.t.Context(), store.CommandFilter{OpenOnly: true, Limit: 100})
	r.must(err)
	var next time.Time
	for _, c := range list {
		at := c.RunAt
		if !c.ClaimUntil.IsZero() {
			at = c.ClaimUntil.Add(time.Millisecond)
		}
		if at.After(r.clock.Now()) && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	return next
}

func (r *rig) command(id simwarden.CommandID) store.Command {
	r.t.Helper()
	c, err := r.store.CommandByID(r.t.Context(), id)
	r.must(err)
	return c
}

// open is the SIM's one open command.
func (r *rig) open(id simwarden.SIMID) store.Command {
	r.t.Helper()
	list := r.commands(id)
	i := slices.IndexFunc(list, func(c store.Command) bool { return c.State.Open() })
	if i < 0 {
		r.t.Fatalf("sim %d has no open command; it has %+v", id, list)
	}
	return list[i]
}

func (r *rig) commands(id simwarden.SIMID) []store.Command {
	r.t.Helper()
	list, err := r.store.Commands(r.t.Context(), store.CommandFilter{SIMID: id, Limit: 50})
	r.must(err)
	return list
}

func (r *rig) fault(f lab.Fault) {
	r.t.Helper()
	_, err := r.world.SetFault(f)
	r.must(err)
}

// changes are the state-changing requests that the carrier saw of the SIM.
func (r *rig) changes(iccid string) []lab.LogLine { return r.lines(iccid, lab.KindChange) }

func (r *rig) lines(iccid string, kind lab.Kind) []lab.LogLine {
	var out []lab.LogLine
	for _, l := range r.world.LogLines() {
		if l.Kind == kind && (iccid == "" || l.ICCID == iccid) {
			out = append(out, l)
		}
	}
	return out
}

func (r *rig) atCarrier(iccid string) lab.SIMTruth {
	r.t.Helper()
	truth, ok := r.lab.SIM(iccid)
	if !ok {
		r.t.Fatalf("the carrier has no SIM %s", iccid)
	}
	return truth
}

// record is what the books say of an ended command (R1, V18).
type record struct {
	Status, Because, Class, Scene string
	Attempts                      []struct {
		RequestID string `json:"request_id"`
		Outcome   string `json:"outcome"`
		Class     string `json:"class"`
	}
}

func (r *rig) record(id simwarden.CommandID) record {
	r.t.Helper()
	rows, err := r.pool.Query(r.t.Context(), `SELECT status, end_because, class, scene, attempts FROM command_record WHERE command_id = $1`, id)
	r.must(err)
	defer rows.Close()
	var out []record
	for rows.Next() {
		var rec record
		r.must(rows.Scan(&rec.Status, &rec.Because, &rec.Class, &rec.Scene, &rec.Attempts))
		out = append(out, rec)
	}
	r.must(rows.Err())
	if len(out) != 1 {
		r.t.Fatalf("command %d has %d records: each that ends leaves one (V18)", id, len(out))
	}
	return out[0]
}

func (r *rig) simRow(id simwarden.SIMID) store.SIM {
	r.t.Helper()
	s, err := r.store.SIM(r.t.Context(), id)
	r.must(err)
	return s
}

func (r *rig) alerts(kind string) []store.Alert {
	r.t.Helper()
	list, err := r.store.OpenAlerts(r.t.Context(), 100)
	r.must(err)
	return slices.DeleteFunc(list, func(a store.Alert) bool { return a.Kind != kind })
}

// eachAttemptOnce checks that every state-changing request the carrier saw belongs to an attempt
// written before it came, and each attempt to at most one request (C4, V2).
func (r *rig) eachAttemptOnce() {
	r.t.Helper()
	seen := map[string]int{}
	for _, l := range r.lines("", lab.KindChange) {
		seen[l.RequestID]++
		var claimed time.Time
		err := r.pool.QueryRow(r.t.Context(), `SELECT claimed_at FROM attempt WHERE request_id = $1`, l.RequestID).Scan(&claimed)
		if err != nil {
			r.t.Errorf("request %q at the carrier has no attempt (V2): %v", l.RequestID, err)
		} else if l.ArrivedAt.Before(claimed) {
			r.t.Errorf("request %q arrived at %s, before its attempt was written at %s (V2)", l.RequestID, l.ArrivedAt, claimed)
		}
	}
	for id, n := range seen {
		if n > 1 {
			r.t.Errorf("attempt %s made %d requests (C4)", id, n)
		}
	}
}
