package evaluator

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	leaseName     = "periodic"
	leaseFor      = 30 * time.Second
	periodicTick  = time.Second
	periodicBatch = 200
	// maxPerTick bounds what one tick judges, so that a node that was away does not burst.
	maxPerTick = 20 * periodicBatch
)

// DefaultInterval is how long one periodic pass over the fleet takes where nobody says.
const DefaultInterval = 15 * time.Minute

// RunPeriodic judges every SIM once an Interval, evenly spread, on the one node that holds the
// lease; where it stopped, the next goes on. It also deletes requests long worked off.
func (e *Evaluator) RunPeriodic(ctx context.Context) error {
	interval := e.Interval
	if interval <= 0 {
		interval = DefaultInterval
	}
	p := pass{e: e, interval: interval}
	defer p.give()
	for {
		if err := p.tick(ctx); err != nil && ctx.Err() == nil {
			e.Log.Error("periodic evaluation", "error", err)
		}
		if err := e.Clock.Sleep(ctx, e.lookEvery(periodicTick)); err != nil {
			return nil
		}
	}
}

// pass is one walk over the fleet.
type pass struct {
	e         *Evaluator
	interval  time.Duration
	lease     store.Lease
	after     simwarden.SIMID
	startedAt time.Time
	total     int64
	done      int64
}

func (p *pass) tick(ctx context.Context) error {
	lease, ok, err := p.e.Store.TakeLease(ctx, leaseName, p.e.Holder, leaseFor)
	if err != nil || !ok {
		p.lease = store.Lease{}
		return err
	}
	now := p.e.Clock.Now()
	if lease.Epoch != p.lease.Epoch || p.startedAt.IsZero() {
		if err := p.begin(ctx, now); err != nil {
			return err
		}
		if cursor, err := strconv.ParseInt(lease.Cursor, 10, 64); err == nil {
			p.after = simwarden.SIMID(cursor)
		}
	}
	p.lease = lease
	for due := min(p.due(now), maxPerTick); due > 0; {
		n, err := p.judge(ctx, int(min(due, periodicBatch)))
		if err != nil {
			return err
		}
		if n == 0 {
			return p.finish(ctx, now)
		}
		due -= int64(n)
	}
	return p.e.Store.SetCursor(ctx, p.lease, strconv.FormatInt(int64(p.after), 10))
}

// due is how many SIMs are to be judged now. The walk is paced by the fleet as it was counted at its
// beginning; what has come to it since is judged when the interval is over.
func (p *pass) due(now time.Time) int64 {
	elapsed := now.Sub(p.startedAt)
	if elapsed >= p.interval {
		return maxPerTick
	}
	return int64(float64(p.total)*float64(elapsed)/float64(p.interval)) + 1 - p.done
}

func (p *pass) begin(ctx context.Context, now time.Time) (err error) {
	p.startedAt, p.done, p.after = now, 0, 0
	p.total, err = p.e.Store.CountSIMs(ctx)
	return err
}

// finish ends the walk; the next begins when the interval is over.
func (p *pass) finish(ctx context.Context, now time.Time) error {
	if now.Sub(p.startedAt) < p.interval {
		p.done = p.total + 1
		return nil
	}
	if err := p.begin(ctx, now); err != nil {
		return err
	}
	return p.e.Store.SetCursor(ctx, p.lease, "0")
}

func (p *pass) judge(ctx context.Context, limit int) (int, error) {
	ids, err := p.e.Store.SIMsAfter(ctx, 0, p.after, limit)
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := p.judgeAll(ctx, ids); err != nil {
		return 0, err
	}
	p.after = ids[len(ids)-1]
	p.done += int64(len(ids))
	return len(ids), nil
}

// judgeAll judges SIMs in one transaction. Where that fails, and not for want of a database, the
// halves are tried, down to the one SIM that is at fault: an alert tells of it, and the pass goes on
// (F5, F16).
func (p *pass) judgeAll(ctx context.Context, ids []simwarden.SIMID) error {
	err := p.judgeOnce(ctx, ids)
	if err == nil || ctx.Err() != nil || store.IsUnavailable(err) {
		return err
	}
	if len(ids) == 1 {
		p.e.Log.Error("periodic evaluation passes over a SIM", "sim", ids[0], "error", err)
		return p.e.Store.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: "periodic:" + strconv.FormatInt(int64(ids[0]), 10), SIMID: ids[0],
			Message: fmt.Sprintf("this SIM could not be judged by the periodic evaluation, which goes on with the others: %v", err)})
	}
	half := len(ids) / 2
	if err := p.judgeAll(ctx, ids[:half]); err != nil {
		return err
	}
	return p.judgeAll(ctx, ids[half:])
}

// judgeOnce makes of a panic an error like another.
func (p *pass) judgeOnce(ctx context.Context, ids []simwarden.SIMID) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	items := make([]reconcile.Item, len(ids))
	for i, id := range ids {
		items[i] = reconcile.Item{SIMID: id, Scene: simwarden.ScenePeriodic, AskedBy: reconcile.System,
			Cause: store.Cause{Kind: store.CausePeriodic, ID: int64(id)}}
	}
	return p.e.Store.InTx(ctx, func(tx *store.Tx) error {
		held, err := tx.HoldsLease(ctx, p.lease)
		if err != nil || !held {
			return err
		}
		_, err = reconcile.SIMs(ctx, tx, items)
		return err
	})
}

// give gives the lease back at the end, so that another node need not wait.
func (p *pass) give() {
	if p.lease.Holder == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if err := p.e.Store.GiveLease(ctx, p.lease); err != nil {
		p.e.Log.Warn("give back the lease of the periodic evaluation", "error", err)
	}
}
