package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

const allowance = 10 << 20

func TestS4AndS5UsagePassesTheAllowanceWhilePollingIsPaused(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		c, _ := w.running(time.Hour, allowance)
		// The marker: what happens to it would have happened to the other by then.
		marker, _ := w.running(time.Hour, allowance)
		w.pause(c)
		w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
		w.must(w.carrier.AddUsage(marker.iccid, 2*allowance))
		w.only(marker, simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.ReasonDataExhausted)
		w.evaluated(c, simwarden.SceneUsageCheck, 0)
		w.periodic(c)
		if list := w.commands(c); len(list) != 0 {
			t.Errorf("S4: polling is paused, and there are commands: %s", describe(list))
		}
		if n := len(w.changes(c)); n != 0 || w.truth(c).State != simwarden.StateActive {
			t.Errorf("S4: SIM %s is %s after %d requests", c.iccid, w.truth(c).State, n)
		}

		w.resumePolling(c)
		w.ends(c, simwarden.CommandDone)
		w.suspended(c)
		if cmd := w.commands(c)[0]; cmd.Direction != simwarden.DirectionSuspend || cmd.Reason != simwarden.ReasonDataExhausted {
			t.Errorf("S5: %s", describe([]store.Command{cmd}))
		}
	})
}

func TestS5TheEvaluationAtOnceSuspendsWhereTheUsageIsKnown(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver, seldom)
		w.run()
		c, _ := w.running(time.Hour, allowance)
		w.pause(c)
		// The usage becomes known all the same, as from a list that names every SIM.
		w.must(w.carrier.AddUsage(c.iccid, 2*allowance))
		var counter, spent int64
		var period *time.Time
		w.must(w.pool.QueryRow(w.ctx, `SELECT usage_counter_bytes, usage_period_start_at FROM poll_state WHERE sim_id = $1`, c.id).Scan(&counter, &period))
		w.tx(func(ctx context.Context, tx *store.Tx) error {
			u := simwarden.UsageReading{CounterBytes: counter + 2*allowance, TrueAt: tx.At}
			if period != nil {
				u.PeriodStartAt = period.UTC()
			}
			reading := simwarden.Reading{ReadAt: tx.At, Usage: &u}
			obs := []store.Observed{{SIMID: c.id, Reading: reading}}
			if _, err := usage.Book(ctx, tx, obs); err != nil {
				return err
			}
			_, err := reconcile.Observe(ctx, tx, obs)
			return err
		})
		w.must(w.pool.QueryRow(w.ctx, `SELECT max(used_bytes) FROM subscription WHERE sim_id = $1`, c.id).Scan(&spent))
		if spent < allowance {
			t.Fatalf("%d bytes are booked, want at least %d", spent, allowance)
		}
		w.evaluated(c, simwarden.SceneUsageCheck, 0)
		if list := w.commands(c); len(list) != 0 {
			t.Errorf("S4: polling is paused, and there are commands: %s", describe(list))
		}
		w.resumePolling(c)
		// Taking polling up again asks for a judgement and for readings at once; whichever is first suspends it.
		if cmd := w.ends(c, simwarden.CommandDone); cmd.Direction != simwarden.DirectionSuspend || cmd.Reason != simwarden.ReasonDataExhausted {
			t.Errorf("the command is %s for %s, want a suspend for the data", cmd.Direction, cmd.Reason)
		}
		w.suspended(c)
	})
}
