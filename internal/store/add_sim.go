package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// NewSIM is a SIM to add. Raw is the number as it was given (I6).
type NewSIM struct {
	ICCID    simwarden.ICCID
	Raw      string
	Key      string // the carrier's own name, where known
	MSISDN   simwarden.MSISDN
	IMSI     simwarden.IMSI
	Label    string
	DeviceID simwarden.DeviceID
	AddedBy  string // who adds it, for its timeline; empty: the system
}

// AddSIMs adds SIMs to an account and asks the poller to read them: at once where they are few,
// spread evenly over the given time otherwise (P1, P2). The caller has checked that none of them
// is there already; one that is makes the whole call fail. The ids are in the order given.
func (tx *Tx) AddSIMs(ctx context.Context, account Account, sims []NewSIM, spread time.Duration) ([]simwarden.SIMID, error) {
	after := make([]time.Duration, len(sims))
	for i := range after {
		after[i] = time.Duration(float64(spread) * float64(i) / float64(len(sims)))
	}
	return tx.AddSIMsAfter(ctx, account, sims, after)
}

// AddSIMsAfter is AddSIMs with each SIM's own wait, from the transaction's instant to its first
// reading: for those who add a fleet in several calls.
func (tx *Tx) AddSIMsAfter(ctx context.Context, account Account, sims []NewSIM, after []time.Duration) ([]simwarden.SIMID, error) {
	n := len(sims)
	if n == 0 {
		return nil, nil
	}
	iccids, raws, keys, msisdns, imsis, labels := make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	devices, due, actors := make([]*int64, n), make([]time.Time, n), make([]string, n)
	for i, s := range sims {
		iccids[i], raws[i], keys[i], msisdns[i], imsis[i], labels[i] = s.ICCID.String(), s.Raw, s.Key, s.MSISDN.String(), s.IMSI.String(), s.Label
		devices[i] = nullID(int64(s.DeviceID))
		due[i], actors[i] = tx.At.Add(after[i]), cmp.Or(s.AddedBy, "system")
	}
	rows, err := tx.Query(ctx, `
		WITH new AS (
			SELECT *, nextval(pg_get_serial_sequence('sim', 'id')) AS id
			FROM unnest($3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::bigint[], $10::timestamptz[], $12::text[])
				WITH ORDINALITY AS v (iccid, iccid_raw, key, msisdn, imsi, label, device_id, due_at, actor, n)
		), added AS (
			INSERT INTO sim (id, account_id, device_id, iccid, iccid_raw, key, msisdn, imsi, label, created_at)
			SELECT id, $1, device_id, iccid, iccid_raw, key, msisdn, imsi, label, $11 FROM new
		), polled AS (
			INSERT INTO poll_state (sim_id, account_id, shard, state_due_at, usage_due_at, realname_due_at)
			SELECT id, $1, id % $2, due_at, due_at, due_at FROM new
		), nudged AS (
			INSERT INTO poll_nudge (sim_id, account_id, shard, due_at)
			SELECT id, $1, id % $2, due_at FROM new
		), bound AS (
			INSERT INTO device_sim_history (sim_id, device_id, bound_at, bound_by)
			SELECT id, device_id, $11, actor FROM new WHERE device_id IS NOT NULL
		), told AS (
			INSERT INTO event (at, kind, sim_id, account_id, actor) SELECT $11, 'sim_added', id, $1, actor FROM new
		)
		SELECT id FROM new ORDER BY n`,
		account.ID, account.Shards, iccids, raws, keys, msisdns, imsis, labels, devices, due, tx.At, actors)
	if err != nil {
		return nil, fmt.Errorf("add %d sims: %w", n, err)
	}
	defer rows.Close()
	ids := make([]simwarden.SIMID, 0, n)
	for rows.Next() {
		var id simwarden.SIMID
		if err := rows.Scan(&id); err != nil {
			return nil, fmt.Errorf("add %d sims: %w", n, err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("add %d sims: %w", n, err)
	}
	return ids, nil
}

// KnownICCIDs says which of the numbers, given in any of their forms, are there already.
func (tx *Tx) KnownICCIDs(ctx context.Context, forms []string) (map[string]simwarden.SIMID, error) {
	rows, err := tx.Query(ctx, `SELECT iccid, id FROM sim WHERE iccid = ANY($1)`, forms)
	if err != nil {
		return nil, fmt.Errorf("look for known numbers: %w", err)
	}
	defer rows.Close()
	out := map[string]simwarden.SIMID{}
	for rows.Next() {
		var iccid string
		var id simwarden.SIMID
		if err := rows.Scan(&iccid, &id); err != nil {
			return nil, fmt.Errorf("look for known numbers: %w", err)
		}
		out[iccid] = id
	}
	return out, rows.Err()
}

// Device gives the id of the device with the IMEI, adding it where it is new.
func (tx *Tx) Device(ctx context.Context, imei simwarden.IMEI, name string) (simwarden.DeviceID, error) {
	var id simwarden.DeviceID
	err := tx.QueryRow(ctx, `
		INSERT INTO device (imei, name, created_at) VALUES ($1, $2, $3)
		ON CONFLICT (imei) DO UPDATE SET name = CASE WHEN device.name = '' THEN excluded.name ELSE device.name END RETURNING id`,
		imei.String(), name, tx.At).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("add device: %w", err)
	}
	return id, nil
}
