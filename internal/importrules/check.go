package importrules

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// Violation is one place that breaks a rule.
type Violation struct {
	// Position is "folder/file.go:line".
	Position string
	// Rule says which rule, and what to do.
	Rule string
}

// String is the violation in one line, as compilers print theirs.
func (v Violation) String() string { return v.Position + ": " + v.Rule }

// A use of something that only some folders may use. Reasons stand beside the folders.
var (
	// sqlFolders may import pgx or database/sql: only the store has SQL.
	sqlFolders = []string{
		"internal/store", "internal/store/storetest",
		"internal/pgembed", // starts the database and asks whether it is there
		"internal/check",   // an oracle with SQL of its own
		"internal/jobs",    // River takes a pool
		"acceptance",       // looks at the rows from outside
	}
	// clientFolders may make HTTP clients (B16): to carriers, to webhooks, and to ourselves.
	clientFolders = []string{
		"internal/gateway", "internal/events",
		"lab", "internal/cli", // the lab's admin endpoint and our own API
		"carrier/carriertest", // plays the gateway for a driver under test
		"acceptance",
	}
	// nowFolders may read the machine's clock; everybody else is given a clock or an instant.
	nowFolders = []string{
		"internal/clock",
		"internal/gateway",    // the age of a grant and of a connection is real time, whatever the clock says
		"internal/cli",        // the bench measures the machine
		"carrier/carriertest", // gives drivers a clock in tests
		"acceptance",
	}
)

var (
	httpMakers = []string{"Client", "Transport", "DefaultClient", "DefaultTransport", "Get", "Head", "Post", "PostForm"}
	nowMakers  = []string{"Now", "Since", "Until"}
)

// CheckTree reads every Go file below root that is no test (tests may import what they like), and
// returns what breaks a rule, in order of position. It skips testdata and folders that begin with
// a dot or an underscore, as go build does. The error is one of reading or parsing.
func CheckTree(root fs.FS) ([]Violation, error) {
	var found []Violation
	unknown := map[string]bool{}
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() {
			if name != "." && (base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go") {
			return nil
		}
		source, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		folder := path.Dir(name)
		if _, ok := special[folder]; !ok && layerOf(folder) < 0 && !unknown[folder] {
			unknown[folder] = true
			found = append(found, Violation{folder, "the package is in no layer: add it to layers in internal/importrules"})
		}
		inFile, err := CheckFile(name, source)
		found = append(found, inFile...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("check imports: %w", err)
	}
	return found, nil
}

// CheckFile judges one file by its source; name is its path from the module's root, with slashes.
// Build tags are not looked at: the rules hold in every build.
func CheckFile(name string, source []byte) ([]Violation, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, fmt.Errorf("parse: %w", err)
	}
	c := checker{folder: path.Dir(name), files: files, names: map[string]string{}}
	for _, spec := range file.Imports {
		c.importSpec(spec)
	}
	ast.Inspect(file, c.node)
	return c.found, nil
}

type checker struct {
	folder string
	files  *token.FileSet
	names  map[string]string // by which name the file knows a package of the standard library
	found  []Violation
}

func (c *checker) report(at token.Pos, format string, args ...any) {
	position := c.files.Position(at)
	c.found = append(c.found, Violation{fmt.Sprintf("%s:%d", position.Filename, position.Line), fmt.Sprintf(format, args...)})
}

func (c *checker) importSpec(spec *ast.ImportSpec) {
	imported, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return // the parser has refused it
	}
	if to, ours := strings.CutPrefix(imported, Module); ours && (to == "" || to[0] == '/') {
		to = strings.TrimPrefix(to, "/")
		if to == "" {
			to = "."
		}
		if why := mayImport(c.folder, to); why != "" {
			c.report(spec.Pos(), "%s imports %s: %s", c.folder, to, why)
		}
		return
	}
	if (imported == "database/sql" || strings.HasPrefix(imported, "github.com/jackc/pgx/") || strings.HasPrefix(imported, "github.com/jackc/pgconn")) &&
		!slices.Contains(sqlFolders, c.folder) {
		c.report(spec.Pos(), "%s imports %s: only internal/store has SQL, ask it for a function", c.folder, imported)
	}
	if imported == "net/http" || imported == "time" {
		name := path.Base(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			c.report(spec.Pos(), "%s imports %s without its name, which hides what it uses", c.folder, imported)
		}
		c.names[name] = imported
	}
}

func (c *checker) node(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.Ident:
		if n.Name == "InsecureSkipVerify" {
			c.report(n.Pos(), "InsecureSkipVerify is forbidden everywhere (B16): give the account its own CA")
		}
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if !ok {
			return true
		}
		switch c.names[pkg.Name] {
		case "time":
			if slices.Contains(nowMakers, n.Sel.Name) && !slices.Contains(nowFolders, c.folder) {
				c.report(n.Pos(), "time.%s reads the machine's clock: take a clock.Clock or an instant", n.Sel.Name)
			}
		case "net/http":
			if slices.Contains(httpMakers, n.Sel.Name) && !slices.Contains(clientFolders, c.folder) {
				c.report(n.Pos(), "http.%s: only the gateway and events make HTTP clients, over internal/dial (B16)", n.Sel.Name)
			}
		}
	}
	return true
}
