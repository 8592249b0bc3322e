package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// Observed is a reading matched to the SIM it speaks of.
type Observed struct {
	SIMID   simwarden.SIMID
	Reading simwarden.Reading
	// Odd says that its counter cannot be believed, and could until now (F29): usage.Book says so.
	Odd bool
}

// StateRow is a SIM's state, and where known its real-name status, to keep.
type StateRow struct {
	SIMID    simwarden.SIMID
	State    *simwarden.StateReading
	RealName *simwarden.RealNameReading
	ReadAt   time.Time
	Changed  bool // the state is another than before
}

// OddRealName is what a carrier said of a real name where that is not understood; empty where it is.
func OddRealName(r simwarden.RealNameReading) string {
	if r.Status != simwarden.RealNameUnknown {
		return ""
	}
	return cmp.Or(r.Raw, "?")
}

// WriteStates keeps what carriers said of SIMs' states and real names. A row older than what is
// kept changes nothing (F31), nor does an answer about a real name that is not understood change the
// status: it is kept beside it (E11).
func (tx *Tx) WriteStates(ctx context.Context, rows []StateRow) error {
	var ids, realIDs []int64
	var states, extended, raws, real, odd []string
	var pending, changed []bool
	var readAt, realAt []time.Time
	for _, r := range rows {
		if r.State != nil {
			ids, states, extended = append(ids, int64(r.SIMID)), append(states, string(r.State.State)), append(extended, string(r.State.Extended))
			raws, pending, changed, readAt = append(raws, r.State.Raw), append(pending, r.State.Pending), append(changed, r.Changed), append(readAt, r.ReadAt)
		}
		if r.RealName != nil {
			realIDs, real, realAt = append(realIDs, int64(r.SIMID)), append(real, string(r.RealName.Status)), append(realAt, r.ReadAt)
			odd = append(odd, OddRealName(*r.RealName))
		}
	}
	if len(ids) > 0 {
		_, err := tx.Exec(ctx, `
			UPDATE poll_state p SET state = v.state, extended = v.extended, raw_state = v.raw, pending = v.pending, state_read_at = v.read_at,
				state_since_at = CASE WHEN v.changed OR p.state_since_at IS NULL THEN v.read_at ELSE p.state_since_at END
			FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bool[], $6::bool[], $7::timestamptz[])
				AS v (sim_id, state, extended, raw, pending, changed, read_at)
			WHERE p.sim_id = v.sim_id AND (p.state_read_at IS NULL OR p.state_read_at <= v.read_at)`,
			ids, states, extended, raws, pending, changed, readAt)
		if err != nil {
			return fmt.Errorf("write %d states: %w", len(ids), err)
		}
	}
	if len(realIDs) > 0 {
		_, err := tx.Exec(ctx, `
			UPDATE poll_state p SET realname = CASE WHEN v.odd = '' THEN v.realname ELSE p.realname END,
				realname_odd = v.odd, realname_read_at = v.read_at
			FROM unnest($1::bigint[], $2::text[], $3::timestamptz[], $4::text[]) AS v (sim_id, realname, read_at, odd)
			WHERE p.sim_id = v.sim_id AND (p.realname_read_at IS NULL OR p.realname_read_at <= v.read_at)`,
			realIDs, real, realAt, odd)
		if err != nil {
			return fmt.Errorf("write %d real-name statuses: %w", len(realIDs), err)
		}
		var verified []int64
		for i, status := range real {
			if simwarden.RealName(status).Met() {
				verified = append(verified, realIDs[i])
			}
		}
		return tx.wakeVerified(ctx, verified)
	}
	return nil
}
