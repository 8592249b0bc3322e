package pgembed

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestWhatStopsAStartIsSaidInOneMessage(t *testing.T) {
	long := "/tmp/" + strings.Repeat("x", 100)
	for _, row := range []struct {
		says    string
		cluster bool
		spoil   func(t *testing.T, dir string)
		change  func(*Options)
		want    error
		text    string
	}{
		{says: "the checkpoint's file is missing", cluster: true,
			spoil: func(t *testing.T, dir string) {
				if err := os.Remove(filepath.Join(dir, "postgres/global/pg_control")); err != nil {
					t.Fatal(err)
				}
			}, want: ErrDamaged, text: "put a backup in its place"},
		{says: "the checkpoint's file is rubbish", cluster: true,
			spoil: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "postgres/global/pg_control"), strings.Repeat("rubbish ", 1024))
			}, want: ErrDamaged, text: "keep a copy"},
		{says: "files lie where the cluster should be",
			spoil: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "postgres/base/1"), "x") },
			want:  ErrDamaged, text: "has no PG_VERSION"},
		{says: "the version is rubbish",
			spoil: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "postgres/PG_VERSION"), "ninety") },
			want:  ErrDamaged, text: "which is no version"},
		{says: "the cluster is of a version that is not installed",
			spoil: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "postgres/PG_VERSION"), "9\n") },
			want:  ErrNoBinaries, text: "made by Postgres 9 and needs that version"},
		{says: "the data directory is a cluster of somebody else",
			spoil: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "PG_VERSION"), "15\n") },
			want:  ErrPermission, text: "choose another data directory"},
		{says: "the cluster is open to others", cluster: true,
			spoil: func(t *testing.T, dir string) {
				if err := os.Chmod(filepath.Join(dir, "postgres"), 0o777); err != nil {
					t.Fatal(err)
				}
			}, want: ErrPermission, text: "chmod 0700"},
		{says: "the named folder has no programs",
			change: func(o *Options) { o.BinDir = o.DataDir }, want: ErrNoBinaries, text: "no usable postgres"},
		{says: "the socket's path is too long",
			change: func(o *Options) { o.RunDir = long }, want: ErrPermission, text: "shorter run directory"},
		{says: "the run directory's name is taken",
			spoil: func(t *testing.T, dir string) { write(t, filepath.Join(dir, "r"), "") },
			want:  ErrPermission, text: "is not ours"},
		{says: "an operator's own setting is wrong", cluster: true,
			spoil: func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, LocalSettingsFile), "max_connections = many\n")
				if err := os.Chmod(filepath.Join(dir, LocalSettingsFile), 0o644); err != nil {
					t.Fatal(err)
				}
			}, text: "contains errors"},
	} {
		t.Run(row.says, func(t *testing.T) {
			dir := ""
			if row.cluster {
				dir = withCluster(t)
			} else {
				dir = folder(t)
			}
			if row.spoil != nil {
				row.spoil(t, dir)
			}
			opts := options(dir)
			if row.change != nil {
				row.change(&opts)
			}
			before := listing(t, filepath.Join(dir, "postgres"))
			s, err := Start(t.Context(), opts)
			if err == nil {
				_ = s.Stop(t.Context())
				t.Fatal("the server started")
			}
			if row.want != nil && !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.text) || strings.Contains(err.Error(), "\n") {
				t.Errorf("the message is %q, want %v and %q", err, row.want, row.text)
			}
			if after := listing(t, filepath.Join(dir, "postgres")); after != before {
				t.Errorf("the failed start changed the tables' files:\n%s\nbefore:\n%s", after, before)
			}
		})
	}
}

// listing names the files that hold tables.
func listing(t *testing.T, cluster string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.WalkDir(filepath.Join(cluster, "base"), func(p string, _ fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		fmt.Fprintln(&all, p)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}

func TestFolderThatTheServersUserCannotEnterIsRefused(t *testing.T) {
	closed := t.TempDir()
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	err := checkReach(filepath.Join(closed, "postgres"), account{name: "postgres", uid: 65533, gid: 65533, switched: true})
	if !errors.Is(err, ErrPermission) || !strings.Contains(err.Error(), "such as /var/lib/simwarden") {
		t.Errorf("the message is %v, want a proposal", err)
	}
	if err := checkReach(filepath.Join(closed, "postgres"), account{name: "me", uid: os.Geteuid()}); err != nil {
		t.Errorf("our own folder is refused to ourselves: %v", err)
	}
}

func TestMessagesOfPostgresBecomeAdvice(t *testing.T) {
	l := layout{data: t.TempDir()}
	l.cluster = filepath.Join(l.data, "postgres")
	plain := errors.New("the server ended: exit status 1")
	for _, row := range []struct {
		says, said string
		want       error
		text       string
	}{
		{"F12: a full disk loses nothing", `FATAL:  could not write lock file "postmaster.pid": No space left on device`, ErrDiskFull, "free some space"},
		{"F12: a used-up quota is a full disk", `FATAL:  could not extend file: Disk quota exceeded`, ErrDiskFull, "free some space"},
		{"a lost checkpoint is damage", "LOG:  starting\nPANIC:  could not locate a valid checkpoint record\nLOG:  shut down", ErrDamaged, "PANIC: could not locate"},
		{"processes of a killed server are waited for", `FATAL:  pre-existing shared memory block (key 1, ID 2) is still in use`, errBusyMemory, "in use"},
		{"another build's files are named as such", "FATAL:  database files are incompatible with server\nDETAIL:  x", ErrDamaged, "another build"},
		{"what is not known is quoted", "LOG:  a\nFATAL:  something new\nLOG:  b", plain, "FATAL: something new"},
		{"silence leaves the first error", "", plain, "exit status 1"},
	} {
		err := explain(plain, row.said, l, account{name: "postgres"})
		if row.want != nil && !errors.Is(err, row.want) || !strings.Contains(err.Error(), row.text) {
			t.Errorf("%s: got %q, want %v and %q", row.says, err, row.want, row.text)
		}
	}
}

func TestLogIsBounded(t *testing.T) {
	l := layout{data: t.TempDir()}
	log, err := openLog(l)
	if err != nil {
		t.Fatal(err)
	}
	defer log.f.Close()
	log.keep = 1000
	for i := range 100 {
		fmt.Fprintf(log.f, "line %03d of what the server says\n", i)
		if err := log.rotate(); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{LogFile, LogFile + ".1"} {
			if st, err := os.Stat(l.file(name)); err == nil && st.Size() > 1000 {
				t.Fatalf("%s has %d bytes, want at most 1000", name, st.Size())
			}
		}
	}
	old, err := os.ReadFile(l.file(LogFile + ".1"))
	if err != nil {
		t.Fatal(err)
	}
	if all := string(old) + log.since(0); !strings.Contains(all, "line 099") || !strings.Contains(all, "line 070") {
		t.Errorf("the newest lines are gone; kept are:\n%s", all)
	}
}
