package lab

import (
	"math"
	"time"
)

// UsageProfile is how a SIM uses data.
type UsageProfile string

// The profiles.
const (
	// ProfileMeter sends a few hundred bytes to a few kilobytes every 5 to 60 minutes.
	ProfileMeter UsageProfile = "meter"
	// ProfileHeavyTail uses some megabytes a day, a few SIMs hundreds of times as much, in bursts.
	ProfileHeavyTail UsageProfile = "heavy_tail"
	// ProfileDayNight rises by day and nearly stops at night (UTC).
	ProfileDayNight UsageProfile = "day_night"
	// ProfileStreamer is quiet for days, then takes 0.5 to 5 Mbit/s for some hours.
	ProfileStreamer UsageProfile = "streamer"
	// ProfileSilent uses nothing: for tests that set usage themselves.
	ProfileSilent UsageProfile = "silent"
)

const (
	tick = 100 * time.Millisecond // usage moves in these steps, which keeps it monotone in float64
	day  = 24 * time.Hour
)

// generator is one SIM's usage as a function of time: used(t) is what it would have used since
// usageEpoch had it always been on. Nothing is stored and nothing ticks.
type generator struct {
	profile UsageProfile
	seed    uint64
	rate    float64 // bytes a second: mean, or of a burst
	period  float64 // seconds
	phase   float64 // seconds
	amount  float64 // bytes a period
}

var usageEpoch = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)

func newGenerator(profile UsageProfile, seed uint64) generator {
	g := generator{profile: profile, seed: seed}
	a, b, c := unit(seed, 1), unit(seed, 2), unit(seed, 3)
	switch profile {
	case ProfileMeter:
		g.period = 300 + 3300*a
		g.phase = g.period * b
		g.amount = math.Floor(200 + 3800*c)
	case ProfileHeavyTail:
		// Pareto with alpha 1.2 from 20 bytes a second (1.7 MB a day), cut at 5,000 times that.
		g.rate = 20 * math.Min(math.Pow(1-a, -1/1.2), 5000)
	case ProfileDayNight:
		g.rate = 50 + 450*a*a
		g.phase = (b - 0.5) * 4 * 3600
	case ProfileStreamer:
		g.period = (1 + 2*a) * day.Seconds()
		g.phase = g.period * b
		g.rate = (0.5 + 4.5*c) * 1e6 / 8
		g.amount = (0.02 + 0.1*unit(seed, 4)) * g.period // seconds a burst
	}
	return g
}

// used is in bytes and never falls as t grows.
func (g *generator) used(t time.Time) float64 {
	s := float64(t.Sub(usageEpoch)/tick) * tick.Seconds()
	if s < 0 {
		return 0
	}
	switch g.profile {
	case ProfileMeter:
		return g.amount * (math.Floor((s-g.phase)/g.period) + 1)
	case ProfileHeavyTail:
		return g.rate * day.Seconds() * g.bursts(s/day.Seconds())
	case ProfileDayNight:
		const w = 2 * math.Pi / (24 * 3600)
		const peak = 14 * 3600 // in the afternoon
		return g.rate * (s + 0.95/w*(math.Sin(w*(s-g.phase-peak))+1))
	case ProfileStreamer:
		n := math.Floor((s + g.phase) / g.period)
		begin := (g.period - g.amount) * unit(g.seed, 5, uint64(n))
		in := min(max(s+g.phase-n*g.period-begin, 0), g.amount)
		// Bursts are counted in one number first: n whole ones and in seconds of the next would
		// round to a little more than n+1 whole ones.
		return g.rate * g.amount * (n + in/g.amount)
	}
	return 0
}

// bursts spreads each day's usage over its 24 hours by seeded weights, a few hours taking most
// of it, and gives the days' worth used up to that day and fraction.
func (g *generator) bursts(days float64) float64 {
	whole := math.Floor(days)
	hour := (days - whole) * 24
	var sum, before float64
	for h := range 24 {
		w := unit(g.seed, uint64(whole), uint64(h))
		w = w*w*w*w + 0.001
		sum += w
		before += w * min(max(hour-float64(h), 0), 1)
	}
	return whole + before/sum
}
