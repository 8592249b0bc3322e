package cli

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"github.com/simwarden/simwarden/internal/pgembed"
	"github.com/simwarden/simwarden/internal/store"
)

type doctorCmd struct{}

// finding is one thing that doctor looked at.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	Saw   string `json:"saw"`
	Do    string `json:"do,omitempty"`
}

const (
	// clockBound is how far the database's clock may be from this machine's.
	clockBound = 2 * time.Second
	// diskBound is how much must be free for the database to go on for a while.
	diskBound = 2 << 30
)

// Run checks the installation and says of each finding what to do.
func (c *doctorCmd) Run(ctx context.Context, g *Globals) error {
	return g.with(ctx, func(e *env) error {
		list, err := examine(ctx, e)
		if err != nil {
			return err
		}
		bad := 0
		for _, f := range list {
			if !f.OK {
				bad++
			}
		}
		if g.JSON {
			err = printJSON(g.Out, list)
		} else {
			for _, f := range list {
				mark := map[bool]string{true: "ok  ", false: "BAD "}[f.OK]
				fmt.Fprintf(g.Out, "%s %-12s %s\n", mark, f.Check, f.Saw)
				if f.Do != "" && !f.OK {
					fmt.Fprintf(g.Out, "                  do: %s\n", f.Do)
				}
			}
		}
		if err == nil && bad > 0 {
			return errFindings
		}
		return err
	})
}

func examine(ctx context.Context, e *env) ([]finding, error) {
	list := []finding{{Check: "schema", OK: true, Saw: fmt.Sprintf("version %d, as this program wants it", store.SchemaVersion())}}
	if e.pg != nil {
		if version, err := pgembed.Installed(ctx, ""); err == nil {
			list = append(list, finding{Check: "postgres", OK: true, Saw: fmt.Sprint(version)})
		}
	}
	d, err := e.Doctor(ctx)
	if err != nil {
		return nil, err
	}
	skew := time.Duration(d.ClockAheadSeconds * float64(time.Second))
	list = append(list, finding{Check: "clock", OK: skew.Abs() <= clockBound, Saw: fmt.Sprintf("the database's clock is %s from this machine's", skew.Round(time.Millisecond)),
		Do: "run NTP on both machines: plan ends and limits go by them"})
	for _, p := range d.Partitions {
		list = append(list, finding{Check: "partitions", OK: p.MonthsAhead >= store.PartitionsAhead && p.DefaultRows == 0,
			Saw: fmt.Sprintf("%s: %d months ahead, %d rows outside any month", p.Table, p.MonthsAhead, p.DefaultRows),
			Do:  "run: simwarden migrate, which moves rows outside any month into a partition of their own; a million of a month and more are moved by hand"})
	}
	list = append(list, retained(d.Retention, d.At))
	list = append(list, disk(e.DataDir), audited(ctx, e))
	list = append(list, guarded(ctx, e)...)
	return append(list, keys(ctx, e)...), nil
}

func disk(dir string) finding {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return finding{Check: "disk", Saw: fmt.Sprintf("the data directory cannot be looked at: %v", err), Do: "check that it exists and its permissions"}
	}
	free := int64(fs.Bavail) * fs.Bsize
	return finding{Check: "disk", OK: free >= diskBound, Saw: fmt.Sprintf("%s free where the data directory is", bytesText(free)),
		Do: "free some space: without it nothing can be recorded, and so nothing is sent"}
}

// keys checks that every credential opens with the keys at hand.
func keys(ctx context.Context, e *env) []finding {
	accounts, err := e.Store.Accounts(ctx)
	if err != nil {
		return []finding{{Check: "accounts", Saw: err.Error()}}
	}
	var list []finding
	for _, a := range accounts {
		f := finding{Check: "account", OK: true, Saw: fmt.Sprintf("%s (%s): %s", a.Name, a.Driver, a.Mode)}
		sealed, err := e.Store.AccountCredential(ctx, a.ID)
		switch {
		case err != nil:
			f.OK, f.Saw = false, f.Saw+", "+err.Error()
		case sealed == nil:
			f.OK, f.Saw, f.Do = false, f.Saw+", no credential", "give it one: simwarden account credentials "+a.Name
		default:
			if _, err := e.Keyring.Open("account", fmt.Sprint(int64(a.ID)), sealed); err != nil {
				f.OK, f.Saw, f.Do = false, f.Saw+", its credential cannot be opened with this key file", "put the right key file back, or give the credential again"
			}
		}
		if !a.StoppedAt.IsZero() {
			f.OK, f.Saw, f.Do = false, f.Saw+", calls stopped: "+a.StoppedBecause, "mend the cause, then: simwarden account start "+a.Name+" --reason …"
		}
		if !a.BrakedAt.IsZero() {
			f.OK, f.Saw, f.Do = false, f.Saw+", safety brake on: "+a.BrakedBecause, "look at simwarden diff --account "+a.Name+", then: simwarden account release "+a.Name+" --reason …"
		}
		list = append(list, f)
	}
	return list
}
