package evaluator_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/evaluator"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

// device adds a device with running SIMs in it.
func (w *world) device(imei string, sims ...simwarden.SIMID) simwarden.DeviceID {
	w.t.Helper()
	var d store.Device
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		id, err := simwarden.ParseIMEI(imei)
		if err != nil {
			return err
		}
		d, err = tx.AddDevice(ctx, id, "")
		return err
	})
	for _, sim := range sims {
		if err := w.bind(d.ID, sim, false); err != nil {
			w.t.Fatal(err)
		}
	}
	return d.ID
}

func (w *world) bind(device simwarden.DeviceID, sim simwarden.SIMID, movePlans bool) error {
	return w.store.InTx(w.t.Context(), func(tx *store.Tx) error {
		_, err := reconcile.BindSIM(w.t.Context(), tx, reconcile.Binding{SIMID: sim, DeviceID: device, MovePlans: movePlans, Actor: "cli:anna", Reason: "fitted"})
		return err
	})
}

func (w *world) unbind(device simwarden.DeviceID, sim simwarden.SIMID) error {
	return w.store.InTx(w.t.Context(), func(tx *store.Tx) error {
		return reconcile.UnbindSIM(w.t.Context(), tx, reconcile.Binding{SIMID: sim, DeviceID: device, Actor: "cli:anna", Reason: "taken out"})
	})
}

func (w *world) subscribeDevice(id simwarden.DeviceID, p simwarden.Plan) simwarden.Subscription {
	w.t.Helper()
	var b simwarden.Subscription
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{DeviceID: id}, Plan: p, By: "test"})
		return err
	})
	return b
}

func (w *world) pauseDevice(id simwarden.DeviceID, pause bool) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		do := reconcile.PauseDevice
		if !pause {
			do = reconcile.ResumeDevice
		}
		changed, err := do(ctx, tx, id, "cli:anna", "field test")
		if err == nil && !changed {
			err = errors.New("nothing has changed")
		}
		return err
	})
}

const imei, otherIMEI = "490154203237518", "356938035643809"

func TestS11EachActiveSIMOfADeviceIsSuspendedAtItsPlansEnd(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	active, paused, stopped := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive), w.sim(simwarden.StateSuspended)
	d := w.device(imei, active, paused, stopped)
	b := w.subscribeDevice(d, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, paused, "cli:anna", "")
		return err
	})
	w.clock.Advance(30 * day)
	w.observe(stopped, simwarden.StateSuspended)
	w.settle()
	for _, id := range []simwarden.SIMID{active, paused} {
		c := one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
		if c.SubscriptionID != b.ID {
			t.Errorf("the command speaks of subscription %d, want %d (V1)", c.SubscriptionID, b.ID)
		}
	}
	for _, c := range w.commands(stopped) {
		if c.Direction == simwarden.DirectionSuspend {
			t.Errorf("a suspend was ordered for a SIM that is suspended (E3)")
		}
	}
}

func TestE12AGuardBandStopsAllSIMsOfADeviceAtTheReadingOfOne(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	read, other, paused := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	d := w.device(imei, read, other, paused)
	band := int64(1000)
	p := simwarden.Plan{Code: "promised", Name: "promised", Kind: simwarden.PlanMain, AllowanceBytes: 1_000_000, GuardBandBytes: &band,
		ValidityUnit: simwarden.ValidityDays, ValidityCount: 30, Reset: simwarden.ResetNone, Zone: "UTC"}
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		p, err = tx.AddPlan(ctx, p)
		return err
	})
	b := w.subscribeDevice(d, p)
	w.counter(read, 0)
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, paused, "cli:anna", "")
		return err
	})
	w.clock.Advance(time.Minute)
	w.counter(read, 900_000)
	if used := w.subscription(b.ID).UsedBytes; used != 900_000 {
		t.Fatalf("the device has used %d bytes", used)
	}
	w.settle()
	for _, id := range []simwarden.SIMID{read, other} {
		one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.ReasonDataExhausted)
	}
	none(t, w.commands(paused), "S4: its polling is paused")
	if n := w.count(`SELECT count(*) FROM evaluation_request WHERE device_id = $1 AND scene = 'usage_check'`, int64(d)); n != 1 {
		t.Errorf("the device was asked about %d times, want once", n)
	}
}

func TestE6DevicePauseLetsItsPlansEndTriggerOnce(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	d := w.device(imei, id)
	b := w.subscribeDevice(d, w.plan("small", simwarden.PlanMain, 1000, 30))
	w.settle()
	w.pauseDevice(d, true)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.Spend(ctx, []store.SpentRow{{ID: b.ID, UsedBytes: 1000, Exhausted: true}})
	})
	w.evaluate(id, simwarden.SceneUsageCheck, 0)
	none(t, w.commands(id), "S20: the device's polling is paused and the allowance used up")
	w.clock.Advance(30 * day)
	w.settle()
	c := one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	w.end(c, simwarden.CommandFailed)
	w.evaluate(id, simwarden.ScenePlanLapsed, b.ID)
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
	w.pauseDevice(d, false)
	w.settle()
	list := w.commands(id)
	if len(list) != 2 || list[0].Scene != simwarden.ScenePollingResumed || list[0].Reason != simwarden.ReasonNoPlan {
		t.Errorf("E9: when the device's polling goes on the SIM has the commands %+v", list)
	}
}

func TestE6APausedSIMsLapseHasOneSayAndNoSecondWhenPollingGoesOn(t *testing.T) {
	for _, scene := range []simwarden.Scene{simwarden.ScenePlanLapsed, simwarden.SceneRefunded} {
		for _, state := range []simwarden.CommandState{simwarden.CommandFailed, simwarden.CommandDone} {
			t.Run(string(scene)+" "+string(state), func(t *testing.T) {
				w := newWorld(t, simwarden.ModeAct)
				id := w.sim(simwarden.StateActive)
				b := w.subscribe(id, w.plan("month", simwarden.PlanMain, 1<<30, 30))
				w.settle()
				w.tx(func(ctx context.Context, tx *store.Tx) error {
					if _, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", ""); err != nil {
						return err
					}
					if scene == simwarden.SceneRefunded {
						return plans.Refund(ctx, tx, b.ID, "cli:anna", "test")
					}
					return nil
				})
				w.clock.Advance(30 * day)
				w.settle()
				c := one(t, w.commands(id), simwarden.DirectionSuspend, scene, simwarden.ReasonNoPlan)
				w.end(c, state)
				for range 3 { // whoever asks, and however often the process starts anew
					w.reopen()
					for _, s := range simwarden.Scenes() {
						if s == scene || !s.IgnoresPause() {
							w.evaluate(id, s, b.ID)
						}
					}
					w.settle()
					w.clock.Advance(day)
					w.observe(id, simwarden.StateActive)
				}
				one(t, w.commands(id), simwarden.DirectionSuspend, scene, simwarden.ReasonNoPlan)
				w.tx(func(ctx context.Context, tx *store.Tx) error {
					_, err := reconcile.ResumePolling(ctx, tx, id, "cli:anna", "")
					return err
				})
				w.evaluate(id, scene, b.ID)
				one(t, w.commands(id), simwarden.DirectionSuspend, scene, simwarden.ReasonNoPlan)
				w.settle()
				list := w.commands(id)
				if len(list) != 2 || list[0].Scene != simwarden.ScenePollingResumed {
					t.Errorf("E9: when polling goes on the SIM has the commands %+v", list)
				}
			})
		}
	}
}

// reopen closes the database and opens it again, as a new process would.
func (w *world) reopen() {
	w.t.Helper()
	w.store.Close()
	s, err := store.Open(w.t.Context(), store.Options{URL: w.url, Clock: w.clock})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(s.Close)
	w.store = s
	w.sweeper = &plans.Sweeper{Store: s, Clock: w.clock, Log: slog.New(slog.DiscardHandler)}
	w.eval = &evaluator.Evaluator{Store: s, Clock: w.clock, Log: slog.New(slog.DiscardHandler), Holder: "test again"}
}

func TestE8BindingBringsTheDevicesPlansToBear(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	in, late := w.sim(simwarden.StateActive), w.sim(simwarden.StateSuspended)
	d := w.device(imei, in)
	w.subscribeDevice(d, p)
	w.settle()
	if err := w.bind(d, late, false); err != nil {
		t.Fatal(err)
	}
	w.settle()
	one(t, w.commands(late), simwarden.DirectionResume, simwarden.ScenePlanCheck, simwarden.ReasonNone)
	none(t, w.commands(in), "one SIM's coming changes nothing for the others (E8)")
	if err := w.unbind(d, in); err != nil {
		t.Fatal(err)
	}
	w.settle()
	one(t, w.commands(in), simwarden.DirectionSuspend, simwarden.ScenePlanCheck, simwarden.ReasonNoPlan)
	stays, err := w.store.Bindings(t.Context(), store.BindingFilter{DeviceID: d, Limit: 10})
	if err != nil {
		t.Fatal(err)
	}
	if len(stays) != 2 || !stays[0].UnboundAt.IsZero() || stays[1].UnboundAt.IsZero() || stays[1].UnboundReason != "taken out" || stays[1].BoundBy != "cli:anna" {
		t.Errorf("the history of the device is %+v", stays)
	}
}

func TestE6APlansEndIsNotLostForASIMThatLeavesTheDevice(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateActive)
	d := w.device(imei, id)
	w.subscribeDevice(d, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.PausePolling(ctx, tx, id, "cli:anna", "")
		return err
	})
	w.clock.Advance(30 * day)
	if _, err := w.sweeper.Sweep(t.Context()); err != nil { // the device is asked about, and not judged yet
		t.Fatal(err)
	}
	if err := w.unbind(d, id); err != nil {
		t.Fatal(err)
	}
	w.settle()
	one(t, w.commands(id), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
}

func TestBindingWhatCannotBeBound(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, 1<<30, 30)
	id, own, alien := w.sim(simwarden.StateActive), w.sim(simwarden.StateActive), w.sim(simwarden.StateActive)
	w.subscribe(own, p)
	d, other, planned := w.device(imei, id), w.device(otherIMEI), w.device("356938035643817")
	w.subscribeDevice(planned, p)
	for _, row := range []struct {
		name string
		do   func() error
		want error
	}{
		{"a SIM twice to one device", func() error { return w.bind(d, id, false) }, store.ErrBound},
		{"a SIM to a second device", func() error { return w.bind(other, id, false) }, store.ErrBound},
		{"a SIM with plans of its own", func() error { return w.bind(d, own, false) }, reconcile.ErrOwnPlans},
		{"its plans to a device with a plan", func() error { return w.bind(planned, own, true) }, reconcile.ErrPlansCollide},
		{"a SIM out of a device that it is not in", func() error { return w.unbind(d, alien) }, store.ErrNotBound},
		{"a SIM out of another device", func() error { return w.unbind(other, id) }, store.ErrNotBound},
		{"a SIM to a device that is not there", func() error { return w.bind(4711, alien, false) }, store.ErrNotFound},
		{"one device twice", func() error {
			return w.store.InTx(t.Context(), func(tx *store.Tx) error {
				again, err := simwarden.ParseIMEI(imei[:14] + "03") // its IMEISV: the same equipment
				if err != nil {
					return err
				}
				_, err = tx.AddDevice(t.Context(), again, "")
				return err
			})
		}, store.ErrDeviceExists},
	} {
		if err := row.do(); !errors.Is(err, row.want) {
			t.Errorf("%s: the error is %v, want %v", row.name, err, row.want)
		}
	}
	if n := len(w.commands(id)) + len(w.commands(own)); n != 0 {
		t.Errorf("%d commands came of what was refused", n)
	}
}

func TestE8APlanThatMovesWithItsSIMServesTheWholeDevice(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	p := w.plan("month", simwarden.PlanMain, simwarden.UnlimitedBytes, 30)
	in, comes := w.sim(simwarden.StateSuspended), w.sim(simwarden.StateActive)
	d := w.device(imei, in)
	b := w.subscribe(comes, p)
	w.subscribe(comes, p) // one more is queued
	w.settle()
	if err := w.bind(d, comes, true); err != nil {
		t.Fatal(err)
	}
	w.settle()
	one(t, w.commands(in), simwarden.DirectionResume, simwarden.ScenePlanCheck, simwarden.ReasonNone)
	list, err := w.store.SubscriptionsOfDevice(t.Context(), d, 10)
	if err != nil || len(list) != 2 || list[1].ID != b.ID || list[1].State != simwarden.SubscriptionActive || list[0].State != simwarden.SubscriptionQueued {
		t.Fatalf("the device has %+v (%v), want the SIM's active and its queued plan", list, err)
	}
	w.clock.Advance(30 * day)
	w.settle()
	none(t, w.commands(comes), "L4: the queued plan follows at the device as it would have at the SIM")
	w.clock.Advance(30 * day)
	w.settle()
	one(t, w.commands(comes), simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
}

func TestP4ADevicesPauseHoldsForSIMsThatComeAndEndsForThoseThatGo(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	id := w.sim(simwarden.StateSuspended)
	d := w.device(imei)
	w.subscribeDevice(d, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.pauseDevice(d, true)
	if err := w.bind(d, id, false); err != nil {
		t.Fatal(err)
	}
	w.settle()
	none(t, w.commands(id), "E5: the device's polling is paused")
	if err := w.unbind(d, id); err != nil {
		t.Fatal(err)
	}
	w.settle()
	sim, err := w.store.SIM(t.Context(), id)
	if err != nil || sim.DecidedScene != simwarden.ScenePollingResumed || sim.Reason != simwarden.ReasonNoPlan {
		t.Errorf("the SIM that left is decided in scene %s for %s (%v), want polling_resumed for no_plan (E9, E2)", sim.DecidedScene, sim.Reason, err)
	}
	kinds := ""
	timeline, err := w.store.Timeline(t.Context(), id, 0, 50)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range timeline {
		switch e.Kind {
		case store.EventBound, store.EventUnbound, store.EventDevicePaused, store.EventDeviceResumed:
			kinds = e.Kind + " " + kinds
		}
	}
	if want := "device_bound device_polling_paused device_unbound device_polling_resumed "; kinds != want {
		t.Errorf("the SIM's timeline has %q, want %q", kinds, want)
	}
}

func TestL1AllSIMsOfALargeDeviceAreJudged(t *testing.T) {
	w := newWorld(t, simwarden.ModeAct)
	d := w.device(imei)
	const n = 1100 // more than one transaction judges
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		list := make([]store.NewSIM, n)
		for i := range list {
			iccid, err := simwarden.ParseICCID(fmt.Sprintf("898600000001%07d", i))
			if err != nil {
				return err
			}
			list[i] = store.NewSIM{ICCID: iccid, Raw: iccid.String(), DeviceID: d}
		}
		ids, err := tx.AddSIMs(ctx, w.account, list, 0)
		if err != nil {
			return err
		}
		obs := make([]store.Observed, n)
		for i, id := range ids {
			obs[i] = store.Observed{SIMID: id, Reading: simwarden.Reading{ReadAt: tx.At, State: &simwarden.StateReading{State: simwarden.StateActive, Extended: simwarden.ExtendedNone, Raw: "active"}}}
		}
		_, err = reconcile.Observe(ctx, tx, obs)
		return err
	})
	w.subscribeDevice(d, w.plan("month", simwarden.PlanMain, 1<<30, 30))
	w.settle()
	w.clock.Advance(30 * day)
	w.settle()
	list, err := w.store.Commands(t.Context(), store.CommandFilter{Limit: 2 * n})
	if err != nil || len(list) != n {
		t.Errorf("%d suspends were ordered (%v), want %d", len(list), err, n)
	}
}

// evaluate judges a SIM with a scene, as when somebody asks.
func (w *world) evaluate(id simwarden.SIMID, scene simwarden.Scene, sub simwarden.SubscriptionID) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		_, err := reconcile.SIM(ctx, tx, reconcile.Item{SIMID: id, Scene: scene, SubscriptionID: sub, AskedBy: "test"})
		return err
	})
}

// end ends a queued command as the commander would, and lets the pause after a failure pass.
func (w *world) end(c store.Command, state simwarden.CommandState) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		ended, err := tx.EndCommand(ctx, c.ID, simwarden.CommandQueued, state, "as a test")
		if err == nil && !ended {
			err = errors.New("it was not queued")
		}
		return err
	})
	w.clock.Advance(time.Minute)
}
