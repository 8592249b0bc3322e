package all_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/carrier"
	_ "github.com/simwarden/simwarden/carrier/all"
)

func TestEveryDriverThatThereIsIsRegistered(t *testing.T) {
	files, err := filepath.Glob("../*/*.go")
	if err != nil {
		t.Fatal(err)
	}
	drivers := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") || !strings.Contains(string(text), "func init() { carrier.Register(") {
			continue
		}
		drivers++
		if name := filepath.Base(filepath.Dir(file)); !slices.Contains(carrier.Names(), name) {
			t.Errorf("driver %s is not imported here; there are %v", name, carrier.Names())
		}
	}
	if drivers == 0 || drivers != len(carrier.Names()) {
		t.Errorf("%d drivers in the source, %d registered", drivers, len(carrier.Names()))
	}
}
