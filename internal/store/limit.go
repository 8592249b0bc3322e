package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// LimitGroup is the carrier accounts that share one upstream quota (G2). PerSecond holds the
// limit of each operation; the operation "" is any without a row of its own, and one that has
// neither is not limited.
type LimitGroup struct {
	ID        simwarden.LimitGroupID      `json:"id"`
	Name      string                      `json:"name"`
	Mode      simwarden.GroupMode         `json:"mode"`
	PerSecond map[simwarden.Operation]int `json:"per_second"`
	CreatedAt time.Time                   `json:"created_at"`
}

// MaxPerSecond is the largest limit that a group can have for one operation.
const MaxPerSecond = 100_000

// LimitGroups gives all groups with their limits, by name.
func (s *Store) LimitGroups(ctx context.Context) ([]LimitGroup, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT g.id, g.name, g.mode, g.created_at, r.operation, r.per_second
		FROM limit_group g LEFT JOIN limit_rate r ON r.limit_group_id = g.id
		ORDER BY g.name, r.operation`)
	if err != nil {
		return nil, fmt.Errorf("limit groups: %w", err)
	}
	defer rows.Close()
	out := []LimitGroup{}
	for rows.Next() {
		var g LimitGroup
		var op *string
		var perSecond *int
		if err := rows.Scan(&g.ID, &g.Name, &g.Mode, &g.CreatedAt, &op, &perSecond); err != nil {
			return nil, fmt.Errorf("limit groups: %w", err)
		}
		if len(out) == 0 || out[len(out)-1].ID != g.ID {
			g.CreatedAt, g.PerSecond = g.CreatedAt.UTC(), map[simwarden.Operation]int{}
			out = append(out, g)
		}
		if op != nil && perSecond != nil {
			out[len(out)-1].PerSecond[simwarden.Operation(*op)] = *perSecond
		}
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

// SlotAsk asks for timed slots of one limit (G4).
type SlotAsk struct {
	Group     simwarden.LimitGroupID
	Operation simwarden.Operation // as in LimitGroup.PerSecond
	// Want is how many slots are asked for; no more are given than fall due in Span, but at
	// least one.
	Want int
	Span time.Duration
	// Within is how far ahead the first slot may lie: with a later one nothing is taken.
	Within time.Duration
	// Slack is δ: slots are (1 s + δ)/limit apart.
	Slack time.Duration
}

// MaxSlotWithin bounds SlotAsk.Within, so that a slot that is honestly taken never lies further
// ahead than slotHorizon.
const MaxSlotWithin = 15 * time.Second

// slotHorizon is how far ahead of the database's clock the next slot may honestly lie. One beyond
// it was written before that clock was set back (F17): it is brought back to the horizon, when all
// slots given out before have passed.
const slotHorizon = 20 * time.Second

// SlotLease is what became of a SlotAsk. Slot i is at FirstAt + i*Step, by the database's clock,
// which showed NowAt while the statement ran.
type SlotLease struct {
	FirstAt, NowAt time.Time
	Step           time.Duration
	Slots          int  // 0: the first lies beyond Within
	Limited        bool // false: there is no such limit (any more)
}

// TakeSlots leases slots. One statement reads the limit, moves the next free slot and gives both
// clocks, so that nodes that know of a changed limit at different times do not matter.
func (s *Store) TakeSlots(ctx context.Context, ask SlotAsk) (SlotLease, error) {
	for try := 0; ; try++ {
		l, err := s.takeSlots(ctx, ask)
		switch {
		case err == nil:
			return l, nil
		case !errors.Is(err, pgx.ErrNoRows):
			return SlotLease{}, fmt.Errorf("take slots of limit group %d: %w", ask.Group, err)
		case try == 1:
			return SlotLease{}, nil // no limit: the row could not be made
		}
		_, err = s.work.Exec(ctx, `
			INSERT INTO limit_slot (limit_group_id, operation, next_at)
			SELECT limit_group_id, operation, app_now() FROM limit_rate WHERE limit_group_id = $1 AND operation = $2
			ON CONFLICT DO NOTHING`, ask.Group, string(ask.Operation))
		if err != nil {
			return SlotLease{}, fmt.Errorf("take slots of limit group %d: %w", ask.Group, err)
		}
	}
}

func (s *Store) takeSlots(ctx context.Context, ask SlotAsk) (SlotLease, error) {
	var l SlotLease
	var step float64
	err := s.work.QueryRow(ctx, `
		WITH cur AS MATERIALIZED (
			SELECT next_at FROM limit_slot WHERE limit_group_id = $1 AND operation = $2 FOR UPDATE
		), ask AS MATERIALIZED (
			SELECT next_at, per_second, app_now() AS now, (1 + $6::float8) / per_second AS step
			FROM cur, limit_rate WHERE limit_group_id = $1 AND operation = $2
		), base AS MATERIALIZED (
			SELECT greatest(least(next_at, now + make_interval(secs => $7)), now) AS at, now, step, per_second FROM ask
		), plan AS MATERIALIZED (
			SELECT at, now, step,
				CASE WHEN at <= now + make_interval(secs => $5) THEN greatest(1, least($3::int, floor($4::float8 * per_second)))::int ELSE 0 END AS n
			FROM base
		)
		UPDATE limit_slot s SET next_at = plan.at + make_interval(secs => plan.n * plan.step)
		FROM plan WHERE s.limit_group_id = $1 AND s.operation = $2
		RETURNING plan.at, plan.now, plan.step, plan.n`,
		ask.Group, string(ask.Operation), max(ask.Want, 1), ask.Span.Seconds(), min(ask.Within, MaxSlotWithin).Seconds(),
		ask.Slack.Seconds(), slotHorizon.Seconds()).Scan(&l.FirstAt, &l.NowAt, &step, &l.Slots)
	if err != nil {
		return SlotLease{}, err
	}
	l.FirstAt, l.NowAt = l.FirstAt.UTC(), l.NowAt.UTC()
	l.Step = time.Duration(step * float64(time.Second))
	l.Limited = true
	return l, nil
}
