package storetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/simwarden/simwarden/internal/pgembed"
)

// cacheFormat changes when pgembed makes its clusters in another way.
const cacheFormat = "1"

// private is a server of this process, in a folder of its own that nobody else touches while its
// lock is held.
type private struct {
	server *pgembed.Server
	dir    string
	lock   *os.File
}

// startPrivate copies the cached cluster, which takes a fifth of the time that making one does, and
// starts a server on the copy. Folders of test processes that were killed are removed on the way.
func startPrivate(ctx context.Context) (*private, error) {
	base, err := baseDir()
	if err != nil {
		return nil, err
	}
	gate, err := flock(filepath.Join(base, "lock"), unix.LOCK_EX)
	if err != nil {
		return nil, err
	}
	cached, err := cache(ctx, base)
	var p *private
	if err == nil {
		err = sweep(base)
	}
	if err == nil {
		p, err = claimDir(base)
	}
	_ = gate.Close() // closing unlocks
	if err != nil {
		return nil, err
	}
	cluster := filepath.Join(p.dir, "postgres")
	err = os.CopyFS(cluster, os.DirFS(cached))
	if err == nil {
		err = os.Chmod(cluster, 0o700) // Postgres refuses a cluster that others can read
	}
	if err == nil {
		p.server, err = pgembed.Start(ctx, pgembed.Options{DataDir: p.dir, RunDir: filepath.Join(p.dir, "r"), Fast: true})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start a database for the tests: %w", err), p.close())
	}
	return p, nil
}

func (p *private) close() error {
	var stopped error
	if p.server != nil {
		stopped = p.server.Stop(context.Background())
	}
	removed := os.RemoveAll(p.dir)
	_ = p.lock.Close()
	return errors.Join(stopped, removed)
}

// baseDir is one folder for each user, which the server's account can pass through but not read.
// In a shared /tmp somebody else's folder of that name would be a trap.
func baseDir() (string, error) {
	dir := filepath.Join(os.TempDir(), "simwarden-test-"+strconv.Itoa(os.Geteuid()))
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make the tests' folder: %w", err)
	}
	st, err := os.Lstat(dir)
	if err != nil {
		return "", fmt.Errorf("look at the tests' folder: %w", err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !st.IsDir() || !ok || int(sys.Uid) != os.Geteuid() {
		return "", fmt.Errorf("use the tests' folder %s: it is not ours; set TMPDIR to another place", dir)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // whatever the umask was
		return "", fmt.Errorf("open the tests' folder: %w", err)
	}
	return dir, nil
}

// cache returns a stopped cluster of the installed version, made at the first call on a machine.
func cache(ctx context.Context, base string) (string, error) {
	version, err := pgembed.Installed(ctx, "")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(base, "cache-"+cacheFormat+"-"+version)
	cluster := filepath.Join(dir, "postgres")
	if _, err := os.Stat(filepath.Join(cluster, "PG_VERSION")); err == nil {
		return cluster, nil
	}
	fresh := dir + ".new"
	if err := os.RemoveAll(fresh); err != nil {
		return "", fmt.Errorf("remove a half-made cluster: %w", err)
	}
	s, err := pgembed.Start(ctx, pgembed.Options{DataDir: fresh, RunDir: filepath.Join(fresh, "r"), Fast: true})
	if err != nil {
		return "", fmt.Errorf("make a cluster for the tests: %w", err)
	}
	if err := s.Stop(ctx); err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", fmt.Errorf("remove a damaged cluster: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return "", fmt.Errorf("keep a cluster for the tests: %w", err)
	}
	return cluster, nil
}

// claimDir makes a folder and locks it. The caller holds the gate, so no sweep sees it unlocked.
func claimDir(base string) (*private, error) {
	dir, err := os.MkdirTemp(base, "run-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for the tests' database: %w", err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		return nil, fmt.Errorf("open the folder of the tests' database: %w", err)
	}
	lock, err := flock(filepath.Join(dir, "alive"), unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return nil, err
	}
	return &private{dir: dir, lock: lock}, nil
}

// sweep removes the folders whose process is gone. The caller holds the gate.
func sweep(base string) error {
	dirs, err := filepath.Glob(filepath.Join(base, "run-*"))
	if err != nil {
		return fmt.Errorf("look for old folders of tests: %w", err)
	}
	for _, dir := range dirs {
		lock, err := flock(filepath.Join(dir, "alive"), unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		// Its server may be ending just now and write a last file; then the next sweep gets it.
		_ = os.RemoveAll(dir)
		_ = lock.Close()
	}
	return nil
}

func flock(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for {
		err := unix.Flock(int(f.Fd()), how)
		if err == nil {
			return f, nil
		}
		if !errors.Is(err, unix.EINTR) {
			_ = f.Close()
			return nil, fmt.Errorf("lock %s: %w", path, err)
		}
	}
}
