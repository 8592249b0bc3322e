package lab

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/simwarden/simwarden"
)

// The faults by name. Where a Fault names no operations, those that act
// meet changes only (with operations named, a read can hang too); list faults meet lists, faults of
// what is read meet reads and lists, the others any request.
const (
	ActThenHang  = "act_then_hang"  // F20: acts, never answers; Seconds bounds it
	ActThenReset = "act_then_reset" // F20: acts, then resets the connection
	ActThen5xx   = "act_then_5xx"   // F20: acts, then answers Status (502)
	ActLate      = "act_late"       // F21: acts Seconds (30) after the request came; answers then
	LieOK        = "lie_ok"         // F22: does not act, answers as if it had
	ActTwice     = "act_twice"      // F22: acts twice on one request
	ResetBefore  = "reset_before"   // resets the connection without having acted
	Fail5xx      = "fail_5xx"       // answers Status (500) without having acted
	LimitDrop    = "limit_drop"     // a change of state drops the SIM's data limits without a word
	StaleRead    = "stale_read"     // F31: answers as it was Seconds (60) ago
	Throttle     = "throttle"       // F26: 429; Variant none, seconds, date, nonsense, past, year
	Garbage      = "garbage"        // F24: Variant html, empty, truncated, bom, gbk, wrong_type, trailing
	Drip         = "drip"           // F25: a byte of the body every Seconds (1)
	Flood        = "flood"          // F25: a body of Bytes (100 MiB); negative: without end
	MassState    = "mass_state"     // F30: every SIM reads as State (suspended), if the carrier has a word for it
	Flap         = "flap"           // F30: states read now active, now suspended
	UnitChange   = "unit_change"    // F29: usage times Factor (1024)
	UsageDown    = "usage_down"     // F28: usage times Factor (0.5)
	ListMissing  = "list_missing"   // F32: a page lacks about every tenth SIM, or those of ICCIDs
	ListRepeat   = "list_repeat"    // F32: Variant page: the page before comes again in its place; cursor: its own cursor is given as the next
	ListShort    = "list_short"     // F32: a page is cut to a third and the list ends there
	ListEmpty    = "list_empty"     // F32: an empty list with 200
	TokenExpire  = "token_expire"   // F34: every token given out is void from now on
	AuthFail     = "auth_fail"      // F35: credentials and tokens are refused
	Maintenance  = "maintenance"    // F36: 503
	OKWithError  = "ok_with_error"  // F23: 200 with an error as its body, without having acted
	Slow         = "slow"           // acts and answers Seconds (1) later than it would
)

type faultPhase uint8

const (
	phaseDelay  faultPhase = iota // before anything else
	phaseDoor                     // before the request is looked at
	phaseAct                      // about acting
	phaseRead                     // about what is shown
	phaseAnswer                   // about how the answer goes out
)

type faultSpec struct {
	phase    faultPhase
	kinds    []Kind // nil: any
	variants []string
	seconds  float64
}

var (
	changesOnly = []Kind{KindChange}
	reading     = []Kind{KindRead, KindList}
	listsOnly   = []Kind{KindList}
	withToken   = []Kind{KindChange, KindRead, KindList}
	faultSpecs  = map[string]faultSpec{
		ActThenHang:  {phase: phaseAct, kinds: changesOnly, seconds: 600},
		ActThenReset: {phase: phaseAct, kinds: changesOnly},
		ActThen5xx:   {phase: phaseAct, kinds: changesOnly},
		ActLate:      {phase: phaseAct, kinds: changesOnly, seconds: 30},
		LieOK:        {phase: phaseAct, kinds: changesOnly},
		ActTwice:     {phase: phaseAct, kinds: changesOnly},
		LimitDrop:    {phase: phaseRead, kinds: changesOnly},
		ResetBefore:  {phase: phaseDoor},
		Fail5xx:      {phase: phaseDoor},
		StaleRead:    {phase: phaseRead, kinds: reading, seconds: 60},
		Throttle:     {phase: phaseDoor, variants: []string{"none", "seconds", "date", "nonsense", "past", "year"}, seconds: 5},
		Garbage:      {phase: phaseAnswer, variants: []string{"html", "empty", "truncated", "bom", "gbk", "wrong_type", "trailing"}},
		Drip:         {phase: phaseAnswer, seconds: 1},
		Flood:        {phase: phaseAnswer},
		MassState:    {phase: phaseRead, kinds: reading},
		Flap:         {phase: phaseRead, kinds: reading},
		UnitChange:   {phase: phaseRead, kinds: reading},
		UsageDown:    {phase: phaseRead, kinds: reading},
		ListMissing:  {phase: phaseRead, kinds: listsOnly},
		ListRepeat:   {phase: phaseRead, kinds: listsOnly, variants: []string{"page", "cursor"}},
		ListShort:    {phase: phaseRead, kinds: listsOnly},
		ListEmpty:    {phase: phaseRead, kinds: listsOnly},
		TokenExpire:  {phase: phaseDoor, kinds: withToken},
		AuthFail:     {phase: phaseDoor},
		Maintenance:  {phase: phaseDoor},
		OKWithError:  {phase: phaseDoor},
		Slow:         {phase: phaseDelay, seconds: 1},
	}
)

// FaultNames lists every fault in alphabetical order.
func FaultNames() []string {
	names := make([]string, 0, len(faultSpecs))
	for name := range faultSpecs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Fault is one fault that is switched on. Zero fields take the defaults named at the constants.
type Fault struct {
	ID   int    `json:"id"` // given by SetFault
	Name string `json:"name"`
	// Account, Operations and ICCIDs narrow it down; empty: all.
	Account    string                `json:"account,omitempty"`
	Operations []simwarden.Operation `json:"operations,omitempty"`
	ICCIDs     []string              `json:"iccids,omitempty"`
	// Probability of each request that it could meet, 0 to 1; 0 means 1.
	Probability float64 `json:"probability,omitempty"`
	// Count is how often it strikes before it is gone; 0: no bound.
	Count   int             `json:"count,omitempty"`
	Variant string          `json:"variant,omitempty"`
	Seconds float64         `json:"seconds,omitempty"`
	Factor  float64         `json:"factor,omitempty"`
	State   simwarden.State `json:"state,omitempty"`
	Status  int             `json:"status,omitempty"`
	Bytes   int64           `json:"bytes,omitempty"`
	// Struck is how often it has struck so far.
	Struck int `json:"struck"`
}

// ErrFault says that a fault could not be switched on as asked.
var ErrFault = errors.New("no such fault")

func (f *Fault) check() error {
	spec, ok := faultSpecs[f.Name]
	switch {
	case !ok:
		return fmt.Errorf("%w: %q; there are %v", ErrFault, f.Name, FaultNames())
	case f.Variant != "" && !slices.Contains(spec.variants, f.Variant):
		return fmt.Errorf("%w: %s has no variant %q; it has %v", ErrFault, f.Name, f.Variant, spec.variants)
	case f.Probability < 0 || f.Probability > 1:
		return fmt.Errorf("%w: the probability of %s is %v, want 0 to 1", ErrFault, f.Name, f.Probability)
	case f.Seconds < 0 || f.Factor < 0 || f.Count < 0:
		return fmt.Errorf("%w: %s has a negative number", ErrFault, f.Name)
	case f.State != "" && !slices.Contains(simwarden.States(), f.State):
		return fmt.Errorf("%w: %s knows no state %q", ErrFault, f.Name, f.State)
	case f.Status != 0 && (f.Status < 500 || f.Status > 599):
		return fmt.Errorf("%w: status %d of %s, want 500 to 599", ErrFault, f.Status, f.Name)
	}
	if f.Seconds == 0 {
		f.Seconds = spec.seconds
	}
	if f.Variant == "" && len(spec.variants) > 0 {
		f.Variant = spec.variants[0]
	}
	return nil
}

func (f *Fault) duration() time.Duration { return time.Duration(f.Seconds * float64(time.Second)) }

// faultSet keeps the faults that are on and chooses, from the seed, whom they strike.
type faultSet struct {
	mu       sync.Mutex
	seed     uint64
	nextID   int
	on       []*activeFault
	injected map[string]int
	active   atomic.Int32 // how many are on, to look at without the lock
}

type activeFault struct {
	Fault
	iccids map[string]bool
	met    uint64 // requests it could have struck
}

func (s *faultSet) set(f Fault) (int, error) {
	if err := f.check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nextID++
	f.ID, f.Struck = s.nextID, 0
	active := &activeFault{Fault: f}
	if len(f.ICCIDs) > 0 {
		active.iccids = make(map[string]bool, len(f.ICCIDs))
		for _, iccid := range f.ICCIDs {
			active.iccids[iccid] = true
		}
	}
	s.on = append(s.on, active)
	s.active.Store(int32(len(s.on)))
	return f.ID, nil
}

func (s *faultSet) clear(match func(Fault) bool) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := len(s.on)
	s.on = slices.DeleteFunc(s.on, func(a *activeFault) bool { return match(a.Fault) })
	s.active.Store(int32(len(s.on)))
	return before - len(s.on)
}

func (s *faultSet) list() []Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]Fault, 0, len(s.on))
	for _, a := range s.on {
		out = append(out, a.Fault)
	}
	return out
}

func (s *faultSet) counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]int, len(s.injected))
	for name, n := range s.injected {
		out[name] = n
	}
	return out
}

// strike gives the faults that strike this request, at most one of each phase but phaseRead,
// oldest first.
func (s *faultSet) strike(account string, req *Request, iccid string) []Fault {
	if s.active.Load() == 0 {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Fault
	var taken [phaseAnswer + 1]bool
	for i := 0; i < len(s.on); i++ {
		a := s.on[i]
		spec := faultSpecs[a.Name]
		if taken[spec.phase] && spec.phase != phaseRead || !a.meets(spec, account, req, iccid) {
			continue
		}
		a.met++
		if a.Probability != 0 && a.Probability < unit(s.seed, uint64(a.ID), a.met) {
			continue
		}
		a.Struck++
		s.injected[a.Name]++
		taken[spec.phase] = true
		out = append(out, a.Fault)
		if a.Count > 0 && a.Struck >= a.Count {
			s.on = slices.Delete(s.on, i, i+1)
			s.active.Store(int32(len(s.on)))
			i--
		}
	}
	return out
}

func (a *activeFault) meets(spec faultSpec, account string, req *Request, iccid string) bool {
	switch {
	case a.Account != "" && a.Account != account:
		return false
	case len(a.Operations) > 0 && !slices.Contains(a.Operations, req.Operation):
		return false
	case spec.kinds != nil && !slices.Contains(spec.kinds, req.Kind) && !(spec.phase == phaseAct && len(a.Operations) > 0):
		return false
	case a.iccids != nil && req.Kind != KindList:
		return a.iccids[iccid]
	case a.iccids != nil:
		// A list is met when the fault is about rows: only the named SIMs' rows are touched.
		return spec.phase == phaseRead
	}
	return true
}
