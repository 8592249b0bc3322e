// Package importrules reads the product's own source and finds what breaks its layering: who may
// import whom, who may hold SQL, who may make HTTP clients, and who may ask the machine for the
// time. Its test is the rule's guard; nothing else uses it.
package importrules

import (
	"path"
	"slices"
)

// Module is the path that our imports begin with.
const Module = "github.com/simwarden/simwarden"

// layers are the lines of the architecture, from the top. A package imports from strictly lower
// lines alone; packages on one line leave each other alone. A * stands for one folder's name.
// "." is the module's root: the words.
var layers = [][]string{
	{"cmd/simwarden", "acceptance", "faults"},
	{"internal/cli"},
	{"app", "carrier/all"},
	{"internal/console"},
	{"internal/api"},
	{"internal/transfer"},
	{"internal/poller", "internal/commander", "internal/plans", "internal/evaluator", "internal/events", "internal/threshold"},
	{"internal/reconcile", "internal/usage", "internal/gateway", "internal/ledger", "internal/access", "internal/jobs"},
	{"internal/store/storetest"}, // helps the tests of all above; starts a database, so above pgembed
	{"internal/store", "carrier/*", "lab/*", "internal/pgembed"},
	{"internal/rules"},
	{"carrier", "lab"},
	{"internal/clock", "internal/calendar", "internal/fault", "internal/secret", "internal/dial"},
	{"."},
}

// special packages stand outside of the lines: nobody imports them but those named in importedBy,
// and they import no more of ours than imports says.
var special = map[string]struct{ imports, importedBy []string }{
	// The checker is an oracle: it shares no code with what it judges but the words and the rules.
	"internal/check":       {imports: []string{".", "internal/rules"}, importedBy: []string{"internal/cli", "app", "cmd/simwarden", "acceptance", "faults"}},
	"internal/importrules": {},
}

// layerOf is the line of a folder (from the module's root), or -1 when it is on none. A line that
// names the folder itself goes before one with a *.
func layerOf(folder string) int {
	for i, line := range layers {
		if slices.Contains(line, folder) {
			return i
		}
	}
	return slices.IndexFunc(layers, func(line []string) bool {
		return slices.ContainsFunc(line, func(pattern string) bool {
			matched, err := path.Match(pattern, folder)
			return err == nil && matched
		})
	})
}

// mayImport says why a folder must not import another of ours, or "".
func mayImport(from, to string) string {
	if s, ok := special[from]; ok {
		if !slices.Contains(s.imports, to) {
			return "it stands outside of the layers and may not import it"
		}
		return ""
	}
	if s, ok := special[to]; ok {
		if !slices.Contains(s.importedBy, from) {
			return "it stands outside of the layers and may not be imported from here"
		}
		return ""
	}
	upper, lower := layerOf(from), layerOf(to)
	switch {
	case lower < 0:
		return "it is in no layer: add it to layers in internal/importrules"
	case upper < 0:
		return "" // told once, for the folder itself
	case upper == lower:
		return "both are on one line, and leave each other alone"
	case upper > lower:
		return "imports point down, and it is above"
	}
	return ""
}
