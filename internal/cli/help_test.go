package cli

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestEveryCommandTellsWhatItIs(t *testing.T) {
	var c commands
	parser, err := kong.New(&c, kong.Name("simwarden"))
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	var walk func(node *kong.Node, path []string)
	walk = func(node *kong.Node, path []string) {
		seen++
		var out, errOut bytes.Buffer
		code := Main(t.Context(), append(path[:len(path):len(path)], "--help"), strings.NewReader(""), &out, &errOut)
		head := strings.Join(append([]string{"Usage: simwarden"}, path...), " ")
		words := strings.Join(strings.Fields(out.String()), " ")
		if code != ExitOK || errOut.Len() > 0 || !strings.HasPrefix(words, head) || !strings.Contains(words, strings.Join(strings.Fields(node.Help), " ")) {
			t.Errorf("%v --help: exit code %d, want %q and %q in:\n%s%s", path, code, head, node.Help, &out, &errOut)
		}
		for _, child := range node.Children {
			if !child.Hidden && !strings.Contains(words, " "+child.Name) {
				t.Errorf("%v --help does not name %s", path, child.Name)
			}
			walk(child, append(path[:len(path):len(path)], child.Name))
		}
	}
	walk(parser.Model.Node, nil)
	if seen < 60 {
		t.Errorf("only %d commands", seen)
	}
}

func TestADatabaseURLThatIsNoneIsWrongInputAndIsNotRepeated(t *testing.T) {
	for _, url := range []string{"nonsense", "http://x/y", "postgres://anna:geheim@h:abc/d", "postgres://anna:geheim@h/d?sslmode=bogus"} {
		for _, command := range [][]string{{"sims"}, {"migrate"}, {"doctor"}, {"explain", "8986012345678901234"}, {"serve", "--listen", "127.0.0.1:0"}} {
			var out bytes.Buffer
			code := Main(t.Context(), append(command, "--database-url", url, "--data-dir", t.TempDir()), strings.NewReader(""), &out, &out)
			if code != ExitUsage || !strings.Contains(out.String(), "expected postgres://user@host/database") || strings.Contains(out.String(), "geheim") {
				t.Errorf("%v with %s: exit code %d, want %d: %s", command, url, code, ExitUsage, &out)
			}
		}
	}
}
