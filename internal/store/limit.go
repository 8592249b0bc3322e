package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// LimitGroup is the carrier accounts that share one upstream quota (G2). PerSecond holds the
// limit of each operation; the operation "" is any without a row of its own, and one that has
// neither is not limited. Windows hold besides, all together.
type LimitGroup struct {
	ID        simwarden.LimitGroupID      `json:"id"`
	Name      string                      `json:"name"`
	Mode      simwarden.GroupMode         `json:"mode"`
	PerSecond map[simwarden.Operation]int `json:"per_second"`
	Windows   []LimitWindow               `json:"windows"`
	// MaxConcurrent is how many calls all nodes together may have under way; 0: any number.
	MaxConcurrent int `json:"max_concurrent"`
	// CommandSharePercent of each of Windows is left to commands by polls. In a second, commands
	// simply go first.
	CommandSharePercent int       `json:"command_share_percent"`
	CreatedAt           time.Time `json:"created_at"`
}

// MaxPerSecond is the largest limit that a group can have for one operation.
const MaxPerSecond = 100_000

// LimitGroups gives all groups with their limits, by name.
func (s *Store) LimitGroups(ctx context.Context) ([]LimitGroup, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT g.id, g.name, g.mode, g.max_concurrent, g.command_share_percent, g.created_at,
			coalesce((SELECT jsonb_object_agg(r.operation, r.per_second) FROM limit_rate r WHERE r.limit_group_id = g.id), '{}'),
			coalesce((SELECT jsonb_agg(jsonb_build_object('operation', w.operation, 'seconds', w.window_seconds, 'calls', w.calls)
				ORDER BY w.operation, w.window_seconds) FROM limit_window w WHERE w.limit_group_id = g.id), '[]')
		FROM limit_group g ORDER BY g.name`)
	if err != nil {
		return nil, fmt.Errorf("limit groups: %w", err)
	}
	defer rows.Close()
	out := []LimitGroup{}
	for rows.Next() {
		var g LimitGroup
		err := rows.Scan(&g.ID, &g.Name, &g.Mode, &g.MaxConcurrent, &g.CommandSharePercent, &g.CreatedAt, &g.PerSecond, &g.Windows)
		if err != nil {
			return nil, fmt.Errorf("limit groups: %w", err)
		}
		g.CreatedAt = g.CreatedAt.UTC()
		out = append(out, g)
	}
	return out, rows.Err()
}

// LimitGroupByName gives one group.
func (s *Store) LimitGroupByName(ctx context.Context, name string) (LimitGroup, error) {
	groups, err := s.LimitGroups(ctx)
	if err != nil {
		return LimitGroup{}, err
	}
	for _, g := range groups {
		if g.Name == name {
			return g, nil
		}
	}
	return LimitGroup{}, fmt.Errorf("limit group %q: %w", name, ErrNotFound)
}

// SetGroupMode switches a group between monitor and enforce (G3).
func (tx *Tx) SetGroupMode(ctx context.Context, id simwarden.LimitGroupID, mode simwarden.GroupMode) error {
	tag, err := tx.Exec(ctx, `UPDATE limit_group SET mode = $2 WHERE id = $1`, id, string(mode))
	if err != nil {
		return fmt.Errorf("set mode of limit group %d: %w", id, err)
	}
	if tag.RowsAffected() == 0 {
		return fmt.Errorf("limit group %d: %w", id, ErrNotFound)
	}
	return nil
}

// SetLimitRate sets how many calls of an operation a group may make a second, 1 to MaxPerSecond;
// 0 takes the limit away. The operation "" stands for those without a limit of their own.
func (tx *Tx) SetLimitRate(ctx context.Context, id simwarden.LimitGroupID, op simwarden.Operation, perSecond int) error {
	if perSecond < 0 || perSecond > MaxPerSecond {
		return fmt.Errorf("limit of group %d: %d a second is not within 0 and %d", id, perSecond, MaxPerSecond)
	}
	var err error
	if perSecond == 0 {
		_, err = tx.Exec(ctx, `DELETE FROM limit_rate WHERE limit_group_id = $1 AND operation = $2`, id, string(op))
	} else {
		_, err = tx.Exec(ctx, `
			INSERT INTO limit_rate (limit_group_id, operation, per_second) VALUES ($1, $2, $3)
			ON CONFLICT (limit_group_id, operation) DO UPDATE SET per_second = excluded.per_second`, id, string(op), perSecond)
	}
	if err != nil {
		return fmt.Errorf("limit of group %d: %w", id, err)
	}
	return nil
}
