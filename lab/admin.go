package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/simwarden/simwarden"
)

// AccountInfo is an account as the admin endpoint shows it.
type AccountInfo struct {
	Name    string         `json:"name"`
	Dialect string         `json:"dialect"`
	Path    string         `json:"path"`
	SIMs    int            `json:"sims"`
	States  map[string]int `json:"states"`
	Limits  Limits         `json:"limits"`
}

// SIMChange is what the admin endpoint can do to a SIM, in this order. Zero fields do nothing.
type SIMChange struct {
	State         simwarden.State `json:"state,omitempty"`
	UsageBytes    *int64          `json:"usage_bytes,omitempty"`
	AddUsageBytes int64           `json:"add_usage_bytes,omitempty"`
	RealName      *string         `json:"real_name,omitempty"` // in the dialect's words
}

// Advance is how far the virtual clock is to be moved.
type Advance struct {
	Seconds float64 `json:"seconds"`
}

// admin is the endpoint under /lab/: JSON in and out, no password.
//
//	GET    /lab/accounts                        AccountInfo of each
//	PUT    /lab/accounts/{account}/limits       Limits; answers AccountInfo
//	POST   /lab/accounts/{account}/expire-tokens
//	GET    /lab/sims?account=                   SIMTruth of each; all accounts without the name
//	GET    /lab/sims/{account}/{iccid}          SIMTruth
//	POST   /lab/sims/{account}/{iccid}          SIMChange; answers SIMTruth
//	GET    /lab/faults                          the faults that are on
//	POST   /lab/faults                          Fault; answers it with its id
//	DELETE /lab/faults, /lab/faults/{id}        all, or one; neither takes a body
//	GET    /lab/counters                        counters, faults injected, requests, violations
//	GET    /lab/log?after=&limit=               kept lines with a greater seq, oldest first
//	POST   /lab/clock                           Advance, for a world on a clock that can be moved
func (w *World) admin() http.Handler {
	mux := http.NewServeMux()
	route := func(pattern string, do func(*http.Request) (any, error)) {
		mux.HandleFunc(pattern, func(rw http.ResponseWriter, r *http.Request) {
			r.Body = http.MaxBytesReader(rw, r.Body, maxBody)
			value, err := do(r)
			if err != nil {
				rw.Header().Set("Content-Type", jsonType)
				rw.WriteHeader(adminStatus(err))
				value = map[string]string{"error": err.Error()}
			} else {
				rw.Header().Set("Content-Type", jsonType)
			}
			_ = json.NewEncoder(rw).Encode(value) // an error means that the client has left
		})
	}
	route("GET /lab/accounts", func(*http.Request) (any, error) {
		infos := []AccountInfo{}
		for _, a := range w.Accounts() {
			infos = append(infos, a.info())
		}
		return infos, nil
	})
	route("PUT /lab/accounts/{account}/limits", func(r *http.Request) (any, error) {
		return w.withAccount(r, func(a *Account) (any, error) {
			var limits Limits
			if err := decode(r, &limits); err != nil {
				return nil, err
			}
			a.SetLimits(limits)
			return a.info(), nil
		})
	})
	route("POST /lab/accounts/{account}/expire-tokens", func(r *http.Request) (any, error) {
		return w.withAccount(r, func(a *Account) (any, error) {
			a.ExpireTokens()
			return a.info(), nil
		})
	})
	route("GET /lab/sims", func(r *http.Request) (any, error) {
		if name := r.URL.Query().Get("account"); name != "" {
			a := w.Account(name)
			if a == nil {
				return nil, errNoAccount
			}
			return a.SIMs(), nil
		}
		return w.Truth(), nil
	})
	route("GET /lab/sims/{account}/{iccid}", w.adminSIM)
	route("POST /lab/sims/{account}/{iccid}", w.adminSIM)
	route("GET /lab/faults", func(*http.Request) (any, error) { return w.Faults(), nil })
	route("POST /lab/faults", func(r *http.Request) (any, error) {
		var f Fault
		if err := decode(r, &f); err != nil {
			return nil, err
		}
		id, err := w.SetFault(f)
		f.ID = id
		return f, err
	})
	route("DELETE /lab/faults", func(r *http.Request) (any, error) {
		if r.ContentLength != 0 { // who names faults in a body does not mean all
			return nil, fmt.Errorf("clear faults: this clears all and takes no body; one is cleared by DELETE /lab/faults/{id}: %w", errBadAdmin)
		}
		w.ClearFaults()
		return w.Faults(), nil
	})
	route("DELETE /lab/faults/{id}", func(r *http.Request) (any, error) {
		id, err := strconv.Atoi(r.PathValue("id"))
		if err != nil || !w.ClearFault(id) {
			return nil, fmt.Errorf("clear fault %q: %w", r.PathValue("id"), ErrFault)
		}
		return w.Faults(), nil
	})
	route("GET /lab/counters", func(*http.Request) (any, error) {
		return map[string]any{"requests": w.Requests(), "limit_violations": w.LimitViolations(),
			"faults_injected": w.FaultsInjected(), "counters": w.Counters()}, nil
	})
	route("GET /lab/log", w.adminLog)
	route("POST /lab/clock", func(r *http.Request) (any, error) {
		var by Advance
		if err := decode(r, &by); err != nil {
			return nil, err
		}
		movable, ok := w.clock.(interface{ Advance(time.Duration) })
		if !ok {
			return nil, fmt.Errorf("%w: this lab runs on the machine's clock", errBadAdmin)
		}
		movable.Advance(time.Duration(by.Seconds * float64(time.Second)))
		return map[string]time.Time{"now": w.settle()}, nil
	})
	return mux
}

var (
	errNoAccount = errors.New("the lab has no account of this name")
	errBadAdmin  = errors.New("the request cannot be carried out")
)

func adminStatus(err error) int {
	switch {
	case errors.Is(err, errNoAccount), errors.Is(err, ErrNoSIM):
		return http.StatusNotFound
	case errors.Is(err, ErrFault), errors.Is(err, ErrState), errors.Is(err, errBadAdmin):
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

func decode(r *http.Request, into any) error {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("%w: read the body: %w", errBadAdmin, err)
	}
	return nil
}

func (w *World) withAccount(r *http.Request, do func(*Account) (any, error)) (any, error) {
	a := w.Account(r.PathValue("account"))
	if a == nil {
		return nil, errNoAccount
	}
	return do(a)
}

func (w *World) adminSIM(r *http.Request) (any, error) {
	return w.withAccount(r, func(a *Account) (any, error) {
		iccid := r.PathValue("iccid")
		var change SIMChange
		if r.Method == http.MethodPost {
			if err := decode(r, &change); err != nil {
				return nil, err
			}
		}
		if change.State != "" {
			if err := a.SetState(iccid, change.State); err != nil {
				return nil, err
			}
		}
		if change.UsageBytes != nil {
			if err := a.SetUsage(iccid, *change.UsageBytes); err != nil {
				return nil, err
			}
		}
		if change.RealName != nil {
			if err := a.SetRealName(iccid, *change.RealName); err != nil {
				return nil, err
			}
		}
		if change.AddUsageBytes != 0 {
			if err := a.AddUsage(iccid, change.AddUsageBytes); err != nil {
				return nil, err
			}
		}
		truth, ok := a.SIM(iccid)
		if !ok {
			return nil, fmt.Errorf("read sim %s of account %s: %w", iccid, a.Name(), ErrNoSIM)
		}
		return truth, nil
	})
}

// maxLogLines bounds one answer of the log.
const maxLogLines = 10_000

func (w *World) adminLog(r *http.Request) (any, error) {
	number := func(name string, otherwise uint64) (uint64, error) {
		text := r.URL.Query().Get(name)
		if text == "" {
			return otherwise, nil
		}
		n, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return 0, fmt.Errorf("%w: %s is no number", errBadAdmin, name)
		}
		return n, nil
	}
	after, err := number("after", 0)
	if err != nil {
		return nil, err
	}
	limit, err := number("limit", 1000)
	if err != nil {
		return nil, err
	}
	lines := []LogLine{}
	for _, line := range w.LogLines() {
		if line.Seq > after && len(lines) < int(min(limit, maxLogLines)) {
			lines = append(lines, line)
		}
	}
	return lines, nil
}

func (a *Account) info() AccountInfo {
	now := a.world.settle()
	info := AccountInfo{Name: a.Name(), Dialect: a.spec.Dialect, Path: a.Path(), States: map[string]int{}, Limits: a.Limits()}
	a.mu.RLock()
	defer a.mu.RUnlock()
	info.SIMs = len(a.sims)
	for _, s := range a.sims {
		info.States[string(a.words[s.at(now).word].State)]++
	}
	return info
}
