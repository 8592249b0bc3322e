package store_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/simwarden/simwarden/internal/store"
)

// A kind that is written and not listed would be in no enumeration (I2).
func TestI2EveryKindOfEventAndAlertIsListed(t *testing.T) {
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 {
				return true
			}
			literal, ok := spec.Values[0].(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			word, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			for prefix, list := range map[string][]string{"Event": store.EventKinds(), "Alert": store.AlertKinds()} {
				if name := spec.Names[0].Name; strings.HasPrefix(name, prefix) {
					if found++; !slices.Contains(list, word) {
						t.Errorf("%s is not in %sKinds: add it in kinds.go", name, prefix)
					}
				}
			}
			return true
		})
	}
	if want := len(store.EventKinds()) + len(store.AlertKinds()); found < want {
		t.Errorf("%d constants were found, and %d kinds are listed", found, want)
	}
}
