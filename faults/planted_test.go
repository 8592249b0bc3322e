//go:build planted

package faults_test

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/check"
)

// within is how many schedules may pass before the checker sees a planted bug (reliability rule 2).
const within = 300

// planted are the bugs that schedules find.
var planted = []string{"V2", "V4", "V5", "V6", "V7"}

// TestPlantedBugsAreCaughtBySchedules runs schedules on nodes that break one invariant on purpose.
func TestPlantedBugsAreCaughtBySchedules(t *testing.T) {
	list := planted
	if names, ok := os.LookupEnv("FAULT_PLANTED"); ok {
		list = strings.Split(names, ",")
	}
	for _, invariant := range list {
		t.Run(invariant, func(t *testing.T) {
			t.Setenv("SIMWARDEN_PLANTED", invariant)
			c, dbs := newCoverage(), newDatabases(t)
			for seed := uint64(1); seed <= within; seed++ {
				caught := false
				t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
					out := execute(t, newPlan(seed, c), c, dbs)
					caught = slices.ContainsFunc(out.report.Violations, func(v check.Violation) bool { return v.Invariant == invariant })
				})
				if caught {
					t.Logf("%s was caught by schedule %d", invariant, seed)
					return
				}
			}
			t.Errorf("%d schedules did not catch the planted bug; %s=%s", within, "SIMWARDEN_PLANTED", os.Getenv("SIMWARDEN_PLANTED"))
		})
	}
}
