package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Alert is something a person should look at. One is open per key at a time.
type Alert struct {
	ID        int64               `json:"id"`
	At        time.Time           `json:"at"`
	Kind      string              `json:"kind"`
	Key       string              `json:"key"`
	AccountID simwarden.AccountID `json:"account_id,omitempty"`
	SIMID     simwarden.SIMID     `json:"sim_id,omitempty"`
	Message   string              `json:"message"`
	Times     int                 `json:"times"`
	LastAt    time.Time           `json:"last_at"`
}

// The kinds of alert.
const (
	AlertAuth          = "account_auth"
	AlertBrake         = "safety_brake"
	AlertRest          = "account_rest"
	AlertFailing       = "account_failing"
	AlertFlapping      = "sim_flapping"
	AlertCommandFailed = "command_failed"
	AlertThrottled     = "command_throttled"
	AlertUsage         = "usage_anomaly"
	AlertRealName      = "realname_unclear"
	AlertPartition     = "partition_missing"
	AlertClock         = "clock"
	AlertRowSetAside   = "row_set_aside"
	AlertDrift         = "drift"
	AlertRenewal       = "renewal_unpaid"
	AlertClosed        = "polling_closed"
	AlertCarrierLimit  = "carrier_limit"
)

// Raise opens an alert, or counts it again where one with its key is open.
func (tx *Tx) Raise(ctx context.Context, a Alert) error {
	return raise(ctx, tx, tx.At, a)
}

// Raise is Tx.Raise in a transaction of its own.
func (s *Store) Raise(ctx context.Context, a Alert) error {
	return raise(ctx, s.pool, s.Now(), a)
}

func raise(ctx context.Context, db execer, at time.Time, a Alert) error {
	_, err := db.Exec(ctx, `
		INSERT INTO alert (at, kind, key, account_id, sim_id, message, last_at) VALUES ($1, $2, $3, $4, $5, $6, $1)
		ON CONFLICT (key) WHERE cleared_at IS NULL
		DO UPDATE SET times = alert.times + 1, last_at = excluded.last_at, message = excluded.message`,
		at, a.Kind, a.Key, nullID(int64(a.AccountID)), nullID(int64(a.SIMID)), a.Message)
	if err != nil {
		return fmt.Errorf("raise alert %s: %w", a.Key, err)
	}
	return nil
}

// ClearAlert closes the open alert with the key, if there is one.
func (tx *Tx) ClearAlert(ctx context.Context, key, by string) error {
	if _, err := tx.Exec(ctx, `UPDATE alert SET cleared_at = $2, cleared_by = $3 WHERE key = $1 AND cleared_at IS NULL`, key, tx.At, by); err != nil {
		return fmt.Errorf("clear alert %s: %w", key, err)
	}
	return nil
}

// OpenAlerts gives the open alerts, newest first.
func (s *Store) OpenAlerts(ctx context.Context, limit int) ([]Alert, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, at, kind, key, coalesce(account_id, 0), coalesce(sim_id, 0), message, times, last_at
		FROM alert WHERE cleared_at IS NULL ORDER BY id DESC LIMIT $1`, limit)
	if err != nil {
		return nil, fmt.Errorf("open alerts: %w", err)
	}
	defer rows.Close()
	out := []Alert{}
	for rows.Next() {
		var a Alert
		if err := rows.Scan(&a.ID, &a.At, &a.Kind, &a.Key, &a.AccountID, &a.SIMID, &a.Message, &a.Times, &a.LastAt); err != nil {
			return nil, fmt.Errorf("open alerts: %w", err)
		}
		a.At, a.LastAt = a.At.UTC(), a.LastAt.UTC()
		out = append(out, a)
	}
	return out, rows.Err()
}
