package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/clock"
	"github.com/simwarden/simwarden/internal/pgembed"
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store"
)

// The environment's words for --data-dir and --database-url.
const (
	dataDirEnv     = "SIMWARDEN_DATA"
	databaseURLEnv = "SIMWARDEN_DATABASE_URL"
)

// env is an opened installation: its database, keys and operations.
type env struct {
	*api.Service
	URL     string
	DataDir string
	Log     *slog.Logger
	pg      *pgembed.Handle
}

// logger logs to standard error; more with --verbose.
func (g *Globals) logger() *slog.Logger {
	level := slog.LevelWarn
	if g.Verbose {
		level = slog.LevelDebug
	}
	return slog.New(slog.NewTextHandler(g.Err, &slog.HandlerOptions{Level: level}))
}

func (g *Globals) dataDir() (string, error) {
	if g.DataDir != "" {
		return filepath.Abs(g.DataDir)
	}
	return pgembed.DefaultDataDir()
}

// clockStep is how far a clock may step before lapsing waits for a person (C10).
const clockStep = 5 * time.Minute

// openOptions say how an installation is opened.
type openOptions struct {
	own     bool // serve and demo: keep the private Postgres up, whoever else comes and goes
	migrate bool // bring the schema up to date
	await   bool // serve: wait for a database of one's own choice that does not answer
	conns   int32
	fast    bool
}

// database starts or finds the database and gives its URL.
func (g *Globals) database(ctx context.Context, log *slog.Logger, o openOptions) (url, dir string, pg *pgembed.Handle, err error) {
	if dir, err = g.dataDir(); err != nil {
		return "", "", nil, err
	}
	if g.DatabaseURL != "" {
		return g.DatabaseURL, dir, nil, nil
	}
	pg, err = pgembed.Open(ctx, pgembed.Options{DataDir: dir, Log: log, Own: o.own, Fast: o.fast})
	if err != nil {
		return "", "", nil, err
	}
	return pg.URL(), dir, pg, nil
}

// open opens the installation. A database that was never migrated is migrated: nobody has to run
// a command before the first one.
func (g *Globals) open(ctx context.Context, o openOptions) (*env, error) {
	log := g.logger()
	url, dir, pg, err := g.database(ctx, log, o)
	if err != nil {
		return nil, err
	}
	e := &env{URL: url, DataDir: dir, Log: log, pg: pg}
	connect := func(ctx context.Context) error { return e.connect(ctx, o) }
	if o.await && pg == nil {
		err = app.AwaitDatabase(ctx, clock.System(), log, connect)
	} else {
		err = connect(ctx)
	}
	if err != nil {
		e.close()
		return nil, err
	}
	return e, nil
}

func (e *env) connect(ctx context.Context, o openOptions) error {
	s, err := e.openStore(ctx, o)
	if err != nil {
		return err
	}
	ring, err := e.keyring(ctx, s)
	if err != nil {
		s.Close()
		return err
	}
	e.Service = &api.Service{Store: s, Clock: clock.System(), Keyring: ring}
	return nil
}

func (e *env) openStore(ctx context.Context, o openOptions) (*store.Store, error) {
	if o.migrate {
		if err := store.Migrate(ctx, e.URL); err != nil {
			return nil, err
		}
	}
	s, err := store.Open(ctx, store.Options{URL: e.URL, Conns: o.conns, ClockBound: clockStep})
	if errors.Is(err, store.ErrOldDatabase) && !o.migrate {
		if fresh, ferr := store.IsEmpty(ctx, e.URL); ferr == nil && fresh {
			o.migrate = true
			return e.openStore(ctx, o)
		}
	}
	if err != nil || !o.migrate {
		return s, err
	}
	if _, err := s.EnsurePartitions(ctx, s.Now()); err != nil {
		s.Close()
		return nil, fmt.Errorf("make partitions: %w", err)
	}
	if err := s.SyncRules(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// keyring opens the key file, and makes one only where nothing has been sealed yet.
func (e *env) keyring(ctx context.Context, s *store.Store) (*secret.Keyring, error) {
	if err := os.MkdirAll(e.DataDir, 0o711); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	path := filepath.Join(e.DataDir, "keys")
	ring, err := secret.Load(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return ring, err
	}
	sealed, err := s.HasCredentials(ctx)
	if err != nil {
		return nil, err
	}
	if sealed {
		return nil, fmt.Errorf("the key file %s is missing, and the database holds credentials sealed with it; "+
			"put it back from your copy, or set %s", path, secret.KeyEnv)
	}
	return secret.LoadOrCreate(path)
}

// close gives everything back; a private Postgres that this command started is stopped.
func (e *env) close() {
	if e.Service != nil {
		e.Store.Close()
	}
	if e.pg == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := e.pg.Close(ctx); err != nil {
		e.Log.Warn("stop the private Postgres", "error", err)
	}
}

// with opens the installation, runs fn and closes it again.
func (g *Globals) with(ctx context.Context, fn func(*env) error) error {
	e, err := g.open(ctx, openOptions{conns: 4})
	if err != nil {
		return err
	}
	defer e.close()
	return fn(e)
}
