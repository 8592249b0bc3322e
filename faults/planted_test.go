//go:build planted

package faults_test

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/fault"
)

// within is how many schedules may pass before the checker sees a planted bug (reliability rule 2).
const within = 300

// planted are the invariants that the checker knows, each with a bug (fault.Planted).
var planted = []string{"V1", "V2", "V3", "V4", "V5", "V6", "V7", "V8", "V9", "V10", "V11", "V12", "V13", "V14", "V15", "V16", "V18"}

// survival says how long a planted bug survived.
type survival struct {
	Invariant string `json:"invariant"`
	// CaughtBy is the lowest seed whose schedule showed the bug, 0 for none. Seeds begin with 1: those before
	// it did not show it.
	CaughtBy uint64  `json:"caught_by_seed"`
	Ran      uint64  `json:"schedules_run"`
	Seconds  float64 `json:"seconds"`
	What     string  `json:"first_violation,omitempty"`
}

// TestPlantedBugsAreCaughtBySchedules runs schedules on nodes that break one invariant on purpose, until
// the checker sees it, and prints the table of how soon that was. FAULT_PLANTED narrows it down: V1,V2.
func TestPlantedBugsAreCaughtBySchedules(t *testing.T) {
	list := planted
	if names, ok := os.LookupEnv("FAULT_PLANTED"); ok {
		list = strings.Split(names, ",")
	}
	table := []survival{}
	for _, invariant := range list {
		t.Run(invariant, func(t *testing.T) {
			t.Setenv(fault.PlantedEnv, invariant)
			begun := time.Now()
			s := survives(t, invariant)
			s.Seconds = time.Since(begun).Round(time.Millisecond).Seconds()
			table = append(table, s)
			if s.CaughtBy == 0 {
				t.Errorf("%d schedules did not catch the bug that breaks %s", s.Ran, invariant)
			}
		})
	}
	text, err := json.MarshalIndent(table, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%s\n", text)
}

// survives runs schedules, several at a time, until one shows the bug.
func survives(t *testing.T, invariant string) survival {
	s := survival{Invariant: invariant}
	c, dbs := newCoverage(), newDatabases(t)
	var taken, caught atomic.Uint64
	var mu sync.Mutex
	t.Run("worker", func(t *testing.T) {
		for range workers {
			t.Run("of several", func(t *testing.T) {
				t.Parallel()
				for caught.Load() == 0 {
					seed := taken.Add(1)
					if seed > within {
						return
					}
					t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
						out := execute(t, newPlan(seed, c), c, dbs)
						i := slices.IndexFunc(out.report.Violations, func(v check.Violation) bool { return v.Invariant == invariant })
						if i < 0 {
							return
						}
						mu.Lock()
						defer mu.Unlock()
						if was := caught.Load(); was == 0 || seed < was {
							caught.Store(seed)
							s.What = out.report.Violations[i].String()
						}
					})
				}
			})
		}
	})
	s.CaughtBy, s.Ran = caught.Load(), min(taken.Load(), within)
	return s
}
