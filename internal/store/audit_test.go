package store_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// auditLog is a database with a log of ten sealed rows, and a connection that may do everything.
type auditLog struct {
	t     *testing.T
	store *store.Store
	conn  *pgx.Conn
	clock *clock.Manual
}

func newAuditLog(t *testing.T, rows int) *auditLog {
	t.Helper()
	url := storetest.URL(t, store.Migrate)
	l := &auditLog{t: t, clock: clock.NewManual(time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC))}
	var err error
	if l.store, err = store.Open(t.Context(), store.Options{URL: url, Clock: l.clock}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.store.Close)
	if l.conn, err = pgx.Connect(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.conn.Close(context.Background()) })
	for i := range rows {
		l.write(i)
	}
	l.seal()
	return l
}

func (l *auditLog) write(i int) {
	l.t.Helper()
	l.clock.Advance(time.Minute)
	err := l.store.InTx(l.t.Context(), func(tx *store.Tx) error {
		return tx.Audit(l.t.Context(), "cli:anna", "sim_suspend", 0, 0, map[string]any{"n": i, "reason": "lost"})
	})
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *auditLog) seal() store.AuditHead {
	l.t.Helper()
	lease, ok, err := l.store.TakeLease(l.t.Context(), "audit_seal", "a", time.Minute)
	if err != nil || !ok {
		l.t.Fatal(ok, err)
	}
	_, head, err := l.store.SealAudit(l.t.Context(), lease, 1000, true)
	if err != nil {
		l.t.Fatal(err)
	}
	return head
}

// superuser does what only somebody can who owns the database: the triggers do not stand in the way.
func (l *auditLog) superuser(statements ...string) {
	l.t.Helper()
	for _, s := range append([]string{`SET session_replication_role = replica`}, statements...) {
		if _, err := l.conn.Exec(l.t.Context(), s); err != nil {
			l.t.Fatalf("%v\n%s", err, s)
		}
	}
}

func (l *auditLog) verify(anchors ...store.AuditHead) store.AuditReport {
	l.t.Helper()
	r, err := l.store.VerifyAudit(l.t.Context(), anchors)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func TestR3AnUntouchedLogIsRight(t *testing.T) {
	l := newAuditLog(t, 10)
	head := l.seal()
	l.write(10)
	if r := l.verify(head); r.Bad != "" || r.Sealed != 10 || r.Unsealed != 1 || r.Anchors != 1 || r.Head != head {
		t.Errorf("an untouched log gives %+v", r)
	}
	l.seal()
	if r := l.verify(head); r.Bad != "" || r.Sealed != 11 || r.Unsealed != 0 {
		t.Errorf("once sealed it gives %+v", r)
	}
}

func TestR3TheLogIsAppendOnly(t *testing.T) {
	l := newAuditLog(t, 2)
	for _, s := range []string{`UPDATE audit SET actor = 'x'`, `DELETE FROM audit`, `TRUNCATE audit`, `UPDATE audit_seal SET seq = 9`, `DELETE FROM audit_seal`, `TRUNCATE audit_seal`} {
		if _, err := l.conn.Exec(t.Context(), s); err == nil || !strings.Contains(err.Error(), "append-only") {
			t.Errorf("%s: %v, want a refusal (R3)", s, err)
		}
	}
}

// F63: whatever an owner of the database does to the log, with its triggers off, is found, with the
// first row that is wrong.
func TestF63TamperingIsFound(t *testing.T) {
	for _, row := range []struct {
		says string
		do   []string
		want string // in what is found
	}{
		{"a row says another actor", []string{`UPDATE audit SET actor = 'cli:bert' WHERE id = 4`}, "row 4"},
		{"a row says another instant", []string{`UPDATE audit SET at = at + interval '1 microsecond' WHERE id = 4`}, "row 4"},
		{"a row says another reason", []string{`UPDATE audit SET data = jsonb_set(data, '{reason}', '"found"') WHERE id = 4`}, "row 4"},
		{"a row names a SIM that it did not", []string{`UPDATE audit SET sim_id = 1 WHERE id = 4`}, "row 4"},
		{"what is empty in one field stands in the next", []string{`UPDATE audit SET actor = 'cli:annasim', action = '_suspend' WHERE id = 4`}, "row 4"},
		{"a row is deleted", []string{`DELETE FROM audit WHERE id = 4`}, "row 4 (seal 4) is missing"},
		{"a row is deleted with its seal", []string{`DELETE FROM audit WHERE id = 4`, `DELETE FROM audit_seal WHERE audit_id = 4`}, "seal 5 follows seal 3"},
		{"a row is deleted with its seal, and those behind are numbered anew", []string{`DELETE FROM audit WHERE id = 4`, `DELETE FROM audit_seal WHERE audit_id = 4`,
			`UPDATE audit_seal SET seq = -seq WHERE seq > 4`, `UPDATE audit_seal SET seq = -seq - 1 WHERE seq < 0`}, "row 5"},
		{"the last row is deleted", []string{`DELETE FROM audit WHERE id = 10`}, "row 10"},
		{"two rows change places", []string{`UPDATE audit SET id = -4 WHERE id = 4`, `UPDATE audit SET id = 4 WHERE id = 5`, `UPDATE audit SET id = 5 WHERE id = -4`}, "row 4"},
		{"two seals change places", []string{`UPDATE audit_seal SET audit_id = -4 WHERE audit_id = 4`, `UPDATE audit_seal SET audit_id = 4 WHERE audit_id = 5`,
			`UPDATE audit_seal SET audit_id = 5 WHERE audit_id = -4`}, "row 5 (seal 4)"},
		{"a row is put in between with a seal of its own", []string{`INSERT INTO audit (id, at, actor, action) OVERRIDING SYSTEM VALUE SELECT 400, at, actor, action FROM audit WHERE id = 4`,
			`UPDATE audit_seal SET seq = -seq WHERE seq > 4`, `UPDATE audit_seal SET seq = -seq + 1 WHERE seq < 0`,
			`INSERT INTO audit_seal SELECT 5, 400, hash, sealed_at FROM audit_seal WHERE seq = 4`}, "row 400"},
		{"a seal has another hash", []string{`UPDATE audit_seal SET hash = sha256('x') WHERE seq = 4`}, "row 4"},
	} {
		t.Run(row.says, func(t *testing.T) {
			l := newAuditLog(t, 10)
			l.superuser(row.do...)
			r := l.verify()
			if !strings.Contains(r.Bad, row.want) {
				t.Errorf("found %q, want %q", r.Bad, row.want)
			}
		})
	}
}

func TestF63ARowWrittenLaterThanItSaysIsFound(t *testing.T) {
	l := newAuditLog(t, 10)
	l.clock.Advance(time.Hour)
	l.write(10)
	l.superuser(`INSERT INTO audit (at, actor, action) SELECT at, 'cli:bert', 'sim_suspend' FROM audit WHERE id = 3`)
	l.seal()
	if r := l.verify(); !strings.Contains(r.Bad, "row 12 (seal 12) says it is of") {
		t.Errorf("found %q, want row 12", r.Bad)
	}
}

// Whoever owns the database can make the whole chain anew or cut its end off: what was kept outside tells.
func TestF63AChainMadeAnewIsFoundByWhatWasKeptOutside(t *testing.T) {
	l := newAuditLog(t, 10)
	head := l.seal()
	l.superuser(`UPDATE audit SET actor = 'cli:bert' WHERE id = 4`, `DELETE FROM audit_seal`)
	l.seal()
	if r := l.verify(); r.Bad != "" {
		t.Fatalf("a chain made anew is right in itself, and yet %q", r.Bad)
	}
	if r := l.verify(head); !strings.Contains(r.Bad, "seal 10 (row 10) is not the one that was written down") {
		t.Errorf("found %q against the head kept outside", r.Bad)
	}

	l = newAuditLog(t, 10)
	head = l.seal()
	l.superuser(`DELETE FROM audit WHERE id > 8`, `DELETE FROM audit_seal WHERE seq > 8`)
	if r := l.verify(head); !strings.Contains(r.Bad, "the chain ends at seal 8") {
		t.Errorf("found %q against the head kept outside", r.Bad)
	}
}

func TestAHeadIsReadAsItIsWritten(t *testing.T) {
	head := newAuditLog(t, 3).seal()
	got, err := store.ParseAuditHead(fmt.Sprintf("%s %s", time.Now().UTC().Format(time.RFC3339), head))
	if err != nil || got != head {
		t.Errorf("read %v (%v), want %v", got, err, head)
	}
	for _, bad := range []string{"", "2026-05-04T12:00:00Z 3", "2026-05-04T12:00:00Z 3 abcd", "2026-05-04T12:00:00Z x " + strings.Repeat("0", 64), "2026-05-04T12:00:00Z 0 " + strings.Repeat("0", 64)} {
		if _, err := store.ParseAuditHead(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}
