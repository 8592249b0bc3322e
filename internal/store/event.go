package store

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Event is one thing that happened, for timelines (R5).
type Event struct {
	ID        int64               `json:"id"`
	At        time.Time           `json:"at"` // UTC
	Kind      string              `json:"kind"`
	SIMID     simwarden.SIMID     `json:"sim_id,omitempty"`
	AccountID simwarden.AccountID `json:"account_id,omitempty"`
	Actor     string              `json:"actor"`
	Data      json.RawMessage     `json:"data"`
}

// The kinds of event.
const (
	EventSIMAdded       = "sim_added"
	EventState          = "state_changed"
	EventUsageAnomaly   = "usage_anomaly"
	EventRealNameOdd    = "realname_unclear"
	EventDecision       = "decision_changed"
	EventCommandOpened  = "command_opened"
	EventCommandEnded   = "command_ended"
	EventPaused         = "polling_paused"
	EventResumed        = "polling_resumed"
	EventClosed         = "polling_closed"
	EventReopened       = "polling_reopened"
	EventHold           = "manual_hold"
	EventHoldLifted     = "manual_hold_lifted"
	EventLapsed         = "plan_lapsed"
	EventSubscribed     = "subscribed"
	EventPlanActivated  = "plan_activated"
	EventPlanReset      = "plan_reset"
	EventRefunded       = "refunded"
	EventCancelled      = "subscription_cancelled"
	EventExhausted      = "data_exhausted"
	EventDrift          = "drift"
	EventAccountChanged = "account_changed"
	EventRenewed        = "renewed"
	EventRenewalUnpaid  = "renewal_unpaid"
	EventCarrierLimit   = "carrier_limit"       // the carrier holds another data limit now
	EventLimitDrift     = "carrier_limit_drift" // it was found to hold another one than it was told
)

// AddEvents writes events, all at the transaction's instant. Data is marshalled as JSON.
func (tx *Tx) AddEvents(ctx context.Context, events []NewEvent) error {
	if len(events) == 0 {
		return nil
	}
	n := len(events)
	kinds, sims, accounts, actors, data := make([]string, n), make([]*int64, n), make([]*int64, n), make([]string, n), make([]string, n)
	for i, e := range events {
		kinds[i], sims[i], accounts[i], actors[i] = e.Kind, nullID(int64(e.SIMID)), nullID(int64(e.AccountID)), e.Actor
		data[i] = "{}"
		if e.Data != nil {
			b, err := json.Marshal(e.Data)
			if err != nil {
				return fmt.Errorf("event %s: %w", e.Kind, err)
			}
			data[i] = string(b)
		}
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO event (at, kind, sim_id, account_id, actor, data)
		SELECT $1, kind, sim_id, account_id, actor, data::jsonb
		FROM unnest($2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[]) AS e (kind, sim_id, account_id, actor, data)`,
		tx.At, kinds, sims, accounts, actors, data)
	if err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// NewEvent is an event to write.
type NewEvent struct {
	Kind      string
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	Actor     string
	Data      any
}

// Timeline gives a SIM's events, newest first, below the event before (0: from the latest).
func (s *Store) Timeline(ctx context.Context, id simwarden.SIMID, before int64, limit int) ([]Event, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT id, at, kind, coalesce(sim_id, 0), coalesce(account_id, 0), actor, data
		FROM event WHERE sim_id = $1 AND ($3 = 0 OR id < $3) ORDER BY id DESC LIMIT $2`, id, limit, before)
	if err != nil {
		return nil, fmt.Errorf("timeline of sim %d: %w", id, err)
	}
	defer rows.Close()
	out := []Event{}
	for rows.Next() {
		var e Event
		if err := rows.Scan(&e.ID, &e.At, &e.Kind, &e.SIMID, &e.AccountID, &e.Actor, &e.Data); err != nil {
			return nil, fmt.Errorf("timeline of sim %d: %w", id, err)
		}
		e.At = e.At.UTC()
		out = append(out, e)
	}
	return out, rows.Err()
}

// Audit writes one manual action (R2).
func (tx *Tx) Audit(ctx context.Context, actor, action string, sim simwarden.SIMID, account simwarden.AccountID, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("audit %s: %w", action, err)
	}
	_, err = tx.Exec(ctx, `INSERT INTO audit (at, actor, action, sim_id, account_id, data) VALUES ($1, $2, $3, $4, $5, $6)`,
		tx.At, actor, action, nullID(int64(sim)), nullID(int64(account)), string(b))
	if err != nil {
		return fmt.Errorf("audit %s: %w", action, err)
	}
	return nil
}

func nullID(id int64) *int64 {
	if id == 0 {
		return nil
	}
	return &id
}

func nullTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}
