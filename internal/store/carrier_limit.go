package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
)

// CarrierLimit is the data limit of one SIM at its carrier (P8), in bytes of the carrier's own counter
// and period; 0 bytes: none. Held is what the carrier holds as it was last set or read.
type CarrierLimit struct {
	SIMID        simwarden.SIMID     `json:"-"`
	AccountID    simwarden.AccountID `json:"-"`
	DesiredBytes int64               `json:"desired_bytes"`
	Because      string              `json:"because"`
	DesiredAt    time.Time           `json:"desired_at"`
	HeldBytes    int64               `json:"held_bytes"`
	Handle       string              `json:"handle,omitempty"` // the carrier's name for it
	Altered      bool                `json:"altered,omitempty"`
	SetAt        time.Time           `json:"set_at,omitzero"`
	CheckedAt    time.Time           `json:"checked_at,omitzero"`
	// SentAt is since when a request is out, or since when it is not known what became of one.
	SentAt   time.Time `json:"sent_at,omitzero"`
	CheckAt  time.Time `json:"check_at"`
	DueAt    time.Time `json:"due_at"`
	Failures int       `json:"failures,omitempty"`
	Error    string    `json:"error,omitempty"`

	// Of its SIM, to name it to the driver.
	ICCID string `json:"-"`
	Key   string `json:"-"`
}

// InLine says that the carrier holds what is wanted, as far as is known.
func (l CarrierLimit) InLine() bool {
	return l.SentAt.IsZero() && !l.Altered && l.HeldBytes == l.DesiredBytes && (l.HeldBytes > 0 || l.Handle == "")
}

const carrierLimitColumns = `l.sim_id, l.account_id, l.desired_bytes, l.because, l.desired_at, l.held_bytes, l.handle, l.altered,
	l.set_at, l.checked_at, l.sent_at, l.check_at, l.due_at, l.failures, l.error, s.iccid, s.key`

func scanCarrierLimit(row pgx.Row) (CarrierLimit, error) {
	var l CarrierLimit
	var set, checked, sent *time.Time
	err := one(row, &l.SIMID, &l.AccountID, &l.DesiredBytes, &l.Because, &l.DesiredAt, &l.HeldBytes, &l.Handle, &l.Altered,
		&set, &checked, &sent, &l.CheckAt, &l.DueAt, &l.Failures, &l.Error, &l.ICCID, &l.Key)
	l.SetAt, l.CheckedAt, l.SentAt = timeOf(set), timeOf(checked), timeOf(sent)
	l.DesiredAt, l.CheckAt, l.DueAt = l.DesiredAt.UTC(), l.CheckAt.UTC(), l.DueAt.UTC()
	return l, err
}

// CarrierLimit gives a SIM's limit at its carrier; nil where none is wanted or held.
func (s *Store) CarrierLimit(ctx context.Context, id simwarden.SIMID) (*CarrierLimit, error) {
	l, err := scanCarrierLimit(s.pool.QueryRow(ctx, `SELECT `+carrierLimitColumns+` FROM carrier_limit l JOIN sim s ON s.id = l.sim_id WHERE l.sim_id = $1`, id))
	switch {
	case errors.Is(err, ErrNotFound):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("carrier limit of sim %d: %w", id, err)
	}
	return &l, nil
}

// LimitWanted is the limit that a SIM's carrier should hold from now on.
type LimitWanted struct {
	SIMID     simwarden.SIMID
	AccountID simwarden.AccountID
	Bytes     int64
	Because   string
}

// WantCarrierLimits keeps which limits are wanted. The SIMs are locked. A new row is read at the carrier
// before anything is made there: it may hold a limit from before.
func (tx *Tx) WantCarrierLimits(ctx context.Context, rows []LimitWanted) error {
	if len(rows) == 0 {
		return nil
	}
	n := len(rows)
	sims, accounts, bytes, because := make([]int64, n), make([]int64, n), make([]int64, n), make([]string, n)
	for i, r := range rows {
		sims[i], accounts[i], bytes[i], because[i] = int64(r.SIMID), int64(r.AccountID), r.Bytes, r.Because
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO carrier_limit AS l (sim_id, account_id, desired_bytes, because, desired_at, check_at, due_at)
		SELECT sim, account, bytes, because, $1, $1, $1 FROM unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::text[]) AS v (sim, account, bytes, because)
		ON CONFLICT (sim_id) DO UPDATE SET desired_bytes = excluded.desired_bytes, because = excluded.because, desired_at = excluded.desired_at,
			due_at = CASE WHEN l.sent_at IS NULL THEN excluded.due_at ELSE l.due_at END`,
		tx.At, sims, accounts, bytes, because)
	if err != nil {
		return fmt.Errorf("want %d carrier limits: %w", n, err)
	}
	return nil
}

// CheckCarrierLimits has the limits of SIMs read again, as after a change that may have dropped them
// without a word.
func (tx *Tx) CheckCarrierLimits(ctx context.Context, ids []simwarden.SIMID) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.Exec(ctx, `
		UPDATE carrier_limit SET check_at = least(check_at, $2), due_at = CASE WHEN sent_at IS NULL THEN least(due_at, $2) ELSE due_at END
		WHERE sim_id = ANY($1)`, ids, tx.At)
	if err != nil {
		return fmt.Errorf("check %d carrier limits: %w", len(ids), err)
	}
	return nil
}

// SetCarrierLimits says whether an account keeps limits at its carrier. Those of an account that keeps
// none any more are taken away.
func (tx *Tx) SetCarrierLimits(ctx context.Context, id simwarden.AccountID, on bool) error {
	if err := tx.touchAccount(ctx, id, `carrier_limits = $3`, on); err != nil || on {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE carrier_limit SET desired_bytes = 0, because = $3, desired_at = $2, due_at = CASE WHEN sent_at IS NULL THEN $2 ELSE due_at END
		WHERE account_id = $1 AND desired_bytes > 0`, id, tx.At, "its account keeps no limits at the carrier")
	if err != nil {
		return fmt.Errorf("take away the carrier limits of account %d: %w", id, err)
	}
	return nil
}

// CarrierLimitRaising says that the carrier still holds a limit for the SIM that is below what is wanted
// since then: it is being raised or taken away, and would stop the SIM again.
func (tx *Tx) CarrierLimitRaising(ctx context.Context, id simwarden.SIMID, since time.Time) (bool, error) {
	var yes bool
	err := tx.QueryRow(ctx, `
		SELECT EXISTS (SELECT FROM carrier_limit WHERE sim_id = $1 AND held_bytes > 0 AND desired_at > $2
			AND (desired_bytes = 0 OR desired_bytes > held_bytes))`, id, since).Scan(&yes)
	if err != nil {
		return false, fmt.Errorf("carrier limit of sim %d: %w", id, err)
	}
	return yes, nil
}

// AccountsWithDueLimits are the accounts that may be called and have limits to read or set at the carrier.
func (s *Store) AccountsWithDueLimits(ctx context.Context) ([]simwarden.AccountID, error) {
	return scanAll("accounts with due carrier limits", scanID[simwarden.AccountID])(s.pool.Query(ctx, `
		SELECT a.id FROM account a WHERE a.mode = 'act' AND a.stopped_at IS NULL
			AND EXISTS (SELECT FROM carrier_limit l WHERE l.account_id = a.id AND l.due_at <= $1) ORDER BY a.id`, s.Now()))
}

// DueCarrierLimits are an account's limits with something to do, longest due first; those below what is
// wanted come before others, since a SIM may wait for them.
func (s *Store) DueCarrierLimits(ctx context.Context, id simwarden.AccountID, limit int) ([]CarrierLimit, error) {
	return scanAll("due carrier limits", scanCarrierLimit)(s.pool.Query(ctx, `
		SELECT `+carrierLimitColumns+` FROM carrier_limit l JOIN sim s ON s.id = l.sim_id
		WHERE l.account_id = $1 AND l.due_at <= $2
		ORDER BY l.held_bytes > 0 AND (l.desired_bytes = 0 OR l.desired_bytes > l.held_bytes) DESC, l.due_at, l.sim_id LIMIT $3`, id, s.Now(), limit))
}

// LimitsRead is what a carrier was found to hold by a read that was begun at BegunAt.
type LimitsRead struct {
	AccountID simwarden.AccountID
	BegunAt   time.Time
	// Settled is before when a request must have been begun for its effect to show in that read.
	Settled time.Time
	CheckAt time.Time // when to read again
	Limits  []carrier.Limit
}

// LimitDrift is a limit that was not as it was known to be.
type LimitDrift struct {
	SIMID                simwarden.SIMID
	WasBytes, FoundBytes int64
}

// TakeLimits keeps what a carrier was found to hold. Limits whose request may still be under way are left
// as they are. It gives those that somebody else has dropped or changed. A limit of a SIM of which nothing is
// wanted is kept, to be taken away; of a SIM that is not known, nothing is.
func (tx *Tx) TakeLimits(ctx context.Context, r LimitsRead) ([]LimitDrift, error) {
	n := len(r.Limits)
	keys, handles, bytes, altered := make([]string, n), make([]string, n), make([]int64, n), make([]bool, n)
	for i, l := range r.Limits {
		keys[i], handles[i], bytes[i], altered[i] = l.Key, l.Handle, l.LimitBytes, l.Altered
	}
	if _, err := tx.Exec(ctx, `
		INSERT INTO carrier_limit (sim_id, account_id, because, desired_at, check_at, due_at)
		SELECT s.id, s.account_id, 'found at the carrier, and nothing is known of it', $2, $2, $2
		FROM unnest($3::text[]) AS v (key) JOIN sim s ON s.account_id = $1 AND s.key = v.key
		ORDER BY s.id ON CONFLICT DO NOTHING`, r.AccountID, tx.At, keys); err != nil {
		return nil, fmt.Errorf("keep the carrier limits of account %d: %w", r.AccountID, err)
	}
	rows, err := tx.Query(ctx, `
		WITH found AS (
			SELECT DISTINCT ON (s.id) s.id AS sim_id, v.handle, v.bytes, v.altered
			FROM unnest($5::text[], $6::text[], $7::bigint[], $8::bool[]) AS v (key, handle, bytes, altered)
			JOIN sim s ON s.account_id = $1 AND s.key = v.key ORDER BY s.id, v.handle
		), before AS (
			SELECT l.sim_id, l.held_bytes, l.sent_at, l.checked_at, coalesce(f.handle, '') AS handle, coalesce(f.bytes, 0) AS bytes, coalesce(f.altered, false) AS altered
			FROM carrier_limit l LEFT JOIN found f ON f.sim_id = l.sim_id
			WHERE l.account_id = $1 AND (l.sent_at IS NULL OR l.sent_at <= $3) AND (l.set_at IS NULL OR l.set_at <= $2)
			ORDER BY l.sim_id FOR NO KEY UPDATE OF l
		)
		UPDATE carrier_limit l SET held_bytes = b.bytes, handle = b.handle, altered = b.altered, sent_at = NULL, checked_at = $2, check_at = $4,
			failures = CASE WHEN b.bytes = l.desired_bytes AND NOT b.altered THEN 0 ELSE l.failures END,
			error = CASE WHEN b.bytes = l.desired_bytes AND NOT b.altered THEN '' ELSE l.error END,
			due_at = CASE WHEN b.bytes = l.desired_bytes AND NOT b.altered THEN $4 WHEN l.failures > 0 AND l.sent_at IS NULL AND l.due_at > $9 THEN l.due_at ELSE $9 END
		FROM before b WHERE l.sim_id = b.sim_id
		RETURNING l.sim_id, b.held_bytes, b.bytes, b.sent_at IS NULL AND b.checked_at IS NOT NULL AND (b.bytes <> b.held_bytes OR b.altered)`,
		r.AccountID, r.BegunAt, r.Settled, r.CheckAt, keys, handles, bytes, altered, tx.At)
	if err != nil {
		return nil, fmt.Errorf("keep the carrier limits of account %d: %w", r.AccountID, err)
	}
	var drifted []LimitDrift
	var d LimitDrift
	var yes bool
	_, err = pgx.ForEachRow(rows, []any{&d.SIMID, &d.WasBytes, &d.FoundBytes, &yes}, func() error {
		if yes {
			drifted = append(drifted, d)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("keep the carrier limits of account %d: %w", r.AccountID, err)
	}
	return drifted, tx.forgetLimits(ctx, r.AccountID)
}

// forgetLimits drops the rows of limits that are neither wanted nor held.
func (tx *Tx) forgetLimits(ctx context.Context, id simwarden.AccountID) error {
	_, err := tx.Exec(ctx, `
		DELETE FROM carrier_limit WHERE account_id = $1 AND desired_bytes = 0 AND held_bytes = 0 AND handle = '' AND sent_at IS NULL AND checked_at >= desired_at`, id)
	if err != nil {
		return fmt.Errorf("forget carrier limits of account %d: %w", id, err)
	}
	return nil
}

// MarkLimitSent says, before a request goes out, that one is: whoever finds it so reads first. It is false
// where what is wanted has changed since, or the account may not be called any more.
func (tx *Tx) MarkLimitSent(ctx context.Context, l CarrierLimit, until time.Time) (bool, error) {
	tag, err := tx.Exec(ctx, `
		UPDATE carrier_limit SET sent_at = $5, due_at = $6
		WHERE sim_id = $1 AND desired_bytes = $2 AND held_bytes = $3 AND handle = $4 AND sent_at IS NULL
			AND EXISTS (SELECT FROM account a WHERE a.id = account_id AND a.mode = 'act' AND a.stopped_at IS NULL)`,
		l.SIMID, l.DesiredBytes, l.HeldBytes, l.Handle, tx.At, until)
	if err != nil {
		return false, fmt.Errorf("mark the carrier limit of sim %d: %w", l.SIMID, err)
	}
	return tag.RowsAffected() == 1, nil
}

// LimitSet keeps that the carrier has taken a limit: the bytes that l wanted, under the handle. sentAt is
// that of the mark; where it has changed, somebody else knows better.
func (tx *Tx) LimitSet(ctx context.Context, l CarrierLimit, sentAt time.Time, handle string) error {
	_, err := tx.Exec(ctx, `
		UPDATE carrier_limit SET held_bytes = $3::bigint, handle = $4, altered = false, set_at = $5::timestamptz,
			checked_at = CASE WHEN $3::bigint = 0 THEN $5::timestamptz ELSE checked_at END,
			sent_at = NULL, failures = 0, error = '', due_at = CASE WHEN desired_bytes = $3::bigint THEN greatest(check_at, $5::timestamptz) ELSE $5::timestamptz END
		WHERE sim_id = $1 AND sent_at = $2`, l.SIMID, sentAt, l.DesiredBytes, handle, tx.At)
	if err != nil {
		return fmt.Errorf("keep the carrier limit of sim %d: %w", l.SIMID, err)
	}
	return tx.forgetLimits(ctx, l.AccountID)
}

// LimitFailed keeps why a limit could not be set, and when to try again; the carrier is read before that.
// unknown says that the request may have been carried out.
func (tx *Tx) LimitFailed(ctx context.Context, l CarrierLimit, sentAt, dueAt time.Time, unknown, counts bool, why string) error {
	_, err := tx.Exec(ctx, `
		UPDATE carrier_limit SET sent_at = CASE WHEN $4 THEN sent_at END, check_at = least(check_at, $7), due_at = $3,
			failures = failures + CASE WHEN $5 THEN 1 ELSE 0 END, error = $6
		WHERE sim_id = $1 AND sent_at = $2`, l.SIMID, sentAt, dueAt, unknown, counts, why, tx.At)
	if err != nil {
		return fmt.Errorf("keep the carrier limit of sim %d: %w", l.SIMID, err)
	}
	return nil
}

// LimitsUnread keeps why the limits of an account could not be read, for those that wait for it.
func (tx *Tx) LimitsUnread(ctx context.Context, id simwarden.AccountID, dueAt time.Time, why string) error {
	_, err := tx.Exec(ctx, `
		UPDATE carrier_limit SET due_at = $3, failures = failures + 1, error = $4
		WHERE account_id = $1 AND due_at <= $2 AND (check_at <= $2 OR sent_at IS NOT NULL)`, id, tx.At, dueAt, why)
	if err != nil {
		return fmt.Errorf("keep the carrier limits of account %d: %w", id, err)
	}
	return nil
}

// DelayLimit puts a limit off that cannot be set yet.
func (tx *Tx) DelayLimit(ctx context.Context, id simwarden.SIMID, dueAt time.Time, why string) error {
	if _, err := tx.Exec(ctx, `UPDATE carrier_limit SET due_at = $2, error = $3 WHERE sim_id = $1`, id, dueAt, why); err != nil {
		return fmt.Errorf("put off the carrier limit of sim %d: %w", id, err)
	}
	return nil
}

// HasSIMKey says whether the account has a SIM of this name at its carrier.
func (s *Store) HasSIMKey(ctx context.Context, id simwarden.AccountID, key string) (bool, error) {
	var yes bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM sim WHERE account_id = $1 AND key = $2)`, id, key).Scan(&yes); err != nil {
		return false, fmt.Errorf("look for a sim of account %d: %w", id, err)
	}
	return yes, nil
}
