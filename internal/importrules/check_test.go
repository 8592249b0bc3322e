package importrules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

func TestTheProductKeepsItsRules(t *testing.T) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil || !strings.HasPrefix(string(module), "module "+Module+"\n") {
		t.Fatalf("%s is not the module's root: %v", root, err)
	}
	found, err := CheckTree(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range found {
		t.Error(violation)
	}
}

func TestOffendersAreFound(t *testing.T) {
	const us = Module + "/"
	for _, row := range []struct{ sentence, name, source, want string }{
		{"a lower layer imports an upper", "internal/store/a.go", `import "` + us + `internal/gateway"`, "imports point down"},
		{"the words import anything", "a.go", `import "` + us + `internal/clock"`, "imports point down"},
		{"two of one line", "internal/poller/a.go", `import "` + us + `internal/commander"`, "leave each other alone"},
		{"a driver and a dialect", "carrier/soracom/a.go", `import "` + us + `lab/soracom"`, "leave each other alone"},
		{"one driver and another", "carrier/soracom/a.go", `import "` + us + `carrier/supersim"`, "leave each other alone"},
		{"carrier and lab", "carrier/a.go", `import "` + us + `lab"`, "leave each other alone"},
		{"a renamed import", "internal/clock/a.go", `import x "` + us + `internal/fault"`, "leave each other alone"},
		{"an import for its init alone", "internal/clock/a.go", `import _ "` + us + `internal/store"`, "imports point down"},
		{"the checker and what it judges", "internal/check/a.go", `import "` + us + `internal/store"`, "may not import it"},
		{"the product and its checker", "internal/store/a.go", `import "` + us + `internal/check"`, "may not be imported"},
		{"a package that nobody put in a layer", "internal/gateway/a.go", `import "` + us + `internal/misc"`, "add it to layers"},
		{"SQL outside the store", "internal/poller/a.go", `import "github.com/jackc/pgx/v5"`, "only internal/store has SQL"},
		{"database/sql outside the store", "internal/api/a.go", `import "database/sql"`, "only internal/store has SQL"},
		{"a client in a driver", "carrier/soracom/a.go", `import "net/http"; var c = http.Client{}`, "HTTP clients"},
		{"a pointer to one", "internal/api/a.go", `import "net/http"; var c = &http.Client{}`, "HTTP clients"},
		{"a client with new", "internal/api/a.go", `import "net/http"; var c = new(http.Client)`, "HTTP clients"},
		{"a transport", "internal/api/a.go", `import "net/http"; var c http.Transport`, "HTTP clients"},
		{"the default client", "internal/api/a.go", `import "net/http"; var c = http.DefaultClient`, "HTTP clients"},
		{"the default client by http.Get", "internal/api/a.go", `import "net/http"; var _, _ = http.Get("")`, "HTTP clients"},
		{"a client under another name", "internal/api/a.go", `import h "net/http"; var c = h.DefaultClient`, "HTTP clients"},
		{"http without its name", "internal/api/a.go", `import . "net/http"; var c = DefaultClient`, "without its name"},
		{"B16: certificates not checked, in the gateway itself", "internal/gateway/a.go", `import "crypto/tls"; var c = tls.Config{InsecureSkipVerify: true}`, "InsecureSkipVerify"},
		{"B16: the same by assignment", "internal/gateway/a.go", `import "crypto/tls"; func f(c *tls.Config) { c.InsecureSkipVerify = true }`, "InsecureSkipVerify"},
		{"the machine's clock", "internal/rules/a.go", `import "time"; var t = time.Now()`, "clock.Clock"},
		{"the machine's clock as a value", "internal/rules/a.go", `import "time"; var now = time.Now`, "clock.Clock"},
		{"the machine's clock by Since", "internal/rules/a.go", `import "time"; func f(t time.Time) any { return time.Since(t) }`, "clock.Clock"},
		{"the machine's clock under another name", "internal/rules/a.go", `import x "time"; var t = x.Now()`, "clock.Clock"},
		{"behind a build tag", "internal/rules/a.go", "", "clock.Clock"},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			source := "package a\n" + row.source
			if row.source == "" {
				source = "//go:build never\n\npackage a\nimport \"time\"\nvar t = time.Now()"
			}
			found, err := CheckFile(row.name, []byte(source))
			if err != nil {
				t.Fatal(err)
			}
			if len(found) != 1 || !strings.Contains(found[0].Rule, row.want) || !strings.HasPrefix(found[0].Position, row.name+":") {
				t.Errorf("found %v, want one that says %q", found, row.want)
			}
		})
	}
}

func TestWhatIsRightPasses(t *testing.T) {
	const us = Module + "/"
	for _, row := range []struct{ sentence, name, source string }{
		{"an upper layer imports a lower", "internal/poller/a.go", `import "` + us + `internal/store"`},
		{"everybody imports the words", "internal/clock/a.go", `import "` + Module + `"`},
		{"the wiring of drivers", "carrier/all/a.go", `import _ "` + us + `carrier/soracom"`},
		{"a driver and what a driver is", "carrier/soracom/a.go", `import "` + us + `carrier"`},
		{"the checker and the rules", "internal/check/a.go", `import ("` + Module + `"; "` + us + `internal/rules")`},
		{"the command line and the checker", "internal/cli/a.go", `import "` + us + `internal/check"`},
		{"SQL in the store", "internal/store/a.go", `import "github.com/jackc/pgx/v5"`},
		{"a client in the gateway", "internal/gateway/a.go", `import "net/http"; var c = http.Client{}`},
		{"http's words elsewhere", "carrier/soracom/a.go", `import "net/http"; var m = http.MethodGet`},
		{"Now of something else", "internal/rules/a.go", `type c struct{}; func (c) Now() {}; func f(time c) { time.Now() }`},
		{"a module whose name begins as ours", "internal/rules/a.go", `import "` + Module + `-client"`},
	} {
		t.Run(row.sentence, func(t *testing.T) {
			if found, err := CheckFile(row.name, []byte("package a\n"+row.source)); err != nil || len(found) > 0 {
				t.Errorf("found %v, %v, want nothing", found, err)
			}
		})
	}
}

func TestTreeIsWalked(t *testing.T) {
	bad := &fstest.MapFile{Data: []byte("package a\nimport \"time\"\nvar t = time.Now()\n")}
	found, err := CheckTree(fstest.MapFS{
		"internal/rules/a.go":           bad,
		"internal/rules/a_test.go":      bad,
		"internal/rules/testdata/a.go":  bad,
		".cache/a.go":                   bad,
		"_old/a.go":                     bad,
		"internal/misc/one.go":          {Data: []byte("package misc\n")},
		"internal/misc/two.go":          {Data: []byte("package misc\n")},
		"internal/rules/README.md":      {Data: []byte("time.Now()")},
		"internal/gateway/deep/deep.go": {Data: []byte("package deep\n")},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, violation := range found {
		got = append(got, violation.String())
	}
	want := []string{"internal/gateway/deep: the package is in no layer", "internal/misc: the package is in no layer", "internal/rules/a.go:3: time.Now"}
	if len(got) != len(want) {
		t.Fatalf("found %q, want %d", got, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("found %q, want %q", got[i], want[i])
		}
	}
	if _, err := CheckTree(fstest.MapFS{"a.go": {Data: []byte("package")}}); err == nil {
		t.Error("a file that does not parse was let pass")
	}
}

func TestLayersAreSound(t *testing.T) {
	seen := map[string]bool{}
	for i, line := range layers {
		for _, folder := range line {
			if seen[folder] {
				t.Errorf("%s is on two lines", folder)
			}
			seen[folder] = true
			if got := layerOf(folder); got != i {
				t.Errorf("%s is on line %d, found on %d", folder, i, got)
			}
		}
	}
}
