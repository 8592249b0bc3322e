package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// pidFile is what a running server says of itself in postmaster.pid.
//
// Source: PostgreSQL documentation, "Database File Layout", and src/include/utils/pidfile.h for
// the order of its lines.
type pidFile struct {
	pid       int
	socketDir string // empty while the server starts
}

// readPIDFile returns the zero value when there is none.
func readPIDFile(cluster string) (pidFile, error) {
	text, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
	if errors.Is(err, fs.ErrNotExist) {
		return pidFile{}, nil
	}
	if err != nil {
		return pidFile{}, fmt.Errorf("read who runs the database: %w", err)
	}
	lines := strings.Split(string(text), "\n")
	// A disk that filled up leaves an empty file: nobody's.
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 1 {
		return pidFile{}, nil
	}
	p := pidFile{pid: pid}
	if len(lines) > 4 {
		p.socketDir = strings.TrimSpace(lines[4])
	}
	return p, nil
}

const (
	fastStopWithin      = 30 * time.Second // SIGINT: sessions are cut, a checkpoint is written
	immediateStopWithin = 10 * time.Second // SIGQUIT: no checkpoint; the next start replays the log
)

// stopLeftover ends a server of this cluster that outlived its parent, and removes the mark of one
// that is long gone. The caller holds the owner's lock, so no living process of ours runs it.
func stopLeftover(ctx context.Context, l layout, log func(msg string, args ...any)) error {
	p, err := readPIDFile(l.cluster)
	if err != nil {
		return err
	}
	mark := filepath.Join(l.cluster, "postmaster.pid")
	if p.pid == 0 || !isServerOf(p.pid, l.cluster) {
		// Postgres would take an unrelated process with this number for a living server.
		if err := os.Remove(mark); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the mark of a server that is gone: %w", err)
		}
		return nil
	}
	log("a database server was left over and is stopped first", "pid", p.pid)
	for _, step := range []struct {
		signal syscall.Signal
		within time.Duration
	}{{syscall.SIGINT, fastStopWithin}, {syscall.SIGQUIT, immediateStopWithin}} {
		if err := syscall.Kill(p.pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the server left over as process %d: %w", p.pid, err)
		}
		wait, cancel := context.WithTimeout(ctx, step.within)
		err := poll(wait, func() (bool, error) { return !isServerOf(p.pid, l.cluster), nil })
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("stop the server left over as process %d: %w", p.pid, context.Cause(ctx))
		}
	}
	return fmt.Errorf("stop the server left over as process %d: it did not end within %s; end it with: kill -9 %d",
		p.pid, fastStopWithin+immediateStopWithin, p.pid)
}
