package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// demoScene is a small world: two carriers in the lab, plans that end and run out within minutes,
// and a person who tops up, renews, pauses and stops some SIMs.
type demoScene struct {
	world  *lab.World
	server *lab.Server
	random *rand.Rand
	sims   []demoSIM
	main   []simwarden.Plan
	addon  simwarden.Plan
	stop   context.CancelFunc
	// last is what was counted before, for rates.
	last   demoCounts
	lastAt time.Time
	calm   bool
}

type demoSIM struct {
	id    simwarden.SIMID
	iccid string
}

// demoCarriers are the two carriers, with the limits that they enforce and we keep.
var demoCarriers = []struct {
	name, driver string
	delay        time.Duration
}{
	{"east", "soracom", 0},
	{"west", "supersim", 700 * time.Millisecond},
}

var demoLimits = map[simwarden.Operation]int{
	simwarden.OpListSIMs: 20, simwarden.OpListUsage: 20, simwarden.OpQueryState: 80, simwarden.OpQueryUsage: 150,
	simwarden.OpSuspend: 40, simwarden.OpResume: 40,
}

const (
	demoAllowanceBytes = 5_000_000
	demoUsageScale     = 800
	// demoLines are the lines of the carriers' log that are kept for the check at the end.
	demoLines = 400_000
)

func newDemoScene(ctx context.Context, e *env, sims int, seed uint64) (*demoScene, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &demoScene{random: rand.New(rand.NewPCG(seed, 20)), stop: cancel, lastAt: time.Now()}
	s.world = lab.New(lab.Config{Seed: seed, KeepLines: demoLines})
	for i, carrier := range demoCarriers {
		count := sims / len(demoCarriers)
		if i == 0 {
			count += sims % len(demoCarriers)
		}
		var windows []lab.Limit
		for op, n := range demoLimits {
			windows = append(windows, lab.PerSecond(n, op))
		}
		a, err := s.world.AddAccount(lab.AccountSpec{Name: carrier.name, Dialect: carrier.driver, ChangeDelay: carrier.delay,
			UsageScale: demoUsageScale, Limits: lab.Limits{Windows: windows}})
		if err == nil {
			_, err = a.Populate(lab.Population{Count: count, ActiveShare: 0.97, InventoryShare: 0.01, Age: time.Hour})
		}
		if err != nil {
			cancel()
			return nil, err
		}
	}
	server, err := s.world.Serve(ctx, "")
	if err != nil {
		cancel()
		return nil, err
	}
	s.server = server
	err = s.fill(ctx, e)
	if err == nil {
		err = e.Store.Analyze(ctx)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	return s, s.breakThings()
}

// fill writes accounts, SIMs, plans and subscriptions into the database.
func (s *demoScene) fill(ctx context.Context, e *env) error {
	return e.Store.InTx(ctx, func(tx *store.Tx) error {
		if err := s.addPlans(ctx, tx); err != nil {
			return err
		}
		for _, carrier := range demoCarriers {
			if err := s.addAccount(ctx, e, tx, carrier.name, carrier.driver); err != nil {
				return fmt.Errorf("demo account %s: %w", carrier.name, err)
			}
		}
		return nil
	})
}

func (s *demoScene) addPlans(ctx context.Context, tx *store.Tx) error {
	add := func(p simwarden.Plan) (simwarden.Plan, error) {
		p.ValidityUnit, p.Reset, p.Zone = simwarden.ValiditySeconds, simwarden.ResetNone, "UTC"
		if err := plans.Check(p); err != nil {
			return p, err
		}
		return tx.AddPlan(ctx, p)
	}
	for _, seconds := range []int{12, 30, 60, 120, 300, 3600} {
		p, err := add(simwarden.Plan{Code: fmt.Sprintf("m-%ds", seconds), Name: fmt.Sprintf("%d seconds, 5 MB", seconds), Kind: simwarden.PlanMain,
			AllowanceBytes: demoAllowanceBytes, ValidityCount: seconds})
		if err != nil {
			return err
		}
		s.main = append(s.main, p)
	}
	var err error
	s.addon, err = add(simwarden.Plan{Code: "top-up", Name: "50 MB for an hour", Kind: simwarden.PlanAddon, AllowanceBytes: 50_000_000, ValidityCount: 3600})
	return err
}

func (s *demoScene) addAccount(ctx context.Context, e *env, tx *store.Tx, name, driver string) error {
	there := s.world.Account(name)
	a, err := tx.AddAccount(ctx, store.Account{Name: name, Driver: driver, BaseURL: there.BaseURL(s.server.URL),
		StateEvery: 10 * time.Second, UsageEvery: 12 * time.Second})
	if err != nil {
		return err
	}
	plain, err := json.Marshal(there.Credentials())
	if err != nil {
		return err
	}
	sealed, err := e.Keyring.Seal("account", fmt.Sprint(int64(a.ID)), plain)
	if err != nil {
		return err
	}
	if err := tx.SetCredential(ctx, a.ID, sealed); err != nil {
		return err
	}
	if err := tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct); err != nil {
		return err
	}
	// Plans of a few seconds would put the brake on at once: here it may see everything suspended.
	if err := tx.SetBrake(ctx, a.ID, 100, 1_000_000, 10*time.Minute); err != nil {
		return err
	}
	if err := tx.SetGroupMode(ctx, a.LimitGroupID, simwarden.GroupEnforce); err != nil {
		return err
	}
	for op, n := range demoLimits {
		if err := tx.SetLimitRate(ctx, a.LimitGroupID, op, n); err != nil {
			return err
		}
	}
	return s.addSIMs(ctx, tx, a, there)
}

func (s *demoScene) addSIMs(ctx context.Context, tx *store.Tx, a store.Account, there *lab.Account) error {
	var list []store.NewSIM
	for i, text := range there.ICCIDs() {
		iccid, err := simwarden.ParseICCID(text)
		if err != nil {
			return err
		}
		list = append(list, store.NewSIM{ICCID: iccid, Raw: text, Label: fmt.Sprintf("%s-%05d", a.Name, i+1)})
	}
	ids, err := tx.AddSIMs(ctx, a, list, 5*time.Second)
	if err != nil {
		return err
	}
	for i, id := range ids {
		s.sims = append(s.sims, demoSIM{id, list[i].ICCID.String()})
		// One in ten ends within seconds, one in ten within half a minute, half of them not within the
		// hour; some have the next queued.
		p := s.main[min(s.random.IntN(10), len(s.main)-1)]
		if err := s.subscribe(ctx, tx, id, p); err != nil {
			return err
		}
		if s.random.IntN(8) == 0 {
			if err := s.subscribe(ctx, tx, id, s.main[3]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *demoScene) subscribe(ctx context.Context, tx *store.Tx, id simwarden.SIMID, p simwarden.Plan) error {
	_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: id}, Plan: p, By: "demo"})
	return err
}

// breakThings switches the carriers' faults on.
func (s *demoScene) breakThings() error {
	changes := []simwarden.Operation{simwarden.OpSuspend, simwarden.OpResume}
	for _, f := range []lab.Fault{
		{Name: lab.ActThenHang, Probability: 0.02, Operations: changes, Seconds: 30},
		{Name: lab.ActThenReset, Probability: 0.03, Operations: changes},
		{Name: lab.ActThen5xx, Probability: 0.02, Operations: changes},
		{Name: lab.Fail5xx, Probability: 0.02},
		{Name: lab.LieOK, Probability: 0.01, Operations: changes},
		{Name: lab.ResetBefore, Probability: 0.01},
		{Name: lab.Throttle, Probability: 0.01, Variant: "seconds", Seconds: 2},
		{Name: lab.Garbage, Probability: 0.01, Variant: "html"},
		{Name: lab.StaleRead, Probability: 0.01, Seconds: 5},
		{Name: lab.Slow, Probability: 0.01, Seconds: 1},
	} {
		if _, err := s.world.SetFault(f); err != nil {
			return err
		}
	}
	return nil
}

// act is what persons do in a second: some of the suspended are topped up or renewed, a few SIMs
// are paused, stopped by hand and let go again.
func (s *demoScene) act(ctx context.Context, e *env, calm bool) error {
	if calm {
		if !s.calm {
			s.calm = true
			s.world.ClearFaults()
		}
		return nil
	}
	share := func(reason simwarden.Reason, p simwarden.Plan) error {
		sims, err := e.Store.SIMs(ctx, store.SIMFilter{Reason: reason, State: simwarden.StateSuspended, Limit: 400})
		if err != nil {
			return err
		}
		for _, sim := range sims {
			if s.random.IntN(12) != 0 {
				continue
			}
			if err := e.Store.InTx(ctx, func(tx *store.Tx) error { return s.subscribe(ctx, tx, sim.ID, p) }); err != nil {
				return err
			}
		}
		return nil
	}
	if err := share(simwarden.ReasonDataExhausted, s.addon); err != nil {
		return err
	}
	if err := share(simwarden.ReasonNoPlan, s.main[4+s.random.IntN(2)]); err != nil {
		return err
	}
	return s.meddle(ctx, e)
}

func (s *demoScene) meddle(ctx context.Context, e *env) error {
	sim := s.sims[s.random.IntN(len(s.sims))]
	return e.Store.InTx(ctx, func(tx *store.Tx) error {
		var err error
		switch s.random.IntN(6) {
		case 0:
			_, err = reconcile.PausePolling(ctx, tx, sim.id, "demo", "field test")
		case 1:
			_, err = reconcile.Manual(ctx, tx, sim.id, simwarden.DirectionSuspend, "demo", "reported stolen")
		case 2:
			_, err = reconcile.Manual(ctx, tx, sim.id, simwarden.DirectionResume, "demo", "found again")
		}
		return err
	})
}

func (s *demoScene) close() {
	s.world.Close()
	if s.server != nil {
		_ = s.server.Close() // the lab goes away with the demo
	}
	s.stop()
}

func (s *demoScene) greet(w io.Writer, address, dir, tokenFile string) {
	fmt.Fprintf(w, "REST API: http://%s/api/v1 (token in %s)\n", address, tokenFile)
	fmt.Fprintf(w, "Ask of any SIM why it is as it is, for example:\n")
	for _, i := range []int{0, len(s.sims) / 2, len(s.sims) - 1} {
		fmt.Fprintf(w, "  simwarden --data-dir %s explain %s\n", dir, s.sims[i].iccid)
	}
	fmt.Fprintf(w, "  simwarden --data-dir %s sims --reason no_plan\n\n", dir)
}
