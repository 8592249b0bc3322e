package pgembed

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// maxSocketPath is what fits in sockaddr_un.sun_path, 108 bytes with its closing NUL
// (unix(7), Linux). BSD and macOS have 104; there the server's own message is shown.
const maxSocketPath = 107

// socketPort only names the socket file: nothing listens on a port.
const socketPort = 5432

// ErrPermission means that files or folders are not as the server needs them; the text says what
// to change.
var ErrPermission = errors.New("the database's folders cannot be used")

// layout is where everything of one database lives. The folder given by the user stays the user's
// (or root's); only cluster and run belong to the account that the server runs as.
type layout struct {
	data    string // absolute, without symbolic links
	cluster string // the server's own directory
	run     string // holds the socket
}

func (l layout) file(name string) string { return filepath.Join(l.data, name) }
func (l layout) socket() string          { return socketIn(l.run) }

func socketIn(run string) string {
	return filepath.Join(run, ".s.PGSQL."+strconv.Itoa(socketPort))
}

// DefaultDataDir is where the database lives when nobody says otherwise: /var/lib/simwarden for
// root, else the XDG data folder ($XDG_DATA_HOME or ~/.local/share) with simwarden in it.
func DefaultDataDir() (string, error) {
	return defaultDataDir(os.Geteuid(), os.Getenv)
}

func defaultDataDir(uid int, getenv func(string) string) (string, error) {
	if uid == 0 {
		return "/var/lib/simwarden", nil
	}
	// The XDG base directory specification says that a relative path is to be ignored.
	if d := getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "simwarden"), nil
	}
	if h := getenv("HOME"); filepath.IsAbs(h) {
		return filepath.Join(h, ".local", "share", "simwarden"), nil
	}
	return "", errors.New("choose the data directory: neither XDG_DATA_HOME nor HOME is set")
}

// defaultRunDir is a short folder for the socket, always the same for one data directory.
func defaultRunDir(data string, uid int, getenv func(string) string, isDir func(string) bool) string {
	sum := sha256.Sum256([]byte(data))
	name := "simwarden-" + hex.EncodeToString(sum[:5])
	if uid == 0 {
		if isDir("/run") {
			return filepath.Join("/run", name)
		}
		return filepath.Join(os.TempDir(), name)
	}
	if d := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(d) && isDir(d) {
		return filepath.Join(d, name)
	}
	return filepath.Join(os.TempDir(), name+"-"+strconv.Itoa(uid))
}

func isDir(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.IsDir()
}

// newLayout makes the data directory where it is missing and settles every path. It changes
// nothing that existed.
func newLayout(dataDir, runDir string) (layout, error) {
	if dataDir == "" {
		return layout{}, errors.New("open the database: no data directory was given")
	}
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return layout{}, fmt.Errorf("find data directory %s: %w", dataDir, err)
	}
	// As root the server's account passes through this folder on its way to the cluster, but
	// cannot list it.
	mode := fs.FileMode(0o700)
	if os.Geteuid() == 0 {
		mode = 0o711
	}
	if err := os.MkdirAll(abs, mode); err != nil {
		return layout{}, fmt.Errorf("make data directory: %w", plainDiskFull(err, abs))
	}
	real, err := filepath.EvalSymlinks(abs)
	if err != nil {
		return layout{}, fmt.Errorf("find data directory %s: %w", abs, err)
	}
	if _, err := os.Stat(filepath.Join(real, "PG_VERSION")); err == nil {
		return layout{}, fmt.Errorf("%w: %s is itself a Postgres cluster, made by something else; choose another data directory", ErrPermission, real)
	}
	run := runDir
	if run == "" {
		run = defaultRunDir(real, os.Geteuid(), os.Getenv, isDir)
	}
	if run, err = filepath.Abs(run); err != nil {
		return layout{}, fmt.Errorf("find run directory %s: %w", runDir, err)
	}
	l := layout{data: real, cluster: filepath.Join(real, "postgres"), run: run}
	if n := len(l.socket()); n > maxSocketPath {
		return layout{}, fmt.Errorf("%w: the socket's path %s has %d bytes and the system allows %d; choose a shorter run directory",
			ErrPermission, l.socket(), n, maxSocketPath)
	}
	return l, nil
}

// checkReach refuses folders on the way to dir that the server's account cannot pass through.
func checkReach(dir string, a account) error {
	if !a.switched {
		return nil
	}
	for p := filepath.Dir(dir); ; p = filepath.Dir(p) {
		st, err := os.Stat(p)
		if err == nil && !canEnter(st, a) {
			return fmt.Errorf("%w: user %s, as whom the server runs, cannot enter %s on the way to %s; choose a data directory such as /var/lib/simwarden, or allow it with: chmod o+x %s",
				ErrPermission, a.name, p, dir, p)
		}
		if p == filepath.Dir(p) {
			return nil
		}
	}
}

func canEnter(st fs.FileInfo, a account) bool {
	mode := st.Mode().Perm()
	switch sys, ok := st.Sys().(*syscall.Stat_t); {
	case !ok:
		return true
	case int(sys.Uid) == a.uid:
		return mode&0o100 != 0
	case int(sys.Gid) == a.gid:
		return mode&0o010 != 0
	default:
		return mode&0o001 != 0
	}
}

// prepareRunDir makes the socket's folder, 0700 and the account's own. A folder of somebody else
// with that name is refused: in a shared /tmp it would be a trap.
func prepareRunDir(run string, a account) error {
	if err := os.MkdirAll(filepath.Dir(run), 0o755); err != nil {
		return fmt.Errorf("make run directory: %w", err)
	}
	err := os.Mkdir(run, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make run directory: %w", plainDiskFull(err, run))
	}
	st, err := os.Lstat(run)
	if err != nil {
		return fmt.Errorf("look at run directory: %w", err)
	}
	owner := ownerOf(st)
	if !st.IsDir() || owner != a.uid && owner != os.Geteuid() {
		return fmt.Errorf("%w: run directory %s exists and is not ours; remove it or choose another", ErrPermission, run)
	}
	if owner != a.uid {
		if err := os.Lchown(run, a.uid, a.gid); err != nil {
			return fmt.Errorf("hand run directory %s to user %s: %w", run, a.name, err)
		}
	}
	if st.Mode().Perm() != 0o700 {
		if err := os.Chmod(run, 0o700); err != nil {
			return fmt.Errorf("close run directory %s to others: %w", run, err)
		}
	}
	return checkReach(run, a)
}

func ownerOf(st fs.FileInfo) int {
	if sys, ok := st.Sys().(*syscall.Stat_t); ok {
		return int(sys.Uid)
	}
	return -1
}
