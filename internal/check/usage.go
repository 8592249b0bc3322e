package check

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden"
)

// Watch has the database at url keep every step of each SIM's usage from now on, so that V16 knows
// when a SIM was read first and what was booked at which reading. It is for databases of tests and of
// the demo.
func Watch(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("watch the usage: %w", err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	_, err = conn.Exec(ctx, `
		CREATE TABLE check_usage (
			id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, sim_id bigint NOT NULL, first boolean NOT NULL,
			was_bytes bigint NOT NULL, lifetime_bytes bigint NOT NULL, counter_bytes bigint, period_start_at timestamptz, read_at timestamptz, true_at timestamptz);
		CREATE FUNCTION check_usage_step() RETURNS trigger LANGUAGE plpgsql AS $$
		BEGIN
			INSERT INTO check_usage (sim_id, first, was_bytes, lifetime_bytes, counter_bytes, period_start_at, read_at, true_at)
			VALUES (NEW.sim_id, OLD.usage_read_at IS NULL, OLD.lifetime_bytes, NEW.lifetime_bytes, NEW.usage_counter_bytes, NEW.usage_period_start_at, NEW.usage_read_at, NEW.usage_true_at);
			RETURN NULL;
		END $$;
		CREATE TRIGGER check_usage AFTER UPDATE ON poll_state FOR EACH ROW
			WHEN (OLD.lifetime_bytes <> NEW.lifetime_bytes OR (OLD.usage_read_at IS NULL) <> (NEW.usage_read_at IS NULL))
			EXECUTE FUNCTION check_usage_step();
		GRANT INSERT, SELECT ON check_usage TO PUBLIC`)
	if err != nil {
		return fmt.Errorf("watch the usage: %w", err)
	}
	return nil
}

// usageAnswerWithin is how long after a reading was begun the carrier may have made its answer.
const usageAnswerWithin = 30 * time.Second

// usageSlack is what rounding to a carrier's unit may make of the bytes of a SIM.
const usageSlack = 2048

// ofLies are the carrier's faults by which it told another usage than there was, where it was asked for usage: a
// list in which a SIM is not named may say that it has used nothing.
var ofLies = []string{"unit_change", "usage_down", "stale_read", "list_repeat", "list_missing", "list_short", "list_empty"}

// usageIsTrue is V16: lifetime usage never falls and is the sum of the days; each reading is booked once;
// and what is booked is what was used at the carrier between the first reading and the last.
func (c *checker) usageIsTrue(ctx context.Context) error {
	if err := c.each(ctx, "V16", `
		SELECT s.iccid, 'its lifetime usage is ' || p.lifetime_bytes || ' bytes, its days sum to ' || coalesce(sum(d.bytes), 0)
		FROM poll_state p JOIN sim s ON s.id = p.sim_id LEFT JOIN usage_day d ON d.sim_id = p.sim_id
		GROUP BY s.iccid, p.lifetime_bytes HAVING p.lifetime_bytes <> coalesce(sum(d.bytes), 0)`); err != nil {
		return err
	}
	var watched bool
	if err := c.DB.QueryRow(ctx, `SELECT to_regclass('check_usage') IS NOT NULL`).Scan(&watched); err != nil || !watched {
		return err
	}
	for _, sql := range []string{`
		SELECT s.iccid, 'its lifetime usage fell from ' || u.was_bytes || ' to ' || u.lifetime_bytes || ' bytes at the reading of ' || u.read_at
		FROM check_usage u JOIN sim s ON s.id = u.sim_id WHERE u.lifetime_bytes < u.was_bytes`, `
		SELECT s.iccid, 'the reading of ' || u.read_at || ' (' || u.counter_bytes || ' bytes in its period) was booked ' || count(*) || ' times'
		FROM check_usage u JOIN sim s ON s.id = u.sim_id WHERE u.lifetime_bytes > u.was_bytes
		GROUP BY s.iccid, u.read_at, u.counter_bytes HAVING count(*) > 1`, `
		SELECT s.iccid, 'what it used before its first reading, ' || u.lifetime_bytes - u.was_bytes || ' bytes, was booked'
		FROM check_usage u JOIN sim s ON s.id = u.sim_id WHERE u.first AND u.lifetime_bytes > u.was_bytes`,
	} {
		if err := c.each(ctx, "V16", sql); err != nil {
			return err
		}
	}
	return c.usageIsTheCarriers(ctx)
}

// metered is one SIM's usage as it is kept.
type metered struct {
	ICCID, Account string
	LifetimeBytes  int64
	FirstAt        time.Time // its first reading
	FirstTrueAt    time.Time // and for when that was true as far as the carrier says
	ReadAt         time.Time // its last
	TrueAt         time.Time
	Periods        int  // that bytes were booked in
	Odd            bool // the carrier's counter was not believed at some time
}

func (c *checker) usageIsTheCarriers(ctx context.Context) error {
	if c.UsedBytes == nil {
		return nil
	}
	rows, err := c.DB.Query(ctx, `
		SELECT s.iccid, a.name, p.lifetime_bytes, f.read_at, least(f.read_at, f.true_at), p.usage_read_at, least(p.usage_read_at, p.usage_true_at),
			(SELECT count(DISTINCT coalesce(u.period_start_at, '-infinity')) FROM check_usage u WHERE u.sim_id = p.sim_id),
			EXISTS (SELECT FROM event e WHERE e.sim_id = p.sim_id AND e.kind = 'usage_anomaly')
		FROM check_usage f JOIN poll_state p ON p.sim_id = f.sim_id JOIN sim s ON s.id = p.sim_id JOIN account a ON a.id = s.account_id
		WHERE f.first AND f.read_at IS NOT NULL AND p.usage_read_at IS NOT NULL ORDER BY p.sim_id`)
	if err != nil {
		return fmt.Errorf("V16: %w", err)
	}
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[metered])
	if err != nil {
		return fmt.Errorf("V16: %w", err)
	}
	lied := map[[2]string]bool{} // by account and SIM, none for lists
	for _, l := range c.Lines {
		// What it said of states is none of that, also in lists of all SIMs.
		usage := l.Operation == simwarden.OpQueryUsage || l.Operation == simwarden.OpListUsage
		if usage && distorted(l, ofLies...) {
			lied[[2]string{l.Account, l.ICCID}] = true
		}
	}
	for _, m := range list {
		// What a carrier that lied has said is all that there is to book.
		if m.Odd || lied[[2]string{m.Account, m.ICCID}] || lied[[2]string{m.Account, ""}] {
			continue
		}
		earliest, known := c.UsedBytes(m.ICCID, m.FirstTrueAt)
		if !known {
			continue
		}
		c.report.Looked.Usages++
		baseline, _ := c.UsedBytes(m.ICCID, c.answered(m.FirstAt))
		least, _ := c.UsedBytes(m.ICCID, m.TrueAt)
		most, _ := c.UsedBytes(m.ICCID, c.answered(m.ReadAt))
		switch {
		case m.LifetimeBytes > most-earliest+usageSlack:
			c.found("V16", m.ICCID, "%d bytes are booked since its first reading at %s, and it has used at most %d until its last at %s", m.LifetimeBytes, m.FirstAt, most-earliest, m.ReadAt)
		// What is used at the very end of a carrier's period and read after it is not told by the next one's counter.
		case m.LifetimeBytes < least-baseline-usageSlack && m.Periods <= 1:
			c.found("V16", m.ICCID, "%d bytes are booked since its first reading at %s, and it has used at least %d until its last at %s", m.LifetimeBytes, m.FirstAt, least-baseline, m.ReadAt)
		}
	}
	return nil
}

// answered is the latest instant at which the carrier may have answered a reading begun at one.
func (c *checker) answered(begun time.Time) time.Time {
	if end := begun.Add(usageAnswerWithin); end.Before(c.Now) {
		return end
	}
	return c.Now
}
