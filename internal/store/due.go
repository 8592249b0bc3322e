package store

import (
	"context"
	"fmt"
	"time"
)

// PlansDue says what of plans is due, ends aside.
type PlansDue struct {
	Starts, Early, Resets, Pools, Renewals, Holds bool
}

// What is due at $1, for those who ask whether anything is and those who take it.
const (
	startDue = `b.state = 'queued' AND b.wake_at <= $1`
	earlyDue = `b.renew AND b.kind = 'main' AND b.state IN ('active', 'exhausted') AND b.guard_id IS NULL AND b.early_at IS NULL
		  AND b.end_at > $1 AND b.end_at <= $1 + (SELECT max(renewal_lead_seconds) FROM account) * interval '1 second'
		  AND b.end_at <= $1 + (SELECT max(a.renewal_lead_seconds) FROM sim s JOIN account a ON a.id = s.account_id
			WHERE s.id = b.sim_id OR s.device_id = b.device_id) * interval '1 second'`
	resetDue   = `b.state IN ('active', 'exhausted') AND b.next_reset_at <= $1 AND b.end_at > $1`
	poolDue    = `next_reset_at <= $1`
	renewalDue = `due_at <= $1`
	holdDue    = `state = 'open' AND expires_at <= $1`
)

// PlansDue asks in one statement what is due at an instant, which for most of the time is nothing. Each
// part has the order of those who take: it reads the index that they read, whatever the statistics say.
func (s *Store) PlansDue(ctx context.Context, at time.Time) (due PlansDue, err error) {
	err = s.work.QueryRow(ctx, `
		SELECT (SELECT true FROM subscription b WHERE `+startDue+` ORDER BY b.wake_at, b.id LIMIT 1) IS NOT NULL,
			(SELECT true FROM subscription b WHERE `+earlyDue+` ORDER BY b.end_at, b.id LIMIT 1) IS NOT NULL,
			(SELECT true FROM subscription b WHERE `+resetDue+` ORDER BY b.next_reset_at, b.id LIMIT 1) IS NOT NULL,
			(SELECT true FROM pool WHERE `+poolDue+` ORDER BY next_reset_at, id LIMIT 1) IS NOT NULL,
			(SELECT true FROM renewal_wait WHERE `+renewalDue+` ORDER BY due_at, subscription_id LIMIT 1) IS NOT NULL,
			(SELECT true FROM ledger_hold WHERE `+holdDue+` ORDER BY expires_at, id LIMIT 1) IS NOT NULL`, at).
		Scan(&due.Starts, &due.Early, &due.Resets, &due.Pools, &due.Renewals, &due.Holds)
	if err != nil {
		return PlansDue{}, fmt.Errorf("what is due of plans: %w", err)
	}
	return due, nil
}
