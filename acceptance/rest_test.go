package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

func TestG8ABarredAccountIsNotAskedForEverySIM(t *testing.T) {
	t.Parallel()
	const sims = 300
	w := newWorld(t, "soracom", seldom)
	p := w.plan(24*time.Hour, simwarden.UnlimitedBytes)
	cards := make([]card, sims)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		list := make([]store.NewSIM, sims)
		for i := range cards {
			truth, err := w.carrier.AddSIM(lab.NewSIM{State: simwarden.StateSuspended, Age: time.Hour})
			if err != nil {
				return err
			}
			cards[i].iccid = truth.ICCID
			list[i] = store.NewSIM{ICCID: simwarden.MustParseICCID(truth.ICCID), Raw: truth.ICCID, Key: truth.Key}
		}
		ids, err := tx.AddSIMs(ctx, w.account, list, 0)
		for i, id := range ids {
			cards[i].id = id
		}
		return err
	})
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		for _, c := range cards {
			if _, err := plans.Subscribe(ctx, tx, plans.Order{Asset: store.Asset{SIMID: c.id}, Plan: p, By: "test"}); err != nil {
				return err
			}
		}
		return nil
	})
	w.carrier.Bar(simwarden.DirectionResume)
	fast := func(c *app.Config) {
		c.Rest = rules.DefaultRest()
		c.Rest.FirstProbe, c.Rest.ProbeMost = 300*time.Millisecond, time.Second
	}
	w.run(fast, rarely)
	w.run(fast, rarely)
	requests := func() (n int) {
		for _, l := range w.lab.LogLines() {
			if l.Kind == lab.KindChange {
				n++
			}
		}
		return n
	}
	resting := `SELECT count(*) FROM command WHERE state = 'queued' AND held_by = 'account at rest'`
	eventually(t, "nearly all commands wait, and say for what", func() bool { return w.count(resting) >= 200 })
	eventually(t, "SIMs are tried now and then", func() bool { return w.count(`SELECT coalesce(max(probes), 0) FROM account_rest`) >= 2 })
	// Twice ten answers and what two nodes have under way with 16 workers each: answers that come at one instant do
	// not see each other. And the probes, which are counted before they are sent.
	n := requests()
	if most := 2*(10+2*16) + w.count(`SELECT max(probes) FROM account_rest`); n > most {
		t.Errorf("the carrier, which refuses everybody, was asked %d times, want at most %d of %d SIMs", n, most, sims)
	}
	eventually(t, "one alert stands for all", func() bool {
		return w.count(`SELECT count(*) FROM alert WHERE cleared_at IS NULL`) == 1 &&
			w.count(`SELECT count(*) FROM alert WHERE cleared_at IS NULL AND kind = $1`, store.AlertRest) == 1
	})
	w.carrier.Bar("")
	eventually(t, "all are resumed", func() bool {
		return w.count(`SELECT count(DISTINCT sim_id) FROM command WHERE state = 'done'`) == sims
	})
	for _, c := range cards {
		if s := w.truth(c).State; s != simwarden.StateActive {
			t.Errorf("SIM %s is %s", c.iccid, s)
		}
	}
	if n := w.count(`SELECT count(*) FROM alert WHERE cleared_at IS NULL`); n != 0 {
		t.Errorf("%d alerts are open after the block", n)
	}
}
