package pgembed

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sys/unix"
)

// ErrNotRunning means that no process of ours runs the server of this data directory.
var ErrNotRunning = errors.New("the database is not running")

// Handle is the use of a database that this process runs or is attached to.
type Handle struct {
	opts   Options
	url    string
	users  fileLock
	owner  bool
	done   chan struct{}
	closed context.Context // ended by Close
	close  context.CancelFunc
	once   sync.Once
	err    error

	// server is nil when attached. Only the watching goroutine replaces it, until watched is closed.
	server  *Server
	watched chan struct{}
}

func newHandle(opts Options, url string, users fileLock, s *Server) *Handle {
	h := &Handle{opts: opts, url: url, users: users, owner: s != nil, server: s,
		done: make(chan struct{}), watched: make(chan struct{})}
	h.closed, h.close = context.WithCancel(context.Background())
	return h
}

// Open returns the database of a data directory: attached to the process of ours that runs it, or
// run by this process. Whoever closes last leaves no server behind. Any number of processes may
// call it at once.
func Open(ctx context.Context, opts Options) (*Handle, error) {
	l, err := newLayout(opts.DataDir, opts.RunDir)
	if err != nil {
		return nil, err
	}
	users, err := openLock(l.file(usersFile))
	if err != nil {
		return nil, err
	}
	h, err := open(ctx, opts, l, users)
	if err != nil {
		users.release()
		return nil, err
	}
	return h, nil
}

func open(ctx context.Context, opts Options, l layout, users fileLock) (*Handle, error) {
	owner, err := openLock(l.file(ownerFile))
	if err != nil {
		return nil, err
	}
	mine := false
	defer func() {
		if !mine {
			owner.release()
		}
	}()
	wait, cancel := context.WithTimeoutCause(ctx, opts.wait(), inUse(l, owner))
	defer cancel()
	// Held shared by every user, and alone by an owner that is stopping: the latter is waited for.
	if err := users.take(wait, unix.LOCK_SH, func() {
		opts.log("waiting for the database to stop, to start it again", "dir", l.data)
	}); err != nil {
		return nil, err
	}
	if opts.Own {
		// Not a user while waiting, or the owner would wait for us as well.
		err := owner.take(wait, unix.LOCK_EX, func() {
			opts.log("waiting for the process that runs the database", "dir", l.data, "process", strings.Join(lockHolders(owner.f), ", "))
			_ = unix.Flock(int(users.f.Fd()), unix.LOCK_UN) // fails only on a descriptor that is closed
		})
		if err == nil {
			err = users.take(wait, unix.LOCK_SH, nil)
		}
		mine = err == nil
		if err != nil {
			if ctx.Err() == nil {
				err = inUse(l, owner) // named as it is now
			}
			return nil, err
		}
	}
	var running pidFile
	if err := poll(wait, func() (ready bool, err error) {
		if !mine {
			if mine, err = owner.try(unix.LOCK_EX); err != nil {
				return false, err
			}
		}
		if mine {
			return true, nil
		}
		running, err = answering(wait, l)
		return running.pid != 0, err
	}); err != nil {
		return nil, fmt.Errorf("attach to the database in %s: %w", l.data, err)
	}
	if !mine {
		return attached(opts, l, users, running), nil
	}
	s, err := start(ctx, opts, l, owner)
	if err != nil {
		mine = false
		return nil, err
	}
	h := newHandle(opts, s.URL(), users, s)
	go h.supervise()
	return h, nil
}

// Attach uses the server that another living process of ours runs, and fails with ErrNotRunning at
// once when there is none or it does not answer yet.
func Attach(ctx context.Context, dataDir string) (*Handle, error) {
	if !isDir(dataDir) {
		return nil, fmt.Errorf("%w: there is no %s", ErrNotRunning, dataDir)
	}
	l, err := newLayout(dataDir, "")
	if err != nil {
		return nil, err
	}
	users, err := openLock(l.file(usersFile))
	if err != nil {
		return nil, err
	}
	h, err := attach(ctx, l, users)
	if err != nil {
		users.release()
		return nil, err
	}
	return h, nil
}

func attach(ctx context.Context, l layout, users fileLock) (*Handle, error) {
	notRunning := fmt.Errorf("%w: nobody runs the one in %s", ErrNotRunning, l.data)
	if ok, err := users.try(unix.LOCK_SH); !ok || err != nil {
		return nil, errors.Join(notRunning, err)
	}
	owner, err := openLock(l.file(ownerFile))
	if err != nil {
		return nil, err
	}
	defer owner.release()
	if free, err := owner.try(unix.LOCK_SH); free || err != nil {
		return nil, errors.Join(notRunning, err)
	}
	p, err := answering(ctx, l)
	if err != nil {
		return nil, err
	}
	if p.pid == 0 {
		return nil, notRunning
	}
	return attached(Options{}, l, users, p), nil
}

// answering returns the server of l when its database can be used, else the zero value. The socket
// is where the server says, whatever run directory its owner chose.
func answering(ctx context.Context, l layout) (pidFile, error) {
	p, err := readPIDFile(l.cluster)
	if err != nil || p.pid == 0 || p.socketDir == "" || !isServerOf(p.pid, l.cluster) {
		return pidFile{}, err
	}
	conn, err := pgx.Connect(ctx, databaseURL(p.socketDir, DatabaseName))
	if errors.Is(err, syscall.EACCES) {
		return pidFile{}, fmt.Errorf("%w: %s is closed to you; run as root or as the user who runs simwarden", ErrPermission, p.socketDir)
	}
	if err != nil {
		return pidFile{}, nil // starting, or its database is still to be made
	}
	_ = conn.Close(ctx) // the question was answered; how it hangs up does not matter
	return p, nil
}

func attached(opts Options, l layout, users fileLock, p pidFile) *Handle {
	h := newHandle(opts, databaseURL(p.socketDir, DatabaseName), users, nil)
	go func() {
		defer close(h.watched)
		t := time.NewTicker(500 * time.Millisecond) // not our child: nothing tells us of its end
		defer t.Stop()
		for {
			select {
			case <-h.closed.Done():
				return
			case <-t.C:
				if !isServerOf(p.pid, l.cluster) {
					close(h.done)
					return
				}
			}
		}
	}()
	return h
}

// URL is the address of the database, for pgx. It holds no secret.
func (h *Handle) URL() string { return h.url }

// Owner says whether this process runs the server.
func (h *Handle) Owner() bool { return h.owner }

// Done is closed when the server has ended although this handle is open, and will not come back:
// with Options.Own it is started again unless its files, folders or programs are at fault.
func (h *Handle) Done() <-chan struct{} { return h.done }

// Close ends the use. The process that runs the server first waits, no longer than Options.Wait or
// ctx, until the others have closed theirs, and says in the log for whom; then it stops the server.
func (h *Handle) Close(ctx context.Context) error {
	h.once.Do(func() {
		h.close()
		<-h.watched
		defer h.users.release()
		if h.server == nil {
			return
		}
		wait, cancel := context.WithTimeout(ctx, h.opts.wait())
		defer cancel()
		err := h.users.take(wait, unix.LOCK_EX, func() {
			h.opts.log("waiting for others to close the database", "processes", strings.Join(lockHolders(h.users.f), ", "))
		})
		if err != nil {
			h.opts.log("the database is stopped although others use it", "processes", strings.Join(lockHolders(h.users.f), ", "))
		}
		h.err = h.server.Stop(ctx)
	})
	return h.err
}
