package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/rules"
)

// ErrRuleExists says that the driver has an error rule of that name already.
var ErrRuleExists = errors.New("an error rule of this name exists already")

// RuleOrigin says who made an error rule.
type RuleOrigin string

// The origins. A driver's rule that an operator changes becomes the operator's, so that a newer
// driver does not undo the change.
const (
	RuleFromDriver   RuleOrigin = "driver"
	RuleFromOperator RuleOrigin = "operator"
)

// ErrorRule is one row of the error-rule table (G6): of the rules of a driver, the first match in
// the order of Position counts.
type ErrorRule struct {
	ID       int64        `json:"id"`
	Driver   string       `json:"driver"`
	Position int          `json:"position"`
	Origin   RuleOrigin   `json:"origin"`
	Rule     carrier.Rule `json:"rule"`
}

// firstDriverPosition leaves room before a driver's rules for the operator's.
const (
	firstDriverPosition = 1000
	driverPositionStep  = 10
)

const ruleColumns = `id, driver, position, origin, name, operation, applies_to, http_status, code, contains, pattern,
	class, extended, close_polling, not_executed, retry_after_seconds`

func scanRule(row pgx.Row) (ErrorRule, error) {
	var r ErrorRule
	var applies string
	var retry int64
	err := one(row, &r.ID, &r.Driver, &r.Position, &r.Origin, &r.Rule.Name, &r.Rule.Operation, &applies, &r.Rule.HTTPStatus,
		&r.Rule.Code, &r.Rule.Contains, &r.Rule.Pattern, &r.Rule.Class, &r.Rule.Extended, &r.Rule.ClosePolling, &r.Rule.NotExecuted, &retry)
	r.Rule.ChangesOnly, r.Rule.ReadsOnly = applies == "changes", applies == "reads"
	r.Rule.RetryAfterMin = time.Duration(retry) * time.Second
	return r, err
}

func appliesTo(r carrier.Rule) string {
	switch {
	case r.ChangesOnly:
		return "changes"
	case r.ReadsOnly:
		return "reads"
	}
	return "all"
}

// ruleSeconds rounds a wait up: a rule never waits less than it says.
func ruleSeconds(d time.Duration) int64 { return int64((d + time.Second - 1) / time.Second) }

// ErrorRules gives the rules of one driver, or of all where driver is empty, in their order.
func (s *Store) ErrorRules(ctx context.Context, driver string) ([]ErrorRule, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+ruleColumns+` FROM error_rule WHERE $1 = '' OR driver = $1 ORDER BY driver, position, id`, driver)
	if err != nil {
		return nil, fmt.Errorf("error rules: %w", err)
	}
	defer rows.Close()
	out := []ErrorRule{}
	for rows.Next() {
		r, err := scanRule(rows)
		if err != nil {
			return nil, fmt.Errorf("error rules: %w", err)
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// SyncRules is SyncDriverRules for every driver that is built in.
func (s *Store) SyncRules(ctx context.Context) error {
	return s.syncRules(ctx, carrier.Names())
}

// EnsureRules is SyncRules for the drivers of which the table has no rule of theirs yet: before a node
// ran for the first time.
func (s *Store) EnsureRules(ctx context.Context) error {
	rows, err := s.pool.Query(ctx, `SELECT v.name FROM unnest($1::text[]) AS v (name)
		WHERE NOT EXISTS (SELECT FROM error_rule e WHERE e.driver = v.name AND e.origin = 'driver')`, carrier.Names())
	if err != nil {
		return fmt.Errorf("error rules: %w", err)
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("error rules: %w", err)
	}
	return s.syncRules(ctx, names)
}

func (s *Store) syncRules(ctx context.Context, drivers []string) error {
	for _, name := range drivers {
		driver, err := carrier.Lookup(name)
		if err != nil {
			return err
		}
		if err := s.InTx(ctx, func(tx *Tx) error {
			_, err := tx.SyncDriverRules(ctx, name, driver.Info().Rules)
			return err
		}); err != nil {
			return fmt.Errorf("write the error rules of driver %s: %w", name, err)
		}
	}
	return nil
}

// SyncDriverRules makes the driver's own rules what this program ships: new ones are added behind
// the others in their order, changed ones changed in place, and those that no longer ship removed.
// The operator's rules, and every position, stay. It says whether anything changed.
func (tx *Tx) SyncDriverRules(ctx context.Context, driver string, shipped []carrier.Rule) (bool, error) {
	if _, err := rules.NewRuleSet(shipped); err != nil {
		return false, fmt.Errorf("rules of driver %s: %w", driver, err)
	}
	// Two nodes may start together.
	if _, err := tx.Exec(ctx, `SELECT pg_advisory_xact_lock(hashtext('simwarden.rules'))`); err != nil {
		return false, fmt.Errorf("rules of driver %s: %w", driver, err)
	}
	if there, err := tx.hasDriverRules(ctx, driver, shipped); err != nil || there {
		return false, err
	}
	changed := false
	names := make([]string, 0, len(shipped))
	for i, r := range shipped {
		if r.Name == "" || slices.Contains(names, r.Name) {
			return false, fmt.Errorf("rules of driver %s: number %d has no name, or one that another has", driver, i+1)
		}
		names = append(names, r.Name)
		tag, err := tx.Exec(ctx, `
			INSERT INTO error_rule AS e (driver, position, origin, name, operation, applies_to, http_status, code, contains, pattern,
				class, extended, close_polling, not_executed, retry_after_seconds)
			VALUES ($1, $2, 'driver', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
			ON CONFLICT (driver, name) DO UPDATE SET operation = excluded.operation, applies_to = excluded.applies_to,
				http_status = excluded.http_status, code = excluded.code, contains = excluded.contains, pattern = excluded.pattern,
				class = excluded.class, extended = excluded.extended, close_polling = excluded.close_polling,
				not_executed = excluded.not_executed, retry_after_seconds = excluded.retry_after_seconds
			WHERE e.origin = 'driver' AND (e.operation, e.applies_to, e.http_status, e.code, e.contains, e.pattern, e.class, e.extended,
				e.close_polling, e.not_executed, e.retry_after_seconds) IS DISTINCT FROM (excluded.operation, excluded.applies_to,
				excluded.http_status, excluded.code, excluded.contains, excluded.pattern, excluded.class, excluded.extended,
				excluded.close_polling, excluded.not_executed, excluded.retry_after_seconds)`,
			driver, firstDriverPosition+driverPositionStep*i, r.Name, string(r.Operation), appliesTo(r), r.HTTPStatus, r.Code, r.Contains,
			r.Pattern, string(r.Class), string(r.Extended), r.ClosePolling, r.NotExecuted, ruleSeconds(r.RetryAfterMin))
		if err != nil {
			return false, fmt.Errorf("rule %q of driver %s: %w", r.Name, driver, err)
		}
		changed = changed || tag.RowsAffected() > 0
	}
	tag, err := tx.Exec(ctx, `DELETE FROM error_rule WHERE driver = $1 AND origin = 'driver' AND name <> ALL($2)`, driver, names)
	if err != nil {
		return false, fmt.Errorf("rules of driver %s: %w", driver, err)
	}
	return changed || tag.RowsAffected() > 0, nil
}

// hasDriverRules says that the driver's own rules are these, as they are at all starts but the first
// with a new program.
func (tx *Tx) hasDriverRules(ctx context.Context, driver string, shipped []carrier.Rule) (bool, error) {
	rows, err := tx.Query(ctx, `SELECT `+ruleColumns+` FROM error_rule WHERE driver = $1 AND origin = 'driver'`, driver)
	if err != nil {
		return false, fmt.Errorf("rules of driver %s: %w", driver, err)
	}
	defer rows.Close()
	known := map[string]carrier.Rule{}
	for rows.Next() {
		r, err := scanRule(rows)
		if err != nil {
			return false, fmt.Errorf("rules of driver %s: %w", driver, err)
		}
		known[r.Rule.Name] = r.Rule
	}
	same := func(r carrier.Rule) bool {
		r.RetryAfterMin = time.Duration(ruleSeconds(r.RetryAfterMin)) * time.Second
		stored, ok := known[r.Name]
		delete(known, r.Name) // a name that comes twice is one too many
		return ok && stored == r
	}
	for _, r := range shipped {
		if !same(r) {
			return false, rows.Err()
		}
	}
	return len(known) == 0, rows.Err()
}

// PutErrorRule adds an operator's rule (ID 0) or replaces the one with the ID, which is the
// operator's from then on. The error says what is wrong with the rule (F47), or is ErrRuleExists
// or ErrNotFound.
func (tx *Tx) PutErrorRule(ctx context.Context, r ErrorRule) (ErrorRule, error) {
	if r.Rule.Name == "" {
		return ErrorRule{}, errors.New("error rule: a name is missing")
	}
	if _, err := rules.NewRuleSet([]carrier.Rule{r.Rule}); err != nil {
		return ErrorRule{}, err
	}
	args := []any{r.Driver, r.Position, r.Rule.Name, string(r.Rule.Operation), appliesTo(r.Rule), r.Rule.HTTPStatus, r.Rule.Code,
		r.Rule.Contains, r.Rule.Pattern, string(r.Rule.Class), string(r.Rule.Extended), r.Rule.ClosePolling, r.Rule.NotExecuted,
		ruleSeconds(r.Rule.RetryAfterMin)}
	var row pgx.Row
	if r.ID == 0 {
		row = tx.QueryRow(ctx, `
			INSERT INTO error_rule (driver, position, origin, name, operation, applies_to, http_status, code, contains, pattern,
				class, extended, close_polling, not_executed, retry_after_seconds)
			VALUES ($1, $2, 'operator', $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) RETURNING `+ruleColumns, args...)
	} else {
		row = tx.QueryRow(ctx, `
			UPDATE error_rule SET driver = $1, position = $2, origin = 'operator', name = $3, operation = $4, applies_to = $5,
				http_status = $6, code = $7, contains = $8, pattern = $9, class = $10, extended = $11, close_polling = $12,
				not_executed = $13, retry_after_seconds = $14
			WHERE id = $15 RETURNING `+ruleColumns, append(args, r.ID)...)
	}
	out, err := scanRule(row)
	if IsUnique(err, "error_rule_driver_name_key") {
		return ErrorRule{}, fmt.Errorf("%w: %q of driver %s", ErrRuleExists, r.Rule.Name, r.Driver)
	}
	if err != nil {
		return ErrorRule{}, fmt.Errorf("error rule %q of driver %s: %w", r.Rule.Name, r.Driver, err)
	}
	return out, nil
}

// MoveErrorRule gives a rule another position; whose it is stays.
func (tx *Tx) MoveErrorRule(ctx context.Context, id int64, position int) error {
	tag, err := tx.Exec(ctx, `UPDATE error_rule SET position = $2 WHERE id = $1`, id, position)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("move error rule %d: %w", id, err)
	}
	return nil
}

// DeleteErrorRule removes a rule. A driver's own comes back at the next start.
func (tx *Tx) DeleteErrorRule(ctx context.Context, id int64) error {
	tag, err := tx.Exec(ctx, `DELETE FROM error_rule WHERE id = $1`, id)
	if err == nil && tag.RowsAffected() == 0 {
		err = ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("delete error rule %d: %w", id, err)
	}
	return nil
}
