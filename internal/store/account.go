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

// ErrAccountExists says that an account of that name is there already.
var ErrAccountExists = errors.New("an account of this name exists already")

// Account is one contract at one carrier. The sealed credential is apart: AccountCredential.
type Account struct {
	ID       simwarden.AccountID `json:"id"`
	Name     string              `json:"name"`
	Driver   string              `json:"driver"`
	BaseURL  string              `json:"base_url"`
	Settings map[string]string   `json:"settings"`
	// BadSettings says that the row's settings are not texts by name; Settings is empty then, and
	// the account cannot be called. Other accounts are read all the same.
	BadSettings      bool                      `json:"-"`
	Mode             simwarden.AccountMode     `json:"mode"`
	LimitGroupID     simwarden.LimitGroupID    `json:"limit_group_id"`
	Zone             string                    `json:"zone"`
	RealNameRequired bool                      `json:"realname_required"`
	Unplanned        simwarden.UnplannedPolicy `json:"unplanned"`
	DriftPolicy      simwarden.DriftPolicy     `json:"drift_policy"`
	FreshFor         time.Duration             `json:"-"`
	BrakePercent     int                       `json:"brake_percent"`
	BrakeCount       int                       `json:"brake_count"`
	BrakeWindow      time.Duration             `json:"-"`
	BrakedAt         time.Time                 `json:"braked_at,omitzero"`
	BrakedBecause    string                    `json:"braked_because,omitempty"`
	BrakeReleasedAt  time.Time                 `json:"brake_released_at,omitzero"`
	StoppedAt        time.Time                 `json:"stopped_at,omitzero"`
	StoppedBecause   string                    `json:"stopped_because,omitempty"`
	// Rests are its changes that rest because the carrier refuses nearly all (G8), where the caller asked for them.
	Rests []AccountRest `json:"rests,omitempty"`
	// Breakers are its circuit breakers that are not closed, likewise (G8).
	Breakers      []AccountBreaker `json:"breakers,omitempty"`
	StateEvery    time.Duration    `json:"-"`
	UsageEvery    time.Duration    `json:"-"`
	RealNameEvery time.Duration    `json:"-"`
	// RenewalLead is how long before its end a plan of its SIMs is bought again, where it is (M2); 0: at its end.
	RenewalLead time.Duration `json:"-"`
	// CheckChangesPerDay is how often in any 24 hours checks alone may change a SIM to the state that it should have had
	// already, Dwell the least time from a resume to a suspend that checks alone ask for (F30); 0: no bound.
	CheckChangesPerDay int           `json:"check_changes_per_day"`
	Dwell              time.Duration `json:"-"`
	// CarrierLimits says that its carrier holds a data limit for each SIM, equal to what its plan allows (P8).
	CarrierLimits bool      `json:"carrier_limits"`
	Shards        int       `json:"shards"`
	CreatedAt     time.Time `json:"created_at"`
	UpdatedAt     time.Time `json:"updated_at"`
}

// MarshalJSON adds the durations, in seconds.
func (a Account) MarshalJSON() ([]byte, error) {
	type plain Account
	return json.Marshal(struct {
		plain
		FreshForSeconds      int64 `json:"fresh_for_seconds"`
		BrakeWindowSeconds   int64 `json:"brake_window_seconds"`
		StateEverySeconds    int64 `json:"state_every_seconds"`
		UsageEverySeconds    int64 `json:"usage_every_seconds"`
		RealNameEverySeconds int64 `json:"realname_every_seconds"`
		RenewalLeadSeconds   int64 `json:"renewal_lead_seconds"`
		DwellSeconds         int64 `json:"dwell_seconds"`
	}{plain(a), seconds(a.FreshFor), seconds(a.BrakeWindow), seconds(a.StateEvery), seconds(a.UsageEvery), seconds(a.RealNameEvery), seconds(a.RenewalLead), seconds(a.Dwell)})
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }

const accountColumns = `id, name, driver, base_url, settings, mode, limit_group_id, zone, realname_required,
	unplanned, drift_policy, fresh_for_seconds, brake_percent, brake_count, brake_window_seconds,
	braked_at, braked_because, brake_released_at, stopped_at, stopped_because,
	state_every_seconds, usage_every_seconds, realname_every_seconds, renewal_lead_seconds, check_changes_per_day, dwell_seconds, carrier_limits, shards, created_at, updated_at`

func scanAccount(row pgx.Row) (Account, error) {
	var a Account
	var settings []byte
	var fresh, window, stateEvery, usageEvery, realEvery, lead, dwell int64
	var braked, released, stopped *time.Time
	err := one(row, &a.ID, &a.Name, &a.Driver, &a.BaseURL, &settings, &a.Mode, &a.LimitGroupID, &a.Zone, &a.RealNameRequired,
		&a.Unplanned, &a.DriftPolicy, &fresh, &a.BrakePercent, &a.BrakeCount, &window,
		&braked, &a.BrakedBecause, &released, &stopped, &a.StoppedBecause,
		&stateEvery, &usageEvery, &realEvery, &lead, &a.CheckChangesPerDay, &dwell, &a.CarrierLimits, &a.Shards, &a.CreatedAt, &a.UpdatedAt)
	if err != nil {
		return Account{}, err
	}
	if err := json.Unmarshal(settings, &a.Settings); err != nil {
		a.Settings, a.BadSettings = map[string]string{}, true
	}
	a.FreshFor, a.BrakeWindow = time.Duration(fresh)*time.Second, time.Duration(window)*time.Second
	a.StateEvery, a.UsageEvery = time.Duration(stateEvery)*time.Second, time.Duration(usageEvery)*time.Second
	a.Dwell = time.Duration(dwell) * time.Second
	a.RealNameEvery, a.RenewalLead = time.Duration(realEvery)*time.Second, time.Duration(lead)*time.Second
	a.BrakedAt, a.BrakeReleasedAt, a.StoppedAt = timeOf(braked), timeOf(released), timeOf(stopped)
	a.CreatedAt, a.UpdatedAt = a.CreatedAt.UTC(), a.UpdatedAt.UTC()
	return a, nil
}

// AddAccount adds an account with what is set in a, defaults for what is zero, and a limit group
// of its own name in monitor mode where a.LimitGroupID is zero. It starts in observe (C9) whatever
// a.Mode says. The error is ErrAccountExists where the name is taken.
func (tx *Tx) AddAccount(ctx context.Context, a Account) (Account, error) {
	return tx.AddAccountBy(ctx, a, "system")
}

// AddAccountBy is AddAccount for whoever the account's event names.
func (tx *Tx) AddAccountBy(ctx context.Context, a Account, actor string) (Account, error) {
	if a.LimitGroupID == 0 {
		err := tx.QueryRow(ctx, `
			INSERT INTO limit_group (name, created_at) VALUES ($1, $2)
			ON CONFLICT (name) DO UPDATE SET name = excluded.name RETURNING id`, a.Name, tx.At).Scan(&a.LimitGroupID)
		if err != nil {
			return Account{}, fmt.Errorf("add limit group %q: %w", a.Name, err)
		}
	}
	settings, err := json.Marshal(orEmpty(a.Settings))
	if err != nil {
		return Account{}, fmt.Errorf("add account %q: %w", a.Name, err)
	}
	out, err := scanAccount(tx.QueryRow(ctx, `
		INSERT INTO account (name, driver, base_url, settings, limit_group_id, zone, realname_required, unplanned, drift_policy,
			fresh_for_seconds, state_every_seconds, usage_every_seconds, realname_every_seconds, created_at, updated_at)
		VALUES ($1, $2, $3, $4, $5, coalesce(nullif($6, ''), 'UTC'), $7, coalesce(nullif($8, ''), 'leave'), coalesce(nullif($9, ''), 'enforce'),
			coalesce(nullif($10::int, 0), 900), coalesce(nullif($11::int, 0), 3600), coalesce(nullif($12::int, 0), 3600),
			coalesce(nullif($13::int, 0), 86400), $14, $14)
		RETURNING `+accountColumns,
		a.Name, a.Driver, a.BaseURL, string(settings), a.LimitGroupID, a.Zone, a.RealNameRequired, string(a.Unplanned), string(a.DriftPolicy),
		seconds(a.FreshFor), seconds(a.StateEvery), seconds(a.UsageEvery), seconds(a.RealNameEvery), tx.At))
	if IsUnique(err, "account_name_key") {
		return Account{}, fmt.Errorf("%w: %q", ErrAccountExists, a.Name)
	}
	if err != nil {
		return Account{}, fmt.Errorf("add account %q: %w", a.Name, err)
	}
	_, err = tx.Exec(ctx, `
		INSERT INTO poll_shard (account_id, shard, lease_until)
		SELECT $1, generate_series(0, $2::int - 1), '-infinity'`, out.ID, out.Shards)
	if err != nil {
		return Account{}, fmt.Errorf("add account %q: %w", a.Name, err)
	}
	return out, tx.AddEvents(ctx, []NewEvent{{Kind: EventAccountChanged, AccountID: out.ID, Actor: actor, Data: map[string]string{"change": "added"}}})
}

func orEmpty(m map[string]string) map[string]string {
	if m == nil {
		return map[string]string{}
	}
	return m
}

// SetCredential stores an account's sealed credential (B10).
func (tx *Tx) SetCredential(ctx context.Context, id simwarden.AccountID, sealed []byte) error {
	return tx.touchAccount(ctx, id, `credential = $3`, sealed)
}

// AccountCredential gives the sealed credential, nil where there is none.
func (s *Store) AccountCredential(ctx context.Context, id simwarden.AccountID) ([]byte, error) {
	var sealed []byte
	if err := one(s.pool.QueryRow(ctx, `SELECT credential FROM account WHERE id = $1`, id), &sealed); err != nil {
		return nil, fmt.Errorf("credential of account %d: %w", id, err)
	}
	return sealed, nil
}

// SetAccountMode switches between observe and act (C9). What is queued when an account begins to
// observe is looked at at once, whatever it waits for, and ends as observed; a command that somebody
// works on just now comes to that by itself.
func (tx *Tx) SetAccountMode(ctx context.Context, id simwarden.AccountID, mode simwarden.AccountMode) error {
	if err := tx.touchAccount(ctx, id, `mode = $3`, string(mode)); err != nil || mode != simwarden.ModeObserve {
		return err
	}
	_, err := tx.Exec(ctx, `
		UPDATE command SET run_at = $2, held_by = '', updated_at = $2 WHERE id IN (
			SELECT id FROM command WHERE account_id = $1 AND state = 'queued' FOR UPDATE SKIP LOCKED)`, id, tx.At)
	if err != nil {
		return fmt.Errorf("wake commands of account %d: %w", id, err)
	}
	return nil
}

// SetPolling sets how often an account's SIMs are read.
func (tx *Tx) SetPolling(ctx context.Context, id simwarden.AccountID, state, usage, realName time.Duration) error {
	return tx.touchAccount(ctx, id, `state_every_seconds = $3, usage_every_seconds = $4, realname_every_seconds = $5`, seconds(state), seconds(usage), seconds(realName))
}

// SetPolicies sets what becomes of SIMs that never had a plan (E2), and of those that were changed
// outside (E13).
func (tx *Tx) SetPolicies(ctx context.Context, id simwarden.AccountID, unplanned simwarden.UnplannedPolicy, drift simwarden.DriftPolicy) error {
	return tx.touchAccount(ctx, id, `unplanned = $3, drift_policy = $4`, string(unplanned), string(drift))
}

// SetFreshFor sets how old facts may be when a command is sent (E11).
func (tx *Tx) SetFreshFor(ctx context.Context, id simwarden.AccountID, d time.Duration) error {
	return tx.touchAccount(ctx, id, `fresh_for_seconds = $3`, seconds(d))
}

// SetBrake sets the safety brake's share in percent, least count and window (C10).
func (tx *Tx) SetBrake(ctx context.Context, id simwarden.AccountID, percent, count int, window time.Duration) error {
	return tx.touchAccount(ctx, id, `brake_percent = $3, brake_count = $4, brake_window_seconds = $5`, percent, count, seconds(window))
}

// SetFlapLimits sets how often in a day checks alone may change a SIM to one and the same state, and the least time from
// a resume to a suspend that checks alone ask for (F30); 0: no bound.
func (tx *Tx) SetFlapLimits(ctx context.Context, id simwarden.AccountID, changesPerDay int, dwell time.Duration) error {
	return tx.touchAccount(ctx, id, `check_changes_per_day = $3, dwell_seconds = $4`, changesPerDay, seconds(dwell))
}

// StopAccount stops all calls of an account (G8); it keeps the first reason and says whether it
// was running until now.
func (tx *Tx) StopAccount(ctx context.Context, id simwarden.AccountID, because string) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE account SET stopped_at = $2, stopped_because = $3, updated_at = $2 WHERE id = $1 AND stopped_at IS NULL`, id, tx.At, because)
	if err != nil {
		return false, fmt.Errorf("stop account %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// StartAccount lets a stopped account's calls go on.
func (tx *Tx) StartAccount(ctx context.Context, id simwarden.AccountID) error {
	return tx.touchAccount(ctx, id, `stopped_at = NULL, stopped_because = ''`)
}

// BrakeAccount holds the account's automatic suspends from now on (C10); it keeps the first
// reason and says whether the brake was off until now.
func (tx *Tx) BrakeAccount(ctx context.Context, id simwarden.AccountID, because string) (bool, error) {
	tag, err := tx.Exec(ctx, `UPDATE account SET braked_at = $2, braked_because = $3, updated_at = $2 WHERE id = $1 AND braked_at IS NULL`, id, tx.At, because)
	if err != nil {
		return false, fmt.Errorf("brake account %d: %w", id, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ReleaseBrake lets automatic suspends go on; those before now no longer count.
func (tx *Tx) ReleaseBrake(ctx context.Context, id simwarden.AccountID) error {
	return tx.touchAccount(ctx, id, `braked_at = NULL, braked_because = '', brake_released_at = $2`)
}

// touchAccount runs one UPDATE; $1 is the id and $2 the instant in set. set is constant text.
func (tx *Tx) touchAccount(ctx context.Context, id simwarden.AccountID, set string, args ...any) error {
	tag, err := tx.Exec(ctx, `UPDATE account SET updated_at = $2, `+set+` WHERE id = $1`, append([]any{id, tx.At}, args...)...)
	if err != nil {
		return fmt.Errorf("change account %d: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("account %d: %w", id, ErrNotFound)
	}
	return nil
}

// Accounts gives all accounts by name.
func (s *Store) Accounts(ctx context.Context) ([]Account, error) {
	return accounts(ctx, s.pool, `ORDER BY name`)
}

// Account gives one account by id.
func (s *Store) Account(ctx context.Context, id simwarden.AccountID) (Account, error) {
	a, err := scanAccount(s.pool.QueryRow(ctx, `SELECT `+accountColumns+` FROM account WHERE id = $1`, id))
	if err != nil {
		return a, fmt.Errorf("account %d: %w", id, err)
	}
	return a, nil
}

// AccountByName gives one account by its name.
func (s *Store) AccountByName(ctx context.Context, name string) (Account, error) {
	a, err := scanAccount(s.pool.QueryRow(ctx, `SELECT `+accountColumns+` FROM account WHERE name = $1`, name))
	if err != nil {
		return a, fmt.Errorf("account %q: %w", name, err)
	}
	return a, nil
}

// AccountsByID gives the accounts with the ids.
func (tx *Tx) AccountsByID(ctx context.Context, ids []simwarden.AccountID) (map[simwarden.AccountID]Account, error) {
	list, err := accounts(ctx, tx, `WHERE id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[simwarden.AccountID]Account, len(list))
	for _, a := range list {
		out[a.ID] = a
	}
	return out, nil
}

func accounts(ctx context.Context, db execer, where string, args ...any) ([]Account, error) {
	return scanAll("accounts", scanAccount)(db.Query(ctx, `SELECT `+accountColumns+` FROM account `+where, args...))
}

// LockAccount locks an account's row, so that its automatic suspends are counted one transaction
// after another (C10), and gives it. The count of active SIMs is made anew where it is older than
// countFor. It comes after the locks of SIMs.
func (tx *Tx) LockAccount(ctx context.Context, id simwarden.AccountID, countFor time.Duration) (a Account, activeSIMs int, err error) {
	var countedAt *time.Time
	err = one(tx.QueryRow(ctx, `SELECT active_sims, active_counted_at FROM account WHERE id = $1 FOR NO KEY UPDATE`, id), &activeSIMs, &countedAt)
	if err != nil {
		return Account{}, 0, fmt.Errorf("lock account %d: %w", id, err)
	}
	if countedAt == nil || tx.At.Sub(*countedAt) > countFor {
		err = tx.QueryRow(ctx, `
			UPDATE account SET active_counted_at = $2,
				active_sims = (SELECT count(*) FROM poll_state WHERE account_id = $1 AND state = 'active')
			WHERE id = $1 RETURNING active_sims`, id, tx.At).Scan(&activeSIMs)
		if err != nil {
			return Account{}, 0, fmt.Errorf("count active sims of account %d: %w", id, err)
		}
	}
	a, err = scanAccount(tx.QueryRow(ctx, `SELECT `+accountColumns+` FROM account WHERE id = $1`, id))
	if err != nil {
		return Account{}, 0, fmt.Errorf("account %d: %w", id, err)
	}
	return a, activeSIMs, nil
}

// HasCredentials says whether any account has a sealed credential.
func (s *Store) HasCredentials(ctx context.Context) (bool, error) {
	var yes bool
	if err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM account WHERE credential IS NOT NULL)`).Scan(&yes); err != nil {
		return false, fmt.Errorf("look for credentials: %w", err)
	}
	return yes, nil
}
