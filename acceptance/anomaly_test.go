package acceptance

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden/app"
	"github.com/simwarden/simwarden/carrier"
	"github.com/simwarden/simwarden/carrier/soracom"
	"github.com/simwarden/simwarden/internal/store"
)

// narrow is a carrier whose counters have 32 bits: Soracom's API, whose real ones have more.
const narrow = "narrow"

func init() { carrier.Register(narrow, narrowDriver{}) }

type narrowDriver struct{ soracom.Driver }

func (d narrowDriver) Info() carrier.Info {
	info := d.Driver.Info()
	info.Name, info.Title, info.Usage.WrapBytes = narrow, "a carrier whose counters have 32 bits", 1<<32
	return info
}

// U1: what is used while a counter of 32 bits runs over is booked, and what is used after it, to the byte.
func TestU1ARollOverIsCounted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, narrow)
	w.run()
	const full = 1 << 32
	w.carrier.WrapUsage(full)
	c, sub := w.running(time.Hour, full+20_000)
	used := int64(0)
	for _, more := range []int64{full/2 - 2000, full/2 - 3000, 12_000, 3000} {
		used += more
		w.must(w.carrier.AddUsage(c.iccid, more))
		eventually(t, "what was used is booked", func() bool {
			return w.count(`SELECT count(*) FROM subscription WHERE id = $1 AND used_bytes = $2`, sub.ID, used) == 1
		})
	}
	if n := w.count(`SELECT count(*) FROM event WHERE sim_id = $1 AND kind = 'usage_rolled_over'`, c.id); n != 1 {
		t.Errorf("%d events of a roll-over, want one", n)
	}
	if n := w.count(`SELECT count(*) FROM alert WHERE sim_id = $1 AND kind = $2`, c.id, store.AlertUsage); n != 0 {
		t.Errorf("%d alerts of something odd", n)
	}
	w.unchanged(c, "there is data left")
	w.must(w.carrier.AddUsage(c.iccid, 20_000))
	w.stops(c)
}

// A carrier's counter falls within its period, as at a correction or where 32 bits run over, and later
// rises again (U2, F28); another's grows by the factor of another unit and comes back (F29). Neither books a
// byte that was not used, nor suspends, and the alert is over when the figures are right again.
func TestU2AnAnomalyOfACounterIsToldAndIsOverByItself(t *testing.T) {
	eachCarrier(t, func(t *testing.T, driver string) {
		w := newWorld(t, driver)
		w.run(func(c *app.Config) { c.LookEvery = 200 * time.Millisecond })
		const full = 1 << 32
		alerts := func(c card, open bool, outcome string) int {
			return w.count(`SELECT count(*) FROM alert WHERE sim_id = $1 AND kind = $2 AND (cleared_at IS NULL) = $3 AND key LIKE '%:' || $4 || ':%'`,
				c.id, store.AlertUsage, open, outcome)
		}
		for _, row := range []struct {
			sentence string
			outcome  string
			first    int64 // used before
			odd      int64 // what the carrier adds wrongly
			then     int64 // what is used once it is right again
		}{
			{"a counter of 32 bits runs over", "fell", full - 5000, -(full - 5000 - 1234), 5000},
			{"a correction takes some back", "fell", 50_000_000, -20_000_000, 3000},
			{"kilobytes become bytes", "jumped", 1_000_000, 999_000_000, 4000},
		} {
			c, sub := w.running(time.Hour, 1<<40)
			w.must(w.carrier.AddUsage(c.iccid, row.first))
			booked := func(bytes int64) func() bool {
				return func() bool {
					return w.count(`SELECT count(*) FROM subscription WHERE id = $1 AND used_bytes = $2`, sub.ID, bytes) == 1
				}
			}
			eventually(t, row.sentence+": what was used is booked", booked(row.first))
			w.must(w.carrier.AddUsage(c.iccid, row.odd))
			eventually(t, row.sentence+": the alert is open", func() bool { return alerts(c, true, row.outcome) == 1 })
			if !booked(row.first)() {
				t.Errorf("%s: something else than what was used is booked", row.sentence)
			}
			w.must(w.carrier.AddUsage(c.iccid, -row.odd+row.then))
			eventually(t, row.sentence+": what was used since is booked", booked(row.first+row.then))
			eventually(t, row.sentence+": the alert is over", func() bool { return alerts(c, true, row.outcome) == 0 && alerts(c, false, row.outcome) >= 1 })
			if list := w.commands(c); len(list) != 0 {
				t.Errorf("%s: there are commands: %s", row.sentence, describe(list))
			}
		}
	})
}
