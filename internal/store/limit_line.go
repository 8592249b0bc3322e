package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Change is a change of a SIM that the carrier has shown.
type Change struct {
	At        time.Time
	Direction simwarden.Direction
	Scene     simwarden.Scene
}

// ChangesOf gives the changes of a SIM since an instant that we asked for and the carrier has shown, oldest first (F30).
func (tx *Tx) ChangesOf(ctx context.Context, sim simwarden.SIMID, since time.Time) ([]Change, error) {
	return scanAll("changes of a sim", func(row pgx.Row) (Change, error) {
		var c Change
		err := one(row, &c.At, &c.Direction, &c.Scene)
		c.At = c.At.UTC()
		return c, err
	})(tx.Query(ctx, `
		SELECT ended_at, direction, scene FROM command
		WHERE sim_id = $1 AND state = 'done' AND attempt > 0 AND ended_at > $2 ORDER BY ended_at, id`, sim, since))
}

// LastSuspendAt is the latest instant at which the carrier may have carried out a suspend of the SIM
// by us; zero where it never has (C11).
func (tx *Tx) LastSuspendAt(ctx context.Context, sim simwarden.SIMID) (time.Time, error) {
	var at *time.Time
	err := tx.QueryRow(ctx, `
		SELECT max(coalesce(t.ended_at, t.deadline_at)) FROM attempt t JOIN command c ON c.id = t.command_id
		WHERE c.sim_id = $1 AND c.direction = 'suspend' AND t.outcome <> 'not_sent' AND c.state IN ('sending', 'verifying', 'confirming', 'done')`,
		sim).Scan(&at)
	if err != nil {
		return time.Time{}, fmt.Errorf("last suspend of sim %d: %w", sim, err)
	}
	return utc(at), nil
}
