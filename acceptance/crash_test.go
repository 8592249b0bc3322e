package acceptance

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
	"github.com/simwarden/simwarden/lab"
)

// crash is one way to die between a cause and its record.
type crash struct {
	point  string
	hit    int    // which hit of the point, from 1
	driver string // empty: soracom
	cause  func(*world) card
	fault  string // what the carrier does to the first suspend
}

func (c crash) String() string {
	s := fmt.Sprintf("%s:%d", c.point, c.hit)
	for _, part := range []string{c.driver, c.fault} {
		if part != "" {
			s += " " + part
		}
	}
	return s
}

// crashes are every crash point there is, with what makes the program come by.
func crashes() []crash {
	var list []crash
	for _, point := range []string{
		"lapse.before", "lapse.in", "lapse.after",
		"cmd.claim.before_commit", "cmd.claim.committed", "cmd.before_connect", "cmd.connected", "cmd.before_write", "cmd.after_write",
		"cmd.headers_read", "cmd.body_read", "cmd.answer.before_record", "cmd.record.before", "cmd.record.before_commit", "cmd.record.committed",
	} {
		list = append(list, crash{point: point, hit: 1, cause: lapsing})
	}
	for _, point := range []string{"evaluate.before", "evaluate.in", "evaluate.after"} {
		list = append(list, crash{point: point, hit: 1, cause: exhausted})
	}
	for _, point := range []string{"account_evaluation.before", "account_evaluation.in", "account_evaluation.after"} {
		list = append(list, crash{point: point, hit: 1, cause: unverified})
	}
	for _, point := range []string{"bulk.before", "bulk.in", "bulk.after"} {
		list = append(list, crash{point: point, hit: 1, cause: bulkSuspended})
	}
	for _, point := range []string{"audit_seal.before", "audit_seal.after"} {
		list = append(list, crash{point: point, hit: 1, cause: lapsing})
	}
	for _, point := range []string{"carrier_limit.marked", "carrier_limit.answered"} {
		list = append(list, crash{point: point, hit: 1, cause: limitedAndExhausted})
	}
	// The second claim is that of the read which confirms; the first may be that of a look-up.
	for _, point := range []string{"cmd.claim.before_commit", "cmd.claim.committed"} {
		list = append(list, crash{point: point, hit: 2, cause: lapsing}, crash{point: point, hit: 1, cause: lapsingUnnamed})
	}
	// What is not known stays so: the carrier has acted, and nobody heard of it.
	for _, point := range []string{"cmd.answer.before_record", "cmd.record.before_commit", "cmd.record.committed"} {
		list = append(list, crash{point: point, hit: 1, cause: lapsing, fault: lab.ActThenReset})
	}
	list = append(list, crash{point: "cmd.after_write", hit: 1, cause: lapsing, fault: lab.ActThenHang})
	for _, point := range []string{"cmd.before_write", "cmd.after_write", "cmd.record.committed"} {
		list = append(list, crash{point: point, hit: 1, driver: "supersim", cause: lapsing})
	}
	return list
}

// atATime bounds how many programs run at a time, beside the time lines.
var atATime = make(chan struct{}, 4)

func TestS18KilledAnywhereTheCommandEndsAsIfNothingHadHappened(t *testing.T) {
	t.Parallel()
	path := binary(t, "")
	var mu sync.Mutex
	died := map[string]bool{}
	t.Run("at", func(t *testing.T) {
		for _, c := range crashes() {
			t.Run(c.String(), func(t *testing.T) {
				t.Parallel()
				atATime <- struct{}{}
				t.Cleanup(func() { <-atATime })
				survive(t, path, c)
				mu.Lock()
				defer mu.Unlock()
				died[c.point] = !t.Failed()
			})
		}
	})
	for _, point := range faultPoints(t, path) {
		if !died[point] {
			t.Errorf("no program has died at %s and come back (sometimes-counters, reliability rule 3)", point)
		}
	}
}

// survive kills a program at the point, starts another, and looks at what there is in the end.
func survive(t *testing.T, path string, c crash) {
	driver := c.driver
	if driver == "" {
		driver = "soracom"
	}
	w := newWorld(t, driver)
	sim := c.cause(w)
	if c.fault != "" {
		w.fault(lab.Fault{Name: c.fault, Operations: []simwarden.Operation{simwarden.OpSuspend}, Count: 1})
	}
	w.serve(path, fmt.Sprintf("%s=%s=kill:%d", fault.EnvName, c.point, c.hit)).diesByKill(c.String())
	again := w.serve(path)
	eventually(t, "the command has ended", func() bool {
		list := w.commands(sim)
		return len(list) > 0 && !slices.ContainsFunc(list, func(c store.Command) bool { return c.State.Open() })
	})
	cmd := w.ends(sim, simwarden.CommandDone)
	if cmd.Direction != simwarden.DirectionSuspend {
		t.Errorf("%s", describe([]store.Command{cmd}))
	}
	w.suspended(sim) // by one request: no needless second one
	if n := w.truth(sim).Executions; n != 1 {
		t.Errorf("the carrier acted %d times", n)
	}
	if n := w.count(`SELECT count(*) FROM command_record WHERE sim_id = $1`, sim.id); n != 1 {
		t.Errorf("%d records, want one", n)
	}
	w.calm()
	w.limitsKept()
	again.stop()
	w.check()
}

// read takes in a reading as a poller would have, so that no node need run for it.
func (w *world) read(c card, state simwarden.State, counterBytes int64) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		month := time.Date(tx.At.Year(), tx.At.Month(), 1, 0, 0, 0, 0, time.UTC)
		obs := []store.Observed{{SIMID: c.id, Reading: simwarden.Reading{ReadAt: tx.At,
			State: &simwarden.StateReading{State: state, Extended: simwarden.ExtendedNone, Raw: string(state)},
			Usage: &simwarden.UsageReading{CounterBytes: counterBytes, PeriodStartAt: month, TrueAt: tx.At}}}}
		if _, err := usage.Book(ctx, tx, obs); err != nil {
			return err
		}
		_, err := reconcile.Observe(ctx, tx, obs)
		return err
	})
}

// lapsing gives a running SIM whose one plan has come to its end, which no node has seen yet.
func lapsing(w *world) card {
	w.t.Helper()
	return w.lapsing(true)
}

// lapsingUnnamed is lapsing with a SIM whose name at the carrier is not known.
func lapsingUnnamed(w *world) card {
	w.t.Helper()
	return w.lapsing(false)
}

func (w *world) lapsing(withKey bool) card {
	w.t.Helper()
	c := w.add(simwarden.StateActive, withKey)
	w.read(c, simwarden.StateActive, 0)
	p := w.plan(time.Hour, simwarden.UnlimitedBytes)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: p, By: "test", StartAt: tx.At.Add(100*time.Millisecond - time.Hour)})
		return err
	})
	return c
}

// exhausted gives a running SIM that has used its allowance up while its polling was paused, and
// whose polling was taken up again, which no node has seen yet.
func exhausted(w *world) card {
	w.t.Helper()
	c := w.sim(simwarden.StateActive)
	w.read(c, simwarden.StateActive, 0)
	w.buy(c, w.plan(time.Hour, allowance))
	w.pause(c)
	w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
	w.read(c, simwarden.StateActive, 2*allowance)
	if list := w.commands(c); len(list) != 0 {
		w.t.Fatalf("polling is paused, and there are commands: %s", describe(list))
	}
	w.resumePolling(c)
	return c
}

// limitedAndExhausted gives an exhausted SIM whose carrier is to hold a data limit for it, and holds none yet.
func limitedAndExhausted(w *world) card {
	w.t.Helper()
	w.limitsOn(true)
	return exhausted(w)
}

// unverified gives a running SIM whose account has come to require real names, which no node has seen
// yet, and whose carrier does not tell them.
func unverified(w *world) card {
	w.t.Helper()
	c := w.add(simwarden.StateActive, true)
	w.read(c, simwarden.StateActive, 0)
	w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
	w.requireRealName(true)
	return c
}

// bulkSuspended gives a running SIM that a person has suspended together with others, which no node
// has seen yet.
func bulkSuspended(w *world) card {
	w.t.Helper()
	c := w.add(simwarden.StateActive, true)
	w.read(c, simwarden.StateActive, 0)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.AddBulk(ctx, store.BulkAction{Direction: simwarden.DirectionSuspend, Reason: "as a test", Actor: anna}, []simwarden.SIMID{c.id})
		return err
	})
	return c
}
