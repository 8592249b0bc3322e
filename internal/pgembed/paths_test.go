package pgembed

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefaultDataDir(t *testing.T) {
	for _, row := range []struct {
		says string
		uid  int
		env  map[string]string
		want string
	}{
		{"root keeps it where services do", 0, map[string]string{"HOME": "/root"}, "/var/lib/simwarden"},
		{"a user keeps it in the XDG data folder", 1000, map[string]string{"XDG_DATA_HOME": "/d", "HOME": "/h"}, "/d/simwarden"},
		{"a relative XDG folder does not count", 1000, map[string]string{"XDG_DATA_HOME": "d", "HOME": "/h"}, "/h/.local/share/simwarden"},
		{"without a home a choice is asked for", 1000, nil, ""},
	} {
		got, err := defaultDataDir(row.uid, func(k string) string { return row.env[k] })
		if got != row.want || (err != nil) != (row.want == "") {
			t.Errorf("%s: got %q, %v, want %q", row.says, got, err, row.want)
		}
	}
}

func TestDefaultRunDirFitsASocket(t *testing.T) {
	long := "/srv/" + strings.Repeat("long/", 50)
	env := map[string]string{"XDG_RUNTIME_DIR": "/run/user/1000"}
	for _, row := range []struct {
		says   string
		uid    int
		env    map[string]string
		prefix string
	}{
		{"root's is under /run", 0, nil, "/run/simwarden-"},
		{"a user's is in the session's folder", 1000, env, "/run/user/1000/simwarden-"},
		{"without a session it carries the user's id", 1000, nil, ""},
	} {
		got := defaultRunDir(long, row.uid, func(k string) string { return row.env[k] }, func(string) bool { return true })
		if !strings.HasPrefix(got, row.prefix) || len(socketIn(got)) > maxSocketPath {
			t.Errorf("%s: got %q of %d bytes", row.says, got, len(socketIn(got)))
		}
		if row.prefix == "" && !strings.HasSuffix(got, "-1000") {
			t.Errorf("%s: got %q", row.says, got)
		}
		if other := defaultRunDir(long+"x", row.uid, func(k string) string { return row.env[k] }, isDir); filepath.Base(other) == filepath.Base(got) {
			t.Errorf("two data directories share %q", got)
		}
	}
}

func TestChoiceOfInstallation(t *testing.T) {
	b := func(major int, full string) binaries { return binaries{dir: "/" + full, major: major, full: full} }
	for _, row := range []struct {
		says string
		all  []binaries
		want int
		got  string
		text string
	}{
		{"the newest is taken for a new database", []binaries{b(15, "15.1"), b(17, "17.2"), b(16, "16.3")}, 0, "17.2", ""},
		{"an existing database keeps its version", []binaries{b(15, "15.1"), b(17, "17.2")}, 15, "15.1", ""},
		{"an old one is not enough", []binaries{b(13, "13.9")}, 0, "", "only version 13.9 was found"},
		{"none is said to be none", nil, 0, "", "Postgres 15 or newer is needed, but none was found; install it: "},
		{"a missing version is named", []binaries{b(17, "17.2")}, 15, "", "made by Postgres 15"},
	} {
		got, err := choose(row.all, row.want)
		if got.full != row.got {
			t.Errorf("%s: got %q, want %q", row.says, got.full, row.got)
		}
		if row.text != "" && (!errors.Is(err, ErrNoBinaries) || !strings.Contains(err.Error(), row.text)) {
			t.Errorf("%s: the message is %v, want %q", row.says, err, row.text)
		}
	}
}

func TestInstallCommandIsThatOfTheMachine(t *testing.T) {
	for _, row := range []struct {
		tool  string
		major int
		want  string
	}{
		{"apt-get", 0, "apt-get install -y postgresql"},
		{"apt-get", 16, "apt-get install -y postgresql-16"},
		{"dnf", 0, "dnf install -y postgresql-server"},
		{"apk", 16, "apk add postgresql16"},
		{"brew", 0, "brew install postgresql@15"},
		{"none of them", 0, "apt-get install -y postgresql"},
	} {
		got := installCommand(row.major, func(tool string) (string, error) {
			if tool == row.tool {
				return "/usr/bin/" + tool, nil
			}
			return "", exec.ErrNotFound
		})
		if got != row.want {
			t.Errorf("with %s for version %d: got %q, want %q", row.tool, row.major, got, row.want)
		}
	}
}

func TestSharedBuffersStayWithinBounds(t *testing.T) {
	for _, row := range []struct {
		says   string
		memory int64
		fast   bool
		want   int64
	}{
		{"unknown memory is taken for little", 0, false, 128 << 20},
		{"8 GB give an eighth", 8 << 30, false, 1 << 30},
		{"a big machine gives no more than 2 GB", 256 << 30, false, 2 << 30},
		{"tests take little", 256 << 30, true, 64 << 20},
	} {
		if got := sharedBuffers(row.memory, row.fast); got != row.want {
			t.Errorf("%s: got %d, want %d", row.says, got, row.want)
		}
	}
}
