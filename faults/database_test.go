package faults_test

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/store"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// database is one that schedules use one after the other.
type database struct {
	url  string
	warm *warm
	uses int
}

// databases are those of a test. To make one, and to plan all statements in new sessions, takes longer
// than a whole schedule in one that is there already.
type databases struct {
	t    *testing.T
	mu   sync.Mutex
	free []*database
}

const (
	vacuumEvery = 40 // uses: rows that were deleted are still there
	maxUses     = 400
)

func newDatabases(t *testing.T) *databases {
	d := &databases{t: t}
	t.Cleanup(func() {
		for _, b := range d.free {
			b.warm.close()
		}
	})
	return d
}

// take gives a database that is as it was when it was new.
func (d *databases) take() *database {
	d.mu.Lock()
	if n := len(d.free); n > 0 {
		defer d.mu.Unlock()
		b := d.free[n-1]
		d.free = d.free[:n-1]
		return b
	}
	d.mu.Unlock()
	return &database{url: storetest.URL(d.t, prepare), warm: newWarm()}
}

// give takes a database back for another schedule.
func (d *databases) give(ctx context.Context, b *database) error {
	b.uses++
	if b.uses >= maxUses {
		b.warm.close()
		return nil
	}
	if err := b.clean(ctx); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, b)
	return nil
}

// connect connects to the database as a person would, from outside any node.
func (b *database) connect(ctx context.Context) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(b.url)
	if err != nil {
		return nil, err
	}
	cfg.RuntimeParams["application_name"] = "schedule"
	cfg.DialFunc = b.warm.Dial
	return pgx.ConnectConfig(ctx, cfg)
}

// clean brings the database back to what it was when it was new.
func (b *database) clean(ctx context.Context) error {
	conn, err := b.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(ctx, `SELECT pristine.restore($1)`, b.warm.pids()); err != nil {
		return fmt.Errorf("clean the database: %w", err)
	}
	if b.uses%vacuumEvery == 0 {
		// Statistics were of rows that are gone; and sessions plan anew what they know of a table whose
		// figures change, which is why it is not done each time.
		if _, err := conn.Exec(ctx, `VACUUM`); err != nil {
			return fmt.Errorf("vacuum the database: %w", err)
		}
	}
	return conn.Close(ctx)
}

// prepare migrates, lets the database know the bubble's time, and keeps what it is like now.
func prepare(ctx context.Context, url string) error {
	if err := store.Migrate(ctx, url); err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Options{URL: url})
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SyncRules(ctx); err != nil {
		return err
	}
	if err := check.Watch(ctx, url); err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }()
	_, err = conn.Exec(ctx, pristine)
	return err
}

// pristine gives the database app_now() of its own and what restores its rows. Tables stay as they are,
// since a session plans anew whatever it knows of a table that changed.
const pristine = `
-- A sequence is seen at once by all, whatever their transaction; it holds microseconds.
CREATE UNLOGGED SEQUENCE app_clock MINVALUE 0;
CREATE OR REPLACE FUNCTION app_now() RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
	BEGIN RETURN (SELECT timestamptz 'epoch' + last_value * interval '1 microsecond' FROM public.app_clock); END $$;

CREATE SCHEMA pristine;
CREATE TABLE pristine."sequences" AS SELECT schemaname, sequencename, last_value FROM pg_sequences WHERE sequencename <> 'app_clock';
CREATE VIEW pristine."tables" AS SELECT oid, relname FROM pg_class
	WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'goose_db_version';
DO $$
DECLARE
	t record; v_any boolean;
BEGIN
	FOR t IN SELECT * FROM pristine."tables" LOOP
		EXECUTE format('SELECT EXISTS (SELECT FROM ONLY public.%I)', t.relname) INTO v_any;
		IF v_any THEN
			EXECUTE format('CREATE TABLE pristine.%I AS TABLE public.%I', t.relname, t.relname);
		END IF;
		EXECUTE format('ALTER TABLE public.%I SET (autovacuum_enabled = false)', t.relname); -- nothing by chance
	END LOOP;
END $$;

-- restore waits for the sessions that are not among p_known: their clients are gone, their last statement
-- may be under way.
CREATE FUNCTION pristine.restore(p_known integer[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	t record; v_until timestamptz := clock_timestamp() + interval '20 seconds';
BEGIN
	WHILE EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'
			AND pid <> pg_backend_pid() AND pid <> ALL (p_known)) LOOP
		IF clock_timestamp() > v_until THEN
			RAISE 'a session does not end';
		END IF;
		PERFORM pg_sleep(0.002);
		PERFORM pg_stat_clear_snapshot();
	END LOOP;
	PERFORM set_config('session_replication_role', 'replica', true); -- no triggers, no foreign keys
	FOR t IN SELECT * FROM pristine."tables" WHERE pg_relation_size(oid) > 0 LOOP
		EXECUTE format('DELETE FROM ONLY public.%I', t.relname);
	END LOOP;
	FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'pristine'::regnamespace AND relkind = 'r' AND relname <> 'sequences' LOOP
		EXECUTE format('INSERT INTO public.%I OVERRIDING SYSTEM VALUE SELECT * FROM pristine.%I', t.relname, t.relname);
	END LOOP;
	PERFORM setval(format('%I.%I', schemaname, sequencename), coalesce(last_value, 1), last_value IS NOT NULL) FROM pristine."sequences";
END $$;
`
