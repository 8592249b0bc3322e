package faults_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// coverage are the sometimes-counters of a run (reliability rule 3).
type coverage struct {
	mu         sync.Mutex
	schedules  int
	points     map[string]int            // times that something happened to a node there
	faults     map[string]map[string]int // requests that a fault of the carriers struck, by its name and their operation
	classes    map[string]int            // what became of attempts
	pairs      map[[2]string]int         // episodes in which something happened at the point and the fault struck
	earlier    partOfRun                 // of the runs that this one goes on from
	kept       partOfRun                 // what the file has of this one
	hows       map[how]int
	looked     map[string]int // what the checker went over, in all
	violations map[string]int // by invariant
	seeds      []uint64       // of schedules that failed
}

func newCoverage() *coverage {
	return &coverage{points: map[string]int{}, faults: map[string]map[string]int{}, classes: map[string]int{}, pairs: map[[2]string]int{},
		earlier: partOfRun{Pairs: map[string]int{}}, kept: partOfRun{Pairs: map[string]int{}}, hows: map[how]int{}, looked: map[string]int{}, violations: map[string]int{}, seeds: []uint64{}}
}

// least gives a pair that was reached least, at random among such.
func (c *coverage) least(random *rand.Rand) (point, name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	best, ties := -1, 0
	for _, p := range points() {
		for _, f := range faultNames() {
			n := c.met(p, f)
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

// met is how often a point and a fault met, in earlier runs too; mu is held.
func (c *coverage) met(point, name string) int {
	return c.pairs[[2]string{point, name}] + c.earlier.Pairs[pairName(point, name)]
}

// inAll is how many schedules ran, in earlier runs too.
func (c *coverage) inAll() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.schedules + c.earlier.Schedules
}

// reached notes what an episode came to.
func (c *coverage) reached(e episode, taken bool, struck int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if taken {
		c.points[e.Point]++
		c.hows[e.How]++
	}
	if taken && struck > 0 {
		c.pairs[[2]string{e.Point, e.Fault}]++
	}
}

func (c *coverage) ended(out outcome) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.schedules++
	l := out.report.Looked
	for what, n := range map[string]int{"log_lines": l.Lines, "changes": l.Changes, "unknown_outcomes": l.Unknown, "attempts": l.Attempts,
		"commands": l.Commands, "lapses": l.Lapses, "virtual_seconds": int(out.took.Seconds())} {
		c.looked[what] += n
	}
	for _, v := range out.report.Violations {
		c.violations[v.Invariant]++
	}
	for class, n := range out.classes {
		c.classes[class] += n
	}
	for _, s := range out.struck {
		if c.faults[s.fault] == nil {
			c.faults[s.fault] = map[string]int{}
		}
		c.faults[s.fault][s.operation]++
	}
}

func (c *coverage) failed(seed uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seeds = append(c.seeds, seed)
}

func (c *coverage) progress(since time.Duration) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fmt.Sprintf("%d schedules in %s, %d failed", c.schedules, since.Round(time.Second), len(c.seeds))
}

// missed are the points and faults that were never reached, and the pairs of both that met less often than
// so many times.
func (c *coverage) missed(pairsAtLeast int) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, p := range points() {
		if c.points[p] == 0 {
			out = append(out, "nothing happened at "+p)
		}
	}
	for _, f := range faultNames() {
		if len(c.faults[f]) == 0 {
			out = append(out, "no request was struck by "+f)
		}
	}
	for _, p := range points() {
		for _, f := range faultNames() {
			if n := c.met(p, f); n < pairsAtLeast {
				out = append(out, fmt.Sprintf("%s and %s met %d times, want %d", p, f, n, pairsAtLeast))
			}
		}
	}
	return out
}

// summary is what a run says of itself at its end.
type summary struct {
	FirstSeed      uint64                    `json:"first_seed"`
	Schedules      int                       `json:"schedules"`
	Earlier        int                       `json:"schedules_of_earlier_runs"`
	Seconds        float64                   `json:"seconds"`
	FailingSeeds   []uint64                  `json:"failing_seeds"`
	Violations     map[string]int            `json:"violations"`
	Hows           map[how]int               `json:"what_happened_at_points"`
	Points         map[string]int            `json:"crash_points"`
	Faults         map[string]map[string]int `json:"carrier_faults"`
	Classes        map[string]int            `json:"outcomes_and_error_classes"`
	Pairs          int                       `json:"pairs_reached"`
	PairsInAll     int                       `json:"pairs_in_all"`
	PairLeastOften int                       `json:"pair_reached_least"`
	Looked         map[string]int            `json:"looked_at"`
	Missed         []string                  `json:"never_reached"`
}

func (c *coverage) summary(first uint64, took time.Duration) summary {
	missed := c.missed(0)
	c.mu.Lock()
	defer c.mu.Unlock()
	var met []int // of each pair
	for _, p := range points() {
		for _, f := range faultNames() {
			met = append(met, c.met(p, f))
		}
	}
	s := summary{FirstSeed: first, Schedules: c.schedules, Seconds: took.Seconds(), FailingSeeds: c.seeds, Violations: c.violations,
		Hows: c.hows, Points: c.points, Faults: c.faults, Classes: c.classes, Pairs: len(met), PairsInAll: len(met), PairLeastOften: slices.Min(met), Earlier: c.earlier.Schedules, Looked: c.looked, Missed: missed}
	for _, n := range met {
		if n == 0 {
			s.Pairs--
		}
	}
	return s
}
