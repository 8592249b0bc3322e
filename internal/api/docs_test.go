package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/simwarden/simwarden"
)

// example is a request of the documents, with the status that it says.
type example struct {
	line   int
	status int // 0: any 2xx
	text   string
	sims   bool // no request: SIMs come in here
}

func examples(t *testing.T, path string) []example {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []example
	var open *example
	for i, line := range strings.Split(string(text), "\n") {
		switch {
		case line == "<!-- test: sims -->":
			out = append(out, example{line: i + 1, sims: true})
		case open == nil && strings.HasPrefix(line, "```http"):
			status, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "```http")))
			open = &example{line: i + 1, status: status}
		case open != nil && line == "```":
			out = append(out, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return out
}

func TestEachRequestOfTheDocumentsIsAnsweredAsTheySay(t *testing.T) {
	w := newWorld(t)
	w.nowhere()
	list := examples(t, "../../docs/api.md")
	if len(list) < 40 {
		t.Fatalf("only %d examples", len(list))
	}
	seen := map[string]bool{}
	for _, e := range list {
		if e.sims {
			a, err := w.service.Account(t.Context(), "acme")
			if err != nil {
				t.Fatal(err)
			}
			for n := 1; n <= 3; n++ {
				w.sim(a, n, simwarden.StateActive)
			}
			continue
		}
		head, body, _ := strings.Cut(e.text, "\n\n")
		lines := strings.Split(strings.TrimSpace(head), "\n")
		method, path, _ := strings.Cut(lines[0], " ")
		header := map[string]string{}
		for _, line := range lines[1:] {
			name, v, _ := strings.Cut(line, ": ")
			header[name] = v
		}
		var sent []byte
		if strings.TrimSpace(body) != "" {
			sent = []byte(body)
		}
		status, got, answer := w.send(method, path, w.token, header, sent)
		w.holdAgainstDocument(method, path, status, got, answer)
		if status != e.status && !(e.status == 0 && status == http.StatusOK) {
			t.Errorf("docs/api.md:%d: %s gives HTTP %d, and says %d: %s", e.line, lines[0], status, e.status, answer)
		}
		bare, _, _ := strings.Cut(path, "?")
		seen[strings.Split(strings.TrimPrefix(bare, "/api/v1/"), "/")[0]] = true
	}
	for path := range w.doc.Paths.Map() {
		resource := strings.Split(strings.TrimPrefix(path, "/api/v1/"), "/")[0]
		if !seen[resource] {
			t.Errorf("docs/api.md has no request of %s", resource)
		}
	}
}

func TestEveryProblemHasAHintAndUnknownNamesAreToldWhatThereIs(t *testing.T) {
	w, _, _ := fleet(t)
	for _, row := range []struct {
		method, path string
		body         any
		status       int
		says         []string
	}{
		{"GET", "/api/v1/sims?colour=crimson", nil, 422, []string{"account", "search", "drifting"}},
		{"GET", "/api/v1/summary?colour=crimson", nil, 422, []string{"this takes none"}},
		{"GET", "/api/v1/exports/records?colour=crimson", nil, 422, []string{"iccid", "until"}},
		{"POST", simURL(1, "/suspend"), map[string]any{"reason": "x", "colour": "crimson"}, 422, []string{"there is: reason"}},
		{"POST", "/api/v1/bulk/preview", map[string]any{"direction": "suspend", "filter": map[string]any{"colour": "crimson"}}, 422, []string{"drifting", "search"}},
		{"PATCH", "/api/v1/limit-groups/acme", map[string]any{"windows": []any{map[string]any{"operation": "all", "seconds": 60, "calls": 5, "colour": "crimson"}}}, 422, []string{"calls, operation, seconds"}},
		{"GET", "/api/v1/sims/8986000000000009999", nil, 404, []string{"search="}},
		{"GET", "/api/v1/nothing", nil, 404, []string{"openapi.json"}},
		{"DELETE", "/api/v1/sims", nil, 405, []string{"Allow"}},
		{"POST", "/api/v1/limit-groups", map[string]any{"name": "acme"}, 409, []string{"choose another name"}},
	} {
		var text []byte
		if row.body != nil {
			text, _ = json.Marshal(row.body)
		}
		status, header, answer := w.send(row.method, row.path, w.token, nil, text)
		w.wantProblem(row.method+" "+row.path, status, header, answer, row.status)
		contains(t, row.method+" "+row.path, string(answer), row.says...)
		if strings.Contains(string(answer), "crimson") {
			t.Errorf("%s %s echoes what was sent (B20): %s", row.method, row.path, answer)
		}
	}
}
