package pgembed

import (
	"errors"
	"fmt"
	"strings"
)

// errBusyMemory is temporary: the processes of a server that was killed have not all ended.
var errBusyMemory = errors.New("processes of an earlier server are still ending")

// explain turns the failure of a program of Postgres into one message that says what to do. said
// is what the program wrote, its last lines counting most.
func explain(err error, said string, l layout, a account) error {
	last := lastComplaint(said)
	has := func(texts ...string) bool {
		for _, t := range texts {
			if strings.Contains(said, t) {
				return true
			}
		}
		return false
	}
	switch {
	case has("No space left on device", "Disk quota exceeded"):
		return fmt.Errorf("%w: free some space where %s is, then start again; nothing is lost", ErrDiskFull, l.data)
	case has("has invalid permissions", "has wrong ownership"):
		return fmt.Errorf("%w: %s must be closed to others and belong to user %s; repair it with: chown -R %s %s && chmod 0700 %s",
			ErrPermission, l.cluster, a.name, a.name, l.cluster, l.cluster)
	case has("Permission denied"):
		return fmt.Errorf("%w: user %s, as whom the server runs, was refused: %s", ErrPermission, a.name, last)
	case has("database files are incompatible with server"):
		return fmt.Errorf("%w, or another build of Postgres made them: %s (%s); keep a copy of it, and put a backup in its place", ErrDamaged, l.cluster, last)
	case has("pre-existing shared memory block"):
		return fmt.Errorf("%w: %s", errBusyMemory, last)
	case has("PANIC:", "could not locate a valid checkpoint record", "could not open file \"global/", "could not read file \"global/",
		"is not a valid data directory", "could not find the database system", "invalid data in file", "incorrect checksum in control file",
		"could not open directory \"pg_", "could not access status of transaction"):
		return fmt.Errorf("%w: %s does not start (%s); keep a copy of it, and put a backup in its place", ErrDamaged, l.cluster, last)
	}
	if free, e := freeBytes(l.data); e == nil && free < fullBelowBytes {
		return fmt.Errorf("%w: %d MB are free where %s is; free some space, then start again; nothing is lost", ErrDiskFull, free>>20, l.data)
	}
	if last == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, last)
}

// lastComplaint is the most telling line of what a program of Postgres wrote: its last FATAL,
// PANIC or error line, else its last line. Bounded to 300 bytes.
func lastComplaint(said string) string {
	lines := strings.Split(strings.TrimSpace(said), "\n")
	found := lines[len(lines)-1]
	for _, line := range lines {
		for _, mark := range []string{"FATAL:", "PANIC:", "error:"} {
			if i := strings.Index(line, mark); i >= 0 {
				found = line[i:]
			}
		}
	}
	found = strings.Join(strings.Fields(found), " ")
	if len(found) > 300 {
		found = strings.ToValidUTF8(found[:300], "") + "…"
	}
	return found
}
