package store

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditReport is what a walk along the audit log's chain found.
type AuditReport struct {
	Sealed   int64     // rows whose seal is right
	Unsealed int64     // rows that wait for theirs
	Head     AuditHead // of what is right
	Anchors  int       // heads kept outside that were found in the chain
	// Bad names the first thing that is wrong; empty: the log is as it was written.
	Bad string
}

// lateAudit is by how much a row may be older than the one sealed before it: transactions last, and
// clocks of nodes differ.
const lateAudit = 15 * time.Minute

// VerifyAudit walks along the whole chain and stops at the first row that was changed, deleted,
// inserted or put elsewhere (F63). anchors are heads that were kept outside of the database: with them
// a chain that somebody made anew, or cut off, is found as well. The error is one of reading.
func (s *Store) VerifyAudit(ctx context.Context, anchors []AuditHead) (AuditReport, error) {
	var r AuditReport
	tx, err := s.pool.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly})
	if err != nil {
		return r, fmt.Errorf("audit log: %w", err)
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // it only reads
	if err := tx.QueryRow(ctx, `SELECT count(*) FROM audit a WHERE NOT EXISTS (SELECT FROM audit_seal l WHERE l.audit_id = a.id)`).Scan(&r.Unsealed); err != nil {
		return r, fmt.Errorf("audit log: %w", err)
	}
	wanted := make(map[int64][]AuditHead, len(anchors))
	for _, a := range anchors {
		wanted[a.Seq] = append(wanted[a.Seq], a)
	}
	rows, err := tx.Query(ctx, `
		SELECT l.seq, l.audit_id, l.hash, a.id IS NOT NULL, coalesce(a.id, 0), coalesce(a.at, l.sealed_at), coalesce(a.actor, ''), coalesce(a.action, ''),
			a.sim_id, a.account_id, coalesce(a.data::text, '')
		FROM audit_seal l LEFT JOIN audit a ON a.id = l.audit_id ORDER BY l.seq`)
	if err != nil {
		return r, fmt.Errorf("audit log: %w", err)
	}
	defer rows.Close()
	var last time.Time
	for rows.Next() {
		var seq, id int64
		var hash []byte
		var there bool
		var row sealedRow
		if err := rows.Scan(&seq, &id, &hash, &there, &row.id, &row.at, &row.actor, &row.action, &row.sim, &row.account, &row.data); err != nil {
			return r, fmt.Errorf("audit log: %w", err)
		}
		if r.Bad = r.wrong(seq, id, hash, there, row, last); r.Bad != "" {
			return r, nil
		}
		r.Head, r.Sealed = r.Head.next(row), r.Sealed+1
		for _, a := range wanted[seq] {
			if a.Hash != r.Head.Hash {
				r.Bad = fmt.Sprintf("seal %d (row %d) is not the one that was written down outside: the chain was made anew", seq, id)
				return r, nil
			}
			r.Anchors++
		}
		last = row.at
	}
	if err := rows.Err(); err != nil {
		return r, fmt.Errorf("audit log: %w", err)
	}
	for _, a := range anchors {
		if a.Seq > r.Head.Seq {
			r.Bad = fmt.Sprintf("the chain ends at seal %d, and seal %d was written down outside: its end is missing", r.Head.Seq, a.Seq)
			return r, nil
		}
	}
	return r, nil
}

// wrong says what is wrong with the next seal, given the head before it.
func (r AuditReport) wrong(seq, id int64, hash []byte, there bool, row sealedRow, last time.Time) string {
	next := r.Head.next(row)
	switch {
	case seq != r.Head.Seq+1:
		return fmt.Sprintf("seal %d follows seal %d: what was between is missing", seq, r.Head.Seq)
	case !there:
		return fmt.Sprintf("row %d (seal %d) is missing", id, seq)
	case !bytes.Equal(hash, next.Hash[:]):
		return fmt.Sprintf("row %d (seal %d) is not as it was sealed, or has been put where it was not", id, seq)
	case last.Sub(row.at) > lateAudit:
		return fmt.Sprintf("row %d (seal %d) says it is of %s, and was sealed after one of %s: it was written later than it says, or the clock was set back",
			id, seq, row.at.UTC().Format(time.RFC3339), last.UTC().Format(time.RFC3339))
	}
	return ""
}
