package check_test

import (
	"testing"
	"time"

	"github.com/simwarden/simwarden"
	"github.com/simwarden/simwarden/internal/check"
)

// reads keeps one reading of SIM 1's counter, with what of it is booked on its lifetime and on its day.
func (b *books) reads(when time.Time, counterBytes, lifetimeDelta, dayDelta int64) {
	b.t.Helper()
	b.exec(`UPDATE poll_state SET usage_counter_bytes = $1, usage_period_start_at = '2026-05-01', usage_read_at = $2, lifetime_bytes = lifetime_bytes + $3 WHERE sim_id = 1`,
		counterBytes, when, lifetimeDelta)
	b.exec(`INSERT INTO usage_day AS u (sim_id, day, bytes) VALUES (1, '2026-05-04', $1) ON CONFLICT (sim_id, day) DO UPDATE SET bytes = u.bytes + $1`, dayDelta)
}

// lied is a reading in which the carrier lied, of all SIMs where none is named.
func lied(op simwarden.Operation, iccid, fault string) []check.Line {
	l := read(at(60), "")
	l.Operation, l.ICCID, l.Fault = op, iccid, fault
	return []check.Line{l}
}

func TestV16UsageIsTheCarriers(t *testing.T) {
	const mega = 1_000_000
	// used is a SIM that uses a megabyte every minute from noon on.
	used := check.Input{UsedBytes: func(iccid string, at time.Time) (int64, bool) {
		return 5*mega + int64(max(at.Sub(noon), 0)/time.Minute)*mega, iccid == card
	}}
	twiceRead := func(lifetime int64) func(*books) []check.Line {
		return func(b *books) []check.Line {
			b.reads(at(1), 5*mega, 0, 0)
			b.reads(at(121), 7*mega, lifetime, lifetime)
			return nil
		}
	}
	judge(t, []row{
		{"V16: two readings and the delta between", twiceRead(2 * mega), "", used},
		{"V16: more was booked than used", twiceRead(4 * mega), "V16", used},
		{"V16: less was booked than used", twiceRead(mega / 2), "V16", used},
		{"V16: without the carrier's word nothing is compared", twiceRead(4 * mega), "", check.Input{}},
		{"V16: a carrier that told of other units is not compared", func(b *books) []check.Line {
			twiceRead(9 * mega)(b)
			return lied(simwarden.OpQueryUsage, card, "unit_change")
		}, "", used},
		{"V16: nor is an account whose list of usage lacked some", func(b *books) []check.Line {
			twiceRead(9 * mega)(b)
			return lied(simwarden.OpListUsage, "", "slow,list_missing")
		}, "", used},
		{"V16: a list of states that lied leaves it to be compared", func(b *books) []check.Line {
			twiceRead(9 * mega)(b)
			return lied(simwarden.OpListSIMs, "", "list_missing")
		}, "V16", used},
		{"V16: so does a stale reading of the state", func(b *books) []check.Line {
			twiceRead(9 * mega)(b)
			return lied(simwarden.OpQueryState, card, "stale_read")
		}, "V16", used},
		{"V16: nor a SIM whose counter was not believed", func(b *books) []check.Line {
			b.event("usage_anomaly", at(60), map[string]any{})
			return twiceRead(0)(b)
		}, "", used},
		{"V16: one reading booked twice", func(b *books) []check.Line {
			b.reads(at(1), 5*mega, 0, 0)
			b.reads(at(121), 7*mega, mega, mega)
			b.reads(at(121), 7*mega, mega, mega)
			return nil
		}, "V16", used},
		{"V16: the same reading again without a delta", func(b *books) []check.Line {
			twiceRead(2 * mega)(b)
			b.reads(at(121), 7*mega, 0, 0)
			return nil
		}, "", used},
		{"V16: the lifetime fell", func(b *books) []check.Line {
			twiceRead(2 * mega)(b)
			b.reads(at(122), 7*mega, -mega, -mega)
			b.reads(at(123), 7*mega, mega, mega)
			return nil
		}, "V16", used},
		{"V16: the days do not sum to it", func(b *books) []check.Line {
			b.reads(at(1), 5*mega, 0, 0)
			b.reads(at(121), 7*mega, 2*mega, mega)
			return nil
		}, "V16", used},
		{"V16: what was used before the first reading was booked", func(b *books) []check.Line {
			b.reads(at(1), 5*mega, 5*mega, 5*mega)
			return nil
		}, "V16", check.Input{}},
	})
}
