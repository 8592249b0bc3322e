// Package fault names the places where the process may die, so that a test can kill, stop or
// break it exactly there (reliability rule 10, F1-F3).
//
// A package declares its points once, and hits them where the name says:
//
//	var pointClaimCommitted = fault.Register("cmd.claim.committed")
//	...
//	pointClaimCommitted.Hit()
//
// A point that is not armed costs one atomic load. Points are armed from the environment of a
// process of its own (ArmFromEnv), or with a function within a test (Set).
package fault

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
)

// P is one registered point. Make it with Register, as a package-level variable.
type P struct {
	name  string
	armed atomic.Pointer[func()]
}

var (
	mu     sync.RWMutex
	points = map[string]*P{}
	names  = regexp.MustCompile(`^[a-z][a-z0-9_]*(\.[a-z0-9_]+)+$`)
)

// Register makes a point known. The name has two or more parts of a-z, 0-9 and _, such as
// "cmd.claim.committed". It panics on another form and on a name taken twice: both are mistakes
// in the build.
func Register(name string) *P {
	if !names.MatchString(name) {
		panic(fmt.Sprintf("fault point %q: want parts of a-z, 0-9 and _ with dots between", name))
	}
	mu.Lock()
	defer mu.Unlock()
	if points[name] != nil {
		panic(fmt.Sprintf("fault point %q is registered twice", name))
	}
	p := &P{name: name}
	points[name] = p
	return p
}

// Name is the name that the point was registered with.
func (p *P) Name() string { return p.name }

// Hit does what the point is armed with, in the caller's goroutine; nothing when it is not armed.
func (p *P) Hit() {
	if f := p.armed.Load(); f != nil {
		(*f)()
	}
}

// Point hits a registered point by its name, for places that are not hot: it looks the name up.
// It panics on a name that nobody registered, which is a mistake in the build.
func Point(name string) {
	p := find(name)
	if p == nil {
		panic(fmt.Sprintf("fault point %q is not registered", name))
	}
	p.Hit()
}

// Points lists the names of all registered points, sorted.
func Points() []string {
	mu.RLock()
	defer mu.RUnlock()
	return slices.Sorted(maps.Keys(points))
}

// Set arms a point with a function, for tests, and returns what puts back the arming of before.
// The function runs in every goroutine that hits the point, several at once perhaps; it may block,
// and it may panic to break the caller. Set panics on a name that nobody registered.
func Set(name string, f func()) (restore func()) {
	p := find(name)
	if p == nil {
		panic(fmt.Sprintf("fault point %q is not registered", name))
	}
	before := p.armed.Swap(&f)
	return func() { p.armed.Store(before) }
}

func find(name string) *P {
	mu.RLock()
	defer mu.RUnlock()
	return points[name]
}
