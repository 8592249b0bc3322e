package api

import (
	"context"
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
