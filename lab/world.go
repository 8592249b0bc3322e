package lab

import (
	"container/heap"
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simwarden/simwarden/internal/clock"
)

// Config is what a world is made of. The zero value is a world on the machine's clock with seed
// 0 that keeps its log in memory only.
type Config struct {
	Clock clock.Clock // nil: the machine's. One with Advance(time.Duration) can be moved by the admin endpoint
	Seed  uint64
	// Log takes one JSON object a line. A failing writer is told by LogError and gets no more.
	Log io.Writer
	// KeepLines bounds the lines kept for LogLines; 0 means 50,000, negative none.
	KeepLines int
}

// World is some carriers in one process. Its methods may be called from many goroutines.
type World struct {
	clock clock.Clock
	seed  uint64
	log   *logbook

	faults faultSet

	mu       sync.RWMutex
	accounts map[string]*Account
	order    []*Account
	groups   map[string]*limiter

	later struct {
		mu    sync.Mutex
		queue laterQueue
		next  atomic.Int64 // unix nanoseconds of the earliest, 0 for none: the cheap look
		wake  chan struct{}
	}

	seq      atomic.Uint64
	conns    atomic.Uint64
	requests atomic.Int64
	counters counters
	done     chan struct{} // closed by Close: hung requests end
	closing  sync.Once
}

// New makes an empty world.
func New(cfg Config) *World {
	if cfg.Clock == nil {
		cfg.Clock = clock.System()
	}
	if cfg.KeepLines == 0 {
		cfg.KeepLines = 50_000
	}
	w := &World{
		clock: cfg.Clock, seed: cfg.Seed,
		log:      newLogbook(cfg.Log, max(cfg.KeepLines, 0)),
		accounts: make(map[string]*Account),
		groups:   make(map[string]*limiter),
		done:     make(chan struct{}),
	}
	w.later.wake = make(chan struct{}, 1)
	w.faults.seed, w.faults.injected = cfg.Seed, make(map[string]int)
	w.counters.requests = make(map[counterKey]int)
	w.counters.violations = make(map[counterKey]int)
	return w
}

// Close ends requests that hang. Call it before closing a server of one's own.
func (w *World) Close() { w.closing.Do(func() { close(w.done) }) }

var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,62}$`)

// AddAccount opens an account without SIMs. It fails on a name that is taken or cannot be a
// path ("lab" is the admin endpoint's), an unknown dialect, and credentials it cannot use.
func (w *World) AddAccount(spec AccountSpec) (*Account, error) {
	if !accountName.MatchString(spec.Name) || spec.Name == "lab" {
		return nil, fmt.Errorf("add account %q: a name has lower-case letters, digits and hyphens, and is not lab", spec.Name)
	}
	dialect, err := dialectNamed(spec.Dialect)
	if err != nil {
		return nil, fmt.Errorf("add account %s: %w", spec.Name, err)
	}
	if spec.UsageScale == 0 {
		spec.UsageScale = 1
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accounts[spec.Name] != nil {
		return nil, fmt.Errorf("add account %s: there is one of that name", spec.Name)
	}
	a := &Account{
		world: w, spec: spec, dialect: dialect, words: dialect.Words(), wordOf: make(map[string]uint8),
		ordinal: len(w.order) + 1, scale: spec.UsageScale, zone: time.UTC,
		byICCID: make(map[string]*sim), byKey: make(map[string]*sim), byNumber: make(map[string]*sim), creds: make(map[string]string),
	}
	if d, ok := dialect.(zoned); ok {
		a.zone = d.Zone()
	}
	spec.Limits.inherit(dialect)
	a.spec.Limits = spec.Limits
	for name, value := range spec.Credentials {
		a.creds[name] = value
	}
	for i, word := range a.words {
		a.wordOf[word.Raw] = uint8(i)
	}
	if a.session, err = dialect.Open(a); err != nil {
		return nil, fmt.Errorf("add account %s: %w", spec.Name, err)
	}
	a.limiter = w.groups[spec.LimitGroup]
	if spec.LimitGroup == "" || a.limiter == nil {
		a.limiter = &limiter{}
		a.limiter.set(spec.Limits)
		if spec.LimitGroup != "" {
			w.groups[spec.LimitGroup] = a.limiter
		}
	}
	w.accounts[spec.Name] = a
	w.order = append(w.order, a)
	return a, nil
}

// Account finds an account by name, nil where there is none.
func (w *World) Account(name string) *Account {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return w.accounts[name]
}

// Accounts lists the accounts in the order in which they were added.
func (w *World) Accounts() []*Account {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return slices.Clone(w.order)
}

// Seed is the seed the world was made with. Dialects make their invented values from it.
func (w *World) Seed() uint64 { return w.seed }

// Now is the world's time in UTC.
func (w *World) Now() time.Time { return w.clock.Now().UTC() }

// World is the world that the account belongs to.
func (a *Account) World() *World { return a.world }

// Truth tells the truth about every SIM of every account.
func (w *World) Truth() []SIMTruth {
	var out []SIMTruth
	for _, a := range w.Accounts() {
		out = append(out, a.SIMs()...)
	}
	return out
}

// SetFault switches a fault on and gives the number by which ClearFault switches it off. The
// error is ErrFault, and says what there is.
func (w *World) SetFault(f Fault) (int, error) { return w.faults.set(f) }

// ClearFault switches one fault off; false: it was not on (any more).
func (w *World) ClearFault(id int) bool {
	return w.faults.clear(func(f Fault) bool { return f.ID == id }) > 0
}

// ClearFaults switches all faults off: the calm phase. Late executions still take place.
func (w *World) ClearFaults() { w.faults.clear(func(Fault) bool { return true }) }

// Faults lists the faults that are on.
func (w *World) Faults() []Fault { return w.faults.list() }

// FaultsInjected counts by name the requests that faults have struck.
func (w *World) FaultsInjected() map[string]int { return w.faults.counts() }

// DropNextReply makes the next change take place and its connection break before the answer.
func (w *World) DropNextReply() {
	if _, err := w.SetFault(Fault{Name: ActThenReset, Count: 1}); err != nil {
		panic(err) // the fault is one of ours: a mistake in the build
	}
}

// Requests is the number of complete requests to carriers that have arrived, of all accounts.
func (w *World) Requests() int { return int(w.requests.Load()) }

// LogLines is the kept part of the log, oldest first, in the order in which requests ended.
func (w *World) LogLines() []LogLine {
	w.settle()
	return w.log.lines()
}

// WaitLog returns the first line, kept or to come, for which match is true, or the context's
// error. It is how a test waits for a request without waiting for a while.
func (w *World) WaitLog(ctx context.Context, match func(LogLine) bool) (LogLine, error) {
	w.settle()
	return w.log.wait(ctx, match)
}

// LogError is what the log's writer failed with, nil for nothing.
func (w *World) LogError() error { return w.log.failure() }

// laterChange is a change that takes place after its request: asynchronous or late.
type laterChange struct {
	at      time.Time
	order   uint64
	account *Account
	sim     *sim
	word    uint8
	visible bool    // the SIM shows as pending until then
	line    LogLine // its request's, to make the line of the execution from
}

type laterQueue []*laterChange

func (q laterQueue) Len() int { return len(q) }
func (q laterQueue) Less(i, j int) bool {
	if q[i].at.Equal(q[j].at) {
		return q[i].order < q[j].order
	}
	return q[i].at.Before(q[j].at)
}
func (q laterQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *laterQueue) Push(x any)   { *q = append(*q, x.(*laterChange)) }
func (q *laterQueue) Pop() any {
	old := *q
	last := old[len(old)-1]
	*q = old[:len(old)-1]
	return last
}

func (w *World) schedule(c *laterChange) {
	w.later.mu.Lock()
	heap.Push(&w.later.queue, c)
	w.later.next.Store(w.later.queue[0].at.UnixNano())
	w.later.mu.Unlock()
	select {
	case w.later.wake <- struct{}{}:
	default:
	}
}

// settle carries out the changes that have come due and returns the time. Everything that looks
// at the world calls it first, so that a world without a server needs no goroutine.
func (w *World) settle() time.Time {
	now := w.Now()
	if next := w.later.next.Load(); next == 0 || next > now.UnixNano() {
		return now
	}
	w.later.mu.Lock()
	defer w.later.mu.Unlock()
	for len(w.later.queue) > 0 && !w.later.queue[0].at.After(now) {
		w.carryOut(heap.Pop(&w.later.queue).(*laterChange))
	}
	next := int64(0)
	if len(w.later.queue) > 0 {
		next = w.later.queue[0].at.UnixNano()
	}
	w.later.next.Store(next)
	return now
}

// carryOut needs later.mu held, so that changes take place in order.
func (w *World) carryOut(c *laterChange) {
	a, s := c.account, c.sim
	a.mu.Lock()
	if c.visible && s.pending != c {
		a.mu.Unlock() // replaced by a later change
		return
	}
	before := s.at(c.at).word
	s.turn(a, c.word, c.at, c.line.by())
	s.executions++
	if c.visible {
		s.pending = nil
	}
	a.mu.Unlock()
	line := c.line
	line.Kind = KindExecution
	line.Executed, line.ExecutedAt = true, c.at
	line.StateBefore, line.StateAfter = a.words[before].State, a.words[c.word].State
	w.log.write(line)
}
