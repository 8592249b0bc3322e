package cli

import (
	"errors"
	"io/fs"
	"strings"

	"github.com/simwarden/simwarden/internal/api"
	"github.com/simwarden/simwarden/internal/store"
)

// SQL states that say what to do outside the program (PostgreSQL documentation, appendix A).
const (
	sqlDiskFull   = "53100"
	sqlNoPassword = "28P01"
	sqlNoRole     = "28000"
	sqlNoDatabase = "3D000"
)

// databaseAdvice says what to do about an error of the database, where a person can do something.
func databaseAdvice(err error) string {
	state, ok := errors.AsType[interface {
		error
		SQLState() string
	}](err)
	switch {
	case ok && state.SQLState() == sqlDiskFull:
		return "\nThe database's disk is full. What was under way is undone and nothing else is lost. Free some space, then do it again."
	case ok && (state.SQLState() == sqlNoPassword || state.SQLState() == sqlNoRole):
		return "\nThe database refuses the role or its password. Check --database-url or SIMWARDEN_DATABASE_URL."
	case ok && state.SQLState() == sqlNoDatabase:
		return "\nMake the database first (createdb), or check --database-url or SIMWARDEN_DATABASE_URL."
	case strings.Contains(err.Error(), "failed to connect to"):
		return "\nThe database cannot be reached. Check that it runs, and --database-url or SIMWARDEN_DATABASE_URL."
	}
	return ""
}

// whereToLook names the command that lists what an error says is not there, by how the error names it.
var whereToLook = []struct{ noun, command string }{
	{"account ", "simwarden account list"},
	{"sim with ICCID", "simwarden sims --search BEGINNING"},
	{"sim ", "simwarden sims"},
	{"device ", "simwarden device list"},
	{"limit group ", "simwarden group list"},
	{"error rule ", "simwarden rules list"},
	{"plan ", "simwarden plan list"},
	{"pool ", "simwarden pool list"},
	{"subscription ", "simwarden explain ICCID"},
	{"wallet ", "simwarden wallet list"},
	{"bulk action ", "simwarden bulk list"},
	{"open alert ", "simwarden alerts"},
	{"open guard ", "simwarden guard list"},
	{"token ", "simwarden token list"},
}

// notFoundAdvice says where a person sees what there is.
func notFoundAdvice(err error) string {
	if !errors.Is(err, store.ErrNotFound) {
		return ""
	}
	for _, w := range whereToLook {
		if strings.HasPrefix(told(err), w.noun) {
			return "\nSee what there is: " + w.command
		}
	}
	return ""
}

// directoryAdvice says what to do about a data directory that cannot be used.
func directoryAdvice(err error) string {
	if _, ok := errors.AsType[*fs.PathError](err); ok && strings.Contains(err.Error(), "data directory") {
		return "\nName one that this user may write to: --data-dir DIR or SIMWARDEN_DATA; or run as the user that owns it."
	}
	return ""
}

// told is an error's text as a terminal shows it: lines that say the same come once, and the exit
// code says of which kind it is.
func told(err error) string {
	var lines []string
	seen := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimPrefix(err.Error(), api.ErrBadInput.Error()+": "), "\n") {
		if key := strings.TrimSpace(line); key != "" && !seen[key] {
			seen[key] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
