//go:build faults

package faults_test

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strings"
	"sync"

	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/lab"
)

// coverage are the sometimes-counters of a run (reliability rule 3).
type coverage struct {
	mu        sync.Mutex
	schedules int
	points    map[string]int    // times that something happened to a node there
	faults    map[string]int    // requests that the carrier's fault struck
	pairs     map[[2]string]int // episodes in which both did
	hows      map[how]int
	looked    map[string]int // what the checker went over, in all
}

func newCoverage() *coverage {
	return &coverage{points: map[string]int{}, faults: map[string]int{}, pairs: map[[2]string]int{}, hows: map[how]int{}, looked: map[string]int{}}
}

// least gives a pair that was reached least, at random among such.
func (c *coverage) least(random *rand.Rand) (point, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	best, ties := -1, 0
	for _, p := range fault.Points() {
		for _, f := range lab.FaultNames() {
			n := c.pairs[[2]string{p, f}]
			switch {
			case best < 0 || n < best:
				best, ties, point, name = n, 1, p, f
			case n == best:
				if ties++; random.IntN(ties) == 0 {
					point, name = p, f
				}
			}
		}
	}
	return point, name
}

// reached notes what an episode came to.
func (c *coverage) reached(e episode, taken bool, struck int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken {
		c.points[e.Point]++
		c.hows[e.How]++
	}
	c.faults[e.Fault] += struck
	if taken && struck > 0 {
		c.pairs[[2]string{e.Point, e.Fault}]++
	}
}

func (c *coverage) ended(looked map[string]int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedules++
	for what, n := range looked {
		c.looked[what] += n
	}
}

// missed are the points and faults that were never reached.
func (c *coverage) missed() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, p := range fault.Points() {
		if c.points[p] == 0 {
			out = append(out, "nothing happened at "+p)
		}
	}
	for _, f := range lab.FaultNames() {
		if c.faults[f] == 0 {
			out = append(out, "no request was struck by "+f)
		}
	}
	return out
}

func (c *coverage) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%d schedules; at points: %v\ncrash points reached: %s\ncarriers' faults, requests struck: %s\npairs of both in one episode: %d of %d\nlooked at: %s",
		c.schedules, c.hows, counts(fault.Points(), c.points), counts(lab.FaultNames(), c.faults), len(c.pairs), len(fault.Points())*len(lab.FaultNames()), counts(nil, c.looked))
	return b.String()
}

func counts(names []string, of map[string]int) string {
	if names == nil {
		for name := range of {
			names = append(names, name)
		}
		sort.Strings(names)
	}
	var parts []string
	for _, name := range names {
		parts = append(parts, fmt.Sprintf("%s %d", name, of[name]))
	}
	return strings.Join(parts, ", ")
}
