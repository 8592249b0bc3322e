package lab

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simwarden/simwarden"
)

// AccountSpec says what an account is like. The zero value of each optional field is the
// simplest carrier: no limits, no delays.
type AccountSpec struct {
	// Name is part of the path: lower-case letters, digits and hyphens. Unique in the world.
	Name    string
	Dialect string
	// Credentials as the dialect names them; empty takes the dialect's invented ones, which
	// Account.Credentials tells.
	Credentials map[string]string
	Limits      Limits
	// LimitGroup: accounts with the same non-empty group share the limits of the first (G3).
	LimitGroup string
	// ChangeDelay is how long a suspend or resume takes; 0: done when answered.
	ChangeDelay time.Duration
	// ReadLag and UsageLag are how old states and usage are when answered.
	ReadLag  time.Duration
	UsageLag time.Duration
	// UsageScale multiplies usage, to see plans run out within minutes; 0 means 1.
	UsageScale float64
	// PageSize bounds list pages below what the dialect allows; 0: the dialect's own.
	PageSize int
	// ShortPages gives pages of seeded sizes, often fewer rows than asked for.
	ShortPages bool
	// TokenLife bounds the life of tokens; 0: what the dialect says.
	TokenLife time.Duration
	// SingleToken makes each login void the tokens given out before (F34).
	SingleToken bool
}

// Account is one carrier account of a world. Its methods may be called from many goroutines.
type Account struct {
	world   *World
	spec    AccountSpec
	dialect Dialect
	session Session
	words   []Word
	wordOf  map[string]uint8
	limiter *limiter
	ordinal int
	scale   float64
	zone    *time.Location

	flaps  atomic.Uint64
	barred atomic.Pointer[simwarden.Direction]

	mu      sync.RWMutex
	sims    []*sim
	byICCID map[string]*sim
	byKey   map[string]*sim
	// byNumber finds by MSISDN and by IMSI, for carriers that take those too.
	byNumber map[string]*sim
	creds    map[string]string
	limited  map[*sim]bool // those with a data limit
	wrap     int64         // bytes at which usage is shown from zero again, see WrapUsage
}

// Name is the account's name.
func (a *Account) Name() string { return a.spec.Name }

// Spec is what the account was made with, without its credentials.
func (a *Account) Spec() AccountSpec {
	spec := a.spec
	spec.Credentials = nil
	return spec
}

// Credentials are the ones that the account takes, under the dialect's names.
func (a *Account) Credentials() map[string]string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return maps.Clone(a.creds)
}

// SetCredential lets a dialect name an invented credential where none was given, or a test
// change one. Tokens in force stay so.
func (a *Account) SetCredential(name, value string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.creds[name] = value
}

// Credential is one credential, empty where there is none.
func (a *Account) Credential(name string) string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return a.creds[name]
}

// Path is the account's path on the lab's server, without a slash at the end.
func (a *Account) Path() string { return "/" + a.spec.Name }

// BaseURL is what a driver takes as its carrier's base URL. root is the server's, as
// Server.URL or httptest.Server.URL give it.
func (a *Account) BaseURL(root string) string { return strings.TrimSuffix(root, "/") + a.Path() }

// SetLimits replaces the limits of the account and its limit group; windows start empty. What is zero
// and the carrier's own rule stays so.
func (a *Account) SetLimits(limits Limits) {
	limits.inherit(a.dialect)
	a.limiter.set(limits)
}

// Limits are the limits in force.
func (a *Account) Limits() Limits { return a.limiter.get() }

// ExpireTokens voids every token given out so far (F34).
func (a *Account) ExpireTokens() { a.session.ExpireTokens() }

// SIM tells the truth about one SIM, found by ICCID or by the carrier's key.
func (a *Account) SIM(iccid string) (SIMTruth, bool) {
	now := a.world.settle()
	a.stopAtLimits()
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := a.find(iccid)
	if s == nil {
		return SIMTruth{}, false
	}
	return s.truth(a, now), true
}

// UsedBytes is all that a SIM had used by an instant as the carrier told it then: what it was a usage
// lag earlier. False: the account has no such SIM.
func (a *Account) UsedBytes(iccid string, at time.Time) (int64, bool) {
	a.world.settle()
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := a.find(iccid)
	if s == nil {
		return 0, false
	}
	return s.total(a, at.Add(-a.spec.UsageLag)), true
}

// SIMs tells the truth about all SIMs, in the order of the carrier's list.
func (a *Account) SIMs() []SIMTruth {
	now := a.world.settle()
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := make([]SIMTruth, len(a.sims))
	for i, s := range a.sims {
		out[i] = s.truth(a, now)
	}
	return out
}

// ICCIDs lists the account's SIMs in the order of the carrier's list.
func (a *Account) ICCIDs() []string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	out := make([]string, len(a.sims))
	for i, s := range a.sims {
		out[i] = s.card.ICCID
	}
	return out
}

// Range tells the ICCIDs of at most limit SIMs from a position of the carrier's list on.
func (a *Account) Range(after, limit int) []string {
	a.mu.RLock()
	defer a.mu.RUnlock()
	after = min(max(after, 0), len(a.sims))
	rows := a.sims[after:min(after+max(limit, 0), len(a.sims))]
	out := make([]string, len(rows))
	for i, s := range rows {
		out[i] = s.card.ICCID
	}
	return out
}

// ICCIDOf is the ICCID of the SIM with that MSISDN or IMSI; false where there is none.
func (a *Account) ICCIDOf(number string) (string, bool) {
	a.mu.RLock()
	defer a.mu.RUnlock()
	s := a.byNumber[number]
	if s == nil {
		return "", false
	}
	return s.card.ICCID, true
}

// Len is the number of SIMs.
func (a *Account) Len() int {
	a.mu.RLock()
	defer a.mu.RUnlock()
	return len(a.sims)
}

// ErrNoSIM says that the account has no such SIM; ErrState that the carrier has no such state.
var (
	ErrNoSIM = fmt.Errorf("the account has no such SIM")
	ErrState = fmt.Errorf("the carrier has no word for this state")
)

// Bar has the carrier refuse all changes of a direction, as it does with an account that owes it money; the empty
// direction lifts it.
func (a *Account) Bar(d simwarden.Direction) { a.barred.Store(&d) }

// SetState changes a SIM's state behind everyone's back, as a person at the carrier's portal
// would (E13). state is one of ours or the carrier's raw word. A change under way is forgotten.
func (a *Account) SetState(iccid string, state simwarden.State) error {
	word, ok := a.word(string(state))
	if !ok {
		return fmt.Errorf("set sim %s of account %s to %q: %w", iccid, a.Name(), state, ErrState)
	}
	return a.change(iccid, "set the state", func(s *sim, now time.Time) {
		s.pending = nil
		s.turn(a, word, now, "portal")
	})
}

// AddUsage books bytes to a SIM now, whatever its state; fewer than 0 takes some back (F28).
func (a *Account) AddUsage(iccid string, bytes int64) error {
	return a.change(iccid, "add usage", func(s *sim, now time.Time) { s.addUsage(a, bytes, now) })
}

// SetRealName makes a SIM's real-name status what is given, in the dialect's words.
func (a *Account) SetRealName(iccid, raw string) error {
	return a.change(iccid, "set the real-name status", func(s *sim, _ time.Time) { s.realName = raw })
}

// SetUsage makes the usage of the running calendar month of a SIM what is given, in bytes. The month
// is one of UTC, or of the zone in which the carrier counts.
func (a *Account) SetUsage(iccid string, bytes int64) error {
	return a.change(iccid, "set usage", func(s *sim, now time.Time) {
		s.addUsage(a, bytes-s.between(a, a.monthStart(now), now, now), now)
	})
}

// WrapUsage has usage shown as by a counter that starts over at so many bytes, as one of 32 bits does (F28); 0
// ends it. What was used stays as it is.
func (a *Account) WrapUsage(bytes int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wrap = bytes
}

// SetUsageScale changes how fast usage grows from now on.
func (a *Account) SetUsageScale(scale float64) {
	now := a.world.settle()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, s := range a.sims {
		s.addUsage(a, 0, now)
	}
	a.scale = scale
}

func (a *Account) change(iccid, what string, do func(*sim, time.Time)) error {
	now := a.world.settle()
	a.mu.Lock()
	defer a.mu.Unlock()
	s := a.find(iccid)
	if s == nil {
		return fmt.Errorf("%s of sim %s of account %s: %w", what, iccid, a.Name(), ErrNoSIM)
	}
	do(s, now)
	return nil
}

// find needs mu held.
func (a *Account) find(name string) *sim {
	if s := a.byICCID[name]; s != nil {
		return s
	}
	return a.byKey[name]
}

// word finds a word by the carrier's raw word or, failing that, by our state.
func (a *Account) word(name string) (uint8, bool) {
	if w, ok := a.wordOf[name]; ok {
		return w, true
	}
	i := slices.IndexFunc(a.words, func(w Word) bool { return string(w.State) == name })
	return uint8(max(i, 0)), i >= 0
}
