package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// addGuardBands fills in what the promises of main plans in force need (E12). Where no plan makes
// one it asks nothing.
func (tx *Tx) addGuardBands(ctx context.Context, sims []SIMFacts) error {
	var simIDs []simwarden.SIMID
	var deviceIDs []simwarden.DeviceID
	var accounts []simwarden.AccountID
	for i := range sims {
		f := &sims[i].Facts
		for _, b := range f.Subscriptions {
			if b.GuardBandProbability > 0 && b.InForce(tx.At) {
				f.GuardBand = &rules.GuardBand{SubscriptionID: b.ID, Bytes: b.GuardBandBytes, Probability: b.GuardBandProbability}
			}
		}
		if f.GuardBand == nil {
			continue
		}
		if sims[i].DeviceID != 0 {
			deviceIDs = append(deviceIDs, sims[i].DeviceID)
		} else {
			simIDs = append(simIDs, sims[i].ID)
		}
	}
	if len(simIDs)+len(deviceIDs) == 0 {
		return nil
	}
	type line struct {
		rules.GuardBandLine
		device  simwarden.DeviceID
		account simwarden.AccountID
		rates   rules.Rates
	}
	rows, err := tx.Query(ctx, `
		WITH asset AS (
			SELECT s.id, s.device_id FROM sim s WHERE s.id = ANY($1) AND s.device_id IS NULL
			UNION ALL SELECT s.id, s.device_id FROM sim s WHERE s.device_id = ANY($2)
		)
		SELECT s.id, coalesce(s.device_id, 0), p.account_id, coalesce(r.intervals, 0), coalesce(r.bytes, '{}'), p.usage_read_at, p.usage_true_at, p.usage_due_at
		FROM asset s JOIN poll_state p ON p.sim_id = s.id LEFT JOIN usage_rate r ON r.sim_id = s.id
		WHERE p.state <> 'terminated' ORDER BY s.id`, simIDs, deviceIDs)
	if err != nil {
		return err
	}
	lines, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (l line, err error) {
		var read, truly *time.Time
		err = row.Scan(&l.SIMID, &l.device, &l.account, &l.rates.Intervals, &l.rates.Bytes, &read, &truly, &l.NextReadAt)
		l.ReadAt, l.TrueAt, l.NextReadAt = timeOf(read), timeOf(truly), l.NextReadAt.UTC()
		return l, err
	})
	if err != nil {
		return err
	}
	for _, l := range lines {
		if !slices.Contains(accounts, l.account) {
			accounts = append(accounts, l.account)
		}
	}
	measured, err := tx.guardBandAccounts(ctx, accounts)
	if err != nil {
		return err
	}
	stops, err := tx.guardBandStops(ctx, sims)
	if err != nil {
		return err
	}
	for i := range sims {
		g := sims[i].Facts.GuardBand
		if g == nil {
			continue
		}
		share := rules.ShareOf(g.Probability)
		own := measured[sims[i].AccountID]
		g.Latency = rules.LatencyAt(own.latencySeconds, own.suspends, share)
		for _, l := range lines {
			if l.SIMID == sims[i].ID || l.device != 0 && l.device == sims[i].DeviceID {
				l.BytesPerSecond = l.rates.AtShare(share, measured[l.account].rates)
				g.Lines = append(g.Lines, l.GuardBandLine)
			}
		}
		if s, ok := stops[stopKey{sims[i].ID, g.SubscriptionID}]; ok {
			g.Stop = &s
		}
	}
	return nil
}

// measuredAccount is what was measured last of an account.
type measuredAccount struct {
	rates          rules.Rates
	latencySeconds []float64
	suspends       int64
}

func (tx *Tx) guardBandAccounts(ctx context.Context, ids []simwarden.AccountID) (map[simwarden.AccountID]measuredAccount, error) {
	rows, err := tx.Query(ctx, `SELECT account_id, intervals, bytes, latency_seconds, suspends FROM guard_band_account WHERE account_id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	out := map[simwarden.AccountID]measuredAccount{}
	for rows.Next() {
		var id simwarden.AccountID
		var m measuredAccount
		if err := rows.Scan(&id, &m.rates.Intervals, &m.rates.Bytes, &m.latencySeconds, &m.suspends); err != nil {
			return nil, err
		}
		out[id] = m
	}
	return out, rows.Err()
}

type stopKey struct {
	sim          simwarden.SIMID
	subscription simwarden.SubscriptionID
}

// guardBandStops gives the stops that last.
func (tx *Tx) guardBandStops(ctx context.Context, sims []SIMFacts) (map[stopKey]rules.GuardBandStop, error) {
	var ids []simwarden.SIMID
	for _, s := range sims {
		if s.Facts.GuardBand != nil {
			ids = append(ids, s.ID)
		}
	}
	rows, err := tx.Query(ctx, `
		SELECT sim_id, subscription_id, ordered_at, allowance_bytes, ordered_used_bytes FROM guard_band_stop
		WHERE sim_id = ANY($1) AND until_at IS NULL ORDER BY ordered_at`, ids)
	if err != nil {
		return nil, err
	}
	out := map[stopKey]rules.GuardBandStop{}
	for rows.Next() {
		var key stopKey
		var s rules.GuardBandStop
		if err := rows.Scan(&key.sim, &key.subscription, &s.OrderedAt, &s.AllowanceBytes, &s.UsedBytes); err != nil {
			return nil, err
		}
		s.OrderedAt = s.OrderedAt.UTC()
		out[key] = s
	}
	return out, rows.Err()
}

// GuardBandStop is a suspend that was ordered under a promise.
type GuardBandStop struct {
	CommandID  simwarden.CommandID
	SIMID      simwarden.SIMID
	Promise    rules.GuardBand
	Projection rules.Projection
}

// OrderGuardBandStops notes what was promised and known when suspends were ordered. What lasted of
// earlier stops of a SIM is over: the new one stands for them.
func (tx *Tx) OrderGuardBandStops(ctx context.Context, stops []GuardBandStop) error {
	for _, s := range stops {
		if _, err := tx.Exec(ctx, `UPDATE guard_band_stop SET until_at = $2, withdrawn = withdrawn OR stopped_at IS NULL WHERE sim_id = $1 AND until_at IS NULL`, s.SIMID, tx.At); err != nil {
			return fmt.Errorf("stop of sim %d under a guard band: %w", s.SIMID, err)
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO guard_band_stop (command_id, sim_id, device_id, account_id, subscription_id, plan_id, allowance_bytes, guard_band_bytes,
				probability, early, ordered_at, ordered_used_bytes, projected_bytes, used_bytes)
			SELECT $1, s.id, s.device_id, s.account_id, b.id, b.plan_id, $4, $5, $6, $7::bigint < $4, $8, $7, $9, $7
			FROM sim s, subscription b WHERE s.id = $2 AND b.id = $3`,
			s.CommandID, s.SIMID, s.Promise.SubscriptionID, s.Projection.AllowanceBytes, s.Promise.Bytes, s.Promise.Probability,
			s.Projection.UsedBytes, tx.At, s.Projection.ProjectedBytes)
		if err != nil {
			return fmt.Errorf("stop of sim %d under a guard band: %w", s.SIMID, err)
		}
	}
	return nil
}

// settleGuardBandStop notes the end of the command of a stop: done, it is measured from now on;
// obsolete or replaced, it never was. A failed one lasts until another takes its place.
func (tx *Tx) settleGuardBandStop(ctx context.Context, command simwarden.CommandID, to simwarden.CommandState) error {
	_, err := tx.Exec(ctx, `
		UPDATE guard_band_stop SET stopped_at = CASE WHEN $2 = 'done' THEN $3::timestamptz END,
			withdrawn = $2 IN ('obsolete', 'replaced'), until_at = CASE WHEN $2 IN ('obsolete', 'replaced') THEN $3::timestamptz END
		WHERE command_id = $1 AND until_at IS NULL`, command, string(to), tx.At)
	if err != nil {
		return fmt.Errorf("settle the stop by command %d: %w", command, err)
	}
	return nil
}

// endGuardBandStop notes that a SIM runs again. What it uses from when that was first asked of the
// carrier is another promise's.
func (tx *Tx) endGuardBandStop(ctx context.Context, sim simwarden.SIMID, resume simwarden.CommandID) error {
	_, err := tx.Exec(ctx, `
		UPDATE guard_band_stop SET until_at = (SELECT coalesce((SELECT min(t.claimed_at) FROM attempt t WHERE t.command_id = $2 AND t.outcome <> 'not_sent'), $3))
		WHERE sim_id = $1 AND until_at IS NULL`, sim, resume, tx.At)
	if err != nil {
		return fmt.Errorf("end the stop of sim %d: %w", sim, err)
	}
	return nil
}

// RateRow is a growth of the usage of a SIM whose plan has a guard band: how much, in which time, and
// until when.
type RateRow struct {
	SIMID      simwarden.SIMID
	Asset      Asset
	DeltaBytes int64
	Over       time.Duration
	TrueAt     time.Time
}

// stoppedFor is how long after its order a stop still takes in usage that is booked late (U4).
const stoppedFor = 62 * 24 * time.Hour

// WriteRates takes growth into the SIMs' rates, and adds it to what was used by stops that it was
// used before (E12). The SIMs are locked.
func (tx *Tx) WriteRates(ctx context.Context, rows []RateRow) error {
	if len(rows) == 0 {
		return nil
	}
	ids := make([]simwarden.SIMID, len(rows))
	assets, deltas, trues := make([]int64, len(rows)), make([]int64, len(rows)), make([]time.Time, len(rows))
	for i, r := range rows {
		ids[i], assets[i], deltas[i], trues[i] = r.SIMID, int64(r.Asset.SIMID), r.DeltaBytes, r.TrueAt
		if r.Asset.DeviceID != 0 {
			assets[i] = -int64(r.Asset.DeviceID)
		}
	}
	known := map[simwarden.SIMID]rules.Rates{}
	found, err := tx.Query(ctx, `SELECT sim_id, intervals, bytes FROM usage_rate WHERE sim_id = ANY($1)`, ids)
	if err != nil {
		return fmt.Errorf("rates of %d sims: %w", len(rows), err)
	}
	var id simwarden.SIMID
	var r rules.Rates
	if _, err := pgx.ForEachRow(found, []any{&id, &r.Intervals, &r.Bytes}, func() error {
		known[id] = rules.Rates{Intervals: r.Intervals, Bytes: slices.Clone(r.Bytes)}
		return nil
	}); err != nil {
		return fmt.Errorf("rates of %d sims: %w", len(rows), err)
	}
	for _, row := range rows {
		next := known[row.SIMID].Add(row.DeltaBytes, row.Over)
		if _, err := tx.Exec(ctx, `
			INSERT INTO usage_rate (sim_id, intervals, bytes) VALUES ($1, $2, $3)
			ON CONFLICT (sim_id) DO UPDATE SET intervals = excluded.intervals, bytes = excluded.bytes`, row.SIMID, next.Intervals, next.Bytes); err != nil {
			return fmt.Errorf("rates of sim %d: %w", row.SIMID, err)
		}
	}
	_, err = tx.Exec(ctx, `
		UPDATE guard_band_stop g SET used_bytes = g.used_bytes + v.delta
		FROM (SELECT g.command_id, sum(v.delta)::bigint AS delta
			FROM unnest($1::bigint[], $2::bigint[], $3::timestamptz[]) AS v (asset, delta, true_at)
			JOIN guard_band_stop g ON g.asset = v.asset AND g.ordered_at > $4 AND NOT g.withdrawn AND (g.until_at IS NULL OR v.true_at <= g.until_at)
			GROUP BY g.command_id) v
		WHERE g.command_id = v.command_id`, assets, deltas, trues, tx.At.Add(-stoppedFor))
	if err != nil {
		return fmt.Errorf("usage of stops of %d sims: %w", len(rows), err)
	}
	return nil
}

// MeasureGuardBands measures of each account with SIMs under a guard band at which rates they use data
// and how long suspends take (E12).
func (s *Store) MeasureGuardBands(ctx context.Context) error {
	now := s.Now()
	_, err := s.pool.Exec(ctx, `
		INSERT INTO guard_band_account AS g (account_id, intervals, bytes, latency_seconds, suspends, measured_at)
		SELECT a.account_id, a.intervals, b.bytes, coalesce(l.latency, '{}'), coalesce(l.n, 0), $1
		FROM (SELECT p.account_id, sum(r.intervals) AS intervals FROM usage_rate r JOIN poll_state p ON p.sim_id = r.sim_id GROUP BY 1) a
		JOIN (SELECT account_id, array_agg(bytes ORDER BY class) AS bytes FROM (
			SELECT p.account_id, c.class, sum(c.bytes) AS bytes
			FROM usage_rate r JOIN poll_state p ON p.sim_id = r.sim_id, unnest(r.bytes) WITH ORDINALITY AS c (bytes, class)
			GROUP BY 1, 2) x GROUP BY 1) b USING (account_id)
		LEFT JOIN LATERAL (
			SELECT count(*) AS n, percentile_disc($2::float8[]) WITHIN GROUP (ORDER BY took) AS latency FROM (
				SELECT extract(epoch FROM ended_at - created_at)::float8 AS took FROM command c
				WHERE c.account_id = a.account_id AND c.direction = 'suspend' AND c.state = 'done' AND c.attempt > 0 AND c.scene <> 'manual'
				  AND c.created_at > $1::timestamptz - interval '30 days'
				ORDER BY c.created_at DESC LIMIT 5000) latest) l ON true
		ON CONFLICT (account_id) DO UPDATE SET intervals = excluded.intervals, bytes = excluded.bytes,
			latency_seconds = excluded.latency_seconds, suspends = excluded.suspends, measured_at = excluded.measured_at`, now, rules.LatencyShares)
	if err != nil {
		return fmt.Errorf("measure guard bands: %w", err)
	}
	return nil
}

// GuardBandReport says how often the promises of one plan at one account were kept (E12).
type GuardBandReport struct {
	AccountID      simwarden.AccountID `json:"account_id"`
	Account        string              `json:"account"`
	Plan           string              `json:"plan"`
	GuardBandBytes int64               `json:"guard_band_bytes"`
	Probability    float64             `json:"probability"`
	// Promises are the stops that the carrier has shown, and those that failed while usage passed the
	// guard band. Early of them were ordered before the allowance was used up.
	Promises int64 `json:"promises"`
	Early    int64 `json:"early"`
	Kept     int64 `json:"kept"`
	// KeptShare is Kept of Promises; 1 where there is none.
	KeptShare         float64 `json:"kept_share"`
	WorstOverrunBytes int64   `json:"worst_overrun_bytes"` // beyond the allowance
}

// GuardBandReports reports on stops ordered since an instant, of all accounts where account is 0.
func (s *Store) GuardBandReports(ctx context.Context, account simwarden.AccountID, since time.Time) ([]GuardBandReport, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT g.account_id, a.name, p.code, g.guard_band_bytes, g.probability, count(*), count(*) FILTER (WHERE g.early),
			count(*) FILTER (WHERE g.stopped_at IS NOT NULL AND g.used_bytes - g.allowance_bytes <= g.guard_band_bytes),
			greatest(0, max(g.used_bytes - g.allowance_bytes))
		FROM guard_band_stop g JOIN account a ON a.id = g.account_id JOIN plan p ON p.id = g.plan_id
		WHERE g.ordered_at >= $2 AND ($1 = 0 OR g.account_id = $1) AND NOT g.withdrawn
		  AND (g.stopped_at IS NOT NULL OR g.used_bytes - g.allowance_bytes > g.guard_band_bytes)
		GROUP BY 1, 2, 3, 4, 5 ORDER BY 2, 3`, int64(account), since)
	if err != nil {
		return nil, fmt.Errorf("guard bands: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r GuardBandReport, err error) {
		err = row.Scan(&r.AccountID, &r.Account, &r.Plan, &r.GuardBandBytes, &r.Probability, &r.Promises, &r.Early, &r.Kept, &r.WorstOverrunBytes)
		r.KeptShare = float64(r.Kept) / float64(max(r.Promises, 1))
		return r, err
	})
}
