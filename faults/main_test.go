package faults_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/simwarden/simwarden/carrier/all" // the drivers
	"github.com/simwarden/simwarden/internal/secret"
	"github.com/simwarden/simwarden/internal/store/storetest"
	_ "github.com/simwarden/simwarden/lab/soracom"  // a dialect
	_ "github.com/simwarden/simwarden/lab/supersim" // a dialect
)

func TestMain(m *testing.M) {
	// Schedules wait for Postgres more than they compute; the flag on the command line goes first.
	if err := flag.Set("test.parallel", strconv.Itoa(workers)); err != nil {
		panic(err)
	}
	debug.SetGCPercent(400) // what a schedule leaves is little
	setPoints()
	storetest.Main(m)
}

// fromEnv gives a number from the environment.
func fromEnv(t *testing.T, name string, byDefault uint64) uint64 {
	t.Helper()
	text, ok := os.LookupEnv(name)
	if !ok {
		return byDefault
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		t.Fatalf("%s=%q is not a whole number", name, text)
	}
	return n
}

const (
	// defaultSchedules run where FAULT_SCHEDULES does not say, or fewer: none is begun after
	// defaultTime, since machines differ. leastSchedules run however slow the machine is.
	defaultSchedules = 300
	defaultTime      = 170 * time.Second
	leastSchedules   = 6
	// enough schedules must have reached every point and every fault, enoughForPairs every pair of both, and
	// a whole run each pair so often that 20 different surroundings were tried.
	enough         = 250
	enoughForPairs = 5000
	wholeRun       = 10_000
	pairsOfAWhole  = 20
	// workers run schedules at the same time: much of a schedule waits for Postgres.
	workers = 3
	// progressEvery is how often a long run says how far it is.
	progressEvery = 30 * time.Second
)

func TestSchedulesOfFaultsViolateNothing(t *testing.T) {
	c, file := newCoverage(), os.Getenv("FAULT_COVERAGE")
	if err := c.goOnFrom(file); err != nil {
		t.Fatal(err)
	}
	n, first := fromEnv(t, "FAULT_SCHEDULES", defaultSchedules), fromEnv(t, "FAULT_SEED", 1)
	_, asked := os.LookupEnv("FAULT_SCHEDULES")
	begun, dbs := time.Now(), newDatabases(t)
	var taken atomic.Uint64
	said := begun
	t.Run("worker", func(t *testing.T) {
		for worker := range workers {
			t.Run(strconv.Itoa(worker), func(t *testing.T) {
				t.Parallel()
				for {
					i := taken.Add(1) - 1
					if i >= n || !asked && i >= leastSchedules && time.Since(begun) > defaultTime {
						return
					}
					p := newPlan(first+i, c)
					// A schedule may also end its test at once, hence the answer of the test itself.
					if !t.Run(strconv.FormatUint(p.Seed, 10), func(t *testing.T) { holds(t, p, c, dbs) }) {
						c.failed(p.Seed)
						keep(t, p)
					}
					if worker == 0 && asked && time.Since(said) > progressEvery {
						said = time.Now()
						if err := c.keepIn(file); err != nil {
							t.Error(err)
						}
						fmt.Printf("faults: %s, to go on from there: FAULT_SEED=%d\n", c.progress(time.Since(begun)), first+taken.Load()-workers)
					}
				}
			})
		}
	})
	if err := c.keepIn(file); err != nil {
		t.Error(err)
	}
	pairs := 0
	switch ran := c.inAll(); {
	case ran >= wholeRun:
		pairs = pairsOfAWhole
	case ran >= enoughForPairs:
		pairs = 1
	}
	if c.schedules >= enough {
		for _, missed := range c.missed(pairs) {
			t.Errorf("%s in %d schedules", missed, c.inAll())
		}
	}
	summary, err := json.Marshal(c.summary(first, time.Since(begun)))
	if err != nil {
		t.Fatal(err)
	}
	if asked {
		fmt.Printf("%s\n", summary)
	} else {
		t.Logf("%s", summary)
	}
}

const seedFolder = "testdata/seeds"

// TestSeedsThatFailedOnceViolateNothing runs what is kept of schedules that failed. Goroutines take
// turns as they like: a schedule that holds here may still fail another time.
func TestSeedsThatFailedOnceViolateNothing(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(seedFolder, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, dbs := newCoverage(), newDatabases(t)
	t.Run("seed", func(t *testing.T) {
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				var p plan
				if err := json.Unmarshal(text, &p); err != nil {
					t.Fatal(err)
				}
				holds(t, p, c, dbs)
			})
		}
	})
}

// execute runs one schedule on a database of its own.
func execute(t *testing.T, p plan, c *coverage, dbs *databases) outcome {
	t.Helper()
	b := dbs.take()
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	watch := watchOver(p, b)
	defer watch.end() // also where the test ends within
	out := run(t, p, b, ring, c)
	if stacks := watch.end(); stacks != "" {
		t.Errorf("the schedule was stuck after %s of the clock's time; where everything stood then:\n%s", stuckAfter, stacks)
		return out
	}
	if err := dbs.give(context.WithoutCancel(t.Context()), b); err != nil {
		t.Error(err)
	}
	return out
}

// failures bounds how many traces are printed.
var failures atomic.Int32

// holds runs one schedule and says whether all invariants held.
func holds(t *testing.T, p plan, c *coverage, dbs *databases) bool {
	t.Helper()
	defer func() { // also where the bubble ended the test
		if t.Failed() {
			t.Logf("schedule %s at commit %s", describe(p), commit())
		}
	}()
	out := execute(t, p, c, dbs)
	for i, v := range out.report.Violations {
		if i == 10 {
			t.Errorf("and %d more", len(out.report.Violations)-i)
			break
		}
		t.Errorf("%s", v)
	}
	l := out.report.Looked
	if l.Lines == 0 || l.SIMs == 0 || l.Changes == 0 {
		t.Errorf("the checker had nothing to look at: %+v", l)
	}
	c.ended(out)
	if t.Failed() && failures.Add(1) <= 3 {
		t.Logf("what happened:\n%s", out.trace)
		for i, v := range out.report.Violations {
			if lines := out.linesOf(v.Subject); i < 3 && lines != "" {
				t.Logf("what the carrier saw of %s:\n%s", v.Subject, lines)
				t.Logf("what the database has of %s:\n%s", v.Subject, out.kept[v.Subject])
			}
		}
	}
	return !t.Failed()
}

// keep keeps a schedule that failed.
func keep(t *testing.T, p plan) {
	t.Helper()
	path := filepath.Join(seedFolder, strconv.FormatUint(p.Seed, 10)+".json")
	if err := os.WriteFile(path, []byte(describe(p)+"\n"), 0o644); err != nil {
		t.Error(err)
	}
	t.Logf("kept in faults/%s", path)
}

func describe(p plan) string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func commit() string {
	out, err := exec.Command("git", "rev-parse", "--short", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}
