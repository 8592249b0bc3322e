package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/transfer"
)

// ExportAccount, ExportSIM and ExportRange are what narrows exports.

// ExportAccount narrows to an account.
type ExportAccount struct {
	Account string `query:"account" maxLength:"64" doc:"An account's name"`
}

// ExportSIM narrows to a SIM.
type ExportSIM struct {
	ICCID string `query:"iccid" maxLength:"64"`
}

// ExportRange narrows to a time.
type ExportRange struct {
	From  time.Time `query:"from" doc:"From this instant on"`
	Until time.Time `query:"until" doc:"Before this instant"`
}

type exportSIMs struct {
	ExportAccount
	State string `query:"state" maxLength:"32"`
}

type exportSubscriptions struct {
	ExportAccount
	Ended bool `query:"ended" doc:"Those that have ended as well"`
}

type exportTimed struct {
	ExportAccount
	ExportSIM
	ExportRange
}

func (q exportTimed) query() ExportQuery {
	return ExportQuery{Account: q.Account, ICCID: q.ICCID, FromAt: q.From, UntilAt: q.Until}
}

func (r *rest) exports() {
	export(r, transfer.KindSIMs, "/exports/sims", "SIMs", func(in *exportSIMs) ExportQuery {
		return ExportQuery{Account: in.Account, State: simwarden.State(in.State)}
	})
	export(r, transfer.KindDevices, "/exports/devices", "devices", func(*struct{}) ExportQuery { return ExportQuery{} })
	export(r, transfer.KindSubscriptions, "/exports/subscriptions", "subscriptions", func(in *exportSubscriptions) ExportQuery {
		return ExportQuery{Account: in.Account, Ended: in.Ended}
	})
	export(r, transfer.KindRecords, "/exports/records", "records of commands, the newest first", func(in *exportTimed) ExportQuery { return in.query() })
	export(r, transfer.KindUsageDays, "/exports/usage-days", "the bytes that SIMs used, by UTC day", func(in *exportTimed) ExportQuery { return in.query() })
}

// export binds one export.
func export[I any](r *rest, kind transfer.Kind, path, what string, query func(*I) ExportQuery) {
	op := get(Prefix+path, "export-"+string(kind), "Export "+what+" as CSV, without a limit of rows")
	op.Description = "UTF-8 with a byte-order mark; each cell below the header is quoted, and begins with an apostrophe where a spreadsheet would take it for a formula or round it. " +
		"An answer that was cut off has failed; ask again."
	op.Responses = map[string]*huma.Response{"200": {Description: "The file",
		Content: map[string]*huma.MediaType{csvType: {Schema: &huma.Schema{Type: huma.TypeString}}}}}
	op.Metadata = map[string]any{}
	defer r.learn(op)
	huma.Register(r.api, op, func(ctx context.Context, in *I) (*huma.StreamResponse, error) {
		write, err := r.service.Export(ctx, kind, query(in))
		if err != nil {
			return nil, problemOf(ctx, r.log, err)
		}
		select {
		case r.exporting <- struct{}{}:
		default:
			return nil, problemOf(ctx, r.log, ErrExportsBusy)
		}
		return &huma.StreamResponse{Body: func(c huma.Context) {
			defer func() { <-r.exporting }()
			request, w := humago.Unwrap(c)
			out := newStream(w, string(kind))
			defer out.stop()
			// The time-out of requests is not for what is as long as the fleet is large.
			rows, err := write(context.WithoutCancel(ctx), out)
			switch {
			case err == nil:
				r.log.LogAttrs(ctx, slog.LevelInfo, "export", slog.String("request", requestID(ctx)), slog.String("actor", actorOf(ctx)), slog.String("kind", string(kind)), slog.Int("rows", rows))
			case out.begun:
				r.log.LogAttrs(ctx, slog.LevelError, "export cut off", slog.String("request", requestID(ctx)), slog.String("error", err.Error()))
				panic(http.ErrAbortHandler) // half a file must not look like a whole one
			default:
				writeProblem(w, request, problemOf(ctx, r.log, err))
			}
		}}, nil
	})
}

const (
	csvType = "text/csv"
	// streamIdle is how long a reader may take for a piece of a file.
	streamIdle = time.Minute
)

// stream writes a file to a client for as long as it takes it.
type stream struct {
	w     http.ResponseWriter
	name  string
	idle  *time.Timer
	begun bool
}

func newStream(w http.ResponseWriter, name string) *stream {
	control := http.NewResponseController(w)
	_ = control.SetWriteDeadline(time.Time{}) // where there is none to set, none ends it
	return &stream{w: w, name: name, idle: time.AfterFunc(streamIdle, func() {
		_ = control.SetWriteDeadline(time.Unix(1, 0)) // ends the write that waits
	})}
}

// Write begins the answer with the first piece.
func (s *stream) Write(p []byte) (int, error) {
	if !s.begun {
		s.begun = true
		s.w.Header().Set("Content-Type", csvType+"; charset=utf-8")
		s.w.Header().Set("Content-Disposition", `attachment; filename="`+s.name+`.csv"`)
		s.w.WriteHeader(http.StatusOK)
	}
	s.idle.Reset(streamIdle)
	return s.w.Write(p)
}

func (s *stream) stop() { s.idle.Stop() }
