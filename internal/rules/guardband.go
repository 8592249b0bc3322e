package rules

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/simwarden/simwarden"
)

// CheckGuardBand is the check that a plan with a guard band adds to a decision (E12).
const CheckGuardBand = "guard band"

// GuardBand is what a decision needs to keep the promise that usage passes the allowance by no more
// than Bytes, with a probability (E12).
type GuardBand struct {
	SubscriptionID simwarden.SubscriptionID `json:"subscription_id"`
	Bytes          int64                    `json:"bytes"`
	Probability    float64                  `json:"probability"`
	// Latency is how long a suspend takes from its decision until the carrier shows it, at the share
	// ShareOf(Probability) of those measured.
	Latency time.Duration `json:"latency_ns"`
	// CarrierLag is how late the carrier's usage usually is, where an answer does not say for which
	// instant it is true.
	CarrierLag time.Duration `json:"carrier_lag_ns"`
	// Lines are the asset's SIMs: all of them spend.
	Lines []GuardBandLine `json:"lines"`
	// Stop is the stop that was ordered under this subscription and lasts; nil for none.
	Stop *GuardBandStop `json:"stop,omitempty"`
}

// GuardBandLine is one SIM's part.
type GuardBandLine struct {
	SIMID simwarden.SIMID `json:"sim_id"`
	// BytesPerSecond is the rate at or below which the share ShareOf(Probability) of its bytes flow.
	BytesPerSecond float64   `json:"bytes_per_second"`
	ReadAt         time.Time `json:"read_at,omitzero"`
	TrueAt         time.Time `json:"true_at,omitzero"`
	NextReadAt     time.Time `json:"next_read_at"`
}

// GuardBandStop is what was known when the stop was ordered.
type GuardBandStop struct {
	OrderedAt      time.Time `json:"ordered_at"`
	AllowanceBytes int64     `json:"allowance_bytes"`
	UsedBytes      int64     `json:"used_bytes"`
}

// Projection is what usage would have come to if the SIM is not stopped now but after its next
// reading.
type Projection struct {
	UsedBytes, ProjectedBytes, AllowanceBytes int64
	BytesPerSecond                            float64       // all lines together
	Horizon                                   time.Duration // the longest of the lines
	// Stop says that the promise takes a stop now. TooEarly says that it would, but that less than half
	// of the allowance is used.
	Stop, TooEarly bool
}

// ShareOf is the share of the cases that each of two measured things, the rate and the latency, must
// cover for both together to hold with a probability.
func ShareOf(probability float64) float64 { return 1 - (1-probability)/2 }

// Project says what E12 takes. What is known of the usage is true for an instant of the past; if the
// SIM is let run now, the next chance to stop it is the next reading, and that stop takes effect one
// latency later. The promise takes a stop now where the growth until then, at the SIM's rate, would
// pass allowance and guard band. Never before half of the allowance is used: a promise that can only
// be kept by taking a customer's plan away is not kept, and the report says so. ok is false where
// nothing is promised.
func (f Facts) Project() (p Projection, ok bool) {
	used, allowance, limited, _ := f.data()
	if f.GuardBand == nil || !limited {
		return p, false
	}
	p.UsedBytes, p.AllowanceBytes = used, allowance
	growth := 0.0
	for _, l := range f.GuardBand.Lines {
		horizon := f.GuardBand.horizon(l, f.NowAt)
		growth += l.BytesPerSecond * horizon.Seconds()
		p.BytesPerSecond += l.BytesPerSecond
		p.Horizon = max(p.Horizon, horizon)
	}
	p.ProjectedBytes = addBytes(used, int64(min(growth, math.MaxInt64/2)))
	passes := p.ProjectedBytes > addBytes(allowance, f.GuardBand.Bytes)
	p.TooEarly = passes && used < allowance/2
	p.Stop = passes && !p.TooEarly
	return p, true
}

// horizon is from the instant of which the line's usage is known until a stop that is decided at its
// next reading takes effect.
func (g GuardBand) horizon(l GuardBandLine, now time.Time) time.Duration {
	next, known := l.NextReadAt, l.TrueAt
	if next.Before(now) {
		next = now
	}
	switch {
	case known.IsZero():
		known = now
	case !known.Before(l.ReadAt):
		known = l.ReadAt.Add(-g.CarrierLag)
	}
	return next.Sub(known) + g.Latency
}

// lasts says that a stop under the guard band goes on: nothing was added to the allowance since, and
// it was not filled again. Without this a SIM that no longer uses anything would run again at once.
func (g GuardBand) lasts(used, allowance int64) bool {
	return g.Stop != nil && allowance <= g.Stop.AllowanceBytes && used >= g.Stop.UsedBytes
}

// guardBand adds the check; exhausted says that the allowance is used up, which stops the SIM anyway.
func (l *looked) guardBand(f Facts, exhausted bool) {
	p, ok := f.Project()
	if !ok {
		return
	}
	g := f.GuardBand
	saw := fmt.Sprintf("at up to %s a second, %s from the last known usage until a stop after the next reading shows (%s of it the stop itself): %s then, promised at most %s over %s with probability %s",
		bytes(int64(math.Ceil(p.BytesPerSecond))), p.Horizon.Round(time.Second), g.Latency.Round(time.Second),
		bytes(p.ProjectedBytes), bytes(g.Bytes), bytes(p.AllowanceBytes), fmt.Sprint(g.Probability))
	lasts := g.lasts(p.UsedBytes, p.AllowanceBytes)
	switch {
	case exhausted:
	case lasts:
		saw = fmt.Sprintf("stopped early at %s, with %s used of %s; it lasts until the allowance grows or is filled again",
			instant(g.Stop.OrderedAt), bytes(g.Stop.UsedBytes), bytes(g.Stop.AllowanceBytes))
	case p.TooEarly:
		saw += "; less than half of the allowance is used, so it runs on and the promise may be broken"
	}
	l.check(CheckGuardBand, saw, !p.Stop && !lasts && !exhausted, f.UsageReadAt)
	if !exhausted && (p.Stop || lasts) {
		l.hold(f, simwarden.ReasonDataExhausted, "guard band: "+saw, f.NowAt)
	}
}

// Rates says at which rates bytes flowed: how many bytes at each, old ones fading by half in
// rateHalfLife. A share of bytes and not of time: the reading at which usage passes an allowance is
// found in a burst the more likely the more of all bytes come in bursts.
type Rates struct {
	// Intervals is how many readings with usage there were, fading as well.
	Intervals float64
	// Bytes by classes: class k holds rates up to 2^(k/2) bytes a second.
	Bytes []float64
}

const (
	rateClasses  = 68 // up to 2^33.5 bytes a second, more than any reading that is believed
	rateHalfLife = 14 * 24 * time.Hour
)

// Add takes in one reading: bytes that flowed in a time, one second at least.
func (r Rates) Add(deltaBytes int64, over time.Duration) Rates {
	over = max(over, time.Second)
	fade := math.Exp2(-float64(over) / float64(rateHalfLife))
	out := Rates{Intervals: r.Intervals*fade + 1, Bytes: make([]float64, rateClasses)}
	for k, v := range r.Bytes[:min(len(r.Bytes), rateClasses)] {
		out.Bytes[k] = v * fade
	}
	class := math.Ceil(2 * math.Log2(max(float64(deltaBytes)/over.Seconds(), 1)))
	out.Bytes[min(int(class), rateClasses-1)] += float64(deltaBytes)
	return out
}

// AtShare is the rate at or below which a share of all bytes flow; 0 where none are known. While few
// readings of the SIM are known, what is known of its like counts as one more: a SIM that has been
// seen n times does something new with probability 1/(n+1).
func (r Rates) AtShare(share float64, like Rates) float64 {
	own, others := sum(r.Bytes), sum(like.Bytes)
	weight := 1 / (r.Intervals + 1)
	switch {
	case own == 0 && others == 0:
		return 0
	case own == 0:
		weight = 1
	case others == 0:
		weight = 0
	}
	covered := 0.0
	for k := range rateClasses {
		if own > 0 && k < len(r.Bytes) {
			covered += (1 - weight) * r.Bytes[k] / own
		}
		if others > 0 && k < len(like.Bytes) {
			covered += weight * like.Bytes[k] / others
		}
		if covered >= share-1e-9 {
			return math.Exp2(float64(k) / 2)
		}
	}
	return math.Exp2(float64(rateClasses-1) / 2)
}

func sum(list []float64) (total float64) {
	for _, v := range list {
		total += v
	}
	return total
}

// LatencyShares are the shares of an account's suspends at which their latency is kept.
var LatencyShares = []float64{0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.995, 1}

const (
	// latencyLeast is how many suspends must have been measured for their latency to be believed, and
	// latencyUnmeasured what is taken until then.
	latencyLeast      = 20
	latencyUnmeasured = 2 * time.Minute
)

// LatencyAt gives the latency that a share of the suspends keep; seconds are at LatencyShares.
func LatencyAt(seconds []float64, suspends int64, share float64) time.Duration {
	if len(seconds) != len(LatencyShares) || suspends < latencyLeast {
		return latencyUnmeasured
	}
	i := slices.IndexFunc(LatencyShares, func(s float64) bool { return s >= share-1e-9 })
	return time.Duration(seconds[max(i, 0)] * float64(time.Second))
}
