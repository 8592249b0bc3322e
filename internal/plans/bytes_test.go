package plans_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/usage"
)

// bearers is one SIM with plans and pools, through which readings, ends, resets, purchases, refunds and
// moves between pools go in any order.
type bearers struct {
	*moneyWorld
	t       *rapid.T
	asset   store.Asset
	catalog []simwarden.Plan
	pools   []store.Pool
	in      int // the pool that it is in
	since   time.Time
	counter int64
	reads   []spent
	bought  []simwarden.SubscriptionID
}

// spent is what one reading has told, and for when that is true.
type spent struct {
	bytes int64
	at    time.Time
}

// periods checks, just after a reading, that no daily plan bears in its running period more than was used since
// it began: the allowance is full again each day from the plan's start on, also before a sweep comes by.
func (b *bearers) periods() {
	b.t.Helper()
	now := b.clock.Now()
	b.do(func(ctx context.Context, tx *store.Tx) error {
		live, err := tx.LiveSubscriptions(ctx, b.asset)
		for _, s := range live {
			if s.PlanCode != "daily" || s.State == simwarden.SubscriptionQueued {
				continue
			}
			day := 24 * time.Hour
			from := s.StartAt.Add(min(now.Sub(s.StartAt).Truncate(day), s.EndAt.Sub(s.StartAt)-day))
			most := int64(0)
			for _, r := range b.reads {
				if !r.at.Before(from) {
					most += r.bytes
				}
			}
			if s.UsedBytes > most {
				b.t.Fatalf("at %s the plan of %s bears %d bytes in its period, and %d were used since that began at %s", now, s.StartAt, s.UsedBytes, most, from)
			}
		}
		return err
	})
}

func (b *bearers) do(fn func(context.Context, *store.Tx) error) {
	b.t.Helper()
	if err := b.tx(fn); err != nil {
		b.t.Fatal(err)
	}
}

// book takes in a reading of so many bytes more, true some time ago.
func (b *bearers) book(bytes int64, back time.Duration) (booked usage.Booked) {
	b.t.Helper()
	b.counter += bytes
	now := b.clock.Now()
	at := now.Add(-back)
	if at.Before(b.since) {
		at = b.since
	}
	b.do(func(ctx context.Context, tx *store.Tx) (err error) {
		booked, err = usage.Book(ctx, tx, []store.Observed{{SIMID: b.asset.SIMID, Reading: simwarden.Reading{ReadAt: now,
			Usage: &simwarden.UsageReading{CounterBytes: b.counter, TrueAt: at}}}})
		return err
	})
	b.reads = append(b.reads, spent{bytes, at})
	return booked
}

// borne is what subscriptions and pools have been given of the SIM's usage, in all of their periods.
func (b *bearers) borne() int64 {
	b.t.Helper()
	ids := []int64{}
	for _, p := range b.pools {
		ids = append(ids, int64(p.ID))
	}
	return b.count(`SELECT (
		  (SELECT coalesce(sum(used_bytes), 0) FROM subscription WHERE sim_id = $1)
		+ (SELECT coalesce(sum((data->>'used_bytes')::bigint), 0) FROM event WHERE sim_id = $1 AND kind = 'plan_reset')
		+ (SELECT coalesce(sum((data->>'bytes')::bigint), 0) FROM event WHERE sim_id = $1 AND kind = 'usage_late' AND data->>'ended' = 'false')
		+ (SELECT coalesce(sum(used_bytes), 0) FROM pool WHERE id = ANY($2))
		+ (SELECT coalesce(sum(used_bytes), 0) FROM pool_period WHERE pool_id = ANY($2)))::bigint`, b.asset.SIMID, ids)
}

func (b *bearers) buy(p simwarden.Plan) {
	b.t.Helper()
	b.do(func(ctx context.Context, tx *store.Tx) error {
		s, err := plans.Subscribe(ctx, tx, plans.Order{Asset: b.asset, Plan: p, By: "test"})
		b.bought = append(b.bought, s.ID)
		return err
	})
}

// move takes the SIM from one pool to another at one instant.
func (b *bearers) move() {
	b.t.Helper()
	from := b.pools[b.in]
	b.in = (b.in + 1) % len(b.pools)
	b.do(func(ctx context.Context, tx *store.Tx) error {
		if _, err := plans.LeavePool(ctx, tx, from, []store.Asset{b.asset}, "test"); err != nil {
			return err
		}
		_, err := plans.JoinPool(ctx, tx, b.pools[b.in], []store.Asset{b.asset}, nil, "test")
		return err
	})
}

// refund takes back the last one that still can be.
func (b *bearers) refund() {
	b.t.Helper()
	b.do(func(ctx context.Context, tx *store.Tx) error {
		live, err := tx.LiveSubscriptions(ctx, b.asset)
		if err != nil || len(live) == 0 {
			return err
		}
		return plans.Refund(ctx, tx, live[len(live)-1].ID, "test", "as a test")
	})
}

func (b *bearers) sweepAll() {
	b.t.Helper()
	for {
		n, err := b.sweeper.Sweep(b.moneyWorld.t.Context())
		if err != nil {
			b.t.Fatal(err)
		}
		if n == 0 {
			return
		}
	}
}

func TestL4L6U4EveryByteBelongsToExactlyOneSubscriptionOrPool(t *testing.T) {
	w := newMoneyWorld(t)
	var catalog []simwarden.Plan
	w.must(func(ctx context.Context, tx *store.Tx) error {
		for _, p := range []simwarden.Plan{
			{Code: "main", Kind: simwarden.PlanMain, ValidityCount: 2},
			{Code: "daily", Kind: simwarden.PlanMain, ValidityCount: 4, Reset: simwarden.ResetCycle, ResetDays: 1},
			{Code: "first", Kind: simwarden.PlanMain, ValidityCount: 3, Activation: simwarden.ActivateFirstUse},
			{Code: "addon", Kind: simwarden.PlanAddon, ValidityCount: 3},
		} {
			p.AllowanceBytes, p.ValidityUnit, p.Zone = 1000, simwarden.ValidityDays, "UTC"
			if p.Reset == "" {
				p.Reset = simwarden.ResetNone
			}
			p, err := tx.AddPlan(ctx, p)
			if err != nil {
				return err
			}
			catalog = append(catalog, p)
		}
		return nil
	})
	rapid.Check(t, func(rt *rapid.T) {
		b := &bearers{moneyWorld: w, t: rt, catalog: catalog, asset: w.sim(0), since: w.clock.Now()}
		b.do(func(ctx context.Context, tx *store.Tx) error {
			for _, days := range []int{0, 1} {
				w.n++
				p := store.Pool{Name: fmt.Sprintf("pool-%d", w.n), Policy: simwarden.PoolAll, AllowanceBytes: 1500, Reset: simwarden.ResetNone, Zone: "UTC"}
				if days > 0 {
					p.Reset, p.ResetDays = simwarden.ResetCycle, days
				}
				p, err := plans.AddPool(ctx, tx, p, "test")
				if err != nil {
					return err
				}
				b.pools = append(b.pools, p)
			}
			_, err := plans.JoinPool(ctx, tx, b.pools[0], []store.Asset{b.asset}, nil, "test")
			return err
		})
		b.book(0, 0)
		var sum int64
		read := func() {
			before := b.borne()
			bytes := rapid.Int64Range(0, 900).Draw(rt, "bytes")
			back := time.Duration(rapid.IntRange(0, 72).Draw(rt, "hours ago")) * time.Hour
			if rapid.Bool().Draw(rt, "in time") {
				back = 0
			}
			got := b.book(bytes, back)
			sum += got.DeltaBytes
			if after := b.borne(); got.DeltaBytes != bytes || after-before != bytes {
				rt.Fatalf("%d bytes of %s ago were read, %d booked, and %d borne", bytes, back, got.DeltaBytes, after-before)
			}
			b.periods()
		}
		steps := map[string]func(){
			"read": read, "read again": read,
			"time goes by": func() { w.clock.Advance(time.Duration(rapid.IntRange(1, 60).Draw(rt, "hours")) * time.Hour) },
			"sweep":        b.sweepAll,
			"buy":          func() { b.buy(rapid.SampledFrom(catalog).Draw(rt, "plan")) },
			"move":         b.move,
			"refund":       b.refund,
		}
		names := []string{"read", "read again", "time goes by", "sweep", "buy", "move", "refund"}
		for range rapid.IntRange(5, 25).Draw(rt, "steps") {
			steps[rapid.SampledFrom(names).Draw(rt, "step")]()
		}
		b.sweepAll()
		if got := b.borne(); got != sum {
			rt.Fatalf("%d bytes were booked and %d are borne", sum, got)
		}
		for _, p := range b.pools {
			if n := w.count(`SELECT (SELECT coalesce(sum(m.used_bytes), 0) FROM pool_member m WHERE m.pool_id = p.id AND m.period = p.period) - p.used_bytes FROM pool p WHERE p.id = $1`, p.ID); n != 0 {
				rt.Fatalf("the members of pool %s have drawn %d bytes more than it has given", p.Name, n)
			}
		}
	})
}
