package acceptance

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
	"github.com/simwarden/simwarden/lab"
)

// person is the operations as people use them, at the terminal.
func (w *world) person() *api.Service {
	return &api.Service{Store: w.store, Clock: clock.System(), Keyring: w.ring}
}

const anna = "cli:anna"

const imei = "490154203237518"

// device adds a device and puts the cards into it.
func (w *world) device(cards ...card) store.Device {
	w.t.Helper()
	d, err := w.person().AddDevice(w.ctx, imei, "pump", anna)
	w.must(err)
	for _, c := range cards {
		_, err := w.person().BindSIM(w.ctx, imei, c.iccid, false, anna, "fitted")
		w.must(err)
	}
	return d
}

// buyForDevice buys a plan for a device and waits until it has been judged.
func (w *world) buyForDevice(d store.Device, p simwarden.Plan) simwarden.Subscription {
	w.t.Helper()
	var b simwarden.Subscription
	w.tx(func(ctx context.Context, tx *store.Tx) (err error) {
		b, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{DeviceID: d.ID}, Plan: p, By: "test"})
		return err
	})
	w.deviceJudged(d, simwarden.ScenePlanActivated, b.ID)
	return b
}

// deviceJudged waits until the device's one request with the scene has been worked off.
func (w *world) deviceJudged(d store.Device, scene simwarden.Scene, sub simwarden.SubscriptionID) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("the device's evaluation with scene %s is worked off", scene), func() bool {
		return w.count(`SELECT count(*) FROM evaluation_request WHERE device_id = $1 AND scene = $2 AND subscription_id = $3 AND done_at IS NOT NULL`, d.ID, string(scene), sub) == 1
	})
}

// fitted gives a device with running SIMs that the node has read.
func (w *world) fitted(n int) (store.Device, []card) {
	w.t.Helper()
	cards := make([]card, n)
	for i := range cards {
		cards[i] = w.sim(simwarden.StateActive)
	}
	for _, c := range cards {
		w.reads(c, simwarden.StateActive)
		eventually(w.t, "its usage is read", func() bool {
			return w.count(`SELECT count(*) FROM poll_state WHERE sim_id = $1 AND usage_read_at IS NOT NULL`, c.id) == 1
		})
	}
	return w.device(cards...), cards
}

// closed says whether the SIM's polling is closed.
func (w *world) closed(c card) bool {
	w.t.Helper()
	return w.count(`SELECT count(*) FROM sim WHERE id = $1 AND closed_at IS NOT NULL`, c.id) == 1
}

// told waits until the poller has taken in what was changed of a SIM behind its back.
func (w *world) told(c card) {
	w.t.Helper()
	eventually(w.t, "the poller has learnt of it", func() bool { return w.count(`SELECT count(*) FROM poll_nudge WHERE sim_id = $1`, c.id) == 0 })
}

func TestS6ADeviceSeparatedSIMIsPolledAndJudgedAsEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, separated)
	w.run()
	c := w.sim(simwarden.StateSuspended)
	w.must(w.carrier.SetState(c.iccid, separatedWord))
	extended := func() string { return w.text(`SELECT extended FROM poll_state WHERE sim_id = $1`, c.id) }
	eventually(t, "the SIM is read as separated from its device", func() bool { return extended() == string(simwarden.ExtendedDeviceSeparated) })
	d := w.device(c)
	before := w.instant(`SELECT state_read_at FROM poll_state WHERE sim_id = $1`, c.id)
	eventually(t, "polling goes on", func() bool {
		return w.instant(`SELECT state_read_at FROM poll_state WHERE sim_id = $1`, c.id).After(before)
	})
	if w.closed(c) {
		t.Fatal("its polling is closed: only risk_suspended and terminated close it (P5)")
	}

	b := w.buyForDevice(d, w.plan(6*time.Second, simwarden.UnlimitedBytes))
	eventually(t, "the SIM is resumed (E7)", func() bool { return w.truth(c).State == simwarden.StateActive })
	w.deviceJudged(d, simwarden.ScenePlanLapsed, b.ID)
	eventually(t, "the SIM is suspended (E7)", func() bool { return w.truth(c).State == simwarden.StateSuspended })
	var list []store.Command
	eventually(t, "both commands are done", func() bool {
		list = slices.DeleteFunc(w.commands(c), func(c store.Command) bool { return c.State == simwarden.CommandReplaced }) // of a check just before
		return !slices.ContainsFunc(list, func(c store.Command) bool { return c.State.Open() })
	})
	if len(list) != 2 || list[0].Direction != simwarden.DirectionResume || list[1].Direction != simwarden.DirectionSuspend {
		t.Errorf("the commands are %s", describe(list))
	}
	if n := w.count(`SELECT count(*) FROM event WHERE sim_id = $1 AND kind IN ('polling_closed', 'polling_paused', 'device_polling_paused')`, c.id); n != 0 {
		t.Errorf("its polling was stopped %d times", n)
	}
}

func TestS7OneSIMOfADeviceIsTerminated(t *testing.T) {
	t.Parallel()
	for _, driver := range []string{"soracom", "onelink"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, driver)
			w.run()
			d, cards := w.fitted(3)
			w.must(w.carrier.SetState(cards[1].iccid, simwarden.StateTerminated))
			eventually(t, "the polling of the terminated SIM is closed", func() bool { return w.closed(cards[1]) })
			if got := w.text(`SELECT extended FROM poll_state WHERE sim_id = $1`, cards[1].id); got != string(simwarden.ExtendedTerminated) {
				t.Errorf("its extended state is %q", got)
			}
			w.told(cards[1])
			last := w.lines(cards[1], lab.KindRead)
			for _, c := range []card{cards[0], cards[2]} {
				before := w.instant(`SELECT state_read_at FROM poll_state WHERE sim_id = $1`, c.id)
				eventually(t, "the other SIMs are still read", func() bool {
					return w.instant(`SELECT state_read_at FROM poll_state WHERE sim_id = $1`, c.id).After(before)
				})
				if w.closed(c) {
					t.Errorf("the polling of SIM %s is closed as well (E8)", c.iccid)
				}
			}
			if n := len(w.lines(cards[1], lab.KindRead)); n > len(last)+2 { // one may have been under way, and another about to begin
				t.Errorf("the terminated SIM was read %d times after its polling was closed", n-len(last))
			}
			if n := w.count(`SELECT count(*) FROM device WHERE id = $1 AND paused_at IS NULL`, d.ID); n != 1 {
				t.Error("the device is paused: closing never spreads (E8)")
			}
			for _, c := range cards {
				if list := w.commands(c); len(list) != 0 {
					t.Errorf("there are commands: %s", describe(list))
				}
			}
		})
	}
}

func TestS11EachActiveSIMOfADeviceIsSuspendedWhenItsPlanEnds(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run(rarely)
		d, cards := w.fitted(3)
		b := w.buyForDevice(d, w.plan(4*time.Second, simwarden.UnlimitedBytes))
		w.pause(cards[2])
		for _, c := range cards {
			cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
			w.suspended(c)
			if cmd.SubscriptionID != b.ID {
				t.Errorf("the command of SIM %s speaks of subscription %d, want the device's %d (V1)", c.iccid, cmd.SubscriptionID, b.ID)
			}
		}
		asked := w.instant(`SELECT asked_at FROM evaluation_request WHERE device_id = $1 AND scene = 'plan_lapsed' AND subscription_id = $2`, d.ID, b.ID)
		if ended := w.instant(`SELECT ended_at FROM subscription WHERE id = $1`, b.ID); !asked.Equal(ended) {
			t.Errorf("the device was asked about at %s, the plan ended at %s: not in one transaction (L1)", asked, ended)
		}
	})
}

func TestS20TheDevicesPollingIsPausedAndItsPlanEnds(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		d, cards := w.fitted(2)
		b := w.buyForDevice(d, w.plan(8*time.Second, allowance))
		_, changed, err := w.person().DevicePolling(w.ctx, imei, true, anna, "workshop")
		w.must(err)
		if !changed {
			t.Fatal("the device's polling was paused already")
		}
		for _, c := range cards {
			w.spends(c, 2*allowance)
			w.evaluated(c, simwarden.SceneUsageCheck, 0)
		}
		if n := w.count(`SELECT count(*) FROM subscription WHERE id = $1 AND used_bytes >= allowance_bytes`, b.ID); n != 1 {
			t.Fatal("the device's allowance is not used up")
		}
		for _, c := range cards {
			cmd := w.only(c, simwarden.DirectionSuspend, simwarden.ScenePlanLapsed, simwarden.ReasonNoPlan)
			w.suspended(c)
			if cmd.CreatedAt.Before(b.EndAt) {
				t.Errorf("the suspend was ordered at %s, before the plan's end at %s", cmd.CreatedAt, b.EndAt)
			}
		}
	})
}

// Nothing but the reading of one SIM tells that the device's data has come to an end: the others are not read
// and no periodic pass comes by.
func TestE8ADeviceThatUsesUpItsPlanStopsWithAllItsSIMs(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run(rarely)
		d, cards := w.fitted(3)
		b := w.buyForDevice(d, w.plan(time.Hour, allowance))
		read, other, paused := cards[0], cards[1], cards[2]
		w.pause(paused)
		asked := func() int {
			return w.count(`SELECT count(*) FROM evaluation_request WHERE device_id = $1 AND scene = 'usage_check'`, d.ID)
		}
		w.spends(read, allowance-1)
		if n := asked(); n != 0 {
			t.Errorf("the device is asked about %d times while it has data", n)
		}
		w.spends(read, 1)
		for _, c := range []card{read, other} {
			w.only(c, simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.ReasonDataExhausted)
			w.suspended(c)
		}
		w.spends(other, 10)
		if n := asked(); n != 1 {
			t.Errorf("the device is asked about %d times, want once: its data came to an end once", n)
		}
		w.unchanged(paused, "S4: its polling is paused")

		w.tx(func(ctx context.Context, tx *store.Tx) error { return plans.Refund(ctx, tx, b.ID, anna, "acceptance") })
		w.only(paused, simwarden.DirectionSuspend, simwarden.SceneRefunded, simwarden.ReasonNoPlan)
		w.evaluated(paused, simwarden.SceneRefunded, b.ID)
		w.suspended(paused)
	})
}

func TestL6ADeviceThatHasDrawnItsCapStopsWithAllItsSIMs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom", seldom)
	w.run(rarely)
	d, cards := w.fitted(2)
	w.buyForDevice(d, w.plan(time.Hour, ownBytes))
	alone, _ := w.running(time.Hour, ownBytes)
	w.share(simwarden.PoolOverCap, 4*ownBytes, alone)
	_, err := w.person().AddPoolMembers(w.ctx, "meters", api.Candidates{Devices: []string{d.IMEI}}, nil, anna)
	w.must(err)
	w.spends(alone, ownBytes+poolBytes)
	w.poolJudged(simwarden.SceneUsageCheck)
	w.spends(cards[0], 5*ownBytes-1)
	w.evaluated(cards[1], simwarden.ScenePeriodic, 0)
	for _, c := range cards {
		w.unchanged(c, "below its cap")
	}
	w.spends(cards[0], 1)
	for _, c := range cards {
		w.stops(c)
	}
}

// spends has the SIM use data, and takes in a reading of it.
func (w *world) spends(c card, bytes int64) {
	w.t.Helper()
	w.must(w.carrier.AddUsage(c.iccid, bytes))
	w.uses(c, bytes)
}

// uses takes in a reading of the SIM's usage, as from a list that names every SIM, although its
// polling is stopped.
func (w *world) uses(c card, bytes int64) {
	w.t.Helper()
	var counter int64
	var period *time.Time
	w.must(w.pool.QueryRow(w.ctx, `SELECT usage_counter_bytes, usage_period_start_at FROM poll_state WHERE sim_id = $1`, c.id).Scan(&counter, &period))
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		u := simwarden.UsageReading{CounterBytes: counter + bytes, TrueAt: tx.At}
		if period != nil {
			u.PeriodStartAt = period.UTC()
		}
		obs := []store.Observed{{SIMID: c.id, Reading: simwarden.Reading{ReadAt: tx.At, Usage: &u}}}
		if _, err := usage.Book(ctx, tx, obs); err != nil {
			return err
		}
		_, err := reconcile.Observe(ctx, tx, obs)
		return err
	})
}
