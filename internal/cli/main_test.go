package cli_test

import (
	"context"
	"os"
	"testing"

	"github.com/simwarden/simwarden/internal/cli"
	"github.com/simwarden/simwarden/internal/store/storetest"
)

// asProgram makes the test's process the program itself: commands that start it again find it there.
const asProgram = "SIMWARDEN_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" && len(os.Args) > 1 && os.Args[1] == "bench" {
		os.Exit(cli.Main(context.Background(), os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	storetest.Main(m)
}
