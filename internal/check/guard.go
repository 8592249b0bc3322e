package check

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// guardsHold is V13: an account that has never acted sends nothing; automatic suspends stay within the
// account's brake until a person releases it; and while a guard is on, what it holds does not lapse
// and nothing is suspended automatically.
func (c *checker) guardsHold(ctx context.Context) error {
	for _, sql := range []string{`
		SELECT 'account ' || a.name, count(*) || ' state-changing requests were sent although it only observes and always has'
		FROM attempt t JOIN command c ON c.id = t.command_id JOIN account a ON a.id = c.account_id
		WHERE a.mode = 'observe' AND NOT EXISTS (SELECT FROM event e WHERE e.account_id = a.id AND e.kind = 'account_changed' AND e.data->'to'->>'mode' = 'act')
		GROUP BY a.name`, `
		WITH automatic AS (
			SELECT c.id, c.account_id, c.created_at FROM command c
			WHERE c.direction = 'suspend' AND c.scene NOT IN ('manual', 'plan_lapsed', 'refunded') AND c.state <> 'observed'),
		counted AS (
			SELECT m.account_id, m.created_at, a.name, a.brake_window_seconds AS seconds,
				(SELECT count(*) FROM automatic o WHERE o.account_id = m.account_id AND o.created_at <= m.created_at
					AND o.created_at > greatest(m.created_at - a.brake_window_seconds * interval '1 second', coalesce(a.brake_released_at, '-infinity'))) AS n,
				-- What the count of active SIMs was is not kept: all that the account has are the most that it can have been.
				greatest(a.brake_count, 10, (SELECT count(*) FROM sim s WHERE s.account_id = a.id) * a.brake_percent / 100) AS most
			FROM automatic m JOIN account a ON a.id = m.account_id
			WHERE a.brake_released_at IS NULL OR m.created_at > a.brake_released_at)
		SELECT 'account ' || name, max(n) || ' automatic suspends within ' || max(seconds) || ' s, more than the ' || max(most) || ' of its safety brake'
		FROM counted WHERE n > most GROUP BY name`, `
		SELECT 'subscription ' || b.id, 'it lapsed at ' || b.ended_at || ' while the clock''s guard ' || g.id || ' was on'
		FROM guard g JOIN subscription b ON b.state = 'expired' AND b.ended_at > g.since_at AND b.ended_at < coalesce(g.released_at, 'infinity')
		WHERE g.kind = 'clock'`, `
		SELECT 'command ' || c.id, 'an automatic suspend (scene ' || c.scene || ') was opened at ' || c.created_at || ' while the clock''s guard ' || g.id || ' was on'
		FROM guard g JOIN command c ON c.created_at > g.since_at AND c.created_at < coalesce(g.released_at, 'infinity')
		WHERE g.kind = 'clock' AND c.direction = 'suspend' AND c.scene NOT IN ('manual', 'plan_lapsed', 'refunded') AND c.state <> 'observed'`, `
		SELECT 'subscription ' || b.id, 'it lapsed although guard ' || g.id || ', which nobody has released, holds it'
		FROM guard g JOIN subscription b ON b.guard_id = g.id
		WHERE g.released_at IS NULL AND b.state = 'expired'`, `
		WITH hasty AS (
			SELECT DISTINCT s.account_id, s.id, b.ended_at, b.hasty_at FROM subscription b JOIN sim s ON s.id = b.sim_id OR b.sim_id IS NULL AND s.device_id = b.device_id
			WHERE b.hasty_at IS NOT NULL AND b.state = 'expired'),
		counted AS (
			SELECT a.name, greatest(a.brake_count, 10, (SELECT count(*) FROM sim s WHERE s.account_id = a.id) * a.brake_percent / 100) AS most,
				(SELECT count(*) FROM hasty o WHERE o.account_id = h.account_id AND o.ended_at <= h.ended_at AND o.ended_at > h.ended_at - interval '1 second'
					AND o.hasty_at BETWEEN h.hasty_at - interval '1 day' AND h.hasty_at) AS n
			FROM hasty h JOIN account a ON a.id = h.account_id)
		SELECT 'account ' || name, max(n) || ' SIMs lost their plan at once by what an import or edit wrote, more than the ' || max(most) || ' of its safety brake'
		FROM counted WHERE n > most GROUP BY name`,
	} {
		if err := c.each(ctx, "V13", sql); err != nil {
			return err
		}
	}
	return nil
}

// auditIsRight is V18 of the audit log: one row for each manual order and none that says the system
// acted, and each seal is what the row and the seal before give.
func (c *checker) auditIsRight(ctx context.Context) error {
	for _, sql := range []string{`
		SELECT 'audit row ' || id, 'the system did ' || action || ', and automatic actions write records only' FROM audit WHERE actor = 'system'`, `
		SELECT 'command ' || c.id, 'a person asked for it, and the audit log has ' || count(a.id) || ' rows of it'
		FROM command c LEFT JOIN audit a ON a.sim_id = c.sim_id AND a.action = 'sim_' || c.direction AND a.at <= c.created_at AND a.actor = c.asked_by
		WHERE c.scene = 'manual' AND c.asked_by <> 'system'
		GROUP BY c.id HAVING count(a.id) = 0`,
	} {
		if err := c.each(ctx, "V18", sql); err != nil {
			return err
		}
	}
	return c.chain(ctx)
}

// chain makes each seal again, from nothing but what the row says.
func (c *checker) chain(ctx context.Context) error {
	rows, err := c.DB.Query(ctx, `
		SELECT l.seq, l.audit_id, l.hash, a.at, coalesce(a.actor, ''), coalesce(a.action, ''), a.sim_id, a.account_id, coalesce(a.data::text, '')
		FROM audit_seal l LEFT JOIN audit a ON a.id = l.audit_id ORDER BY l.seq`)
	if err != nil {
		return fmt.Errorf("V18: read the seals: %w", err)
	}
	type seal struct {
		Seq, ID      int64
		Hash         []byte
		At           *time.Time
		Actor        string
		Action       string
		SIM, Account *int64
		Data         string
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[seal])
	if err != nil {
		return fmt.Errorf("V18: read the seals: %w", err)
	}
	var before [sha256.Size]byte
	for i, s := range list {
		subject := fmt.Sprintf("audit row %d", s.ID)
		switch {
		case s.Seq != int64(i)+1:
			c.found("V18", subject, "its seal is %d, and %d should come next", s.Seq, i+1)
			return nil
		case s.At == nil:
			c.found("V18", subject, "it was sealed as %d and is not there", s.Seq)
			return nil
		}
		b := part(nil, []byte("simwarden audit 1"))
		b = part(part(part(part(b, eight(&s.Seq)), before[:]), eight(&s.ID)), eight(new(s.At.UnixMicro())))
		b = part(part(part(part(part(b, []byte(s.Actor)), []byte(s.Action)), eight(s.SIM)), eight(s.Account)), []byte(s.Data))
		before = sha256.Sum256(b)
		if string(before[:]) != string(s.Hash) {
			c.found("V18", subject, "it is not what was sealed as %d", s.Seq)
			return nil
		}
	}
	return nil
}

// part appends a field with its length before it.
func part(b, field []byte) []byte {
	return append(binary.BigEndian.AppendUint64(b, uint64(len(field))), field...)
}

func eight(v *int64) []byte {
	if v == nil {
		return nil
	}
	return binary.BigEndian.AppendUint64(nil, uint64(*v))
}
