package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// IMEIs gives the IMEIs of devices; those that have none are left out.
func (s *Store) IMEIs(ctx context.Context, ids []simwarden.DeviceID) (map[simwarden.DeviceID]string, error) {
	rows, err := s.pool.Query(ctx, `SELECT id, imei FROM device WHERE id = ANY($1) AND imei IS NOT NULL`, ids)
	if err != nil {
		return nil, fmt.Errorf("imeis of %d devices: %w", len(ids), err)
	}
	defer rows.Close()
	out := make(map[simwarden.DeviceID]string, len(ids))
	for rows.Next() {
		var id simwarden.DeviceID
		var imei string
		if err := rows.Scan(&id, &imei); err != nil {
			return nil, fmt.Errorf("imeis of %d devices: %w", len(ids), err)
		}
		out[id] = imei
	}
	return out, rows.Err()
}

// SoldSubscription is a subscription with what it was bought for: the SIM, or the device and the first
// of its SIMs.
type SoldSubscription struct {
	simwarden.Subscription
	ICCID     string    `json:"iccid,omitempty"`
	IMEI      string    `json:"imei,omitempty"`
	Account   string    `json:"account,omitempty"`
	BoughtAt  time.Time `json:"bought_at"` // UTC
	BoughtBy  string    `json:"bought_by"`
	ImportRef string    `json:"import_ref,omitempty"`
}

// SubscriptionFilter narrows a list of subscriptions; zero fields do not.
type SubscriptionFilter struct {
	AccountID simwarden.AccountID // of a device: where one of its SIMs is of it
	LiveOnly  bool                // queued, active or exhausted
	State     simwarden.SubscriptionState
	Plan      string // its code
	ID        simwarden.SubscriptionID
	After     simwarden.SubscriptionID
	Limit     int
}

// SoldSubscriptions lists subscriptions in the order of their ids.
func (s *Store) SoldSubscriptions(ctx context.Context, f SubscriptionFilter) ([]SoldSubscription, error) {
	return scanAll("list subscriptions", scanSold)(s.pool.Query(ctx, `
		SELECT `+subscriptionColumns+`, coalesce(c.iccid, ''), coalesce(d.imei, ''), coalesce(a.name, ''), b.bought_at, b.bought_by, coalesce(b.import_ref, '')
		FROM subscription b JOIN plan p ON p.id = b.plan_id LEFT JOIN device d ON d.id = b.device_id
		LEFT JOIN LATERAL (
			SELECT c.iccid, c.account_id FROM sim c WHERE c.id = b.sim_id OR c.device_id = b.device_id AND ($2::bigint = 0 OR c.account_id = $2) ORDER BY c.id LIMIT 1
		) c ON true
		LEFT JOIN account a ON a.id = c.account_id
		WHERE b.id > $1 AND ($2::bigint = 0 OR c.account_id = $2) AND (NOT $3 OR b.state IN ('queued', 'active', 'exhausted'))
		  AND ($5 = '' OR b.state = $5) AND ($6 = '' OR p.code = $6) AND ($7::bigint = 0 OR b.id = $7)
		ORDER BY b.id LIMIT $4`, f.After, f.AccountID, f.LiveOnly, f.Limit, string(f.State), f.Plan, f.ID))
}

func scanSold(row pgx.Row) (SoldSubscription, error) {
	var b SoldSubscription
	sub, err := scanSubscription(rowMore{row, []any{&b.ICCID, &b.IMEI, &b.Account, &b.BoughtAt, &b.BoughtBy, &b.ImportRef}})
	b.Subscription, b.BoughtAt = sub, b.BoughtAt.UTC()
	return b, err
}

// rowMore is a row with more columns than its scanner knows.
type rowMore struct {
	pgx.Row
	more []any
}

// Scan scans the columns that are known and then the others.
func (r rowMore) Scan(dest ...any) error { return r.Row.Scan(append(dest, r.more...)...) }

// UsedDay is what a SIM used on a UTC day.
type UsedDay struct {
	SIMID          simwarden.SIMID
	ICCID, Account string
	Day            time.Time // its midnight, UTC
	Bytes          int64
}

// UsedDayFilter narrows a list of used days; zero fields do not. The days are from FromAt's to before
// UntilAt's, UTC. The list goes on after the SIM and the day.
type UsedDayFilter struct {
	AccountID       simwarden.AccountID
	SIMID           simwarden.SIMID
	FromAt, UntilAt time.Time
	AfterSIM        simwarden.SIMID
	AfterDay        time.Time
	Limit           int
}

// UsedDays lists what SIMs used a day, by SIM and day.
func (s *Store) UsedDays(ctx context.Context, f UsedDayFilter) ([]UsedDay, error) {
	return scanAll("list used days", func(row pgx.Row) (UsedDay, error) {
		var u UsedDay
		err := one(row, &u.SIMID, &u.ICCID, &u.Account, &u.Day, &u.Bytes)
		return u, err
	})(s.pool.Query(ctx, `
		SELECT u.sim_id, c.iccid, a.name, u.day, u.bytes
		FROM usage_day u JOIN sim c ON c.id = u.sim_id JOIN account a ON a.id = c.account_id
		WHERE (u.sim_id > $1 OR u.sim_id = $1 AND u.day > $2::date) AND u.sim_id >= $1
		  AND ($3::bigint = 0 OR c.account_id = $3) AND ($4::bigint = 0 OR u.sim_id = $4)
		  AND ($5::date IS NULL OR u.day >= $5) AND ($6::date IS NULL OR u.day < $6)
		ORDER BY u.sim_id, u.day LIMIT $7`, f.AfterSIM, f.AfterDay, f.AccountID, f.SIMID, nullTime(f.FromAt), nullTime(f.UntilAt), f.Limit))
}

// NewDevice is a device to add.
type NewDevice struct {
	IMEI simwarden.IMEI
	Name string
}

// KnownDevices says which of the equipments are there: by the first 14 digits of the IMEI.
func (tx *Tx) KnownDevices(ctx context.Context, imeis []simwarden.IMEI) (map[string]bool, error) {
	bodies := make([]string, len(imeis))
	for i, imei := range imeis {
		bodies[i] = imei.String()[:14]
	}
	rows, err := tx.Query(ctx, `SELECT left(imei, 14) FROM device WHERE left(imei, 14) = ANY($1)`, bodies)
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("look for devices: %w", err)
	}
	out := make(map[string]bool, len(list))
	for _, body := range list {
		out[body] = true
	}
	return out, nil
}

// AddDevices adds devices, none of which is there.
func (tx *Tx) AddDevices(ctx context.Context, list []NewDevice) error {
	imeis, names := make([]string, len(list)), make([]string, len(list))
	for i, d := range list {
		imeis[i], names[i] = d.IMEI.String(), d.Name
	}
	_, err := tx.Exec(ctx, `INSERT INTO device (imei, name, created_at) SELECT v.imei, v.name, $3 FROM unnest($1::text[], $2::text[]) AS v (imei, name)`, imeis, names, tx.At)
	if err != nil {
		return fmt.Errorf("add %d devices: %w", len(list), err)
	}
	return nil
}
