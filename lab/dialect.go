package lab

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/simwarden/simwarden"
)

// Word is one of a carrier's own words for a state.
type Word struct {
	Raw     string
	State   simwarden.State
	Traffic bool // a SIM in it uses data
}

// Dialect is how one carrier speaks. It has no state of its own: each account gets a Session.
type Dialect interface {
	// Words lists the carrier's words. The first with a given State is the one that SetState uses.
	Words() []Word
	// ICCIDDigits is how long this carrier's ICCIDs are, check digit included: 19 or 20.
	ICCIDDigits() int
	// Key is the carrier's own name for a SIM; it must be the same for the same ICCID always.
	Key(iccid string) string
	// Open prepares an account: checks its credentials and makes its store of tokens.
	Open(*Account) (Session, error)
}

// Session is one account in its dialect. Its methods are called from many goroutines.
type Session interface {
	// Parse says what a request asks. path is the URL's path below the account's base. It never
	// acts and never checks credentials.
	Parse(r *http.Request, path string, body []byte) Request
	// Authorized says whether the request carries good credentials or a token in force at now.
	Authorized(r *http.Request, req *Request, now time.Time) bool
	// Allowed says whether the carrier lets a SIM go from one raw word to another.
	Allowed(from, to string) bool
	// RefusesWhilePending says that a change of a SIM whose last change is not done is refused.
	RefusesWhilePending() bool
	// Answer words a good answer, appending its body to dst.
	Answer(dst []byte, req *Request, out *Outcome) Reply
	// Problem words a bad answer, appending its body to dst.
	Problem(dst []byte, req *Request, p Problem) Reply
	// ExpireTokens makes every token given out so far invalid. Dialects without tokens do nothing.
	ExpireTokens()
}

// The following are what a dialect or session may have besides: each is looked for by its method.
type (
	// limited: the carrier has limits of its own whatever the contract says. Those that an account's
	// spec leaves zero are these.
	limited interface{ Limits() Limits }
	// zoned: the carrier counts usage by months of this zone, not of UTC.
	zoned interface{ Zone() *time.Location }
	// acting: a session that changes more than SIMs' states does so here, once a request is let through,
	// so that faults that act and then fail meet it. A problem says why it did not act.
	acting interface {
		Act(req *Request, now time.Time) *Problem
	}
	// limiting: a session that holds data limits can lose those of a SIM (LimitDrop).
	limiting interface{ DropLimits(iccid string) }
	// refusesRepeats: a change to the state that the SIM is in already is refused (ProblemAlready).
	refusesRepeats interface{ RefusesRepeats(from, to string) bool }
)

// Kind is what sort of request it is, as the log says it.
type Kind string

// The kinds. KindExecution is no request: it is a change that took place after its request had
// ended, or a second time.
const (
	KindChange    Kind = "change"
	KindRead      Kind = "read"
	KindList      Kind = "list"
	KindToken     Kind = "token"
	KindOther     Kind = "other"
	KindExecution Kind = "execution"
)

// Request is what a dialect made of an HTTP request.
type Request struct {
	Operation simwarden.Operation
	Kind      Kind
	// Key or ICCID names the SIM of a change or read, in the carrier's key or by number.
	Key string
	// To is the raw word that a change asks for.
	To string
	// List: SIMs from this position on (the cursor is the dialect's to word), at most Limit, only
	// those with this raw word, only these ICCIDs or keys. Pending ones go by PendingRaw, where the
	// carrier has a word for it. Usage adds each row's usage.
	After      int
	Limit      int
	OnlyRaw    string
	PendingRaw string
	ICCIDs     []string
	// Usage asks for usage between From and Until (UTC, half open); NonZero leaves out rows
	// without any. Both instants may be cut by Step into several rows a SIM (reads only).
	Usage       bool
	NonZero     bool
	From, Until time.Time
	Step        Step
	// NoState says that the answer tells nothing of the state.
	NoState bool
	// Problem, where not empty, is what is wrong with the request itself.
	Problem ProblemKind
	// Detail is the dialect's own: it comes back in Answer and Problem untouched.
	Detail any
	// Host is the request's Host header, for links in answers.
	Host string
}

// Step cuts a span of time into rows.
type Step string

// The steps, all in UTC. StepAll is one row for the whole span.
const (
	StepAll         Step = ""
	StepFiveMinutes Step = "5m"
	StepHour        Step = "hour"
	StepDay         Step = "day"
	StepMonth       Step = "month"
)

// View is a SIM as an answer shows it: true, or what a fault makes of it.
type View struct {
	Card      *Card
	Raw       string
	State     simwarden.State
	Pending   bool // the carrier is still changing it
	Online    bool
	ChangedAt time.Time
	// RealName is the SIM's real-name status in the dialect's words; empty: as the dialect likes.
	RealName string
	// UsageBytes is the usage in the asked span; Spans cuts it up where the request has a Step.
	UsageBytes int64
	Spans      []Span
}

// Span is usage in one step of time.
type Span struct {
	From, Until time.Time
	Bytes       int64
}

// Outcome is what the world did or found.
type Outcome struct {
	Views []View
	// Next is the position after which the next page begins; More is false at the end.
	Next int
	More bool
	// Accepted: the change was taken and is not done yet.
	Accepted bool
	Now      time.Time
}

// Reply is a worded answer.
type Reply struct {
	Status int
	Header http.Header // nil: only the content type
	Body   []byte
}

// ProblemKind is what is wrong, in our words.
type ProblemKind string

// The problems that every dialect can word.
const (
	ProblemNoSuchCall  ProblemKind = "no_such_call"
	ProblemBadRequest  ProblemKind = "bad_request"
	ProblemAuth        ProblemKind = "auth"
	ProblemNotFound    ProblemKind = "not_found"
	ProblemNotAllowed  ProblemKind = "not_allowed"
	ProblemAlready     ProblemKind = "already" // only where a session refuses repeats
	ProblemBusy        ProblemKind = "busy"
	ProblemThrottled   ProblemKind = "throttled"
	ProblemServer      ProblemKind = "server"
	ProblemMaintenance ProblemKind = "maintenance"
)

// Problem is a bad answer to word. Status is the HTTP status of ProblemServer (500 to 599);
// dialects choose it for the others.
type Problem struct {
	Kind   ProblemKind
	Status int
	// From and To are the raw words of a change that was refused.
	From, To string
}

var registry struct {
	mu       sync.RWMutex
	dialects map[string]Dialect
}

// RegisterDialect makes a dialect available under its name; it is called from init functions. It
// panics on a name taken twice, which is a mistake in the build.
func RegisterDialect(name string, d Dialect) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.dialects == nil {
		registry.dialects = make(map[string]Dialect)
	}
	if _, taken := registry.dialects[name]; taken {
		panic(fmt.Sprintf("lab: dialect %q registered twice", name))
	}
	registry.dialects[name] = d
}

// Dialects lists the registered names in order.
func Dialects() []string {
	registry.mu.RLock()
	defer registry.mu.RUnlock()
	names := make([]string, 0, len(registry.dialects))
	for name := range registry.dialects {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func dialectNamed(name string) (Dialect, error) {
	registry.mu.RLock()
	d, ok := registry.dialects[name]
	registry.mu.RUnlock()
	if !ok {
		return nil, fmt.Errorf("the lab has no dialect %q; there are %v", name, Dialects())
	}
	return d, nil
}
