package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// ErrPlanExists says that a plan with that code is there already.
var ErrPlanExists = errors.New("a plan with this code exists already")

const planColumns = `p.id, p.code, p.name, p.kind, p.allowance_bytes, p.validity_unit, p.validity_count, p.reset, p.reset_days, p.zone,
	coalesce(p.price_minor, 0), coalesce(p.currency, ''), p.anchor_day, p.activation, p.activate_by_days,
	p.guard_band_bytes, CASE WHEN p.guard_band_bytes IS NULL THEN 0 ELSE p.guard_band_probability END, p.withdrawn_at`

func scanPlan(row pgx.Row) (simwarden.Plan, error) {
	var p simwarden.Plan
	var withdrawn *time.Time
	err := one(row, &p.ID, &p.Code, &p.Name, &p.Kind, &p.AllowanceBytes, &p.ValidityUnit, &p.ValidityCount, &p.Reset, &p.ResetDays, &p.Zone,
		&p.PriceMinor, &p.Currency, &p.AnchorDay, &p.Activation, &p.ActivateByDays, &p.GuardBandBytes, &p.GuardBandProbability, &withdrawn)
	p.WithdrawnAt = timeOf(withdrawn)
	return p, err
}

// AddPlan adds a plan; the caller has checked its fields. ErrPlanExists where the code is taken.
func (tx *Tx) AddPlan(ctx context.Context, p simwarden.Plan) (simwarden.Plan, error) {
	if p.Activation == "" {
		p.Activation = simwarden.ActivateAfterCurrent
		if p.Kind == simwarden.PlanAddon {
			p.Activation = simwarden.ActivateNow
		}
	}
	if p.GuardBandBytes != nil && p.GuardBandProbability == 0 {
		p.GuardBandProbability = simwarden.DefaultGuardBandProbability
	}
	err := tx.QueryRow(ctx, `
		INSERT INTO plan (code, name, kind, allowance_bytes, validity_unit, validity_count, reset, reset_days, zone, created_at, price_minor, currency, anchor_day, activation, activate_by_days,
			guard_band_bytes, guard_band_probability)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, CASE WHEN $12 <> '' THEN $11::bigint END, nullif($12, ''), $13, $14, $15, $16, coalesce(nullif($17::float8, 0), 0.95)) RETURNING id`,
		p.Code, p.Name, string(p.Kind), p.AllowanceBytes, string(p.ValidityUnit), p.ValidityCount, string(p.Reset), p.ResetDays, p.Zone, tx.At,
		p.PriceMinor, p.Currency, p.AnchorDay, string(p.Activation), p.ActivateByDays,
		p.GuardBandBytes, p.GuardBandProbability).Scan(&p.ID)
	if IsUnique(err, "plan_code_key") {
		return p, fmt.Errorf("%w: %q", ErrPlanExists, p.Code)
	}
	if err != nil {
		return p, fmt.Errorf("add plan %q: %w", p.Code, err)
	}
	return p, nil
}

// SetPlanSale sets how a plan is called, what it costs from now on, and since when it is sold no more
// (zero: it is sold).
func (tx *Tx) SetPlanSale(ctx context.Context, p simwarden.Plan) error {
	_, err := tx.Exec(ctx, `UPDATE plan SET name = $2, price_minor = CASE WHEN $4 <> '' THEN $3::bigint END, currency = nullif($4, ''), withdrawn_at = $5 WHERE id = $1`,
		p.ID, p.Name, p.PriceMinor, p.Currency, nullTime(p.WithdrawnAt))
	if err != nil {
		return fmt.Errorf("change plan %q: %w", p.Code, err)
	}
	return nil
}

// PlanByCode finds a plan as people name it.
func (tx *Tx) PlanByCode(ctx context.Context, code string) (simwarden.Plan, error) {
	p, err := scanPlan(tx.QueryRow(ctx, `SELECT `+planColumns+` FROM plan p WHERE p.code = $1`, code))
	if err != nil {
		return p, fmt.Errorf("plan %q: %w", code, err)
	}
	return p, nil
}

// Plans gives all plans by code.
func (s *Store) Plans(ctx context.Context) ([]simwarden.Plan, error) {
	return plans(ctx, s.pool, `ORDER BY p.code`)
}

// PlansByID gives the plans with the ids.
func (tx *Tx) PlansByID(ctx context.Context, ids []simwarden.PlanID) (map[simwarden.PlanID]simwarden.Plan, error) {
	list, err := plans(ctx, tx, `WHERE p.id = ANY($1)`, ids)
	if err != nil {
		return nil, err
	}
	out := make(map[simwarden.PlanID]simwarden.Plan, len(list))
	for _, p := range list {
		out[p.ID] = p
	}
	return out, nil
}

func plans(ctx context.Context, db execer, where string, args ...any) ([]simwarden.Plan, error) {
	rows, err := db.Query(ctx, `SELECT `+planColumns+` FROM plan p `+where, args...)
	if err != nil {
		return nil, fmt.Errorf("plans: %w", err)
	}
	defer rows.Close()
	out := []simwarden.Plan{}
	for rows.Next() {
		p, err := scanPlan(rows)
		if err != nil {
			return nil, fmt.Errorf("plans: %w", err)
		}
		out = append(out, p)
	}
	return out, rows.Err()
}
