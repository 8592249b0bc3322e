package api

import (
	"context"
	"time"
	"unicode/utf8"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/plans"
	"github.com/simwarden/simwarden/internal/store"
)

// Plans lists the plans by code.
func (s *Service) Plans(ctx context.Context) ([]simwarden.Plan, error) { return s.Store.Plans(ctx) }

// AddPlan adds a plan; plans.ErrPlanInvalid says what to change in it, store.ErrPlanExists that its
// code is taken.
func (s *Service) AddPlan(ctx context.Context, p simwarden.Plan, actor string) (simwarden.Plan, error) {
	p.ID = 0
	if p.Name == "" {
		p.Name = p.Code
	}
	if !nameShape.MatchString(p.Code) {
		return p, badInput("a plan's code has 1 to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit")
	}
	if utf8.RuneCountInString(p.Name) > 200 || !cleanText(p.Name) {
		return p, badInput("a plan's name has at most 200 characters, none of them a control character")
	}
	if err := plans.Check(p); err != nil {
		return p, err
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) (err error) {
		if p, err = tx.AddPlan(ctx, p); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "plan_add", 0, 0, p)
	})
	return p, err
}

// PlanChange is what to change in a plan; nil fields stay. What it gives stays as it was sold: another
// allowance or validity is another plan.
type PlanChange struct {
	Name      *string
	Price     *simwarden.Money // for purchases and renewals from now on
	Withdrawn *bool            // it is sold no more; what was bought runs on and is renewed
}

// Plan gives one plan by its code.
func (s *Service) Plan(ctx context.Context, code string) (p simwarden.Plan, err error) {
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		p, err = tx.PlanByCode(ctx, code)
		return err
	})
	return p, err
}

// ChangePlan changes how a plan is sold, and gives it as it is then.
func (s *Service) ChangePlan(ctx context.Context, code string, c PlanChange, actor string) (p simwarden.Plan, err error) {
	if c.Name != nil && (*c.Name == "" || utf8.RuneCountInString(*c.Name) > 200 || !cleanText(*c.Name)) {
		return p, badInput("a plan's name has 1 to 200 characters, none of them a control character")
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if p, err = tx.PlanByCode(ctx, code); err != nil {
			return err
		}
		before := p
		if c.Name != nil {
			p.Name = *c.Name
		}
		if c.Price != nil {
			p.PriceMinor, p.Currency = c.Price.AmountMinor, c.Price.Currency
		}
		switch {
		case c.Withdrawn == nil:
		case !*c.Withdrawn:
			p.WithdrawnAt = time.Time{}
		case p.WithdrawnAt.IsZero():
			p.WithdrawnAt = tx.At
		}
		if err := plans.Check(p); err != nil {
			return err
		}
		if err := tx.SetPlanSale(ctx, p); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "plan_change", 0, 0, map[string]any{"before": before, "after": p})
	})
	return p, err
}
