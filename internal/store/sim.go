package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// ErrAmbiguousICCID says that a number given without check digit fits several cards (I6).
var ErrAmbiguousICCID = errors.New("this ICCID fits more than one card; give it with its check digit")

// SIM is one card with what is kept of it, and what was last read and decided.
type SIM struct {
	ID             simwarden.SIMID     `json:"id"`
	AccountID      simwarden.AccountID `json:"account_id"`
	AccountName    string              `json:"account"`
	DeviceID       simwarden.DeviceID  `json:"device_id,omitempty"`
	ICCID          simwarden.ICCID     `json:"iccid"`
	ICCIDRaw       string              `json:"iccid_raw"`
	Key            string              `json:"key,omitempty"`
	MSISDN         string              `json:"msisdn,omitempty"`
	IMSI           string              `json:"imsi,omitempty"`
	Label          string              `json:"label,omitempty"`
	EverPlanned    bool                `json:"ever_planned"`
	PausedAt       time.Time           `json:"paused_at,omitzero"`
	PausedBy       string              `json:"paused_by,omitempty"`
	PausedReason   string              `json:"paused_reason,omitempty"`
	DevicePausedAt time.Time           `json:"device_paused_at,omitzero"`
	ClosedAt       time.Time           `json:"closed_at,omitzero"`
	ClosedBecause  string              `json:"closed_because,omitempty"`
	HoldAt         time.Time           `json:"hold_at,omitzero"`
	HoldBy         string              `json:"hold_by,omitempty"`
	HoldReason     string              `json:"hold_reason,omitempty"`
	FailedInRow    int                 `json:"failed_in_row,omitempty"`
	FailedDir      simwarden.Direction `json:"failed_direction,omitempty"`
	ReopenAt       time.Time           `json:"reopen_at,omitzero"`
	DriftingAt     time.Time           `json:"drifting_at,omitzero"`
	DriftBecause   string              `json:"drifting_because,omitempty"`
	CreatedAt      time.Time           `json:"created_at"`

	Shard              int                     `json:"-"`
	State              simwarden.State         `json:"state"`
	Pending            bool                    `json:"pending"`
	Extended           simwarden.ExtendedState `json:"extended_state"`
	RawState           string                  `json:"raw_state"`
	StateReadAt        time.Time               `json:"state_read_at,omitzero"`
	StateSinceAt       time.Time               `json:"state_since_at,omitzero"`
	UsageCounterBytes  *int64                  `json:"usage_counter_bytes,omitempty"`
	UsagePeriodStartAt time.Time               `json:"usage_period_start_at,omitzero"`
	UsageReadAt        time.Time               `json:"usage_read_at,omitzero"`
	UsageTrueAt        time.Time               `json:"usage_true_at,omitzero"`
	LifetimeBytes      int64                   `json:"lifetime_bytes"`
	RealName           simwarden.RealName      `json:"realname"`
	RealNameReadAt     time.Time               `json:"realname_read_at,omitzero"`
	// RealNameOdd is what the carrier said last, where that is not understood; RealName is as before then.
	RealNameOdd   string                 `json:"realname_odd,omitempty"`
	StateDueAt    time.Time              `json:"state_due_at,omitzero"`
	UsageDueAt    time.Time              `json:"usage_due_at,omitzero"`
	RealNameDueAt time.Time              `json:"realname_due_at,omitzero"`
	Settled       bool                   `json:"-"`
	Desired       simwarden.Desired      `json:"desired"`
	Reason        simwarden.Reason       `json:"reason,omitempty"`
	Because       string                 `json:"because,omitempty"`
	Reasons       []simwarden.ReasonHeld `json:"reasons"`
	DecidedAt     time.Time              `json:"decided_at,omitzero"`
	DecidedScene  simwarden.Scene        `json:"decided_scene,omitempty"`
}

const simColumns = `s.id, s.account_id, a.name, coalesce(s.device_id, 0), s.iccid, s.iccid_raw, s.key, s.msisdn, s.imsi, s.label,
	s.ever_planned OR coalesce(d.ever_planned, false),
	s.paused_at, s.paused_by, s.paused_reason, d.paused_at, s.closed_at, s.closed_because, s.hold_at, s.hold_by, s.hold_reason,
	s.failed_in_row, s.failed_direction, s.reopen_at, s.drifting_at, s.drifting_because, s.created_at,
	p.shard, p.state, p.pending, p.extended, p.raw_state, p.state_read_at, p.state_since_at,
	p.usage_counter_bytes, p.usage_period_start_at, p.usage_read_at, p.usage_true_at, p.lifetime_bytes,
	p.realname, p.realname_read_at, p.realname_odd, p.state_due_at, p.usage_due_at, p.realname_due_at,
	p.settled, p.desired, p.reason, p.because, p.reasons, p.decided_at, p.decided_scene`

const simTables = ` FROM sim s JOIN poll_state p ON p.sim_id = s.id JOIN account a ON a.id = s.account_id LEFT JOIN device d ON d.id = s.device_id `

func scanSIM(row pgx.Row) (SIM, error) {
	var s SIM
	var iccid string
	var paused, devicePaused, closed, hold, reopen, drifting, stateRead, stateSince, period, usageRead, usageTrue, realRead, decided *time.Time
	err := one(row, &s.ID, &s.AccountID, &s.AccountName, &s.DeviceID, &iccid, &s.ICCIDRaw, &s.Key, &s.MSISDN, &s.IMSI, &s.Label,
		&s.EverPlanned,
		&paused, &s.PausedBy, &s.PausedReason, &devicePaused, &closed, &s.ClosedBecause, &hold, &s.HoldBy, &s.HoldReason,
		&s.FailedInRow, &s.FailedDir, &reopen, &drifting, &s.DriftBecause, &s.CreatedAt,
		&s.Shard, &s.State, &s.Pending, &s.Extended, &s.RawState, &stateRead, &stateSince,
		&s.UsageCounterBytes, &period, &usageRead, &usageTrue, &s.LifetimeBytes,
		&s.RealName, &realRead, &s.RealNameOdd, &s.StateDueAt, &s.UsageDueAt, &s.RealNameDueAt,
		&s.Settled, &s.Desired, &s.Reason, &s.Because, &s.Reasons, &decided, &s.DecidedScene)
	if err != nil {
		return SIM{}, err
	}
	if s.ICCID, err = simwarden.ParseICCID(iccid); err != nil {
		return SIM{}, fmt.Errorf("sim %d: %w", s.ID, err)
	}
	s.PausedAt, s.DevicePausedAt, s.ClosedAt, s.HoldAt = timeOf(paused), timeOf(devicePaused), timeOf(closed), timeOf(hold)
	s.ReopenAt, s.DriftingAt = timeOf(reopen), timeOf(drifting)
	s.StateReadAt, s.StateSinceAt, s.UsagePeriodStartAt = timeOf(stateRead), timeOf(stateSince), timeOf(period)
	s.UsageReadAt, s.UsageTrueAt, s.RealNameReadAt, s.DecidedAt = timeOf(usageRead), timeOf(usageTrue), timeOf(realRead), timeOf(decided)
	s.CreatedAt, s.StateDueAt, s.UsageDueAt, s.RealNameDueAt = s.CreatedAt.UTC(), s.StateDueAt.UTC(), s.UsageDueAt.UTC(), s.RealNameDueAt.UTC()
	return s, nil
}

// SIM gives one SIM by id.
func (s *Store) SIM(ctx context.Context, id simwarden.SIMID) (SIM, error) {
	sim, err := scanSIM(s.pool.QueryRow(ctx, `SELECT `+simColumns+simTables+`WHERE s.id = $1`, id))
	if err != nil {
		return sim, fmt.Errorf("sim %d: %w", id, err)
	}
	return sim, nil
}

// SIMByICCID finds a SIM by its number, given with or without its check digit (I6). The errors
// are ErrNotFound and ErrAmbiguousICCID.
func (s *Store) SIMByICCID(ctx context.Context, iccid simwarden.ICCID) (SIM, error) {
	id, err := findICCID(ctx, s.pool, iccid)
	if err != nil {
		return SIM{}, err
	}
	return s.SIM(ctx, id)
}

// FindICCID is the id of the SIM with this number, given with or without its check digit.
func (tx *Tx) FindICCID(ctx context.Context, iccid simwarden.ICCID) (simwarden.SIMID, error) {
	return findICCID(ctx, tx, iccid)
}

func findICCID(ctx context.Context, db execer, iccid simwarden.ICCID) (simwarden.SIMID, error) {
	forms := []string{iccid.String()}
	for _, other := range iccid.Alternates() {
		forms = append(forms, other.String())
	}
	rows, err := db.Query(ctx, `SELECT id, iccid FROM sim WHERE iccid = ANY($1) LIMIT 12`, forms)
	if err != nil {
		return 0, fmt.Errorf("find %s: %w", iccid, err)
	}
	defer rows.Close()
	var found []simwarden.SIMID
	for rows.Next() {
		var id simwarden.SIMID
		var text string
		if err := rows.Scan(&id, &text); err != nil {
			return 0, fmt.Errorf("find %s: %w", iccid, err)
		}
		if text == iccid.String() {
			return id, nil
		}
		found = append(found, id)
	}
	switch {
	case rows.Err() != nil:
		return 0, fmt.Errorf("find %s: %w", iccid, rows.Err())
	case len(found) == 0:
		return 0, fmt.Errorf("sim with ICCID %s: %w", iccid, ErrNotFound)
	case len(found) > 1:
		return 0, fmt.Errorf("%s: %w", iccid, ErrAmbiguousICCID)
	}
	return found[0], nil
}

// SIMFilter narrows a list of SIMs; zero fields do not. After is the id of the last SIM of the
// page before.
type SIMFilter struct {
	AccountID simwarden.AccountID
	DeviceID  simwarden.DeviceID
	State     simwarden.State
	Desired   simwarden.Desired
	Reason    simwarden.Reason
	Drifting  bool
	Paused    bool
	Closed    bool
	Extended  simwarden.ExtendedState
	Search    string // part of an ICCID from its start, or a label
	After     simwarden.SIMID
	Limit     int
}

// SIMs lists SIMs in the order of their ids.
func (s *Store) SIMs(ctx context.Context, f SIMFilter) ([]SIM, error) {
	return scanAll("list sims", scanSIM)(s.pool.Query(ctx, `SELECT `+simColumns+simTables+simWhere, f.args()...))
}

// args are the parameters of simWhere.
func (f SIMFilter) args() []any {
	return []any{f.After, f.AccountID, string(f.State), string(f.Desired), string(f.Reason), f.Drifting, f.Paused, f.Search, f.DeviceID,
		f.Closed, string(f.Extended), f.Limit}
}

// simWhere is a SIMFilter in SQL.
const simWhere = `
		WHERE s.id > $1
		  AND ($2::bigint = 0 OR s.account_id = $2)
		  AND ($3 = '' OR p.state = $3)
		  AND ($4 = '' OR p.desired = $4)
		  AND ($5 = '' OR p.reasons @> jsonb_build_array(jsonb_build_object('reason', $5::text)))
		  AND (NOT $6 OR s.drifting_at IS NOT NULL)
		  AND (NOT $7 OR s.paused_at IS NOT NULL OR d.paused_at IS NOT NULL)
		  AND ($8 = '' OR starts_with(s.iccid, $8) OR starts_with(s.label, $8))
		  AND ($9::bigint = 0 OR s.device_id = $9)
		  AND (NOT $10 OR s.closed_at IS NOT NULL)
		  AND ($11 = '' OR p.extended = $11)
		ORDER BY s.id LIMIT $12`

// LockSIM locks the SIM's row of facts, the one lock that everybody takes who decides or orders
// for it, and gives the SIM.
func (tx *Tx) LockSIM(ctx context.Context, id simwarden.SIMID) (SIM, error) {
	if err := tx.lockSIMs(ctx, []simwarden.SIMID{id}); err != nil {
		return SIM{}, err
	}
	sim, err := scanSIM(tx.QueryRow(ctx, `SELECT `+simColumns+simTables+`WHERE s.id = $1`, id))
	if err != nil {
		return sim, fmt.Errorf("sim %d: %w", id, err)
	}
	return sim, nil
}

func (tx *Tx) lockSIMs(ctx context.Context, ids []simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `SELECT FROM poll_state WHERE sim_id = ANY($1) ORDER BY sim_id FOR NO KEY UPDATE`, ids)
	if err != nil {
		return fmt.Errorf("lock %d sims: %w", len(ids), err)
	}
	return nil
}

// PausePolling stops the polling of a SIM for a person (P4); it says whether it ran until now.
func (tx *Tx) PausePolling(ctx context.Context, id simwarden.SIMID, by, reason string) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE sim SET paused_at = $2, paused_by = $3, paused_reason = $4 WHERE id = $1 AND paused_at IS NULL`, id, tx.At, by, reason)
	if err != nil {
		return false, fmt.Errorf("pause polling of sim %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, tx.unsettle(ctx, id)
}

// ResumePolling takes the polling of a SIM up again, paused or closed, at once; it says whether it
// was stopped.
func (tx *Tx) ResumePolling(ctx context.Context, id simwarden.SIMID) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE sim SET paused_at = NULL, paused_by = '', paused_reason = '', closed_at = NULL, closed_because = ''
		WHERE id = $1 AND (paused_at IS NOT NULL OR closed_at IS NOT NULL)`, id)
	if err != nil {
		return false, fmt.Errorf("resume polling of sim %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, tx.unsettle(ctx, id)
}

// ClosePolling closes the polling of this SIM alone (P5) and writes the extended state back; it
// says whether it was open. One alert an account tells of it: only a person opens it again.
func (tx *Tx) ClosePolling(ctx context.Context, id simwarden.SIMID, extended simwarden.ExtendedState, because string) (bool, error) {
	if extended != "" {
		if _, err := tx.Exec(ctx, `UPDATE poll_state SET extended = $2 WHERE sim_id = $1`, id, string(extended)); err != nil {
			return false, fmt.Errorf("close polling of sim %d: %w", id, err)
		}
	}
	var account simwarden.AccountID
	var name, iccid string
	err := tx.QueryRow(ctx, `
		UPDATE sim s SET closed_at = $2, closed_because = $3 FROM account a WHERE s.id = $1 AND a.id = s.account_id AND s.closed_at IS NULL
		RETURNING a.id, a.name, s.iccid`, id, tx.At, because).Scan(&account, &name, &iccid)
	closed := !errors.Is(err, pgx.ErrNoRows)
	if err != nil && closed {
		return false, fmt.Errorf("close polling of sim %d: %w", id, err)
	}
	if closed {
		err := tx.Raise(ctx, Alert{Kind: AlertClosed, Key: fmt.Sprintf("%s:%d", AlertClosed, account), AccountID: account,
			Message: fmt.Sprintf("SIM %s, the last of those that are not polled any more since the carrier blocks them or has ended them: %s; see them all: simwarden sims --account %s --closed",
				iccid, because, name)})
		if err != nil {
			return false, err
		}
	}
	return closed, tx.unsettle(ctx, id)
}

// ClosedSince counts the account's SIMs whose polling was closed after the instant and still is.
func (tx *Tx) ClosedSince(ctx context.Context, account simwarden.AccountID, since time.Time) (n int, err error) {
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM sim WHERE account_id = $1 AND closed_at > $2`, account, since).Scan(&n); err != nil {
		return 0, fmt.Errorf("count closed sims of account %d: %w", account, err)
	}
	return n, nil
}

// unsettle makes the next reading of the SIM go through a full decision, and tells the owner of
// its shard to look at its schedule again.
func (tx *Tx) unsettle(ctx context.Context, id simwarden.SIMID) error {
	_, err := tx.Exec(ctx, `
		WITH p AS (
			UPDATE poll_state SET settled = false, state_due_at = $2, usage_due_at = $2, realname_due_at = $2
			WHERE sim_id = $1 RETURNING sim_id, account_id, shard
		)
		INSERT INTO poll_nudge (sim_id, account_id, shard, due_at) SELECT sim_id, account_id, shard, $2 FROM p
		ON CONFLICT (sim_id) DO UPDATE SET due_at = excluded.due_at`, id, tx.At)
	if err != nil {
		return fmt.Errorf("nudge sim %d: %w", id, err)
	}
	return nil
}

// SetHold sets or lifts the manual hold (E3).
func (tx *Tx) SetHold(ctx context.Context, id simwarden.SIMID, hold bool, by, reason string) error {
	var err error
	if hold {
		_, err = tx.Exec(ctx, `UPDATE sim SET hold_at = $2, hold_by = $3, hold_reason = $4 WHERE id = $1`, id, tx.At, by, reason)
	} else {
		_, err = tx.Exec(ctx, `UPDATE sim SET hold_at = NULL, hold_by = '', hold_reason = '' WHERE id = $1`, id)
	}
	if err != nil {
		return fmt.Errorf("manual hold of sim %d: %w", id, err)
	}
	return nil
}

// LearnKey keeps the carrier's own name for a SIM.
func (tx *Tx) LearnKey(ctx context.Context, id simwarden.SIMID, key string) error {
	if _, err := tx.Exec(ctx, `UPDATE sim SET key = $2 WHERE id = $1 AND key <> $2`, id, key); err != nil {
		return fmt.Errorf("learn key of sim %d: %w", id, err)
	}
	return nil
}

// NudgeRead asks the poller to read the given kinds of the SIMs at once, where their next reading
// is further off than unlessWithin.
func (tx *Tx) NudgeRead(ctx context.Context, ids []simwarden.SIMID, kinds []simwarden.CheckKind, unlessWithin time.Duration) error {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k)
	}
	_, err := tx.Exec(ctx, `
		WITH p AS (
			UPDATE poll_state SET
				state_due_at = CASE WHEN 'state' = ANY($3) AND state_due_at > $4 THEN $2 ELSE state_due_at END,
				usage_due_at = CASE WHEN 'usage' = ANY($3) AND usage_due_at > $4 THEN $2 ELSE usage_due_at END,
				realname_due_at = CASE WHEN 'realname' = ANY($3) AND realname_due_at > $4 THEN $2 ELSE realname_due_at END
			WHERE sim_id = ANY($1) AND ('state' = ANY($3) AND state_due_at > $4 OR 'usage' = ANY($3) AND usage_due_at > $4
				OR 'realname' = ANY($3) AND realname_due_at > $4)
			RETURNING sim_id, account_id, shard
		)
		INSERT INTO poll_nudge (sim_id, account_id, shard, due_at) SELECT sim_id, account_id, shard, $2 FROM p
		ON CONFLICT (sim_id) DO UPDATE SET due_at = excluded.due_at`, ids, tx.At, names, tx.At.Add(unlessWithin))
	if err != nil {
		return fmt.Errorf("ask to read %d sims: %w", len(ids), err)
	}
	return nil
}
