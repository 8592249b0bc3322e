package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/poller"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

const (
	// benchAccounts of equal size share the SIMs: lists are swept one page after the other, so that
	// one account keeps no more than one core busy.
	benchAccounts = 2
	// benchEvery is the interval of the lists, which the clock skips; benchSkip is more than it with
	// its deviation, and less than after what single SIMs are asked for, once each pass has ended.
	benchEvery = time.Minute
	benchSkip  = 67 * time.Second
	// benchNever is for checks that are not measured: the longest interval that is taken.
	benchNever = 30 * 24 * time.Hour
	benchLease = 30 * time.Minute
	// benchPass bounds one pass over the lists, benchLook is how often its end is looked for.
	benchPass = 5 * time.Minute
	benchLook = time.Millisecond
	// benchBatch is how many SIMs are added in a transaction.
	benchBatch = 5000
)

// benchRig is one fleet: a private Postgres, a lab on loopback HTTP with accounts without limits,
// the gateway and the poller between them, on a clock that leaves waiting out.
type benchRig struct {
	carrier string
	sims    int

	env        *env
	world      *lab.World
	server     *lab.Server
	gateway    *gateway.Gateway
	poller     *poller.Poller
	clock      *skipClock
	sink       *benchSink
	accounts   []simwarden.AccountID
	timers     int // that the poller waits for while it is at rest: one for each loop
	postmaster int
	heapBefore uint64
	stop       func() error
}

// benchSink writes to the database, or leaves that out: the ceiling.
type benchSink struct {
	poller.Database
	without atomic.Bool
}

// Keep writes, or only counts.
func (s *benchSink) Keep(ctx context.Context, fence store.PollFence, rows []store.PollRow) (poller.Kept, error) {
	if s.without.Load() {
		return poller.Discard{}.Keep(ctx, fence, rows)
	}
	return s.Database.Keep(ctx, fence, rows)
}

// newBenchRig starts everything but the poller and writes the fleet.
func newBenchRig(ctx context.Context, g *Globals, carrier string, sims int) (_ *benchRig, err error) {
	dir, err := passingDir("bench")
	if err != nil {
		return nil, err
	}
	r := &benchRig{carrier: carrier, sims: sims, clock: newSkipClock(), stop: func() error { return os.RemoveAll(dir) }}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.stop())
		}
	}()
	own := Globals{DataDir: dir, Verbose: g.Verbose, Out: g.Out, Err: g.Err, In: g.In}
	if r.env, err = own.open(ctx, openOptions{own: true, migrate: true}); err != nil {
		return nil, err
	}
	r.onStop(func() error { r.env.close(); return nil })
	backend, err := r.env.Store.BackendPID(ctx)
	if err != nil {
		return nil, err
	}
	if r.postmaster, err = parentOf(backend); err != nil {
		return nil, err
	}
	r.world = lab.New(lab.Config{Seed: 1, KeepLines: -1})
	if r.server, err = r.world.Serve(ctx, ""); err != nil {
		return nil, err
	}
	r.onStop(func() error { r.world.Close(); return r.server.Close() })
	return r, r.fill(ctx)
}

// onStop adds what ends before everything that was added earlier.
func (r *benchRig) onStop(end func() error) {
	before := r.stop
	r.stop = func() error { return errors.Join(end(), before()) }
}

// fill writes the accounts with their SIMs at the lab and in the database, with a plan in force each.
func (r *benchRig) fill(ctx context.Context) error {
	var plan simwarden.Plan
	err := r.env.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		plan, err = tx.AddPlan(ctx, simwarden.Plan{Code: "bench", Name: "a year without limit", Kind: simwarden.PlanMain, AllowanceBytes: simwarden.UnlimitedBytes,
			ValidityUnit: simwarden.ValidityDays, ValidityCount: 365, Reset: simwarden.ResetNone, Zone: "UTC"})
		return err
	})
	if err != nil {
		return err
	}
	for i := range benchAccounts {
		count := r.sims / benchAccounts
		if i == 0 {
			count += r.sims % benchAccounts
		}
		if err := r.addAccount(ctx, fmt.Sprintf("bench-%d", i+1), count, plan); err != nil {
			return err
		}
	}
	return nil
}

func (r *benchRig) addAccount(ctx context.Context, name string, count int, plan simwarden.Plan) error {
	there, err := r.world.AddAccount(lab.AccountSpec{Name: name, Dialect: r.carrier})
	if err != nil {
		return err
	}
	iccids, err := there.Populate(lab.Population{Count: count, ActiveShare: 1, Age: time.Hour, Profiles: map[lab.UsageProfile]float64{lab.ProfileSilent: 1}})
	if err != nil {
		return err
	}
	var a store.Account
	err = r.env.Store.InTx(ctx, func(tx *store.Tx) error {
		a, err = tx.AddAccount(ctx, store.Account{Name: name, Driver: r.carrier, BaseURL: there.BaseURL(r.server.URL),
			StateEvery: benchEvery, UsageEvery: benchNever, RealNameEvery: benchNever})
		if err != nil {
			return err
		}
		plain, err := json.Marshal(there.Credentials())
		if err != nil {
			return err
		}
		sealed, err := r.env.Keyring.Seal("account", fmt.Sprint(int64(a.ID)), plain)
		if err != nil {
			return err
		}
		return tx.SetCredential(ctx, a.ID, sealed)
	})
	if err != nil {
		return err
	}
	r.accounts = append(r.accounts, a.ID)
	for begin := 0; begin < len(iccids); begin += benchBatch {
		part := iccids[begin:min(begin+benchBatch, len(iccids))]
		add, after := make([]store.NewSIM, len(part)), make([]time.Duration, len(part))
		for i, text := range part {
			iccid, err := simwarden.ParseICCID(text)
			if err != nil {
				return err
			}
			add[i], after[i] = store.NewSIM{ICCID: iccid, Raw: text}, benchNever // the list names them sooner
		}
		err := r.env.Store.InTx(ctx, func(tx *store.Tx) error {
			_, err := tx.AddSIMsAfter(ctx, a, add, after)
			return err
		})
		if err != nil {
			return err
		}
	}
	return r.env.Store.InTx(ctx, func(tx *store.Tx) error {
		_, err := tx.SubscribeAll(ctx, a.ID, plan, tx.At.Add(365*24*time.Hour), "bench")
		return err
	})
}

// start starts gateway and poller, and reads every SIM until each is settled and known.
func (r *benchRig) start(ctx context.Context) (err error) {
	log := r.env.Log
	r.gateway, err = gateway.New(gateway.Options{Store: r.env.Store, Keyring: r.env.Keyring, Log: log, AllowLoopback: true, Holder: holder()})
	if err != nil {
		return err
	}
	r.heapBefore = heap()
	r.sink = &benchSink{Database: poller.Database{Store: r.env.Store}}
	r.poller, err = poller.New(poller.Options{Store: r.env.Store, Gateway: r.gateway, Sink: r.sink, Clock: r.clock, Log: log, Holder: holder(), LeaseFor: benchLease})
	if err != nil {
		return err
	}
	r.background(ctx, r.gateway.Run)
	r.background(ctx, r.poller.Run)
	return r.warm(ctx)
}

// background runs a loop until the rig is stopped.
func (r *benchRig) background(ctx context.Context, run func(context.Context) error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	r.onStop(func() error {
		cancel()
		for {
			select {
			case err := <-done:
				return err
			case <-time.After(benchLook):
				r.clock.follow()
			}
		}
	})
}

// benchWarmPasses is how many passes it may take, after the first, until every SIM is settled.
const benchWarmPasses = 5

// warm waits for the first pass over every list, and makes more until all say what is known.
func (r *benchRig) warm(ctx context.Context) error {
	first := int64(0)
	r.timers = 2 // the poller's leases and nudges
	for _, id := range r.accounts {
		first++
		r.timers++ // its single checks
		usage, err := r.gateway.Can(ctx, id, gateway.CanListUsage)
		if err != nil {
			return err
		}
		if usage {
			first++ // made once, and not again for as long as is measured
		}
	}
	r.timers += int(first)
	if err := r.until(ctx, func() bool { return r.poller.Stats().Passes >= first }); err != nil {
		return err
	}
	for range benchWarmPasses {
		before := r.poller.Stats()
		if err := r.pass(ctx); err != nil {
			return err
		}
		if after := r.poller.Stats(); after.Touched-before.Touched == int64(r.sims) && after.Judged == before.Judged {
			return nil
		}
	}
	return fmt.Errorf("after %d passes over the lists of %s the SIMs are not settled: %+v", 1+benchWarmPasses, r.carrier, r.poller.Stats())
}

// pass makes one pass over the list of each account, and ends when all have ended. Until the next
// one the clock stands still: a fleet that waits for its turn grows no older, or it would be asked
// for SIM by SIM.
func (r *benchRig) pass(ctx context.Context) error {
	target := r.poller.Stats().Passes + benchAccounts
	// A loop that has looked at the clock and has not yet set its timer would miss the skip.
	if err := r.clock.idle(ctx, r.timers); err != nil {
		return fmt.Errorf("the poller does not come to rest: %w", err)
	}
	r.clock.skip(benchSkip)
	defer r.clock.hold()
	return r.until(ctx, func() bool { return r.poller.Stats().Passes >= target })
}

func (r *benchRig) until(ctx context.Context, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, benchPass)
	defer cancel()
	tick := time.NewTicker(benchLook)
	defer tick.Stop()
	for !holds() {
		select {
		case <-tick.C:
			r.clock.follow()
		case <-ctx.Done():
			return fmt.Errorf("a pass over the lists of %s did not end: %w; %+v", r.carrier, ctx.Err(), r.poller.Stats())
		}
	}
	return nil
}

// heap is how many bytes are in use after a collection.
func heap() uint64 {
	runtime.GC()
	runtime.GC() // what the first one finalised
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
