package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/simwarden/simwarden/internal/store"
)

// Options are what the handler needs.
type Options struct {
	Service *Service
	// Registry is what /metrics shows; nil: there is no /metrics.
	Registry prometheus.Gatherer
	// Ready says whether the loops run, for /readyz; nil: they are not asked. Its error is logged,
	// not shown.
	Ready func(context.Context) error
	// Log takes a line for each failure and change; nil: nothing is logged.
	Log *slog.Logger
}

// Prefix is where the API lives.
const Prefix = "/api/v1"

// NewHandler serves the API under Prefix to bearers of a token, and to everybody /healthz (the
// process lives) and /readyz (it can work); /metrics to this machine alone.
func NewHandler(o Options) (http.Handler, error) {
	if o.Service == nil || o.Service.Store == nil || o.Service.Clock == nil {
		return nil, errors.New("make the API: a service with a store and a clock is needed")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	routes := http.NewServeMux()
	if err := newREST(o, routes); err != nil {
		return nil, fmt.Errorf("make the API: %w", err)
	}
	outer := http.NewServeMux()
	outer.Handle(Prefix+"/", crossOrigin(authenticate(o.Service, o.Log, jsonOnly(takeKeys(record(o.Log, known(routes)))))))
	outer.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { writeStatus(w, "ok") })
	outer.HandleFunc("GET /readyz", o.ready)
	if o.Registry != nil {
		outer.Handle("GET /metrics", loopbackOnly(promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{ErrorLog: promLog{o.Log}, MaxRequestsInFlight: 4})))
	}
	return identify(secureHeaders(recoverPanics(o.Log, cleanInput(known(outer))))), nil
}

func writeStatus(w http.ResponseWriter, status string) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"status": status}) // whoever asked has gone
}

// ready answers 200 where the database answers, has our schema, and the loops run.
func (o Options) ready(w http.ResponseWriter, r *http.Request) {
	for _, check := range []struct {
		what string
		do   func(context.Context) error
	}{
		{"the database does not answer", o.Service.Store.Ping},
		{"the database's schema is not this program's", o.Service.Store.CheckVersion},
		{"a loop does not run", o.Ready},
	} {
		if check.do == nil {
			continue
		}
		if err := check.do(r.Context()); err != nil {
			o.Log.LogAttrs(r.Context(), slog.LevelWarn, "not ready", slog.String("request", requestID(r.Context())), slog.String("error", err.Error()))
			writeProblem(w, r, newProblem(http.StatusServiceUnavailable, "not_ready", check.what))
			return
		}
	}
	writeStatus(w, "ready")
}

type promLog struct{ log *slog.Logger }

func (p promLog) Println(v ...any) { p.log.Error("metrics", "error", fmt.Sprint(v...)) }

// rest binds the operations to routes.
type rest struct {
	api       huma.API
	service   *Service
	log       *slog.Logger
	exporting chan struct{} // holds one for each export under way
}

func newREST(o Options, mux *http.ServeMux) error {
	config := huma.DefaultConfig("simwarden", "1")
	config.Info.Description = "Keeps every SIM of a fleet in the state it should be in. " +
		"All instants are UTC. Errors are RFC 9457. The words that fields hold are listed by GET /enumerations."
	config.Info.License = &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"}
	// huma's own routes for the document make it at the first request, without a lock.
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Transformers = append(config.Transformers, sayAgain)
	config.RejectUnknownQueryParameters = true
	format := huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: unmarshalClean}
	config.Formats = map[string]huma.Format{"application/json": format, "json": format} // the latter is problem+json
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"bearer": {Type: "http", Scheme: "bearer", BearerFormat: "sw_<id>_<secret>"}}
	config.Security = []map[string][]string{{"bearer": {}}}
	r := &rest{api: humago.New(mux, config), service: o.Service, log: o.Log, exporting: make(chan struct{}, maxExports)}
	r.api.OpenAPI().Components.Schemas.RegisterTypeAlias(reflect.TypeFor[store.Account](), reflect.TypeFor[accountSchema]())
	r.sims()
	r.devices()
	r.realNames()
	r.accounts()
	r.limitGroups()
	r.plans()
	r.subscriptions()
	r.wallets()
	r.holds()
	r.pools()
	r.margins()
	r.commands()
	r.diffs()
	r.bulks()
	r.records()
	r.alerts()
	r.audit()
	r.errorRules()
	r.reports()
	r.exports()
	r.retention()
	document, err := json.Marshal(r.api.OpenAPI())
	if err != nil {
		return err
	}
	mux.HandleFunc("GET "+Prefix+"/openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document) // whoever asked may have gone
	})
	return nil
}

var errControl = errors.New("control characters in text")

// unmarshalClean decodes JSON whose texts have no control characters: Postgres takes no NUL, and a
// log or terminal none of the others. huma decodes each body into an any before all else.
func unmarshalClean(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	if tree, ok := v.(*any); ok && !cleanTree(*tree) {
		return errControl
	}
	return nil
}

func cleanTree(v any) bool {
	switch v := v.(type) {
	case string:
		return cleanText(v)
	case []any:
		for _, item := range v {
			if !cleanTree(item) {
				return false
			}
		}
	case map[string]any:
		for name, item := range v {
			if !cleanText(name) || !cleanTree(item) {
				return false
			}
		}
	}
	return true
}

// body is an answer that is JSON.
type body[T any] struct{ Body T }

// items is an answer that is a whole list.
type items[T any] struct {
	Items []T `json:"items"`
}

// on binds one operation: its errors go through the table of problems.
func on[I, B any](r *rest, op huma.Operation, do func(context.Context, *I) (B, error)) {
	op.Path = Prefix + op.Path
	if op.MaxBodyBytes == 0 {
		op.MaxBodyBytes = maxBodyBytes
	}
	// Longer than a request may take: a read deadline that passes while the operation works would
	// cancel it.
	op.BodyReadTimeout = requestTimeout + requestTimeout/2
	describeKey(&op)
	if op.Metadata == nil {
		op.Metadata = map[string]any{}
	}
	huma.Register(r.api, op, func(ctx context.Context, in *I) (*body[B], error) {
		var b B
		var err error
		if k := keyedOf(ctx); k != nil && happensOnce(op) {
			err = once(ctx, r.service, k, func(ctx context.Context) (any, error) { return do(ctx, in) })
		} else {
			b, err = do(ctx, in)
		}
		if err != nil {
			return nil, problemOf(ctx, r.log, err)
		}
		return &body[B]{b}, nil
	})
	r.learn(op)
}

func get(path, id, summary string) huma.Operation {
	return huma.Operation{Method: http.MethodGet, Path: path, OperationID: id, Summary: summary}
}

func post(path, id, summary string) huma.Operation {
	return huma.Operation{Method: http.MethodPost, Path: path, OperationID: id, Summary: summary}
}

func patch(path, id, summary string) huma.Operation {
	return huma.Operation{Method: http.MethodPatch, Path: path, OperationID: id, Summary: summary}
}

// created makes an operation answer 201.
func created(op huma.Operation) huma.Operation {
	op.DefaultStatus = http.StatusCreated
	return op
}
