package store

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// KeepObservedLapse keeps a lapse or refund whose suspend was not sent since the account observes, for
// when it acts (C9). One that has triggered before has had its turn (E6).
func (tx *Tx) KeepObservedLapse(ctx context.Context, l Lapse) error {
	_, err := tx.Exec(ctx, `
		INSERT INTO lapse_observed (sim_id, subscription_id, scene, observed_at)
		SELECT $1, $2, $3, $4
		WHERE NOT EXISTS (SELECT FROM lapse_trigger WHERE sim_id = $1 AND subscription_id = $2 AND scene = $3)
		ON CONFLICT (sim_id) DO UPDATE SET subscription_id = excluded.subscription_id, scene = excluded.scene, observed_at = excluded.observed_at`,
		l.SIMID, l.SubscriptionID, string(l.Scene), tx.At)
	if err != nil {
		return fmt.Errorf("keep the observed lapse of sim %d: %w", l.SIMID, err)
	}
	return nil
}

// ForgetLapse gives a lapse its one trigger back: its command ended without having been meant for the
// carrier, since the account observes, and is kept as such (C9).
func (tx *Tx) ForgetLapse(ctx context.Context, command simwarden.CommandID) error {
	_, err := tx.Exec(ctx, `
		WITH gone AS (DELETE FROM lapse_trigger WHERE command_id = $1 RETURNING sim_id, subscription_id, scene)
		INSERT INTO lapse_observed (sim_id, subscription_id, scene, observed_at)
		SELECT sim_id, subscription_id, scene, $2 FROM gone
		ON CONFLICT (sim_id) DO UPDATE SET subscription_id = excluded.subscription_id, scene = excluded.scene, observed_at = excluded.observed_at`,
		command, tx.At)
	if err != nil {
		return fmt.Errorf("forget lapse of command %d: %w", command, err)
	}
	return nil
}

// ObservedLapses gives what was kept of SIMs.
func (tx *Tx) ObservedLapses(ctx context.Context, ids []simwarden.SIMID) (map[simwarden.SIMID]Lapse, error) {
	return observedLapses(tx.Query(ctx, `SELECT sim_id, subscription_id, scene FROM lapse_observed WHERE sim_id = ANY($1)`, ids))
}

// TakeObservedLapses gives what was kept of SIMs whose accounts act, and keeps it no longer: the caller
// judges it in this transaction.
func (tx *Tx) TakeObservedLapses(ctx context.Context, ids []simwarden.SIMID) (map[simwarden.SIMID]Lapse, error) {
	return observedLapses(tx.Query(ctx, `
		DELETE FROM lapse_observed o USING sim s, account a
		WHERE o.sim_id = ANY($1) AND s.id = o.sim_id AND a.id = s.account_id AND a.mode = 'act'
		RETURNING o.sim_id, o.subscription_id, o.scene`, ids))
}

func observedLapses(rows pgx.Rows, err error) (map[simwarden.SIMID]Lapse, error) {
	list, err := scanAll("observed lapses", func(row pgx.Row) (l Lapse, err error) {
		err = row.Scan(&l.SIMID, &l.SubscriptionID, &l.Scene)
		return l, err
	})(rows, err)
	if err != nil {
		return nil, err
	}
	out := make(map[simwarden.SIMID]Lapse, len(list))
	for _, l := range list {
		out[l.SIMID] = l
	}
	return out, nil
}
