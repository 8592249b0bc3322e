//go:build planted

package acceptance

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// bug is one that the program can be told to have.
type bug struct {
	invariant, what string
	settings        []setting
	// play starts programs and brings about what the bug needs. It returns when the bug must have had its
	// effect, and so that a program without it comes through as well.
	play func(w *world, start func(env ...string) *process)
	// openBound is how old something open may be (V12); zero: openBound.
	openBound time.Duration
}

var suspends = []simwarden.Operation{simwarden.OpSuspend}

// bugs are one for each invariant that the checker knows.
func bugs() []bug {
	return []bug{
		{invariant: "V1", what: "a plan's end commits without anything that follows from it", play: func(w *world, start func(...string) *process) {
			c := lapsing(w)
			start()
			w.hasLapsed(c)
		}},
		{invariant: "V2", what: "one attempt sends twice", play: suspending(lab.Fault{})},
		{invariant: "V3", what: "a claim is given back while its request is on its way", play: func(w *world, start func(...string) *process) {
			w.fault(lab.Fault{Name: lab.Slow, Seconds: 1.5, Operations: suspends})
			c := lapsing(w)
			start()
			start()
			w.comesToAnEnd(c)
		}},
		{invariant: "V4", what: "a change whose answer was lost is sent again without a read",
			play: suspending(lab.Fault{Name: lab.ResetBefore, Operations: suspends, Count: 1})},
		{invariant: "V5", what: "the facts that are kept are not those of the decision", play: suspending(lab.Fault{})},
		{invariant: "V6", what: "the carrier's Retry-After is not waited for",
			play: suspending(lab.Fault{Name: lab.Throttle, Variant: "seconds", Seconds: 5, Operations: suspends, Count: 1})},
		{invariant: "V7", what: "each slot is used twice, so that a second sees twice its limit", play: func(w *world, start func(...string) *process) {
			w.limit(simwarden.GroupEnforce, 20)
			w.fleet(150)
			start()
			eventually(w.t, "polls go out", func() bool { return len(w.arrivals(simwarden.PurposePoll)) >= 80 })
		}},
		{invariant: "V8", what: "suspends are not counted", play: suspending(lab.Fault{})},
		{invariant: "V9", what: "a SIM whose polling is paused is judged like any other", play: func(w *world, start func(...string) *process) {
			c := w.add(simwarden.StateActive, true)
			w.read(c, simwarden.StateActive, 0)
			w.buy(c, w.plan(time.Hour, allowance))
			w.pause(c)
			w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
			w.read(c, simwarden.StateActive, 2*allowance)
			start()
			w.evaluated(c, simwarden.SceneUsageCheck, 0)
		}},
		{invariant: "V10", what: "with one SIM the polling of its device's others is closed", play: func(w *world, start func(...string) *process) {
			cards := []card{w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)}
			w.device(cards...)
			start()
			for _, c := range cards {
				w.reads(c, simwarden.StateActive)
			}
			w.must(w.carrier.SetState(cards[0].iccid, simwarden.StateTerminated))
			eventually(w.t, "its polling is closed", func() bool { return w.closed(cards[0]) })
		}},
		{invariant: "V11", what: "a plan begins later than the one before it ended", play: func(w *world, start func(...string) *process) {
			c := lapsing(w)
			b := w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
			start()
			eventually(w.t, "the queued plan begins", func() bool {
				return w.count(`SELECT count(*) FROM subscription WHERE id = $1 AND state = 'active'`, b.ID) == 1
			})
		}},
		{invariant: "V12", what: "a claim that has run out is never taken back", openBound: time.Second, play: func(w *world, start func(...string) *process) {
			c := lapsing(w)
			start(fault.EnvName + "=cmd.before_write=kill").diesByKill("cmd.before_write")
			start()
			eventually(w.t, "the command has ended, or its claim has run out long since", func() bool {
				return w.count(`SELECT count(*) FROM command WHERE sim_id = $1 AND (ended_at IS NOT NULL OR state = 'sending' AND claim_until < $2)`,
					c.id, w.store.Now().Add(-3*time.Second)) == 1
			})
		}},
		{invariant: "V13", what: "nobody asks the safety brake", play: func(w *world, start func(...string) *process) {
			const most = 10
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				return tx.SetBrake(ctx, w.account.ID, 5, most, 10*time.Minute)
			})
			p := w.plan(time.Hour, allowance)
			for range most + 2 {
				c := w.add(simwarden.StateActive, true)
				w.read(c, simwarden.StateActive, 0)
				w.buy(c, p)
				w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
			}
			start()
			eventually(w.t, "all have used up their data", func() bool {
				return w.count(`SELECT count(*) FROM subscription WHERE state = 'exhausted'`) == most+2
			})
			braked := func() bool { return w.count(`SELECT count(*) FROM account WHERE braked_at IS NOT NULL`) == 1 }
			suspends := func() int { return w.count(`SELECT count(*) FROM command`) }
			eventually(w.t, "the brake is on, or all are suspended", func() bool { return braked() || suspends() == most+2 })
			if braked() { // which is how it should be: a person releases it, and the rest follow
				w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.ReleaseBrake(ctx, w.account.ID) })
				eventually(w.t, "the rest are suspended", func() bool { return suspends() == most+2 })
			}
		}},
		{invariant: "V14", what: "a person's suspend is forgotten", play: func(w *world, start func(...string) *process) {
			c := w.add(simwarden.StateActive, true)
			w.read(c, simwarden.StateActive, 0)
			start()
			w.orders(c, simwarden.DirectionSuspend)
			b := w.buy(c, w.plan(time.Hour, simwarden.UnlimitedBytes))
			w.judged(simwarden.ScenePlanActivated, b.ID)
		}},
		{invariant: "V15", what: "a purchase has one side", play: func(w *world, start func(...string) *process) {
			c := w.add(simwarden.StateActive, true)
			w.read(c, simwarden.StateActive, 0)
			w.wallet(c, 250)
			p := w.priced(w.plan(time.Hour, simwarden.UnlimitedBytes))
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				_, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: p, By: anna, Pay: true, Renew: true,
					StartAt: tx.At.Add(100*time.Millisecond - time.Hour)})
				return err
			})
			start()
			w.renewal(c)
		}},
		{invariant: "V16", what: "each reading is booked twice", play: func(w *world, start func(...string) *process) {
			c := w.add(simwarden.StateActive, true)
			w.read(c, simwarden.StateActive, 0)
			w.must(w.carrier.AddUsage(c.iccid, allowance))
			start()
			eventually(w.t, "the usage is booked", func() bool {
				return w.count(`SELECT count(*) FROM poll_state WHERE sim_id = $1 AND lifetime_bytes > 0`, c.id) == 1
			})
		}},
		{invariant: "V18", what: "a command leaves no record", play: suspending(lab.Fault{})},
	}
}

// suspending has a plan end while the carrier has a fault, and waits until the suspend has ended.
func suspending(f lab.Fault) func(*world, func(...string) *process) {
	return func(w *world, start func(...string) *process) {
		if f.Name != "" {
			w.fault(f)
		}
		c := lapsing(w)
		start()
		w.comesToAnEnd(c)
	}
}

// comesToAnEnd waits until the SIM has had commands and none is open.
func (w *world) comesToAnEnd(c card) {
	w.t.Helper()
	eventually(w.t, "the command has ended", func() bool {
		list := w.commands(c)
		return len(list) > 0 && !slices.ContainsFunc(list, func(c store.Command) bool { return c.State.Open() })
	})
}

func (w *world) hasLapsed(c card) {
	w.t.Helper()
	eventually(w.t, "the plan has ended", func() bool {
		return w.count(`SELECT count(*) FROM subscription WHERE sim_id = $1 AND state = 'expired'`, c.id) == 1
	})
}

// TestPlantedBugsAreCaught runs a program that breaks one invariant on purpose: a checker that stays
// silent then would prove nothing when it is silent elsewhere (reliability rule 2). The same program
// without the bug comes through the same play clean.
func TestPlantedBugsAreCaught(t *testing.T) {
	t.Parallel()
	path := binary(t, "planted")
	for _, b := range bugs() {
		for _, planted := range []bool{true, false} {
			name, env := b.invariant, fault.PlantedEnv+"="+b.invariant
			if !planted {
				name, env = b.invariant+" not planted", fault.PlantedEnv+"="
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				atATime <- struct{}{}
				t.Cleanup(func() { <-atATime })
				w := newWorld(t, "soracom", b.settings...)
				var running []*process
				b.play(w, func(more ...string) *process {
					p := w.serve(path, append([]string{env}, more...)...)
					running = append(running, p)
					return p
				})
				if !planted || b.openBound == 0 {
					w.calm()
				}
				for _, p := range running {
					if !p.hasEnded() {
						p.stop()
					}
				}
				if !planted {
					w.check()
					return
				}
				bound := openBound
				if b.openBound > 0 {
					bound = b.openBound
				}
				report := w.reportWithin(t, bound)
				if !slices.ContainsFunc(report.Violations, func(v check.Violation) bool { return v.Invariant == b.invariant }) {
					t.Errorf("%s: the checker reports no %s; it reports %v and has looked at %+v", b.what, b.invariant, report.Violations, report.Looked)
				}
			})
		}
	}
}
