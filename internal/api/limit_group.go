package api

import (
	"context"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/store"
)

// LimitGroupChange is what to change in a limit group; what is nil or not named stays. A limit is
// taken away by nil, never by 0: who writes 0 may mean that nothing shall pass.
type LimitGroupChange struct {
	Mode *simwarden.GroupMode
	// PerSecond sets limits by operation; the operation "" stands for those without a limit of their
	// own.
	PerSecond map[simwarden.Operation]*int
	Windows   []WindowChange
	// MaxConcurrent points to a nil for any number.
	MaxConcurrent       **int
	CommandSharePercent *int
}

// WindowChange sets one of a group's limits of more than a second; nil Calls take it away.
type WindowChange struct {
	Operation simwarden.Operation // "": all together
	Seconds   int
	Calls     *int
}

// noZero is said of every limit of 0.
const noZero = "a limit of 0 would let nothing pass; to hold an account's commands back set it to observe, to have no limit give %s"

// check says what is wrong with a change.
func (c LimitGroupChange) check() error {
	if c.Mode != nil && !isOneOf(*c.Mode, groupModes) {
		return notOneOf("mode", *c.Mode, groupModes)
	}
	for op, n := range c.PerSecond {
		switch {
		case op != "" && !isOneOf(op, simwarden.Operations()):
			return notOneOf("operation", op, simwarden.Operations())
		case n != nil && *n == 0:
			return badInput(noZero, "null, at the terminal none")
		case n != nil && (*n < 0 || *n > store.MaxPerSecond):
			return badInput("a limit of %d a second: give 1 to %d", *n, store.MaxPerSecond)
		}
	}
	for _, w := range c.Windows {
		calls := 1
		if w.Calls != nil {
			calls = *w.Calls
		}
		switch {
		case w.Operation != "" && !isOneOf(w.Operation, simwarden.Operations()):
			return notOneOf("operation", w.Operation, simwarden.Operations())
		case calls == 0:
			return badInput(noZero, "null, at the terminal none")
		case w.Seconds == 1:
			return badInput("a window of one second: that is the limit per_second, at the terminal group rate")
		}
		if err := (store.LimitWindow{Operation: w.Operation, Seconds: w.Seconds, Calls: calls}).Check(); err != nil {
			return badInput("%v", err)
		}
	}
	if c.MaxConcurrent != nil && *c.MaxConcurrent != nil {
		switch n := **c.MaxConcurrent; {
		case n == 0:
			return badInput(noZero, "-1, at the terminal none")
		case n < 0 || n > store.MaxGroupConcurrent:
			return badInput("%d calls at a time: give 1 to %d", n, store.MaxGroupConcurrent)
		}
	}
	if n := c.CommandSharePercent; n != nil && (*n < 0 || *n > store.MaxCommandSharePercent) {
		return badInput("a share of %d %% for commands: give 0 to %d", *n, store.MaxCommandSharePercent)
	}
	return nil
}

// LimitGroups lists the limit groups by name.
func (s *Service) LimitGroups(ctx context.Context) ([]store.LimitGroup, error) {
	return s.Store.LimitGroups(ctx)
}

// LimitGroup gives one limit group by name.
func (s *Service) LimitGroup(ctx context.Context, name string) (store.LimitGroup, error) {
	return s.Store.LimitGroupByName(ctx, name)
}

// AddLimitGroup makes a group without limits, in monitor, for accounts to be moved to.
func (s *Service) AddLimitGroup(ctx context.Context, name, actor string) (store.LimitGroup, error) {
	if !nameShape.MatchString(name) {
		return store.LimitGroup{}, badInput("a limit group is named with up to 64 letters, digits, dots, hyphens and underscores, the first a letter or digit")
	}
	err := s.Store.InTx(ctx, func(tx *store.Tx) error {
		if _, err := tx.AddLimitGroup(ctx, name); err != nil {
			return err
		}
		return tx.Audit(ctx, actor, "limit_group_add", 0, 0, map[string]any{"limit_group": name})
	})
	if err != nil {
		return store.LimitGroup{}, err
	}
	return s.Store.LimitGroupByName(ctx, name)
}

// ChangeLimitGroup changes a limit group and gives it as it is then. Every node's gateway takes it up
// by itself, within 2 s.
func (s *Service) ChangeLimitGroup(ctx context.Context, name string, c LimitGroupChange, actor string) (store.LimitGroup, error) {
	if err := c.check(); err != nil {
		return store.LimitGroup{}, err
	}
	g, err := s.Store.LimitGroupByName(ctx, name)
	if err != nil || c.Mode == nil && len(c.PerSecond) == 0 && len(c.Windows) == 0 && c.MaxConcurrent == nil && c.CommandSharePercent == nil {
		return g, err
	}
	err = s.Store.InTx(ctx, func(tx *store.Tx) error {
		changed, err := c.write(ctx, tx, g.ID)
		if err != nil {
			return err
		}
		changed["limit_group"] = g.Name
		return tx.Audit(ctx, actor, "limit_group_change", 0, 0, changed)
	})
	if err != nil {
		return g, err
	}
	return s.Store.LimitGroupByName(ctx, name)
}

// write writes what is to change and tells what did.
func (c LimitGroupChange) write(ctx context.Context, tx *store.Tx, id simwarden.LimitGroupID) (map[string]any, error) {
	changed := map[string]any{}
	if c.Mode != nil {
		changed["mode"] = *c.Mode
		if err := tx.SetGroupMode(ctx, id, *c.Mode); err != nil {
			return nil, err
		}
	}
	for op, n := range c.PerSecond {
		if err := tx.SetLimitRate(ctx, id, op, valueOr(n, 0)); err != nil {
			return nil, err
		}
	}
	if len(c.PerSecond) > 0 {
		changed["per_second"] = c.PerSecond
	}
	for _, w := range c.Windows {
		var err error
		if w.Calls == nil {
			_, err = tx.DropLimitWindow(ctx, id, w.Operation, time.Duration(w.Seconds)*time.Second)
		} else {
			err = tx.SetLimitWindow(ctx, id, store.LimitWindow{Operation: w.Operation, Seconds: w.Seconds, Calls: *w.Calls})
		}
		if err != nil {
			return nil, err
		}
	}
	if len(c.Windows) > 0 {
		changed["windows"] = viewWindowChanges(c.Windows)
	}
	if c.MaxConcurrent != nil {
		changed["max_concurrent"] = *c.MaxConcurrent
		if err := tx.SetGroupConcurrent(ctx, id, valueOr(*c.MaxConcurrent, 0)); err != nil {
			return nil, err
		}
	}
	if c.CommandSharePercent != nil {
		changed["command_share_percent"] = *c.CommandSharePercent
		if err := tx.SetCommandShare(ctx, id, *c.CommandSharePercent); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// groupID finds a limit group by name; the empty name is 0.
func (s *Service) groupID(ctx context.Context, name string) (simwarden.LimitGroupID, error) {
	if name == "" {
		return 0, nil
	}
	g, err := s.Store.LimitGroupByName(ctx, name)
	return g.ID, err
}
