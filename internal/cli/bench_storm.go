package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/commander"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

const (
	benchStormManual  = 2000 // SIMs that a person suspends, one after the other
	benchStormAhead   = 3 * time.Second
	benchStormTimeout = 2 * time.Second
	benchStormMargin  = time.Second
)

// lapseStorm is a fleet whose main plans all end at one instant, with a lab and a private Postgres.
type lapseStorm struct {
	env     *env
	account store.Account
	endAt   time.Time
	manual  []string // ICCIDs that are left for a person
	total   int64
	stop    func() error
}

func newLapseStorm(ctx context.Context, g *Globals, sims int) (_ *lapseStorm, err error) {
	dir, err := os.MkdirTemp(demoRoot(), "simwarden-bench-")
	if err != nil {
		return nil, fmt.Errorf("make a directory for the bench: %w", err)
	}
	s := &lapseStorm{total: int64(sims), stop: func() error { return os.RemoveAll(dir) }}
	onStop := func(end func() error) {
		before := s.stop
		s.stop = func() error { return errors.Join(end(), before()) }
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.stop())
		}
	}()
	if err := os.Chmod(dir, 0o755); err != nil { // the Postgres user must be able to enter it
		return nil, fmt.Errorf("make a directory for the bench: %w", err)
	}
	own := Globals{DataDir: dir, Verbose: g.Verbose, Out: g.Out, Err: g.Err, In: g.In}
	if s.env, err = own.open(ctx, openOptions{own: true, migrate: true}); err != nil {
		return nil, err
	}
	onStop(func() error { s.env.close(); return nil })
	world := lab.New(lab.Config{Seed: 1, KeepLines: -1})
	server, err := world.Serve(ctx, "")
	if err != nil {
		return nil, err
	}
	onStop(func() error { world.Close(); return server.Close() })
	there, err := world.AddAccount(lab.AccountSpec{Name: "storm", Dialect: "soracom"})
	if err != nil {
		return nil, err
	}
	iccids, err := there.Populate(lab.Population{Count: sims + benchStormManual, ActiveShare: 1, Age: time.Hour,
		Profiles: map[lab.UsageProfile]float64{lab.ProfileSilent: 1}})
	if err != nil {
		return nil, err
	}
	if err := s.addAccount(ctx, there, server.URL); err != nil {
		return nil, err
	}
	return s, s.fill(ctx, iccids[:sims], iccids[sims:])
}

func (s *lapseStorm) addAccount(ctx context.Context, there *lab.Account, url string) error {
	return s.env.Store.InTx(ctx, func(tx *store.Tx) error {
		a, err := tx.AddAccount(ctx, store.Account{Name: "storm", Driver: "soracom", BaseURL: there.BaseURL(url),
			StateEvery: benchNever, UsageEvery: benchNever, RealNameEvery: benchNever})
		if err != nil {
			return err
		}
		plain, err := json.Marshal(there.Credentials())
		if err != nil {
			return err
		}
		sealed, err := s.env.Keyring.Seal("account", fmt.Sprint(int64(a.ID)), plain)
		if err != nil {
			return err
		}
		s.account = a
		return errors.Join(tx.SetCredential(ctx, a.ID, sealed), tx.SetAccountMode(ctx, a.ID, simwarden.ModeAct),
			tx.SetGroupMode(ctx, a.LimitGroupID, simwarden.GroupEnforce), tx.SetLimitRate(ctx, a.LimitGroupID, "", benchLapseRate))
	})
}

// fill writes the fleet: known, with a plan each, and then the SIMs that have none and are left alone.
func (s *lapseStorm) fill(ctx context.Context, storm, manual []string) error {
	if err := s.addSIMs(ctx, storm); err != nil {
		return err
	}
	err := s.env.Store.InTx(ctx, func(tx *store.Tx) error {
		plan, err := tx.AddPlan(ctx, simwarden.Plan{Code: "storm", Name: "until midnight", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"})
		if err != nil {
			return err
		}
		s.endAt = tx.At.Add(benchStormAhead + time.Duration(s.total)*50*time.Microsecond)
		_, err = tx.SubscribeAll(ctx, s.account.ID, plan, s.endAt, "bench")
		return err
	})
	if err != nil {
		return err
	}
	if err := s.addSIMs(ctx, manual); err != nil {
		return err
	}
	s.manual = manual
	if err := s.env.Store.InTx(ctx, func(tx *store.Tx) error { return tx.SeedReadings(ctx, s.account.ID) }); err != nil {
		return err
	}
	return s.env.Store.Analyze(ctx)
}

func (s *lapseStorm) addSIMs(ctx context.Context, iccids []string) error {
	for begin := 0; begin < len(iccids); begin += benchBatch {
		part := iccids[begin:min(begin+benchBatch, len(iccids))]
		add, after := make([]store.NewSIM, len(part)), make([]time.Duration, len(part))
		for i, text := range part {
			iccid, err := simwarden.ParseICCID(text)
			if err != nil {
				return err
			}
			add[i], after[i] = store.NewSIM{ICCID: iccid, Raw: text}, benchNever
		}
		err := s.env.Store.InTx(ctx, func(tx *store.Tx) error {
			_, err := tx.AddSIMsAfter(ctx, s.account, add, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// progress is about how many plan ends have been handled, and whether some are left.
func (s *lapseStorm) progress(ctx context.Context) (done, left int64, err error) {
	if done, err = s.env.Store.CommandsNumbered(ctx); err != nil {
		return 0, 0, err
	}
	next, err := s.env.Store.NextPlanInstant(ctx)
	if err != nil || next.IsZero() {
		return done, 0, err
	}
	return done, 1, nil
}

// byHand suspends one more SIM as a person would, while there are some.
func (s *lapseStorm) byHand(ctx context.Context) error {
	if len(s.manual) == 0 {
		return nil
	}
	iccid := s.manual[0]
	s.manual = s.manual[1:]
	_, err := s.env.Manual(ctx, iccid, simwarden.DirectionSuspend, "bench", "by hand")
	return err
}

// stormNode is one node as a process.
type stormNode struct {
	cmd   *exec.Cmd
	ended chan error
	once  sync.Once
}

// startNode starts this program again as a node.
func (s *lapseStorm) startNode(ctx context.Context) (*stormNode, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "bench", "lapse-node", "--data-dir", s.env.DataDir)
	cmd.Env = append(childEnvironment(), databaseURLEnv+"="+s.env.URL)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a node: %w", err)
	}
	n := &stormNode{cmd: cmd, ended: make(chan error, 1)}
	go func() { n.ended <- cmd.Wait() }()
	return n, nil
}

// kill ends the node with SIGKILL and waits until it is gone.
func (n *stormNode) kill() error {
	var err error
	n.once.Do(func() {
		if err = n.cmd.Process.Kill(); errors.Is(err, os.ErrProcessDone) {
			err = nil
		}
		var killed *exec.ExitError // by nature
		if ended := <-n.ended; !errors.As(ended, &killed) {
			err = errors.Join(err, ended)
		}
	})
	return err
}

// benchNodeCmd is the node of bench lapse: the loops of serve that have to do with plan ends.
type benchNodeCmd struct{}

// Run works until it is killed.
func (c *benchNodeCmd) Run(ctx context.Context, g *Globals) error {
	if g.DatabaseURL == "" {
		return usage("bench lapse starts this for itself")
	}
	e, err := g.open(ctx, openOptions{})
	if err != nil {
		return err
	}
	defer e.close()
	name := holder()
	gw, err := gateway.New(gateway.Options{Store: e.Store, Keyring: e.Keyring, Log: e.Log, AllowLoopback: true, Holder: name, CommandTimeout: benchStormTimeout})
	if err != nil {
		return err
	}
	if err := e.Store.SyncRules(ctx); err != nil {
		return err
	}
	cmd, err := commander.New(commander.Options{Store: e.Store, Gateway: gw, Clock: e.Clock, Log: e.Log, Holder: name,
		CommandTimeout: benchStormTimeout, ClaimMargin: benchStormMargin, Settle: demoSettle, Backoff: demoBackoff()})
	if err != nil {
		return err
	}
	sweep := &plans.Sweeper{Store: e.Store, Clock: e.Clock, Log: e.Log}
	eval := &evaluator.Evaluator{Store: e.Store, Clock: e.Clock, Log: e.Log, Holder: name}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	loops := []func(context.Context) error{gw.Run, cmd.Run, sweep.Run, eval.Run, eval.RunPeriodic}
	ended := make(chan error, len(loops))
	for _, run := range loops {
		go func() { ended <- run(ctx) }()
	}
	for range loops {
		err = errors.Join(err, <-ended)
		cancel()
	}
	return err
}
