package threshold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/gateway"
	"github.com/simwarden/simwarden/internal/rules"
	"github.com/simwarden/simwarden/internal/store"
)

const (
	// batch is how many limits of an account one round takes in hand.
	batch = 100
	// keyWait is how long a limit waits for the poller to learn the carrier's name for its SIM.
	keyWait = 15 * time.Second
	// heldWait is how long a limit waits that the gateway held back: nothing was sent.
	heldWait = 5 * time.Second
	// alertAfter is after how many failures in a row a person is told.
	alertAfter = 5
)

// round is one node's work for one account under its lease.
type round struct {
	*Keeper
	account simwarden.AccountID
	info    carrier.Info
	lease   store.Lease
}

// errLost says that the lease has gone to another node.
var errLost = errors.New("the lease is another's")

// account works an account's due limits off: it reads where something is to be read, then sets what
// differs, one request after the other.
func (k *Keeper) account(ctx context.Context, id simwarden.AccountID) error {
	info, err := k.Gateway.Info(id)
	if err != nil {
		return err
	}
	if info.Limit.UnitBytes == 0 {
		return nil // the driver that set them is of another version: what it has made stays there
	}
	lease, ok, err := k.Store.TakeLease(ctx, fmt.Sprintf("carrier_limits:%d", id), k.Holder, k.leaseFor())
	if err != nil || !ok {
		return err
	}
	r := &round{Keeper: k, account: id, info: info, lease: lease}
	defer func() {
		give, cancel := context.WithTimeout(context.WithoutCancel(ctx), k.Settle)
		defer cancel()
		if err := k.Store.GiveLease(give, lease); err != nil {
			k.Log.Warn("give back the lease of an account's data limits", "account", id, "error", err)
		}
	}()
	due, err := k.Store.DueCarrierLimits(ctx, id, batch)
	if err != nil || len(due) == 0 {
		return err
	}
	for _, l := range due {
		if unread(l, k.Store.Now()) {
			if !k.mayRead(id, k.Clock.Now()) {
				break
			}
			if err := r.read(ctx, l.Failures+1); err != nil {
				return lost(err)
			}
			if due, err = k.Store.DueCarrierLimits(ctx, id, batch); err != nil {
				return err
			}
			break
		}
	}
	for _, l := range due {
		if ctx.Err() != nil {
			return nil
		}
		if unread(l, k.Store.Now()) {
			continue
		}
		if err := r.set(ctx, l); err != nil {
			return lost(err)
		}
	}
	return nil
}

// lost makes nothing of the loss of a lease: another node works for the account now.
func lost(err error) error {
	if errors.Is(err, errLost) {
		return nil
	}
	return err
}

// unread says that the carrier is to be read before anything is done about the limit.
func unread(l store.CarrierLimit, now time.Time) bool {
	return !l.CheckAt.After(now) || !l.SentAt.IsZero() || l.CheckedAt.IsZero() && l.SetAt.IsZero()
}

// read takes in what the carrier holds, and takes away limits that it holds twice. failures is how often
// it will have failed in a row if it fails.
func (r *round) read(ctx context.Context, failures int) error {
	var held []carrier.Limit
	begun := r.Store.Now()
	err := r.call(ctx, "read", func(ctx context.Context, conn carrier.LimitSetter) (err error) {
		held, err = conn.Limits(ctx)
		return err
	})
	if err != nil {
		return r.inLease(ctx, func(tx *store.Tx) error {
			wait := rules.CarrierLimitRetry(r.Backoff, failures, retryAfter(err))
			if err := r.tell(ctx, tx, r.readKey(), failures, err); err != nil {
				return err
			}
			return tx.LimitsUnread(ctx, r.account, tx.At.Add(wait), err.Error())
		})
	}
	settle := max(r.Settle, r.info.SettleTime)
	err = r.inLease(ctx, func(tx *store.Tx) error {
		drifted, err := tx.TakeLimits(ctx, store.LimitsRead{AccountID: r.account, BegunAt: begun, Settled: begun.Add(-settle - r.CommandTimeout),
			CheckAt: begun.Add(rules.Jitter(r.CheckEvery, uint64(begun.UnixNano()))), Limits: held})
		if err != nil {
			return err
		}
		if err := tx.ClearAlert(ctx, r.readKey(), "system"); err != nil {
			return err
		}
		events := make([]store.NewEvent, 0, len(drifted))
		for _, d := range drifted {
			r.drift.Inc()
			events = append(events, store.NewEvent{Kind: store.EventLimitDrift, SIMID: d.SIMID, AccountID: r.account, Actor: "carrier",
				Data: map[string]any{"was_bytes": d.WasBytes, "found_bytes": d.FoundBytes}})
		}
		if len(events) > 0 {
			r.Log.WarnContext(ctx, "data limits were dropped or changed at the carrier", "account", r.account, "limits", len(events))
		}
		return tx.AddEvents(ctx, events)
	})
	if err != nil {
		return err
	}
	return r.removeTwice(ctx, held)
}

// removeTwice takes away all but one of the limits that a SIM has several of. The one that stays is the
// one that TakeLimits keeps: that of the first handle.
func (r *round) removeTwice(ctx context.Context, held []carrier.Limit) error {
	first := map[string]string{}
	for _, l := range held {
		if h, ok := first[l.Key]; !ok || l.Handle < h {
			first[l.Key] = l.Handle
		}
	}
	for _, l := range held {
		if l.Handle == first[l.Key] {
			continue
		}
		if mine, err := r.Store.HasSIMKey(ctx, r.account, l.Key); err != nil || !mine {
			if err != nil {
				return err
			}
			continue
		}
		err := r.call(ctx, "remove", func(ctx context.Context, conn carrier.LimitSetter) error { return conn.RemoveLimit(ctx, l.Handle) })
		if err != nil {
			return err // it is seen again by the next read
		}
	}
	return nil
}

// set makes the carrier hold what is wanted for one SIM, by one request.
func (r *round) set(ctx context.Context, l store.CarrierLimit) error {
	if l.InLine() {
		return nil
	}
	iccid, err := simwarden.ParseICCID(l.ICCID)
	if err != nil {
		return err
	}
	var sentAt time.Time
	marked := false
	err = r.inLease(ctx, func(tx *store.Tx) error {
		marked = false
		if l.Key == "" && l.DesiredBytes > 0 {
			return tx.DelayLimit(ctx, l.SIMID, tx.At.Add(keyWait), "the carrier's name for the SIM is not known yet")
		}
		sentAt = tx.At
		marked, err = tx.MarkLimitSent(ctx, l, tx.At.Add(r.CommandTimeout+max(r.Settle, r.info.SettleTime)))
		return err
	})
	if err != nil || !marked {
		return err
	}
	what, handle := "set", l.Handle
	pointMarked.Hit()
	if l.DesiredBytes == 0 {
		what, handle = "remove", ""
	}
	err = r.call(ctx, what, func(ctx context.Context, conn carrier.LimitSetter) error {
		if l.DesiredBytes == 0 {
			return conn.RemoveLimit(ctx, l.Handle)
		}
		set, err := conn.SetLimit(ctx, carrier.SIMRef{ICCID: iccid, Key: l.Key}, l.Handle, l.DesiredBytes)
		handle = set.Handle
		return err
	})
	pointAnswered.Hit()
	return r.record(context.WithoutCancel(ctx), l, sentAt, handle, err)
}

// record keeps what came of a request.
func (r *round) record(ctx context.Context, l store.CarrierLimit, sentAt time.Time, handle string, failure error) error {
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		if failure != nil {
			return r.failed(ctx, tx, l, sentAt, failure)
		}
		if err := tx.LimitSet(ctx, l, sentAt, handle); err != nil {
			return err
		}
		if err := tx.ClearAlert(ctx, r.setKey(), "system"); err != nil {
			return err
		}
		return tx.AddEvents(ctx, []store.NewEvent{{Kind: store.EventCarrierLimit, SIMID: l.SIMID, AccountID: l.AccountID, Actor: "system",
			Data: map[string]any{"limit_bytes": l.DesiredBytes, "was_bytes": l.HeldBytes, "because": l.Because}}})
	})
}

func (r *round) failed(ctx context.Context, tx *store.Tx, l store.CarrierLimit, sentAt time.Time, failure error) error {
	class, notSent := carrier.ClassUnknown, false
	var e *carrier.Error
	if errors.As(failure, &e) {
		class, notSent = e.Class, e.NotSent
	}
	held := class == carrier.ClassLimited || class == carrier.ClassStopped
	unknown := !notSent && !certain(class)
	wait := rules.CarrierLimitRetry(r.Backoff, l.Failures+1, retryAfter(failure))
	switch {
	case held:
		wait = heldWait
	case unknown: // read once its effect would show, if it had one
		wait = max(wait, r.CommandTimeout+max(r.Settle, r.info.SettleTime))
	}
	if !held {
		if err := r.tell(ctx, tx, r.setKey(), l.Failures+1, failure); err != nil {
			return err
		}
	}
	r.Log.WarnContext(ctx, "a data limit could not be set at the carrier", "account", r.account, "sim", l.SIMID, "failures", l.Failures+1, "error", failure)
	return tx.LimitFailed(ctx, l, sentAt, tx.At.Add(wait), unknown, !held, failure.Error())
}

// certain says that a request which was answered so was not carried out.
func certain(class carrier.Class) bool {
	switch class {
	case carrier.ClassThrottled, carrier.ClassQuotaExhausted, carrier.ClassAuth, carrier.ClassMaintenance, carrier.ClassLimited, carrier.ClassStopped:
		return true
	}
	return class.Terminal()
}

// tell raises an alert of the account's where its limits fail again and again.
func (r *round) tell(ctx context.Context, tx *store.Tx, key string, failures int, failure error) error {
	if failures < alertAfter {
		return nil
	}
	return tx.Raise(ctx, store.Alert{Kind: store.AlertCarrierLimit, Key: key, AccountID: r.account,
		Message: fmt.Sprintf("data limits at the carrier cannot be read or set, so that its SIMs are stopped by our own suspends alone: %v", failure)})
}

func (r *round) setKey() string { return fmt.Sprintf("%s:%d:set", store.AlertCarrierLimit, r.account) }
func (r *round) readKey() string {
	return fmt.Sprintf("%s:%d:read", store.AlertCarrierLimit, r.account)
}

func retryAfter(err error) time.Duration {
	var e *carrier.Error
	if errors.As(err, &e) {
		return e.RetryAfter
	}
	return 0
}

// call makes one call of the driver's through the gateway: exempt from limits, and counted (G2).
func (r *round) call(ctx context.Context, what string, do func(context.Context, carrier.LimitSetter) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.CommandTimeout)
	defer cancel()
	err := r.Gateway.Do(ctx, r.account, gateway.Call{Operation: simwarden.OpSetThreshold, Purpose: simwarden.PurposeThreshold}, func(ctx context.Context, conn carrier.Conn) error {
		setter, ok := conn.(carrier.LimitSetter)
		if !ok {
			return &carrier.Error{Operation: simwarden.OpSetThreshold, NotSent: true, Message: "the driver declares data limits and cannot set them"}
		}
		return do(ctx, setter)
	})
	outcome := "done"
	if err != nil {
		outcome = "failed"
	}
	r.calls.WithLabelValues(what, outcome).Inc()
	return err
}

// inLease runs fn in a transaction, only while the lease is ours; it is made to last again.
func (r *round) inLease(ctx context.Context, fn func(*store.Tx) error) error {
	lease, ok, err := r.Store.TakeLease(ctx, r.lease.Name, r.lease.Holder, r.leaseFor())
	if err != nil {
		return err
	}
	if !ok || lease.Epoch != r.lease.Epoch {
		return errLost
	}
	return r.Store.InTx(ctx, func(tx *store.Tx) error {
		held, err := tx.HoldsLease(ctx, r.lease)
		if err != nil {
			return err
		}
		if !held {
			return errLost
		}
		return fn(tx)
	})
}
