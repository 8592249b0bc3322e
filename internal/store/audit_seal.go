package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditHead is the end of the audit log's chain. Kept outside of the database it proves later that
// nothing up to it was changed.
type AuditHead struct {
	Seq  int64
	Hash [sha256.Size]byte
}

// String is the head as it is written down: number and hash.
func (h AuditHead) String() string { return fmt.Sprintf("%d %s", h.Seq, hex.EncodeToString(h.Hash[:])) }

// sealedRow is what a seal covers of an audit row.
type sealedRow struct {
	id            int64
	at            time.Time
	actor, action string
	sim, account  *int64
	data          string // as Postgres writes the jsonb
}

const sealedColumns = `a.id, a.at, a.actor, a.action, a.sim_id, a.account_id, a.data::text`

// next is the head after a row: SHA-256 over the words "simwarden audit 1", the number, the hash
// before, and each field with its length before it, so that no two rows look the same (R3, B14).
func (h AuditHead) next(r sealedRow) AuditHead {
	d := sha256.New()
	field := func(b []byte) {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(b)))
		d.Write(n[:])
		d.Write(b)
	}
	number := func(v *int64) {
		if v == nil {
			field(nil)
			return
		}
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(*v))
		field(n[:])
	}
	at, seq := r.at.UnixMicro(), h.Seq+1
	field([]byte("simwarden audit 1"))
	number(&seq)
	field(h.Hash[:])
	number(&r.id)
	number(&at)
	field([]byte(r.actor))
	field([]byte(r.action))
	number(r.sim)
	number(r.account)
	field([]byte(r.data))
	out := AuditHead{Seq: seq}
	d.Sum(out.Hash[:0])
	return out
}

// sealBehind is how many numbers before the last sealed row are looked through for rows that were
// numbered before it and committed after.
const sealBehind = 10_000

// SealAudit seals up to limit rows of the audit log that are not, in the order of their ids, for the
// holder of the lease; it gives how many and the new head. all looks through the whole log, and not
// only near its end. 0 where the lease is lost.
func (s *Store) SealAudit(ctx context.Context, lease Lease, limit int, all bool) (n int, head AuditHead, err error) {
	err = s.InTx(ctx, func(tx *Tx) error {
		n = 0
		holds, err := tx.HoldsLease(ctx, lease)
		if err != nil || !holds {
			return err
		}
		if head, err = tx.auditHead(ctx); err != nil {
			return err
		}
		rows, err := tx.unsealed(ctx, limit, all)
		if err != nil {
			return err
		}
		seqs, ids, hashes := make([]int64, len(rows)), make([]int64, len(rows)), make([][]byte, len(rows))
		for i, r := range rows {
			head = head.next(r)
			seqs[i], ids[i], hashes[i] = head.Seq, r.id, append([]byte(nil), head.Hash[:]...)
		}
		if len(rows) == 0 {
			return nil
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO audit_seal (seq, audit_id, hash, sealed_at)
			SELECT seq, id, hash, $1 FROM unnest($2::bigint[], $3::bigint[], $4::bytea[]) AS u (seq, id, hash)`, tx.At, seqs, ids, hashes); err != nil {
			return fmt.Errorf("seal the audit log: %w", err)
		}
		n = len(rows)
		return nil
	})
	return n, head, err
}

// auditHead is the last seal; zero where there is none.
func (tx *Tx) auditHead(ctx context.Context) (h AuditHead, err error) {
	var hash []byte
	err = tx.QueryRow(ctx, `SELECT seq, hash FROM audit_seal ORDER BY seq DESC LIMIT 1`).Scan(&h.Seq, &hash)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("head of the audit log: %w", err)
	}
	copy(h.Hash[:], hash)
	return h, nil
}

func (tx *Tx) unsealed(ctx context.Context, limit int, all bool) ([]sealedRow, error) {
	rows, err := tx.Query(ctx, `
		SELECT `+sealedColumns+` FROM audit a
		WHERE ($2 OR a.id > (SELECT coalesce(max(audit_id), 0) - $3 FROM audit_seal)) AND NOT EXISTS (SELECT FROM audit_seal l WHERE l.audit_id = a.id)
		ORDER BY a.id LIMIT $1`, limit, all, sealBehind)
	if err != nil {
		return nil, fmt.Errorf("rows without a seal: %w", err)
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (r sealedRow, err error) {
		err = row.Scan(&r.id, &r.at, &r.actor, &r.action, &r.sim, &r.account, &r.data)
		return r, err
	})
}

// ParseAuditHead reads a line as the sealer keeps it: instant, number and hash.
func ParseAuditHead(line string) (h AuditHead, err error) {
	var at, text string
	if _, err := fmt.Sscanf(line, "%s %d %s", &at, &h.Seq, &text); err != nil {
		return h, fmt.Errorf("head of the audit log: %w", err)
	}
	hash, err := hex.DecodeString(text)
	if err != nil || len(hash) != len(h.Hash) || h.Seq < 1 {
		return h, errors.New("head of the audit log: this is no number with a SHA-256 hash")
	}
	copy(h.Hash[:], hash)
	return h, nil
}
