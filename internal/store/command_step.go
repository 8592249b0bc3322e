package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// EventLateAnswer tells of a carrier's answer to an attempt that somebody else had settled before.
const EventLateAnswer = "late_answer"

// What queued commands wait for while nobody need look at them.
const (
	HeldByBrake = "safety brake"
	HeldByStop  = "account stopped"
	HeldByRest  = "account at rest"                                              // the carrier refuses nearly all its changes (G8); one is tried now and then
	HeldByFlap  = "the account's automatic changes a SIM and day: the SIM flaps" // F30
	HeldByDwell = "the account's least time from a resume to a suspend"          // F30
	HeldByClock = "clock guard"                                                  // looked at now and then: it holds all accounts
	HeldByLimit = "the carrier's data limit is being raised"
)

// DueStep names a command whose next step is due.
type DueStep struct {
	ID        simwarden.CommandID
	AccountID simwarden.AccountID
	Priority  int
	Follows   bool // a request may be at the carrier: the step is a read
	Aged      bool // it has been due for AgedAfter, and others always went before it
}

const (
	// AgedAfter is how long a command is due before it rises, so that none waits for ever behind others (G5).
	AgedAfter = 10 * time.Minute
	// AgedPriority is what it rises to: that of a paid SIM's resume.
	AgedPriority = 80
)

// What holds a queued command c of account a at $1, with its rest: the brake (C10), or that the account's changes rest
// until the next probe (G8), a person's single click aside.
const (
	restOfAccount = `(SELECT coalesce(bool_or(direction = 'suspend'), false) AS suspends, coalesce(bool_or(direction = 'resume'), false) AS resumes
			FROM account_rest WHERE account_id = a.id AND since_at IS NOT NULL AND probe_at > $1)`
	brakeHolds = `(a.braked_at IS NOT NULL AND c.direction = 'suspend' AND c.scene NOT IN ('plan_lapsed', 'refunded', 'manual'))`
	restHolds  = `(CASE c.direction WHEN 'suspend' THEN rest.suspends ELSE rest.resumes END AND (c.scene <> 'manual' OR c.cause_kind <> 'person'))`
)

// maySend says of a command c of account a, with its rest, that it waits to be sent and nothing holds it.
const maySend = `c.state = 'queued'
			  AND (c.claim_until IS NULL OR c.claim_until <= $1) AND c.id <> ALL($3)
			  AND (a.mode = 'observe' OR NOT ` + brakeHolds + ` AND NOT ` + restHolds + `)
			  -- What waited for the outcome of its last attempt is judged before it goes out again (C2).
			  AND (c.attempt = 0 OR NOT EXISTS (SELECT FROM evaluation_request e
				WHERE e.sim_id = c.sim_id AND e.done_at IS NULL AND e.run_at <= $1 AND e.tries = 0))`

// DueSteps finds the commands whose next step is due, up to perAccount of each account and kind,
// those that are followed up apart from those to send; in each account by priority, follow-ups
// first, then the longest due. It claims nothing. Accounts whose calls are stopped (G8) are left
// out, what an account's safety brake holds (C10), and what rests until the next probe (G8), a person's
// single click aside; but not where the account observes: there queued commands end without a call (C9).
// Before all of these come those that have waited for AgedAfter, longest due first; one of them may be there
// in its ordinary place too. busy are commands to pass over.
func (s *Store) DueSteps(ctx context.Context, perAccount int, busy []simwarden.CommandID) ([]DueStep, error) {
	ids := make([]int64, len(busy))
	for i, id := range busy {
		ids[i] = int64(id)
	}
	now := s.Now()
	rows, err := s.work.Query(ctx, `
		SELECT d.id, a.id, d.priority, d.follows, d.aged FROM account a CROSS JOIN LATERAL `+restOfAccount+` rest CROSS JOIN LATERAL (
			(SELECT c.id, c.priority, c.run_at, true AS follows, c.run_at <= $4 AND c.priority < $5 AS aged FROM command c
			WHERE c.account_id = a.id AND a.stopped_at IS NULL AND c.state IN ('verifying', 'confirming') AND c.run_at <= $1
			  AND (c.claim_until IS NULL OR c.claim_until <= $1) AND c.id <> ALL($3)
			ORDER BY c.run_at LIMIT $2)
			UNION ALL
			(SELECT c.id, c.priority, c.run_at, false, false FROM command c
			WHERE c.account_id = a.id AND c.run_at <= $1 AND `+maySend+`
			ORDER BY c.priority DESC, c.run_at LIMIT $2)
			UNION ALL
			(SELECT c.id, c.priority, c.run_at, false, true FROM command c
			WHERE c.account_id = a.id AND c.run_at <= $4 AND c.priority < $5 AND `+maySend+`
			ORDER BY c.run_at LIMIT $2)
		) d WHERE a.stopped_at IS NULL OR a.mode = 'observe'
		ORDER BY a.id, d.aged DESC, d.priority DESC, d.follows DESC, d.run_at, d.id`, now, perAccount, ids, now.Add(-AgedAfter), AgedPriority)
	if err != nil {
		return nil, fmt.Errorf("due commands: %w", err)
	}
	defer rows.Close()
	var out []DueStep
	for rows.Next() {
		var d DueStep
		if err := rows.Scan(&d.ID, &d.AccountID, &d.Priority, &d.Follows, &d.Aged); err != nil {
			return nil, fmt.Errorf("due commands: %w", err)
		}
		out = append(out, d)
	}
	return out, rows.Err()
}

// LockDueCommand locks the SIM of a command and then the command, if its next step is still due and
// nobody has claimed it; false where it is not, or where somebody else works on the SIM just now.
// It never waits for another: the SIM is locked before the command, as everywhere.
func (tx *Tx) LockDueCommand(ctx context.Context, id simwarden.CommandID) (Command, bool, error) {
	var sim simwarden.SIMID
	err := tx.QueryRow(ctx, `
		SELECT sim_id FROM poll_state WHERE sim_id = (SELECT sim_id FROM command WHERE id = $1)
		FOR NO KEY UPDATE SKIP LOCKED`, id).Scan(&sim)
	if errors.Is(err, pgx.ErrNoRows) {
		return Command{}, false, nil
	}
	if err != nil {
		return Command{}, false, fmt.Errorf("claim command %d: %w", id, err)
	}
	// A statement of its own: its snapshot sees what the last holder of the SIM has committed.
	c, err := scanCommand(tx.QueryRow(ctx, `SELECT `+commandColumns+`
		FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE c.id = $1 AND c.state IN ('queued', 'verifying', 'confirming') AND c.run_at <= $2
		  AND (c.claim_until IS NULL OR c.claim_until <= $2)
		FOR UPDATE OF c SKIP LOCKED`, id, tx.At))
	if errors.Is(err, ErrNotFound) {
		return Command{}, false, nil
	}
	if err != nil {
		return Command{}, false, fmt.Errorf("claim command %d: %w", id, err)
	}
	return c, true, nil
}

// ClaimStep gives a locked command's step to one worker until an instant. What the worker found is
// written only while the claim is still its own; an expired claim of a read is anybody's again.
func (tx *Tx) ClaimStep(ctx context.Context, c Command, holder string, until time.Time) (Command, error) {
	_, err := tx.Exec(ctx, `UPDATE command SET claimed_by = $2, claim_until = $3, updated_at = $4 WHERE id = $1`, c.ID, holder, until, tx.At)
	if err != nil {
		return c, fmt.Errorf("claim command %d: %w", c.ID, err)
	}
	c.ClaimedBy, c.ClaimUntil, c.UpdatedAt = holder, until, tx.At
	return c, nil
}

// AttemptID is the id that a request carries to the carrier, derived from the attempt (V2).
func AttemptID(command simwarden.CommandID, number int) string {
	return fmt.Sprintf("sw-%d-%d", command, number)
}

// NewAttempt is one request about to be sent.
type NewAttempt struct {
	Facts    rules.Facts
	Decision simwarden.Decision
	// DeadlineAt ends the request's context, ClaimUntil the claim. UTC.
	DeadlineAt time.Time
	ClaimUntil time.Time
}

// BeginAttempt writes the attempt's row and moves the locked command from queued to sending. The
// transaction then waits for the disk when it commits, whatever the server's setting: nothing is
// sent that could be forgotten. It gives the command as it now stands.
func (tx *Tx) BeginAttempt(ctx context.Context, c Command, holder string, a NewAttempt) (Command, error) {
	facts, err := marshalText(a.Facts)
	if err != nil {
		return c, err
	}
	decision, err := marshalText(a.Decision)
	if err != nil {
		return c, err
	}
	if _, err := tx.Exec(ctx, `SET LOCAL synchronous_commit = on`); err != nil {
		return c, fmt.Errorf("begin attempt of command %d: %w", c.ID, err)
	}
	number := c.Attempt + 1
	tag, err := tx.Exec(ctx, `
		UPDATE command SET state = 'sending', attempt = $2, claimed_by = $3, claim_until = $4, may_act_until = $5,
			held_by = '', handle = '', confirm_until = NULL, updated_at = $6
		WHERE id = $1 AND state = 'queued' AND attempt = $2 - 1`, c.ID, number, holder, a.ClaimUntil, a.DeadlineAt, tx.At)
	if err != nil {
		return c, fmt.Errorf("begin attempt of command %d: %w", c.ID, err)
	}
	if tag.RowsAffected() != 1 {
		return c, fmt.Errorf("begin attempt of command %d: it is not queued any more", c.ID)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO attempt (command_id, sim_id, number, request_id, scene, facts, decision, claimed_at, deadline_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)`,
		c.ID, c.SIMID, number, AttemptID(c.ID, number), string(c.Scene), facts, decision, tx.At, a.DeadlineAt)
	if err != nil {
		return c, fmt.Errorf("begin attempt of command %d: %w", c.ID, err)
	}
	c.State, c.Attempt, c.ClaimedBy, c.ClaimUntil, c.MayActUntil = simwarden.CommandSending, number, holder, a.ClaimUntil, a.DeadlineAt
	c.HeldBy, c.Handle, c.ConfirmUntil, c.UpdatedAt = "", "", time.Time{}, tx.At
	return c, nil
}

// AttemptEnd is what became of a request.
type AttemptEnd struct {
	Outcome    string // one of the Attempt constants
	Class      string
	HTTPStatus int
	Code       string
	Message    string
	Rule       string
}

// How attempts end.
const (
	AttemptDone     = "done"
	AttemptAccepted = "accepted"
	AttemptError    = "error"
	AttemptNotSent  = "not_sent" // our own limit or stop: it was no attempt (C5)
	AttemptLost     = "lost"     // nobody was there to take the answer
)

// EndAttempt keeps what became of a command's attempt; one that has ended before stays as it is.
// Of attempts that were never sent for our own limits, the latest row stands for all.
func (tx *Tx) EndAttempt(ctx context.Context, c Command, e AttemptEnd) error {
	_, err := tx.Exec(ctx, `
		UPDATE attempt SET ended_at = $3, outcome = $4, class = $5, http_status = $6, code = $7, message = $8, rule = $9
		WHERE command_id = $1 AND number = $2 AND ended_at IS NULL`,
		c.ID, c.Attempt, tx.At, e.Outcome, e.Class, e.HTTPStatus, e.Code, e.Message, e.Rule)
	if err != nil {
		return fmt.Errorf("end attempt %d of command %d: %w", c.Attempt, c.ID, err)
	}
	if e.Outcome != AttemptNotSent {
		return nil
	}
	_, err = tx.Exec(ctx, `DELETE FROM attempt WHERE command_id = $1 AND number < $2 AND outcome = 'not_sent'`, c.ID, c.Attempt)
	if err != nil {
		return fmt.Errorf("end attempt %d of command %d: %w", c.Attempt, c.ID, err)
	}
	return nil
}

// MoveCommand writes how a claimed command goes on, and gives the claim back, only while the claim
// that the caller holds is still in force and the command where the caller left it. False: somebody
// else has settled it meanwhile. claimed is the command as claimed, next as it shall be: its state,
// run_at, held_by, failures, throttled_since_at, may_act_until, handle, confirm_until and last_*
// are written. Ended states are for EndCommand.
func (tx *Tx) MoveCommand(ctx context.Context, claimed, next Command) (bool, error) {
	if !next.State.Open() {
		return false, fmt.Errorf("move command %d to %s: that is an end", next.ID, next.State)
	}
	tag, err := tx.Exec(ctx, `
		UPDATE command SET state = $6, run_at = $7, held_by = $8, failures = $9, throttled_since_at = $10, may_act_until = $11,
			handle = $12, confirm_until = $13, last_class = $14, last_code = $15, last_message = $16,
			claimed_by = '', claim_until = NULL, updated_at = $17
		WHERE id = $1 AND state = $2 AND attempt = $3 AND claimed_by = $4 AND claim_until IS NOT DISTINCT FROM $5`,
		claimed.ID, string(claimed.State), claimed.Attempt, claimed.ClaimedBy, nullTime(claimed.ClaimUntil),
		string(next.State), next.RunAt, next.HeldBy, next.Failures, nullTime(next.ThrottledSinceAt), nullTime(next.MayActUntil),
		next.Handle, nullTime(next.ConfirmUntil), next.LastClass, next.LastCode, next.LastMessage, tx.At)
	if err != nil {
		return false, fmt.Errorf("move command %d to %s: %w", next.ID, next.State, err)
	}
	if tag.RowsAffected() == 0 {
		return false, nil
	}
	if claimed.State.UnderWay() && next.State == simwarden.CommandQueued {
		if err := tx.wakeEvaluations(ctx, next.SIMID); err != nil {
			return false, err
		}
	}
	return true, nil
}

// PutOffCommand lets a command that nobody has claimed wait until an instant, whatever its state.
func (s *Store) PutOffCommand(ctx context.Context, id simwarden.CommandID, until time.Time, heldBy string) error {
	now := s.Now()
	_, err := s.work.Exec(ctx, `
		UPDATE command SET run_at = $2, held_by = $3, updated_at = $4
		WHERE id = $1 AND state IN ('queued', 'verifying', 'confirming') AND (claim_until IS NULL OR claim_until <= $4)`,
		id, until, heldBy, now)
	if err != nil {
		return fmt.Errorf("put off command %d: %w", id, err)
	}
	return nil
}

// HoldWaiting notes on queued commands, up to limit of each account at a call, that it is stopped, braked or
// at rest, for people to see: DueSteps leaves them out.
func (s *Store) HoldWaiting(ctx context.Context, limit int) error {
	_, err := s.work.Exec(ctx, `
		WITH waiting AS (
			SELECT w.id, w.held_by
			-- The account comes first: where none is held, a long queue is not gone through for nothing.
			FROM account a CROSS JOIN LATERAL `+restOfAccount+` rest CROSS JOIN LATERAL (
				SELECT c.id, h.held_by FROM command c CROSS JOIN LATERAL (SELECT CASE
					WHEN a.stopped_at IS NOT NULL THEN $2
					WHEN `+brakeHolds+` THEN $3
					WHEN `+restHolds+` THEN $5
					END AS held_by) h
				WHERE c.account_id = a.id AND c.state = 'queued' AND h.held_by IS NOT NULL AND c.held_by <> h.held_by
				LIMIT $4 FOR UPDATE OF c SKIP LOCKED
			) w
			WHERE a.mode = 'act' AND (a.stopped_at IS NOT NULL OR a.braked_at IS NOT NULL OR rest.suspends OR rest.resumes)
		)
		UPDATE command c SET held_by = w.held_by, updated_at = $1 FROM waiting w WHERE c.id = w.id`,
		s.Now(), HeldByStop, HeldByBrake, limit, HeldByRest)
	if err != nil {
		return fmt.Errorf("hold waiting commands: %w", err)
	}
	return nil
}

// ExpiredSends finds commands that were being sent by a worker whose claim has run out, up to limit.
func (s *Store) ExpiredSends(ctx context.Context, limit int) ([]Command, error) {
	return scanCommands(s.work.Query(ctx, `SELECT `+commandColumns+` FROM command c JOIN sim s ON s.id = c.sim_id
		WHERE c.state = 'sending' AND c.claim_until < $1 ORDER BY c.claim_until LIMIT $2`, s.Now(), limit))
}

// UnderWayBeside gives the id of another command of the SIM that may have a request at the carrier,
// 0 for none: there must never be one (V3).
func (tx *Tx) UnderWayBeside(ctx context.Context, sim simwarden.SIMID, id simwarden.CommandID) (simwarden.CommandID, error) {
	var other simwarden.CommandID
	err := tx.QueryRow(ctx, `
		SELECT coalesce(max(id), 0) FROM command
		WHERE sim_id = $1 AND id <> $2 AND state IN ('sending', 'verifying', 'confirming')`, sim, id).Scan(&other)
	if err != nil {
		return 0, fmt.Errorf("commands under way of sim %d: %w", sim, err)
	}
	return other, nil
}

// SentAt gives the latest instants at which the SIM's attempts since one may have reached the carrier,
// in order, those that surely never left aside: what a carrier's budget of changes counts (C11).
func (tx *Tx) SentAt(ctx context.Context, sim simwarden.SIMID, since time.Time) ([]time.Time, error) {
	rows, err := tx.Query(ctx, `
		SELECT coalesce(t.ended_at, t.deadline_at) AS at FROM attempt t JOIN command c ON c.id = t.command_id
		WHERE c.sim_id = $1 AND coalesce(t.ended_at, t.deadline_at) > $2 AND t.outcome <> 'not_sent' ORDER BY at`, sim, since)
	if err != nil {
		return nil, fmt.Errorf("attempts of sim %d: %w", sim, err)
	}
	defer rows.Close()
	var out []time.Time
	for rows.Next() {
		var at time.Time
		if err := rows.Scan(&at); err != nil {
			return nil, fmt.Errorf("attempts of sim %d: %w", sim, err)
		}
		out = append(out, at.UTC())
	}
	return out, rows.Err()
}

// SetFailed notes that an order failed, how many have in a row, and when the same may be opened
// again (C8).
func (tx *Tx) SetFailed(ctx context.Context, sim simwarden.SIMID, d simwarden.Direction, inRow int, reopenAt time.Time) error {
	_, err := tx.Exec(ctx, `UPDATE sim SET failed_direction = $2, failed_in_row = $3, reopen_at = $4 WHERE id = $1`, sim, string(d), inRow, reopenAt)
	if err != nil {
		return fmt.Errorf("note failure of sim %d: %w", sim, err)
	}
	return nil
}

// ClearFailed forgets failures: an order has succeeded.
func (tx *Tx) ClearFailed(ctx context.Context, sim simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `UPDATE sim SET failed_direction = '', failed_in_row = 0, reopen_at = NULL WHERE id = $1 AND (failed_direction <> '' OR failed_in_row <> 0)`, sim)
	if err != nil {
		return fmt.Errorf("forget failures of sim %d: %w", sim, err)
	}
	return nil
}

// Unsettle makes the next reading of a SIM go through a full decision.
func (tx *Tx) Unsettle(ctx context.Context, sim simwarden.SIMID) error {
	if _, err := tx.Exec(ctx, `UPDATE poll_state SET settled = false WHERE sim_id = $1 AND settled`, sim); err != nil {
		return fmt.Errorf("unsettle sim %d: %w", sim, err)
	}
	return nil
}

// IsOneRows says whether an error is about the very rows of a statement (a value, a constraint, a
// trigger), and not about the database as a whole: the same would happen again, to this row alone
// (F5, F16).
func IsOneRows(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) || len(pg.Code) != 5 {
		return false
	}
	switch pg.Code[:2] {
	case "22", "23", "P0": // data exception, integrity constraint violation, PL/pgSQL error
		return true
	}
	return false
}

// ReadFirstSince is the instant since which the database is another than the one that this
// program worked on before, by its system and timeline: after a failover or a restore, commands
// that look unsent may have been sent, so facts older than this are read again before anything is
// sent (C1). It is zero for a database that has always been the same. A copy of the data directory
// that is put back under the same timeline cannot be told from the original.
func (tx *Tx) ReadFirstSince(ctx context.Context) (time.Time, error) {
	var since *time.Time
	var same bool
	err := tx.QueryRow(ctx, `
		SELECT coalesce(s.value->>'identity' = i.identity, false), (s.value->>'read_first_since')::timestamptz
		FROM (SELECT `+databaseIdentity+` AS identity) i LEFT JOIN setting s ON s.key = 'database'`).Scan(&same, &since)
	if err != nil {
		return time.Time{}, fmt.Errorf("identity of the database: %w", err)
	}
	if same {
		return timeOf(since), nil
	}
	// Written apart: a write that finds nothing to do would still lock the row, and all claims with it.
	err = tx.QueryRow(ctx, `
		INSERT INTO setting AS s (key, value) VALUES ('database', jsonb_build_object('identity', `+databaseIdentity+`))
		ON CONFLICT (key) DO UPDATE SET value = excluded.value || jsonb_build_object('read_first_since',
			CASE WHEN s.value->>'identity' = excluded.value->>'identity' THEN (s.value->>'read_first_since')::timestamptz ELSE $1 END)
		RETURNING (value->>'read_first_since')::timestamptz`, tx.At).Scan(&since)
	if err != nil {
		return time.Time{}, fmt.Errorf("identity of the database: %w", err)
	}
	return timeOf(since), nil
}

// databaseIdentity is the system's identifier with the timeline that is being written.
const databaseIdentity = `(SELECT system_identifier FROM pg_control_system())::text || '/' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8)`
