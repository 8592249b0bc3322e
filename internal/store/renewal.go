package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// RenewalWait is a renewal that nobody could pay when its subscription lapsed (M2).
type RenewalWait struct {
	SubscriptionID simwarden.SubscriptionID // the one that lapsed
	Asset          Asset
	PlanID         simwarden.PlanID   // what is to be bought
	WalletID       simwarden.WalletID // 0 where the asset had none
	SinceAt        time.Time          // UTC
}

// SetRenewal writes whether a subscription is bought again at its end, and as which plan (0: the
// same); without renewal it also stops waiting for money. False where there is no such subscription.
func (tx *Tx) SetRenewal(ctx context.Context, id simwarden.SubscriptionID, renew bool, plan simwarden.PlanID) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE subscription SET renew = $2, renew_plan_id = $3 WHERE id = $1`, id, renew, nullID(int64(plan)))
	if err != nil {
		return false, fmt.Errorf("renewal of subscription %d: %w", id, err)
	}
	if !renew {
		err = tx.EndRenewalWaits(ctx, []simwarden.SubscriptionID{id})
	}
	return tag.RowsAffected() == 1, err
}

// AddRenewalWaits keeps renewals until their wallet, locked before, has got more.
func (tx *Tx) AddRenewalWaits(ctx context.Context, waits []RenewalWait) error {
	if len(waits) == 0 {
		return nil
	}
	n := len(waits)
	subs, plans := make([]int64, n), make([]int64, n)
	sims, devices, wallets := make([]*int64, n), make([]*int64, n), make([]*int64, n)
	for i, w := range waits {
		subs[i], plans[i] = int64(w.SubscriptionID), int64(w.PlanID)
		sims[i], devices[i], wallets[i] = nullID(int64(w.Asset.SIMID)), nullID(int64(w.Asset.DeviceID)), nullID(int64(w.WalletID))
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO renewal_wait (subscription_id, sim_id, device_id, plan_id, wallet_id, since_at)
		SELECT s, m, d, p, w, $1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[]) AS v (s, m, d, p, w)
		ON CONFLICT (subscription_id) DO UPDATE SET due_at = NULL, wallet_id = excluded.wallet_id`, tx.At, subs, sims, devices, plans, wallets)
	if err != nil {
		return fmt.Errorf("keep %d renewals waiting: %w", n, err)
	}
	return nil
}

// WakeRenewals makes the renewals that wait for a wallet, locked before, due: it has got more.
func (tx *Tx) WakeRenewals(ctx context.Context, id simwarden.WalletID) error {
	if _, err := tx.Exec(ctx, `UPDATE renewal_wait SET due_at = $2 WHERE wallet_id = $1 AND due_at IS NULL`, id, tx.At); err != nil {
		return fmt.Errorf("wake renewals of wallet %d: %w", id, err)
	}
	return nil
}

// DueRenewals gives up to limit renewals that may be payable now, the longest waiting first, without
// a lock. Only of the subscriptions given, where there are some: asked for again under the locks of
// their assets and wallets it tells which are still due.
func (tx *Tx) DueRenewals(ctx context.Context, among []simwarden.SubscriptionID, limit int) ([]RenewalWait, error) {
	rows, err := tx.Query(ctx, `
		SELECT subscription_id, coalesce(sim_id, 0), coalesce(device_id, 0), plan_id, coalesce(wallet_id, 0), since_at
		FROM renewal_wait WHERE `+renewalDue+` AND ($2::bigint[] IS NULL OR subscription_id = ANY($2)) ORDER BY due_at, subscription_id LIMIT $3`,
		tx.At, among, limit)
	if err != nil {
		return nil, fmt.Errorf("due renewals: %w", err)
	}
	defer rows.Close()
	out := []RenewalWait{}
	for rows.Next() {
		var w RenewalWait
		if err := rows.Scan(&w.SubscriptionID, &w.Asset.SIMID, &w.Asset.DeviceID, &w.PlanID, &w.WalletID, &w.SinceAt); err != nil {
			return nil, fmt.Errorf("due renewals: %w", err)
		}
		w.SinceAt = w.SinceAt.UTC()
		out = append(out, w)
	}
	return out, rows.Err()
}

// EndRenewalWaits forgets renewals that wait: they have been paid, or are no longer wanted.
func (tx *Tx) EndRenewalWaits(ctx context.Context, ids []simwarden.SubscriptionID) error {
	if len(ids) == 0 {
		return nil
	}
	if _, err := tx.Exec(ctx, `DELETE FROM renewal_wait WHERE subscription_id = ANY($1)`, ids); err != nil {
		return fmt.Errorf("end %d waiting renewals: %w", len(ids), err)
	}
	return nil
}

// PostponeRenewal lets a renewal that could not be handled rest until the instant.
func (s *Store) PostponeRenewal(ctx context.Context, id simwarden.SubscriptionID, until time.Time) error {
	if _, err := s.work.Exec(ctx, `UPDATE renewal_wait SET due_at = $2 WHERE subscription_id = $1`, id, until); err != nil {
		return fmt.Errorf("postpone the renewal of subscription %d: %w", id, err)
	}
	return nil
}

// SetRenewalLead sets how long before its end a plan of an account's SIMs is bought again, where it is.
func (tx *Tx) SetRenewalLead(ctx context.Context, id simwarden.AccountID, lead time.Duration) error {
	return tx.touchAccount(ctx, id, `renewal_lead_seconds = $3`, seconds(lead))
}

// TakeEarly locks up to limit main plans that are to be bought again before their end, for the accounts of
// their SIMs, and have come to that (M2); the lead of a device is the longest of its SIMs'. Those in except, and
// those that a guard holds, are left out.
func (tx *Tx) TakeEarly(ctx context.Context, limit int, except ...simwarden.SubscriptionID) ([]simwarden.Subscription, error) {
	return subscriptions(ctx, tx, `
		WHERE `+earlyDue+`
		  AND b.id <> ALL($3)
		ORDER BY b.end_at, b.id LIMIT $2 FOR UPDATE OF b SKIP LOCKED`, tx.At, limit, subscriptionIDs(except))
}

// MarkEarly keeps that the early renewal of subscriptions has had its turn.
func (tx *Tx) MarkEarly(ctx context.Context, ids []simwarden.SubscriptionID) error {
	if _, err := tx.Exec(ctx, `UPDATE subscription SET early_at = $2 WHERE id = ANY($1)`, subscriptionIDs(ids), tx.At); err != nil {
		return fmt.Errorf("mark %d early renewals: %w", len(ids), err)
	}
	return nil
}

// RenewedEarly says that the renewal of a subscription, its asset locked before, is bought: at its end there is
// nothing more to buy.
func (tx *Tx) RenewedEarly(ctx context.Context, id simwarden.SubscriptionID) error {
	if _, err := tx.Exec(ctx, `UPDATE subscription SET renew = false WHERE id = $1`, id); err != nil {
		return fmt.Errorf("renewal of subscription %d: %w", id, err)
	}
	return nil
}
