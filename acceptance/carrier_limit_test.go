package acceptance

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/lab"
)

// limitsOn has the account's carrier hold data limits.
func (w *world) limitsOn(on bool) {
	w.t.Helper()
	w.tx(func(ctx context.Context, tx *store.Tx) error { return tx.SetCarrierLimits(ctx, w.account.ID, on) })
}

// limitsOften has limits read at the carrier as often as a test needs it.
func limitsOften(c *app.Config) {
	c.LimitCheckEvery, c.LimitReadGap = 2*time.Second, 200*time.Millisecond
}

// limited waits until the carrier stops the SIM at so many MiB of its month, and we know it.
func (w *world) limited(c card, mib int64) {
	w.t.Helper()
	eventually(w.t, "the carrier holds the limit", func() bool {
		l, err := w.store.CarrierLimit(w.ctx, c.id)
		w.must(err)
		if mib == 0 {
			return w.truth(c).LimitBytes == 0 && l == nil
		}
		return w.truth(c).LimitBytes == mib<<20 && l != nil && l.InLine() && l.HeldBytes == mib<<20
	})
}

// thresholds counts the requests about limits that the carrier saw.
func (w *world) thresholds() int {
	n := 0
	for _, l := range w.lab.LogLines() {
		if l.Operation == simwarden.OpSetThreshold && l.Kind != lab.KindExecution {
			n++
		}
	}
	return n
}

func TestP8TheCarriersOwnLimitIsWhatThePlanAllows(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom")
	w.limitsOn(true)
	w.run(limitsOften)
	c, _ := w.running(time.Hour, 10<<20)
	w.limited(c, 10)

	// Usage alone changes nothing: the counter grows as what is left shrinks.
	w.must(w.carrier.AddUsage(c.iccid, 4<<20))
	eventually(t, "the usage is booked", func() bool {
		return w.count(`SELECT max(used_bytes) FROM subscription WHERE sim_id = $1`, c.id) == 4<<20
	})
	w.limited(c, 10)

	// The carrier stops it between two polls of ours, and it stays stopped: its data is used up.
	w.must(w.carrier.AddUsage(c.iccid, 7<<20))
	eventually(t, "the usage is booked", func() bool {
		return w.count(`SELECT max(used_bytes) FROM subscription WHERE sim_id = $1`, c.id) == 11<<20
	})
	w.reads(c, simwarden.StateSuspended)

	// More on top: the limit is raised first, and then the SIM resumes and is not stopped again.
	w.topUp(c, 20<<20)
	w.limited(c, 30)
	w.reads(c, simwarden.StateActive)
	w.calm()
	if s := w.truth(c).State; s != simwarden.StateActive {
		t.Errorf("after the top-up the SIM is %s", s)
	}
	if n := w.stoppedAtLimit(c); n != 1 {
		t.Errorf("the carrier stopped the SIM %d times, want once: it was resumed before its limit was raised", n)
	}

	// Dropped without a word: found and set again. An operator's own handler is none of our business.
	w.carrier.DropLimits(c.iccid)
	w.limited(c, 30)
	if n := w.count(`SELECT count(*) FROM event WHERE sim_id = $1 AND kind = $2`, c.id, store.EventLimitDrift); n == 0 {
		t.Error("nothing tells that the carrier dropped the limit")
	}
	x, err := w.person().Explain(w.ctx, c.iccid)
	w.must(err)
	if l := x.CarrierLimit; l == nil || l.DesiredBytes != 30<<20 || l.HeldBytes != 30<<20 || l.CheckedAt.IsZero() {
		t.Errorf("explain shows the limit %+v", l)
	}

	w.limitsOn(false)
	w.limited(c, 0)
}

// stoppedAtLimit counts how often the carrier has stopped the SIM at its limit.
func (w *world) stoppedAtLimit(c card) int {
	n := 0
	for _, l := range w.lines(c, lab.KindExecution) {
		if l.Operation == simwarden.OpSetThreshold {
			n++
		}
	}
	return n
}

// limitsKept holds the carrier's limits against what plans allow, once it is calm: V-P8.
func (w *world) limitsKept() {
	w.t.Helper()
	eventually(w.t, "every carrier's limit is what is wanted", func() bool {
		return w.count(`SELECT count(*) FROM carrier_limit WHERE sent_at IS NOT NULL OR altered OR held_bytes <> desired_bytes`) == 0
	})
	wanted := map[string]int64{}
	rows, err := w.pool.Query(w.ctx, `SELECT s.iccid, l.desired_bytes FROM carrier_limit l JOIN sim s ON s.id = l.sim_id`)
	w.must(err)
	var iccid string
	var bytes int64
	_, err = pgx.ForEachRow(rows, []any{&iccid, &bytes}, func() error { wanted[iccid] = bytes; return nil })
	w.must(err)
	for _, truth := range w.carrier.SIMs() {
		if truth.LimitBytes != wanted[truth.ICCID] {
			w.t.Errorf("P8: the carrier stops SIM %s at %d bytes, and %d are wanted", truth.ICCID, truth.LimitBytes, wanted[truth.ICCID])
		}
	}
}

func TestP8AnAccountThatObservesGetsNoLimits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom")
	w.limitsOn(true)
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.SetAccountMode(ctx, w.account.ID, simwarden.ModeObserve)
	})
	w.run(limitsOften)
	c, _ := w.running(time.Hour, 10<<20)
	eventually(t, "the limit is known to be wanted", func() bool {
		l, err := w.store.CarrierLimit(w.ctx, c.id)
		w.must(err)
		return l != nil && l.DesiredBytes == 10<<20
	})
	w.periodic(c)
	if n := w.thresholds(); n != 0 {
		t.Errorf("the carrier saw %d requests about limits of an account that observes (C9)", n)
	}
	w.tx(func(ctx context.Context, tx *store.Tx) error {
		return tx.SetAccountMode(ctx, w.account.ID, simwarden.ModeAct)
	})
	w.limited(c, 10) // the counterpart: it was the mode alone
}

func TestP8ALimitWhoseAnswerWasLostIsReadAndNotMadeTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "soracom")
	w.run(limitsOften)
	c, _ := w.running(time.Hour, 10<<20)
	w.fault(lab.Fault{Name: lab.ActThenReset, Operations: []simwarden.Operation{simwarden.OpSetThreshold}, ICCIDs: []string{c.iccid}, Count: 1})
	w.limitsOn(true)
	w.limited(c, 10)
	if n := len(w.lines(c, lab.KindOther)); n != 1 {
		t.Errorf("the carrier was told %d times to limit the SIM, want once: the read shows that it has done it", n)
	}
	w.limitsKept()
}
