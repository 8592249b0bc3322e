package carriertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
)

// contract is a carrier's own definition, moved to the lab's address.
type contract struct {
	router routers.Router
}

// definitions are read and checked once: each is some hundred kilobytes.
var definitions sync.Map // file name -> *openapi3.T

// newContract loads the definition. Its examples, defaults, patterns and formats are not judged:
// published definitions break their own rules there.
func newContract(t *testing.T, file, base string) *contract {
	t.Helper()
	loaded, ok := definitions.Load(file)
	if !ok {
		doc, err := openapi3.NewLoader().LoadFromFile(file)
		if err != nil {
			t.Fatalf("load the definition %s: %v", file, err)
		}
		if err := doc.Validate(t.Context(), lenient()...); err != nil {
			t.Fatalf("the definition %s is not valid: %v", file, err)
		}
		for _, item := range doc.Paths.Map() {
			item.Servers = nil // the lab's address stands for all
		}
		loaded, _ = definitions.LoadOrStore(file, doc)
	}
	doc := *loaded.(*openapi3.T)
	doc.Servers = openapi3.Servers{{URL: base}}
	router, err := gorillamux.NewRouter(&doc)
	if err != nil {
		t.Fatalf("route by the definition %s: %v", file, err)
	}
	return &contract{router: router}
}

func lenient() []openapi3.ValidationOption {
	return []openapi3.ValidationOption{
		openapi3.DisableExamplesValidation(), openapi3.DisableSchemaDefaultsValidation(),
		openapi3.DisableSchemaPatternValidation(), openapi3.DisableSchemaFormatValidation(),
	}
}

// hold holds a request and its answer against the definition.
func (c *contract) hold(t *testing.T, req *http.Request, body []byte, resp *http.Response, answer []byte) {
	t.Helper()
	what := req.Method + " " + req.URL.Path
	asked := req.Clone(req.Context())
	asked.Body = io.NopCloser(bytes.NewReader(body))
	route, params, err := c.router.FindRoute(asked)
	if err != nil {
		t.Errorf("%s is not in the carrier's definition: %v", what, err)
		return
	}
	for name := range asked.URL.Query() {
		if route.Operation.Parameters.GetByInAndName(openapi3.ParameterInQuery, name) == nil {
			t.Errorf("%s has parameter %s, which the carrier's definition lacks", what, name)
		}
	}
	options := &openapi3filter.Options{AuthenticationFunc: authenticated, IncludeResponseStatus: resp.StatusCode < 300}
	input := &openapi3filter.RequestValidationInput{Request: asked, PathParams: params, Route: route, Options: options}
	if err := openapi3filter.ValidateRequest(context.Background(), input); err != nil {
		t.Errorf("%s is not as the carrier's definition says: %v", what, err)
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header,
		Body: io.NopCloser(bytes.NewReader(answer)), Options: options,
	}
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		t.Errorf("the lab's answer %d to %s is not as the carrier's definition says: %v", resp.StatusCode, what, err)
	}
}

// authenticated says whether the request carries what the definition's security scheme wants.
func authenticated(_ context.Context, in *openapi3filter.AuthenticationInput) error {
	header := in.RequestValidationInput.Request.Header
	switch scheme := in.SecurityScheme; {
	case scheme.Type == "apiKey" && scheme.In == "header" && header.Get(scheme.Name) != "":
		return nil
	case scheme.Type == "http" && header.Get("Authorization") != "":
		return nil
	}
	return fmt.Errorf("security scheme %s is not met", in.SecuritySchemeName)
}
