package faults_test

import (
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/simwarden/simwarden/internal/check"
	"github.com/simwarden/simwarden/internal/secret"
)

// What fails while it tells of a violation would hide it.
func TestWhatTheDatabaseHasOfASIMIsTold(t *testing.T) {
	dbs := newDatabases(t)
	ring, err := secret.LoadOrCreate(filepath.Join(t.TempDir(), "keys"))
	if err != nil {
		t.Fatal(err)
	}
	b := dbs.take()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, newPlan(1, newCoverage()), b, ring)
		defer w.close()
		iccid := w.lab.Truth()[0].ICCID
		kept := w.keptOf([]check.Violation{{Invariant: "V2", Subject: "sw-1-1"}, {Invariant: "V12", Subject: iccid}})
		for _, row := range []string{"sim {", "poll_state {", "account {"} {
			if !strings.Contains(kept[iccid], row) || strings.Contains(kept["sw-1-1"], row) {
				t.Errorf("of a SIM and of a request that is no SIM the database has %q", kept)
			}
		}
	})
}
