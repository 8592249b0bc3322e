package api_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

func TestTheDocumentIsValidOpenAPI31(t *testing.T) {
	w := newWorld(t)
	if err := w.doc.Validate(context.WithoutCancel(t.Context()), openapi3.IsOpenAPI31OrLater()); err != nil {
		t.Fatal(err)
	}
	if w.doc.OpenAPI != "3.1.0" {
		t.Errorf("it says version %s, want 3.1.0 (I2)", w.doc.OpenAPI)
	}
	for name, schema := range w.doc.Components.Schemas {
		for field, f := range schema.Value.Properties {
			if f.Value != nil && f.Value.Type.Includes("array") && f.Value.Type.Includes("null") {
				t.Errorf("%s.%s is an array that may be null", name, field)
			}
		}
	}
}

// operation is one operation of the document, with its path filled in with something that may be
// there.
type operation struct {
	method, path string
	op           *openapi3.Operation
}

func (w *world) operations() []operation {
	w.t.Helper()
	var out []operation
	for path, item := range w.doc.Paths.Map() {
		filled := strings.NewReplacer("{iccid}", numbered(1).String(), "{name}", "acme", "{id}", "1", "{imei}", imei, "{code}", "basic-30").Replace(path)
		if strings.Contains(filled, "{") {
			w.t.Fatalf("%s has a parameter that this test does not know", path)
		}
		for method, op := range item.Operations() {
			out = append(out, operation{method, filled, op})
		}
	}
	if len(out) < 25 {
		w.t.Fatalf("only %d operations in the document", len(out))
	}
	slices.SortFunc(out, func(a, b operation) int { return strings.Compare(a.path+a.method, b.path+b.method) })
	return out
}

func (w *world) wantProblem(what string, status int, header http.Header, text []byte, want int) {
	w.t.Helper()
	var p struct {
		Type, Title, Code, Detail, ID string
		Status                        int
	}
	if got := header.Get("Content-Type"); got != "application/problem+json" {
		w.t.Errorf("%s: HTTP %d with content type %q, want application/problem+json (RFC 9457): %.300s", what, status, got, text)
		return
	}
	if err := json.Unmarshal(text, &p); err != nil {
		w.t.Errorf("%s: %v: %.300s", what, err, text)
		return
	}
	if p.Status != status || p.Title == "" || p.Code == "" || p.Detail == "" || p.Type != "urn:simwarden:problem:"+p.Code {
		w.t.Errorf("%s: HTTP %d with an incomplete problem: %s", what, status, text)
	}
	if p.ID == "" || p.ID != header.Get("X-Request-Id") {
		w.t.Errorf("%s: the problem's id is %q, the request's %q (B20)", what, p.ID, header.Get("X-Request-Id"))
	}
	if want != 0 && status != want {
		w.t.Errorf("%s: HTTP %d, want %d: %s", what, status, want, text)
	}
}

func TestEveryOperationDemandsAuthAndAnswersGarbageWithAProblem(t *testing.T) {
	w := newWorld(t)
	a := w.account("acme", nil)
	w.sims(a, 1, 1)
	const garbage = `{"zz_unknown": "canary-4711", "reason": [`
	for _, o := range w.operations() {
		what := o.method + " " + o.path
		if len(w.doc.Security) == 0 || o.op.Security != nil {
			t.Errorf("%s: the document does not say that it needs a token", what)
		}
		for name, token := range map[string]string{"no token": "", "a made-up token": "sw_0123456789abcdef_" + strings.Repeat("0", 64)} {
			status, header, text := w.send(o.method, o.path, token, nil, nil)
			w.wantProblem(what+" with "+name+" (B6)", status, header, text, http.StatusUnauthorized)
		}
		status, header, text := w.send(o.method, o.path+"?zz_unknown=canary-4711", w.token, nil, nil)
		w.wantProblem(what+" with an unknown parameter", status, header, text, 0)
		if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
			t.Errorf("%s with an unknown parameter: HTTP %d, want a refusal", what, status)
		}
		if strings.Contains(string(text), "canary-4711") {
			t.Errorf("%s echoes what was sent: %s", what, text)
		}
		if o.op.RequestBody == nil {
			continue
		}
		for _, body := range []string{garbage, `[1, 2]`, `"x"`, `{"zz_unknown": "canary-4711"}`, `{"reason": "ok", "zz_unknown": "canary-4711"}`, "\x00\xff"} {
			status, header, text := w.send(o.method, o.path, w.token, nil, []byte(body))
			w.wantProblem(what+" with "+body, status, header, text, 0)
			if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
				t.Errorf("%s with %s: HTTP %d, want a refusal (F56)", what, body, status)
			}
			if strings.Contains(string(text), "canary-4711") {
				t.Errorf("%s echoes what was sent (B20): %s", what, text)
			}
		}
	}
}
