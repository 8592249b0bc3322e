package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

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
