package acceptance

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	ownBytes  = 1 << 20  // of each member's plan
	poolBytes = 10 << 20 // that they share
)

// share adds a pool with the cards in it.
func (w *world) share(policy simwarden.PoolPolicy, capBytes int64, cards ...card) store.Pool {
	w.t.Helper()
	p, err := w.person().AddPool(w.ctx, store.Pool{Name: "meters", Policy: policy, AllowanceBytes: poolBytes, CapBytes: capBytes}, anna)
	w.must(err)
	for _, c := range cards {
		moves, err := w.person().AddPoolMembers(w.ctx, p.Name, api.Candidates{SIMs: []string{c.iccid}}, nil, anna)
		w.must(err)
		if len(moves) != 1 || !moves[0].Moved {
			w.t.Fatalf("SIM %s is not in the pool: %+v", c.iccid, moves)
		}
	}
	return p
}

// drawn waits until so much has been drawn from the pool.
func (w *world) drawn(bytes int64) {
	w.t.Helper()
	eventually(w.t, "what was drawn from the pool is booked", func() bool {
		return w.count(`SELECT used_bytes FROM pool WHERE name = 'meters'`) == int(bytes)
	})
}

// poolJudged waits until all members of the pool have been judged with the scene.
func (w *world) poolJudged(scene simwarden.Scene) {
	w.t.Helper()
	eventually(w.t, "the pool's members are judged", func() bool {
		return w.count(`SELECT count(*) FROM account_evaluation WHERE pool_id IS NOT NULL AND scene = $1 AND outcome = 'all judged'`, string(scene)) > 0
	})
}

func (w *world) unchanged(c card, why string) {
	w.t.Helper()
	if list := w.commands(c); len(list) != 0 || w.truth(c).State != simwarden.StateActive {
		w.t.Errorf("%s: SIM %s is %s, with commands %s", why, c.iccid, w.truth(c).State, describe(list))
	}
}

// stops waits until the SIM has been suspended for its data, by whichever looked first: its own reading,
// the judging of the pool's members, or the periodic pass.
func (w *world) stops(c card) {
	w.t.Helper()
	if cmd := w.ends(c, simwarden.CommandDone); cmd.Direction != simwarden.DirectionSuspend || cmd.Reason != simwarden.ReasonDataExhausted {
		w.t.Errorf("SIM %s: %s", c.iccid, describe([]store.Command{cmd}))
	}
	w.suspended(c)
}

// comesBack waits until a suspended SIM has been resumed, by whichever looked first.
func (w *world) comesBack(c card) {
	w.t.Helper()
	eventually(w.t, "the SIM is resumed", func() bool { return len(w.commands(c)) == 2 })
	w.runs(c)
	if list := w.commands(c); list[1].Direction != simwarden.DirectionResume {
		w.t.Errorf("SIM %s: %s", c.iccid, describe(list))
	}
}

func TestL6APoolThatIsUsedUpStopsAllItsMembersAndItsResetBringsThemBack(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		heavy, _ := w.running(time.Hour, ownBytes)
		light, _ := w.running(time.Hour, ownBytes)
		fresh, _ := w.running(time.Hour, ownBytes) // it never uses a byte: its own is left
		paused, _ := w.running(time.Hour, ownBytes)
		left, _ := w.running(time.Hour, 100*ownBytes)
		w.share(simwarden.PoolAll, 0, heavy, light, fresh, paused, left)
		for _, c := range []card{light, paused} {
			w.must(w.carrier.AddUsage(c.iccid, 2*ownBytes))
		}
		w.drawn(2 * ownBytes)
		w.pause(paused)
		_, err := w.person().RemovePoolMembers(w.ctx, "meters", api.Candidates{SIMs: []string{left.iccid}}, anna)
		w.must(err)
		for _, c := range []card{heavy, light, fresh, paused, left} {
			w.unchanged(c, "the pool has data")
		}

		w.must(w.carrier.AddUsage(heavy.iccid, ownBytes+poolBytes))
		for _, c := range []card{heavy, light} {
			w.stops(c)
		}
		w.poolJudged(simwarden.SceneUsageCheck)
		w.drawn(2*ownBytes + poolBytes)
		w.unchanged(fresh, "data of its own is left")
		w.unchanged(paused, "S4: its polling is paused")
		w.unchanged(left, "it is in the pool no more")
		x, err := w.person().Explain(w.ctx, light.iccid)
		w.must(err)
		if x.Pool == nil || x.Pool.Name != "meters" || x.Pool.Member.DrawnBytes != ownBytes || !x.Decision.Holds(simwarden.ReasonDataExhausted) {
			t.Errorf("explained: pool %+v, reasons %+v", x.Pool, x.Decision.Reasons)
		}

		_, err = w.pool.Exec(w.ctx, `UPDATE pool SET reset = 'cycle', reset_days = 1, period_start_at = $1, next_reset_at = $2`,
			w.store.Now().Add(-time.Hour), w.store.Now())
		w.must(err)
		for _, c := range []card{heavy, light} {
			w.comesBack(c)
		}
		w.poolJudged(simwarden.ScenePlanReset)
		w.unchanged(paused, "nothing has stopped it")
		w.drawn(0)
	})
}

func TestL6APoolWithCapsStopsThoseThatHaveDrawnTheirsAndATopUpBringsThemBack(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		heavy, _ := w.running(time.Hour, ownBytes)
		light, _ := w.running(time.Hour, ownBytes)
		w.share(simwarden.PoolOverCap, 4*ownBytes, heavy, light)
		w.must(w.carrier.AddUsage(light.iccid, 2*ownBytes))
		w.drawn(ownBytes)
		w.must(w.carrier.AddUsage(heavy.iccid, ownBytes+poolBytes))
		w.stops(heavy)
		w.poolJudged(simwarden.SceneUsageCheck)
		w.unchanged(light, "below its own cap")

		out, err := w.person().TopUpPool(w.ctx, "meters", poolBytes, "", "key", anna)
		w.must(err)
		again, err := w.person().TopUpPool(w.ctx, "meters", poolBytes, "", "key", anna)
		w.must(err)
		if !again.Replayed || again.Pool.TotalBytes() != out.Pool.TotalBytes() || out.Pool.TotalBytes() != 2*poolBytes {
			t.Errorf("F51: the pool has %d, then %d", out.Pool.TotalBytes(), again.Pool.TotalBytes())
		}
		w.comesBack(heavy)

		// The light one draws the rest, and its own cap with it.
		w.must(w.carrier.AddUsage(light.iccid, poolBytes))
		w.stops(light)
		eventually(t, "the heavy one stops again", func() bool { return w.truth(heavy).State == simwarden.StateSuspended })
	})
}

func TestL6ADeviceIsAMemberWithAllItsSIMs(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run()
		d, cards := w.fitted(2)
		w.buyForDevice(d, w.plan(time.Hour, ownBytes))
		alone, _ := w.running(time.Hour, ownBytes)
		w.share(simwarden.PoolAll, 0, alone)
		moves, err := w.person().AddPoolMembers(w.ctx, "meters", api.Candidates{SIMs: []string{cards[0].iccid}, Devices: []string{d.IMEI}}, nil, anna)
		w.must(err)
		if moves[0].Moved || moves[0].Problem == "" || !moves[1].Moved {
			t.Errorf("a SIM of a device alone, and the device: %+v", moves)
		}
		w.must(w.carrier.AddUsage(alone.iccid, 2*ownBytes))
		w.drawn(ownBytes)
		w.must(w.carrier.AddUsage(cards[0].iccid, ownBytes+poolBytes))
		for _, c := range append(cards, alone) {
			w.stops(c)
		}
	})
}
