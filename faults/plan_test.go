package faults_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/internal/fault"
	"github.com/simwarden/simwarden/lab"
)

// how is what happens to the node that comes by a point.
type how string

const (
	killed how = "kill"  // F1: all its lines are cut for good, and another node starts later
	paused how = "pause" // F3: it stands still for longer than claims and leases last
	cutOff how = "cut"   // F10: its connections to the database break, it goes on
)

// aim is a crash point and a fault of the carrier that are to meet.
type aim struct {
	Point string `json:"point"`
	Fault string `json:"fault"`
	How   how    `json:"how"`
}

// plan is a schedule: all of it follows from the seed and the aims, which hang on what the schedules
// before had reached.
type plan struct {
	Seed uint64 `json:"seed"`
	Aims []aim  `json:"aims"`
}

// episode is one stretch of the faulty phase.
type episode struct {
	aim
	lasts    time.Duration
	nth      int // hit of the point, from 1
	carrier  lab.Fault
	standsBy time.Duration // of a pause
	backIn   time.Duration // after a kill
	rolls    bool          // a node is stopped in good order, and another starts
}

const (
	episodes = 3
	minPause = 40 * time.Second
	maxPause = 200 * time.Second
)

// points and faultNames are what schedules aim at. No account of the fleet has its carrier hold data limits
// (P8), so that what concerns them never comes about; package acceptance kills programs at these points.
func points() []string {
	return slices.DeleteFunc(fault.Points(), func(p string) bool { return strings.HasPrefix(p, "carrier_limit.") })
}

func faultNames() []string {
	return slices.DeleteFunc(lab.FaultNames(), func(name string) bool { return name == lab.LimitDrop })
}

// newPlan draws a schedule; half of its aims are at what was reached least.
func newPlan(seed uint64, c *coverage) plan {
	random := rand.New(rand.NewPCG(seed, 1))
	all, names := points(), faultNames()
	p := plan{Seed: seed}
	for range episodes {
		a := aim{Point: all[random.IntN(len(all))], Fault: names[random.IntN(len(names))]}
		if random.IntN(2) == 0 {
			a.Point, a.Fault = c.least(random)
		}
		a.How = []how{killed, killed, killed, paused, paused, cutOff}[random.IntN(6)]
		p.Aims = append(p.Aims, a)
	}
	return p
}

// episodes fills the plan in.
func (p plan) episodes() []episode {
	random := rand.New(rand.NewPCG(p.Seed, 2))
	list := make([]episode, 0, len(p.Aims))
	for _, a := range p.Aims {
		list = append(list, episode{
			aim: a, lasts: between(random, 25*time.Second, 40*time.Second), nth: 1 + random.IntN(2), carrier: carrierFault(a.Fault, random),
			standsBy: between(random, minPause, maxPause), backIn: between(random, 0, 40*time.Second), rolls: random.IntN(4) == 0,
		})
	}
	return list
}

// variants are those of the faults that have some.
var variants = map[string][]string{
	lab.Throttle:   {"none", "seconds", "date", "nonsense", "past", "year"},
	lab.Garbage:    {"html", "empty", "truncated", "bom", "gbk", "wrong_type", "trailing"},
	lab.ListRepeat: {"page", "cursor"},
}

// ofAnyRequest are the faults that strike requests of any kind: half of them wait for a change of
// state, of which there are few among many reads.
var ofAnyRequest = []string{lab.ResetBefore, lab.Fail5xx, lab.Throttle, lab.Garbage, lab.Drip, lab.AuthFail, lab.Maintenance, lab.OKWithError, lab.Slow, lab.TokenExpire}

func carrierFault(name string, random *rand.Rand) lab.Fault {
	f := lab.Fault{Name: name, Count: 1 + random.IntN(6)}
	if random.IntN(3) == 0 {
		f.Count, f.Probability = 0, 0.2+0.6*random.Float64()
	}
	if list := variants[name]; list != nil {
		f.Variant = list[random.IntN(len(list))]
	}
	if slices.Contains(ofAnyRequest, name) && random.IntN(2) == 0 {
		f.Operations = []simwarden.Operation{simwarden.OpSuspend, simwarden.OpResume}
	}
	switch name {
	case lab.Throttle:
		f.Seconds = float64(5 + random.IntN(60))
	case lab.ActLate:
		// Beyond our time-out and the settle time nobody can know of it.
		f.Seconds = 1 + random.Float64()*11
	case lab.Flood:
		// More than is read: a right answer among fewer blanks is understood, and the carrier's log does not
		// know that it was.
		f.Count, f.Probability, f.Bytes = 1, 0, carrier.MaxAnswerBytes+1<<20
	case lab.AuthFail, lab.UnitChange:
		f.Count, f.Probability = 1, 0
	}
	return f
}

func between(random *rand.Rand, from, to time.Duration) time.Duration {
	return from + time.Duration(random.Int64N(int64(to-from)))
}
