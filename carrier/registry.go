package carrier

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

var registry struct {
	mu      sync.RWMutex
	drivers map[string]Driver
}

// Register makes a driver available under its name; it is called from init functions. It panics
// on a name taken twice, which is a mistake in the build.
func Register(name string, d Driver) {
	registry.mu.Lock()
	defer registry.mu.Unlock()
	if registry.drivers == nil {
		registry.drivers = make(map[string]Driver)
	}
	if _, taken := registry.drivers[name]; taken {
		panic(fmt.Sprintf("carrier: driver %q registered twice", name))
	}
	registry.drivers[name] = d
}

// Lookup finds a driver by name; the error lists those there are.
func Lookup(name string) (Driver, error) {
	registry.mu.RLock()
	defer registry.mu.RUnlock()
	d, ok := registry.drivers[name]
	if !ok {
		return nil, fmt.Errorf("no carrier driver is called %q; there are: %s", name, strings.Join(names(), ", "))
	}
	return d, nil
}

// Names lists the registered drivers, sorted.
func Names() []string {
	registry.mu.RLock()
	defer registry.mu.RUnlock()
	return names()
}

func names() []string {
	out := make([]string, 0, len(registry.drivers))
	for name := range registry.drivers {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
