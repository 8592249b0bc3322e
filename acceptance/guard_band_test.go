package acceptance

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

// A SIM that has lain idle near the end of its data begins to stream. The next reading alone tells of it,
// and usage is late: with a guard band it is stopped at once, a gigabyte before the end of its data.
func TestE12AGuardBandStopsASuddenStreamerEarly(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		const gb = 1_000_000_000
		w := newWorld(t, driver)
		w.run()
		band := int64(gb)
		sold := func(p simwarden.Plan) card {
			c := w.sim(simwarden.StateActive)
			w.reads(c, simwarden.StateActive)
			p.Name, p.Kind, p.AllowanceBytes, p.Zone = "test", simwarden.PlanMain, 60*gb, "UTC"
			p.ValidityUnit, p.ValidityCount, p.Reset = simwarden.ValidityDays, 30, simwarden.ResetNone
			w.tx(func(ctx context.Context, tx *store.Tx) error {
				p, err := tx.AddPlan(ctx, p)
				if err != nil {
					return err
				}
				_, err = plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: p, By: "test", StartAt: tx.At.Add(-time.Hour), UsedBytes: 59 * gb})
				return err
			})
			eventually(t, "its usage is known", func() bool {
				return w.count(`SELECT count(*) FROM poll_state WHERE sim_id = $1 AND usage_counter_bytes IS NOT NULL`, c.id) == 1
			})
			return c
		}
		streamer := sold(simwarden.Plan{Code: "promised", GuardBandBytes: &band})
		other := sold(simwarden.Plan{Code: "plain"})
		for _, c := range []card{streamer, other} {
			w.evaluated(c, simwarden.ScenePeriodic, 0)
			if list := w.commands(c); len(list) != 0 {
				t.Fatalf("a SIM that uses nothing is left running below its allowance: %s", describe(list))
			}
			w.must(w.carrier.AddUsage(c.iccid, gb/10))
		}

		cmd := w.only(streamer, simwarden.DirectionSuspend, simwarden.SceneUsageCheck, simwarden.ReasonDataExhausted)
		w.suspended(streamer)
		i := slices.IndexFunc(cmd.Decision.Checks, func(c simwarden.Check) bool { return c.Name == rules.CheckGuardBand })
		if i < 0 || cmd.Decision.Checks[i].Passed || !strings.Contains(cmd.Decision.Checks[i].Saw, "with probability 0.95") {
			t.Errorf("the decision does not say what it rests on: %+v", cmd.Decision.Checks)
		}
		eventually(t, "the other's usage is booked", func() bool {
			return w.count(`SELECT count(*) FROM subscription WHERE sim_id = $1 AND used_bytes = 59100000000`, other.id) == 1
		})
		w.evaluated(other, simwarden.ScenePeriodic, 0)
		if list := w.commands(other); len(list) != 0 {
			t.Errorf("without a guard band a SIM runs until its data is used up: %s", describe(list))
		}

		promise := func(want store.GuardBandReport) {
			t.Helper()
			want.AccountID, want.Account, want.Plan, want.GuardBandBytes, want.Probability = w.account.ID, "acme", "promised", gb, 0.95
			want.Promises, want.Early, want.KeptShare = 1, 1, float64(want.Kept)
			var got []store.GuardBandReport
			eventually(t, "the promise is measured", func() (is bool) {
				var err error
				got, err = w.person().GuardBands(w.ctx, "acme", time.Time{})
				w.must(err)
				return len(got) == 1 && got[0] == want
			})
		}
		promise(store.GuardBandReport{Kept: 1})
		// What was used until the stop and booked later counts (U4).
		w.must(w.carrier.AddUsage(streamer.iccid, 18*gb/10))
		promise(store.GuardBandReport{Kept: 1, WorstOverrunBytes: 9 * gb / 10})
		w.must(w.carrier.AddUsage(streamer.iccid, 2*gb/10))
		promise(store.GuardBandReport{WorstOverrunBytes: 11 * gb / 10})
		w.evaluated(streamer, simwarden.ScenePeriodic, 0)
		if list := w.commands(streamer); len(list) != 1 {
			t.Errorf("the stop does not last: %s", describe(list))
		}

		w.topUp(streamer, 100*gb)
		eventually(t, "the SIM runs again", func() bool { return w.truth(streamer).State == simwarden.StateActive })
		eventually(t, "what it uses from then on is not that promise's", func() bool {
			return w.count(`SELECT count(*) FROM guard_band_stop WHERE sim_id = $1 AND until_at IS NOT NULL AND NOT withdrawn`, streamer.id) == 1
		})
	})
}
