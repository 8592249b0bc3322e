// Package carrier says what a driver is: how a carrier's API is opened, what every one can do,
// what some can do besides, and how they tell what went wrong. It holds no carrier's code.
package carrier

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
)

// Driver speaks one carrier's API. One value serves all accounts of that carrier; it keeps no
// state of its own and is used from many goroutines.
type Driver interface {
	// Info declares what the carrier is like. It is constant.
	Info() Info
	// Open makes a connection for one account. It does no I/O: a wrong password shows at the
	// first call. The error says which setting or credential is missing or malformed.
	Open(Config) (Conn, error)
}

// Config is one account's settings.
type Config struct {
	// BaseURL is the API's root; empty takes the driver's default.
	BaseURL string
	// Credentials by the names that Info.Credentials declares, revealed.
	Credentials map[string]string
	// Settings by the names that Info.Settings declares.
	Settings map[string]string
	// HTTP sends one request, once. It is the gateway's: it limits, meters and never retries.
	HTTP Doer
	// Now is the injected clock; UTC.
	Now func() time.Time
	// Tokens keeps the account's login, for drivers of carriers at which a new login ends the one
	// before: all nodes then share one (F34). nil: the driver keeps its own, for this connection.
	Tokens TokenStore
}

// Doer sends one HTTP request. The operation it belongs to is taken from the request's context
// (WithOperation). Bodies of answers are bounded by the gateway. Errors are *Error.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// SIMRef names one SIM in calls to a driver.
type SIMRef struct {
	ICCID simwarden.ICCID
	// Key is the carrier's own name for the SIM (SID, UUID, number) as learnt from a list or a
	// reading; empty where the driver goes by ICCID or it is not known yet.
	Key    string
	MSISDN simwarden.MSISDN
	IMSI   simwarden.IMSI
}

// Conn is one open account. All methods are called from many goroutines, send at most one
// request for each carrier call they need, and return *Error for what the carrier said.
//
// A driver that needs a token logs in before the call's own request, as OpToken. An *Error whose
// Operation is OpToken tells that the login went wrong and that the call's own request was not
// sent. A read that meets a token no longer in force logs in and repeats itself once; a suspend
// or resume never does, and gives the error with TokenExpired set (C4).
type Conn interface {
	// State reads one SIM's state (operation query_state). A SIM that the carrier does not know
	// is an *Error with ClassNotFound by the driver's rules, never StateTerminated. Where the
	// carrier tells a state and why it is so by two calls, this makes both, one after the other;
	// the reading is as old as the first. Callers count one check, the gateway two requests.
	State(ctx context.Context, sim SIMRef) (simwarden.Reading, error)
	// Suspend takes one SIM off the network: exactly one state-changing HTTP request (C4). Where
	// the carrier's key must be looked up first, the caller does that by Resolver.
	Suspend(ctx context.Context, sim SIMRef) (Result, error)
	// Resume puts one SIM back on the network, likewise.
	Resume(ctx context.Context, sim SIMRef) (Result, error)
	// Probe makes the cheapest authenticated call there is, for "account test".
	Probe(ctx context.Context) error
}

// Outcome is how far a carrier got with a command when it answered without an error.
type Outcome string

// The outcomes. Whatever the carrier says, the state is read until it shows (C7).
const (
	// Done: the carrier says it has done it, State being what it answered.
	Done Outcome = "done"
	// Accepted: it will do it; Handle, where not empty, can be asked about (JobFollower).
	Accepted Outcome = "accepted"
)

// Result is a carrier's answer to a suspend or resume.
type Result struct {
	Outcome Outcome
	Handle  string
	// State is the state in the answer itself, nil where it had none.
	State *simwarden.StateReading
}

// Resolver is an optional capability: some carriers name a SIM by a key of their own, which
// only a lookup by ICCID gives (operation query_state). Called before Suspend and Resume when
// the key is not known, so that those stay one request.
type Resolver interface {
	Resolve(ctx context.Context, iccid simwarden.ICCID) (key string, err error)
}

// BatchReader is an optional capability: what the carrier says of many named SIMs in one call (P7,
// operation query_state): their states where it tells those in batches, else only who they are. A
// SIM that the answer leaves out, or tells an error of, is left out of the readings.
type BatchReader interface {
	SIMs(ctx context.Context, sims []SIMRef) ([]simwarden.Reading, error)
	BatchSize() int
}

// Page is one page of a list. Next is the cursor of the next page, empty at the end. A SIM
// missing in a list is not terminated, and a page may hold fewer than asked for.
type Page struct {
	Readings []simwarden.Reading
	Next     string
}

// Lister is an optional capability: the account's SIMs with their states, a page at a time (P7,
// operation list_sims). The empty cursor is the first page.
type Lister interface {
	List(ctx context.Context, cursor string) (Page, error)
}

// ChangedLister is an optional capability: the SIMs changed since an instant, a page at a time.
type ChangedLister interface {
	ListChanged(ctx context.Context, since time.Time, cursor string) (Page, error)
}

// UsageReader is an optional capability: one SIM's usage (operation query_usage).
type UsageReader interface {
	Usage(ctx context.Context, sim SIMRef) (simwarden.Reading, error)
}

// UsageLister is an optional capability: the usage of many SIMs, a page at a time (operation
// list_usage). ZeroIfAbsent says that, after a complete pass, a SIM that no page named has used
// nothing in the running period.
type UsageLister interface {
	ListUsage(ctx context.Context, cursor string) (Page, error)
	ZeroIfAbsent() bool
}

// UsageBatchReader is an optional capability: the usage of many named SIMs in one call (P7,
// operation list_usage). SIMs that the answer leaves out are left out of the readings, which says
// nothing of them. Figures may be older than those of UsageReader: TrueAt tells.
type UsageBatchReader interface {
	UsageOf(ctx context.Context, sims []SIMRef) ([]simwarden.Reading, error)
	UsageBatchSize() int
}

// BatchChanger is an optional capability: suspend or resume many named SIMs in one request. The
// answer is Accepted with the handle of a job, which JobFollower tells for each SIM. It is for work
// that a person hands in: an automatic command is one request for one SIM (C4).
type BatchChanger interface {
	ChangeMany(ctx context.Context, d simwarden.Direction, sims []SIMRef) (Result, error)
	ChangeBatchSize() int
}

// RealNameReader is an optional capability: one SIM's real-name status (operation query_realname).
type RealNameReader interface {
	RealName(ctx context.Context, sim SIMRef) (simwarden.Reading, error)
}

// LimitSetter is an optional capability: hold data limits at the carrier, at which the carrier stops a
// SIM by itself (P8, operation set_threshold). A limit is in terms of the carrier's usage counter: bytes
// of its running period, a whole number of Info.Limit.UnitBytes. Only limits that simwarden has made are
// seen and touched; those that operators made themselves are left alone.
type LimitSetter interface {
	// Limits reads all limits of ours that the account holds. A SIM may have two, where a request was
	// carried out that nobody heard of.
	Limits(ctx context.Context) ([]Limit, error)
	// SetLimit sends one request: it changes the limit of the handle or, where that is empty, makes one.
	// The caller knows by Limits that there is none: making one twice leaves two.
	SetLimit(ctx context.Context, sim SIMRef, handle string, limitBytes int64) (Limit, error)
	// RemoveLimit takes the limit of the handle away; one that is gone already is no error.
	RemoveLimit(ctx context.Context, handle string) error
}

// Limit is a data limit that a carrier holds for a SIM.
type Limit struct {
	Key        string // the carrier's own name for the SIM
	Handle     string // the carrier's name for the limit
	LimitBytes int64
	// Altered says that somebody has changed it otherwise than in its bytes, as by switching it off: it
	// is to be set again whatever its bytes are.
	Altered bool
}

// LimitInfo says what data limits a carrier can hold.
type LimitInfo struct {
	UnitBytes int64 // the size of the carrier's unit in bytes; 0: it holds none
	MostBytes int64 // the largest limit; more than that is no limit
}

// JobFollower is an optional capability: what became of an accepted command (operation query_job).
type JobFollower interface {
	Job(ctx context.Context, sim SIMRef, handle string) (JobState, error)
}

// JobState is how far an accepted command has come. Err says why a failed one failed.
type JobState struct {
	Finished bool
	Err      *Error
}

// CallbackReader is an optional capability: make a hint to read out of a carrier's callback
// (P9). The body is at most 1 MiB. Nothing in it is taken for truth.
type CallbackReader interface {
	Callback(header http.Header, body []byte) (hints []SIMRef, err error)
}

// Info is what a driver declares about its carrier.
type Info struct {
	Name  string // as registered: lower case, "soracom"
	Title string // as people say it
	// DefaultBaseURL and Hosts: accounts may point only at these hosts unless the operator names
	// another one (B16).
	DefaultBaseURL string
	Hosts          []string
	Credentials    []Field
	Settings       []Field
	// TrafficStates are the states that carry traffic at this carrier.
	TrafficStates []simwarden.State
	Usage         UsageInfo
	// Limit is what data limits the carrier holds for a SIM (P8); zero: none.
	Limit LimitInfo
	// MaxConcurrent is how many calls the carrier takes at a time; 0: not declared.
	MaxConcurrent int
	// PerSIMGap is the least time between calls for one SIM; 0: none. PerSIMGapOn are the
	// operations that it lies between, counted together; empty: all.
	PerSIMGap   time.Duration
	PerSIMGapOn []simwarden.Operation
	// ChangesPerLineDay is how many state changes a line may have a day; 0: not declared (C11).
	ChangesPerLineDay int
	// LockAfterSuspend is how long the carrier refuses a resume after a suspend; 0: not at all (C11).
	LockAfterSuspend time.Duration
	// SettleTime is how long after the last instant at which a request could have been executed
	// its effect may still be invisible to a read (V4).
	SettleTime time.Duration
	// StateLag is how late the carrier's states usually are (E11).
	StateLag time.Duration
	// PageSize is how many SIMs a list page holds at most; 0 where there is no list.
	PageSize int
	// ListNamesOnly says that the list tells which SIMs there are and nothing of their states, which
	// are then read one by one.
	ListNamesOnly bool
	// Reads are the kinds of check that the driver can make.
	Reads []simwarden.CheckKind
	// Rules are the default error rules, first match wins (G6).
	Rules []Rule
}

// Field is a credential or setting that an account needs.
type Field struct {
	Name     string
	Help     string
	Required bool
	Secret   bool
}

// UsageInfo says what a driver's usage figures are (U1).
type UsageInfo struct {
	// UnitBytes is the size of the carrier's unit in bytes, exactly: 1, 1_000_000, 1 << 20.
	UnitBytes int64
	// Period is the counter's period; Zone the IANA zone in which it turns.
	Period simwarden.ResetKind
	Zone   string
	// Lag is how late the figures usually are (E11).
	Lag time.Duration
	// WrapBytes is the count at which the counter starts over from zero within its period, in bytes, as one of
	// 32 bits does at 1 << 32; 0 where none is known. Without it a counter that falls is a correction (U2).
	WrapBytes int64
}

// Rule is one row of the error-rule table (G6). Empty fields match anything.
type Rule struct {
	Name      string
	Operation simwarden.Operation
	// ChangesOnly limits the rule to suspend and resume, ReadsOnly to all others.
	ChangesOnly bool
	ReadsOnly   bool
	HTTPStatus  int    // 0: any; 5 or 4: the whole hundred
	Code        string // the carrier's code, exact
	// Contains is a literal part of the message, any case.
	Contains string
	// Pattern is an RE2 pattern on the message; prefer Contains.
	Pattern       string
	Class         Class
	Extended      simwarden.ExtendedState
	ClosePolling  bool
	NotExecuted   bool // a documented code that says: not executed (C5)
	RetryAfterMin time.Duration
}

type operationKey struct{}

// WithOperation marks the context's requests as belonging to an operation. A driver calls it
// for each request; a login is OpToken whatever it is made for.
func WithOperation(ctx context.Context, op simwarden.Operation) context.Context {
	return context.WithValue(ctx, operationKey{}, op)
}

// OperationFrom gives the operation of a request's context, and false where nobody set one.
func OperationFrom(ctx context.Context) (simwarden.Operation, bool) {
	op, ok := ctx.Value(operationKey{}).(simwarden.Operation)
	return op, ok
}

// Traffic says whether the state carries traffic at this carrier (E3).
func (i Info) Traffic(s simwarden.State) bool {
	for _, t := range i.TrafficStates {
		if t == s {
			return true
		}
	}
	return false
}

// GapOn says whether PerSIMGap is kept before a call of the operation, and counted from it.
func (i Info) GapOn(op simwarden.Operation) bool {
	return i.PerSIMGap > 0 && (len(i.PerSIMGapOn) == 0 || slices.Contains(i.PerSIMGapOn, op))
}

// MarshalJSON keeps rules readable in listings.
func (r Rule) MarshalJSON() ([]byte, error) {
	type plain Rule
	return json.Marshal(struct {
		plain
		RetryAfterMin float64 `json:"RetryAfterMinSeconds"`
	}{plain(r), r.RetryAfterMin.Seconds()})
}

// CanRead says whether the driver can make that kind of check.
func (i Info) CanRead(kind simwarden.CheckKind) bool {
	for _, k := range i.Reads {
		if k == kind {
			return true
		}
	}
	return false
}
