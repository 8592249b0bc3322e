// Package pgembed runs the Postgres that comes with simwarden: it finds the installed programs,
// makes the cluster, starts the server on a Unix socket, and ends it with the process that started
// it. Several processes of ours share one server; Open says who runs it.
//
// There is no port and no password: the socket's folder is closed to all but the server's user, and
// the server asks the kernel who is calling (peer authentication).
package pgembed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// ErrInUse means that another living process of ours runs the server of this data directory.
var ErrInUse = errors.New("another process runs this database")

// Options say where the database is. The zero value of all but DataDir is right for production.
type Options struct {
	// DataDir holds the cluster, its settings, log and locks. It is made where it is missing.
	DataDir string
	// RunDir holds the socket, "" for a short folder of our own choice.
	RunDir string
	// BinDir holds postgres and initdb, "" for EnvBinDir, else the usual places.
	BinDir string
	// Log gets a line for each start, stop and wait; nil is silent.
	Log *slog.Logger
	// Own, for Open: when another process runs the server, wait until it has ended and run it
	// ourselves, and start it again when it ends by itself. For those who stay, such as serve: an
	// attached process loses its database when the one that runs it goes.
	Own bool
	// Wait bounds, for Open, how long to wait for others, and for Close, how long the process that
	// runs the server waits for those attached. 0 is 30 seconds.
	Wait time.Duration
	// Fast gives up durability: fsync is off. For tests only.
	Fast bool
}

func (o Options) log(msg string, args ...any) {
	if o.Log != nil {
		o.Log.Info(msg, args...)
	}
}

func (o Options) wait() time.Duration {
	if o.Wait > 0 {
		return o.Wait
	}
	return 30 * time.Second
}

// readyWithin bounds a start. A server that was killed replays up to max_wal_size of its log first.
const readyWithin = 10 * time.Minute

// Server is a running Postgres, child of this process.
type Server struct {
	opts  Options
	l     layout
	log   serverLog
	owner fileLock
	cmd   *exec.Cmd

	exited chan struct{} // closed when the process has ended; exit is set before
	exit   error
	died   chan struct{} // closed after exited unless it was stopped by us

	mu       sync.Mutex
	stopping bool
}

// Start runs the server of a data directory, makes its cluster if there is none, and returns when
// the database answers. It fails with ErrInUse while another process of ours runs it; with
// ErrNoBinaries, ErrPermission, ErrDiskFull or ErrDamaged in the text of which is what to do.
// The context bounds the start, not the server's life.
func Start(ctx context.Context, opts Options) (*Server, error) {
	l, err := newLayout(opts.DataDir, opts.RunDir)
	if err != nil {
		return nil, err
	}
	owner, err := openLock(l.file(ownerFile))
	if err != nil {
		return nil, err
	}
	ok, err := owner.try(unix.LOCK_EX)
	if err == nil && !ok {
		err = inUse(l, owner)
	}
	if err != nil {
		owner.release()
		return nil, err
	}
	s, err := start(ctx, opts, l, owner)
	if err != nil {
		owner.release()
		return nil, err
	}
	return s, nil
}

func inUse(l layout, owner fileLock) error {
	who := "another process"
	if h := lockHolders(owner.f); len(h) > 0 {
		who = "process " + h[0]
	}
	return fmt.Errorf("%w: %s has %s open; stop it first, or choose another data directory", ErrInUse, who, l.data)
}

// start does the work of Start. owner is held, and is the server's from here on unless it fails.
func start(ctx context.Context, opts Options, l layout, owner fileLock) (*Server, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWithin,
		fmt.Errorf("the database in %s did not answer within %s; see %s", l.data, readyWithin, l.file(LogFile)))
	defer cancel()
	major, err := clusterMajor(l.cluster)
	if err != nil {
		return nil, err
	}
	b, err := findBinaries(ctx, opts.BinDir, major)
	if err != nil {
		return nil, err
	}
	a, err := serverAccount(l)
	if err != nil {
		return nil, err
	}
	if err := checkReach(l.cluster, a); err != nil {
		return nil, err
	}
	if err := stopLeftover(ctx, l, opts.log); err != nil {
		return nil, err
	}
	if err := prepareRunDir(l.run, a); err != nil {
		return nil, err
	}
	if major == 0 {
		opts.log("making a database", "dir", l.data, "postgres", b.full)
		if err := initCluster(ctx, l, b, a); err != nil {
			return nil, err
		}
	}
	if err := a.handOver(l.cluster); err != nil {
		return nil, err
	}
	if err := writeSettings(l, a, opts.Fast, false); err != nil {
		return nil, err
	}
	s := &Server{opts: opts, l: l, owner: owner}
	if s.log, err = openLog(l); err != nil {
		return nil, err
	}
	if err := s.log.rotate(); err != nil {
		_ = s.log.f.Close()
		return nil, err
	}
	if err := s.launch(ctx, b, a); err != nil {
		_ = s.log.f.Close()
		return nil, err
	}
	go s.watch()
	opts.log("the database is ready", "dir", l.data, "postgres", b.full, "pid", s.cmd.Process.Pid)
	return s, nil
}

// launch starts the process and waits until its database answers. Right after a kill -9 the
// processes of the earlier server may need a moment to end, so that case is tried again.
func (s *Server) launch(ctx context.Context, b binaries, a account) error {
	retry, cancel := context.WithTimeout(ctx, immediateStopWithin)
	defer cancel()
	var failed error
	err := poll(retry, func() (bool, error) {
		from := s.log.size()
		failed = s.spawn(b, a)
		if failed != nil {
			return false, failed
		}
		if failed = s.awaitReady(ctx, a); failed == nil {
			return true, nil
		}
		s.end(context.WithoutCancel(ctx))
		if ctx.Err() != nil {
			return false, failed
		}
		failed = explain(failed, s.log.since(from), s.l, a)
		if errors.Is(failed, errBusyMemory) {
			return false, nil
		}
		return false, failed
	})
	if err != nil {
		return fmt.Errorf("start the database in %s: %w", s.l.data, failed)
	}
	return nil
}

// spawn starts the process on a thread that lives as long as it does: the kernel sends the
// parent-death signal when the thread ends that made the child, not the process.
func (s *Server) spawn(b binaries, a account) error {
	cmd := exec.Command(b.path("postgres"), append([]string{"-D", s.l.cluster}, enforced(s.l)...)...)
	serverEnvironment(cmd, b, a)
	cmd.Stdout, cmd.Stderr = s.log.f, s.log.f
	s.cmd, s.exited, s.died = cmd, make(chan struct{}), make(chan struct{})
	started, exited := make(chan error, 1), s.exited
	go func() {
		runtime.LockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		if s.exit = cmd.Wait(); s.exit == nil {
			s.exit = errors.New("exit status 0")
		}
		close(exited)
	}()
	if err := <-started; err != nil {
		return fmt.Errorf("run %s: %w", b.path("postgres"), err)
	}
	return nil
}

// awaitReady waits for the first connection and makes the database where it is missing.
func (s *Server) awaitReady(ctx context.Context, a account) error {
	var conn *pgx.Conn
	err := poll(ctx, func() (bool, error) {
		select {
		case <-s.exited:
			return false, fmt.Errorf("the server ended: %w", s.exit)
		default:
		}
		c, err := pgx.Connect(ctx, databaseURL(s.l.run, "postgres"))
		conn = c
		return err == nil, nil // not listening yet, or still replaying its log
	})
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var exists, lz4 bool
	err = conn.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1),
		EXISTS (SELECT FROM pg_settings WHERE name = 'wal_compression' AND 'lz4' = ANY (enumvals))`,
		DatabaseName).Scan(&exists, &lz4)
	if err != nil {
		return fmt.Errorf("look for the database: %w", err)
	}
	if !exists {
		if _, err := conn.Exec(ctx, `CREATE DATABASE `+DatabaseName+` TEMPLATE template0 ENCODING 'UTF8' LOCALE 'C'`); err != nil {
			return fmt.Errorf("make database %s: %w", DatabaseName, err)
		}
	}
	if lz4 {
		if err := writeSettings(s.l, a, s.opts.Fast, true); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, `SELECT pg_reload_conf()`); err != nil {
			return fmt.Errorf("have the server read its settings: %w", err)
		}
	}
	return nil
}

// watch bounds the log while the server runs and tells of its unexpected end.
func (s *Server) watch() {
	t := time.NewTicker(logCheckEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			if err := s.log.rotate(); err != nil {
				s.opts.log("the database's log could not be shortened", "error", err.Error())
			}
		case <-s.exited:
			_ = s.log.f.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			if !s.stopping {
				s.opts.log("the database server ended by itself", "error", fmt.Sprint(s.exit), "log", s.l.file(LogFile))
				close(s.died)
			}
			return
		}
	}
}

// URL is the address of the database, for pgx. It holds no secret.
func (s *Server) URL() string { return databaseURL(s.l.run, DatabaseName) }

// databaseURL names port and sslmode so that PGPORT and PGSSLMODE of the environment do not count.
func databaseURL(run, database string) string {
	q := url.Values{"host": {run}, "port": {strconv.Itoa(socketPort)}, "user": {databaseUser}, "sslmode": {"disable"}}
	return "postgres:///" + database + "?" + q.Encode()
}

// Done is closed when the server ended and nobody had stopped it.
func (s *Server) Done() <-chan struct{} { return s.died }

// Stop ends the server: sessions are cut, a checkpoint is written. When that takes longer than 30 s
// or ctx ends, it is made to end without a checkpoint, which loses nothing but makes the next start
// slower. A second call waits like the first.
func (s *Server) Stop(ctx context.Context) error {
	s.mu.Lock()
	s.stopping = true
	s.mu.Unlock()
	clean := s.end(ctx)
	s.owner.release()
	if !clean {
		return fmt.Errorf("stop the database in %s: it had to be ended without a checkpoint; the next start takes longer", s.l.data)
	}
	return nil
}

// end signals the process until it has ended, and says whether the first signal was enough.
func (s *Server) end(ctx context.Context) (clean bool) {
	select {
	case <-s.exited: // its number may be somebody else's by now
		return true
	default:
	}
	for i, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGINT, fastStopWithin}, {syscall.SIGQUIT, immediateStopWithin}, {syscall.SIGKILL, immediateStopWithin}} {
		if err := s.cmd.Process.Signal(step.signal); errors.Is(err, os.ErrProcessDone) {
			<-s.exited
			return i == 0
		}
		bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), step.within)
		giveUp := ctx.Done()
		if i > 0 {
			giveUp = nil // ctx shortens only the friendly part
		}
		select {
		case <-s.exited:
			cancel()
			return i == 0
		case <-giveUp:
		case <-bound.Done():
		}
		cancel()
	}
	return false
}
