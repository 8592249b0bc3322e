package api

import (
	"context"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// LimitGroupChange is what to change in a limit group; what is nil stays.
type LimitGroupChange struct {
	Mode *simwarden.GroupMode
	// PerSecond sets limits by operation, 0 takes one away; the operation "" stands for those
	// without a limit of their own.
	PerSecond map[simwarden.Operation]int
}

// LimitGroups lists the limit groups by name.
func (s *Service) LimitGroups(ctx context.Context) ([]store.LimitGroup, error) {
	return s.Store.LimitGroups(ctx)
}

// ChangeLimitGroup changes a limit group and gives it as it is then. The gateway takes it up by
// itself.
func (s *Service) ChangeLimitGroup(ctx context.Context, name string, c LimitGroupChange, actor string) (store.LimitGroup, error) {
	if c.Mode != nil && !isOneOf(*c.Mode, groupModes) {
		return store.LimitGroup{}, notOneOf("mode", *c.Mode, groupModes)
	}
	for op, n := range c.PerSecond {
		if op != "" && !isOneOf(op, simwarden.Operations()) {
			return store.LimitGroup{}, notOneOf("operation", op, simwarden.Operations())
		}
		if n < 0 || n > store.MaxPerSecond {
			return store.LimitGroup{}, badInput("a limit of %d a second: give 1 to %d, or 0 to take it away", n, store.MaxPerSecond)
		}
	}
	g, err := s.Store.LimitGroupByName(ctx, name)
	if err != nil || c.Mode == nil && len(c.PerSecond) == 0 {
		return g, err
	}
	changed := map[string]any{"limit_group": g.Name}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		if c.Mode != nil {
			changed["mode"] = *c.Mode
			if err := tx.SetGroupMode(ctx, g.ID, *c.Mode); err != nil {
				return err
			}
		}
		for op, n := range c.PerSecond {
			if err := tx.SetLimitRate(ctx, g.ID, op, n); err != nil {
				return err
			}
		}
		if len(c.PerSecond) > 0 {
			changed["per_second"] = c.PerSecond
		}
		return tx.Audit(ctx, actor, "limit_group_change", 0, 0, changed)
	})
	if err != nil {
		return g, err
	}
	return s.Store.LimitGroupByName(ctx, name)
}

// groupID finds a limit group by name; the empty name is 0.
func (s *Service) groupID(ctx context.Context, name string) (simwarden.LimitGroupID, error) {
	if name == "" {
		return 0, nil
	}
	g, err := s.Store.LimitGroupByName(ctx, name)
	return g.ID, err
}
