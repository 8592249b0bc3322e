// Package store remembers: it holds all SQL of the product, the migrations, and the one way to
// run a transaction. Functions that change more than one thing are methods of Tx, so that a
// fact and the order that follows from it commit together.
package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/simwarden/simwarden/internal/clock"
)

// ErrNotFound says that no row has the given id or name; test with errors.Is.
var ErrNotFound = errors.New("not found")

// Store is the database. It is safe for use from many goroutines.
type Store struct {
	pool  pool
	work  pool          // commands and lapses: never starved by pages and lists (F13)
	touch *pgxpool.Pool // readings that say nothing new: planned once, whatever the statistics say
	clock clock.Clock
	watch *clockWatch
}

// Options say how to open the database.
type Options struct {
	URL   string
	Clock clock.Clock
	// ClockBound is how far the clock may be from the database's, and how far it may step, before
	// lapsing and automatic suspends stop (C10); zero: it is not looked at, for tests whose time is
	// not the world's.
	ClockBound time.Duration
	// Conns bounds the ordinary pool, WorkConns the one kept for commands and plan ends; zero
	// takes 12 and 6.
	Conns, WorkConns int32
	// Dial replaces the way to the database, in tests of nodes that lose theirs; nil: the network's.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// Open connects and checks that the schema is the one this program was built for; see
// CheckVersion for the errors. Close it when done.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Clock == nil {
		o.Clock = clock.System()
	}
	main, err := openPool(ctx, o, max(o.Conns, 0), 12, "simwarden")
	if err != nil {
		return nil, err
	}
	work, err := openPool(ctx, o, max(o.WorkConns, 0), 6, "simwarden-work")
	if err != nil {
		main.Close()
		return nil, err
	}
	// After an import no SIM is settled yet, and statistics of that moment make the planner choose
	// a scan of the whole table for each batch of readings. A plan that does not look at them is
	// right at any time.
	touch, err := openPool(ctx, o, touchConns, touchConns, "simwarden-touch", "plan_cache_mode", "force_generic_plan",
		"enable_bitmapscan", "off") // rows are locked in the order of their ids, as everywhere
	if err != nil {
		main.Close()
		work.Close()
		return nil, err
	}
	s := &Store{pool: pool{main}, work: pool{work}, touch: touch, clock: o.Clock, watch: newClockWatch(o.Clock, o.ClockBound)}
	if err := s.CheckVersion(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// touchConns is how many batches of unchanged readings are written at a time.
const touchConns = 4

// Close gives all connections back.
func (s *Store) Close() {
	s.pool.Close()
	s.work.Close()
	s.touch.Close()
}

// Now is the injected clock's time, UTC, to the microsecond that the database keeps.
func (s *Store) Now() time.Time { return s.clock.Now().UTC().Truncate(time.Microsecond) }

// Ping says whether the database answers.
func (s *Store) Ping(ctx context.Context) error { return s.pool.Ping(ctx) }

func openPool(ctx context.Context, o Options, conns, byDefault int32, name string, params ...string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig(o.URL)
	if err != nil {
		return nil, fmt.Errorf("database url: %w", redactURL(err))
	}
	if conns == 0 {
		conns = byDefault
	}
	cfg.MaxConns = conns
	cfg.MaxConnIdleTime = time.Minute
	cfg.ConnConfig.RuntimeParams["application_name"] = name
	cfg.ConnConfig.RuntimeParams["timezone"] = "UTC"
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = "60000"
	cfg.ConnConfig.RuntimeParams["lock_timeout"] = "10000"
	cfg.ConnConfig.RuntimeParams["idle_in_transaction_session_timeout"] = "60000"
	for i := 0; i+1 < len(params); i += 2 {
		cfg.ConnConfig.RuntimeParams[params[i]] = params[i+1]
	}
	cfg.ConnConfig.ConnectTimeout = 10 * time.Second
	if o.Dial != nil {
		cfg.ConnConfig.DialFunc = o.Dial
	}
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database: %w", err)
	}
	return pool, nil
}

// ErrURL says that a database URL cannot be understood.
var ErrURL = errors.New("cannot be understood; expected postgres://user@host/database")

// redactURL keeps a password in a malformed URL out of the error.
func redactURL(err error) error {
	var parse *pgconn.ParseConfigError
	if errors.As(err, &parse) {
		return ErrURL
	}
	return err
}

// Tx is one transaction. At is its one instant, UTC, from the injected clock: everything written
// in it carries this time.
type Tx struct {
	pgx.Tx
	At    time.Time
	store *Store
}

const txTries = 6

// InTx runs fn in a transaction and commits. Serialisation failures, deadlocks and lock time-outs
// run the whole of fn again, with a pause that grows (F14): fn must have no effect outside the
// database. fn's own errors come back as they are. Where ctx carries a transaction, fn runs within
// that one, as a part that is undone alone.
func (s *Store) InTx(ctx context.Context, fn func(*Tx) error) error {
	return s.inTx(ctx, s.pool, fn)
}

// InWorkTx is InTx on the connections kept for commands and plan ends (F13).
func (s *Store) InWorkTx(ctx context.Context, fn func(*Tx) error) error {
	return s.inTx(ctx, s.work, fn)
}

func (s *Store) inTx(ctx context.Context, pool pool, fn func(*Tx) error) error {
	if outer := carried(ctx); outer != nil {
		return pgx.BeginFunc(ctx, outer, func(tx pgx.Tx) error { return fn(&Tx{Tx: tx, At: outer.At, store: s}) })
	}
	for try := 1; ; try++ {
		err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
			return fn(&Tx{Tx: tx, At: s.Now(), store: s})
		})
		if err == nil || try == txTries || !mayRepeat(err) {
			return err
		}
		if err := waitForOthers(ctx, try); err != nil {
			return err
		}
	}
}

// waitForOthers waits before a transaction is tried again for that many times. It goes by the machine's time, whatever the
// store's clock says: it is another transaction that is waited for.
func waitForOthers(ctx context.Context, tries int) error {
	return clock.System().Sleep(ctx, time.Duration(1<<tries)*5*time.Millisecond+time.Duration(rand.IntN(10))*time.Millisecond)
}

// mayRepeat says whether the transaction was surely rolled back for a passing reason.
func mayRepeat(err error) bool {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return false
	}
	switch pg.Code {
	case "40001", "40P01", "55P03": // serialization_failure, deadlock_detected, lock_not_available
		return true
	}
	return false
}

// IsUnique says whether err is a violation of the named unique constraint or index.
func IsUnique(err error, name string) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && pg.Code == "23505" && pg.ConstraintName == name
}

// IsDiskFull says whether the database could not write for lack of space (F12).
func IsDiskFull(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == "53100" || pg.Code == "58030")
}

// one scans exactly one row, turning "no rows" into ErrNotFound.
func one(row pgx.Row, dest ...any) error {
	err := row.Scan(dest...)
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrNotFound
	}
	return err
}

// execer is what a pool and a transaction have in common.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Analyze refreshes the database's statistics of the tables that a large import has filled: until
// then it plans as if they were empty.
func (s *Store) Analyze(ctx context.Context) error {
	if _, err := s.pool.Exec(ctx, `ANALYZE sim, poll_state, subscription`); err != nil {
		return fmt.Errorf("analyze: %w", err)
	}
	return nil
}
