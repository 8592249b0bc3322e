package pgembed

import (
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// account is the system user that the server runs as.
type account struct {
	name     string
	uid, gid int
	// switched says that it is not the user of this process: we are root and step down.
	switched bool
}

// serverAccount chooses whom to run the server of l as: ourselves, or, since Postgres refuses to
// run as root, the owner of the cluster when there is one, else postgres, else nobody.
func serverAccount(l layout) (account, error) {
	st, err := os.Stat(l.cluster)
	exists := err == nil
	if uid := os.Geteuid(); uid != 0 {
		self := account{name: userName(uid), uid: uid, gid: os.Getegid()}
		if exists && ownerOf(st) != uid {
			return account{}, fmt.Errorf("%w: %s belongs to user %s and you are %s; run as that user or as root",
				ErrPermission, l.cluster, userName(ownerOf(st)), self.name)
		}
		return self, nil
	}
	if exists && ownerOf(st) > 0 {
		if u, err := user.LookupId(strconv.Itoa(ownerOf(st))); err == nil {
			return asAccount(u)
		}
		return account{}, fmt.Errorf("%w: %s belongs to user id %d, which this machine does not know; hand it over with: chown -R postgres %s",
			ErrPermission, l.cluster, ownerOf(st), l.cluster)
	}
	for _, name := range []string{"postgres", "nobody"} {
		if u, err := user.Lookup(name); err == nil {
			return asAccount(u)
		}
	}
	return account{}, fmt.Errorf("%w: postgres does not run as root, and this machine has neither a user postgres nor nobody; add one with: useradd --system postgres", ErrPermission)
}

func asAccount(u *user.User) (account, error) {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return account{}, fmt.Errorf("read id of user %s: %w", u.Username, err)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return account{}, fmt.Errorf("read group of user %s: %w", u.Username, err)
	}
	return account{name: u.Username, uid: uid, gid: gid, switched: true}, nil
}

func userName(uid int) string {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return u.Username
	}
	return "#" + strconv.Itoa(uid)
}

// handOver gives dir and all in it to the account. The folder itself comes last, so that an
// interrupted run starts over. Symbolic links are not followed.
func (a account) handOver(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at %s: %w", dir, err)
	}
	if !a.switched || ownerOf(st) == a.uid {
		return nil
	}
	err = filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil || p == dir {
			return err
		}
		return os.Lchown(p, a.uid, a.gid) //nolint:gosec // G122: Lchown follows no link, and dir is ours until the last line
	})
	if err == nil {
		err = os.Lchown(dir, a.uid, a.gid)
	}
	if err != nil {
		return fmt.Errorf("hand %s to user %s: %w", dir, a.name, err)
	}
	return nil
}
