package pgembed

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

const (
	// initNeedsBytes is a fresh cluster (about 40 MB) with its first log segments and some air.
	initNeedsBytes = 128 << 20
	// fullBelowBytes is one log segment: with less, the server cannot start.
	fullBelowBytes = 16 << 20
)

var (
	// ErrDiskFull means that the data directory's disk has no room. Nothing was lost; it works
	// again when there is room.
	ErrDiskFull = errors.New("the disk is full")
	// ErrDamaged means that the cluster's files are not what Postgres left there. They are never
	// repaired or replaced: only a person can say what they are worth.
	ErrDamaged = errors.New("the database's files are damaged")
)

// clusterMajor is the major version that the cluster was made by, 0 when there is no cluster yet.
func clusterMajor(cluster string) (int, error) {
	entries, err := os.ReadDir(cluster)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(entries) == 0 {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("look at the database in %s: %w", cluster, err)
	}
	text, err := os.ReadFile(filepath.Join(cluster, "PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("%w: %s is not empty but has no PG_VERSION; put a backup in its place, or move it away to start with an empty database",
			ErrDamaged, cluster)
	}
	if err != nil {
		return 0, fmt.Errorf("read the version of the database: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || major <= 0 {
		return 0, fmt.Errorf("%w: %s says %.20q, which is no version; put a backup in place of %s",
			ErrDamaged, filepath.Join(cluster, "PG_VERSION"), text, cluster)
	}
	return major, nil
}

// initCluster makes a cluster beside its final place and moves it there when it is complete, so
// that a half-made one is never taken for a database. The caller holds the owner's lock.
func initCluster(ctx context.Context, l layout, b binaries, a account) error {
	if free, err := freeBytes(l.data); err == nil && free < initNeedsBytes {
		return fmt.Errorf("make a database in %s: %w: %d MB are free and %d are needed", l.data, ErrDiskFull, free>>20, initNeedsBytes>>20)
	}
	half, err := filepath.Glob(l.file("postgres.new-*"))
	if err != nil {
		return fmt.Errorf("look for half-made databases: %w", err)
	}
	for _, dir := range half {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove half-made database: %w", err)
		}
	}
	fresh, err := os.MkdirTemp(l.data, "postgres.new-")
	if err != nil {
		return fmt.Errorf("make a database: %w", plainDiskFull(err, l.data))
	}
	defer os.RemoveAll(fresh) // moved away when all went well
	if err := a.handOver(fresh); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, b.path("initdb"), "-D", fresh, "--username="+databaseUser, "--encoding=UTF8",
		"--locale=C", "--auth=peer", "--data-checksums")
	serverEnvironment(cmd, b, a)
	// The parent-death signal comes when the thread that started the child ends.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("make a database in %s: %w", l.data, context.Cause(ctx))
		}
		return explain(fmt.Errorf("make a database with %s: %w", b.path("initdb"), err), out.String(), l, a)
	}
	// An empty folder may be in the way; rename replaces it, and fails on anything else.
	if err := os.Rename(fresh, l.cluster); err != nil {
		return fmt.Errorf("put the new database in its place: %w", err)
	}
	return nil
}

// serverEnvironment keeps our own variables (PGDATA, TZ, LC_ALL, credentials) from the server.
func serverEnvironment(cmd *exec.Cmd, b binaries, a account) {
	cmd.Dir = "/" // our working directory may be closed to the account
	cmd.Env = []string{"PATH=" + b.dir + ":/usr/bin:/bin", "LC_ALL=C", "LANG=C", "TZ=UTC", "HOME=/"}
	cmd.SysProcAttr = attributes()
	if a.switched {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
	}
}

// freeBytes is what an ordinary user can still write on the disk of dir.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, fmt.Errorf("ask for free space in %s: %w", dir, err)
	}
	return int64(st.Bavail) * int64(st.Bsize), nil //nolint:unconvert // Bsize is an int32 on some platforms
}

func plainDiskFull(err error, where string) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return fmt.Errorf("%w: free some space where %s is (%w)", ErrDiskFull, where, err)
	}
	return err
}
