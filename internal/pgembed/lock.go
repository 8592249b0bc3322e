package pgembed

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// pollEvery is how often a lock or a process that gives no event is looked at.
const pollEvery = 20 * time.Millisecond

// Two files in the data directory say who uses the database. The kernel drops a lock when its
// process dies, however it dies.
const (
	ownerFile = "owner.lock" // exclusive: the process that runs the server; holds its pid
	usersFile = "users.lock" // shared: everyone who uses it; exclusive: the owner, while stopping
)

// fileLock is an open file for flock(2). The lock belongs to this opening of the file, so two in
// one process exclude each other as two processes do.
type fileLock struct{ f *os.File }

func openLock(path string) (fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		if errors.Is(err, fs.ErrPermission) {
			return fileLock{}, fmt.Errorf("%w: %w; run as the user who owns it", ErrPermission, err)
		}
		return fileLock{}, fmt.Errorf("open lock: %w", plainDiskFull(err, filepath.Dir(path)))
	}
	if err := ownLike(f, filepath.Dir(path)); err != nil {
		_ = f.Close()
		return fileLock{}, err
	}
	return fileLock{f}, nil
}

// ownLike gives a file that root made to the owner of the folder, who must be able to open it later.
func ownLike(f *os.File, dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	st, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	if err := f.Chown(int(sys.Uid), int(sys.Gid)); err != nil {
		return fmt.Errorf("hand %s to its folder's owner: %w", f.Name(), err)
	}
	return nil
}

// try takes the lock without waiting and says whether it did. how is unix.LOCK_EX or LOCK_SH;
// a lock held already is converted.
func (l fileLock) try(how int) (bool, error) {
	for {
		err := unix.Flock(int(l.f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return true, nil
		case errors.Is(err, unix.EWOULDBLOCK):
			return false, nil
		case !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("lock %s: %w", l.f.Name(), err)
		}
	}
}

// take waits for the lock until ctx ends. busy, when not nil, is called once, as soon as it is
// known that there is something to wait for.
func (l fileLock) take(ctx context.Context, how int, busy func()) error {
	return poll(ctx, func() (bool, error) {
		ok, err := l.try(how)
		if !ok && err == nil && busy != nil {
			busy()
			busy = nil
		}
		return ok, err
	})
}

func (l fileLock) release() {
	_ = l.f.Close() // closing is what unlocks; there is nothing written that could be lost
}

// poll calls check at once and then every pollEvery, until it says true or fails, or ctx ends.
func poll(ctx context.Context, check func() (bool, error)) error {
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		if ok, err := check(); ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
		}
	}
}
