// Package storetest gives each test a database of its own on a real Postgres: one server for a test
// process, one migrated template in it, one copy of that for a test.
//
// The server is a private one that ends with the process, however that ends, unless
// TEST_DATABASE_URL names another whose user may create databases.
//
// It does not import the store, so that the store's own tests can use it: whoever calls brings the
// function that migrates.
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// EnvURL names, as a URL, the database that overrides the private server.
const EnvURL = "TEST_DATABASE_URL"

// Migrate brings the schema of the database at url up to date, and closes its connections.
type Migrate func(ctx context.Context, url string) error

// Main runs the tests of a package, stops the server and ends the process:
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
func Main(m *testing.M) { os.Exit(Run(m)) }

// Run is Main for those who have more to do afterwards: it returns the exit code.
func Run(m *testing.M) int {
	shared.mu.Lock()
	shared.running = true
	shared.mu.Unlock()
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintln(os.Stderr, "storetest:", err)
		code = max(code, 1)
	}
	return code
}

// URL makes a database for this test alone, migrated, and drops it when the test ends, cutting
// connections that are still open. migrate is called once in a process; nil gives an empty
// database. It may be called several times in a test, and in parallel.
func URL(t testing.TB, migrate Migrate) string {
	t.Helper()
	u, drop, err := shared.database(t.Context(), migrate)
	if err != nil {
		t.Fatalf("make a database for the test: %v", err)
	}
	t.Cleanup(func() {
		if err := drop(context.Background()); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return u
}

// Pool is URL with a pool of connections to it, closed when the test ends.
func Pool(t testing.TB, migrate Migrate) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), URL(t, migrate))
	if err != nil {
		t.Fatalf("connect to the test's database: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// shared is the server of this test process.
var shared cluster

// cluster is a server and the templates in it. The zero value has not been started.
type cluster struct {
	mu        sync.Mutex
	running   bool // under Run, which closes it
	started   bool
	err       error // of the start; it is not tried again
	admin     *pgxpool.Pool
	base      *url.URL
	private   *private // nil with EnvURL
	templates map[uintptr]template
}

type template struct {
	name string
	err  error
}

// database makes one copy of the template that belongs to migrate.
func (c *cluster) database(ctx context.Context, migrate Migrate) (u string, drop func(context.Context) error, err error) {
	source, err := c.template(ctx, migrate)
	if err != nil {
		return "", nil, err
	}
	name := freshName("test")
	if err := c.create(ctx, name, source); err != nil {
		return "", nil, err
	}
	return c.address(name), func(ctx context.Context) error { return c.drop(ctx, name) }, nil
}

// template starts the server and migrates, each at the first call.
func (c *cluster) template(ctx context.Context, migrate Migrate) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.running {
		return "", errors.New("storetest has nobody to stop its server: add func TestMain(m *testing.M) { storetest.Main(m) }")
	}
	if !c.started {
		c.started = true
		c.err = c.start(ctx)
	}
	if c.err != nil {
		return "", c.err
	}
	if migrate == nil {
		return "template0", nil
	}
	key := reflect.ValueOf(migrate).Pointer()
	if t, ok := c.templates[key]; ok {
		return t.name, t.err
	}
	t := template{name: freshName("template")}
	if t.err = c.create(ctx, t.name, "template0"); t.err == nil {
		if err := migrate(ctx, c.address(t.name)); err != nil {
			t.err = fmt.Errorf("migrate the template: %w", err)
		}
	}
	c.templates[key] = t
	return t.name, t.err
}

// start must be called with mu held.
func (c *cluster) start(ctx context.Context) error {
	c.templates = map[uintptr]template{}
	address := os.Getenv(EnvURL)
	if address == "" {
		p, err := startPrivate(ctx)
		if err != nil {
			return err
		}
		c.private, address = p, p.server.URL()
	}
	u, err := url.Parse(address)
	if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
		return fmt.Errorf("%s is not a URL of the form postgres://user@host/database", EnvURL) // not quoted: it may hold a password
	}
	c.base = u
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return fmt.Errorf("%s cannot be understood", EnvURL)
	}
	cfg.MaxConns = 4
	// The context of the first test ends with it; the pool lives on.
	if c.admin, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg); err != nil {
		return fmt.Errorf("connect to the test server: %w", err)
	}
	return nil
}

func (c *cluster) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	if c.admin != nil {
		if c.private == nil { // else they go with the server
			for _, t := range c.templates {
				errs = append(errs, c.drop(context.Background(), t.name))
			}
		}
		c.admin.Close()
	}
	if c.private != nil {
		errs = append(errs, c.private.close())
	}
	return errors.Join(errs...)
}

func (c *cluster) create(ctx context.Context, name, source string) error {
	_, err := c.admin.Exec(ctx, fmt.Sprintf(`CREATE DATABASE %s TEMPLATE %s ENCODING 'UTF8' LOCALE_PROVIDER libc LOCALE 'C'`,
		pgx.Identifier{name}.Sanitize(), pgx.Identifier{source}.Sanitize()))
	if err != nil {
		return fmt.Errorf("create database %s: %w", name, err)
	}
	return nil
}

func (c *cluster) drop(ctx context.Context, name string) error {
	_, err := c.admin.Exec(ctx, `DROP DATABASE IF EXISTS `+pgx.Identifier{name}.Sanitize()+` WITH (FORCE)`)
	if err != nil {
		return fmt.Errorf("drop database %s: %w", name, err)
	}
	return nil
}

func (c *cluster) address(database string) string {
	u := *c.base
	u.Path = "/" + database
	return u.String()
}

// freshName is unique on a server that several test processes share.
func freshName(kind string) string {
	return "simwarden_" + kind + "_" + strings.ToLower(rand.Text()[:12])
}
