package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// What stands before every route, in the order in which a request meets it.

type contextKey int

const (
	keyRequestID contextKey = iota
	keyActor
	keyKeyed
)

func requestID(ctx context.Context) string {
	id, _ := ctx.Value(keyRequestID).(string)
	return id
}

// actorOf is who is asking: "token:<name>".
func actorOf(ctx context.Context) string {
	actor, _ := ctx.Value(keyActor).(string)
	return actor
}

const (
	requestTimeout = 30 * time.Second
	maxBodyBytes   = 1 << 20
)

// identify gives the request an id, a time-out and a writer that knows what was written.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := randomHex(8)
		ctx, cancel := context.WithTimeout(context.WithValue(r.Context(), keyRequestID, id), requestTimeout)
		defer cancel()
		w.Header().Set("X-Request-Id", id)
		next.ServeHTTP(&watched{ResponseWriter: w}, r.WithContext(ctx))
	})
}

// watched remembers the status that was written; 0 before.
type watched struct {
	http.ResponseWriter
	status int
}

func (w *watched) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *watched) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.status = http.StatusOK
	}
	return w.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController and huma reach the connection.
func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// secureHeaders are those of B18, and no-store (B17). Nothing here is a page.
func secureHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// recoverPanics answers a panic with a 500 and logs it with its stack. The path is logged as its
// route, never as it was sent.
func recoverPanics(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() {
			v := recover()
			if v == nil {
				return
			}
			if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(v)
			}
			log.LogAttrs(r.Context(), slog.LevelError, "panic in a request", slog.String("request", requestID(r.Context())),
				slog.String("method", r.Method), slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
			if seen, ok := w.(*watched); ok && seen.status != 0 {
				panic(http.ErrAbortHandler) // half an answer must not look like a whole one
			}
			writeProblem(w, r, newProblem(http.StatusInternalServerError, "internal", unexpected))
		}()
		next.ServeHTTP(w, r)
	})
}

// cleanInput refuses what no column of text takes, or makes it show as what it is not: control
// characters, those that turn the direction of writing, and broken UTF-8 in the path and query; and paths that are not in their shortest form. Bodies are looked at where they are decoded.
func cleanInput(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, err := url.QueryUnescape(r.URL.RawQuery)
		if err != nil || !cleanText(query) || !cleanText(r.URL.Path) {
			writeProblem(w, r, newProblem(http.StatusBadRequest, "bad_request", "the path or query has control characters or is not UTF-8"))
			return
		}
		if r.URL.Path != "/" && path.Clean(r.URL.Path) != strings.TrimSuffix(r.URL.Path, "/") { // the mux would redirect, with a page
			writeProblem(w, r, newProblem(http.StatusNotFound, "no_such_route", "there is nothing at a path with empty or dotted parts"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

func cleanText(text string) bool {
	return utf8.ValidString(text) && strings.IndexFunc(text, func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' && r != '\t' || r >= '\u202a' && r <= '\u202e' || r >= '\u2066' && r <= '\u2069'
	}) < 0
}

// jsonOnly refuses other bodies than JSON, so that no form of another site can send one (B7).
func jsonOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 && r.Method != http.MethodGet && r.Method != http.MethodHead {
			kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
			if err != nil || kind != "application/json" {
				writeProblem(w, r, newProblem(http.StatusUnsupportedMediaType, "json_only", "send JSON, with Content-Type: application/json"))
				return
			}
		}
		r.Body = http.MaxBytesReader(w, r.Body, bodyLimit(r))
		next.ServeHTTP(w, r)
	})
}

// authenticate lets requests with a good bearer token pass (B6). It stands before the routes, so
// that nobody learns without one which there are.
func authenticate(s *Service, log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, text, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		err := ErrUnauthorized
		name := ""
		if strings.EqualFold(scheme, "Bearer") {
			t, found := s.Authenticate(r.Context(), strings.TrimSpace(text))
			name, err = t.Name, found
		}
		if err != nil {
			p := problemOf(r.Context(), log, err)
			if p.Status == http.StatusUnauthorized {
				w.Header().Set("WWW-Authenticate", `Bearer realm="simwarden"`)
				log.LogAttrs(r.Context(), slog.LevelWarn, "request without a good token", slog.String("request", requestID(r.Context())),
					slog.String("from", r.RemoteAddr), slog.String("method", r.Method))
			}
			writeProblem(w, r, p)
			return
		}
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), keyActor, "token:"+name)))
	})
}

// crossOrigin refuses what a browser sends for another site (B7).
func crossOrigin(next http.Handler) http.Handler {
	c := http.NewCrossOriginProtection()
	c.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		writeProblem(w, r, newProblem(http.StatusForbidden, "cross_origin", "another site may not do this"))
	}))
	return c.Handler(next)
}

// known serves the mux's routes, and answers those it has not as a problem: 404 or 405.
func known(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, pattern := mux.Handler(r); pattern != "" {
			mux.ServeHTTP(w, r)
			return
		}
		var said answer
		mux.ServeHTTP(&said, r)
		p := newProblem(http.StatusNotFound, "no_such_route", "there is nothing at this path; /api/v1/openapi.json lists what there is")
		if said.status == http.StatusMethodNotAllowed {
			w.Header().Set("Allow", said.Header().Get("Allow"))
			p = newProblem(http.StatusMethodNotAllowed, "method_not_allowed", "this path does not take this method; the header Allow says which it takes")
		}
		writeProblem(w, r, p)
	})
}

// answer takes the mux's own answer and keeps its status and headers.
type answer struct {
	header http.Header
	status int
}

func (a *answer) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}
func (a *answer) WriteHeader(status int)      { a.status = status }
func (a *answer) Write(b []byte) (int, error) { return len(b), nil }

// loopbackOnly serves this machine alone, and not what a proxy on it passes on (B1), nor a page in a
// browser on it whose name was made to lead here (DNS rebinding).
func loopbackOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		forwarded := r.Header.Get("Forwarded") + r.Header.Get("X-Forwarded-For") + r.Header.Get("X-Real-Ip") + r.Header.Get("Via")
		if forwarded != "" || !isLoopbackAddress(r.RemoteAddr) || !isLoopbackName(r.Host) {
			writeProblem(w, r, newProblem(http.StatusForbidden, "loopback_only", "this is served to the machine itself alone"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLoopbackName says whether a request's Host names this machine's loopback, with a port or without.
func isLoopbackName(host string) bool {
	if bare, _, err := net.SplitHostPort(host); err == nil {
		host = bare
	}
	return isLoopbackHost(strings.Trim(host, "[]"))
}

func isLoopbackAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// record logs each request: its route, never its URL (B13).
func record(log *slog.Logger, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r)
		seen, ok := w.(*watched)
		if !ok || r.Method == http.MethodGet || r.Method == http.MethodHead {
			return
		}
		log.LogAttrs(r.Context(), slog.LevelInfo, "request", slog.String("request", requestID(r.Context())),
			slog.String("actor", actorOf(r.Context())), slog.String("route", r.Pattern), slog.Int("status", seen.status))
	})
}
