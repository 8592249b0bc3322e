package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
)

// AuditRow is one manual action (R2).
type AuditRow struct {
	ID        int64               `json:"id"`
	At        time.Time           `json:"at"` // UTC
	Actor     string              `json:"actor"`
	Action    string              `json:"action"`
	SIMID     simwarden.SIMID     `json:"sim_id,omitempty"`
	AccountID simwarden.AccountID `json:"account_id,omitempty"`
	Data      json.RawMessage     `json:"data"`
	Seq       int64               `json:"seq,omitempty"` // in the chain of seals (R3); 0: not sealed yet
}

// AuditFilter narrows a list of manual actions; zero fields do not.
type AuditFilter struct {
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	Actor     string
	Action    string
	Before    int64 // an id: older rows than it
	Limit     int
}

// AuditRows lists manual actions, the newest first.
func (s *Store) AuditRows(ctx context.Context, f AuditFilter) ([]AuditRow, error) {
	var where []string
	var args []any
	add := func(column string, v any) {
		args = append(args, v)
		where = append(where, column+" $"+strconv.Itoa(len(args)))
	}
	if f.SIMID != 0 {
		add("a.sim_id =", f.SIMID)
	}
	if f.AccountID != 0 {
		add("a.account_id =", f.AccountID)
	}
	if f.Actor != "" {
		add("a.actor =", f.Actor)
	}
	if f.Action != "" {
		add("a.action =", f.Action)
	}
	if f.Before != 0 {
		add("a.id <", f.Before)
	}
	sql := `SELECT a.id, a.at, a.actor, a.action, coalesce(a.sim_id, 0), coalesce(a.account_id, 0), a.data, coalesce(l.seq, 0)
		FROM audit a LEFT JOIN audit_seal l ON l.audit_id = a.id`
	if len(where) > 0 {
		sql += " WHERE " + strings.Join(where, " AND ")
	}
	args = append(args, f.Limit)
	rows, err := s.pool.Query(ctx, sql+" ORDER BY a.id DESC LIMIT $"+strconv.Itoa(len(args)), args...)
	if err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	defer rows.Close()
	out := []AuditRow{}
	for rows.Next() {
		var a AuditRow
		if err := rows.Scan(&a.ID, &a.At, &a.Actor, &a.Action, &a.SIMID, &a.AccountID, &a.Data, &a.Seq); err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		a.At = a.At.UTC()
		out = append(out, a)
	}
	return out, rows.Err()
}
