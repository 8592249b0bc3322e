package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Attempt is one request of a command, as it was claimed and as it ended (R1).
type Attempt struct {
	Number     int       `json:"number"`
	RequestID  string    `json:"request_id"`
	ClaimedAt  time.Time `json:"claimed_at"` // UTC, as all instants here
	EndedAt    time.Time `json:"ended_at,omitzero"`
	Outcome    string    `json:"outcome,omitempty"`
	Class      string    `json:"class,omitempty"`
	HTTPStatus int       `json:"http_status,omitempty"`
	Code       string    `json:"code,omitempty"`
	Message    string    `json:"message,omitempty"`
	Rule       string    `json:"rule,omitempty"`
}

// Attempts gives a command's attempts in their order.
func (s *Store) Attempts(ctx context.Context, id simwarden.CommandID) ([]Attempt, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT number, request_id, claimed_at, ended_at, outcome, class, http_status, code, message, rule
		FROM attempt WHERE command_id = $1 ORDER BY number`, id)
	if err != nil {
		return nil, fmt.Errorf("attempts of command %d: %w", id, err)
	}
	defer rows.Close()
	out := []Attempt{}
	for rows.Next() {
		var a Attempt
		var ended *time.Time
		if err := rows.Scan(&a.Number, &a.RequestID, &a.ClaimedAt, &ended, &a.Outcome, &a.Class, &a.HTTPStatus, &a.Code, &a.Message, &a.Rule); err != nil {
			return nil, fmt.Errorf("attempts of command %d: %w", id, err)
		}
		a.ClaimedAt, a.EndedAt = a.ClaimedAt.UTC(), timeOf(ended)
		out = append(out, a)
	}
	return out, rows.Err()
}

// Record is what became of a command, for good (R1).
type Record struct {
	CommandID      simwarden.CommandID      `json:"command_id"`
	EndedAt        time.Time                `json:"ended_at"`
	CreatedAt      time.Time                `json:"created_at"`
	SIMID          simwarden.SIMID          `json:"sim_id"`
	ICCID          string                   `json:"iccid"`
	DeviceID       simwarden.DeviceID       `json:"device_id,omitempty"`
	AccountID      simwarden.AccountID      `json:"account_id"`
	Direction      simwarden.Direction      `json:"direction"`
	Scene          simwarden.Scene          `json:"scene"`
	Reason         simwarden.Reason         `json:"reason"`
	SubscriptionID simwarden.SubscriptionID `json:"subscription_id,omitempty"`
	Status         simwarden.CommandState   `json:"status"`
	EndBecause     string                   `json:"end_because,omitempty"`
	AskedBy        string                   `json:"asked_by"`
	Class          string                   `json:"class,omitempty"`
	Code           string                   `json:"code,omitempty"`
	Message        string                   `json:"message,omitempty"`
	Rule           string                   `json:"rule,omitempty"`
	Decision       simwarden.Decision       `json:"decision"`
	Attempts       []Attempt                `json:"attempts"`
}

// RecordFilter narrows a list of records; zero fields do not. The range of EndedAt is from FromAt
// to before UntilAt, UTC.
type RecordFilter struct {
	CommandID simwarden.CommandID
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	Direction simwarden.Direction
	Scene     simwarden.Scene
	Status    simwarden.CommandState
	FromAt    time.Time
	UntilAt   time.Time
	Before    simwarden.CommandID // the last of the page before
	Limit     int
}

// Records lists records by command, newest first.
func (s *Store) Records(ctx context.Context, f RecordFilter) ([]Record, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT command_id, ended_at, created_at, sim_id, iccid, coalesce(device_id, 0), account_id, direction, scene, reason,
			coalesce(subscription_id, 0), status, end_because, asked_by, class, code, message, rule, decision, attempts
		FROM command_record
		WHERE ($1::bigint = 0 OR command_id = $1) AND ($2::bigint = 0 OR sim_id = $2) AND ($3::bigint = 0 OR account_id = $3)
		  AND ($4 = '' OR direction = $4) AND ($5 = '' OR scene = $5) AND ($6 = '' OR status = $6)
		  AND ($7::timestamptz IS NULL OR ended_at >= $7) AND ($8::timestamptz IS NULL OR ended_at < $8)
		  AND ($9::bigint = 0 OR command_id < $9)
		ORDER BY command_id DESC LIMIT $10`,
		f.CommandID, f.SIMID, f.AccountID, string(f.Direction), string(f.Scene), string(f.Status), nullTime(f.FromAt), nullTime(f.UntilAt), f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	defer rows.Close()
	out := []Record{}
	for rows.Next() {
		r, err := scanRecord(rows)
		if err != nil {
			return nil, fmt.Errorf("records: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

func scanRecord(row pgx.Row) (Record, error) {
	var r Record
	var attempts []byte
	err := one(row, &r.CommandID, &r.EndedAt, &r.CreatedAt, &r.SIMID, &r.ICCID, &r.DeviceID, &r.AccountID, &r.Direction, &r.Scene, &r.Reason,
		&r.SubscriptionID, &r.Status, &r.EndBecause, &r.AskedBy, &r.Class, &r.Code, &r.Message, &r.Rule, &r.Decision, &attempts)
	if err != nil {
		return r, err
	}
	r.EndedAt, r.CreatedAt, r.Attempts = r.EndedAt.UTC(), r.CreatedAt.UTC(), []Attempt{}
	if err := json.Unmarshal(attempts, &r.Attempts); err != nil {
		return r, fmt.Errorf("attempts of command %d: %w", r.CommandID, err)
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		a.ClaimedAt, a.EndedAt = a.ClaimedAt.UTC(), a.EndedAt.UTC()
	}
	return r, nil
}

// AlertFilter narrows a list of alerts; zero fields do not.
type AlertFilter struct {
	AccountID simwarden.AccountID
	Kind      string
	Before    int64 // the last of the page before
	Limit     int
}

// Alerts lists the open alerts, newest first.
func (s *Store) Alerts(ctx context.Context, f AlertFilter) ([]Alert, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, at, kind, key, coalesce(account_id, 0), coalesce(sim_id, 0), message, times, last_at FROM alert
		WHERE cleared_at IS NULL AND ($1::bigint = 0 OR account_id = $1) AND ($2 = '' OR kind = $2) AND ($3::bigint = 0 OR id < $3)
		ORDER BY id DESC LIMIT $4`, f.AccountID, f.Kind, f.Before, f.Limit)
	if err != nil {
		return nil, fmt.Errorf("alerts: %w", err)
	}
	defer rows.Close()
	out := []Alert{}
	for rows.Next() {
		var a Alert
		if err := rows.Scan(&a.ID, &a.At, &a.Kind, &a.Key, &a.AccountID, &a.SIMID, &a.Message, &a.Times, &a.LastAt); err != nil {
			return nil, fmt.Errorf("alerts: %w", err)
		}
		a.At, a.LastAt = a.At.UTC(), a.LastAt.UTC()
		out = append(out, a)
	}
	return out, rows.Err()
}

// ClearAlertByID closes an open alert and gives it; ErrNotFound where none with that id is open.
func (tx *Tx) ClearAlertByID(ctx context.Context, id int64, by string) (Alert, error) {
	var a Alert
	err := one(tx.QueryRow(ctx, `
		UPDATE alert SET cleared_at = $2, cleared_by = $3 WHERE id = $1 AND cleared_at IS NULL
		RETURNING id, at, kind, key, coalesce(account_id, 0), coalesce(sim_id, 0), message, times, last_at`, id, tx.At, by),
		&a.ID, &a.At, &a.Kind, &a.Key, &a.AccountID, &a.SIMID, &a.Message, &a.Times, &a.LastAt)
	if err != nil {
		return a, fmt.Errorf("open alert %d: %w", id, err)
	}
	a.At, a.LastAt = a.At.UTC(), a.LastAt.UTC()
	return a, nil
}
