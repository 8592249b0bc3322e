package store

import (
	"context"
	"fmt"
	"time"

	"github.com/simwarden/simwarden"
)

// NoteOdd notes that SIMs of an account read odd now, forgets who did before an instant, and gives how
// many have since (F29, F30). The account is locked.
func (tx *Tx) NoteOdd(ctx context.Context, account simwarden.AccountID, sims []simwarden.SIMID, since time.Time) (int, error) {
	ids := make([]int64, len(sims))
	for i, id := range sims {
		ids[i] = int64(id)
	}
	if _, err := tx.Exec(ctx, `DELETE FROM odd_reading WHERE account_id = $1 AND odd_at < $2`, int64(account), since); err != nil {
		return 0, fmt.Errorf("odd readings of account %d: %w", account, err)
	}
	_, err := tx.Exec(ctx, `
		INSERT INTO odd_reading (account_id, sim_id, odd_at) SELECT $1, id, $3 FROM unnest($2::bigint[]) id
		ON CONFLICT (account_id, sim_id) DO UPDATE SET odd_at = excluded.odd_at`, int64(account), ids, tx.At)
	n := 0
	if err == nil {
		err = tx.QueryRow(ctx, `SELECT count(*) FROM odd_reading WHERE account_id = $1`, int64(account)).Scan(&n)
	}
	if err != nil {
		return 0, fmt.Errorf("odd readings of account %d: %w", account, err)
	}
	return n, nil
}
