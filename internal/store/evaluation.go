package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Evaluation is a request to judge a SIM, or all SIMs of a device, with its scene (E4).
type Evaluation struct {
	ID             simwarden.EvaluationID
	SIMID          simwarden.SIMID
	DeviceID       simwarden.DeviceID
	Scene          simwarden.Scene
	Cause          Cause
	SubscriptionID simwarden.SubscriptionID
	Manual         simwarden.Direction // what a person asked for, in scene manual
	AskedBy        string
	AskedAt        time.Time
	RunAt          time.Time // zero: at once
	Tries          int
}

// RequestEvaluation writes a request in the cause's own transaction (C1, V1).
func (tx *Tx) RequestEvaluation(ctx context.Context, e Evaluation) (simwarden.EvaluationID, error) {
	if e.RunAt.IsZero() {
		e.RunAt = tx.At
	}
	var id simwarden.EvaluationID
	err := tx.QueryRow(ctx, `
		INSERT INTO evaluation_request (sim_id, device_id, scene, cause_kind, cause_id, subscription_id, asked_by, asked_at, run_at, manual)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) RETURNING id`,
		nullID(int64(e.SIMID)), nullID(int64(e.DeviceID)), string(e.Scene), e.Cause.Kind, e.Cause.ID,
		nullID(int64(e.SubscriptionID)), e.AskedBy, tx.At, e.RunAt, string(e.Manual)).Scan(&id)
	if err != nil {
		return 0, fmt.Errorf("request evaluation: %w", err)
	}
	return id, nil
}

// TakeEvaluations locks up to limit due requests for the rest of the transaction; others pass
// over them.
func (tx *Tx) TakeEvaluations(ctx context.Context, limit int) ([]Evaluation, error) {
	rows, err := tx.Query(ctx, `
		SELECT id, coalesce(sim_id, 0), coalesce(device_id, 0), scene, cause_kind, cause_id, coalesce(subscription_id, 0), asked_by, asked_at, run_at, tries, manual
		FROM evaluation_request WHERE done_at IS NULL AND run_at <= $1 ORDER BY run_at, id LIMIT $2 FOR UPDATE SKIP LOCKED`, tx.At, limit)
	if err != nil {
		return nil, fmt.Errorf("take evaluations: %w", err)
	}
	defer rows.Close()
	var out []Evaluation
	for rows.Next() {
		var e Evaluation
		if err := rows.Scan(&e.ID, &e.SIMID, &e.DeviceID, &e.Scene, &e.Cause.Kind, &e.Cause.ID, &e.SubscriptionID, &e.AskedBy, &e.AskedAt, &e.RunAt, &e.Tries, &e.Manual); err != nil {
			return nil, fmt.Errorf("take evaluations: %w", err)
		}
		e.AskedAt, e.RunAt = e.AskedAt.UTC(), e.RunAt.UTC()
		out = append(out, e)
	}
	return out, rows.Err()
}

// FinishEvaluation marks a request as worked off, with what came of it.
func (tx *Tx) FinishEvaluation(ctx context.Context, id simwarden.EvaluationID, outcome string) error {
	if _, err := tx.Exec(ctx, `UPDATE evaluation_request SET done_at = $2, outcome = $3 WHERE id = $1`, id, tx.At, outcome); err != nil {
		return fmt.Errorf("finish evaluation %d: %w", id, err)
	}
	return nil
}

// PutOffEvaluation lets a request wait until an instant, counting a try where it failed.
func (tx *Tx) PutOffEvaluation(ctx context.Context, id simwarden.EvaluationID, until time.Time, failed bool) error {
	_, err := tx.Exec(ctx, `UPDATE evaluation_request SET run_at = $2, tries = tries + CASE WHEN $3 THEN 1 ELSE 0 END WHERE id = $1`, id, until, failed)
	if err != nil {
		return fmt.Errorf("put off evaluation %d: %w", id, err)
	}
	return nil
}

// SIMsOfDevice gives the ids of a device's SIMs.
func (tx *Tx) SIMsOfDevice(ctx context.Context, id simwarden.DeviceID) ([]simwarden.SIMID, error) {
	return scanAll(fmt.Sprintf("sims of device %d", id), scanID[simwarden.SIMID])(
		tx.Query(ctx, `SELECT id FROM sim WHERE device_id = $1 ORDER BY id`, id))
}

// SIMsAfter gives up to limit ids of SIMs after one, of an account or (zero) of all, to walk the fleet by.
func (s *Store) SIMsAfter(ctx context.Context, account simwarden.AccountID, after simwarden.SIMID, limit int) ([]simwarden.SIMID, error) {
	return scanAll("walk sims", scanID[simwarden.SIMID])(
		s.pool.Query(ctx, `SELECT id FROM sim WHERE id > $1 AND ($3 = 0 OR account_id = $3) ORDER BY id LIMIT $2`, after, limit, int64(account)))
}

// CountSIMs is how many SIMs there are.
func (s *Store) CountSIMs(ctx context.Context) (int64, error) {
	var n int64
	if err := s.pool.QueryRow(ctx, `SELECT count(*) FROM sim`).Scan(&n); err != nil {
		return 0, fmt.Errorf("count sims: %w", err)
	}
	return n, nil
}

// RequestEvaluations writes many requests in the cause's own transaction; those with done set are
// written as worked off there and then, with that outcome, so that every cause has its row (V1).
func (tx *Tx) RequestEvaluations(ctx context.Context, list []Evaluation, done []string) error {
	if len(list) == 0 {
		return nil
	}
	n := len(list)
	sims, devices, subs, causeIDs := make([]*int64, n), make([]*int64, n), make([]*int64, n), make([]int64, n)
	scenes, kinds, asked, outcomes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	for i, e := range list {
		sims[i], devices[i], subs[i], causeIDs[i] = nullID(int64(e.SIMID)), nullID(int64(e.DeviceID)), nullID(int64(e.SubscriptionID)), e.Cause.ID
		scenes[i], kinds[i], asked[i] = string(e.Scene), e.Cause.Kind, e.AskedBy
		if done != nil {
			outcomes[i] = done[i]
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO evaluation_request (sim_id, device_id, scene, cause_kind, cause_id, subscription_id, asked_by, asked_at, run_at, done_at, outcome)
		SELECT sim_id, device_id, scene, cause_kind, cause_id, subscription_id, asked_by, $1, $1,
			CASE WHEN outcome <> '' THEN $1::timestamptz END, outcome
		FROM unnest($2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::text[], $9::text[])
			AS e (sim_id, device_id, scene, cause_kind, cause_id, subscription_id, asked_by, outcome)`,
		tx.At, sims, devices, scenes, kinds, causeIDs, subs, asked, outcomes)
	if err != nil {
		return fmt.Errorf("request %d evaluations: %w", n, err)
	}
	return nil
}

// DropManualRequests marks a SIM's waiting manual requests as overtaken: a newer order of a person
// stands in their place.
func (tx *Tx) DropManualRequests(ctx context.Context, id simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `
		UPDATE evaluation_request SET done_at = $2, outcome = 'overtaken by a newer order'
		WHERE sim_id = $1 AND scene = 'manual' AND done_at IS NULL`, id, tx.At)
	if err != nil {
		return fmt.Errorf("drop manual requests of sim %d: %w", id, err)
	}
	return nil
}
