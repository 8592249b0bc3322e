package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/simwarden/simwarden/carrier"
)

func asCarrier(err error) (*carrier.Error, bool) { return errors.AsType[*carrier.Error](err) }

// carrierAdvice says what to do about a carrier's no to an account.
func carrierAdvice(err error, account string) string {
	e, ok := asCarrier(err)
	switch {
	case !ok:
		return ""
	case e.Class == carrier.ClassAuth:
		return fmt.Sprintf("\nThe carrier refuses the credentials. Give the right ones: simwarden account credentials %s --credential …; then: simwarden account start %s --reason …", account, account)
	case strings.Contains(err.Error(), "https"):
		return "\nFor a lab on this machine add --allow-lab; a real carrier needs an https base URL."
	case e.Class == carrier.ClassStopped:
		return fmt.Sprintf("\nThe account's calls are stopped. Mend the cause, then: simwarden account start %s --reason …", account)
	case e.BadAnswer:
		return "\nThe answer is not the carrier's API (a web page, perhaps). Check the account's base URL."
	case e.NotSent:
		return "\nThe carrier could not be reached. Check the base URL, DNS and the way out; a carrier on this machine needs --allow-lab."
	}
	return ""
}

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

// told is an error's text as a terminal shows it: lines that say the same come once.
func told(err error) string {
	var lines []string
	seen := map[string]bool{}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		if key := strings.TrimSpace(line); key != "" && !seen[key] {
			seen[key] = true
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}
