package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// MaxBulk is how many SIMs one bulk action may take.
const MaxBulk = 100_000

// CauseBulk is the cause of what a bulk action orders; its id is the action's. It is a person's
// order, but no single click: it keeps to the limits (G2).
const CauseBulk = "bulk"

// BulkState says how far a bulk action is.
type BulkState string

// The states.
const (
	BulkRunning   BulkState = "running"
	BulkDone      BulkState = "done"
	BulkCancelled BulkState = "cancelled"
)

// BulkAction suspends or resumes many SIMs for a person.
type BulkAction struct {
	ID          int64               `json:"id"`
	Direction   simwarden.Direction `json:"direction"`
	Reason      string              `json:"reason"`
	Actor       string              `json:"actor"`
	Total       int                 `json:"total"`
	Done        int                 `json:"done"` // SIMs acted on, whatever came of it
	State       BulkState           `json:"state"`
	CancelledBy string              `json:"cancelled_by,omitempty"`
	CreatedAt   time.Time           `json:"created_at"`           // UTC
	FinishedAt  time.Time           `json:"finished_at,omitzero"` // UTC
}

// BulkOutcome is what came of one SIM of a bulk action; empty: nothing yet.
type BulkOutcome string

// The outcomes.
const (
	BulkOrdered   BulkOutcome = "ordered"   // a command was opened
	BulkWaits     BulkOutcome = "waits"     // behind the command under way
	BulkObserved  BulkOutcome = "observed"  // the account observes
	BulkNone      BulkOutcome = "none"      // no command is needed or possible
	BulkOvertaken BulkOutcome = "overtaken" // a person has acted on the SIM since
	BulkFailed    BulkOutcome = "failed"    // it could not be judged
	BulkDropped   BulkOutcome = "cancelled" // not reached before the action was cancelled
)

// BulkOutcomes lists them.
func BulkOutcomes() []BulkOutcome {
	return []BulkOutcome{BulkOrdered, BulkWaits, BulkObserved, BulkNone, BulkOvertaken, BulkFailed, BulkDropped}
}

// BulkResult is what came of one SIM, to be written.
type BulkResult struct {
	SIMID     simwarden.SIMID
	Outcome   BulkOutcome
	Because   string
	CommandID simwarden.CommandID // 0: none
}

// BulkItem is one SIM of a bulk action, with the latest command that the action led to for it.
type BulkItem struct {
	SIMID        simwarden.SIMID        `json:"-"`
	ICCID        string                 `json:"iccid"`
	Account      string                 `json:"account"`
	Outcome      BulkOutcome            `json:"outcome,omitempty"`
	Because      string                 `json:"because,omitempty"`
	CommandID    simwarden.CommandID    `json:"command_id,omitempty"`
	CommandState simwarden.CommandState `json:"command_state,omitempty"`
	EndBecause   string                 `json:"end_because,omitempty"`
	DoneAt       time.Time              `json:"done_at,omitzero"` // UTC
}

const bulkColumns = `id, direction, reason, actor, total, done, state, cancelled_by, created_at, finished_at`

func scanBulk(row pgx.Row) (BulkAction, error) {
	var b BulkAction
	var finished *time.Time
	err := one(row, &b.ID, &b.Direction, &b.Reason, &b.Actor, &b.Total, &b.Done, &b.State, &b.CancelledBy, &b.CreatedAt, &finished)
	b.CreatedAt, b.FinishedAt = b.CreatedAt.UTC(), timeOf(finished)
	return b, err
}

// AddBulk writes a bulk action with its items, one for each of the SIMs, which exist and are each
// named once.
func (tx *Tx) AddBulk(ctx context.Context, b BulkAction, sims []simwarden.SIMID) (BulkAction, error) {
	out, err := scanBulk(tx.QueryRow(ctx, `INSERT INTO bulk_action (direction, reason, actor, total, created_at)
		VALUES ($1, $2, $3, $4, $5) RETURNING `+bulkColumns, string(b.Direction), b.Reason, b.Actor, len(sims), tx.At))
	if err != nil {
		return out, fmt.Errorf("add a bulk action: %w", err)
	}
	if _, err := tx.Exec(ctx, `INSERT INTO bulk_item (bulk_id, sim_id) SELECT $1, unnest($2::bigint[])`, out.ID, sims); err != nil {
		return out, fmt.Errorf("add the items of bulk action %d: %w", out.ID, err)
	}
	return out, nil
}

// TakeBulk locks the oldest running bulk action for the rest of the transaction: the lock is the
// lease, and a node that dies gives it back at once. One action is worked off at a time, so that of
// two that name the same SIM the later has the last word. ok is false where there is none, or another
// node has it.
func (tx *Tx) TakeBulk(ctx context.Context) (b BulkAction, ok bool, err error) {
	b, err = scanBulk(tx.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulk_action
		WHERE id = (SELECT min(id) FROM bulk_action WHERE finished_at IS NULL) AND finished_at IS NULL FOR UPDATE SKIP LOCKED`))
	if errors.Is(err, ErrNotFound) {
		return b, false, nil
	}
	if err != nil {
		return b, false, fmt.Errorf("take a bulk action: %w", err)
	}
	return b, true, nil
}

// OpenBulkItems gives up to limit SIMs of a bulk action that have not been acted on, by id.
func (tx *Tx) OpenBulkItems(ctx context.Context, id int64, limit int) ([]simwarden.SIMID, error) {
	return scanAll(fmt.Sprintf("items of bulk action %d", id), scanID[simwarden.SIMID])(tx.Query(ctx,
		`SELECT sim_id FROM bulk_item WHERE bulk_id = $1 AND done_at IS NULL ORDER BY sim_id LIMIT $2`, id, limit))
}

// ActedSince gives those of the SIMs that a person has held, or let go, one by one after an instant.
func (tx *Tx) ActedSince(ctx context.Context, sims []simwarden.SIMID, after time.Time) ([]simwarden.SIMID, error) {
	return scanAll("sims that a person has acted on", scanID[simwarden.SIMID])(tx.Query(ctx, `
		SELECT v.id FROM unnest($1::bigint[]) AS v (id) WHERE EXISTS (
			SELECT FROM event e WHERE e.sim_id = v.id AND e.kind IN ('`+EventHold+`', '`+EventHoldLifted+`') AND e.at > $2 AND NOT e.data ? 'bulk_id')`,
		sims, after))
}

// HoldAll is SetHold and DropManualRequests for many SIMs.
func (tx *Tx) HoldAll(ctx context.Context, sims []simwarden.SIMID, hold bool, by, reason string) error {
	if _, err := tx.Exec(ctx, `
		UPDATE evaluation_request SET done_at = $2, outcome = 'overtaken by a newer order'
		WHERE sim_id = ANY($1) AND scene = 'manual' AND done_at IS NULL`, sims, tx.At); err != nil {
		return fmt.Errorf("drop manual requests of %d sims: %w", len(sims), err)
	}
	var at *time.Time
	if hold {
		at = &tx.At
	} else {
		by, reason = "", ""
	}
	if _, err := tx.Exec(ctx, `UPDATE sim SET hold_at = $2, hold_by = $3, hold_reason = $4 WHERE id = ANY($1)`, sims, at, by, reason); err != nil {
		return fmt.Errorf("manual hold of %d sims: %w", len(sims), err)
	}
	return nil
}

// AuditEntry is what Audit writes of one SIM.
type AuditEntry struct {
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	Data      any
}

// AuditAll is Audit for many SIMs, in their order.
func (tx *Tx) AuditAll(ctx context.Context, actor, action string, list []AuditEntry) error {
	sims, accounts, data := make([]int64, len(list)), make([]int64, len(list)), make([]string, len(list))
	for i, e := range list {
		b, err := json.Marshal(e.Data)
		if err != nil {
			return fmt.Errorf("audit %s: %w", action, err)
		}
		sims[i], accounts[i], data[i] = int64(e.SIMID), int64(e.AccountID), string(b)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO audit (at, actor, action, sim_id, account_id, data)
		SELECT $1, $2, $3, v.sim, nullif(v.account, 0), v.data
		FROM unnest($4::bigint[], $5::bigint[], $6::jsonb[]) WITH ORDINALITY AS v (sim, account, data, n) ORDER BY v.n`,
		tx.At, actor, action, sims, accounts, data)
	if err != nil {
		return fmt.Errorf("audit %s of %d sims: %w", action, len(list), err)
	}
	return nil
}

// EndBulkItems writes what came of items, in the transaction that acted on their SIMs, and how far
// the action has come; one that was written before is an error.
func (tx *Tx) EndBulkItems(ctx context.Context, id int64, results []BulkResult) error {
	n := len(results)
	sims, outcomes, because, commands := make([]int64, n), make([]string, n), make([]string, n), make([]int64, n)
	for i, r := range results {
		sims[i], outcomes[i], because[i], commands[i] = int64(r.SIMID), string(r.Outcome), r.Because, int64(r.CommandID)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE bulk_item i SET outcome = v.outcome, because = v.because, command_id = nullif(v.command, 0), done_at = $2
		FROM unnest($3::bigint[], $4::text[], $5::text[], $6::bigint[]) AS v (sim, outcome, because, command)
		WHERE i.bulk_id = $1 AND i.sim_id = v.sim AND i.done_at IS NULL`, id, tx.At, sims, outcomes, because, commands)
	if err == nil && tag.RowsAffected() != int64(n) {
		err = fmt.Errorf("%d of %d had been acted on before", n-int(tag.RowsAffected()), n)
	}
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE bulk_action SET done = done + $2 WHERE id = $1`, id, n)
	}
	if err != nil {
		return fmt.Errorf("end %d items of bulk action %d: %w", n, id, err)
	}
	return nil
}

// FinishBulk ends a bulk action whose items have all been acted on.
func (tx *Tx) FinishBulk(ctx context.Context, id int64) error {
	_, err := tx.Exec(ctx, `UPDATE bulk_action SET state = 'done', finished_at = $2 WHERE id = $1 AND finished_at IS NULL`, id, tx.At)
	if err != nil {
		return fmt.Errorf("finish bulk action %d: %w", id, err)
	}
	return nil
}

// CancelBulk ends a bulk action; the items that were not acted on stay so. It says whether it ran
// until now. ErrNotFound: there is none.
func (tx *Tx) CancelBulk(ctx context.Context, id int64, by string) (was bool, err error) {
	b, err := scanBulk(tx.QueryRow(ctx, `SELECT `+bulkColumns+` FROM bulk_action WHERE id = $1 FOR UPDATE`, id))
	if err != nil {
		return false, fmt.Errorf("bulk action %d: %w", id, err)
	}
	if b.State != BulkRunning {
		return false, nil
	}
	_, err = tx.Exec(ctx, `UPDATE bulk_item SET outcome = 'cancelled', done_at = $2 WHERE bulk_id = $1 AND done_at IS NULL`, id, tx.At)
	if err == nil {
		_, err = tx.Exec(ctx, `UPDATE bulk_action SET state = 'cancelled', cancelled_by = $2, finished_at = $3 WHERE id = $1`, id, by, tx.At)
	}
	if err != nil {
		return false, fmt.Errorf("cancel bulk action %d: %w", id, err)
	}
	return true, nil
}
