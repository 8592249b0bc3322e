package acceptance

import (
	"flag"
	"os"
	"testing"
	"time"

	"github.com/simwarden/simwarden/internal/store/storetest"
)

func TestMain(m *testing.M) {
	// The time lines wait for carriers much more than they compute: more of them run at a time than
	// there are processors. The flag on the command line goes first, since it is read later.
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := storetest.Run(m)
	removeBinaries()
	os.Exit(code)
}

// patience bounds every wait for something that must happen: long enough for a busy machine.
const patience = 60 * time.Second

// eventually waits until it is so, and fails the test where it does not come to be. What it waits
// for is brought about by the node, in goroutines of its own.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-deadline.C:
			t.Fatalf("it did not come to be so within %s: %s", patience, what)
		}
	}
}
