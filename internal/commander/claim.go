package commander

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/reconcile"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

var (
	pointClaimBeforeCommit = fault.Register("cmd.claim.before_commit")
	pointClaimCommitted    = fault.Register("cmd.claim.committed")
)

type taskKind int

const (
	taskNone taskKind = iota // the claim itself was the whole step
	taskSend
	taskRead
)

// task is what a claim gives the worker to do.
type task struct {
	claimed bool
	kind    taskKind
	cmd     store.Command // as claimed
	info    carrier.Info
	ref     carrier.SIMRef
	// reads are the kinds to read; resolve says that the carrier's key is to be looked up as well.
	reads   []simwarden.CheckKind
	resolve bool
	// priority orders its calls at the gateway: the command's own, or what its long wait has raised it to.
	priority int
	// wanted says that the judgement before a read still wants the command.
	wanted bool
}

const (
	// planChangeWait is how long a command waits for a queued plan to be started.
	planChangeWait = 5 * time.Second
	// unknownWait is how long a state that was read and is still not known is left before it is
	// read again.
	unknownWait = 30 * time.Second
	// otherReadWait is how long a command waits for a reading that only the poller can make.
	otherReadWait = 15 * time.Second
	// heldWait is how long a command waits that its account's stop or brake holds: nobody looks at it
	// until that ends.
	heldWait = time.Second
	// clockWait is how long an automatic suspend waits at a time that the clock's guard holds.
	clockWait = 10 * time.Second
	// limitWait is how often a resume looks again whether the carrier's own data limit has been raised,
	// which would stop the SIM again (P8); limitPatience is for how long. A limit that cannot be raised
	// keeps no paid SIM waiting.
	limitWait     = 500 * time.Millisecond
	limitPatience = 2 * time.Minute
	// noDriverWait is how long a command waits whose account's driver is not built in: another node,
	// of another version, may have it.
	noDriverWait = 30 * time.Second
	// brokenWait is how long a SIM is left alone on which two commands were found under way.
	brokenWait = time.Hour
)

// claim takes one command's next step in hand, in one transaction: judged afresh with the
// command's own scene (C3), and with the attempt's row where it is to be sent.
func (m *Commander) claim(ctx context.Context, id simwarden.CommandID) (task, error) {
	var t task
	err := m.Store.InWorkTx(ctx, func(tx *store.Tx) error {
		t = task{}
		c, ok, err := tx.LockDueCommand(ctx, id)
		if err != nil || !ok {
			return err
		}
		t.claimed, t.cmd, t.priority = true, c, c.Priority
		if tx.At.Sub(c.RunAt) >= store.AgedAfter {
			t.priority = max(c.Priority, store.AgedPriority)
		}
		manual := simwarden.Direction("")
		if c.Scene == simwarden.SceneManual {
			manual = c.Direction
		}
		j, err := reconcile.Judge(ctx, tx, c.SIMID, c.Scene, manual)
		if err != nil {
			return fmt.Errorf("command %d: %w", c.ID, err)
		}
		driver, err := carrier.Lookup(j.Account.Driver)
		if err != nil {
			return m.wait(ctx, tx, &t, tx.At.Add(noDriverWait), "the driver "+j.Account.Driver+" is not in this program")
		}
		t.info, t.ref = driver.Info(), refOf(j.SIM)
		if c.State == simwarden.CommandQueued {
			err = m.judge(ctx, tx, j, &t)
		} else {
			err = m.claimFollow(ctx, tx, j, &t)
		}
		if err == nil {
			pointClaimBeforeCommit.Hit()
		}
		return err
	})
	if err != nil {
		return t, err
	}
	if t.claimed && t.kind != taskNone {
		pointClaimCommitted.Hit()
	}
	return t, nil
}

// refOf names the SIM for its driver. A number that does not parse is one that the driver does not
// need: it is left out.
func refOf(s store.SIM) carrier.SIMRef {
	ref := carrier.SIMRef{ICCID: s.ICCID, Key: s.Key}
	if n, err := simwarden.ParseMSISDN(s.MSISDN); err == nil {
		ref.MSISDN = n
	}
	if n, err := simwarden.ParseIMSI(s.IMSI); err == nil {
		ref.IMSI = n
	}
	return ref
}

// judge decides what becomes of a queued command now.
func (m *Commander) judge(ctx context.Context, tx *store.Tx, j reconcile.Judged, t *task) error {
	c, d, f := t.cmd, j.Decision, j.Facts
	if broken, err := m.checkAlone(ctx, tx, t); err != nil || broken {
		return err
	}
	if j.Account.Mode != simwarden.ModeAct {
		if err := tx.ForgetLapse(ctx, c.ID); err != nil {
			return err
		}
		return m.end(ctx, tx, c, simwarden.CommandObserved, "the account is in observe mode")
	}
	if !j.Account.StoppedAt.IsZero() {
		return m.wait(ctx, tx, t, tx.At.Add(heldWait), store.HeldByStop)
	}
	if why, err := m.rests(ctx, tx, c, false); err != nil || why != "" {
		if err != nil {
			return err
		}
		return m.wait(ctx, tx, t, tx.At.Add(heldWait), why)
	}
	wanted, some := d.Direction()
	reads := rules.ReadBeforeSending(d, f)
	_, needs := rules.NeedsCommand(d, f)
	switch {
	case some && wanted != c.Direction:
		return m.end(ctx, tx, c, simwarden.CommandObsolete, "the opposite is wanted now: "+whatChanged(c.Decision, d))
	case len(reads) > 0, !some && len(d.ReadFirst) > 0:
		if len(reads) == 0 {
			reads = d.ReadFirst
		}
		if next := againAt(f, reads); next.After(tx.At) {
			if tx.At.Sub(c.CreatedAt) >= m.GiveUpAfter {
				return m.fail(ctx, tx, j.SIM, c, fmt.Sprintf("the carrier has not told the SIM's %s for %s", reads[0], m.GiveUpAfter))
			}
			return m.wait(ctx, tx, t, next, "the carrier does not tell: "+string(reads[0]))
		}
		return m.claimReads(ctx, tx, j, t, reads)
	case !some && d.Because == rules.BecausePlanChangeDue:
		return m.wait(ctx, tx, t, tx.At.Add(planChangeWait), "a queued plan is about to start")
	case !some:
		return m.end(ctx, tx, c, simwarden.CommandObsolete, fmt.Sprintf("no longer wanted (%s): %s", d.Because, whatChanged(c.Decision, d)))
	case !needs && (d.Because == rules.BecauseAlreadySuspended || d.Because == rules.BecauseAlreadyRunning):
		return m.succeed(ctx, tx, c, "already so: the carrier shows "+string(f.State)+" without a request of ours")
	case !needs:
		return m.awaitCarrier(ctx, tx, j, t)
	case m.brakeHolds(j, c):
		return m.wait(ctx, tx, t, tx.At.Add(heldWait), store.HeldByBrake)
	}
	if automaticSuspend(c) {
		if because, err := tx.ClockHolds(ctx); err != nil || because != "" {
			if err != nil {
				return err
			}
			return m.wait(ctx, tx, t, tx.At.Add(clockWait), store.HeldByClock)
		}
	}
	if until, why, err := m.budget(ctx, tx, j, t); err != nil || why != "" {
		if err != nil {
			return err
		}
		return m.wait(ctx, tx, t, until, why)
	}
	if until, why, err := m.flapHolds(ctx, tx, j, c); err != nil || why != "" {
		if err != nil {
			return err
		}
		return m.wait(ctx, tx, t, until, why)
	}
	if c.Direction == simwarden.DirectionResume && c.Scene != simwarden.SceneManual {
		raising, err := tx.CarrierLimitRaising(ctx, c.SIMID, tx.At.Add(-limitPatience))
		if err != nil {
			return err
		}
		if raising {
			return m.wait(ctx, tx, t, tx.At.Add(limitWait), store.HeldByLimit)
		}
	}
	since, err := tx.ReadFirstSince(ctx)
	if err != nil {
		return err
	}
	if f.StateReadAt.Before(since) {
		return m.claimReads(ctx, tx, j, t, []simwarden.CheckKind{simwarden.CheckState})
	}
	if t.ref.Key == "" {
		resolve, err := m.mustResolve(ctx, j.Account)
		if err != nil || resolve {
			// Where it cannot be told, the read tells.
			t.resolve = true
			return m.claimReads(ctx, tx, j, t, nil)
		}
	}
	if why, err := m.rests(ctx, tx, c, true); err != nil || why != "" {
		if err != nil {
			return err
		}
		return m.wait(ctx, tx, t, tx.At.Add(heldWait), why)
	}
	return m.begin(ctx, tx, j, t)
}

// checkAlone stops the work on a SIM that has two commands under way, and says so (V3).
func (m *Commander) checkAlone(ctx context.Context, tx *store.Tx, t *task) (broken bool, err error) {
	other, err := tx.UnderWayBeside(ctx, t.cmd.SIMID, t.cmd.ID)
	if err != nil || other == 0 {
		return false, err
	}
	m.metrics.steps.WithLabelValues("two_under_way").Inc()
	if err := m.wait(ctx, tx, t, tx.At.Add(brokenWait), fmt.Sprintf("command %d of the SIM is under way", other)); err != nil {
		return true, err
	}
	return true, tx.Raise(ctx, store.Alert{Kind: store.AlertRowSetAside, Key: fmt.Sprintf("two_commands:%d", t.cmd.SIMID),
		SIMID: t.cmd.SIMID, AccountID: t.cmd.AccountID,
		Message: fmt.Sprintf("commands %d and %d of SIM %s are open at the same time; nothing more is sent for it", other, t.cmd.ID, t.cmd.ICCID)})
}

// brakeHolds says that the account's safety brake holds the command (C10).
func (m *Commander) brakeHolds(j reconcile.Judged, c store.Command) bool {
	return !j.Account.BrakedAt.IsZero() && automaticSuspend(c)
}

// automaticSuspend says that the brake and the clock's guard have a say in the command: plan ends that
// have been handled go on.
func automaticSuspend(c store.Command) bool {
	return c.Direction == simwarden.DirectionSuspend && c.Scene != simwarden.SceneManual && !c.Scene.EndsPlan()
}

// awaitCarrier waits while the carrier is changing the SIM, reading again now and then.
func (m *Commander) awaitCarrier(ctx context.Context, tx *store.Tx, j reconcile.Judged, t *task) error {
	next := j.Facts.StateReadAt.Add(m.Backoff.BusyDelay)
	if next.After(tx.At) {
		return m.wait(ctx, tx, t, next, "the carrier is changing it")
	}
	return m.claimReads(ctx, tx, j, t, []simwarden.CheckKind{simwarden.CheckState})
}

// claimReads claims a step that reads what the judgement lacks (E11) and sends nothing.
func (m *Commander) claimReads(ctx context.Context, tx *store.Tx, j reconcile.Judged, t *task, kinds []simwarden.CheckKind) error {
	if gap := t.info.PerSIMGap; t.info.GapOn(simwarden.OpQueryState) {
		last := lastCallAt(j.Facts)
		if at := t.cmd.MayActUntil; t.cmd.State.UnderWay() && at.After(last) && !at.After(tx.At) {
			last = at
		}
		if next := last.Add(gap); next.After(tx.At) {
			return m.wait(ctx, tx, t, next, heldByGap)
		}
		if t.resolve {
			kinds = nil
		}
		kinds = kinds[:min(len(kinds), 1)] // one call, and the next after the gap
	}
	calls := max(1, len(kinds))
	if t.resolve {
		calls++
	}
	wanted, some := j.Decision.Direction()
	c, err := tx.ClaimStep(ctx, t.cmd, m.Holder, tx.At.Add(time.Duration(calls)*m.CommandTimeout+m.ClaimMargin))
	if err != nil {
		return err
	}
	t.kind, t.cmd, t.reads, t.wanted = taskRead, c, slices.Clone(kinds), some && wanted == c.Direction
	return nil
}

// againAt is when facts that were read, are not too old and still do not tell may be read again;
// zero for facts that are missing or too old.
func againAt(f rules.Facts, kinds []simwarden.CheckKind) time.Time {
	var next time.Time
	for _, k := range kinds {
		at := f.StateReadAt
		switch k {
		case simwarden.CheckUsage:
			at = f.UsageReadAt
		case simwarden.CheckRealName:
			at = f.RealNameAt
		}
		if at.IsZero() || f.FreshFor > 0 && f.NowAt.Sub(at) > f.FreshFor {
			return time.Time{}
		}
		if at = at.Add(unknownWait); at.After(next) {
			next = at
		}
	}
	return next
}

// mustResolve says whether the account's driver needs a key of its own for each SIM.
func (m *Commander) mustResolve(ctx context.Context, a store.Account) (bool, error) {
	if known, ok := m.resolves.Load(a.Driver); ok {
		return known.(bool), nil
	}
	can, err := m.Gateway.Can(ctx, a.ID, gateway.CanResolve)
	if err != nil {
		return false, fmt.Errorf("account %d: %w", a.ID, err)
	}
	m.resolves.Store(a.Driver, can)
	return can, nil
}

// begin writes the attempt (C4, V2). Its deadline is set here and never renewed.
func (m *Commander) begin(ctx context.Context, tx *store.Tx, j reconcile.Judged, t *task) error {
	deadline := tx.At.Add(m.CommandTimeout)
	c, err := tx.BeginAttempt(ctx, t.cmd, m.Holder, store.NewAttempt{
		Facts: plantedFacts(j.Facts), Decision: j.Decision, DeadlineAt: deadline, ClaimUntil: deadline.Add(m.ClaimMargin)})
	if err != nil {
		return err
	}
	t.kind, t.cmd = taskSend, c
	return nil
}

// wait lets the locked command wait until an instant, without a call.
func (m *Commander) wait(ctx context.Context, tx *store.Tx, t *task, until time.Time, heldBy string) error {
	next := t.cmd
	next.RunAt, next.HeldBy = until, heldBy
	m.metrics.steps.WithLabelValues("wait").Inc()
	_, err := tx.MoveCommand(ctx, t.cmd, next)
	return err
}

// claimFollow claims the read of a command that may have a request at the carrier.
func (m *Commander) claimFollow(ctx context.Context, tx *store.Tx, j reconcile.Judged, t *task) error {
	return m.claimReads(ctx, tx, j, t, []simwarden.CheckKind{simwarden.CheckState})
}
