package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // goose speaks database/sql
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// ErrNewerDatabase says that the database was written by a newer simwarden.
var ErrNewerDatabase = errors.New("the database was written by a newer simwarden; install that version or newer, nothing was changed")

// ErrOldDatabase says that migrations are missing.
var ErrOldDatabase = errors.New("the database is older than this simwarden; run: simwarden migrate")

// Migrate brings the schema up to this program's version, one caller at a time however many
// start at once, and makes the partitions of the next months. A newer database is ErrNewerDatabase.
func Migrate(ctx context.Context, url string) error {
	// The driver would parse it at the first query only, and quote it.
	if _, err := pgx.ParseConfig(url); err != nil {
		return fmt.Errorf("database url: %w", redactURL(err))
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return fmt.Errorf("migrate: %w", redactURL(err))
	}
	defer db.Close()
	provider, err := newProvider(db)
	if err != nil {
		return err
	}
	if err := newerThanUs(ctx, provider); err != nil {
		return err
	}
	if _, err := provider.Up(ctx); err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return nil
}

func newProvider(db *sql.DB) (*goose.Provider, error) {
	locker, err := lock.NewPostgresSessionLocker()
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	dir, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, dir, goose.WithSessionLocker(locker))
	if err != nil {
		return nil, fmt.Errorf("migrate: %w", err)
	}
	return provider, nil
}

func newerThanUs(ctx context.Context, provider *goose.Provider) error {
	has, want, err := provider.GetVersions(ctx)
	if err != nil {
		return fmt.Errorf("migrate: read version: %w", err)
	}
	if has > want {
		return fmt.Errorf("%w (its schema is %d, ours %d)", ErrNewerDatabase, has, want)
	}
	return nil
}

// SchemaVersion is the version this program was built for.
func SchemaVersion() int64 {
	entries, err := migrationFiles.ReadDir("migrations")
	if err != nil {
		panic(err) // embedded: a mistake in the build
	}
	var newest int64
	for _, e := range entries {
		if v, err := goose.NumericComponent(e.Name()); err == nil && v > newest {
			newest = v
		}
	}
	return newest
}

// CheckVersion compares the database's schema with the program's: ErrOldDatabase or
// ErrNewerDatabase where they differ.
func (s *Store) CheckVersion(ctx context.Context) error {
	has, err := s.DatabaseVersion(ctx)
	if err != nil {
		return err
	}
	switch want := SchemaVersion(); {
	case has < want:
		return fmt.Errorf("%w (its schema is %d, ours %d)", ErrOldDatabase, has, want)
	case has > want:
		return fmt.Errorf("%w (its schema is %d, ours %d)", ErrNewerDatabase, has, want)
	}
	return nil
}

// DatabaseVersion is the schema version in the database, 0 for an empty one.
func (s *Store) DatabaseVersion(ctx context.Context) (int64, error) {
	var exists bool
	if err := s.pool.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NOT NULL`).Scan(&exists); err != nil {
		return 0, fmt.Errorf("database: %w", err)
	}
	if !exists {
		return 0, nil
	}
	var has int64
	err := s.pool.QueryRow(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&has)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return 0, fmt.Errorf("database version: %w", err)
	}
	return has, nil
}

// IsEmpty says whether the database has never been migrated.
func IsEmpty(ctx context.Context, url string) (bool, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return false, fmt.Errorf("database: %w", redactURL(err))
	}
	defer func() { _ = conn.Close(ctx) }()
	var empty bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('goose_db_version') IS NULL`).Scan(&empty); err != nil {
		return false, fmt.Errorf("database: %w", err)
	}
	return empty, nil
}
