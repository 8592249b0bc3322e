package pgembed

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// oldestMajor is the first major version whose SQL (MERGE, NULLS NOT DISTINCT, lz4 for the log)
// the store relies on.
const oldestMajor = 15

// EnvBinDir names the folder that holds postgres and initdb, for installations that are found
// nowhere else. When it is set, no other place is looked at.
const EnvBinDir = "SIMWARDEN_PG_BIN"

// ErrNoBinaries means that this machine has no Postgres that fits. The error's text says the one
// command that installs it.
var ErrNoBinaries = errors.New("no fitting postgres is installed")

// binaries is one installation of Postgres.
type binaries struct {
	dir   string
	major int
	full  string // "15.18"
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, name) }

// usualPlaces are the folders in which packages put the server's programs: Debian and Ubuntu, the
// PostgreSQL project's own RPMs, Alpine, Homebrew on both kinds of Mac. What is on PATH comes last.
var usualPlaces = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
}

// findBinaries returns the installation to run: that of major version want, or the newest that is
// not older than oldestMajor when want is 0. dir, else EnvBinDir, narrows the search to one folder.
func findBinaries(ctx context.Context, dir string, want int) (binaries, error) {
	if dir == "" {
		dir = os.Getenv(EnvBinDir)
	}
	var places []string
	if dir != "" {
		places = []string{dir}
	} else {
		for _, pattern := range usualPlaces {
			found, err := filepath.Glob(pattern)
			if err != nil {
				return binaries{}, fmt.Errorf("look for postgres in %s: %w", pattern, err)
			}
			places = append(places, found...)
		}
		if p, err := exec.LookPath("postgres"); err == nil {
			if real, err := filepath.EvalSymlinks(p); err == nil {
				p = real
			}
			places = append(places, filepath.Dir(p))
		}
	}
	var all []binaries
	for _, place := range places {
		b, err := inspect(ctx, place)
		switch {
		case err == nil:
			all = append(all, b)
		case dir != "":
			return binaries{}, fmt.Errorf("%w: %s has no usable postgres and initdb: %w", ErrNoBinaries, dir, err)
		}
	}
	return choose(all, want)
}

// choose picks from the installations found. want is a major version, 0 for any.
func choose(all []binaries, want int) (binaries, error) {
	slices.SortStableFunc(all, func(a, b binaries) int { return b.major - a.major })
	for _, b := range all {
		if b.major == want || want == 0 && b.major >= oldestMajor {
			return b, nil
		}
	}
	seen := "none was found"
	if len(all) > 0 {
		seen = "only version " + all[0].full + " was found"
		if len(all) > 1 {
			seen += ", and older ones"
		}
		if want != 0 && all[0].major != want {
			seen = "the newest found is " + all[0].full
		}
	}
	if want != 0 {
		return binaries{}, fmt.Errorf("%w: the database was made by Postgres %d and needs that version, but %s; install it beside: %s",
			ErrNoBinaries, want, seen, installCommand(want, exec.LookPath))
	}
	return binaries{}, fmt.Errorf("%w: Postgres %d or newer is needed, but %s; install it: %s",
		ErrNoBinaries, oldestMajor, seen, installCommand(0, exec.LookPath))
}

// installCommand is the one command that installs Postgres with this machine's package manager.
func installCommand(major int, lookPath func(string) (string, error)) string {
	version := ""
	if major != 0 {
		version = strconv.Itoa(major)
	}
	dash := func(sep string) string {
		if version == "" {
			return ""
		}
		return sep + version
	}
	for _, c := range []struct{ tool, command string }{
		{"apt-get", "apt-get install -y postgresql" + dash("-")},
		{"dnf", "dnf install -y postgresql" + version + "-server"},
		{"apk", "apk add postgresql" + version},
		{"brew", "brew install postgresql@" + strconv.Itoa(max(major, oldestMajor))},
	} {
		if _, err := lookPath(c.tool); err == nil {
			return c.command
		}
	}
	return "apt-get install -y postgresql" + dash("-")
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) ((\d+)[^\s]*)`)

// inspect asks the programs in dir for their version. It fails where one is missing.
func inspect(ctx context.Context, dir string) (binaries, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return binaries{}, err
	}
	if _, err := exec.LookPath(filepath.Join(abs, "initdb")); err != nil {
		return binaries{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(abs, "postgres"), "--version").Output() //nolint:gosec // G702: the folder is the operator's choice
	if err != nil {
		return binaries{}, fmt.Errorf("ask %s for its version: %w", filepath.Join(abs, "postgres"), err)
	}
	m := versionLine.FindSubmatch(out)
	if m == nil {
		return binaries{}, fmt.Errorf("ask %s for its version: it said %.60q", filepath.Join(abs, "postgres"), out)
	}
	major, err := strconv.Atoi(string(m[2]))
	if err != nil {
		return binaries{}, fmt.Errorf("read the version of %s: %w", abs, err)
	}
	return binaries{dir: abs, major: major, full: string(m[1])}, nil
}

// Installed is the version ("15.18") of the Postgres that a new database would be made with. dir is
// as Options.BinDir. Without one it fails with ErrNoBinaries.
func Installed(ctx context.Context, dir string) (string, error) {
	b, err := findBinaries(ctx, dir, 0)
	return b.full, err
}
