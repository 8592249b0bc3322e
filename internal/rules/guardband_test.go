package rules_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/rules"
)

// guarded is a SIM that used so much of 1 GB and is promised 50 MB beyond at 0.95: read a minute ago
// for five minutes before that, read again in an hour, and stopped within two minutes.
func guarded(used int64, bytesPerSecond float64, more ...change) rules.Facts {
	f := healthy(append([]change{func(f *rules.Facts) {
		f.Subscriptions = []rules.SubscriptionFact{mainPlan(used)}
		f.GuardBand = &rules.GuardBand{SubscriptionID: 1, Bytes: 50_000_000, Probability: 0.95, Latency: 2 * time.Minute, CarrierLag: 15 * time.Minute,
			Lines: []rules.GuardBandLine{{SIMID: 1, BytesPerSecond: bytesPerSecond, ReadAt: noon.Add(-time.Minute),
				TrueAt: noon.Add(-6 * time.Minute), NextReadAt: noon.Add(time.Hour)}}}
	}}, more...)...)
	return f
}

func TestE12TheGuardBandStopsEarlyEnough(t *testing.T) {
	line := func(c func(*rules.GuardBandLine)) change { return func(f *rules.Facts) { c(&f.GuardBand.Lines[0]) } }
	stopped := func(allowance, used int64) change {
		return func(f *rules.Facts) {
			f.GuardBand.Stop = &rules.GuardBandStop{OrderedAt: noon.Add(-time.Hour), AllowanceBytes: allowance, UsedBytes: used}
		}
	}
	const gb = 1_000_000_000
	// From six minutes ago until two minutes after the next reading are 4,080 seconds.
	for _, row := range []struct {
		sentence string
		facts    rules.Facts
		suspends bool
		saw      string // in the guard band's check
	}{
		{"950 MB and 24 kB a second come to 1,048 MB: it runs on", guarded(950_000_000, 24_000), false, "1.05 GB"},
		{"950 MB and 25 kB a second come to 1,052 MB: it is stopped", guarded(950_000_000, 25_000), true, "25.00 kB"},
		{"at the allowance it is stopped however slow it is", guarded(gb, 0), true, "promised at most 50.00 MB"},
		{"below it a SIM that uses nothing runs on", guarded(gb-1, 0), false, ""},
		{"less than half used is never taken away, and the check says so", guarded(499_999_999, 1_000_000), false, "may be broken"},
		{"from half on it may be", guarded(500_000_000, 1_000_000), true, ""},
		{"a reading that does not say of when it is counts as old as the carrier's usually are",
			guarded(950_000_000, 23_000, line(func(l *rules.GuardBandLine) { l.TrueAt = l.ReadAt })), true, "1h18m0s"},
		{"a reading that is overdue is waited for no longer than now",
			guarded(950_000_000, 24_000, line(func(l *rules.GuardBandLine) { l.NextReadAt = noon.Add(-time.Hour) })), false, "8m0s"},
		{"two SIMs of a device spend together",
			guarded(950_000_000, 13_000, func(f *rules.Facts) { f.GuardBand.Lines = append(f.GuardBand.Lines, f.GuardBand.Lines[0]) }), true, "26.00 kB"},
		{"a stop lasts where the SIM uses nothing any more", guarded(950_000_000, 0, stopped(gb, 950_000_000)), true, "stopped early at"},
		{"a stop is over when the allowance has grown", guarded(950_000_000, 0, stopped(gb-1, 950_000_000)), false, ""},
		{"a stop is over when the allowance was filled again", guarded(10, 0, stopped(gb, 950_000_000)), false, ""},
		{"under pause nothing is stopped (E5)", guarded(950_000_000, 25_000, func(f *rules.Facts) { f.SIMPaused = true }), false, ""},
	} {
		d := rules.Decide(row.facts)
		i := slices.IndexFunc(d.Checks, func(c simwarden.Check) bool { return c.Name == rules.CheckGuardBand })
		if i < 0 {
			t.Fatalf("%s: there is no check of the guard band in %v", row.sentence, d.Checks)
		}
		if got := d.Desired == simwarden.DesiredSuspended; got != row.suspends || got && d.Reason != simwarden.ReasonDataExhausted {
			t.Errorf("%s: it is to be %s for %s: %s", row.sentence, d.Desired, d.Reason, d.Checks[i].Saw)
		}
		if !strings.Contains(d.Checks[i].Saw, row.saw) {
			t.Errorf("%s: the check saw %q, want %q in it", row.sentence, d.Checks[i].Saw, row.saw)
		}
	}
	plain := rules.Decide(healthy(used(999_999_999)))
	if slices.ContainsFunc(plain.Checks, func(c simwarden.Check) bool { return c.Name == rules.CheckGuardBand }) || plain.Desired != simwarden.DesiredRunning {
		t.Errorf("without a guard band nothing may be other than before: %v", plain)
	}
}

func TestE12RatesAreOfBytesNotOfTime(t *testing.T) {
	var quiet, streams, none rules.Rates
	for range 200 {
		quiet = quiet.Add(3_600, time.Hour) // a byte a second
	}
	streams = quiet.Add(3_600_000_000, time.Hour) // a megabyte a second, once
	if got := quiet.AtShare(0.975, none); got != 1 {
		t.Errorf("a SIM of a byte a second has the rate %v", got)
	}
	if got := streams.AtShare(0.975, none); got < 1e6 || got > 1.5e6 {
		t.Errorf("nearly all bytes flowed at a megabyte a second, and the rate is %v", got)
	}
	if got := none.AtShare(0.975, streams); got < 1e6 {
		t.Errorf("a SIM of which nothing is known is as its like: %v", got)
	}
	few := none.Add(3_600, time.Hour)
	if got := few.AtShare(0.975, streams); got < 1e6 {
		t.Errorf("one reading is not enough to know a SIM: %v", got)
	}
	if got := quiet.AtShare(0.975, streams); got != 1 {
		t.Errorf("two hundred are: %v", got)
	}
	if got := none.AtShare(0.975, none); got != 0 {
		t.Errorf("of nothing nothing is known: %v", got)
	}
	faded := streams
	for range 200 {
		faded = faded.Add(86_400, 24*time.Hour)
	}
	if got := faded.AtShare(0.9, none); got > 1 {
		t.Errorf("a burst of half a year ago has faded: %v", got)
	}
	if got := none.Add(math.MaxInt64, 0).AtShare(0.975, none); got < 1e9 {
		t.Errorf("the fastest there is: %v", got)
	}
}

func TestE12LatencyIsMeasured(t *testing.T) {
	seconds := []float64{1, 2, 3, 4, 5, 6, 7, 8}
	for _, row := range []struct {
		sentence string
		seconds  []float64
		suspends int64
		share    float64
		want     time.Duration
	}{
		{"what covers 97.5 %", seconds, 20, rules.ShareOf(0.95), 5 * time.Second},
		{"what covers at least 96 %", seconds, 20, 0.96, 5 * time.Second},
		{"all", seconds, 20, rules.ShareOf(0.999), 8 * time.Second},
		{"too few to believe", seconds, 19, 0.975, 2 * time.Minute},
		{"never measured", nil, 0, 0.975, 2 * time.Minute},
	} {
		if got := rules.LatencyAt(row.seconds, row.suspends, row.share); got != row.want {
			t.Errorf("%s: %s, want %s", row.sentence, got, row.want)
		}
	}
}

// spender is a simulated SIM: how much it uses is Pareto over the fleet, and within a day a few hours take
// most of it. A streamer has days at a fraction of that and days of many times as much.
type spender struct {
	perDay   float64
	streamer bool
	random   *rand.Rand
	used     []float64 // at the end of each quarter of an hour
}

const quarter = 15 * time.Minute

func newSpender(random *rand.Rand, days int, streamer bool) *spender {
	s := &spender{perDay: 2e6 * math.Min(math.Pow(1-random.Float64(), -1/1.2), 5000), streamer: streamer, random: random}
	total := 0.0
	for range days {
		day := s.perDay
		if s.streamer {
			day *= 0.1
			if random.Float64() < 0.3 {
				day *= 30
			}
		}
		var weights [24]float64
		all := 0.0
		for h := range weights {
			w := random.Float64()
			weights[h] = w*w*w*w + 0.001
			all += weights[h]
		}
		for q := range 96 {
			total += day * weights[q/4] / all / 4
			s.used = append(s.used, total)
		}
	}
	return s
}

// at is what it had used after a time.
func (s *spender) at(after time.Duration) float64 {
	q := int(after / quarter)
	if q <= 0 {
		return s.used[0] * after.Seconds() / quarter.Seconds()
	}
	if q >= len(s.used) {
		return s.used[len(s.used)-1]
	}
	part := float64(after%quarter) / float64(quarter)
	return s.used[q-1] + part*(s.used[q]-s.used[q-1])
}

// TestE12ThePromiseIsKept lets fleets of heavy-tailed SIMs run into their allowances. The stop takes
// effect only after readings that come late and a command that takes its time.
func TestE12ThePromiseIsKept(t *testing.T) {
	const fleet, learn, days = 100, 30, 75
	promises, kept, early := map[float64]int{}, map[float64]int{}, 0
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 12))
		every := time.Duration(rapid.IntRange(1, 8).Draw(t, "read every quarters of an hour")) * quarter
		lag := time.Duration(rapid.IntRange(0, 120).Draw(t, "late by minutes")) * time.Minute
		band := rapid.Float64Range(0, 0.3).Draw(t, "band in days of usage")
		probability := rapid.SampledFrom([]float64{0.8, 0.95, 0.99}).Draw(t, "probability")
		streamers := rapid.IntRange(0, 50).Draw(t, "streamers of a hundred")
		took := func() time.Duration { return time.Duration(30*math.Exp(random.NormFloat64())) * time.Second }
		var latencies []float64
		for range 1000 {
			latencies = append(latencies, took().Seconds())
		}
		slices.Sort(latencies)
		atShares := make([]float64, len(rules.LatencyShares))
		for i, share := range rules.LatencyShares {
			atShares[i] = latencies[min(int(share*1000), 999)]
		}
		latency := rules.LatencyAt(atShares, 1000, rules.ShareOf(probability))

		var sims []*spender
		var rates []rules.Rates
		like := rules.Rates{Bytes: make([]float64, 68)}
		for i := range fleet {
			s := newSpender(random, days, i < streamers)
			var r rules.Rates
			for at := every; at <= learn*24*time.Hour; at += every {
				if delta := int64(s.at(at-lag)) - int64(s.at(at-lag-every)); at-lag-every > 0 && delta > 0 {
					r = r.Add(delta, every)
				}
			}
			for k, v := range r.Bytes {
				like.Bytes[k] += v
			}
			sims, rates = append(sims, s), append(rates, r)
		}
		n, good := 0, 0
		for i, s := range sims {
			begun := learn * 24 * time.Hour
			allowance := int64(s.perDay * (8 + 12*random.Float64()))
			guard := int64(band * s.perDay)
			base := s.at(begun)
			r := rates[i]
			for at := begun + every; at < days*24*time.Hour-24*time.Hour; at += every {
				if delta := int64(s.at(at-lag)) - int64(s.at(at-lag-every)); delta > 0 {
					r = r.Add(delta, every)
				}
				used := int64(math.Max(s.at(at-lag)-base, 0))
				now := noon.Add(at)
				f := rules.Facts{NowAt: now, Subscriptions: []rules.SubscriptionFact{{ID: 1, Kind: simwarden.PlanMain, StartAt: noon, EndAt: noon.AddDate(1, 0, 0),
					AllowanceBytes: allowance, UsedBytes: used}},
					GuardBand: &rules.GuardBand{SubscriptionID: 1, Bytes: guard, Probability: probability, Latency: latency,
						Lines: []rules.GuardBandLine{{SIMID: 1, BytesPerSecond: r.AtShare(rules.ShareOf(probability), like),
							ReadAt: now, TrueAt: now.Add(-lag - time.Nanosecond), NextReadAt: now.Add(every)}}}}
				p, ok := f.Project()
				if !ok {
					t.Fatal("nothing is promised")
				}
				if !p.Stop && used < allowance {
					continue
				}
				n++
				if used < allowance {
					early++
				}
				if int64(s.at(at+took())-base) <= allowance+guard {
					good++
				}
				break
			}
		}
		promises[probability] += n
		kept[probability] += good
		// Of one fleet chance may have its part; of all together it has none.
		if slack := 4 * math.Sqrt(probability*(1-probability)/float64(max(n, 1))); float64(good) < (probability-slack)*float64(n) {
			t.Errorf("of %d promises %d were kept, promised with probability %v", n, good, probability)
		}
	})
	for probability, n := range promises {
		t.Logf("promised with %v: %d stops, %.4f kept", probability, n, float64(kept[probability])/float64(n))
		if share := float64(kept[probability]) / float64(n); share < probability {
			t.Errorf("promised with %v: of %d only %.4f were kept", probability, n, share)
		}
	}
	if early == 0 {
		t.Error("no stop was early: nothing was tried")
	}
}
